/* A shard of an exact counter: keys that came once in a front that needs a few bytes each, those
 * that came more often in a table of 16-byte pairs.
 *
 * A key of `bits` bits is mixed by a permutation (engine/filter_hash.h); its highest 8 bits say
 * which shard, what is left is x. In the front (after the two-choice filter, McCoy et al. 2023)
 * block and slot say all of x (engine/counter_shape.h): whatever is found there is the key itself,
 * never another. The table has linear probing, ordered by x.
 *
 * A new key goes to the emptier of its blocks; when both are full, the front grows by a quarter or
 * less, or where that is no use or there is no memory, the key goes to the table. Seen again, a key
 * moves from the front to the table. What a shard holds depends on its keys and their order alone,
 * as long as memory lasts.
 *
 * Owns:    its arrays.
 * Threads: one writer, or any number of readers, of a shard; the memory is shared by all. */
#pragma once

#include "engine/counter_shape.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_COUNTER_SHARD_BITS 8u
#define HSPZ_COUNTER_SHARDS (1u << HSPZ_COUNTER_SHARD_BITS)
#define HSPZ_COUNTER_BITS_LEAST 16u

/* Bytes of all shards. */
struct hspz_counter_memory {
    _Atomic uint64_t used;
    uint64_t limit; /* 0: none */
};

struct hspz_counter_pair {
    uint64_t x, count; /* count 0: nobody's */
};

struct hspz_counter_front {
    struct hspz_counter_shape shape;
    uint8_t *slots; /* packed, lowest bit first */
    uint8_t *taken; /* slots of each block that are, from its first on */
    uint64_t singles;
};

struct hspz_counter_shard {
    unsigned bits; /* of x */
    struct hspz_counter_front front;
    struct hspz_counter_pair *pairs;
    uint64_t pair_slots, pair_count;
    uint64_t total; /* of the counts of all keys; stays at 2^64 - 1 */
};

/* A front for `keys`; false: no memory. */
bool hspz_counter_shard_init(struct hspz_counter_shard *s, unsigned key_bits, uint64_t keys,
                             struct hspz_counter_memory *memory);
void hspz_counter_shard_fini(struct hspz_counter_shard *s);
/* Of the arrays that init makes. */
uint64_t hspz_counter_shard_bytes(unsigned key_bits, uint64_t keys);

/* All that `from` has, as it has it; `to` is empty. False: no memory, and it stays so. */
bool hspz_counter_shard_copy(struct hspz_counter_shard *to, const struct hspz_counter_shard *from,
                             struct hspz_counter_memory *memory);
/* Room for so many pairs; false: no memory. */
bool hspz_counter_shard_reserve(struct hspz_counter_shard *s, uint64_t pairs,
                                struct hspz_counter_memory *memory);

/* Adds n, 1 or more; false: no memory, and nothing was done. */
bool hspz_counter_shard_add(struct hspz_counter_shard *s, uint64_t x, uint64_t n,
                            struct hspz_counter_memory *memory);
uint64_t hspz_counter_shard_count(const struct hspz_counter_shard *s, uint64_t x);
/* Has the processor fetch what add or count of x will look at. */
void hspz_counter_shard_fetch(const struct hspz_counter_shard *s, uint64_t x);

/* Places of the shard are 0 .. places - 1; the count of what is there, 0: nothing. */
uint64_t hspz_counter_shard_places(const struct hspz_counter_shard *s);
uint64_t hspz_counter_shard_at(const struct hspz_counter_shard *s, uint64_t place, uint64_t *x);
