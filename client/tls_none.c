/* Built without OpenSSL. */
#include "client/tls.h"

bool
hspz_secure_built(void)
{
    return false;
}

enum hspz_status
hspz_secure_open(int fd, const struct hspz_secure_options *options, const char *where,
                 int64_t timeout_ms, int stop_fd, struct hspz_secure **out, struct hspz_error *err)
{
    (void)fd;
    (void)options;
    (void)timeout_ms;
    (void)stop_fd;
    (void)out;
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "%s: this libhspz was built without TLS", where);
}

void
hspz_secure_close(struct hspz_secure **secure)
{
    (void)secure;
}

enum hspz_status
hspz_secure_send(struct hspz_secure *secure, const void *bytes, size_t len, size_t *sent)
{
    (void)secure;
    (void)bytes;
    (void)len;
    (void)sent;
    return HSPZ_E_UNSUPPORTED;
}

enum hspz_status
hspz_secure_receive(struct hspz_secure *secure, void *bytes, size_t room, size_t *got, bool *ended,
                    const char *where, struct hspz_error *err)
{
    (void)secure;
    (void)bytes;
    (void)room;
    (void)got;
    (void)ended;
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "%s: this libhspz was built without TLS", where);
}

bool
hspz_secure_pending(const struct hspz_secure *secure)
{
    (void)secure;
    return false;
}
