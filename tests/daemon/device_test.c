#include "daemon/device.h"

#include "daemon/service.h"
#include "tests/daemon/fake_engine.h"
#include "tests/support/test.h"

#define DEVICES 3u
#define LANES 2u
#define MS UINT64_C(1000000)

struct bench {
    struct hspz_service service;
    struct hspz_device devices[DEVICES];
    struct hspz_worker *workers[DEVICES * LANES];
    struct hspz_engine engine;
    uv_loop_t loop;
    struct hspz_handles handles;
};

static void
on_all_closed(void *owner)
{
    (void)owner;
}

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    struct hspz_service *s = &b->service;
    assert_int_equal(uv_loop_init(&b->loop), 0);
    hspz_handles_init(&b->handles, b, on_all_closed);
    assert_int_equal(hspz_mailbox_init(&s->mailbox, &b->loop, &b->handles, NULL), HSPZ_OK);
    s->devices = b->devices;
    s->device_count = DEVICES;
    s->workers = b->workers;
    for (; s->worker_count < DEVICES * LANES; s->worker_count++) {
        assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, s->worker_count % DEVICES,
                                           &s->mailbox, &b->workers[s->worker_count], NULL),
                         HSPZ_OK);
    }
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < DEVICES * LANES; i++) {
        hspz_worker_stop(&b->workers[i]);
    }
    hspz_mailbox_drain(&b->service.mailbox);
    hspz_mailbox_close(&b->service.mailbox);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    hspz_mailbox_fini(&b->service.mailbox);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    free(b);
    return 0;
}

static struct hspz_worker *
first_turn(struct bench *b, unsigned only)
{
    struct hspz_worker *w = hspz_device_choose(&b->service, NULL, only, NULL);
    hspz_worker_join(w);
    return w;
}

static void
took(struct bench *b, unsigned device, uint64_t steps, uint64_t ms)
{
    hspz_device_turned(&b->devices[device],
                       &(struct hspz_turned){.ns = ms * MS, .steps = steps, .parts = 1});
}

static void
test_new_jobs_are_dealt_to_devices_and_lanes_in_turn(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < 2 * DEVICES * LANES; i++) {
        assert_ptr_equal(first_turn(b, HSPZ_ANY_DEVICE), b->workers[i % (DEVICES * LANES)]);
    }
    /* Who has fewer gets the next ones, and who is asked for those that want it. */
    hspz_worker_leave(b->workers[4]);
    hspz_worker_leave(b->workers[4]);
    assert_ptr_equal(first_turn(b, HSPZ_ANY_DEVICE), b->workers[4]);
    assert_ptr_equal(first_turn(b, HSPZ_ANY_DEVICE), b->workers[4]);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(hspz_worker_device(first_turn(b, 2)), 2);
    }
    assert_int_equal(hspz_worker_jobs(b->workers[2]) + hspz_worker_jobs(b->workers[5]), 8);
}

static void
test_new_jobs_go_to_devices_by_their_speed(void **state)
{
    struct bench *b = *state;
    unsigned jobs[DEVICES] = {0};
    took(b, 0, 2, 8);
    took(b, 1, 1, 2);
    for (unsigned i = 0; i < 50; i++) {
        jobs[hspz_worker_device(first_turn(b, HSPZ_ANY_DEVICE))]++;
    }
    /* The third, that none had a turn on yet, is taken to be as fast as the second. */
    assert_int_equal(jobs[0], 10);
    assert_int_equal(jobs[1], 20);
    assert_int_equal(jobs[2], 20);
}

static void
test_a_job_leaves_its_device_for_half_the_wait(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < DEVICES; i++) {
        took(b, i, 1, i == 2 ? 3 : 1);
    }
    /* Another lane of the same device is free. */
    hspz_worker_turn_begin(b->workers[0]);
    hspz_worker_turn_begin(b->workers[1]);
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[0], HSPZ_ANY_DEVICE, NULL),
                     b->workers[3]);
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[3], HSPZ_ANY_DEVICE, NULL),
                     b->workers[3]);
    /* 3 turns of 1 ms against one of 3 ms, and against 2 of 1 ms. */
    hspz_worker_turn_begin(b->workers[3]);
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[0], HSPZ_ANY_DEVICE, NULL),
                     b->workers[0]);
    assert_int_equal(hspz_device_turns(&b->service, 0), 2);
    assert_int_equal(hspz_device_queued(&b->service, 0), 0);
    hspz_worker_turn_end(b->workers[1], MS);
    /* 3 ms against 1 ms. */
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[0], HSPZ_ANY_DEVICE, NULL),
                     b->workers[1]);
    /* Where it has to be it stays. */
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[0], 0, NULL), b->workers[0]);
    hspz_worker_turn_begin(b->workers[0]);
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[0], 0, NULL), b->workers[3]);
    assert_int_equal(hspz_device_queued(&b->service, 0), 1);
    assert_int_equal(hspz_device_lanes(&b->service), LANES);
}

