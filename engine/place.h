/* How far a job has come: plain data, from which another job of the same spec on the same index
 * goes on, on whatever device, after that one was lost with all it had. What was given out before
 * does not come again, and nothing is left out. */
#pragma once

#include "engine/cut.h"
#include "engine/plan.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hspz_walk_stage {
    HSPZ_STAGE_CHECK,
    HSPZ_STAGE_SEEDS,
    HSPZ_STAGE_COUNT,
    HSPZ_STAGE_EXPAND,
    HSPZ_STAGE_SETTLE,
    HSPZ_STAGE_SEND,
    HSPZ_STAGE_DONE,
};

struct hspz_job_totals {
    struct hspz_strand_totals strand[2];
};

/* All zero: the beginning. One that a job goes on from is of a moment when no HSPs were kept. */
struct hspz_job_place {
    enum hspz_walk_stage stage;
    struct hspz_plan_place place;
    struct hspz_range windows; /* of the batch */
    size_t block;
    struct hspz_chunk chunk;
    uint32_t chunk_number; /* of the chunk under way, + 1 */
    uint32_t part_number;
    uint64_t sent;    /* hits of this batch and block, or extended */
    bool seeding;     /* some of the batch's seeds are made */
    bool lost;        /* the batch has to be made again */
    bool seeds_known; /* totals have this batch's seeds */
    bool hits_known;  /* totals have this block's hits */
    uint64_t all_hits;
    struct hspz_job_totals totals;

    uint64_t hsps;     /* given out since, to be found again */
    uint32_t hsp_part; /* the next part's number in its group */
};
