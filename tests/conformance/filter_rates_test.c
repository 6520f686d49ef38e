/* Filters filled to their capacity, and keys that never went in: found as often as was asked for.
 */
#include "tests/conformance/filters.h"
#include "tests/support/test.h"

#include <inttypes.h>

#define PIECE 65536

/* What keys look like: at random; in a row, as identifiers; in strides, as addresses. Of absent
 * ones the highest bit is set. */
enum pattern { RANDOM, ROW, STRIDES, PATTERNS };

static uint64_t
key(enum pattern pattern, uint64_t i, uint64_t *random)
{
    switch (pattern) {
    case ROW:
        return i;
    case STRIDES:
        return i << 12;
    default:
        return test_random(random) >> 1;
    }
}

/* Runs an operation on keys from, from + 1, ... of a pattern; the number of its yes. */
static uint64_t
run_keys(struct filters_subject *f, enum hspz_filter_op op, enum pattern pattern, uint64_t high,
         uint64_t n)
{
    static uint64_t keys[PIECE];
    uint64_t yes = 0, random = 77;
    for (uint64_t at = 0; at < n; at += PIECE) {
        const size_t count = n - at < PIECE ? (size_t)(n - at) : PIECE;
        for (size_t i = 0; i < count; i++) {
            keys[i] = key(pattern, at + i, &random) | high;
        }
        yes += filters_run(f, (struct hspz_filter_call){.op = op, .keys = keys, .count = count})
                   .yes_count;
    }
    return yes;
}

/* Fills a quotient filter in few calls, as each writes it anew on the CPU. */
static void
fill(struct filters_subject *f, enum pattern pattern, uint64_t n)
{
    uint64_t *keys = malloc(n * sizeof(*keys)), random = 77;
    assert_non_null(keys);
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = key(pattern, i, &random);
    }
    const struct hspz_filter_call call = filters_run(
        f, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = (size_t)n});
    assert_int_equal(call.yes_count, n);
    free(keys);
    assert_int_equal(run_keys(f, HSPZ_FILTER_QUERY, pattern, 0, n), n);
}

static void
check_rate(const struct filters_engine *engine, const struct hspz_filter_spec *spec,
           enum pattern pattern, uint64_t absent)
{
    struct filters_subject f;
    filters_create(&f, engine, spec);
    fill(&f, pattern, spec->capacity);
    const uint64_t found = run_keys(&f, HSPZ_FILTER_QUERY, pattern, UINT64_C(1) << 63, absent);
    const double expected = (double)absent * f.plan.expected_rate;
    print_message("%s %s, %" PRIu64
                  " keys, rate %g: %.4g bits a key, planned %.4g, measured %.4g\n",
                  engine->ops->name, hspz_filter_kind_name(spec->kind), spec->capacity, spec->rate,
                  8 * (double)f.plan.bytes / (double)spec->capacity, f.plan.expected_rate,
                  (double)found / (double)absent);
    assert_true(spec->rate == 0 || f.plan.expected_rate <= spec->rate * 1.001);
    if ((double)found > filters_most(expected) || filters_most((double)found) < expected) {
        fail_msg("%" PRIu64 " of %" PRIu64 " absent keys found, %g expected", found, absent,
                 expected);
    }
    filters_destroy(&f);
}

/* A counter is exact. */
static bool
has_rate(const struct filters_engine *engine, enum hspz_filter_kind kind)
{
    return kind != HSPZ_FILTER_COUNTER && filters_has(engine, kind);
}

static void
test_absent_keys_are_found_as_often_as_planned(void **state)
{
    (void)state;
    const uint64_t absent = filters_operations() / 10;
    const uint64_t capacity = absent / 100 + 7;
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t n = filters_open(engines);
    for (size_t e = 0; e < n; e++) {
        for (int kind = 0; kind < HSPZ_FILTER_KINDS; kind++) {
            if (!has_rate(&engines[e], (enum hspz_filter_kind)kind)) {
                continue;
            }
            check_rate(&engines[e],
                       &(struct hspz_filter_spec){.kind = (enum hspz_filter_kind)kind,
                                                  .capacity = capacity,
                                                  .rate = 0.001,
                                                  .seed = (uint64_t)kind},
                       RANDOM, absent);
        }
    }
    filters_close(engines, n);
}

/* Twenty sizes, none a power of two. */
static void
test_no_size_or_pattern_is_worse_than_another(void **state)
{
    (void)state;
    const uint64_t most = filters_operations() / 100;
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t n = filters_open(engines);
    for (size_t e = 0; e < n; e++) {
        for (int kind = 0; kind < HSPZ_FILTER_KINDS; kind++) {
            unsigned step = has_rate(&engines[e], (enum hspz_filter_kind)kind) ? 0 : 99;
            for (double size = 1000; step < 99 && size < 1e7 && size < (double)most;
                 size *= 1.623, step++) {
                check_rate(&engines[e],
                           &(struct hspz_filter_spec){.kind = (enum hspz_filter_kind)kind,
                                                      .capacity = (uint64_t)size + step % 2,
                                                      .rate = step % 2 == 0 ? 0.01 : 0.001,
                                                      .seed = step},
                           (enum pattern)(step % PATTERNS), 200000);
            }
        }
    }
    filters_close(engines, n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_keys_are_found_as_often_as_planned),
        cmocka_unit_test(test_no_size_or_pattern_is_worse_than_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
