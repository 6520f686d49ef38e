#include "engine/cpu/cpu_batch.h"

#include "engine/index_p.h"

#include <stdlib.h>

/* Below these, sharing costs more than it gives. */
#define SHARE_SEEDS (UINT64_C(1) << 14)
#define SHARE_HITS (UINT64_C(1) << 14)
/* Slices a stretch is cut into: a few per thread, to even out. */
#define SLICES_PER_THREAD 4u
#define SLICES_LIMIT 256u

/* What the threads share during one pass. */
struct stretch {
    const struct hspz_cpu_batch *batch;
    const struct hspz_buckets *block;
    const struct hspz_seeder *seeder;
    const struct hspz_shape *shape;
    uint64_t begin, end; /* positions, seeds or hits */
    size_t slices;
    uint64_t max_word_count;
    uint64_t *out;         /* anchors */
    struct hspz_run *runs; /* or their columns */
    uint32_t *refs;
    /* Of each slice: what it found, and the sum of that before it. */
    uint64_t found[SLICES_LIMIT], before[SLICES_LIMIT];
};

static uint64_t
slice_at(const struct stretch *s, size_t slice)
{
    const uint64_t n = s->end - s->begin;
    return s->begin + n / s->slices * slice + n % s->slices * slice / s->slices;
}

static size_t
slices_for(const struct hspz_pool *pool, uint64_t work, uint64_t share)
{
    const unsigned threads = hspz_pool_threads(pool);
    if (threads == 1 || work < share) {
        return 1;
    }
    const size_t slices = (size_t)threads * SLICES_PER_THREAD;
    return slices < SLICES_LIMIT ? slices : SLICES_LIMIT;
}

/* Sums what the slices found, from `base` on; returns the sum of all. */
static uint64_t
sum_slices(struct stretch *s, uint64_t base)
{
    for (size_t i = 0; i < s->slices; i++) {
        s->before[i] = base;
        base += s->found[i];
    }
    return base;
}

