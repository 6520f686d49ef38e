/* The counting quotient filter against exact counts of draws from known distributions. */
#include "engine/filter_hash.h"
#include "tests/conformance/filters.h"
#include "tests/support/test.h"

#include <math.h>

#define DRAWS_MOST 10000000

/* ---- distributions ---- */

enum draws { UNIFORM, TIMES, ZIPF, DRAWS };

/* A rank of the Zipf distribution with exponent 1.5 (rejection, Devroye 1986). */
static uint64_t
zipf(uint64_t *random)
{
    const double b = sqrt(2); /* 2^(1.5 - 1) */
    for (;;) {
        const double u = ((double)(test_random(random) >> 11) + 1) * 0x1p-53;
        const double v = (double)(test_random(random) >> 11) * 0x1p-53;
        const double x = floor(1 / (u * u));
        const double t = sqrt(1 + 1 / x);
        if (x < 0x1p62 && v * x * (t - 1) / (b - 1) <= t / b) {
            return (uint64_t)x;
        }
    }
}

static int
compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* n draws into keys, then the distinct ones with how often each came. */
static size_t
draw(enum draws draws, uint64_t *keys, uint64_t *distinct, uint64_t *counts, size_t n)
{
    uint64_t random = 5, times = 0, one = 0;
    for (size_t i = 0; i<n; i++, times -= times> 0) {
        if (draws == TIMES && times == 0) {
            one = test_random(&random);
            times = 1 + test_random(&random) % 100;
        }
        keys[i] = draws == ZIPF ? zipf(&random) : draws == TIMES ? one : test_random(&random);
    }
    for (size_t i = n; i > 1; i--) { /* equal ones apart */
        const size_t j = (size_t)hspz_filter_scale(test_random(&random), i);
        const uint64_t swap = keys[i - 1];
        keys[i - 1] = keys[j];
        keys[j] = swap;
    }
    memcpy(distinct, keys, n * sizeof(*keys));
    qsort(distinct, n, sizeof(*distinct), compare_keys);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (count == 0 || distinct[i] != distinct[count - 1]) {
            distinct[count] = distinct[i];
            counts[count++] = 0;
        }
        counts[count - 1]++;
    }
    return count;
}

static void
test_counts_of_known_distributions_are_exact(void **state)
{
    (void)state;
    static const unsigned bits[] = {8, 16, 64};
    const uint64_t operations = filters_operations() / 20;
    const size_t n = operations < DRAWS_MOST ? (size_t)operations : DRAWS_MOST;
    uint64_t *keys = malloc(n * sizeof(*keys)), *distinct = malloc(n * sizeof(*keys)),
             *counts = malloc(n * sizeof(*keys));
    assert_true(keys != NULL && distinct != NULL && counts != NULL);
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = filters_open(engines);
    for (int d = 0; d < DRAWS; d++) {
        const size_t count = draw((enum draws)d, keys, distinct, counts, n);
        assert_true(d == UNIFORM ? count == n : count < n / 5);
        const uint64_t capacity = d == UNIFORM ? n : n / 12;
        for (size_t e = 0; e < engine_count * 3; e++) {
            if (!filters_has(&engines[e / 3], HSPZ_FILTER_GQF)) {
                continue;
            }
            const struct hspz_filter_spec spec = {
                .kind = HSPZ_FILTER_GQF, .capacity = capacity, .slot_bits = bits[e % 3]};
            struct filters_subject f;
            filters_create(&f, &engines[e / 3], &spec);
            filters_insert(&f, keys, NULL, n);
            filters_check_counts(&f, distinct, counts, count);
            filters_destroy(&f);
            /* Counted beforehand, in two halves of each. */
            filters_create(&f, &engines[e / 3], &spec);
            for (size_t i = 0; i < count; i++) {
                keys[i] = counts[i] / 2;
                counts[i] -= keys[i];
            }
            filters_insert(&f, distinct, counts, count);
            filters_insert(&f, distinct, keys, count);
            for (size_t i = 0; i < count; i++) {
                counts[i] += keys[i];
            }
            filters_check_counts(&f, distinct, counts, count);
            filters_destroy(&f);
            assert_int_equal(draw((enum draws)d, keys, distinct, counts, n), count);
        }
    }
    filters_close(engines, engine_count);
    free(keys);
    free(distinct);
    free(counts);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_of_known_distributions_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
