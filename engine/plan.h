/* Which windows of a query are seeded, and in which order: intervals, in each the strands, in each
 * the batches.
 *
 * Without intervals the windows [begin, end) of each strand are one stretch. With them it is
 * KegAlign's plan, as struct hspz_job_spec says.
 *
 * Threads: pure functions. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_range {
    uint64_t begin, end;
};

struct hspz_plan {
    enum hspz_strands strands;
    struct hspz_range windows; /* cut to what exists */
    uint64_t interval;         /* 0: none; `windows` is then [0, E) */
};

struct hspz_plan_place {
    uint64_t interval;
    enum hspz_strand strand;
    uint64_t batch;
};

/* For a query of `windows` window starts. `wanted` is ignored when there are intervals. */
void hspz_plan_init(struct hspz_plan *plan, uint64_t windows, struct hspz_range wanted,
                    uint64_t interval, enum hspz_strands strands);

/* False when there is nothing to do at all. */
bool hspz_plan_first(const struct hspz_plan *plan, struct hspz_plan_place *place);
/* False, and *place unchanged, after the last one. */
bool hspz_plan_next(const struct hspz_plan *plan, struct hspz_plan_place *place);
/* No batch of this one's strand comes after it. */
bool hspz_plan_ends_strand(const struct hspz_plan *plan, const struct hspz_plan_place *place);

/* Window starts of a batch, in its strand's coordinates. */
struct hspz_range hspz_plan_windows(const struct hspz_plan *plan,
                                    const struct hspz_plan_place *place);
/* The most that a batch has. */
uint64_t hspz_plan_most_windows(const struct hspz_plan *plan);