uint64_t
hspz_cpu_batch_bytes(uint64_t seeds)
{
    return seeds * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

enum hspz_status
hspz_cpu_batch_reserve(struct hspz_cpu_batch *batch, uint64_t capacity)
{
    if (batch->seeds != NULL && batch->capacity >= capacity) {
        return HSPZ_OK;
    }
    struct hspz_cpu_batch fresh = {
        .seeds = hspz_index_alloc(capacity * sizeof(uint64_t)),
        .sums = hspz_index_alloc(capacity * sizeof(uint32_t)),
        .begins = hspz_index_alloc(capacity * sizeof(uint32_t)),
        .capacity = capacity,
    };
    if (fresh.seeds == NULL || fresh.sums == NULL || fresh.begins == NULL) {
        hspz_cpu_batch_release(&fresh);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    hspz_cpu_batch_release(batch);
    *batch = fresh;
    return HSPZ_OK;
}

void
hspz_cpu_batch_release(struct hspz_cpu_batch *batch)
{
    free(batch->seeds);
    free(batch->sums);
    free(batch->begins);
    *batch = (struct hspz_cpu_batch){0};
}

static void
count_windows(void *user, size_t slice)
{
    struct stretch *s = user;
    s->found[slice] = hspz_seeder_count(s->seeder, slice_at(s, slice), slice_at(s, slice + 1));
}

static void
make_seeds(void *user, size_t slice)
{
    struct stretch *s = user;
    const uint32_t per_position =
        hspz_shape_seeds_per_position(s->seeder->shape, s->seeder->transitions);
    hspz_seeder_make(s->seeder, slice_at(s, slice), slice_at(s, slice + 1),
                     s->batch->seeds + s->before[slice] * per_position);
}

void
hspz_cpu_batch_make(struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                    const struct hspz_seeder *seeder, uint64_t begin, uint64_t end)
{
    struct stretch s = {.batch = batch, .seeder = seeder, .begin = begin, .end = end};
    s.slices = slices_for(pool, end - begin, SHARE_SEEDS);
    hspz_pool_run(pool, count_windows, &s, s.slices);
    const uint64_t windows = sum_slices(&s, 0);
    hspz_pool_run(pool, make_seeds, &s, s.slices);
    batch->per_run = hspz_shape_seeds_per_position(seeder->shape, seeder->transitions);
    batch->count = windows * batch->per_run;
}

static void
find_bad(void *user, size_t slice)
{
    struct stretch *s = user;
    const uint32_t words = hspz_shape_words(s->shape);
    const uint32_t last_query = UINT32_MAX - s->shape->span;
    const uint64_t end = slice_at(s, slice + 1);
    s->found[slice] = UINT64_MAX;
    for (uint64_t i = slice_at(s, slice); i < end; i++) {
        const uint64_t seed = s->batch->seeds[i];
        if (HSPZ_SEED_WORD(seed) >= words || HSPZ_SEED_QUERY(seed) > last_query) {
            s->found[slice] = i;
            break;
        }
    }
}

uint64_t
hspz_cpu_batch_find_bad(const struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                        const struct hspz_shape *shape, uint64_t begin, uint64_t end)
{
    struct stretch s = {.batch = batch, .shape = shape, .begin = begin, .end = end};
    s.slices = slices_for(pool, end - begin, SHARE_SEEDS);
    hspz_pool_run(pool, find_bad, &s, s.slices);
    for (size_t i = 0; i < s.slices; i++) {
        if (s.found[i] != UINT64_MAX) {
            return s.found[i];
        }
    }
    return UINT64_MAX;
}

static void
count_hits(void *user, size_t slice)
{
    struct stretch *s = user;
    s->found[slice] = hspz_buckets_count(s->block, s->batch, slice_at(s, slice),
                                         slice_at(s, slice + 1), s->max_word_count);
}

static void
add_before(void *user, size_t slice)
{
    struct stretch *s = user;
    const uint32_t before = (uint32_t)s->before[slice];
    const uint64_t end = slice_at(s, slice + 1);
    for (uint64_t i = slice_at(s, slice); before != 0 && i < end; i++) {
        s->batch->sums[i] += before;
    }
}

uint64_t
hspz_cpu_batch_count(struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                     const struct hspz_buckets *block, uint64_t begin, uint64_t end, uint64_t hits,
                     uint64_t max_word_count)
{
    struct stretch s = {
        .batch = batch,
        .block = block,
        .begin = begin,
        .end = end,
        .max_word_count = max_word_count,
    };
    s.slices = slices_for(pool, end - begin, SHARE_SEEDS);
    hspz_pool_run(pool, count_hits, &s, s.slices);
    const uint64_t with_these = sum_slices(&s, hits);
    hspz_pool_run(pool, add_before, &s, s.slices);
    return with_these;
}

static void
expand_hits(void *user, size_t slice)
{
    struct stretch *s = user;
    const uint64_t begin = slice_at(s, slice);
    hspz_buckets_expand(s->block, s->batch, begin, slice_at(s, slice + 1),
                        s->out + (begin - s->begin));
}

void
hspz_cpu_batch_expand(const struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                      const struct hspz_buckets *block, uint64_t begin, uint64_t end, uint64_t *out)
{
    struct stretch s = {.batch = batch, .block = block, .begin = begin, .end = end, .out = out};
    s.slices = slices_for(pool, end - begin, SHARE_HITS);
    hspz_pool_run(pool, expand_hits, &s, s.slices);
}

/* Where a slice of hits begins when no run's are in two slices. */
static uint64_t
whole_runs_at(const struct stretch *s, size_t slice)
{
    const uint64_t at = slice_at(s, slice);
    if (at == s->begin || at == s->end) {
        return at;
    }
    const struct hspz_cpu_batch *batch = s->batch;
    const uint64_t seed = hspz_buckets_window(batch, at);
    const uint64_t before = seed == 0 ? 0 : batch->sums[seed - 1];
    return before > s->begin ? before : s->begin;
}

static void
count_runs(void *user, size_t slice)
{
    struct stretch *s = user;
    s->found[slice] =
        hspz_buckets_runs(s->batch, whole_runs_at(s, slice), whole_runs_at(s, slice + 1));
}

static void
write_columns(void *user, size_t slice)
{
    struct stretch *s = user;
    const uint64_t begin = whole_runs_at(s, slice);
    hspz_buckets_columns(s->block, s->batch, begin, whole_runs_at(s, slice + 1),
                         s->runs + s->before[slice], s->refs + (begin - s->begin));
}

size_t
hspz_cpu_batch_columns(const struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                       const struct hspz_buckets *block, uint64_t begin, uint64_t *end, void *out,
                       size_t bytes)
{
    uint64_t runs;
    *end = hspz_buckets_fit(batch, begin, *end, bytes, &runs);
    struct stretch s = {
        .batch = batch,
        .block = block,
        .begin = begin,
        .end = *end,
        .runs = out,
        .refs = (uint32_t *)((struct hspz_run *)out + runs),
    };
    s.slices = slices_for(pool, *end - begin, SHARE_HITS);
    if (s.slices > 1) {
        hspz_pool_run(pool, count_runs, &s, s.slices);
        HSPZ_REQUIRE(sum_slices(&s, 0) == runs);
    }
    hspz_pool_run(pool, write_columns, &s, s.slices);
    return runs * sizeof(struct hspz_run) + (*end - begin) * sizeof(uint32_t);
}
