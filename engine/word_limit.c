#include "engine/word_limit.h"

#include "engine/index_p.h"
#include "protocol/types.h"

#include <stdlib.h>

/* Words of fewer positions than this are counted by that number; the rest are few: 2^32 / 2^16. */
#define COUNTS (UINT32_C(1) << 16)

struct counts {
    uint32_t words[COUNTS]; /* that have so many positions */
    uint32_t large_words;
    uint64_t large_positions;
};

static uint32_t
bucket_size(const uint32_t *table, uint32_t w)
{
    return table[w] - (w == 0 ? 0 : table[w - 1]);
}

static void
count_words(const uint32_t *table, uint32_t words, struct counts *counts)
{
    for (uint32_t w = 0; w < words; w++) {
        const uint32_t size = bucket_size(table, w);
        if (size < COUNTS) {
            counts->words[size]++;
        } else {
            counts->large_words++;
            counts->large_positions += size;
        }
    }
}

static int
compare_sizes(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The limit that lies among the large ones, `wanted` positions of theirs being needed. */
static enum hspz_status
find_large(const uint32_t *table, uint32_t words, uint32_t large, uint64_t wanted, uint32_t *out)
{
    uint32_t *sizes = calloc(large, sizeof(*sizes));
    if (sizes == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    uint32_t n = 0;
    for (uint32_t w = 0; w < words && n < large; w++) {
        const uint32_t size = bucket_size(table, w);
        if (size >= COUNTS) {
            sizes[n++] = size;
        }
    }
    qsort(sizes, n, sizeof(*sizes), compare_sizes);
    uint64_t kept = 0;
    for (uint32_t i = 0; kept < wanted; i++) {
        HSPZ_REQUIRE(i < n);
        kept += sizes[i];
        *out = sizes[i];
    }
    free(sizes);
    return HSPZ_OK;
}

enum hspz_status
hspz_word_limit_of(const uint32_t *table, uint32_t words, uint64_t keep, uint32_t *out)
{
    HSPZ_REQUIRE(keep >= 1 && keep <= HSPZ_KEEP_ALL);
    struct counts *counts = calloc(1, sizeof(*counts));
    if (counts == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    count_words(table, words, counts);
    const uint64_t positions = table[words - 1];
    const uint64_t wanted = (positions * keep + HSPZ_KEEP_ALL - 1) / HSPZ_KEEP_ALL;
    uint64_t kept = 0;
    uint32_t limit = 0;
    for (uint32_t size = 1; size < COUNTS && kept < wanted; size++) {
        kept += (uint64_t)counts->words[size] * size;
        limit = size;
    }
    const uint32_t large = counts->large_words;
    free(counts);
    if (kept < wanted) {
        const enum hspz_status status = find_large(table, words, large, wanted - kept, &limit);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    *out = limit;
    return HSPZ_OK;
}

enum hspz_status
hspz_word_limit(struct hspz_index *index, size_t block, uint64_t max_word_count, uint64_t keep,
                uint64_t *out, struct hspz_error *err)
{
    if (keep == HSPZ_KEEP_ALL) {
        *out = max_word_count;
        return HSPZ_OK;
    }
    struct hspz_index_part *part = &index->parts[block];
    const uint64_t known = atomic_load(&part->word_limit);
    uint32_t limit = (uint32_t)known;
    if (known >> 32 != keep) {
        const uint32_t words = hspz_shape_words(&index->params.shape);
        const enum hspz_status status = hspz_word_limit_of(part->table, words, keep, &limit);
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "no memory to count words");
        }
        atomic_store(&part->word_limit, keep << 32 | limit);
    }
    *out = limit < max_word_count ? limit : max_word_count;
    return HSPZ_OK;
}
