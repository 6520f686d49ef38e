#include "client/tls.h"

#include "client/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct hspz_secure {
    int fd;
    int error; /* errno of the socket, when it failed */
    SSL_CTX *context;
    BIO_METHOD *method;
    SSL *ssl;
};

/* The socket as a BIO. OpenSSL's own would raise SIGPIPE. */
static int
socket_write(BIO *bio, const char *bytes, int len)
{
    struct hspz_secure *secure = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t n = send(secure->fd, bytes, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) {
        BIO_set_retry_write(bio);
    } else if (n < 0) {
        secure->error = errno;
    }
    return (int)n;
}

static int
socket_read(BIO *bio, char *bytes, int room)
{
    struct hspz_secure *secure = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t n = recv(secure->fd, bytes, (size_t)room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_read(bio);
    } else if (n < 0) {
        secure->error = errno;
    } else if (n == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    }
    return (int)n;
}

static long
socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:
        return 0;
    }
}

static int
socket_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static int
no_passphrase(char *text, int room, int writing, void *user)
{
    (void)text;
    (void)room;
    (void)writing;
    (void)user;
    return 0;
}

static enum hspz_status
tls_error(struct hspz_error *err, enum hspz_status status, const char *what)
{
    const unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    char text[128] = "failed";
    if (reason == NULL && code != 0) {
        ERR_error_string_n(code, text, sizeof(text));
    }
    ERR_clear_error();
    if (code != 0 && ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", what);
    }
    return hspz_error_set(err, status, "%s: %s", what, reason != NULL ? reason : text);
}

static enum hspz_status
check_file(const char *path, const char *what, struct hspz_error *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read the %s", path, what);
    }
    fclose(file);
    return HSPZ_OK;
}

static enum hspz_status
load_ca(SSL_CTX *context, const char *path, struct hspz_error *err)
{
    if (path == NULL) {
        return SSL_CTX_set_default_verify_paths(context) == 1
                   ? HSPZ_OK
                   : tls_error(err, HSPZ_E_IO, "the system's certificates");
    }
    const enum hspz_status status = check_file(path, "certificates", err);
    if (status != HSPZ_OK) {
        return status;
    }
    return SSL_CTX_load_verify_file(context, path) == 1 ? HSPZ_OK
                                                        : tls_error(err, HSPZ_E_BAD_FILE, path);
}

