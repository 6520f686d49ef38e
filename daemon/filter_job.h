/* One request about a filter (daemon/filters.h), from the request to its one answer.
 *
 *   waiting   behind other jobs of its connection, for a lock, for a turn; holds its request
 *   working   a piece of it is with a worker or beside the lanes, which alone touches it then
 *
 * When it is the head of its connection it looks up its filters. Calls with keys take so many keys
 * a piece, on a lane, in turns as a discover's; changing a quotient filter on the host goes over
 * all of it, and whole-filter requests (create, merge, save, ...) are one piece or two: those are
 * beside the lanes (daemon/aside.h), and end midway when they are told to. Locks are held during a
 * piece. What is told of keys goes out in part buffers, one a piece, so that a slow reader stops
 * its own job alone.
 *
 * Owns:    the request's frame, a use of its filters.
 * Threads: the loop thread, but for the pieces. */
#pragma once

#include "daemon/aside.h"
#include "daemon/conn.h"
#include "daemon/filters.h"
#include "daemon/job.h"
#include "engine/filter.h"
#include "protocol/filter_message.h"
#include "protocol/stream.h"

#include <stdbool.h>
#include <stdint.h>

/* What create and load have to do, in this order; others have but one stage. */
enum hspz_filter_stage { HSPZ_FILTER_PLANS, HSPZ_FILTER_MAKES };

struct hspz_filter_job {
    struct hspz_conn_job base;
    struct hspz_aside_piece piece;
    struct hspz_filter_ref ref, from_ref; /* what is asked about */
    bool shared, saved;
    struct hspz_named_filter *filter, *from; /* uses; NULL before it is the head */
    struct hspz_filter_wait wait, from_wait;
    bool locked;
    uint64_t borrowed_bytes;
    uint64_t seen_version; /* enumerate */

    /* The piece's while working. */
    uint64_t memory_limit, disk_limit; /* as they were when it came */
    uint64_t memory_bytes;             /* that a filter that grows may come to in this piece */
    struct hspz_frame frame;
    uint8_t *input; /* of calls with keys: what was in shared memory, copied; NULL: nothing was */
    enum hspz_filter_stage stage;
    struct hspz_filter_plan plan; /* create: the spec first */
    char *path;                   /* save, load, drop: of the file; NULL: none */
    char *folder;                 /* that it is in */
    enum hspz_filter_op op;       /* of calls with keys */
    struct hspz_filter_keys_params keys;
    struct hspz_filter_pace pace;
    struct hspz_buffer *buffers; /* one, or none */
    uint64_t part_first, part_count;
    uint64_t total, done, yes; /* keys; of enumerate, entries */
    uint64_t cursor;
    bool full;
    struct hspz_filter_stats stats; /* at the end; of one that grows, after each piece */
    uint64_t turn_ns, first_step_ns, engine_ns, payload_bytes;
    bool ended;
    struct hspz_error err; /* how it ended; HSPZ_OK: done */
};

/* Makes a job of a request about a filter and queues it; the frame's bytes move in on success.
 * Refusals leave everything as it was. Whether there is such a filter shows later. */
HSPZ_MUST_USE enum hspz_status hspz_filter_start(struct hspz_conn *conn,
                                                 const struct hspz_message *message,
                                                 struct hspz_frame *frame, struct hspz_error *err);
