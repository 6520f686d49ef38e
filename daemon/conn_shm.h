/* A connection's shared memory: how it is asked for, and the parts and payloads that go through it.
 *
 * All of it is the client's own concern: what it writes, gives back or keeps changes nothing for
 * others. The daemon never reads a ring but for the digest of what the engine wrote there, and
 * copies a payload from the input before it looks at it.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/conn.h"
#include "protocol/message.h"

/* Answers shm.open. On HSPZ_OK the response is sent. */
HSPZ_MUST_USE enum hspz_status hspz_conn_shm_open(struct hspz_conn *conn, uint32_t id,
                                                  struct hspz_error *err);
/* A client's shm.free. HSPZ_E_BAD_REQUEST: it has no such part, and the connection is to end. */
HSPZ_MUST_USE enum hspz_status
hspz_conn_shm_freed(struct hspz_conn *conn, const struct hspz_node *params, struct hspz_error *err);
/* The connection ends: what its client has counts as given back. */
void hspz_conn_shm_reclaim(struct hspz_conn *conn);
/* Whether the head job could go on if the client, who has all parts that it may have, gave one
 * back: for the statistics. */
void hspz_conn_shm_wait(struct hspz_conn *conn, bool waits);
/* No part is held any more. */
void hspz_conn_shm_close(struct hspz_conn *conn);
/* Whether the client has parts, and gave none back for as long as a peer may not read. */
bool hspz_conn_shm_stuck(struct hspz_conn *conn, uint64_t now_ms);

/* A request asks for shared memory that is not there: HSPZ_E_BAD_REQUEST. */
HSPZ_MUST_USE enum hspz_status hspz_conn_shm_check(const struct hspz_conn *conn, bool wanted,
                                                   struct hspz_error *err);
/* Whether a payload is within the input, of a connection that has one: HSPZ_E_BAD_REQUEST. */
HSPZ_MUST_USE enum hspz_status hspz_conn_shm_inside(const struct hspz_conn *conn, uint64_t offset,
                                                    size_t len, struct hspz_error *err);
/* A payload that is inside, copied from the input to `to`. */
HSPZ_MUST_USE enum hspz_status hspz_conn_shm_copy(const struct hspz_conn *conn, uint64_t offset,
                                                  size_t len, uint8_t *to, struct hspz_error *err);

/* A part's buffer, in the ring for jobs with `shm`, or where steps that were given up have places
 * of that and the others are taken, in none; counted by the caller. Errors as those of
 * hspz_buffers_take. */
HSPZ_MUST_USE enum hspz_status hspz_conn_take_part(struct hspz_conn *conn, bool shm,
                                                   struct hspz_buffer **out);
/* Back, whence it came; not counted. */
void hspz_conn_return_part(struct hspz_conn *conn, struct hspz_buffer *buffer);
