#include "engine/cpu/cpu_batch.h"

#include "tests/support/test.h"

#include <inttypes.h>

/* Tables of buckets far larger than memory: only counts are looked at, never positions. */
struct fixture {
    struct hspz_buckets buckets;
    uint32_t *table;
    uint32_t sums[1000], begins[1000];
    struct hspz_cpu_batch batch; /* of the last count */
};

static void
open_fixture(struct fixture *f, const char *pattern, const uint32_t *sizes, uint32_t size_count,
             const uint32_t *pos)
{
    struct hspz_shape shape;
    assert_int_equal(hspz_shape_parse(pattern, strlen(pattern), &shape, NULL), HSPZ_OK);
    const uint32_t words = hspz_shape_words(&shape);
    f->table = calloc(words, sizeof(*f->table));
    assert_non_null(f->table);
    uint32_t sum = 0;
    for (uint32_t w = 0; w < words; w++) {
        sum += w < size_count ? sizes[w] : 0;
        f->table[w] = sum;
    }
    const struct hspz_index_block block = {.table = f->table, .pos = pos, .pos_count = sum};
    assert_int_equal(hspz_buckets_init(&f->buckets, &shape, block), HSPZ_OK);
}

static void
close_fixture(struct fixture *f)
{
    hspz_buckets_fini(&f->buckets);
    free(f->table);
}

static uint64_t
count(struct fixture *f, uint64_t *seeds, uint64_t n, uint64_t max_word_count)
{
    f->batch = (struct hspz_cpu_batch){.seeds = seeds,
                                       .sums = f->sums,
                                       .begins = f->begins,
                                       .count = n,
                                       .capacity = n,
                                       .per_run = 1};
    return hspz_buckets_count(&f->buckets, &f->batch, 0, n, max_word_count);
}

static uint64_t
seed_of(uint32_t word, uint32_t query)
{
    return (uint64_t)word << 32 | query;
}

static void
test_hits_are_summed_in_64_bits(void **state)
{
    (void)state;
    const uint32_t two31 = UINT32_C(1) << 31;
    const uint32_t sizes[] = {two31, 5};
    struct fixture f;
    open_fixture(&f, "1111", sizes, 2, NULL);
    uint64_t seeds[] = {seed_of(0, 0), seed_of(0, 1), seed_of(1, 2)};
    assert_int_equal(count(&f, seeds, 3, UINT64_MAX), UINT64_C(4294967301));
    assert_int_equal(f.sums[0], two31);
    assert_int_equal(f.sums[1], 0);
    assert_int_equal(f.sums[2], 5);
    assert_int_equal(count(&f, seeds, 3, two31), UINT64_C(4294967301));
    assert_int_equal(count(&f, seeds, 3, two31 - 1), 5);

    /* A whole batch of the largest bucket there can be. */
    const uint32_t largest[] = {UINT32_MAX};
    close_fixture(&f);
    open_fixture(&f, "1111", largest, 1, NULL);
    enum { MANY = 1000 };
    uint64_t many[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        many[i] = seed_of(0, i);
    }
    assert_int_equal(count(&f, many, MANY, UINT64_MAX), UINT64_C(1000) * UINT32_MAX);
    close_fixture(&f);
}

/* The last window of the longest block: its end is 2^32 - 65, in either half of an anchor. */
static void
test_anchors_at_the_end_of_the_longest_block_are_exact(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 2, 1};
    const uint32_t pos[] = {4294967211u, 4294967212u, 0};
    struct fixture f;
    open_fixture(&f, "1110100110010101111", sizes, 3, pos);
    uint64_t seeds[] = {seed_of(1, 4294967212u), seed_of(2, 4294967212u), seed_of(1, 0)};
    uint64_t anchors[5];
    assert_int_equal(count(&f, seeds, 3, UINT64_MAX), 5);
    hspz_buckets_expand(&f.buckets, &f.batch, 0, 5, anchors);
    static const uint64_t want[][2] = {{4294967231u, 4294967231u},
                                       {4294967230u, 4294967231u},
                                       {19, 4294967231u},
                                       {4294967231u, 19},
                                       {4294967230u, 19}};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(anchors[i] & UINT32_MAX, want[i][0]);
        assert_int_equal(anchors[i] >> 32, want[i][1]);
    }
    close_fixture(&f);
}

