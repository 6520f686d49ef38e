/* Part buffers: what a step writes into and a connection sends from, without a copy between.
 *
 * A connection that holds none may always take one; more come from a budget that all share, so that
 * no connection is ever starved and their sum is bounded by (connections + shared) * part bytes. A
 * few unused ones are kept for the next taker.
 *
 * Threads: the loop thread only, but for a taken buffer's contents. */
#pragma once

#include "daemon/send.h"
#include "daemon/worker.h"
#include "engine/engine.h"
#include "protocol/filter_message.h"
#include "protocol/status.h"
#include "protocol/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_shm_ring;

struct hspz_buffer {
    struct hspz_event event;  /* from the worker, once filled */
    struct hspz_buffer *next; /* of the holder; of the pool when unused */
    void *holder;
    bool shared;                /* counts against the shared budget */
    struct hspz_shm_ring *ring; /* that it is a place of, and no buffer of the pool; or NULL */
    uint64_t offset;            /* there */
    void *anchors;
    size_t count; /* records in it */
    size_t bytes; /* of them */
    union {
        struct hspz_part_head part;
        struct hspz_answers_head answers;
        struct hspz_entries_head entries;
    } head;
    void (*write_head)(struct hspz_writer *w, const struct hspz_buffer *buffer); /* into header */
    uint64_t *sent;            /* counts the records, once they are on their way */
    struct hspz_writer header; /* the notification up to its payload */
    struct hspz_send send;
};

struct hspz_buffers;

HSPZ_MUST_USE enum hspz_status hspz_buffers_create(const struct hspz_engine_ops *ops,
                                                   struct hspz_engine *engine, size_t part_bytes,
                                                   uint64_t shared_bytes,
                                                   struct hspz_buffers **out);
/* All buffers have been given back. */
void hspz_buffers_destroy(struct hspz_buffers **buffers);

/* `held`: how many the taker has already. HSPZ_E_QUOTA_EXCEEDED: the shared budget is used up
 * (never when `held` is 0); HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_buffers_take(struct hspz_buffers *buffers, unsigned held,
                                                 struct hspz_buffer **out);
void hspz_buffers_give(struct hspz_buffers *buffers, struct hspz_buffer **buffer);

size_t hspz_buffers_part_bytes(const struct hspz_buffers *buffers);
uint64_t hspz_buffers_used_bytes(const struct hspz_buffers *buffers); /* taken */
uint64_t hspz_buffers_held_bytes(const struct hspz_buffers *buffers); /* taken and kept */
