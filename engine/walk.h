/* The order of a job's work, the same for every engine: one part a step.
 *
 *   check    the query's bytes, a stretch a step
 *   seeds    of the next batch
 *   count    hits per seed in the next reference block; refusals happen here
 *   expand   chunk by chunk, part by part; for HSPs chunk by chunk, window by window, into sets
 *   send     for HSPs: what is settled, part by part; after each chunk, or with HSPZ_SCOPE_JOB
 * after a strand's last batch
 *
 * What is done with a batch is the engine's: its calls get `user`, which stands for the job, its
 * scratch and the lane of this step. A step that sends nothing is bounded too, so that a job can be
 * cancelled, or give way, at any step. An engine may lose a batch between steps
 * (hspz_walk_lose): it is then made again, with the same result, by the next step, which also does
 * what was to be done: however often a batch is lost, each step gets the job further.
 *
 * Owns:    the HSPs that are not sent yet.
 * Threads: as a job.
 * Errors:  as engine/engine.h says. */
#pragma once

#include "engine/collect.h"
#include "engine/cut.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/shape.h"

#define HSPZ_NO_BAD_SEED UINT64_MAX

struct hspz_walk_count {
    uint64_t seeds;   /* of the batch */
    uint64_t counted; /* of those */
    uint64_t hits;    /* of the counted ones */
    uint64_t bad;     /* the first given seed that is out of range, or HSPZ_NO_BAD_SEED */
};

struct hspz_walk_ops {
    /* Makes the batch's seeds; *more when it has to be called again for the rest. */
    enum hspz_status (*seeds)(void *user, bool *more);
    /* Counts seeds on from count->counted, which is 0 at a block's begin, and says what it is now.
     */
    enum hspz_status (*count)(void *user, struct hspz_walk_count *count);
    bool counts_at_once; /* all of it in one call, which may follow that of `seeds` in one step */
    /* Called when a block was counted and not refused. NULL: nothing to do. */
    enum hspz_status (*counted)(void *user);
    /* hspz_cut_next for what was counted; *more is false when there is no chunk left. */
    enum hspz_status (*cut)(void *user, struct hspz_chunk *chunk, bool *more);
    /* Writes hits from `begin` on, up to `end`: *count of them, 1 or more. */
    enum hspz_status (*expand)(void *user, uint64_t begin, uint64_t end, uint64_t *out,
                               uint64_t *count);
    /* Writes them by columns into `bytes` of out, 16 or more: *count of them, 1 or more, in *used
     * bytes. NULL: such jobs are refused. */
    enum hspz_status (*columns)(void *user, uint64_t begin, uint64_t end, void *out, size_t bytes,
                                uint64_t *count, size_t *used);
    /* Extends hits from `begin` on, up to the end of the chunk: *count of them, 1 or more, as many
     * as a step may; their HSPs go to `set`. After a failure the same hits may come again. */
    enum hspz_status (*extend)(void *user, uint64_t begin, uint64_t end, struct hspz_hsp_set *set,
                               uint64_t *count);
    /* Tries a batch of a reference of one block at once, for anchors in one part and one chunk.
     * *done when count is set and, unless it has to be refused, all hits are in out[0 .. capacity).
     * NULL: never. */
    enum hspz_status (*small)(void *user, uint64_t *out, size_t capacity,
                              struct hspz_walk_count *count, bool *done);
};

struct hspz_walk {
    struct hspz_job_spec spec;
    struct hspz_shape shape;
    size_t block_count;
    struct hspz_plan plan;
    uint64_t most_windows, most_seeds; /* of one batch */

    uint64_t checked; /* bases */
    struct hspz_job_place at;
    struct hspz_walk_count count; /* of the block */

    struct hspz_collect collect; /* jobs of HSPs */
    uint64_t skip;               /* of those that were given out before, HSPs still to come */

    struct hspz_job_place kept; /* for a job that is to go on for this one */
};

/* HSPZ_E_BAD_REQUEST: a query that is too long; given seeds or bad scoring in a job of HSPs, given
 * seeds and a mask. And those of hspz_seed_mask_check. */
HSPZ_MUST_USE enum hspz_status hspz_walk_begin(struct hspz_walk *walk,
                                               const struct hspz_job_spec *spec,
                                               const struct hspz_shape *shape, size_t block_count,
                                               struct hspz_error *err);

void hspz_walk_end(struct hspz_walk *walk);

/* False: the next step does without the engine's calls. */
bool hspz_walk_needs_batch(const struct hspz_walk *walk);

/* As job_block of engine/engine.h. */
size_t hspz_walk_block(const struct hspz_walk *walk);

HSPZ_MUST_USE enum hspz_status hspz_walk_step(struct hspz_walk *walk,
                                              const struct hspz_walk_ops *ops, void *user,
                                              struct hspz_part *part, struct hspz_error *err);

/* What the engine had of the batch is gone. */
void hspz_walk_lose(struct hspz_walk *walk);

static inline bool
hspz_walk_wants_hsps(const struct hspz_walk *walk)
{
    return walk->spec.output == HSPZ_RECORDS_HSPS;
}
