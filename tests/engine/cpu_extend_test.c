/* Extension on the CPU engine against the plain way of engine/extend.h, anchor by anchor. */
#include "engine/cpu/cpu_extend.h"

#include "engine/extend.h"
#include "engine/score.h"
#include "tests/engine/scene.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

static uint64_t
draw(uint64_t *state, uint64_t below)
{
    return test_random(state) % below;
}

static struct hspz_cpu_extender *
make_extender(const struct scene *s)
{
    struct hspz_cpu_extender *e = NULL;
    const struct hspz_cpu_extend_spec spec = {
        .ref = {s->ref, s->ref_len},
        .ref_unmask = s->unmask[0],
        .query = {s->query, s->query_len},
        .strand = s->minus ? HSPZ_STRAND_MINUS : HSPZ_STRAND_PLUS,
        .query_unmask = s->unmask[1],
        .scoring = &s->scoring,
    };
    assert_int_equal(hspz_cpu_extender_create(&spec, &e, NULL), HSPZ_OK);
    return e;
}

/* Extends in calls of random size; each call has to give all HSPs of its anchors and no other. */
static size_t
check_scene(uint64_t *state, const struct scene *s, struct hspz_pool *pool)
{
    static struct hspz_hsp want[SCENE_ANCHORS];
    struct hspz_cpu_extender *e = make_extender(s);
    size_t found = 0;
    for (size_t at = 0; at < s->count;) {
        struct hspz_hsp_set set;
        const size_t count = 1 + draw(state, s->count - at);
        size_t extended = 0;
        /* Equal ones alone are folded in this scope. */
        hspz_hsp_set_init(&set, HSPZ_SCOPE_CHUNK, UINT64_MAX);
        assert_int_equal(hspz_cpu_extend(e, pool, s->anchors + at, count, &set, &extended, NULL),
                         HSPZ_OK);
        assert_true(extended >= 1 && extended <= count);
        const size_t wanted = scene_extend(s, at, at + extended, want);
        set.count = scene_sort(set.hsps, set.count);
        assert_int_equal(set.count, wanted);
        if (wanted > 0) {
            assert_memory_equal(set.hsps, want, wanted * sizeof(*want));
        }
        hspz_hsp_set_fini(&set);
        found += wanted;
        at += extended;
        if (draw(state, 4) == 0) {
            hspz_cpu_extender_destroy(&e);
            e = make_extender(s);
        }
    }
    hspz_cpu_extender_destroy(&e);
    return found;
}

/* The same into one set of a job: it has to come to all HSPs of all anchors so far. */
static void
check_job(uint64_t *state, const struct scene *s, struct hspz_pool *pool)
{
    static struct hspz_hsp want[SCENE_ANCHORS], got[4 * SCENE_ANCHORS];
    struct hspz_cpu_extender *e = make_extender(s);
    struct hspz_hsp_set set;
    hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, UINT64_MAX);
    for (size_t at = 0; at < s->count;) {
        size_t extended = 0;
        assert_int_equal(hspz_cpu_extend(e, pool, s->anchors + at, 1 + draw(state, s->count - at),
                                         &set, &extended, NULL),
                         HSPZ_OK);
        at += extended;
        assert_true(set.count <= sizeof(got) / sizeof(*got));
        if (set.count > 0) {
            memcpy(got, set.hsps, set.count * sizeof(*got));
        }
        const size_t count = scene_sort(got, set.count);
        assert_int_equal(count, scene_extend(s, 0, at, want));
        assert_true(count == 0 || memcmp(got, want, count * sizeof(*got)) == 0);
    }
    hspz_hsp_set_fini(&set);
    hspz_cpu_extender_destroy(&e);
}

static void
check_scenes(unsigned threads, int rounds)
{
    static struct scene scene;
    struct hspz_pool *pool = NULL;
    uint64_t state = 100 + threads;
    size_t anchors = 0;
    size_t found = 0;
    assert_int_equal(hspz_pool_create(threads, &pool), HSPZ_OK);
    for (int round = 0; round < rounds; round++) {
        scene_draw(&state, &scene);
        anchors += scene.count;
        found += check_scene(&state, &scene, pool);
        check_job(&state, &scene, pool);
    }
    assert_true(anchors > (size_t)rounds * 100 && found > (size_t)rounds * 2);
    hspz_pool_destroy(&pool);
}

static void
test_extension_equals_the_plain_way(void **state)
{
    (void)state;
    check_scenes(1, 1500);
}

static void
test_threads_change_nothing(void **state)
{
    (void)state;
    check_scenes(2, 100);
    check_scenes(5, 100);
}

