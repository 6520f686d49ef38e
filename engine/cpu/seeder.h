/* Seeds from query sequence (SPEC section 1).
 *
 * For each window start in ascending order that is not masked and whose span bases are all valid:
 * the exact word, then with transitions, for t = 0 .. weight - 1, the word XOR (2 << 2t); then,
 * with two, for u = 1 .. weight - 1 and t = 0 .. u - 1 the word XOR (2 << 2t) XOR (2 << 2u).
 * Positions are those of the strand searched: on minus, of the reverse complement of the whole
 * query.
 *
 * Threads: pure functions over the caller's memory; slices of one range can run side by side. */
#pragma once

#include "engine/shape.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_seeder {
    const struct hspz_shape *shape;
    struct hspz_span query; /* plus strand */
    enum hspz_strand strand;
    uint32_t transitions; /* 0 to HSPZ_TRANSITIONS_LIMIT */
    bool unmask;
    const uint8_t *masked; /* starts that yield no word (engine/seed_mask.h); NULL: none */
    uint64_t masked_from;  /* the one of the first bit */
};

/* Window starts a query has: len - span + 1, or 0. */
uint64_t hspz_seeder_positions(const struct hspz_shape *shape, uint64_t query_len);

/* Windows with begin <= start < end that yield a word. */
uint64_t hspz_seeder_count(const struct hspz_seeder *seeder, uint64_t begin, uint64_t end);

/* Writes their seeds; returns how many: hspz_seeder_count x seeds per position. */
uint64_t hspz_seeder_make(const struct hspz_seeder *seeder, uint64_t begin, uint64_t end,
                          uint64_t *seeds);
