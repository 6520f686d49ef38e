/* A kind's part of hspz_filter_plan (engine/filter.h) that has a file of its own. */
#pragma once

#include "engine/filter.h"

HSPZ_MUST_USE enum hspz_status hspz_filter_plan_counter(struct hspz_filter_plan *plan,
                                                        struct hspz_error *err);
/* plan->bytes becomes what a counter needs at most, as does its image, whose arrays have so many
 * bytes. */
void hspz_filter_plan_counter_holds(struct hspz_filter_plan *plan, const uint64_t *image_bytes);

/* Of a counter's image: a key that is there once, and a key and its count. */
#define HSPZ_COUNTER_SINGLE_BYTES sizeof(uint64_t)
#define HSPZ_COUNTER_PAIR_BYTES (2 * sizeof(uint64_t))
/* For loading one: the plan with what that needs at most, and keys that its front is made for. */
HSPZ_MUST_USE enum hspz_status hspz_counter_plan_image(const struct hspz_filter_plan *plan,
                                                       const struct hspz_filter_image *image,
                                                       struct hspz_filter_plan *holds,
                                                       uint64_t *keys, struct hspz_error *err);
/* What is wrong with its numbers, of which the keys have these; NULL: nothing. */
const char *hspz_counter_wrong_numbers(const struct hspz_filter_image *image, uint64_t entries,
                                       uint64_t total);
/* Whether two count the same keys, so that one can be added to the other. */
bool hspz_counter_alike(const struct hspz_filter_spec *a, const struct hspz_filter_spec *b);
