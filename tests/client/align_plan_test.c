#include "client/align_plan.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define SEGMENTS 400u
#define SEQUENCES 3u

struct fixture {
    struct hspz_align_sequence sequences[SEQUENCES];
    struct hspz_align_group groups[2];
    struct hspz_align_side side;
    struct hspz_names names;
    struct hspz_segment_list list;
};

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        f->sequences[i] = (struct hspz_align_sequence){.name = i, .group = i / 2, .len = 200000};
    }
    f->side = (struct hspz_align_side){
        .sequences = f->sequences, .count = SEQUENCES, .groups = f->groups, .group_count = 2};
    hspz_segment_list_init(&f->list, &f->names);
    f->list.segments = calloc(SEGMENTS, sizeof(*f->list.segments));
    assert_non_null(f->list.segments);
    uint64_t random = 3;
    for (; f->list.count < SEGMENTS; f->list.count++) {
        f->list.segments[f->list.count] = (struct hspz_segment){
            .target = (uint32_t)(test_random(&random) % SEQUENCES),
            .query = (uint32_t)(test_random(&random) % SEQUENCES),
            .minus = test_random(&random) % 2 == 0,
            .target_start = test_random(&random) % 100000,
            .query_start = test_random(&random) % 100000,
            .len = 1 + test_random(&random) % 3000,
        };
    }
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    hspz_segment_list_fini(&f->list);
    free(f);
    return 0;
}

static uint64_t
gap(uint64_t a, uint64_t b, uint64_t len_a, uint64_t len_b)
{
    return a + len_a <= b ? b - (a + len_a - 1) : b + len_b <= a ? a - (b + len_b - 1) : 0;
}

/* Whether some pair of bases of one is within `reach` of one of the other, in both sequences. */
static bool
near(const struct hspz_segment *a, const struct hspz_segment *b, uint64_t reach)
{
    if (a->target != b->target || a->query != b->query || a->minus != b->minus) {
        return false;
    }
    for (uint64_t i = 0; i < a->len; i++) {
        for (uint64_t j = 0; j<b->len; j += b->len> 1 ? b->len - 1 : 1) {
            if (gap(a->target_start + i, b->target_start + j, 1, 1) <= reach &&
                gap(a->query_start + i, b->query_start + j, 1, 1) <= reach) {
                return true;
            }
        }
    }
    return false;
}

static void
test_near_segments_stay_in_one_piece(void **state)
{
    struct fixture *f = *state;
    struct hspz_align_plan plan;
    const struct hspz_align_cut cut = {.reach = 4000, .piece_cost = 1};
    assert_int_equal(hspz_align_plan_make(&f->side, &f->side, &f->list, cut, &plan, NULL), HSPZ_OK);
    assert_int_equal(plan.count, SEGMENTS);
    size_t together = 0, apart = 0;
    for (size_t i = 0; i < plan.count; i++) {
        for (size_t j = 0; j < i; j++) {
            const bool same = plan.piece[i] == plan.piece[j];
            /* A quarter of a cell may lie between places that are looked at. */
            assert_true(same || !near(&plan.segments[i], &plan.segments[j], 3 * cut.reach / 4));
            together += same;
            apart += !same;
        }
        const struct hspz_align_piece *piece = &plan.pieces[plan.piece[i]];
        assert_int_equal(piece->minus, plan.segments[i].minus);
        assert_int_equal(piece->target_group, f->sequences[plan.segments[i].target].group);
        assert_int_equal(piece->query_group, f->sequences[plan.segments[i].query].group);
        assert_true(i == 0 || plan.piece[i] != plan.piece[i - 1] ||
                    plan.segments[i].query >= plan.segments[i - 1].query);
    }
    assert_true(together > 100 && apart > 1000);
    hspz_align_plan_fini(&plan);
}

