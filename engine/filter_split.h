/* How keys of a filter in parts (engine/filter_split.c) are those of its parts; the same on the
 * host and on a device. */
#pragma once

#include "engine/filter.h"
#include "engine/filter_hash.h"

struct hspz_filter_split {
    uint64_t salt;
    unsigned bits; /* of the hash that say which part: 1 or more */
};

static inline struct hspz_filter_split
hspz_filter_split_of(uint64_t salt, unsigned parts)
{
    const struct hspz_filter_split split = {salt, (unsigned)__builtin_ctz(parts)};
    return split;
}

static inline HSPZ_HOST_DEVICE unsigned
hspz_filter_split_part(struct hspz_filter_split split, uint64_t hash)
{
    return (unsigned)(hash >> (64 - split.bits));
}

/* The key that a part is given: its hash begins with the bits behind those of the part. What is
 * free behind them is filled from its middle, as tags are taken from the low half. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_filter_split_key(struct hspz_filter_split split, uint64_t hash)
{
    uint64_t rest = hash << split.bits;
    rest |= rest >> 32 & ((UINT64_C(1) << split.bits) - 1);
    return hspz_filter_unmix(rest) ^ split.salt;
}

/* The parts of a filter in parts, as many as its plan says. */
struct hspz_filter *const *hspz_filter_split_parts(const struct hspz_filter *filter);
