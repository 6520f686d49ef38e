/* Window starts of a query that a filter of k-mers masks: they yield no word.
 *
 * A start is masked when the filter counts the k-mer that begins there, on the strand searched,
 * more than `above` times; a filter without counts has a k-mer once. The filter's k may be more or
 * less than the window's span. Where no k-mer begins (a byte other than acgtACGT among its k, or
 * the strand's end) none is looked up and nothing is masked. A filter never counts too little: one
 * that errs masks more starts, never fewer.
 *
 * Units: bit i % 8 of byte i / 8 is the i-th of a stretch's starts. */
#pragma once

#include "engine/filter.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_pool;

struct hspz_seed_mask {
    const struct hspz_filter_ops *ops; /* NULL: no mask */
    struct hspz_filter *filter;        /* as it is, while the job lives */
    uint64_t above;
};

/* Some starts of a query, on a strand, in its coordinates. */
struct hspz_seed_starts {
    struct hspz_span query; /* plus strand */
    enum hspz_strand strand;
    uint64_t begin, end;
};

/* HSPZ_E_BAD_REQUEST: the filter has no k. HSPZ_E_UNSUPPORTED: it has no counts, and `above` is not
 * 0. */
HSPZ_MUST_USE enum hspz_status hspz_seed_mask_check(const struct hspz_seed_mask *mask,
                                                    struct hspz_error *err);

/* Which of the starts are masked, by the threads of a pool. Those of hspz_filter_run, and
 * HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_seed_mask_find(const struct hspz_seed_mask *mask,
                                                   struct hspz_pool *pool,
                                                   const struct hspz_seed_starts *starts,
                                                   uint8_t *bits, struct hspz_error *err);

/* Bytes of the bits of so many starts. */
static inline uint64_t
hspz_seed_mask_bits_bytes(uint64_t starts)
{
    return (starts + 31) / 32 * sizeof(uint32_t);
}

static inline bool
hspz_seed_mask_has(const uint8_t *bits, uint64_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0;
}

/* Starts that a thread takes at a time, a multiple of 8, and about what each of `threads` needs for
 * them meanwhile. */
#define HSPZ_SEED_MASK_SLICE ((uint64_t)1 << 13)
uint64_t hspz_seed_mask_work_bytes(unsigned threads);