static void
test_the_order_of_segments_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct hspz_align_plan plans[2];
    const struct hspz_align_cut cut = {.reach = 3000, .piece_cost = 60000};
    assert_int_equal(hspz_align_plan_make(&f->side, &f->side, &f->list, cut, &plans[0], NULL),
                     HSPZ_OK);
    for (size_t i = 0; i < SEGMENTS / 2; i++) {
        const struct hspz_segment s = f->list.segments[i];
        f->list.segments[i] = f->list.segments[SEGMENTS - 1 - i];
        f->list.segments[SEGMENTS - 1 - i] = s;
    }
    f->list.segments[0] = f->list.segments[1]; /* twice the same, and one less */
    assert_int_equal(hspz_align_plan_make(&f->side, &f->side, &f->list, cut, &plans[1], NULL),
                     HSPZ_OK);
    assert_int_equal(plans[1].count, SEGMENTS - 1);
    assert_true(plans[0].piece_count > 4);
    size_t sum = 0;
    for (size_t i = 0; i < plans[0].piece_count; i++) {
        sum += plans[0].pieces[i].segments;
    }
    assert_int_equal(sum, SEGMENTS);
    hspz_align_plan_fini(&plans[1]);
    hspz_align_plan_fini(&plans[0]);
}

static void
test_one_piece_for_each_strand_and_groups_when_whole(void **state)
{
    struct fixture *f = *state;
    struct hspz_align_plan plan;
    assert_int_equal(hspz_align_plan_make(&f->side, &f->side, &f->list,
                                          (struct hspz_align_cut){.reach = 0}, &plan, NULL),
                     HSPZ_OK);
    assert_int_equal(plan.piece_count, 8);
    hspz_align_plan_fini(&plan);
}

static void
test_what_alignments_join_is_done_again_in_one_piece(void **state)
{
    struct fixture *f = *state;
    struct hspz_align_plan plan;
    size_t pieces = 9;
    const struct hspz_segment far_apart[3] = {
        {.target_start = 1000, .query_start = 1000, .len = 100},
        {.target_start = 50000, .query_start = 50000, .len = 100},
        {.target_start = 99000, .query_start = 1000, .len = 100},
    };
    memcpy(f->list.segments, far_apart, sizeof(far_apart));
    f->list.count = 3;
    const struct hspz_align_cut cut = {.reach = 1000, .piece_cost = 1};
    assert_int_equal(hspz_align_plan_make(&f->side, &f->side, &f->list, cut, &plan, NULL), HSPZ_OK);
    assert_int_equal(plan.piece_count, 3);
    assert_int_equal(hspz_align_plan_mend(&plan, &pieces, NULL), HSPZ_OK);
    assert_int_equal(pieces, 0);
    uint32_t cell = 0;
    assert_int_equal(
        hspz_cells_occupy(&plan.cells, (struct hspz_plane){0, 0, false}, 500, 500, 49000, &cell),
        HSPZ_OK);
    assert_int_equal(hspz_align_plan_mend(&plan, &pieces, NULL), HSPZ_OK);
    assert_int_equal(pieces, 1);
    assert_int_equal(plan.piece[0], 3);
    assert_int_equal(plan.piece[1], 3);
    assert_int_equal(plan.pieces[3].segments, 2);
    assert_true(plan.pieces[plan.piece[2]].segments == 1 && plan.piece[2] < 3);
    uint32_t *owners = NULL;
    assert_int_equal(hspz_align_plan_owners(&plan, &owners, NULL), HSPZ_OK);
    assert_int_equal(owners[hspz_cells_find(&plan.cells, cell)], 3);
    free(owners);
    hspz_align_plan_fini(&plan);
}

static void
test_failed_allocations_are_told(void **state)
{
    struct fixture *f = *state;
    int failures = 0;
    for (long n = 1;; n++) {
        struct hspz_align_plan plan = {0};
        struct hspz_error err = {0};
        size_t pieces = 0;
        failing_malloc_arm(n);
        enum hspz_status status = hspz_align_plan_make(
            &f->side, &f->side, &f->list, (struct hspz_align_cut){.reach = 1000, .piece_cost = 1},
            &plan, &err);
        if (status == HSPZ_OK) {
            status = hspz_align_plan_mend(&plan, &pieces, &err);
        }
        const bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_align_plan_fini(&plan);
        failures += failed;
        if (!failed) {
            break;
        }
    }
    assert_true(failures > 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_near_segments_stay_in_one_piece, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_order_of_segments_changes_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_one_piece_for_each_strand_and_groups_when_whole, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_alignments_join_is_done_again_in_one_piece, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_failed_allocations_are_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
