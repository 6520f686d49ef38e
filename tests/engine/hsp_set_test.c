#include "engine/hsp_set.h"

#include "engine/hsp_sort.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define MOST 4000

static uint32_t
diagonal(const struct hspz_hsp *h)
{
    return h->ref_start - h->query_start;
}

static int
compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int
by_rest(const struct hspz_hsp *a, const struct hspz_hsp *b)
{
    const int ref = compare_u32(a->ref_start, b->ref_start);
    const int length = compare_u32(a->length, b->length);
    return ref != 0 ? ref : length != 0 ? length : (a->score < b->score) - (a->score > b->score);
}

static int
by_diagonal(const void *a, const void *b)
{
    const int order = compare_u32(diagonal(a), diagonal(b));
    return order != 0 ? order : by_rest(a, b);
}

static int
finally(const void *a, const void *b)
{
    const int order = compare_u32(((const struct hspz_hsp *)a)->query_start,
                                  ((const struct hspz_hsp *)b)->query_start);
    return order != 0 ? order : by_rest(a, b);
}

static bool
holds(const struct hspz_hsp *outer, const struct hspz_hsp *inner)
{
    return diagonal(outer) == diagonal(inner) && outer->ref_start <= inner->ref_start &&
           (uint64_t)inner->ref_start + inner->length <= (uint64_t)outer->ref_start + outer->length;
}

/* The rules, as they are written. */
static size_t
brute_force(enum hspz_hsp_scope scope, const struct hspz_hsp *in, size_t count,
            struct hspz_hsp *out)
{
    static struct hspz_hsp sorted[MOST];
    size_t kept = 0;
    memcpy(sorted, in, count * sizeof(*in));
    qsort(sorted, count, sizeof(*in), by_diagonal);
    for (size_t i = 0; i < count; i++) {
        const struct hspz_hsp *before = scope == HSPZ_SCOPE_CHUNK ? i > 0 ? &sorted[i - 1] : NULL
                                        : kept > 0                ? &out[kept - 1]
                                                                  : NULL;
        const bool drop =
            before != NULL && (holds(before, &sorted[i]) || holds(&sorted[i], before));
        if (!drop) {
            out[kept++] = sorted[i];
        }
    }
    qsort(out, kept, sizeof(*out), finally);
    return kept;
}

/* Adds in pieces, folds now and then, settles and compares. */
static size_t
check_set(struct hspz_hsp_set *set, const struct hspz_hsp *in, size_t count, uint64_t *random)
{
    static struct hspz_hsp want[MOST];
    const size_t kept = brute_force(set->scope, in, count, want);
    for (size_t at = 0; at < count;) {
        const size_t most = count - at;
        const size_t some = 1 + test_random(random) % most;
        assert_int_equal(hspz_hsp_set_add(set, in + at, some, NULL), HSPZ_OK);
        at += some;
        if (test_random(random) % 3 == 0) {
            assert_int_equal(hspz_hsp_set_fold(set, NULL), HSPZ_OK);
        }
    }
    assert_int_equal(hspz_hsp_set_settle(set, NULL), HSPZ_OK);
    assert_int_equal(set->count, kept);
    for (size_t i = 0; i < kept; i++) {
        if (memcmp(&set->hsps[i], &want[i], sizeof(want[i])) != 0) {
            fail_msg("HSP %zu of %zu differs", i, kept);
        }
    }
    hspz_hsp_set_clear(set);
    return kept;
}

/* Few starts, lengths and diagonals, so that equal, nested, touching and tied ones abound; the
 * bases are near an end of the numbers as often as not. */
static struct hspz_hsp
random_hsp(uint64_t *random, uint32_t range)
{
    const uint64_t r = test_random(random);
    const uint32_t base = (r >> 60 & 1) != 0 ? UINT32_C(4294960000) : 100;
    const uint32_t other = (r >> 61 & 1) != 0 ? UINT32_C(4294960000) : 100;
    return (struct hspz_hsp){.ref_start = base + (uint32_t)(r % range),
                             .query_start = other + (uint32_t)((r >> 16) % range),
                             .length = 1 + (uint32_t)((r >> 32) % range),
                             .score = (int32_t)((r >> 48) % 3) * (INT32_MAX / 2)};
}

