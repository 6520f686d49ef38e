/* Memory shared with clients on this machine: segments, each a ring that a client reads and an
 * input that it writes.
 *
 * Both are memfds that can neither shrink nor grow, so that no mapping of them ever faults. The
 * ring's mode is 0400 and a client gets a descriptor that only reads. A segment belongs to the
 * first user it was given to, who may keep descriptors and mappings of it for ever: it is reused
 * for that user alone, cleared in between, and replaced by a new one when another user needs it and
 * no other is left.
 *
 * An engine that wants memory adopted gets all rings at start, and a replaced one when that is made
 * (slow). The memory of others is made as it is used, and given back to the system with the
 * segment.
 *
 * Threads: the loop thread only, but for the contents of a ring. */
#pragma once

#include "engine/engine.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hspz_shm_segment {
    struct hspz_shm_segment *next; /* of the pool, while nobody has it */
    uid_t uid;
    bool owned;    /* uid says whose it is */
    int ring_fd;   /* -1: none */
    int input_fd;  /* the same */
    uint8_t *ring; /* mapped; NULL: not */
    bool adopted;
};

struct hspz_shm_pool;

struct hspz_shm_sizes {
    size_t ring_bytes, input_bytes; /* of a segment */
    uint64_t total_bytes;           /* of all */
    uint64_t most;                  /* segments, even if there is room for more */
};

/* *out is NULL when there is no room for any. */
HSPZ_MUST_USE enum hspz_status hspz_shm_pool_create(const struct hspz_engine_ops *ops,
                                                    struct hspz_engine *engine,
                                                    const struct hspz_shm_sizes *sizes,
                                                    struct hspz_shm_pool **out,
                                                    struct hspz_error *err);
/* All segments have been given back. */
void hspz_shm_pool_destroy(struct hspz_shm_pool **pool);

/* A segment of zeros for a client of `uid`. HSPZ_E_QUOTA_EXCEEDED: all are in use; HSPZ_E_IO,
 * HSPZ_E_OUT_OF_MEMORY, HSPZ_E_DEVICE_ERROR: there is no new one to be had. */
HSPZ_MUST_USE enum hspz_status hspz_shm_pool_take(struct hspz_shm_pool *pool, uid_t uid,
                                                  struct hspz_shm_segment **out,
                                                  struct hspz_error *err);
void hspz_shm_pool_give(struct hspz_shm_pool *pool, struct hspz_shm_segment **segment);

/* A new descriptor of the ring that only reads: the caller's. */
HSPZ_MUST_USE enum hspz_status hspz_shm_segment_reader(const struct hspz_shm_segment *segment,
                                                       int *out, struct hspz_error *err);

size_t hspz_shm_pool_ring_bytes(const struct hspz_shm_pool *pool);
size_t hspz_shm_pool_input_bytes(const struct hspz_shm_pool *pool);
uint64_t hspz_shm_pool_segment_bytes(const struct hspz_shm_pool *pool); /* of both */
/* Segments that clients have, and that there may be. NULL: none. */
uint64_t hspz_shm_pool_used(const struct hspz_shm_pool *pool);
uint64_t hspz_shm_pool_most(const struct hspz_shm_pool *pool);
/* Descriptors that all segments take, and one more while a client gets its. NULL: none. */
uint64_t hspz_shm_pool_descriptors(const struct hspz_shm_pool *pool);
