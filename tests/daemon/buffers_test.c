#include "daemon/buffers.h"

#include "tests/daemon/fake_engine.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define PART 65536u

static void
test_buffers_first_is_guaranteed_and_more_are_shared(void **state)
{
    (void)state;
    struct hspz_engine engine = {0};
    struct hspz_buffers *pool = NULL;
    assert_int_equal(hspz_buffers_create(&fake_engine, &engine, PART, 3 * PART + 1, &pool),
                     HSPZ_OK);
    /* 100 holders of one each, beside three shared ones for the first of them */
    struct hspz_buffer *first[100], *more[3], *none = NULL;
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(hspz_buffers_take(pool, 0, &first[i]), HSPZ_OK);
        assert_false(first[i]->shared);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(hspz_buffers_take(pool, (unsigned)i + 1, &more[i]), HSPZ_OK);
        assert_true(more[i]->shared);
    }
    assert_int_equal(hspz_buffers_take(pool, 4, &none), HSPZ_E_QUOTA_EXCEEDED);
    assert_int_equal(hspz_buffers_take(pool, 1, &none), HSPZ_E_QUOTA_EXCEEDED);
    assert_null(none);
    assert_int_equal(hspz_buffers_used_bytes(pool), 103 * PART);
    assert_int_equal(engine.buffers, 103);

    /* a shared one comes back, and another holder may have it */
    hspz_buffers_give(pool, &more[1]);
    assert_null(more[1]);
    assert_int_equal(hspz_buffers_take(pool, 1, &more[1]), HSPZ_OK);
    assert_int_equal(hspz_buffers_take(pool, 1, &none), HSPZ_E_QUOTA_EXCEEDED);

    for (size_t i = 0; i < 100; i++) {
        hspz_buffers_give(pool, &first[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        hspz_buffers_give(pool, &more[i]);
    }
    assert_int_equal(hspz_buffers_used_bytes(pool), 0);
    /* only a few are kept */
    assert_true(engine.buffers > 0 && engine.buffers <= 16);
    assert_int_equal(hspz_buffers_held_bytes(pool), (unsigned)engine.buffers * PART);
    hspz_buffers_destroy(&pool);
    assert_null(pool);
    assert_int_equal(engine.buffers, 0);
}

static void
test_buffers_without_memory_change_nothing(void **state)
{
    (void)state;
    struct hspz_engine engine = {.fail_buffer = true};
    struct hspz_buffers *pool = NULL;
    struct hspz_buffer *buffer = NULL;
    assert_int_equal(hspz_buffers_create(&fake_engine, &engine, PART, PART, &pool), HSPZ_OK);
    assert_int_equal(hspz_buffers_take(pool, 0, &buffer), HSPZ_E_OUT_OF_MEMORY);
    assert_int_equal(hspz_buffers_take(pool, 1, &buffer), HSPZ_E_OUT_OF_MEMORY);
    assert_int_equal(hspz_buffers_used_bytes(pool), 0);
    engine.fail_buffer = false;
    assert_int_equal(hspz_buffers_take(pool, 1, &buffer), HSPZ_OK);
    hspz_buffers_give(pool, &buffer);
    hspz_buffers_destroy(&pool);
    assert_int_equal(engine.buffers, 0);
}

static void
test_buffers_survive_each_failing_allocation(void **state)
{
    (void)state;
    long n = 1;
    for (bool failed = true; failed; n++) {
        struct hspz_engine engine = {0};
        struct hspz_buffers *pool = NULL;
        struct hspz_buffer *a = NULL, *b = NULL;
        failing_malloc_arm(n);
        enum hspz_status status = hspz_buffers_create(&fake_engine, &engine, PART, PART, &pool);
        if (status == HSPZ_OK) {
            status = hspz_buffers_take(pool, 0, &a);
        }
        if (status == HSPZ_OK) {
            status = hspz_buffers_take(pool, 1, &b);
        }
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        if (pool != NULL) {
            hspz_buffers_give(pool, &a);
            hspz_buffers_give(pool, &b);
        }
        hspz_buffers_destroy(&pool);
        assert_int_equal(engine.buffers, 0);
    }
    assert_true(n > 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_first_is_guaranteed_and_more_are_shared),
        cmocka_unit_test(test_buffers_without_memory_change_nothing),
        cmocka_unit_test(test_buffers_survive_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
