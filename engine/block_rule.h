/* Which block a sequence belongs to: pure arithmetic, apart so that it can be tested at the limits
 * without gigabytes of bases.
 *
 * Units: bytes of a block, separators included. */
#pragma once

#include "engine/sequences.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The block size in force: 0 asks for the default, more than the limit for the limit. */
static inline uint64_t
hspz_block_rule_size(uint64_t asked, uint64_t default_size, uint64_t limit)
{
    const uint64_t size = asked == 0 ? default_size : asked;
    return size < limit ? size : limit;
}

/* Whether a block that holds `count` sequences in `len` bytes takes one more of `more` bases. */
static inline bool
hspz_block_rule_takes(uint64_t len, size_t count, uint64_t block_size, uint64_t limit,
                      uint64_t more)
{
    if (count == 0) {
        return more <= limit;
    }
    if (len > block_size || len >= limit) {
        return false;
    }
    return more <= limit - len - 1;
}

/* hspz_sequences_create with another limit than HSPZ_BLOCK_BASES_LIMIT, 1 up to that. */
HSPZ_MUST_USE enum hspz_status hspz_sequences_create_limited(uint64_t block_size, uint32_t limit,
                                                             struct hspz_sequences **out);
