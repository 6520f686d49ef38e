/* The ring of a connection, cut into places for parts: which are free, and which the client has.
 *
 *   free ── take ──> taken ── lend ──> lent, its notification on the way ── freed, sent ──> free
 *                      └── give ──> free
 *
 * The client may give a part back before the loop learns that its notification was written, so
 * both are waited for, in either order. The lowest free place is taken first, so that a client that
 * keeps up works in few of them, which stay in its caches.
 *
 * Threads: the loop thread only, but for a taken buffer's contents. */
#pragma once

#include "daemon/buffers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_shm_ring;

/* `memory` is parts * part_bytes long and outlives the ring. */
HSPZ_MUST_USE enum hspz_status hspz_shm_ring_create(uint8_t *memory, size_t part_bytes,
                                                    unsigned parts, struct hspz_shm_ring **out);
/* Nothing is taken or lent. */
void hspz_shm_ring_destroy(struct hspz_shm_ring **ring);

/* NULL: none is free. The buffer's `ring` and `offset` say where it belongs. */
struct hspz_buffer *hspz_shm_ring_take(struct hspz_shm_ring *ring);
/* Back, unlent or no longer lent and sent. */
void hspz_shm_ring_give(struct hspz_shm_ring *ring, struct hspz_buffer *buffer);
/* Its notification is about to be sent. */
void hspz_shm_ring_lend(struct hspz_shm_ring *ring, struct hspz_buffer *buffer);
/* It was written, or (`lost`) never will be: whether the buffer is to be given back now. */
bool hspz_shm_ring_sent(struct hspz_shm_ring *ring, struct hspz_buffer *buffer, bool lost);
/* The client gave back what is at `offset`: false when it has nothing there. *back is the buffer
 * that is to be given back now, or NULL. */
bool hspz_shm_ring_freed(struct hspz_shm_ring *ring, uint64_t offset, struct hspz_buffer **back);
/* Takes back what the client has, one buffer at a time; NULL: nothing more, but for those whose
 * notification is on its way. */
struct hspz_buffer *hspz_shm_ring_reclaim(struct hspz_shm_ring *ring);

unsigned hspz_shm_ring_lent(const struct hspz_shm_ring *ring);    /* that the client has */
uint64_t hspz_shm_ring_returns(const struct hspz_shm_ring *ring); /* since it was made */
