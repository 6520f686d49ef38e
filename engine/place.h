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

/* All zero: the beginning. */
struct hspz_job_place {
    /* As in struct hspz_walk, at a moment when no HSPs were kept. */
    int stage;
    struct hspz_plan_place place;
    struct hspz_range windows;
    size_t block;
    struct hspz_chunk chunk;
    uint32_t chunk_number, part_number;
    uint64_t sent;
    bool seeding, lost, seeds_known, hits_known;
    uint64_t all_hits;
    struct hspz_strand_totals totals[2];

    uint64_t hsps;     /* given out since, to be found again */
    uint32_t hsp_part; /* the next part's number in its group */
};
