/* Every engine's HSPs against the model: the same groups, order and bytes, however a job is driven.
 */
#include "engine/score.h"
#include "tests/conformance/fixture.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

static struct model_scoring
random_scoring(uint64_t *seed)
{
    static const int xdrops[] = {910, 0, 91, 300, 5000};
    static const int thresholds[] = {3000, 1500, 800, 400, 2};
    return (struct model_scoring){
        .xdrop = xdrops[test_random(seed) % 5],
        .threshold = thresholds[test_random(seed) % 5],
        .entropy = test_random(seed) % 3 != 0,
        .scope = test_random(seed) % 2 == 0 ? HSPZ_SCOPE_JOB : HSPZ_SCOPE_CHUNK,
    };
}

/* A query that shares stretches with the reference, on both strands. */
static char *
related_query(uint64_t *seed, const char *ref, size_t len)
{
    char *query = random_sequence(seed, len);
    const size_t ref_len = strlen(ref);
    for (size_t at = 0; at + 200 < len && ref_len > 200; at += 100 + test_random(seed) % 300) {
        const size_t from = test_random(seed) % (ref_len - 100);
        const size_t count = 20 + test_random(seed) % 80;
        if (test_random(seed) % 3 == 0) {
            char piece[128] = {0};
            memcpy(piece, ref + from, count);
            const struct model_job job = {.query = piece};
            char *minus = model_strand(&job, HSPZ_STRAND_MINUS);
            memcpy(query + at, minus, count);
            free(minus);
        } else {
            memcpy(query + at, ref + from, count);
        }
    }
    return query;
}

static void
test_random_queries_equal_the_model(void **state)
{
    (void)state;
    static const char *const patterns[] = {"1111", "11011", "1110100110101", "1001001001"};
    uint64_t seed = 23;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        size_t hsps[2] = {0};
        for (unsigned round = 0, rounds = test_rounds(120); round < rounds; round++) {
            struct fixture f;
            fixture_open(&f, engines[e], 1 + round % 3, patterns[round % 4]);
            char *ref = random_sequence(&seed, test_random(&seed) % 2000);
            char *query = related_query(&seed, ref, test_random(&seed) % 900);
            fixture_load(&f, ref);
            struct model_job job = fixture_job(&f, query);
            job.strands = (enum hspz_strands)(1 + round % 3);
            job.transitions = round % 4 == 0 ? 1 : round % 4 == 2 ? 2 : 0;
            job.unmask = round % 5 == 0;
            job.begin = round % 7 == 0 ? 50 : 0;
            job.end = round % 11 == 0 ? 300 : UINT64_MAX;
            job.interval = round % 4 == 1 && job.begin == 0 && job.end == UINT64_MAX ? 170 : 0;
            job.max_hits = round % 3 == 0 ? HSPZ_MAX_HITS_DEFAULT : 1 + test_random(&seed) % 3000;
            const struct model_scoring scoring = random_scoring(&seed);
            hsps[scoring.scope] += runner_check_hsps(
                &f.runner, f.ref, &job, &scoring,
                &(struct run_options){.part_anchors = 2 + test_random(&seed) % 3000,
                                      .park_every = round % 3,
                                      .lose_every = round % 5,
                                      .walk = (enum hspz_chunk_walk)(round & 1)});
            free(ref);
            free(query);
            fixture_close(&f);
        }
        assert_true(hsps[HSPZ_SCOPE_JOB] > 1000);
        assert_true(hsps[HSPZ_SCOPE_CHUNK] > 1000);
    }
}

/* A reference of several blocks: in a job's scope they come strand by strand, block by block. */
static void
test_blocks_have_sets_of_their_own(void **state)
{
    (void)state;
    uint64_t seed = 31;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "110111");
        fixture_load_blocks(&f, &seed);
        char *query = related_query(&seed, f.bases[0], 900);
        char *more = related_query(&seed, f.bases[2], 900);
        memcpy(query + 450, more + 450, 450);
        for (unsigned round = 0, rounds = test_rounds(12); round < rounds; round++) {
            struct model_job job = fixture_job(&f, query);
            job.max_hits = 4000;
            job.interval = round % 3 == 2 ? 333 : 0;
            const struct model_scoring scoring = {.xdrop = 910,
                                                  .threshold = 700,
                                                  .entropy = true,
                                                  .scope = round % 2 == 0 ? HSPZ_SCOPE_JOB
                                                                          : HSPZ_SCOPE_CHUNK};
            struct model_hsps hsps = model_hsps(&job, &scoring);
            assert_true(hsps.count >= 4);
            model_hsps_free(&hsps);
            runner_check_hsps(&f.runner, f.ref, &job, &scoring,
                              &(struct run_options){.part_anchors = round < 6 ? 777 : 3,
                                                    .park_every = round % 4,
                                                    .lose_every = round % 5});
        }
        free(query);
        free(more);
        fixture_close(&f);
    }
}

/* Several batches. */
static void
test_a_long_query_is_one_scope(void **state)
{
    (void)state;
    uint64_t seed = 5;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "1110100110010101111");
        char *ref = random_sequence(&seed, 3000);
        char *query = related_query(&seed, ref, 520000);
        /* One alignment over the border of the first two batches. */
        memcpy(query + 249000, ref, 3000);
        fixture_load(&f, ref);
        for (int scope = 0; scope < 2; scope++) {
            struct model_job job = fixture_job(&f, query);
            job.transitions = 0;
            job.max_hits = 2000;
            const struct model_scoring scoring = {
                .xdrop = 910, .threshold = 3000, .scope = (enum hspz_hsp_scope)scope};
            assert_true(runner_check_hsps(&f.runner, f.ref, &job, &scoring,
                                          &(struct run_options){.part_anchors = 1000,
                                                                .park_every = 7,
                                                                .lose_every = 5}) > 1000);
        }
        free(ref);
        free(query);
        fixture_close(&f);
    }
}

