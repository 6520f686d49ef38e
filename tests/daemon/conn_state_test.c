#include "daemon/conn_state.h"

#include "tests/support/test.h"

static void
test_conn_states_only_move_forward(void **state)
{
    (void)state;
    /* from the drawing in conn_state.h, by hand */
    static const bool want[HSPZ_CONN_STATE_COUNT][HSPZ_CONN_STATE_COUNT] = {
        [HSPZ_CONN_GREET] =
            {[HSPZ_CONN_OPEN] = true, [HSPZ_CONN_LAST] = true, [HSPZ_CONN_CLOSING] = true},
        [HSPZ_CONN_OPEN] = {[HSPZ_CONN_LAST] = true, [HSPZ_CONN_CLOSING] = true},
        [HSPZ_CONN_LAST] = {[HSPZ_CONN_CLOSING] = true},
        [HSPZ_CONN_CLOSING] = {[HSPZ_CONN_CLOSED] = true},
    };
    for (unsigned from = 0; from < HSPZ_CONN_STATE_COUNT; from++) {
        assert_non_null(hspz_conn_state_name(from));
        for (unsigned to = 0; to < HSPZ_CONN_STATE_COUNT; to++) {
            assert_int_equal(hspz_conn_move_allowed(from, to), want[from][to]);
            assert_true(!hspz_conn_move_allowed(from, to) || from < to);
        }
    }
}

static void
test_conn_move_is_the_writer(void **state)
{
    (void)state;
    enum hspz_conn_state s = HSPZ_CONN_GREET;
    hspz_conn_move(&s, HSPZ_CONN_OPEN);
    assert_int_equal(s, HSPZ_CONN_OPEN);
    assert_true(hspz_conn_state_reads(s) && hspz_conn_state_serves(s));
    hspz_conn_move(&s, HSPZ_CONN_LAST);
    assert_true(hspz_conn_state_reads(s) && !hspz_conn_state_serves(s));
    hspz_conn_move(&s, HSPZ_CONN_CLOSING);
    assert_false(hspz_conn_state_reads(s) || hspz_conn_state_serves(s));
    hspz_conn_move(&s, HSPZ_CONN_CLOSED);
    assert_int_equal(s, HSPZ_CONN_CLOSED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conn_states_only_move_forward),
        cmocka_unit_test(test_conn_move_is_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
