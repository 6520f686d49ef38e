/* Cutting a batch's hits into chunks (SPEC C.3).
 *
 * With P the inclusive prefix sums of the hits per seed, H the total and M the cap: while more than
 * M hits remain after `start`, b is the first seed with P[b] >= start + M; the chunk ends before b,
 * or, when it would then hold no hit, after b; what remains is the last chunk. No hits, no chunk.
 *
 * Where P lives is the engine's business: it only has to answer hspz_cut_find_fn. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts in one scan block. */
#define HSPZ_SCAN_BLOCK 256u

/* Half-open ranges within a batch. */
struct hspz_chunk {
    uint64_t seed_begin, seed_end;
    uint64_t hit_begin, hit_end;
};

/* First index b with P[b] >= hits (one exists: hits <= H); *before = P[b - 1] (0 for b = 0), *at =
 * P[b]. False when it could not be found out (a device failed). */
typedef bool (*hspz_cut_find_fn)(void *user, uint64_t hits, uint64_t *b, uint64_t *before,
                                 uint64_t *at);

enum hspz_cut { HSPZ_CUT_CHUNK, HSPZ_CUT_NONE, HSPZ_CUT_FAILED };

/* Moves *chunk on to the next one; before the first it is all zero. */
enum hspz_cut hspz_cut_next(uint64_t seed_count, uint64_t total_hits, uint64_t max_hits,
                            hspz_cut_find_fn find, void *user, struct hspz_chunk *chunk);

/* The two walks over prefix sums in host memory: through the ends of the scan blocks and then the
 * one block that holds the boundary, or through all of P. Both find the same. */
struct hspz_prefix {
    const uint32_t *sums;
    uint64_t count;
};
bool hspz_prefix_find_blocks(void *prefix, uint64_t hits, uint64_t *b, uint64_t *before,
                             uint64_t *at);
bool hspz_prefix_find_full(void *prefix, uint64_t hits, uint64_t *b, uint64_t *before,
                           uint64_t *at);

/* First index in [begin, end) with sums[i] >= value; end when there is none. */
uint64_t hspz_prefix_lower_bound(const uint32_t *sums, uint64_t begin, uint64_t end,
                                 uint64_t value);
