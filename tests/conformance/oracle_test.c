/* Every engine against what KegAlign computed (HSPZ_SHARED/oracle): from FASTA through our index
 * builder and seeder, byte for byte, order included; and KegAlign's own tables and seeds fed in. */
#include "engine/cpu/cpu_batch.h"
#include "engine/plan.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/runner.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <unistd.h>

/* SHA-256 by coreutils, in hex. */
static void
sha256(const void *bytes, size_t len, char hex[65])
{
    char path[] = "/tmp/hspz-sha-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    char command[64];
    snprintf(command, sizeof(command), "sha256sum %s", path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_int_equal(fread(hex, 1, 64, out), 64);
    hex[64] = '\0';
    pclose(out);
    unlink(path);
}

/* Fails unless SHA256SUMS lists dump/call<n>.<what> with the hash of these bytes. */
static void
check_dump(const struct oracle *o, int call, const char *what, const void *bytes, size_t len)
{
    char name[64], hex[65];
    snprintf(name, sizeof(name), "  dump/call%d.%s\n", call, what);
    const char *row = strstr(o->sums, name);
    if (row == NULL || row - o->sums < 64) {
        fail_msg("%s: KegAlign made no %s", o->set->name, name);
    }
    sha256(bytes, len, hex);
    if (memcmp(row - 64, hex, 64) != 0) {
        fail_msg("%s: %s differs from KegAlign's", o->set->name, name);
    }
}

/* KegAlign made so many calls and no more. */
static void
check_calls(const struct oracle *o, int calls)
{
    char name[64];
    snprintf(name, sizeof(name), "  dump/call%d.", calls - 1);
    assert_non_null(strstr(o->sums, name));
    snprintf(name, sizeof(name), "  dump/call%d.", calls);
    assert_null(strstr(o->sums, name));
}

/* One KegAlign call is one batch of ours: compare its anchors and cuts; returns chunks used. */
static size_t
check_call(const struct oracle *o, int call, const struct run_result *got, size_t first,
           uint64_t *anchor)
{
    char *limits = NULL;
    size_t limits_len = 0;
    FILE *text = open_memstream(&limits, &limits_len);
    assert_non_null(text);
    size_t i = first;
    uint64_t anchors = 0;
    for (; i < got->chunk_count && got->chunks[i].interval == got->chunks[first].interval &&
           got->chunks[i].strand == got->chunks[first].strand &&
           got->chunks[i].batch == got->chunks[first].batch;
         i++) {
        const struct hspz_part_id *c = &got->chunks[i];
        assert_int_equal(c->chunk, i - first);
        fprintf(text, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c->seed_begin,
                c->seed_end - 1, c->hit_begin, c->hit_end);
        anchors += c->hit_end - c->hit_begin;
    }
    fclose(text);
    check_dump(o, call, "limits.txt", limits, limits_len);
    check_dump(o, call, "anchors.u64", got->anchors + *anchor, anchors * sizeof(uint64_t));
    *anchor += anchors;
    free(limits);
    return i;
}

static void
test_discovery_equals_kegalign(void **state)
{
    const struct oracle_set *set = *state;
    struct oracle o;
    oracle_open(&o, set);
    struct hspz_job_spec spec = oracle_spec(&o);
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct runner runner;
        struct hspz_ref *ref = NULL;
        runner_open(&runner, engines[e], 2);
        assert_int_equal(runner.ops->load(runner.engine, o.index, &ref, NULL), HSPZ_OK);
        for (int round = 0; round < 4; round++) {
            const struct run_options options = {.part_anchors = round % 3 == 0 ? 1 << 17 : 10007,
                                                .encoding = round == 3 ? HSPZ_ENCODING_COLUMNAR
                                                                       : HSPZ_ENCODING_PACKED,
                                                .walk = (enum hspz_chunk_walk)(round & 1)};
            spec.interval = round == 2 ? ORACLE_INTERVAL : 0;
            struct run_result got = runner_run(&runner, ref, &spec, &options);
            assert_int_equal(got.status, HSPZ_OK);
            assert_int_equal(got.count, set->hits);
            uint64_t anchor = 0;
            size_t chunk = 0;
            int call = 0;
            for (; chunk < got.chunk_count; call++) {
                chunk = check_call(&o, call, &got, chunk, &anchor);
            }
            check_calls(&o, call);
            assert_int_equal(anchor, set->hits);
            run_result_free(&got);
        }
        runner.ops->unload(&ref);
        runner_close(&runner);
    }
    oracle_close(&o);
}

