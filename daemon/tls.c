#include "daemon/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDSHAKE_ROUNDS 16u
#define PAIR_BYTES 131072u /* more than a flight of messages with a long chain */

struct hspz_tls_context {
    SSL_CTX *ssl;
    bool valid_now;
    char expires[40];
};

struct hspz_tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    bool failed;   /* only what is pending may still be sent */
};

/* A key that needs a passphrase fails, rather than ask for it on a terminal. */
static int
no_passphrase(char *text, int room, int writing, void *user)
{
    (void)text;
    (void)room;
    (void)writing;
    (void)user;
    return 0;
}

/* The oldest of OpenSSL's errors says what, the later ones from where it was called. */
static enum hspz_status
tls_error(struct hspz_error *err, enum hspz_status status, const char *what)
{
    const unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    char text[128] = "unknown";
    if (reason == NULL && code != 0) {
        ERR_error_string_n(code, text, sizeof(text));
        reason = text;
    }
    ERR_clear_error();
    if (code != 0 && ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", what);
    }
    return hspz_error_set(err, status, "%s: %s", what, reason != NULL ? reason : "failed");
}

static enum hspz_status
check_readable(const char *option, const char *path, struct hspz_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: %s", option, path);
    }
    /* To read a pipe would stop the daemon. */
    return S_ISREG(st.st_mode)
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_IO, "%s: %s is no regular file", option, path);
}

static enum hspz_status
file_error(const char *option, const char *path, struct hspz_error *err)
{
    char what[300];
    snprintf(what, sizeof(what), "%s: %.250s", option, path);
    return tls_error(err, HSPZ_E_BAD_FILE, what);
}

static enum hspz_status
load_certificate(SSL_CTX *ssl, const struct hspz_tls_files *files, struct hspz_error *err)
{
    enum hspz_status status = check_readable("tls_certificate", files->certificate, err);
    if (status == HSPZ_OK) {
        status = check_readable("tls_key", files->key, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate) != 1) {
        return file_error("tls_certificate", files->certificate, err);
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1) {
        return file_error("tls_key", files->key, err);
    }
    return HSPZ_OK;
}

static enum hspz_status
load_client_ca(SSL_CTX *ssl, const char *path, struct hspz_error *err)
{
    enum hspz_status status = check_readable("tls_client_ca", path, err);
    if (status != HSPZ_OK) {
        return status;
    }
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (names == NULL || SSL_CTX_load_verify_file(ssl, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return file_error("tls_client_ca", path, err);
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    /* One that shows none may still have a token. */
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    return HSPZ_OK;
}

/* Takes both ends of a handshake to their ends; false when they do not meet. */
static bool
shake_hands(SSL *server, SSL *client)
{
    bool more = true;
    for (unsigned round = 0; round < HANDSHAKE_ROUNDS && more; round++) {
        const int client_done = SSL_connect(client);
        const int server_done = SSL_accept(server);
        more = client_done != 1 || server_done != 1;
        if ((client_done != 1 && SSL_get_error(client, client_done) != SSL_ERROR_WANT_READ) ||
            (server_done != 1 && SSL_get_error(server, server_done) != SSL_ERROR_WANT_READ)) {
            return false;
        }
    }
    return !more;
}

/* A handshake with ourselves. It shows a key that TLS 1.3 has no use for, and an OpenSSL that
 * lacked memory for an algorithm, which it then does without; and it has made what is made on first
 * use. */
static enum hspz_status
try_out(SSL_CTX *ssl, struct hspz_error *err)
{
    SSL_CTX *client_context = SSL_CTX_new(TLS_client_method());
    SSL *server = SSL_new(ssl);
    SSL *client = client_context != NULL ? SSL_new(client_context) : NULL;
    BIO *server_end = NULL, *client_end = NULL;
    enum hspz_status status = HSPZ_E_OUT_OF_MEMORY;
    if (server != NULL && client != NULL &&
        BIO_new_bio_pair(&server_end, PAIR_BYTES, &client_end, PAIR_BYTES) == 1) {
        SSL_set_bio(server, server_end, server_end);
        SSL_set_bio(client, client_end, client_end);
        status = shake_hands(server, client) ? HSPZ_OK : HSPZ_E_BAD_FILE;
    }
    if (status != HSPZ_OK) {
        status = tls_error(err, status, "TLS cannot be served with this certificate and key");
    }
    SSL_free(client);
    SSL_free(server);
    SSL_CTX_free(client_context);
    ERR_clear_error();
    return status;
}

static void
note_dates(struct hspz_tls_context *context)
{
    const X509 *certificate = SSL_CTX_get0_certificate(context->ssl);
    const ASN1_TIME *begin = X509_get0_notBefore(certificate);
    const ASN1_TIME *end = X509_get0_notAfter(certificate);
    context->valid_now = X509_cmp_current_time(begin) < 0 && X509_cmp_current_time(end) > 0;
    BIO *text = BIO_new(BIO_s_mem());
    if (text != NULL && ASN1_TIME_print(text, end) == 1) {
        const int len = BIO_read(text, context->expires, sizeof(context->expires) - 1);
        context->expires[len > 0 ? len : 0] = '\0';
    }
    BIO_free(text);
    ERR_clear_error();
}

enum hspz_status
hspz_tls_context_create(const struct hspz_tls_files *files, struct hspz_tls_context **out,
                        struct hspz_error *err)
{
    ERR_clear_error();
    struct hspz_tls_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "TLS: out of memory");
    }
    enum hspz_status status = HSPZ_OK;
    context->ssl = SSL_CTX_new(TLS_server_method());
    if (context->ssl == NULL || SSL_CTX_set_min_proto_version(context->ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(context->ssl, 0) != 1) {
        status = tls_error(err, HSPZ_E_INTERNAL, "TLS");
    } else {
        SSL_CTX_set_options(context->ssl, SSL_OP_NO_TICKET);
        SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_default_passwd_cb(context->ssl, no_passphrase);
        status = load_certificate(context->ssl, files, err);
    }
    if (status == HSPZ_OK && files->client_ca != NULL) {
        status = load_client_ca(context->ssl, files->client_ca, err);
    }
    if (status == HSPZ_OK) {
        status = try_out(context->ssl, err);
    }
    if (status != HSPZ_OK) {
        hspz_tls_context_destroy(&context);
        return status;
    }
    note_dates(context);
    *out = context;
    return HSPZ_OK;
}

void
hspz_tls_context_destroy(struct hspz_tls_context **context)
{
    if (*context != NULL) {
        SSL_CTX_free((*context)->ssl);
        free(*context);
        *context = NULL;
    }
}

const char *
hspz_tls_context_expires(const struct hspz_tls_context *context)
{
    return context->expires;
}

bool
hspz_tls_context_valid_now(const struct hspz_tls_context *context)
{
    return context->valid_now;
}

enum hspz_status
hspz_tls_open(struct hspz_tls_context *context, struct hspz_tls **out)
{
    struct hspz_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        ERR_clear_error();
        return HSPZ_E_OUT_OF_MEMORY;
    }
    BIO_set_mem_eof_return(tls->in, -1);
    BIO_set_mem_eof_return(tls->out, -1);
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_accept_state(tls->ssl);
    *out = tls;
    return HSPZ_OK;
}

