/* Every engine against the model: the same chunks, order and bytes, however a job is driven. */
#include "tests/conformance/fixture.h"
#include "tests/support/test.h"

/* SPEC C.5: counts 0 3 1 0 5 give P = 0 3 4 4 9; seed 1 fills [2][1][0], seed 2 [3], seed 4
 * [8]..[4]. Reference positions are told apart by construction. */
static void
test_worked_example_is_written_backwards(void **state)
{
    (void)state;
    const char *bases = "CCCCAACGTAAAGAAAGAAAGTTTTTTTT"; /* AAAG x 3, ACGT x 1, TTTT x 5 */
    static const uint64_t seeds[] = {
        UINT64_C(0x66) << 32 | 10, /* CGCG: none */
        UINT64_C(0x02) << 32 | 20, /* AAAG */
        UINT64_C(0x1b) << 32 | 30, /* ACGT */
        UINT64_C(0xaa) << 32 | 40, /* GGGG: none */
        UINT64_C(0xff) << 32 | 50, /* TTTT */
    };
    static const uint32_t refs[] = {21, 17, 13, 9, 29, 28, 27, 26, 25};
    static const uint32_t queries[] = {24, 24, 24, 34, 54, 54, 54, 54, 54};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 1, "1111");
        fixture_load(&f, bases);
        struct hspz_job_spec spec = {.given_seeds = true,
                                     .seeds = (const uint8_t *)seeds,
                                     .seed_count = 5,
                                     .max_hits = 100,
                                     .hit_limit = UINT64_MAX,
                                     .keep_words = HSPZ_KEEP_ALL,
                                     .max_word_count = UINT64_MAX};
        struct run_result got =
            runner_run(&f.runner, f.ref, &spec, &(struct run_options){.part_anchors = 100});
        assert_int_equal(got.status, HSPZ_OK);
        assert_int_equal(got.count, 9);
        for (size_t i = 0; i < 9; i++) {
            /* within a bucket the last occurrence comes first */
            assert_int_equal(HSPZ_ANCHOR_REF(got.anchors[i]), refs[i]);
            assert_int_equal(HSPZ_ANCHOR_QUERY(got.anchors[i]), queries[i]);
        }
        assert_int_equal(got.chunk_count, 1);
        assert_int_equal(got.chunks[0].seed_end, 5);
        run_result_free(&got);
        fixture_close(&f);
    }
}

static void
test_random_queries_equal_the_model(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "1111",          "11011",
        "1110100110101", "10001000100000001",
        "0111101",       "110100000000000000000000000000000000011"};
    uint64_t seed = 11;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        for (unsigned round = 0, rounds = test_rounds(120); round < rounds; round++) {
            struct fixture f;
            fixture_open(&f, engines[e], 1 + round % 3, patterns[round % 6]);
            char *ref = random_sequence(&seed, test_random(&seed) % 3000);
            char *query = random_sequence(&seed, test_random(&seed) % 700);
            fixture_load(&f, ref);
            struct model_job job = fixture_job(&f, query);
            job.strands = (enum hspz_strands)(1 + round % 3);
            job.transitions = round % 5 == 4 ? 2 : round % 2;
            job.unmask = round % 5 == 0;
            job.begin = round % 7 == 0 ? 50 : 0;
            job.end = round % 11 == 0 ? 300 : UINT64_MAX;
            job.max_hits = round % 4 == 0 ? HSPZ_MAX_HITS_DEFAULT : 1 + test_random(&seed) % 3000;
            job.max_word_count = round % 6 == 0 ? 5 : UINT64_MAX;
            job.keep_words =
                round % 4 == 1 ? 1 + test_random(&seed) % HSPZ_KEEP_ALL : HSPZ_KEEP_ALL;
            runner_check(&f.runner, f.ref, &job,
                         &(struct run_options){.part_anchors = 1 + test_random(&seed) % 5000,
                                               .park_every = round % 3,
                                               .lose_every = round % 5,
                                               .walk = (enum hspz_chunk_walk)(round & 1)});
            free(ref);
            free(query);
            fixture_close(&f);
        }
    }
}

