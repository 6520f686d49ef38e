#include "daemon/placing.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define DEVICES 4u
#define BLOCKS 5u

/* A row of the devices that hold each block, as digits. */
static void
assert_holds(const struct hspz_placing *p, const char *const want[BLOCKS])
{
    for (size_t b = 0; b < BLOCKS; b++) {
        const bool *holders = hspz_placing_holders(p, b);
        char got[DEVICES + 1] = "";
        assert_non_null(holders);
        for (unsigned d = 0; d < DEVICES; d++) {
            got[d] = holders[d] ? '1' : '0';
        }
        assert_string_equal(got, want[b]);
    }
}

static void
make(struct hspz_placing *p, enum hspz_placement how, const bool *members, const uint64_t *bytes)
{
    assert_int_equal(hspz_placing_init(p, how, DEVICES, members, bytes, NULL), HSPZ_OK);
    assert_int_equal(hspz_placing_make(p, BLOCKS, NULL), HSPZ_OK);
}

static void
test_blocks_go_where_the_placement_says(void **state)
{
    (void)state;
    static const bool all[DEVICES] = {true, true, true, true},
                      some[DEVICES] = {true, false, true, true};
    static const uint64_t bytes[DEVICES] = {9, 1, 5, 5};
    struct hspz_placing p = {0};
    make(&p, HSPZ_PLACE_REPLICATE, all, bytes);
    assert_null(hspz_placing_holders(&p, 3));
    assert_int_equal(hspz_placing_bytes(&p, 2, 500), 500);
    hspz_placing_fini(&p);
    make(&p, HSPZ_PLACE_REPLICATE, some, bytes);
    assert_holds(&p, (const char *const[]){"1011", "1011", "1011", "1011", "1011"});
    assert_int_equal(hspz_placing_bytes(&p, 1, 500), 0);
    assert_int_equal(hspz_placing_bytes(&p, 3, 500), 500);
    hspz_placing_fini(&p);
    make(&p, HSPZ_PLACE_SPLIT, all, bytes);
    assert_holds(&p, (const char *const[]){"0100", "0100", "0100", "0100", "0100"});
    hspz_placing_fini(&p);
    make(&p, HSPZ_PLACE_BLOCKS, some, bytes);
    assert_holds(&p, (const char *const[]){"0010", "0001", "1000", "0010", "0001"});
    assert_int_equal(hspz_placing_bytes(&p, 0, 500), 100);
    assert_int_equal(hspz_placing_bytes(&p, 1, 500), 0);
    assert_int_equal(hspz_placing_bytes(&p, 2, 500), 200);
    /* Made again for another index, of fewer blocks. */
    assert_int_equal(hspz_placing_make(&p, 1, NULL), HSPZ_OK);
    assert_true(hspz_placing_holders(&p, 0)[2]);
    assert_int_equal(hspz_placing_bytes(&p, 3, 500), 0);
    hspz_placing_fini(&p);
}

static void
test_one_device_holds_everything_and_none_is_an_error(void **state)
{
    (void)state;
    const bool yes = true, no = false;
    const uint64_t bytes = 7;
    struct hspz_placing p = {0};
    struct hspz_error err = {0};
    for (int how = HSPZ_PLACE_REPLICATE; how <= HSPZ_PLACE_BLOCKS; how++) {
        assert_int_equal(hspz_placing_init(&p, (enum hspz_placement)how, 1, &yes, &bytes, NULL),
                         HSPZ_OK);
        assert_int_equal(hspz_placing_make(&p, BLOCKS, NULL), HSPZ_OK);
        assert_null(hspz_placing_holders(&p, 0));
        hspz_placing_fini(&p);
        assert_int_equal(hspz_placing_init(&p, (enum hspz_placement)how, 1, &no, &bytes, &err),
                         HSPZ_E_DEVICE_ERROR);
        assert_string_equal(err.text, "none of the devices that the index may be on works");
        hspz_placing_fini(&p);
    }
}

static void
test_each_failing_allocation_is_told(void **state)
{
    (void)state;
    static const bool all[DEVICES] = {true, true, true, true};
    static const uint64_t bytes[DEVICES] = {0};
    long n = 1;
    for (bool failed = true; failed; n++) {
        struct hspz_placing p = {0};
        failing_malloc_arm(n);
        enum hspz_status status =
            hspz_placing_init(&p, HSPZ_PLACE_BLOCKS, DEVICES, all, bytes, NULL);
        if (status == HSPZ_OK) {
            status = hspz_placing_make(&p, BLOCKS, NULL);
        }
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_placing_fini(&p);
    }
    assert_int_equal(n, 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_go_where_the_placement_says),
        cmocka_unit_test(test_one_device_holds_everything_and_none_is_an_error),
        cmocka_unit_test(test_each_failing_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
