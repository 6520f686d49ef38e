/* TLS 1.3 between buffers, and SHA-256: all that the daemon has of OpenSSL.
 *
 * Bytes that came from the peer are fed in, plain ones are read; plain ones are written, and what
 * is to be sent is taken. No sockets. Older versions of TLS, session tickets and early data are
 * off: every connection is a whole handshake, so that a reloaded certificate counts from the next.
 *
 * Owns:    a connection counts its context, which may be destroyed before it.
 * Threads: the loop thread only.
 * Errors:  HSPZ_E_UNSUPPORTED (built without OpenSSL), HSPZ_E_OUT_OF_MEMORY, HSPZ_E_BAD_FILE and
 *          HSPZ_E_IO (certificates), HSPZ_E_BAD_PEER, HSPZ_E_INCOMPLETE (the peer is done). */
#pragma once

#include "daemon/tenant.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_tls_context;
struct hspz_tls;

/* PEM files: a chain from the server's certificate on, its key, and whose client certificates to
 * take (NULL: none are asked for). */
struct hspz_tls_files {
    const char *certificate, *key, *client_ca;
};

/* Also tries them out, by a handshake with itself. */
HSPZ_MUST_USE enum hspz_status hspz_tls_context_create(const struct hspz_tls_files *files,
                                                       struct hspz_tls_context **out,
                                                       struct hspz_error *err);
void hspz_tls_context_destroy(struct hspz_tls_context **context);
/* For the log: the certificate's end, as "Nov 30 00:00:00 2027 GMT", and whether that or its
 * beginning makes it invalid now. */
const char *hspz_tls_context_expires(const struct hspz_tls_context *context);
bool hspz_tls_context_valid_now(const struct hspz_tls_context *context);

/* The server's side of a connection. */
HSPZ_MUST_USE enum hspz_status hspz_tls_open(struct hspz_tls_context *context,
                                             struct hspz_tls **out);
void hspz_tls_close(struct hspz_tls **tls);

/* Takes all of what came. */
HSPZ_MUST_USE enum hspz_status hspz_tls_feed(struct hspz_tls *tls, const void *bytes, size_t len);
/* Whether the handshake is done. */
bool hspz_tls_shaken(const struct hspz_tls *tls);
/* Plain bytes of what was fed; *got 0: more has to come. */
HSPZ_MUST_USE enum hspz_status hspz_tls_read(struct hspz_tls *tls, void *bytes, size_t room,
                                             size_t *got, struct hspz_error *err);
/* Takes all, once the handshake is done. */
HSPZ_MUST_USE enum hspz_status hspz_tls_write(struct hspz_tls *tls, const void *bytes, size_t len);
/* Says that nothing more will be written. */
void hspz_tls_finish(struct hspz_tls *tls);
/* What is to be sent: how much, and the bytes. */
size_t hspz_tls_pending(const struct hspz_tls *tls);
HSPZ_MUST_USE enum hspz_status hspz_tls_take(struct hspz_tls *tls, void *bytes, size_t len);

/* The SHA-256 of the peer's certificate; false when it showed none. */
bool hspz_tls_peer(const struct hspz_tls *tls, uint8_t sha256[HSPZ_SHA256_BYTES]);

HSPZ_MUST_USE enum hspz_status hspz_sha256(const void *bytes, size_t len,
                                           uint8_t out[HSPZ_SHA256_BYTES]);
