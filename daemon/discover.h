/* One discover job: from the request to its one answer.
 *
 *   waiting   behind other jobs of its connection, for its index, for its mask's lock, or for a
 * turn; holds its request and a use of the index (as the head also of its mask), nothing else
 *   resting   begun in the engine; holds scratch memory until parked
 *   working   a turn (or a park, or the end) is with a worker, which alone touches it then
 *
 * It is answered exactly once, on the loop: when done, failed, cancelled, past its deadline, or not
 * at all when its connection is gone. A turn begins the job if need be and takes steps until it has
 * had its time (daemon/scheduler.h); each part is sent as soon as it is made.
 *
 * A step that does not come back is given up (daemon/device.h): another job takes its place in the
 * connection, and this one, a stray, is gone once the step is back; until then it keeps its mask
 * locked for readers.
 *
 * Owns:    the request's frame, its count on the index, a use of the filter that is its mask, its
 *          engine job.
 * Threads: the loop thread, but for the run function of its task. */
#pragma once

#include "daemon/catalog.h"
#include "daemon/conn.h"
#include "daemon/filters.h"
#include "daemon/job.h"
#include "daemon/scratch.h"
#include "engine/engine.h"
#include "protocol/message.h"
#include "protocol/stream.h"

#include <stdbool.h>
#include <stdint.h>
#include <xxhash.h>

/* A request's bytes, which steps read: for the job and those of its steps that were given up. */
struct hspz_discover_bytes {
    atomic_uint uses;
    uint8_t *frame;
    uint8_t *input; /* the payload, when it came through shared memory */
};

/* Who may touch the job: the worker; the engine, which only has the engine's job and the first
 * buffer; or the step was given up, and nothing but those and a use of bytes and index is left. */
enum hspz_discover_claim { HSPZ_CLAIM_WORKER, HSPZ_CLAIM_ENGINE, HSPZ_CLAIM_GIVEN_UP };

struct hspz_discover {
    struct hspz_conn_job base;
    struct hspz_service *service;
    bool checked; /* the index is the one that the request was made for */
    struct hspz_scratch_user scratch;
    /* The filter that masks the query, if any is named: a use of it from when the job is the head,
     * a lock while a turn is with a worker. Once the job has begun it must stay as it was. */
    struct hspz_filter_ref mask_ref;
    struct hspz_named_filter *mask;
    struct hspz_filter_wait mask_wait;
    bool masks, mask_locked, mask_seen;
    uint64_t mask_version;

    /* The worker's while working. */
    size_t frame_len;
    struct hspz_discover_bytes *bytes_of; /* the request; NULL once it is not read any more */
    struct hspz_job_spec spec;
    struct hspz_text want_digest, want_shape; /* in the frame */
    uint64_t want_step;
    struct hspz_served *served;
    struct hspz_job_place place; /* after the last step, for when its device is lost */
    XXH64_state_t *digest;       /* NULL: not wanted */
    struct hspz_buffer *buffers;
    size_t block;              /* that its next step is about, or the last one was */
    unsigned device;           /* where what the engine's job made is; HSPZ_ANY_DEVICE: nowhere */
    struct hspz_turned turned; /* the turn */
    uint64_t scratch_limit;    /* most the job may hold to be stepped */
    struct hspz_job_bytes bytes;
    uint64_t first_step_ns, engine_ns;
    uint64_t anchors, hsps, payload_bytes; /* produced */
    bool ended;
    struct hspz_error err; /* how it ended; HSPZ_OK: done */
    struct hspz_job_totals totals;

    /* What the worker may still touch of one that was given up, beside the task; the rest is
     * another job's then. */
    atomic_int claim; /* enum hspz_discover_claim */
    struct hspz_job *job;
    struct hspz_error stray; /* how its step came back */
};

/* Makes a job of a decoded request and queues it; the frame's bytes move in on success. Refusals
 * (limits, unknown index, shutting down, ...) leave everything as it was. */
HSPZ_MUST_USE enum hspz_status hspz_discover_start(struct hspz_conn *conn, uint32_t id,
                                                   const struct hspz_discover_params *params,
                                                   struct hspz_frame *frame,
                                                   struct hspz_error *err);