static enum hspz_status
load_own(SSL_CTX *context, const struct hspz_secure_options *options, struct hspz_error *err)
{
    if (options->certificate_file == NULL && options->key_file == NULL) {
        return HSPZ_OK;
    }
    if (options->certificate_file == NULL || options->key_file == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a certificate and its key need each other");
    }
    enum hspz_status status = check_file(options->certificate_file, "certificate", err);
    if (status == HSPZ_OK) {
        status = check_file(options->key_file, "key", err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate_file) != 1) {
        return tls_error(err, HSPZ_E_BAD_FILE, options->certificate_file);
    }
    if (SSL_CTX_use_PrivateKey_file(context, options->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return tls_error(err, HSPZ_E_BAD_FILE, options->key_file);
    }
    return HSPZ_OK;
}

/* The certificate has to name the host, or the address. */
static bool
want_name(SSL *ssl, const char *name)
{
    uint8_t address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static enum hspz_status
make_ssl(struct hspz_secure *secure, const struct hspz_secure_options *options,
         struct hspz_error *err)
{
    ERR_clear_error();
    secure->context = SSL_CTX_new(TLS_client_method());
    if (secure->context == NULL ||
        SSL_CTX_set_min_proto_version(secure->context, TLS1_3_VERSION) != 1) {
        return tls_error(err, HSPZ_E_OUT_OF_MEMORY, "TLS");
    }
    SSL_CTX_set_verify(secure->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(secure->context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* An end without notice is an end; whether all came is told by what came. */
    SSL_CTX_set_options(secure->context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    enum hspz_status status = load_ca(secure->context, options->ca_file, err);
    if (status == HSPZ_OK) {
        status = load_own(secure->context, options, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    secure->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "hspz socket");
    secure->ssl = SSL_new(secure->context);
    BIO *bio = NULL;
    if (secure->method != NULL && secure->ssl != NULL &&
        BIO_meth_set_write(secure->method, socket_write) == 1 &&
        BIO_meth_set_read(secure->method, socket_read) == 1 &&
        BIO_meth_set_ctrl(secure->method, socket_control) == 1 &&
        BIO_meth_set_create(secure->method, socket_create) == 1) {
        bio = BIO_new(secure->method);
    }
    if (bio == NULL) {
        return tls_error(err, HSPZ_E_OUT_OF_MEMORY, "TLS");
    }
    BIO_set_data(bio, secure);
    SSL_set_bio(secure->ssl, bio, bio);
    return want_name(secure->ssl, options->name)
               ? HSPZ_OK
               : tls_error(err, HSPZ_E_BAD_REQUEST, options->name);
}

/* The server closed the connection, as the kernel tells it when not everything was read. */
static bool
was_reset(const struct hspz_secure *secure)
{
    return secure->error == ECONNRESET || secure->error == EPIPE;
}

static enum hspz_status
handshake_failed(const struct hspz_secure *secure, const char *name, const char *where,
                 struct hspz_error *err)
{
    const long verified = SSL_get_verify_result(secure->ssl);
    if (verified != X509_V_OK) {
        ERR_clear_error();
        return hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                              "%s: its certificate is not taken for %s: %s", where, name,
                              X509_verify_cert_error_string(verified));
    }
    if (was_reset(secure)) {
        ERR_clear_error();
        return hspz_error_set(err, HSPZ_E_INCOMPLETE, "%s: the server closed the connection",
                              where);
    }
    if (secure->error != 0) {
        ERR_clear_error();
        return hspz_error_errno(err, HSPZ_E_INCOMPLETE, secure->error, "%s: the connection broke",
                                where);
    }
    char what[HSPZ_ADDRESS_TEXT_BYTES + 8];
    snprintf(what, sizeof(what), "%s: TLS", where);
    return ERR_peek_error() != 0 ? tls_error(err, HSPZ_E_BAD_PEER, what)
                                 : hspz_error_set(err, HSPZ_E_INCOMPLETE,
                                                  "%s: the server closed the connection", where);
}

static enum hspz_status
shake_hands(struct hspz_secure *secure, const char *name, const char *where, int64_t timeout_ms,
            int stop_fd, struct hspz_error *err)
{
    const int64_t until = hspz_clock_ms() + timeout_ms;
    for (;;) {
        ERR_clear_error();
        const int result = SSL_connect(secure->ssl);
        if (result == 1) {
            return HSPZ_OK;
        }
        const int why = SSL_get_error(secure->ssl, result);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
            return handshake_failed(secure, name, where, err);
        }
        short got = 0;
        const int64_t left = until - hspz_clock_ms();
        const enum hspz_status status =
            left <= 0 ? HSPZ_OK
                      : hspz_socket_wait(secure->fd, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT,
                                         stop_fd, left, &got);
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "%s: %s", where, hspz_status_text(status));
        }
        if (got == 0) {
            return hspz_error_set(err, HSPZ_E_NO_SERVER, "%s: no TLS handshake in time", where);
        }
    }
}

bool
hspz_secure_built(void)
{
    return true;
}

enum hspz_status
hspz_secure_open(int fd, const struct hspz_secure_options *options, const char *where,
                 int64_t timeout_ms, int stop_fd, struct hspz_secure **out, struct hspz_error *err)
{
    struct hspz_secure *secure = calloc(1, sizeof(*secure));
    if (secure == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a connection");
    }
    secure->fd = fd;
    enum hspz_status status = make_ssl(secure, options, err);
    if (status == HSPZ_OK) {
        status = shake_hands(secure, options->name, where, timeout_ms, stop_fd, err);
    }
    if (status != HSPZ_OK) {
        hspz_secure_close(&secure);
        return status;
    }
    *out = secure;
    return HSPZ_OK;
}

void
hspz_secure_close(struct hspz_secure **secure)
{
    if (*secure == NULL) {
        return;
    }
    if ((*secure)->ssl != NULL && SSL_is_init_finished((*secure)->ssl)) {
        (void)SSL_shutdown((*secure)->ssl);
    }
    ERR_clear_error();
    SSL_free((*secure)->ssl);
    BIO_meth_free((*secure)->method);
    SSL_CTX_free((*secure)->context);
    free(*secure);
    *secure = NULL;
}

static bool
would_block(const struct hspz_secure *secure)
{
    const int why = SSL_get_error(secure->ssl, 0);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

enum hspz_status
hspz_secure_send(struct hspz_secure *secure, const void *bytes, size_t len, size_t *sent)
{
    *sent = 0;
    ERR_clear_error();
    if (SSL_write_ex(secure->ssl, bytes, len, sent) == 1) {
        return HSPZ_OK;
    }
    *sent = 0;
    const enum hspz_status status = would_block(secure) ? HSPZ_OK : HSPZ_E_INCOMPLETE;
    ERR_clear_error();
    return status;
}

enum hspz_status
hspz_secure_receive(struct hspz_secure *secure, void *bytes, size_t room, size_t *got, bool *ended,
                    const char *where, struct hspz_error *err)
{
    *got = 0;
    *ended = false;
    ERR_clear_error();
    if (SSL_read_ex(secure->ssl, bytes, room, got) == 1) {
        return HSPZ_OK;
    }
    *got = 0;
    if (would_block(secure)) {
        return HSPZ_OK;
    }
    /* An alert about our certificate comes after our side of the handshake is done, and says more
     * than the reset that may follow it. */
    const int reason = ERR_GET_REASON(ERR_peek_error());
    const bool alert = reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
    if (!alert && (SSL_get_error(secure->ssl, 0) == SSL_ERROR_ZERO_RETURN || was_reset(secure))) {
        ERR_clear_error();
        *ended = true;
        return HSPZ_OK;
    }
    if (!alert && secure->error != 0) {
        ERR_clear_error();
        return hspz_error_errno(err, HSPZ_E_INCOMPLETE, secure->error, "%s: the connection broke",
                                where);
    }
    char what[HSPZ_ADDRESS_TEXT_BYTES + 8];
    snprintf(what, sizeof(what), "%s: TLS", where);
    return tls_error(err, alert ? HSPZ_E_UNAUTHORIZED : HSPZ_E_BAD_PEER, what);
}

bool
hspz_secure_pending(const struct hspz_secure *secure)
{
    return SSL_pending(secure->ssl) > 0;
}