static void
test_no_anchors_are_no_work(void **state)
{
    (void)state;
    static struct scene scene;
    uint64_t random = 3;
    struct hspz_pool *pool = NULL;
    struct hspz_hsp_set set;
    size_t extended = 7;
    scene_draw(&random, &scene);
    struct hspz_cpu_extender *e = make_extender(&scene);
    assert_int_equal(hspz_pool_create(1, &pool), HSPZ_OK);
    hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, UINT64_MAX);
    assert_int_equal(hspz_cpu_extend(e, pool, NULL, 0, &set, &extended, NULL), HSPZ_OK);
    assert_int_equal(extended, 0);
    assert_int_equal(set.count, 0);
    assert_true(hspz_cpu_extender_bytes(e) <= hspz_cpu_extender_most_bytes(e, 1));
    hspz_cpu_extender_destroy(&e);
    hspz_cpu_extender_destroy(&e);
    hspz_pool_destroy(&pool);
}

/* Two equal sequences: every anchor of one diagonal comes to one HSP, and one call's work ends long
 * before all of 1,000 diagonals of poly-A are done. */
static void
test_a_call_does_bounded_work(void **state)
{
    (void)state;
    enum { LEN = 3000000, COUNT = 3000 };
    struct hspz_pool *pool = NULL;
    struct hspz_hsp_set set;
    struct hspz_scoring scoring;
    uint8_t *bases = malloc(LEN);
    static uint64_t anchors[COUNT];
    assert_non_null(bases);
    memset(bases, 'A', LEN);
    for (uint64_t i = 0; i < COUNT; i++) {
        anchors[i] = (LEN / 2 + i) << 32 | LEN / 2;
    }
    hspz_scoring_init(&scoring);
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct hspz_cpu_extender *e = NULL;
        const struct hspz_cpu_extend_spec spec = {
            .ref = {bases, LEN}, .query = {bases, LEN}, .scoring = &scoring};
        assert_int_equal(hspz_pool_create(threads, &pool), HSPZ_OK);
        assert_int_equal(hspz_cpu_extender_create(&spec, &e, NULL), HSPZ_OK);
        hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, UINT64_MAX);
        size_t at = 0;
        for (int call = 0; call < 4; call++) {
            size_t extended = 0;
            assert_int_equal(
                hspz_cpu_extend(e, pool, anchors + at, COUNT - at, &set, &extended, NULL), HSPZ_OK);
            assert_true(extended >= 1 && extended <= 2 * threads * (HSPZ_EXTEND_WORK / LEN + 2));
            at += extended;
        }
        assert_true(at >= 3 * (HSPZ_EXTEND_WORK / LEN));
        assert_int_equal(hspz_hsp_set_settle(&set, NULL), HSPZ_OK);
        assert_int_equal(set.count, at);
        for (size_t i = 0; i < at; i++) {
            assert_int_equal(set.hsps[i].ref_start, 0);
            assert_int_equal(set.hsps[i].query_start, i);
            assert_int_equal(set.hsps[i].length, LEN - i);
            assert_int_equal(set.hsps[i].score, (LEN - (int)i) * 91);
        }
        hspz_hsp_set_fini(&set);
        hspz_cpu_extender_destroy(&e);
        hspz_pool_destroy(&pool);
    }
    free(bases);
}

static void
test_no_memory_is_a_status(void **state)
{
    (void)state;
    static struct scene scene;
    uint64_t random = 5;
    struct hspz_pool *pool = NULL;
    int failures = 0;
    do {
        scene_draw(&random, &scene);
    } while (scene.count < 100);
    assert_int_equal(hspz_pool_create(3, &pool), HSPZ_OK);
    for (long n = 1;; n++) {
        struct hspz_hsp_set set;
        struct hspz_error err = {0};
        struct hspz_cpu_extender *e = NULL;
        size_t extended = 0;
        const struct hspz_cpu_extend_spec spec = {.ref = {scene.ref, scene.ref_len},
                                                  .query = {scene.query, scene.query_len},
                                                  .scoring = &scene.scoring};
        hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, UINT64_MAX);
        failing_malloc_arm(n);
        enum hspz_status status = hspz_cpu_extender_create(&spec, &e, &err);
        if (status == HSPZ_OK) {
            status = hspz_cpu_extend(e, pool, scene.anchors, scene.count, &set, &extended, &err);
        }
        const bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_int_equal(err.text[0] != '\0', failed);
        failures += failed;
        hspz_hsp_set_fini(&set);
        hspz_cpu_extender_destroy(&e);
        if (!failed) {
            break;
        }
    }
    assert_true(failures >= 3);
    hspz_pool_destroy(&pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extension_equals_the_plain_way),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_no_anchors_are_no_work),
        cmocka_unit_test(test_a_call_does_bounded_work),
        cmocka_unit_test(test_no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
