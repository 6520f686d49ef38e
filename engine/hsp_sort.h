/* Sorts records of two 64-bit keys in place, without memory beyond the stack.
 *
 * Order:   by key[0], then key[1], as unsigned numbers. Equal records are identical, so there is no
 *          question of stability.
 * Cost:    a pass for every ten bits in which keys differ, most significant first; none for what is
 *          sorted. Threads share all passes but the first. */
#pragma once

#include "engine/cpu/pool.h"

#include <stddef.h>
#include <stdint.h>

struct hspz_hsp_key {
    uint64_t key[2];
};

/* `pool` may be NULL. */
void hspz_hsp_sort(struct hspz_hsp_key *keys, size_t count, struct hspz_pool *pool);