static void
test_given_seeds_equal_the_model_at_every_part_size(void **state)
{
    (void)state;
    uint64_t seed = 5;
    uint64_t seeds[1000];
    for (size_t i = 0; i < 1000; i++) {
        const uint64_t r = test_random(&seed);
        seeds[i] = (r % 256) << 32 | (r >> 40);
    }
    char *ref = random_sequence(&seed, 4000);
    static const size_t parts[] = {1, 2, 3, 7, 64, 65, 1000, 100000};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "1111");
        fixture_load(&f, ref);
        for (size_t p = 0; p < 8; p++) {
            struct model_job job = fixture_job(&f, NULL);
            job.seeds = seeds;
            job.seed_count = 1000;
            job.max_hits = p % 2 == 0 ? 500 : 1;
            runner_check(&f.runner, f.ref, &job,
                         &(struct run_options){
                             .part_anchors = parts[p], .park_every = 13, .lose_every = p % 4 * 7});
        }
        struct model_job job = fixture_job(&f, NULL);
        job.seeds = seeds;
        runner_check(&f.runner, f.ref, &job, &(struct run_options){.part_anchors = 10});
        fixture_close(&f);
    }
    free(ref);
}

/* Several batches: a query longer than 250,000 positions, both strands. */
static void
test_long_query_is_cut_into_batches(void **state)
{
    (void)state;
    uint64_t seed = 3;
    char *ref = random_sequence(&seed, 2000);
    char *query = random_sequence(&seed, 620000);
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "111010011010111");
        fixture_load(&f, ref);
        struct model_job job = fixture_job(&f, query);
        job.max_hits = 5000;
        runner_check(&f.runner, f.ref, &job,
                     &(struct run_options){.part_anchors = 3000, .park_every = 5, .lose_every = 3});
        fixture_close(&f);
    }
    free(ref);
    free(query);
}

static void
test_intervals_are_walked_as_kegalign_does(void **state)
{
    (void)state;
    static const uint64_t intervals[] = {1, 2, 7, 100, 333, 699, 700, 701, 100000, UINT64_MAX / 2};
    uint64_t seed = 17;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        for (unsigned round = 0, rounds = test_rounds(60); round < rounds; round++) {
            struct fixture f;
            fixture_open(&f, engines[e], 1 + round % 3, round % 2 == 0 ? "1111" : "110111");
            char *ref = random_sequence(&seed, test_random(&seed) % 2000);
            char *query = random_sequence(&seed, round % 6 == 0 ? round % 8 : 600 + round * 3);
            fixture_load(&f, ref);
            struct model_job job = fixture_job(&f, query);
            job.strands = (enum hspz_strands)(1 + round % 3);
            job.transitions = round % 4 == 0 ? 1 : round % 4 == 2 ? 2 : 0;
            job.interval = intervals[round % 10];
            job.max_hits = 1 + test_random(&seed) % 1000;
            runner_check(&f.runner, f.ref, &job,
                         &(struct run_options){.part_anchors = 1 + test_random(&seed) % 500,
                                               .park_every = round % 3,
                                               .lose_every = round % 4});
            free(ref);
            free(query);
            fixture_close(&f);
        }
        struct fixture f;
        fixture_open(&f, engines[e], 2, "111010011010111");
        char *ref = random_sequence(&seed, 2000);
        char *query = random_sequence(&seed, 620000);
        fixture_load(&f, ref);
        struct model_job job = fixture_job(&f, query);
        const uint64_t step = 190001 * (uint64_t)test_share();
        for (job.interval = 250000; job.interval < 1000000; job.interval += step) {
            runner_check(
                &f.runner, f.ref, &job,
                &(struct run_options){.part_anchors = 3000, .park_every = 5, .lose_every = 3});
        }
        free(ref);
        free(query);
        fixture_close(&f);
    }
}

/* A reference of several blocks, built by the index builder; the model indexes each block. */
static void
test_blocks_of_a_reference_come_in_order(void **state)
{
    (void)state;
    uint64_t seed = 21;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "110111");
        fixture_load_blocks(&f, &seed);
        char *query = random_sequence(&seed, 900);
        struct model_job job = fixture_job(&f, query);
        job.max_hits = 4000;
        for (unsigned park = 0; park < 4; park++) {
            runner_check(&f.runner, f.ref, &job,
                         &(struct run_options){
                             .part_anchors = 777, .park_every = park, .lose_every = 3 - park});
        }
        free(query);
        fixture_close(&f);
    }
}

static struct hspz_job_spec
query_spec(const char *bases, size_t len)
{
    return (struct hspz_job_spec){.bases = {(const uint8_t *)bases, len},
                                  .strands = HSPZ_STRANDS_PLUS,
                                  .end = UINT64_MAX,
                                  .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                  .hit_limit = UINT64_MAX,
                                  .keep_words = HSPZ_KEEP_ALL,
                                  .max_word_count = UINT64_MAX};
}

