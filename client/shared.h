/* Inside libhspz: memory shared with the server (protocol/PROTOCOL.md 7.5): the ring that parts
 * come in, mapped, and the input that payloads of requests are written to.
 *
 * What a server may do to it while it is read changes what is read, and nothing else: it cannot
 * shrink, and places are checked.
 *
 * Owns:    the mapping and the descriptors. Threads: one at a time.
 * Errors:  what the server refuses it with; HSPZ_E_BAD_PEER, HSPZ_E_IO. */
#pragma once

#include "client/call.h"

struct hspz_shared;

/* Asks for it. When that is refused the connection is as good as before. */
HSPZ_MUST_USE enum hspz_status hspz_shared_open(struct hspz_client *client,
                                                struct hspz_shared **out, struct hspz_error *err);
void hspz_shared_close(struct hspz_shared **shared);

/* Whether payloads come through it; it is asked for once, when it is first of use. */
HSPZ_MUST_USE enum hspz_status hspz_shared_choose(struct hspz_client *client,
                                                  enum hspz_transport transport, bool *shm,
                                                  struct hspz_error *err);

/* Where in memory the payload of a part is that was placed at `offset`. */
HSPZ_MUST_USE enum hspz_status hspz_shared_find(const struct hspz_shared *shared, uint64_t offset,
                                                struct hspz_span *payload, struct hspz_error *err);
/* Puts a payload into the input at `offset`; false: there is no room, or it cannot be written. */
bool hspz_shared_put(const struct hspz_shared *shared, uint64_t offset, struct hspz_span payload);
/* Payloads up to here go with the request all the same. */
#define HSPZ_SHARED_LEAST HSPZ_FRAME_INLINE_BIN
/* Gives the part at `offset` back. HSPZ_E_OUT_OF_MEMORY: the connection is to be closed. */
HSPZ_MUST_USE enum hspz_status hspz_shared_free(struct hspz_client *client, uint64_t offset,
                                                struct hspz_error *err);
