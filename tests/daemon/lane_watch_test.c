#include "daemon/lane_watch.h"

#include "tests/daemon/fake_engine.h"
#include "tests/support/test.h"

#define LANES 3
#define SECOND UINT64_C(1000000000)

struct bench {
    struct hspz_service service;
    uv_loop_t loop;
    struct hspz_handles handles;
    struct hspz_engine engine;
    struct hspz_worker *workers[LANES];
    struct hspz_device devices[LANES + 7];
    struct hspz_lane_watch *watch;
    uint64_t now;
    unsigned lost, lost_device;
    char why[512];
};

static void
on_all_closed(void *owner)
{
    (void)owner;
}

static void
on_lost(struct hspz_service *service, unsigned device, const struct hspz_error *why)
{
    struct bench *b = (struct bench *)(void *)service;
    b->lost++;
    b->lost_device = device;
    snprintf(b->why, sizeof(b->why), "%s", why->text);
    service->state = HSPZ_SERVICE_FAILED;
}

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    struct hspz_service *s = &b->service;
    struct hspz_error err;
    assert_int_equal(uv_loop_init(&b->loop), 0);
    hspz_handles_init(&b->handles, b, on_all_closed);
    assert_int_equal(hspz_mailbox_init(&s->mailbox, &b->loop, &b->handles, &err), HSPZ_OK);
    s->ops = &fake_engine;
    s->engine = &b->engine;
    s->lost = on_lost;
    s->state = HSPZ_SERVICE_READY;
    s->workers = b->workers;
    s->devices = b->devices;
    for (; s->worker_count < LANES; s->worker_count++) {
        assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, s->worker_count + 7,
                                           &s->mailbox, &b->workers[s->worker_count], &err),
                         HSPZ_OK);
    }
    assert_int_equal(hspz_lane_watch_create(s, &b->watch), HSPZ_OK);
    assert_non_null(b->watch);
    b->now = uv_hrtime();
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;
    b->engine.hang_check = false;
    for (unsigned i = 0; i < LANES; i++) {
        hspz_worker_stop(&b->workers[i]);
    }
    hspz_mailbox_drain(&b->service.mailbox);
    hspz_mailbox_close(&b->service.mailbox);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    hspz_mailbox_fini(&b->service.mailbox);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    hspz_lane_watch_destroy(&b->watch);
    assert_null(b->watch);
    free(b);
    return 0;
}

struct last {
    struct hspz_task task;
    bool fired;
};

static void
run_last(struct hspz_task *task, struct hspz_worker *worker)
{
    (void)task;
    (void)worker;
}

static void
on_last(struct hspz_event *event)
{
    struct last *last = (struct last *)(void *)((char *)event - offsetof(struct last, task.event));
    last->fired = true;
}

/* Until each lane has done all that it was given, and that was told. */
static void
settle(struct bench *b)
{
    struct last last[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        last[i] = (struct last){.task = {.run = run_last, .event.fire = on_last, .order = 1e9}};
        hspz_worker_submit(b->workers[i], &last[i].task);
    }
    for (unsigned i = 0; i < LANES; i++) {
        while (!last[i].fired) {
            uv_sleep(1);
            hspz_mailbox_drain(&b->service.mailbox);
        }
    }
}

/* So many seconds, a tick each, on the watch's clock; what was begun is done after each, unless it
 * hangs. */
static void
tick(struct bench *b, unsigned seconds, int *checks)
{
    for (unsigned i = 0; i < seconds; i++) {
        b->now += SECOND;
        hspz_lane_watch_tick(b->watch, b->now);
        if (!b->engine.hang_check) {
            settle(b);
        }
    }
    *checks = b->engine.checks;
}

static void
test_each_idle_lane_is_checked_every_few_seconds(void **state)
{
    struct bench *b = *state;
    int checks = 0;
    tick(b, 4, &checks);
    assert_int_equal(checks, 0);
    tick(b, 4, &checks);
    assert_true(checks >= LANES && checks <= 4 * LANES);
    assert_int_equal(b->lost, 0);
    assert_true(hspz_lane_watch_answers(b->watch, b->now, SECOND));
}

static void
test_a_lane_at_work_is_left_alone(void **state)
{
    struct bench *b = *state;
    int checks = 0;
    for (unsigned i = 0; i < LANES; i++) {
        hspz_worker_turn_begin(b->workers[i]);
    }
    tick(b, 8, &checks);
    assert_int_equal(checks, 0);
}

static void
test_a_device_that_fails_is_lost_once(void **state)
{
    struct bench *b = *state;
    int checks = 0;
    b->engine.fail_check = true;
    tick(b, 8, &checks);
    assert_int_equal(checks, LANES);
    assert_int_equal(b->lost, 1);
    assert_true(b->lost_device >= 7 && b->lost_device < 7 + LANES);
    assert_string_equal(b->why, "unspecified");
}

static void
test_a_device_that_hangs_is_noticed_and_then_lost(void **state)
{
    struct bench *b = *state;
    int checks = 0;
    b->engine.hang_check = true;
    tick(b, 6, &checks);
    while (b->engine.checks < LANES) {
        uv_sleep(1);
    }
    tick(b, 2, &checks);
    assert_false(hspz_lane_watch_answers(b->watch, b->now, SECOND));
    assert_int_equal(b->lost, 0);
    tick(b, 10, &checks);
    assert_int_equal(b->lost, 1);
    assert_string_equal(b->why, "device 7 does not answer");
    assert_int_equal(checks, LANES);
}

static void
test_without_a_watch_all_is_well(void **state)
{
    (void)state;
    hspz_lane_watch_tick(NULL, 1);
    assert_true(hspz_lane_watch_answers(NULL, 1, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_idle_lane_is_checked_every_few_seconds, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_lane_at_work_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_device_that_fails_is_lost_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_device_that_hangs_is_noticed_and_then_lost, setup,
                                        teardown),
        cmocka_unit_test(test_without_a_watch_all_is_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
