/* Built without OpenSSL. */
#include "daemon/tls.h"

enum hspz_status
hspz_tls_context_create(const struct hspz_tls_files *files, struct hspz_tls_context **out,
                        struct hspz_error *err)
{
    (void)files;
    (void)out;
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "tls_certificate: hspzd was built without TLS");
}

void
hspz_tls_context_destroy(struct hspz_tls_context **context)
{
    (void)context;
}

const char *
hspz_tls_context_expires(const struct hspz_tls_context *context)
{
    (void)context;
    return "";
}

bool
hspz_tls_context_valid_now(const struct hspz_tls_context *context)
{
    (void)context;
    return false;
}

enum hspz_status
hspz_tls_open(struct hspz_tls_context *context, struct hspz_tls **out)
{
    (void)context;
    (void)out;
    return HSPZ_E_UNSUPPORTED;
}

void
hspz_tls_close(struct hspz_tls **tls)
{
    (void)tls;
}

enum hspz_status
hspz_tls_feed(struct hspz_tls *tls, const void *bytes, size_t len)
{
    (void)tls;
    (void)bytes;
    (void)len;
    return HSPZ_E_UNSUPPORTED;
}

enum hspz_status
hspz_tls_read(struct hspz_tls *tls, void *bytes, size_t room, size_t *got, struct hspz_error *err)
{
    (void)tls;
    (void)bytes;
    (void)room;
    (void)got;
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "hspzd was built without TLS");
}

enum hspz_status
hspz_tls_write(struct hspz_tls *tls, const void *bytes, size_t len)
{
    (void)tls;
    (void)bytes;
    (void)len;
    return HSPZ_E_UNSUPPORTED;
}

bool
hspz_tls_shaken(const struct hspz_tls *tls)
{
    (void)tls;
    return true;
}

void
hspz_tls_finish(struct hspz_tls *tls)
{
    (void)tls;
}

size_t
hspz_tls_pending(const struct hspz_tls *tls)
{
    (void)tls;
    return 0;
}

enum hspz_status
hspz_tls_take(struct hspz_tls *tls, void *bytes, size_t len)
{
    (void)tls;
    (void)bytes;
    (void)len;
    return HSPZ_E_UNSUPPORTED;
}

bool
hspz_tls_peer(const struct hspz_tls *tls, uint8_t sha256[HSPZ_SHA256_BYTES])
{
    (void)tls;
    (void)sha256;
    return false;
}

enum hspz_status
hspz_sha256(const void *bytes, size_t len, uint8_t out[HSPZ_SHA256_BYTES])
{
    (void)bytes;
    (void)len;
    (void)out;
    return HSPZ_E_UNSUPPORTED;
}
