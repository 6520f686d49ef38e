/* A kind's part of hspz_filter_plan (engine/filter.h) that has a file of its own. */
#pragma once

#include "engine/filter.h"

HSPZ_MUST_USE enum hspz_status hspz_filter_plan_counter(struct hspz_filter_plan *plan,
                                                        struct hspz_error *err);
/* plan->bytes becomes what a counter needs at most, as does its image, whose arrays have so many
 * bytes. */
void hspz_filter_plan_counter_holds(struct hspz_filter_plan *plan, const uint64_t *image_bytes);