/* The worked example of the contract: counts 0 3 1 0 5, in any cut of the range. */
static void
test_each_bucket_is_written_backwards_wherever_the_range_is_cut(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 3, 1, 0, 5};
    const uint32_t pos[] = {10, 20, 30, 40, 51, 52, 53, 54, 55};
    struct fixture f;
    open_fixture(&f, "1111", sizes, 5, pos);
    uint64_t seeds[5];
    for (uint32_t i = 0; i < 5; i++) {
        seeds[i] = seed_of(i, 100 + i);
    }
    assert_int_equal(count(&f, seeds, 5, UINT64_MAX), 9);
    const uint32_t want_sums[] = {0, 3, 4, 4, 9};
    assert_memory_equal(f.sums, want_sums, sizeof(want_sums));
    static const uint32_t want[9][2] = {{30, 101}, {20, 101}, {10, 101}, {40, 102}, {55, 104},
                                        {54, 104}, {53, 104}, {52, 104}, {51, 104}};
    for (uint64_t begin = 0; begin <= 9; begin++) {
        for (uint64_t end = begin; end <= 9; end++) {
            uint64_t anchors[10] = {0};
            hspz_buckets_expand(&f.buckets, &f.batch, begin, end, anchors);
            for (uint64_t h = begin; h < end; h++) {
                assert_int_equal(anchors[h - begin],
                                 (uint64_t)(want[h][1] + 4) << 32 | (want[h][0] + 4));
            }
            assert_int_equal(anchors[end - begin], 0);
        }
    }
    close_fixture(&f);
}

/* Random counts, in any cut of the range: columns against the anchors, and what fits against the
 * rule of 8 bytes a run and 4 an anchor, tried for every end. */
static void
test_columns_hold_the_anchors_wherever_the_range_is_cut(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (unsigned round = 0; round < 40; round++) {
        enum { SEEDS = 700, WORDS = 256 };
        uint32_t sizes[WORDS];
        uint32_t pos[WORDS * 90];
        uint64_t seeds[SEEDS];
        struct fixture f;
        for (uint32_t w = 0; w < WORDS; w++) {
            const uint64_t kind = test_random(&random) % 8;
            sizes[w] = kind < 4 ? 0 : kind < 7 ? 1 + (uint32_t)(test_random(&random) % 3) : 90;
        }
        for (size_t i = 0; i < WORDS * 90; i++) {
            pos[i] = (uint32_t)(test_random(&random) >> 33);
        }
        open_fixture(&f, "1111", sizes, WORDS, pos);
        for (uint32_t i = 0; i < SEEDS; i++) {
            seeds[i] = seed_of((uint32_t)(test_random(&random) % WORDS), 1000 + i / 13);
        }
        const uint64_t hits = count(&f, seeds, SEEDS, UINT64_MAX);
        f.batch.per_run = round % 2 == 0 ? 13 : 1;
        uint64_t *anchors = malloc((hits + 1) * sizeof(*anchors));
        uint32_t *refs = malloc((hits + 1) * sizeof(*refs));
        assert_true(anchors != NULL && refs != NULL && hits > 100);
        for (unsigned cut = 0; cut < 50; cut++) {
            const uint64_t begin = test_random(&random) % hits;
            const uint64_t end = begin + 1 + test_random(&random) % (hits - begin);
            struct hspz_run runs[SEEDS + 1];
            memset(runs, 0x5a, sizeof(runs));
            hspz_buckets_expand(&f.buckets, &f.batch, begin, end, anchors);
            const uint64_t run_count = hspz_buckets_runs(&f.batch, begin, end);
            refs[end - begin] = 0x77777777;
            hspz_buckets_columns(&f.buckets, &f.batch, begin, end, runs, refs);
            uint64_t at = 0;
            for (uint64_t r = 0; r < run_count; r++) {
                assert_true(runs[r].count > 0);
                assert_true(f.batch.per_run == 1 || r == 0 || runs[r].query != runs[r - 1].query);
                for (uint32_t j = 0; j < runs[r].count; j++, at++) {
                    assert_true(anchors[at] == (refs[at] | (uint64_t)runs[r].query << 32));
                }
            }
            assert_int_equal(at, end - begin);
            assert_int_equal(runs[run_count].count, 0x5a5a5a5a);
            assert_int_equal(refs[end - begin], 0x77777777);

            const size_t bytes = 12 + test_random(&random) % (12 * (end - begin));
            uint64_t fit_runs;
            const uint64_t fit = hspz_buckets_fit(&f.batch, begin, end, bytes, &fit_runs);
            assert_true(fit > begin && fit <= end);
            assert_int_equal(fit_runs, hspz_buckets_runs(&f.batch, begin, fit));
            assert_true(8 * fit_runs + 4 * (fit - begin) <= bytes);
            assert_true(fit == end ||
                        8 * hspz_buckets_runs(&f.batch, begin, fit + 1) + 4 * (fit + 1 - begin) >
                            bytes);
        }
        free(refs);
        free(anchors);
        close_fixture(&f);
    }
}