static void
test_settled_sets_equal_brute_force(void **state)
{
    (void)state;
    static struct hspz_hsp in[MOST];
    uint64_t random = 7;
    size_t total = 0;
    size_t dropped = 0;
    for (int scope = HSPZ_SCOPE_JOB; scope <= HSPZ_SCOPE_CHUNK; scope++) {
        struct hspz_hsp_set set;
        hspz_hsp_set_init(&set, (enum hspz_hsp_scope)scope, UINT64_MAX);
        for (int round = 0; round < 3000; round++) {
            const size_t count = test_random(&random) % 40;
            const uint32_t range = 2 + (uint32_t)(test_random(&random) % 12);
            for (size_t i = 0; i < count; i++) {
                in[i] = random_hsp(&random, range);
            }
            const size_t kept = check_set(&set, in, count, &random);
            total += count;
            dropped += count - kept;
        }
        hspz_hsp_set_fini(&set);
        assert_int_equal(hspz_hsp_set_bytes(&set), 0);
    }
    assert_true(dropped > total / 10 && dropped < total * 9 / 10);
}

static void
test_large_sets_equal_brute_force(void **state)
{
    (void)state;
    static struct hspz_hsp in[MOST];
    uint64_t random = 8;
    for (int scope = HSPZ_SCOPE_JOB; scope <= HSPZ_SCOPE_CHUNK; scope++) {
        for (uint32_t range = 8; range < 3000; range *= 3) {
            struct hspz_hsp_set set;
            hspz_hsp_set_init(&set, (enum hspz_hsp_scope)scope, UINT64_MAX);
            for (size_t i = 0; i < MOST; i++) {
                in[i] = random_hsp(&random, range);
            }
            assert_true(check_set(&set, in, MOST, &random) > 0);
            hspz_hsp_set_fini(&set);
        }
    }
}

static struct hspz_hsp
on_diagonal(uint32_t start, uint32_t length)
{
    return (struct hspz_hsp){start, start + 5, length, 100};
}

/* KegAlign's rule looks at the entry before, dropped or not; the job's rule at the last one kept.
 */
static void
test_scopes_differ_where_they_should(void **state)
{
    (void)state;
    const struct hspz_hsp chain[] = {
        on_diagonal(10, 5),  on_diagonal(10, 90), on_diagonal(20, 10),  on_diagonal(40, 10),
        on_diagonal(40, 61), on_diagonal(50, 49), on_diagonal(100, 10),
    };
    static const size_t chunk[] = {0, 3, 6}, job[] = {0, 2, 3, 5, 6};
    struct hspz_hsp_set set;
    hspz_hsp_set_init(&set, HSPZ_SCOPE_CHUNK, UINT64_MAX);
    assert_int_equal(hspz_hsp_set_add(&set, chain, 7, NULL), HSPZ_OK);
    assert_int_equal(hspz_hsp_set_settle(&set, NULL), HSPZ_OK);
    /* 10+90 contains the one before; 20+10 is in it; 40+10 touches neither; 40+61 contains that;
     * 50+49 is in it; 100+10 reaches beyond. */
    assert_int_equal(set.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(&set.hsps[i], &chain[chunk[i]], sizeof(*chain));
    }
    hspz_hsp_set_fini(&set);

    hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, UINT64_MAX);
    assert_int_equal(hspz_hsp_set_add(&set, chain, 7, NULL), HSPZ_OK);
    assert_int_equal(hspz_hsp_set_settle(&set, NULL), HSPZ_OK);
    /* What is nested with one that was dropped itself remains. */
    assert_int_equal(set.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_memory_equal(&set.hsps[i], &chain[job[i]], sizeof(*chain));
    }
    hspz_hsp_set_fini(&set);
}

static void
test_more_than_the_limit_is_refused_with_numbers(void **state)
{
    (void)state;
    struct hspz_error err = {0};
    struct hspz_hsp_set set;
    hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, 10);
    /* A million that come to ten, and never take more memory than ten need. */
    for (uint32_t i = 0; i < 1000000; i++) {
        const struct hspz_hsp h = on_diagonal(i % 10 * 100, 50);
        assert_int_equal(hspz_hsp_set_add(&set, &h, 1, NULL), HSPZ_OK);
    }
    assert_int_equal(hspz_hsp_set_bytes(&set), 65536);
    assert_int_equal(hspz_hsp_set_settle(&set, NULL), HSPZ_OK);
    assert_int_equal(set.count, 10);
    const struct hspz_hsp one_more = on_diagonal(2000, 50);
    assert_int_equal(hspz_hsp_set_add(&set, &one_more, 1, NULL), HSPZ_OK);
    assert_int_equal(hspz_hsp_set_settle(&set, &err), HSPZ_E_TOO_LARGE);
    assert_true(err.has_hits && err.hits == 11 && err.has_limit && err.limit == 10);
    assert_non_null(strstr(err.text, "11 HSPs"));
    hspz_hsp_set_fini(&set);

    hspz_hsp_set_init(&set, HSPZ_SCOPE_CHUNK, 5000);
    enum hspz_status status = HSPZ_OK;
    uint32_t added = 0;
    for (; status == HSPZ_OK && added < 20000; added++) {
        const struct hspz_hsp h = on_diagonal(added * 100, 50);
        status = hspz_hsp_set_add(&set, &h, 1, &err);
    }
    assert_int_equal(status, HSPZ_E_TOO_LARGE);
    assert_int_equal(added, 8193);
    assert_int_equal(hspz_hsp_set_bytes(&set), 131072);
    hspz_hsp_set_fini(&set);
    hspz_hsp_set_fini(&set);
}

