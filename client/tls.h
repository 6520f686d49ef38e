/* TLS 1.3 over a connected socket that does not block.
 *
 * The server's certificate is always verified: by whom it is signed, its dates, its name.
 *
 * Owns:    what it makes; the descriptor stays the caller's.
 * Threads: one at a time.
 * Errors:  HSPZ_E_UNAUTHORIZED (a certificate that is not taken, ours or theirs), HSPZ_E_IO and
 *          HSPZ_E_BAD_FILE (our files), HSPZ_E_BAD_PEER (no TLS 1.3), HSPZ_E_NO_SERVER (not in
 *          time), HSPZ_E_INCOMPLETE, HSPZ_E_STOPPED, HSPZ_E_OUT_OF_MEMORY, HSPZ_E_UNSUPPORTED
 *          (built without OpenSSL). */
#pragma once

#include "client/hspz.h"

struct hspz_secure;

struct hspz_secure_options {
    const char *name;                        /* a host or address that the certificate must name */
    const char *ca_file;                     /* PEM; NULL: the system's */
    const char *certificate_file, *key_file; /* PEM; NULL: none is shown */
};

bool hspz_secure_built(void);
/* `where` names the peer in messages. */
HSPZ_MUST_USE enum hspz_status hspz_secure_open(int fd, const struct hspz_secure_options *options,
                                                const char *where, int64_t timeout_ms, int stop_fd,
                                                struct hspz_secure **out, struct hspz_error *err);
void hspz_secure_close(struct hspz_secure **secure);

/* As much as goes now; 0: try again when the socket can be written, or read. */
HSPZ_MUST_USE enum hspz_status hspz_secure_send(struct hspz_secure *secure, const void *bytes,
                                                size_t len, size_t *sent);
/* What is there now; 0: try again when the socket can be read. *ended: there will be no more. */
HSPZ_MUST_USE enum hspz_status hspz_secure_receive(struct hspz_secure *secure, void *bytes,
                                                   size_t room, size_t *got, bool *ended,
                                                   const char *where, struct hspz_error *err);
/* Whether something was received that the socket does not show. */
bool hspz_secure_pending(const struct hspz_secure *secure);
