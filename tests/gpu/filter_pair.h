/* A filter on a device and the same one on the CPU. A call that fails fails the test. */
#pragma once

#include "engine/engine.h"
#include "engine/filter.h"

struct hspz_engine *open_engine(uint64_t memory_bytes);

struct pair {
    const struct hspz_filter_ops *ops[2];
    struct hspz_filter *filter[2]; /* device, CPU */
    struct hspz_filter_plan plan;
};
struct pair open_pair(struct hspz_engine *engine, struct hspz_filter_spec spec);
void close_pair(struct pair *pair);

static inline bool
bit(const uint8_t *bits, size_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0;
}

/* What both said to a call, with yes and found. */
struct answers {
    uint8_t *yes;
    uint64_t *found;
    struct hspz_filter_call call;
};
void run_both(struct pair *pair, const struct hspz_filter_call *call, struct answers out[2]);
void free_answers(struct answers answers[2]);
/* That both save the same. */
void check_images(struct pair *pair);