static void
check_seeds_of_job(const struct oracle *o, const uint64_t seeds[2])
{
    struct runner runner;
    struct hspz_ref *ref = NULL;
    runner_open(&runner, &hspz_cpu_engine, 2);
    assert_int_equal(runner.ops->load(runner.engine, o->index, &ref, NULL), HSPZ_OK);
    struct hspz_job_spec spec = oracle_spec(o);
    spec.interval = ORACLE_INTERVAL;
    struct run_result got =
        runner_run(&runner, ref, &spec, &(struct run_options){.part_anchors = 1 << 20});
    assert_int_equal(got.status, HSPZ_OK);
    assert_int_equal(got.totals.strand[0].seeds, seeds[0]);
    assert_int_equal(got.totals.strand[1].seeds, seeds[1]);
    run_result_free(&got);
    runner.ops->unload(&ref);
    runner_close(&runner);
}

/* The seeder and the prefix sums, call by call as the plan has them. */
static void
test_seeds_and_prefixes_equal_kegalign(void **state)
{
    const struct oracle_set *set = *state;
    struct oracle o;
    oracle_open(&o, set);
    const struct hspz_shape *shape = &hspz_index_get_params(o.index)->shape;
    struct hspz_buckets buckets;
    assert_int_equal(hspz_buckets_init(&buckets, shape, hspz_index_get_block(o.index, 0)), HSPZ_OK);
    const size_t most = HSPZ_BATCH_POSITIONS * hspz_shape_seeds_per_position(shape, true);
    struct hspz_pool *pool = NULL;
    struct hspz_cpu_batch batch = {0};
    assert_int_equal(hspz_pool_create(3, &pool), HSPZ_OK);
    assert_int_equal(hspz_cpu_batch_reserve(&batch, most), HSPZ_OK);
    struct hspz_plan plan;
    struct hspz_plan_place place;
    hspz_plan_init(&plan, hspz_seeder_positions(shape, o.bases.len),
                   (struct hspz_range){0, UINT64_MAX}, ORACLE_INTERVAL, HSPZ_STRANDS_BOTH);
    int call = 0;
    uint64_t seeds[2] = {0};
    for (bool more = hspz_plan_first(&plan, &place); more; more = hspz_plan_next(&plan, &place)) {
        const struct hspz_seeder seeder = {.shape = shape,
                                           .query = o.bases,
                                           .strand = place.strand,
                                           .transitions = set->transitions};
        const struct hspz_range windows = hspz_plan_windows(&plan, &place);
        hspz_cpu_batch_make(&batch, pool, &seeder, windows.begin, windows.end);
        assert_int_equal(batch.count, hspz_seeder_count(&seeder, windows.begin, windows.end) *
                                          hspz_shape_seeds_per_position(shape, set->transitions));
        char rev[3];
        snprintf(rev, sizeof(rev), "%d\n", (int)place.strand);
        check_dump(&o, call, "rev", rev, strlen(rev));
        check_dump(&o, call, "seeds.u64", batch.seeds, batch.count * sizeof(uint64_t));
        hspz_cpu_batch_count(&batch, pool, &buckets, 0, batch.count, 0, UINT64_MAX);
        check_dump(&o, call, "prefix.u32", batch.sums, batch.count * sizeof(uint32_t));
        seeds[place.strand] += batch.count;
        call++;
    }
    check_calls(&o, call);
    check_seeds_of_job(&o, seeds);
    hspz_cpu_batch_release(&batch);
    hspz_pool_destroy(&pool);
    hspz_buckets_fini(&buckets);
    oracle_close(&o);
}

/* KegAlign aborts where one bucket reaches the cap or its last chunk overruns it. Its cuts up to
 * there are ours, and the anchors are those of the uncapped run. */
