#include "client/hsp_compare.h"

#include "tests/support/test.h"

struct sets {
    struct hspz_names names;
    struct hspz_segment_list lists[2];
};

static void
sets_init(struct sets *s)
{
    hspz_names_init(&s->names);
    uint32_t number = 0;
    assert_int_equal(hspz_names_add(&s->names, "t", 1, &number), HSPZ_OK);
    assert_int_equal(hspz_names_add(&s->names, "q", 1, &number), HSPZ_OK);
    hspz_segment_list_init(&s->lists[0], &s->names);
    hspz_segment_list_init(&s->lists[1], &s->names);
}

static void
sets_fini(struct sets *s)
{
    hspz_segment_list_fini(&s->lists[0]);
    hspz_segment_list_fini(&s->lists[1]);
    hspz_names_fini(&s->names);
}

static void
put(struct sets *s, int side, uint64_t target, uint64_t query, uint64_t len, int32_t score)
{
    struct hspz_segment_list *list = &s->lists[side];
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 16;
        list->segments = realloc(list->segments, list->capacity * sizeof(*list->segments));
        assert_non_null(list->segments);
    }
    list->segments[list->count++] = (struct hspz_segment){
        .target_start = target, .query_start = query, .len = len, .score = score, .query = 1};
}

static void
compare(struct sets *s, uint64_t tolerance, size_t counts[2][HSPZ_HSP_CLASSES])
{
    struct hspz_segment_list *const lists[2] = {&s->lists[0], &s->lists[1]};
    struct hspz_hsp_match *matches[2] = {NULL, NULL};
    assert_int_equal(hspz_hsp_compare(lists, tolerance, matches, NULL), HSPZ_OK);
    memset(counts, 0, 2 * sizeof(counts[0]));
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < lists[side]->count; i++) {
            const struct hspz_hsp_match *m = &matches[side][i];
            counts[side][m->of]++;
            assert_true(m->of == HSPZ_HSP_ONLY || m->other < lists[1 - side]->count);
            if (m->of < HSPZ_HSP_CONTAINED) {
                assert_int_equal(matches[1 - side][m->other].other, i);
            }
        }
    }
    free(matches[0]);
    free(matches[1]);
}

static void
test_compare_tells_the_classes_apart(void **state)
{
    (void)state;
    struct sets s;
    size_t counts[2][HSPZ_HSP_CLASSES];
    sets_init(&s);
    put(&s, 0, 100, 200, 50, 7); /* equal, and a second time: contained */
    put(&s, 0, 100, 200, 50, 7);
    put(&s, 1, 100, 200, 50, 7);
    put(&s, 0, 1000, 200, 50, 7); /* rescored */
    put(&s, 1, 1000, 200, 50, 8);
    put(&s, 0, 2000, 200, 50, 7); /* shifted */
    put(&s, 1, 2003, 202, 49, 7);
    put(&s, 0, 3000, 200, 50, 7); /* inside */
    put(&s, 1, 2900, 100, 500, 7);
    put(&s, 0, 4000, 200, 50, 7); /* on another diagonal */
    put(&s, 1, 3900, 101, 500, 7);
    compare(&s, 10, counts);
    const size_t want[2][HSPZ_HSP_CLASSES] = {{1, 1, 1, 2, 1}, {1, 1, 1, 0, 2}};
    assert_memory_equal(counts, want, sizeof(want));
    compare(&s, 2, counts);
    assert_int_equal(counts[0][HSPZ_HSP_SHIFTED], 0);
    sets_fini(&s);
}

static void
test_compare_keeps_strands_and_sequences_apart(void **state)
{
    (void)state;
    struct sets s;
    size_t counts[2][HSPZ_HSP_CLASSES];
    sets_init(&s);
    put(&s, 0, 100, 200, 50, 7);
    put(&s, 0, 100, 200, 50, 7);
    put(&s, 1, 100, 200, 50, 7);
    put(&s, 1, 100, 200, 50, 7);
    s.lists[0].segments[0].minus = true;
    s.lists[1].segments[0].target = 1;
    s.lists[1].segments[1].query = 0;
    compare(&s, 10, counts);
    assert_int_equal(counts[0][HSPZ_HSP_ONLY], 2);
    assert_int_equal(counts[1][HSPZ_HSP_ONLY], 2);
    sets_fini(&s);
}

/* Containment by trying all, on crowded random sets. */
static void
test_compare_agrees_with_trying_all(void **state)
{
    (void)state;
    uint64_t random = 5;
    size_t seen[HSPZ_HSP_CLASSES] = {0};
    for (int round = 0; round < 200; round++) {
        struct sets s;
        size_t counts[2][HSPZ_HSP_CLASSES], contained = 0, equal = 0;
        sets_init(&s);
        for (int i = 0; i < 60; i++) {
            put(&s, i % 2, test_random(&random) % 40, test_random(&random) % 4,
                1 + test_random(&random) % 9, 1);
        }
        compare(&s, 0, counts);
        bool used[60] = {false};
        for (size_t i = 0; i < 30; i++) {
            const struct hspz_segment *a = &s.lists[0].segments[i];
            bool same = false, inside = false;
            for (size_t j = 0; j < 30; j++) {
                const struct hspz_segment *b = &s.lists[1].segments[j];
                const bool diagonal =
                    a->target_start - a->query_start == b->target_start - b->query_start;
                if (!same && !used[j] && diagonal && a->target_start == b->target_start &&
                    a->len == b->len) {
                    used[j] = same = true;
                }
                inside |= diagonal && a->target_start >= b->target_start &&
                          a->target_start + a->len <= b->target_start + b->len;
            }
            equal += same;
            contained += !same && inside;
        }
        assert_int_equal(counts[0][HSPZ_HSP_EQUAL], equal);
        assert_int_equal(counts[1][HSPZ_HSP_EQUAL], equal);
        assert_int_equal(counts[0][HSPZ_HSP_CONTAINED], contained);
        seen[HSPZ_HSP_EQUAL] += equal;
        seen[HSPZ_HSP_CONTAINED] += contained;
        sets_fini(&s);
    }
    assert_true(seen[HSPZ_HSP_EQUAL] > 100 && seen[HSPZ_HSP_CONTAINED] > 100);
}

static void
test_compare_of_nothing_is_equal(void **state)
{
    (void)state;
    struct sets s;
    size_t counts[2][HSPZ_HSP_CLASSES];
    sets_init(&s);
    compare(&s, 10, counts);
    put(&s, 1, 1, 1, 1, 1);
    compare(&s, 10, counts);
    assert_int_equal(counts[1][HSPZ_HSP_ONLY], 1);
    sets_fini(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare_tells_the_classes_apart),
        cmocka_unit_test(test_compare_keeps_strands_and_sequences_apart),
        cmocka_unit_test(test_compare_agrees_with_trying_all),
        cmocka_unit_test(test_compare_of_nothing_is_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
