#include "engine/cut.h"

#include "protocol/status.h"

enum hspz_cut
hspz_cut_next(uint64_t seed_count, uint64_t total_hits, uint64_t max_hits, hspz_cut_find_fn find,
              void *user, struct hspz_chunk *chunk)
{
    HSPZ_REQUIRE(max_hits >= 1);
    const uint64_t start = chunk->hit_end;
    if (start == total_hits) {
        return HSPZ_CUT_NONE;
    }
    chunk->seed_begin = chunk->seed_end;
    chunk->hit_begin = start;
    if (total_hits - start <= max_hits) {
        chunk->seed_end = seed_count;
        chunk->hit_end = total_hits;
        return HSPZ_CUT_CHUNK;
    }
    uint64_t b, before, at;
    if (!find(user, start + max_hits, &b, &before, &at)) {
        return HSPZ_CUT_FAILED;
    }
    const bool alone = before <= start;
    chunk->seed_end = alone ? b + 1 : b;
    chunk->hit_end = alone ? at : before;
    return HSPZ_CUT_CHUNK;
}

uint64_t
hspz_prefix_lower_bound(const uint32_t *sums, uint64_t begin, uint64_t end, uint64_t value)
{
    while (begin < end) {
        const uint64_t middle = begin + (end - begin) / 2;
        if (sums[middle] < value) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static bool
found(const struct hspz_prefix *p, uint64_t i, uint64_t *b, uint64_t *before, uint64_t *at)
{
    HSPZ_REQUIRE(i < p->count);
    *b = i;
    *before = i == 0 ? 0 : p->sums[i - 1];
    *at = p->sums[i];
    return true;
}

bool
hspz_prefix_find_full(void *prefix, uint64_t hits, uint64_t *b, uint64_t *before, uint64_t *at)
{
    const struct hspz_prefix *p = prefix;
    return found(p, hspz_prefix_lower_bound(p->sums, 0, p->count, hits), b, before, at);
}

bool
hspz_prefix_find_blocks(void *prefix, uint64_t hits, uint64_t *b, uint64_t *before, uint64_t *at)
{
    const struct hspz_prefix *p = prefix;
    uint64_t low = 0, high = p->count / HSPZ_SCAN_BLOCK; /* whole blocks that end below `hits` */
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (p->sums[(middle + 1) * HSPZ_SCAN_BLOCK - 1] < hits) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const uint64_t begin = low * HSPZ_SCAN_BLOCK;
    const uint64_t rest = p->count - begin;
    const uint64_t end = begin + (rest < HSPZ_SCAN_BLOCK ? rest : HSPZ_SCAN_BLOCK);
    return found(p, hspz_prefix_lower_bound(p->sums, begin, end, hits), b, before, at);
}