/* 70,000 x A against itself: 69,982 squared hits do not fit 32 bits. */
static void
test_hits_beyond_32_bits_are_refused_with_the_exact_total(void **state)
{
    (void)state;
    const size_t len = 70000;
    char *bases = malloc(len + 1);
    assert_non_null(bases);
    memset(bases, 'A', len);
    bases[len] = '\0';
    const struct run_options options = {.part_anchors = 1 << 20};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        for (unsigned threads = 1; threads < 4; threads++) {
            struct fixture f;
            fixture_open(&f, engines[e], threads, "1110100110010101111");
            fixture_load(&f, bases);
            struct hspz_job_spec spec = query_spec(bases, len);
            struct run_result got = runner_run(&f.runner, f.ref, &spec, &options);
            assert_int_equal(got.status, HSPZ_E_HITS_OVERFLOW);
            assert_true(got.err.has_hits);
            assert_int_equal(got.err.hits, UINT64_C(4897480324));
            assert_int_equal(got.count, 0);
            run_result_free(&got);

            /* The engine goes on: 60 windows of it are fine. */
            spec.end = 60;
            got = runner_run(&f.runner, f.ref, &spec, &options);
            assert_int_equal(got.status, HSPZ_OK);
            assert_int_equal(got.count, 60 * 69982);
            run_result_free(&got);

            spec.hit_limit = 60 * 69982 - 1;
            got = runner_run(&f.runner, f.ref, &spec, &options);
            assert_int_equal(got.status, HSPZ_E_TOO_LARGE);
            assert_int_equal(got.err.hits, 60 * 69982);
            assert_int_equal(got.err.limit, 60 * 69982 - 1);
            assert_non_null(strstr(got.err.text, "hits up to batch 0 (plus strand, "));
            assert_int_equal(got.count, 0);
            run_result_free(&got);

            spec.end = UINT64_MAX;
            spec.interval = 60;
            spec.hit_limit = 60 * 69982 * 3;
            got = runner_run(&f.runner, f.ref, &spec, &options);
            assert_int_equal(got.status, HSPZ_E_TOO_LARGE);
            assert_non_null(
                strstr(got.err.text, "hits up to batch 0 of interval 2 (plus strand, "));
            run_result_free(&got);
            fixture_close(&f);
        }
    }
    free(bases);
}

static void
test_bad_input_is_refused_by_place(void **state)
{
    (void)state;
    const struct run_options options = {.part_anchors = 100};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "1111");
        fixture_load(&f, "ACGTACGTACGT");
        const uint64_t seeds[] = {0, 1, UINT64_C(256) << 32 | 7, 3};
        struct hspz_job_spec spec = {.given_seeds = true,
                                     .seeds = (const uint8_t *)seeds,
                                     .seed_count = 4,
                                     .max_hits = 1,
                                     .hit_limit = UINT64_MAX,
                                     .keep_words = HSPZ_KEEP_ALL,
                                     .max_word_count = UINT64_MAX};
        struct run_result got = runner_run(&f.runner, f.ref, &spec, &options);
        assert_int_equal(got.status, HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(got.err.text, "seed 2 has word 256 at position 7"));
        run_result_free(&got);

        const uint64_t far[] = {UINT32_MAX - 4, UINT32_MAX - 3};
        spec.seeds = (const uint8_t *)far;
        spec.seed_count = 2;
        got = runner_run(&f.runner, f.ref, &spec, &options);
        assert_int_equal(got.status, HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(got.err.text, "seed 1 has word 0 at position 4294967292"));
        run_result_free(&got);

        spec = query_spec("ACGTAC\tGT", 9);
        got = runner_run(&f.runner, f.ref, &spec, &options);
        assert_int_equal(got.status, HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(got.err.text, "query base 6 is the byte 0x09"));
        assert_int_equal(got.count, 0);
        run_result_free(&got);
        fixture_close(&f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example_is_written_backwards),
        cmocka_unit_test(test_random_queries_equal_the_model),
        cmocka_unit_test(test_given_seeds_equal_the_model_at_every_part_size),
        cmocka_unit_test(test_long_query_is_cut_into_batches),
        cmocka_unit_test(test_intervals_are_walked_as_kegalign_does),
        cmocka_unit_test(test_blocks_of_a_reference_come_in_order),
        cmocka_unit_test(test_hits_beyond_32_bits_are_refused_with_the_exact_total),
        cmocka_unit_test(test_bad_input_is_refused_by_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