static void
refuse(struct fixture *f, const struct hspz_job_spec *spec, enum hspz_status status,
       const char *text)
{
    struct run_result got =
        runner_run(&f->runner, f->ref, spec, &(struct run_options){.part_anchors = 100});
    assert_int_equal(got.status, status);
    if (strstr(got.err.text, text) == NULL) {
        fail_msg("%s", got.err.text);
    }
    run_result_free(&got);
}

static void
test_what_cannot_be_done_is_refused(void **state)
{
    (void)state;
    const uint64_t seeds[] = {0};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "1111");
        fixture_load(&f, "ACGTACGTACGT");
        struct model_job job = fixture_job(&f, "ACGTACGT");
        struct hspz_job_spec spec = runner_spec(&job);
        spec.output = HSPZ_RECORDS_HSPS;
        hspz_scoring_init(&spec.scoring);
        spec.scoring.threshold = 0;
        refuse(&f, &spec, HSPZ_E_BAD_REQUEST, "threshold");
        spec.scoring.threshold = 100;
        spec.given_seeds = true;
        spec.seeds = (const uint8_t *)seeds;
        spec.seed_count = 1;
        refuse(&f, &spec, HSPZ_E_BAD_REQUEST, "not of given seeds");
        fixture_unload(&f);

        struct hspz_index *index = NULL;
        struct hspz_error err = {0};
        struct model_index tables = model_index_make("1111", "ACGTACGTACGT", 12, 0, 1);
        assert_int_equal(hspz_index_from_tables(&f.params, NULL, 12, tables.table, tables.pos,
                                                tables.pos_count, &index, &err),
                         HSPZ_OK);
        assert_int_equal(f.runner.ops->load(f.runner.engine, index, &f.ref, &err), HSPZ_OK);
        hspz_index_release(&index);
        model_index_free(&tables);
        spec.given_seeds = false;
        refuse(&f, &spec, HSPZ_E_BAD_REQUEST, "no sequence");
        fixture_close(&f);
    }
}

/* The limit is the whole job's, and what it says it holds is exact when it is refused at the end.
 */
static void
test_too_many_hsps_are_refused(void **state)
{
    (void)state;
    uint64_t seed = 77;
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        fixture_open(&f, engines[e], 2, "110111");
        fixture_load_blocks(&f, &seed);
        char *query = related_query(&seed, f.bases[0], 900);
        struct model_job job = fixture_job(&f, query);
        job.strands = HSPZ_STRANDS_PLUS;
        const struct model_scoring scoring = {.xdrop = 910, .threshold = 500};
        struct model_hsps want = model_hsps(&job, &scoring);
        assert_true(want.count >= 2);
        struct hspz_job_spec spec = runner_spec(&job);
        spec.output = HSPZ_RECORDS_HSPS;
        hspz_scoring_init(&spec.scoring);
        spec.scoring.threshold = 500;
        spec.scoring.entropy = false;
        spec.scoring.limit = want.totals[0] - 1;
        const struct run_options options = {.part_anchors = 500, .park_every = 2};
        struct run_result got = runner_run(&f.runner, f.ref, &spec, &options);
        assert_int_equal(got.status, HSPZ_E_TOO_LARGE);
        assert_int_equal(got.err.limit, want.totals[0] - 1);
        assert_true(got.err.hits > got.err.limit);
        assert_int_equal(got.hsp_count, 0);
        run_result_free(&got);
        spec.scoring.limit = 1;
        refuse(&f, &spec, HSPZ_E_TOO_LARGE,
               "its limit is 1, the smaller of its hsp_limit and the server's max_hsps");
        model_hsps_free(&want);
        free(query);
        fixture_close(&f);
    }
}

static void
test_no_memory_ends_a_job_and_leaves_nothing(void **state)
{
    (void)state;
    uint64_t seed = 77;
    struct fixture f;
    fixture_open(&f, &hspz_cpu_engine, 2, "110111");
    fixture_load_blocks(&f, &seed);
    char *query = related_query(&seed, f.bases[0], 900);
    struct model_job job = fixture_job(&f, query);
    struct hspz_job_spec spec = runner_spec(&job);
    spec.output = HSPZ_RECORDS_HSPS;
    for (int scope = 0; scope < 2; scope++) {
        hspz_scoring_init(&spec.scoring);
        spec.scoring.threshold = 2;
        spec.scoring.scope = (enum hspz_hsp_scope)scope;
        uint64_t want, got;
        assert_int_equal(runner_run_bare(&f.runner, f.ref, &spec, &want), HSPZ_OK);
        assert_true(want > 5000);
        bool failed = true;
        long n = 1;
        for (; failed; n++) {
            failing_malloc_arm(n);
            const enum hspz_status status = runner_run_bare(&f.runner, f.ref, &spec, &got);
            failed = failing_malloc_disarm();
            assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        }
        assert_true(n > 8);
        assert_int_equal(got, want);
    }
    free(query);
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_queries_equal_the_model),
        cmocka_unit_test(test_blocks_have_sets_of_their_own),
        cmocka_unit_test(test_a_long_query_is_one_scope),
        cmocka_unit_test(test_what_cannot_be_done_is_refused),
        cmocka_unit_test(test_too_many_hsps_are_refused),
        cmocka_unit_test(test_no_memory_ends_a_job_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