void
hspz_tls_close(struct hspz_tls **tls)
{
    if (*tls != NULL) {
        SSL_free((*tls)->ssl);
        free(*tls);
        *tls = NULL;
    }
}

enum hspz_status
hspz_tls_feed(struct hspz_tls *tls, const void *bytes, size_t len)
{
    size_t taken = 0;
    if (BIO_write_ex(tls->in, bytes, len, &taken) != 1 || taken != len) {
        ERR_clear_error();
        return HSPZ_E_OUT_OF_MEMORY;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_tls_read(struct hspz_tls *tls, void *bytes, size_t room, size_t *got, struct hspz_error *err)
{
    *got = 0;
    ERR_clear_error();
    if (SSL_read_ex(tls->ssl, bytes, room, got) == 1) {
        return HSPZ_OK;
    }
    *got = 0;
    switch (SSL_get_error(tls->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return HSPZ_OK;
    case SSL_ERROR_ZERO_RETURN:
        return hspz_error_set(err, HSPZ_E_INCOMPLETE, "end of file");
    default:
        tls->failed = true;
        return tls_error(err, HSPZ_E_BAD_PEER, "TLS");
    }
}

enum hspz_status
hspz_tls_write(struct hspz_tls *tls, const void *bytes, size_t len)
{
    size_t taken = 0;
    ERR_clear_error();
    if (len > 0 && (SSL_write_ex(tls->ssl, bytes, len, &taken) != 1 || taken != len)) {
        tls->failed = true;
        struct hspz_error err;
        return tls_error(&err, HSPZ_E_INTERNAL, "TLS");
    }
    return HSPZ_OK;
}

bool
hspz_tls_shaken(const struct hspz_tls *tls)
{
    return SSL_is_init_finished(tls->ssl);
}

void
hspz_tls_finish(struct hspz_tls *tls)
{
    if (!tls->failed && SSL_is_init_finished(tls->ssl)) {
        (void)SSL_shutdown(tls->ssl);
        ERR_clear_error();
    }
}

size_t
hspz_tls_pending(const struct hspz_tls *tls)
{
    return BIO_ctrl_pending(tls->out);
}

enum hspz_status
hspz_tls_take(struct hspz_tls *tls, void *bytes, size_t len)
{
    size_t got = 0;
    return BIO_read_ex(tls->out, bytes, len, &got) == 1 && got == len ? HSPZ_OK : HSPZ_E_INTERNAL;
}

bool
hspz_tls_peer(const struct hspz_tls *tls, uint8_t sha256[HSPZ_SHA256_BYTES])
{
    X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    unsigned len = 0;
    const bool got = certificate != NULL && SSL_get_verify_result(tls->ssl) == X509_V_OK &&
                     X509_digest(certificate, EVP_sha256(), sha256, &len) == 1 &&
                     len == HSPZ_SHA256_BYTES;
    ERR_clear_error();
    return got;
}

enum hspz_status
hspz_sha256(const void *bytes, size_t len, uint8_t out[HSPZ_SHA256_BYTES])
{
    unsigned out_len = 0;
    const bool done = EVP_Digest(bytes, len, out, &out_len, EVP_sha256(), NULL) == 1;
    ERR_clear_error();
    return done && out_len == HSPZ_SHA256_BYTES ? HSPZ_OK : HSPZ_E_OUT_OF_MEMORY;
}