static void
test_no_memory_is_a_status_and_leaves_a_sound_set(void **state)
{
    (void)state;
    static struct hspz_hsp in[10000];
    for (uint32_t i = 0; i < 10000; i++) {
        in[i] = on_diagonal(i * 10, 5);
    }
    for (long n = 1; n < 4; n++) {
        struct hspz_error err = {0};
        struct hspz_hsp_set set;
        hspz_hsp_set_init(&set, HSPZ_SCOPE_JOB, UINT64_MAX);
        failing_malloc_arm(n);
        const enum hspz_status status = hspz_hsp_set_add(&set, in, 10000, &err);
        const bool failed = failing_malloc_disarm();
        assert_true(failed);
        assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
        assert_int_equal(set.count, n == 1 ? 0 : 4096 * (n - 1));
        assert_int_equal(hspz_hsp_set_add(&set, in, 10000, &err), HSPZ_OK);
        assert_int_equal(hspz_hsp_set_settle(&set, &err), HSPZ_OK);
        assert_int_equal(set.count, 10000);
        assert_memory_equal(set.hsps, in, sizeof(in));
        hspz_hsp_set_fini(&set);
    }
}

static int
by_keys(const void *a, const void *b)
{
    const struct hspz_hsp_key *x = a;
    const struct hspz_hsp_key *y = b;
    const int order = (x->key[0] > y->key[0]) - (x->key[0] < y->key[0]);
    return order != 0 ? order : (x->key[1] > y->key[1]) - (x->key[1] < y->key[1]);
}

static void
check_sort(struct hspz_pool *pool, size_t most, int rounds)
{
    struct hspz_hsp_key *keys = malloc(most * sizeof(*keys));
    struct hspz_hsp_key *want = malloc(most * sizeof(*want));
    uint64_t random = 9;
    assert_non_null(keys);
    assert_non_null(want);
    for (int round = 0; round < rounds; round++) {
        const size_t count =
            round < 60 ? (size_t)round : most / 2 + test_random(&random) % (most / 2);
        /* Bits that all keys share, here and there. */
        uint64_t masks[2];
        for (int i = 0; i < 2; i++) {
            masks[i] = test_random(&random) & test_random(&random);
            masks[i] = round % 3 == 0 ? masks[i] : round % 3 == 1 ? masks[i] & 0xFFF : UINT64_MAX;
        }
        for (size_t i = 0; i < count; i++) {
            keys[i] = (struct hspz_hsp_key){
                {test_random(&random) & masks[0], test_random(&random) & masks[1]}};
            /* A few far from the rest. */
            keys[i].key[0] = test_random(&random) % 1000 == 0 ? UINT64_MAX - i % 3 : keys[i].key[0];
        }
        memcpy(want, keys, count * sizeof(*keys));
        qsort(want, count, sizeof(*want), by_keys);
        hspz_hsp_sort(keys, count, pool);
        assert_memory_equal(keys, want, count * sizeof(*keys));
        hspz_hsp_sort(keys, count, pool);
        assert_memory_equal(keys, want, count * sizeof(*keys));
    }
    free(keys);
    free(want);
}

static void
test_sort_equals_qsort(void **state)
{
    (void)state;
    struct hspz_pool *pool = NULL;
    check_sort(NULL, 4000, 200);
    assert_int_equal(hspz_pool_create(3, &pool), HSPZ_OK);
    check_sort(pool, 300000, 66);
    hspz_pool_destroy(&pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settled_sets_equal_brute_force),
        cmocka_unit_test(test_large_sets_equal_brute_force),
        cmocka_unit_test(test_scopes_differ_where_they_should),
        cmocka_unit_test(test_more_than_the_limit_is_refused_with_numbers),
        cmocka_unit_test(test_no_memory_is_a_status_and_leaves_a_sound_set),
        cmocka_unit_test(test_sort_equals_qsort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
