#include "engine/plan.h"

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void
hspz_plan_init(struct hspz_plan *plan, uint64_t windows, struct hspz_range wanted,
               uint64_t interval, enum hspz_strands strands)
{
    *plan = (struct hspz_plan){.strands = strands, .interval = interval};
    if (interval != 0) {
        plan->windows.end = windows > 0 ? windows - 1 : 0;
        return;
    }
    plan->windows.end = least(wanted.end, windows);
    plan->windows.begin = least(wanted.begin, plan->windows.end);
}

/* The stretch that is cut into batches, in the strand's coordinates. */
static struct hspz_range
stretch_of(const struct hspz_plan *plan, const struct hspz_plan_place *place)
{
    if (plan->interval == 0) {
        return plan->windows;
    }
    const uint64_t last = plan->windows.end;
    const uint64_t begin = place->interval * plan->interval;
    const uint64_t end = begin + least(plan->interval, last - begin);
    return place->strand == HSPZ_STRAND_PLUS ? (struct hspz_range){begin, end}
                                             : (struct hspz_range){last - end, last - begin};
}

static bool
is_last_batch(const struct hspz_plan *plan, const struct hspz_plan_place *place)
{
    const struct hspz_range stretch = stretch_of(plan, place);
    return (place->batch + 1) * HSPZ_BATCH_POSITIONS >= stretch.end - stretch.begin;
}

static bool
is_last_interval(const struct hspz_plan *plan, const struct hspz_plan_place *place)
{
    return plan->interval == 0 ||
           plan->windows.end - place->interval * plan->interval <= plan->interval;
}

static enum hspz_strand
first_strand(const struct hspz_plan *plan)
{
    return (plan->strands & HSPZ_STRANDS_PLUS) != 0 ? HSPZ_STRAND_PLUS : HSPZ_STRAND_MINUS;
}

bool
hspz_plan_first(const struct hspz_plan *plan, struct hspz_plan_place *place)
{
    *place = (struct hspz_plan_place){.strand = first_strand(plan)};
    return plan->windows.begin < plan->windows.end;
}

bool
hspz_plan_next(const struct hspz_plan *plan, struct hspz_plan_place *place)
{
    if (!is_last_batch(plan, place)) {
        place->batch++;
    } else if (place->strand == HSPZ_STRAND_PLUS && (plan->strands & HSPZ_STRANDS_MINUS) != 0) {
        place->strand = HSPZ_STRAND_MINUS;
        place->batch = 0;
    } else if (!is_last_interval(plan, place)) {
        *place = (struct hspz_plan_place){place->interval + 1, first_strand(plan), 0};
    } else {
        return false;
    }
    return true;
}

bool
hspz_plan_ends_strand(const struct hspz_plan *plan, const struct hspz_plan_place *place)
{
    return is_last_interval(plan, place) && is_last_batch(plan, place);
}

struct hspz_range
hspz_plan_windows(const struct hspz_plan *plan, const struct hspz_plan_place *place)
{
    const struct hspz_range stretch = stretch_of(plan, place);
    const uint64_t begin = stretch.begin + place->batch * HSPZ_BATCH_POSITIONS;
    /* A batch of an interval that is not full also has the window at the interval's end. */
    const uint64_t end = stretch.end + (plan->interval != 0);
    return (struct hspz_range){begin, least(begin + HSPZ_BATCH_POSITIONS, end)};
}

uint64_t
hspz_plan_most_windows(const struct hspz_plan *plan)
{
    const uint64_t all = plan->windows.end - plan->windows.begin;
    const uint64_t stretch = plan->interval == 0 ? all : least(plan->interval, all) + (all > 0);
    return least(stretch, HSPZ_BATCH_POSITIONS);
}
