#include "engine/plan.h"

#include "tests/support/test.h"

#define BATCH UINT64_C(250000)

struct call {
    uint64_t interval, batch, begin, end;
    enum hspz_strand strand;
};

struct calls {
    struct call *calls;
    size_t count;
};

static void
add(struct calls *c, struct call call)
{
    c->calls = realloc(c->calls, (c->count + 1) * sizeof(call));
    assert_non_null(c->calls);
    c->calls[c->count++] = call;
}

/* The plan of HSPZ_SHARED/oracle/README.md, as it is written there, for a query of `windows` = E +
 * 1 window starts. */
static struct calls
kegalign_calls(uint64_t windows, uint64_t interval, enum hspz_strands strands)
{
    struct calls c = {0};
    const uint64_t E = windows == 0 ? 0 : windows - 1;
    uint64_t number = 0;
    for (uint64_t a = 0; a < E; a += interval, number++) {
        const uint64_t b = E < a + interval ? E : a + interval;
        for (int strand = 0; strand < 2; strand++) {
            const uint64_t from = strand == 0 ? a : E - b, to = strand == 0 ? b : E - a;
            uint64_t batch = 0;
            for (uint64_t i = from; i < to && (strands >> strand & 1) != 0; i += BATCH) {
                const uint64_t stop = i + BATCH < to + 1 ? i + BATCH : to + 1;
                add(&c, (struct call){number, batch++, i, stop, (enum hspz_strand)strand});
            }
        }
    }
    return c;
}

static struct calls
plain_calls(uint64_t windows, uint64_t begin, uint64_t end, enum hspz_strands strands)
{
    struct calls c = {0};
    end = end < windows ? end : windows;
    for (int strand = 0; strand < 2; strand++) {
        uint64_t batch = 0;
        for (uint64_t i = begin; i < end && (strands >> strand & 1) != 0; i += BATCH) {
            const uint64_t stop = i + BATCH < end ? i + BATCH : end;
            add(&c, (struct call){0, batch++, i, stop, (enum hspz_strand)strand});
        }
    }
    return c;
}

static void
check(const struct hspz_plan *plan, struct calls want)
{
    struct hspz_plan_place place;
    bool more = hspz_plan_first(plan, &place);
    uint64_t most = 0;
    for (size_t i = 0; i < want.count; i++) {
        const struct call *w = &want.calls[i];
        assert_true(more);
        assert_int_equal(place.interval, w->interval);
        assert_int_equal(place.strand, w->strand);
        assert_int_equal(place.batch, w->batch);
        const struct hspz_range windows = hspz_plan_windows(plan, &place);
        assert_int_equal(windows.begin, w->begin);
        assert_int_equal(windows.end, w->end);
        bool last = true;
        for (size_t k = i + 1; k < want.count; k++) {
            last = last && want.calls[k].strand != w->strand;
        }
        assert_int_equal(hspz_plan_ends_strand(plan, &place), last);
        most = w->end - w->begin > most ? w->end - w->begin : most;
        more = hspz_plan_next(plan, &place);
    }
    assert_false(more);
    assert_int_equal(hspz_plan_most_windows(plan), most);
    free(want.calls);
}

static const uint64_t window_counts[] = {0,      1,      2,      3,      11,     12,
                                         100,    99999,  249999, 250000, 250001, 250002,
                                         500000, 500001, 500002, 750001, 1234567};

static void
test_intervals_are_kegaligns(void **state)
{
    (void)state;
    static const uint64_t intervals[] = {1,      2,       3,        10,        97,
                                         249999, 250000,  250001,   500000,    500001,
                                         700000, 1234566, 10000000, UINT64_MAX};
    for (size_t w = 0; w < sizeof(window_counts) / sizeof(window_counts[0]); w++) {
        for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
            if (window_counts[w] / intervals[i] > 300) {
                continue;
            }
            for (int strands = 1; strands <= 3; strands++) {
                struct hspz_plan plan;
                /* In 64 bits the sum of a and the largest interval would wrap in the model. */
                const uint64_t interval =
                    intervals[i] < UINT64_MAX ? intervals[i] : UINT64_C(1) << 60;
                hspz_plan_init(&plan, window_counts[w], (struct hspz_range){0, UINT64_MAX},
                               intervals[i], (enum hspz_strands)strands);
                check(&plan,
                      kegalign_calls(window_counts[w], interval, (enum hspz_strands)strands));
            }
        }
    }
}

static void
test_a_stretch_is_cut_into_batches_on_each_strand(void **state)
{
    (void)state;
    static const uint64_t ends[] = {0, 1, 7, 250000, 250001, 600000, UINT64_MAX};
    for (size_t w = 0; w < sizeof(window_counts) / sizeof(window_counts[0]); w++) {
        for (size_t b = 0; b < 6; b++) {
            for (size_t e = 0; e < 7; e++) {
                for (int strands = 1; strands <= 3; strands++) {
                    struct hspz_plan plan;
                    hspz_plan_init(&plan, window_counts[w], (struct hspz_range){ends[b], ends[e]},
                                   0, (enum hspz_strands)strands);
                    check(&plan, plain_calls(window_counts[w], ends[b], ends[e],
                                             (enum hspz_strands)strands));
                }
            }
        }
    }
}

/* The longest query there is, in the smallest intervals: numbers still fit a part's id. */
static void
test_the_last_interval_of_the_longest_query_is_exact(void **state)
{
    (void)state;
    const uint64_t windows = HSPZ_BLOCK_BASES_LIMIT - 3;
    struct hspz_plan plan;
    hspz_plan_init(&plan, windows, (struct hspz_range){0, UINT64_MAX}, 1, HSPZ_STRANDS_BOTH);
    struct hspz_plan_place place = {windows - 2, HSPZ_STRAND_MINUS, 0};
    assert_true(place.interval <= UINT32_MAX);
    const struct hspz_range last = hspz_plan_windows(&plan, &place);
    assert_int_equal(last.begin, 0);
    assert_int_equal(last.end, 2);
    assert_true(hspz_plan_ends_strand(&plan, &place));
    assert_false(hspz_plan_next(&plan, &place));
    place.interval--;
    assert_false(hspz_plan_ends_strand(&plan, &place));
    assert_true(hspz_plan_next(&plan, &place));
    assert_int_equal(place.strand, HSPZ_STRAND_PLUS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_are_kegaligns),
        cmocka_unit_test(test_a_stretch_is_cut_into_batches_on_each_strand),
        cmocka_unit_test(test_the_last_interval_of_the_longest_query_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