/* Windows of very different sizes, cut into parts of several sizes, shared among threads. */
static void
test_columns_are_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    enum { WORDS = 256, SEEDS = 40000, ROOM = 1 << 20 };
    static const unsigned threads[] = {1, 2, 3, 7};
    uint64_t random = 8;
    uint32_t sizes[WORDS];
    uint32_t *pos = malloc(WORDS * 20000 * sizeof(*pos));
    uint32_t *sums = malloc(SEEDS * sizeof(*sums));
    uint32_t *begins = malloc(SEEDS * sizeof(*begins));
    uint64_t *seeds = malloc(SEEDS * sizeof(*seeds));
    uint8_t *out[2] = {malloc(ROOM), malloc(ROOM)};
    assert_true(pos && sums && begins && seeds && out[0] && out[1]);
    for (uint32_t w = 0; w < WORDS; w++) {
        const uint64_t kind = test_random(&random) % 16;
        sizes[w] = kind < 9 ? 0 : kind < 15 ? 1 + (uint32_t)(test_random(&random) % 40) : 20000;
    }
    for (size_t i = 0; i < WORDS * 20000; i++) {
        pos[i] = (uint32_t)(test_random(&random) >> 33);
    }
    struct fixture f;
    open_fixture(&f, "1111", sizes, WORDS, pos);
    for (uint32_t i = 0; i < SEEDS; i++) {
        const uint64_t word = test_random(&random) % WORDS;
        seeds[i] = seed_of(sizes[word] == 20000 && i % 100 != 0 ? 0 : (uint32_t)word, i / 5);
    }
    for (uint32_t per_run = 1; per_run <= 5; per_run += 4) {
        struct hspz_cpu_batch batch = {.seeds = seeds,
                                       .sums = sums,
                                       .begins = begins,
                                       .count = SEEDS,
                                       .capacity = SEEDS,
                                       .per_run = per_run};
        const uint64_t hits = hspz_buckets_count(&f.buckets, &batch, 0, SEEDS, UINT64_MAX);
        assert_true(hits > 500000);
        for (size_t t = 0; t < 4; t++) {
            struct hspz_pool *pool = NULL;
            struct hspz_pool *alone = NULL;
            assert_int_equal(hspz_pool_create(threads[t], &pool), HSPZ_OK);
            assert_int_equal(hspz_pool_create(1, &alone), HSPZ_OK);
            for (uint64_t begin = 0; begin < hits;) {
                const size_t room = 16 + test_random(&random) % (ROOM - 16);
                uint64_t end = hits;
                uint64_t same = hits;
                const size_t used =
                    hspz_cpu_batch_columns(&batch, pool, &f.buckets, begin, &end, out[0], room);
                assert_int_equal(
                    hspz_cpu_batch_columns(&batch, alone, &f.buckets, begin, &same, out[1], room),
                    used);
                assert_true(end == same && end > begin && used <= room);
                assert_memory_equal(out[0], out[1], used);
                begin = end;
            }
            hspz_pool_destroy(&pool);
            hspz_pool_destroy(&alone);
        }
    }
    close_fixture(&f);
    free(out[0]);
    free(out[1]);
    free(seeds);
    free(begins);
    free(sums);
    free(pos);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_are_summed_in_64_bits),
        cmocka_unit_test(test_anchors_at_the_end_of_the_longest_block_are_exact),
        cmocka_unit_test(test_each_bucket_is_written_backwards_wherever_the_range_is_cut),
        cmocka_unit_test(test_columns_hold_the_anchors_wherever_the_range_is_cut),
        cmocka_unit_test(test_columns_are_the_same_for_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