static void
test_input_that_kegalign_aborts_on_is_answered(void **state)
{
    (void)state;
    struct oracle o;
    oracle_open(&o, &oracle_mini8cap);
    const struct hspz_job_spec spec = oracle_spec(&o);
    char *path = test_path(o.dir, "dump/call0.limits.txt");
    size_t limits_len, len[2];
    char *limits = (char *)test_read_file(path, &limits_len);
    free(path);
    uint8_t *want[2];
    for (int call = 0; call < 2; call++) {
        char name[64];
        snprintf(name, sizeof(name), "../mini8/dump/call%d.anchors.u64", call);
        path = test_path(o.dir, name);
        want[call] = test_read_file(path, &len[call]);
        free(path);
    }
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct runner runner;
        struct hspz_ref *ref = NULL;
        runner_open(&runner, engines[e], 1);
        assert_int_equal(runner.ops->load(runner.engine, o.index, &ref, NULL), HSPZ_OK);
        struct run_result got =
            runner_run(&runner, ref, &spec, &(struct run_options){.part_anchors = 500});
        assert_int_equal(got.status, HSPZ_OK);
        assert_int_equal(got.count, 36969);
        assert_int_equal(len[0] + len[1], 36969 * sizeof(uint64_t));
        assert_memory_equal(got.anchors, want[0], len[0]);
        assert_memory_equal((uint8_t *)got.anchors + len[0], want[1], len[1]);
        size_t rows = 0;
        for (char *row = limits; *row != '\0'; rows++) {
            char *next = strchr(row, '\n') + 1;
            uint64_t first, last, begin, end;
            assert_int_equal(sscanf(row, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &first,
                                    &last, &begin, &end),
                             4);
            const struct hspz_part_id *c = &got.chunks[rows];
            assert_int_equal(c->seed_begin, first);
            assert_int_equal(c->hit_begin, begin);
            if (*next != '\0') { /* KegAlign's last chunk overran the cap */
                assert_int_equal(c->seed_end - 1, last);
                assert_int_equal(c->hit_end, end);
            }
            row = next;
        }
        assert_true(rows > 20);
        run_result_free(&got);
        runner.ops->unload(&ref);
        runner_close(&runner);
    }
    free(limits);
    free(want[0]);
    free(want[1]);
    oracle_close(&o);
}

/* KegAlign's own tables and seeds, where the oracle keeps them whole. */
static void
test_fed_tables_and_seeds_give_kegaligns_anchors(void **state)
{
    (void)state;
    struct oracle o;
    oracle_open(&o, &oracle_sets[0]); /* mini8 */
    const struct hspz_index_block built = hspz_index_get_block(o.index, 0);
    char *path = test_path(o.dir, "dump/pos_table.u32");
    size_t pos_len, table_len, seeds_len;
    uint8_t *pos = test_read_file(path, &pos_len);
    free(path);
    path = test_path(o.dir, "dump/index_table.u32");
    uint8_t *table = test_read_file(path, &table_len);
    free(path);
    assert_int_equal(table_len, sizeof(uint32_t) << 16);
    assert_int_equal(pos_len, built.pos_count * sizeof(uint32_t));
    struct hspz_index *index = NULL;
    assert_int_equal(hspz_index_from_tables(hspz_index_get_params(o.index), NULL, built.bases_len,
                                            (const uint32_t *)(void *)table,
                                            (const uint32_t *)(void *)pos, built.pos_count, &index,
                                            NULL),
                     HSPZ_OK);
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct runner runner;
        struct hspz_ref *ref = NULL;
        runner_open(&runner, engines[e], 2);
        assert_int_equal(runner.ops->load(runner.engine, index, &ref, NULL), HSPZ_OK);
        for (int call = 0; call < 2; call++) {
            char name[64];
            snprintf(name, sizeof(name), "dump/call%d.seeds.u64", call);
            path = test_path(o.dir, name);
            uint8_t *seeds = test_read_file(path, &seeds_len);
            free(path);
            struct hspz_job_spec spec = oracle_spec(&o);
            spec.given_seeds = true;
            spec.seeds = seeds;
            spec.seed_count = seeds_len / sizeof(uint64_t);
            struct run_result got =
                runner_run(&runner, ref, &spec, &(struct run_options){.part_anchors = 1000});
            assert_int_equal(got.status, HSPZ_OK);
            assert_true(got.count > 1000);
            check_dump(&o, call, "anchors.u64", got.anchors, got.count * sizeof(uint64_t));
            run_result_free(&got);
            free(seeds);
        }
        runner.ops->unload(&ref);
        runner_close(&runner);
    }
    hspz_index_release(&index);
    free(table);
    free(pos);
    oracle_close(&o);
}

int
main(void)
{
    if (test_shared_dir() == NULL) {
        return 77; /* skipped, and shown so */
    }
    struct CMUnitTest tests[2 * ORACLE_SETS + 2];
    size_t n = 0;
    for (size_t i = 0; i < ORACLE_SETS; i++) {
        void *set = (void *)(uintptr_t)&oracle_sets[i];
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test_prestate(test_discovery_equals_kegalign, set);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test_prestate(
            test_seeds_and_prefixes_equal_kegalign, set);
    }
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(test_input_that_kegalign_aborts_on_is_answered);
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(test_fed_tables_and_seeds_give_kegaligns_anchors);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
