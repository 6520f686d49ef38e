#include "daemon/scratch.h"

#include "tests/support/test.h"

static void
test_scratch_never_passes_its_budget(void **state)
{
    (void)state;
    enum { JOBS = 12 };
    struct hspz_scratch s;
    struct hspz_scratch_user users[JOBS] = {0};
    uint64_t held[JOBS] = {0}, random = 3;
    hspz_scratch_init(&s, 1000);
    uint64_t refused = 0, parked = 0;
    for (int n = 0; n < 20000; n++) {
        const size_t i = test_random(&random) % JOBS;
        const uint64_t want = test_random(&random) % 500;
        while (!hspz_scratch_reserve(&s, &users[i], want)) {
            struct hspz_scratch_user *victim = hspz_scratch_victim(&s, &users[i]);
            refused++;
            if (victim == NULL) {
                break;
            }
            assert_ptr_not_equal(victim, &users[i]);
            assert_true(hspz_scratch_reserve(&s, victim, 0));
            hspz_scratch_settle(&s, victim, 0, 0, 0);
            held[victim - users] = 0;
            parked++;
        }
        held[i] = users[i].reserved;
        uint64_t sum = 0;
        for (size_t k = 0; k < JOBS; k++) {
            assert_int_equal(held[k], users[k].reserved);
            sum += held[k];
        }
        assert_int_equal(s.reserved, sum);
        assert_true(sum <= 1000);
        assert_int_equal(hspz_scratch_left(&s), 1000 - sum);
        held[i] = want == 0 ? 0 : test_random(&random) % want;
        hspz_scratch_settle(&s, &users[i], held[i], 0, 0);
    }
    assert_true(refused > 0 && parked > 0);
    for (size_t i = 0; i < JOBS; i++) {
        hspz_scratch_settle(&s, &users[i], 0, 0, 0);
    }
    assert_int_equal(s.reserved, 0);
    assert_null(hspz_scratch_victim(&s, NULL));
}

static void
test_scratch_parks_the_stalled_then_the_most_recent(void **state)
{
    (void)state;
    struct hspz_scratch s;
    struct hspz_scratch_user a = {0}, b = {0}, c = {0};
    hspz_scratch_init(&s, 100);
    hspz_scratch_settle(&s, &a, 10, 0, 0);
    hspz_scratch_settle(&s, &b, 10, 0, 0);
    hspz_scratch_settle(&s, &c, 10, 0, 0);
    assert_ptr_equal(hspz_scratch_victim(&s, NULL), &c);
    assert_ptr_equal(hspz_scratch_victim(&s, &c), &b);
    a.stalled = true;
    assert_ptr_equal(hspz_scratch_victim(&s, NULL), &a);
    /* one that works is no victim */
    assert_true(hspz_scratch_reserve(&s, &a, 80));
    assert_ptr_equal(hspz_scratch_victim(&s, NULL), &c);
    assert_false(hspz_scratch_reserve(&s, &a, 81));
    assert_false(hspz_scratch_reserve(&s, &a, UINT64_MAX));
    assert_int_equal(s.reserved, 100);
}

static void
test_scratch_does_not_park_for_what_jobs_keep(void **state)
{
    (void)state;
    struct hspz_scratch s;
    struct hspz_scratch_user a = {0}, b = {0}, c = {0};
    hspz_scratch_init(&s, 100);
    assert_false(hspz_scratch_moves(&s, &c));
    hspz_scratch_settle(&s, &a, 40, 40, 60);
    hspz_scratch_settle(&s, &b, 40, 30, 61);
    assert_false(hspz_scratch_reserve(&s, &c, 30));
    assert_ptr_equal(hspz_scratch_victim(&s, &c), &b);
    /* b is parked, and its job under way until that is done. */
    assert_true(hspz_scratch_reserve(&s, &b, b.kept));
    assert_true(hspz_scratch_moves(&s, &c));
    assert_null(hspz_scratch_victim(&s, &c));
    hspz_scratch_settle(&s, &b, 30, 30, 61);
    assert_null(hspz_scratch_victim(&s, &c));
    /* a may have 60 and b 30, but not b 61 and a 40. */
    assert_false(hspz_scratch_other_fits(&s, &a));
    assert_true(hspz_scratch_other_fits(&s, &b));
    assert_true(hspz_scratch_other_fits(&s, &c));
    a.stalled = true;
    assert_false(hspz_scratch_other_fits(&s, &c));
    a.stalled = false;
    /* One that keeps nothing would fit, but leaves no room behind. */
    struct hspz_scratch_user d = {0};
    hspz_scratch_settle(&s, &d, 1, 0, 5);
    a.most = 80;
    assert_false(hspz_scratch_other_fits(&s, &b));
    hspz_scratch_settle(&s, &d, 0, 0, 0);
    assert_true(hspz_scratch_reserve(&s, &c, 30));
    assert_true(hspz_scratch_moves(&s, &a));
    assert_false(hspz_scratch_moves(&s, &c));
    hspz_scratch_settle(&s, &c, 20, 10, 0);
    assert_false(hspz_scratch_moves(&s, &a));
    assert_int_equal(s.resting, 90);
    hspz_scratch_settle(&s, &a, 0, 0, 0);
    hspz_scratch_settle(&s, &b, 0, 0, 0);
    hspz_scratch_settle(&s, &c, 0, 0, 0);
    assert_int_equal(s.resting, 0);
    assert_int_equal(s.reserved, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scratch_never_passes_its_budget),
        cmocka_unit_test(test_scratch_parks_the_stalled_then_the_most_recent),
        cmocka_unit_test(test_scratch_does_not_park_for_what_jobs_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
