#include "engine/cpu/simulated.h"

#include "engine/engine.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <time.h>

static void
test_a_list_gives_each_device_its_speed_and_failure(void **state)
{
    (void)state;
    struct hspz_simulated *devices = NULL;
    unsigned count = 0;
    assert_int_equal(hspz_simulated_parse("2x2000,0,5:fails=0,7:hangs=3,8:hangs=9:for=20", &devices,
                                          &count, NULL),
                     HSPZ_OK);
    static const uint64_t want[][4] = {
        {2000000, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {2000000, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {0, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {5000, 0, UINT64_MAX, UINT64_MAX},
        {7000, UINT64_MAX, 3, UINT64_MAX},
        {8000, UINT64_MAX, 9, 20000000},
    };
    assert_int_equal(count, 6);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(devices[i].step_ns, want[i][0]);
        assert_int_equal(devices[i].fails_after, want[i][1]);
        assert_int_equal(devices[i].hangs_after, want[i][2]);
        assert_int_equal(devices[i].hang_ns, want[i][3]);
    }
    free(devices);
}

static void
test_a_list_that_is_none_is_named(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "\"\""},
        {"5,", "\"\""},
        {"5,x3", "\"x3\""},
        {"0x5", "devices from 1"},
        {"1025x5", "devices from 1"},
        {"1000x5,25x5", "more than 1024"},
        {"60000001", "a minute"},
        {"99999999999999999999999", "a minute"},
        {"5:fails=", "number of parts"},
        {"1,5:hangs=a,1", "\"5:hangs=a\""},
        {"5:hangs=1:for=", "milliseconds"},
        {"5:fails=1:hangs=2", "something else"},
        {"5 ", "something else"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hspz_simulated *devices = NULL;
        unsigned count;
        struct hspz_error err = {0};
        assert_int_equal(hspz_simulated_parse(bad[i][0], &devices, &count, &err),
                         HSPZ_E_BAD_REQUEST);
        assert_null(devices);
        if (strstr(err.text, bad[i][1]) == NULL) {
            fail_msg("%s: %s", bad[i][0], err.text);
        }
    }
}

static void
test_an_engine_has_the_devices_and_shares_the_threads(void **state)
{
    (void)state;
    const struct hspz_engine_config config = {.threads = 8, .simulate = "3x10,20"};
    struct hspz_engine *engine = NULL;
    struct hspz_lane *lane = NULL;
    struct hspz_device_info info;
    assert_int_equal(hspz_cpu_engine.open(&config, &engine, NULL), HSPZ_OK);
    assert_int_equal(hspz_cpu_engine.device_count(engine), 4);
    hspz_cpu_engine.device_info(engine, 3, &info);
    assert_string_equal(info.name, "simulated, 2 threads, steps of 20 us");
    assert_int_equal(hspz_cpu_engine.lane_open(engine, 3, &lane, NULL), HSPZ_OK);
    hspz_cpu_engine.lane_close(&lane);
    hspz_cpu_engine.close(&engine);
}

static void
test_an_engine_opens_or_says_that_memory_is_short(void **state)
{
    (void)state;
    const struct hspz_engine_config config = {.threads = 1, .simulate = "4x0"};
    long n = 1;
    for (bool failed = true; failed; n++) {
        struct hspz_engine *engine = NULL;
        struct hspz_error err = {0};
        failing_malloc_arm(n);
        const enum hspz_status status = hspz_cpu_engine.open(&config, &engine, &err);
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_cpu_engine.close(&engine);
    }
    assert_int_equal(n, 4);
}

static uint64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
test_a_step_takes_its_time_and_parts_lead_to_the_failure(void **state)
{
    (void)state;
    struct hspz_simulated device = {
        .step_ns = 2000000, .fails_after = 3, .hangs_after = 1, .hang_ns = 30000000};
    struct hspz_error err = {0};
    unsigned parts = 0;
    for (unsigned step = 0; step < 6; step++) {
        uint64_t begin;
        const uint64_t before = now_ns();
        assert_int_equal(hspz_simulated_begin(&device, &begin, &err), HSPZ_OK);
        hspz_simulated_end(&device, begin, step % 2 == 1);
        parts += step % 2;
        /* It hangs once, with the first step after a part. */
        assert_true(now_ns() - before >= (step == 2 ? 30000000u : 2000000u));
        assert_int_equal(atomic_load(&device.parts), parts);
    }
    uint64_t begin;
    assert_int_equal(hspz_simulated_begin(&device, &begin, &err), HSPZ_E_DEVICE_ERROR);
    assert_non_null(strstr(err.text, "after 3 parts"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_gives_each_device_its_speed_and_failure),
        cmocka_unit_test(test_a_list_that_is_none_is_named),
        cmocka_unit_test(test_an_engine_has_the_devices_and_shares_the_threads),
        cmocka_unit_test(test_an_engine_opens_or_says_that_memory_is_short),
        cmocka_unit_test(test_a_step_takes_its_time_and_parts_lead_to_the_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