static void
test_an_idle_device_that_was_slow_is_tried_again(void **state)
{
    struct bench *b = *state;
    took(b, 0, 1, 1);
    took(b, 1, 1, 1);
    took(b, 2, 1, 1000);
    for (unsigned i = 0; i < 2; i++) {
        hspz_worker_turn_begin(b->workers[i]);
    }
    unsigned n = 0;
    while (hspz_worker_device(
               hspz_device_choose(&b->service, b->workers[0], HSPZ_ANY_DEVICE, NULL)) != 2) {
        assert_true(++n < 500);
    }
    /* From 1000 ms to a half of two of 1 ms, by 1/8 each time. */
    assert_in_range(n, 48, 56);
    /* Not while it works: then its speed is known. */
    hspz_worker_turn_begin(b->workers[2]);
    const uint64_t step_ns = b->devices[2].step_ns;
    (void)hspz_device_choose(&b->service, b->workers[0], HSPZ_ANY_DEVICE, NULL);
    assert_int_equal(b->devices[2].step_ns, step_ns);
}

static void
test_steps_of_late_count_for_the_speed(void **state)
{
    struct bench *b = *state;
    took(b, 0, 4, 8);
    assert_int_equal(b->devices[0].step_ns, 2 * MS + 1);
    took(b, 0, 1, 10);
    assert_int_equal(b->devices[0].step_ns, 4 * MS + 1);
    took(b, 0, 0, 500);
    assert_int_equal(b->devices[0].step_ns, 4 * MS + 1);
    assert_int_equal(b->devices[0].parts, 3);
    assert_int_equal(b->devices[0].usage.device_ns, 518 * MS);
}

static void
test_a_lost_device_gets_nothing_while_another_works(void **state)
{
    struct bench *b = *state;
    struct hspz_engine_ops apart = fake_engine;
    struct hspz_log log = {.fd = -1, .level = HSPZ_LOG_ERROR};
    const struct hspz_error why = {.text = "it fell off"};
    b->service.log = &log;
    b->service.ops = &fake_engine;
    assert_false(hspz_device_lose(&b->service, 1, &why));
    assert_int_equal(hspz_device_count_ready(&b->service), 3);
    apart.devices_apart = true;
    b->service.ops = &apart;
    assert_false(hspz_device_lose(&b->service, HSPZ_ANY_DEVICE, &why));
    assert_true(hspz_device_lose(&b->service, 1, &why));
    assert_true(hspz_device_lose(&b->service, 1, &why));
    assert_string_equal(hspz_device_state_name(b->devices[1].state), "lost");
    assert_int_equal(b->service.scheduler.lanes, 2 * LANES);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_not_equal(hspz_worker_device(first_turn(b, HSPZ_ANY_DEVICE)), 1);
    }
    assert_null(hspz_device_choose(&b->service, b->workers[1], 1, NULL));
    assert_int_not_equal(
        hspz_worker_device(hspz_device_choose(&b->service, b->workers[1], HSPZ_ANY_DEVICE, NULL)),
        1);
    assert_true(hspz_device_lose(&b->service, 0, &why));
    assert_ptr_equal(hspz_device_choose(&b->service, b->workers[5], HSPZ_ANY_DEVICE, NULL),
                     b->workers[5]);
    assert_false(hspz_device_lose(&b->service, 2, &why));
    assert_null(hspz_device_choose(&b->service, NULL, HSPZ_ANY_DEVICE, NULL));
    assert_int_equal(hspz_device_count_ready(&b->service), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_jobs_are_dealt_to_devices_and_lanes_in_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_new_jobs_go_to_devices_by_their_speed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_job_leaves_its_device_for_half_the_wait, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_idle_device_that_was_slow_is_tried_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_device_gets_nothing_while_another_works, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_steps_of_late_count_for_the_speed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
