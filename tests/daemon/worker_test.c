#include "daemon/worker.h"

#include "tests/daemon/fake_engine.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <stdatomic.h>

#define TASKS 100000u

struct bench {
    uv_loop_t loop;
    struct hspz_handles handles;
    struct hspz_mailbox mailbox;
    struct hspz_engine engine;
    struct hspz_worker *worker;
    bool all_closed;
    struct item *items;
    unsigned fired, parts;
    bool in_order, running;
    atomic_bool taken_up, submitted; /* the gate, and all behind it */
};

struct item {
    struct hspz_task task;
    struct hspz_event part; /* posted while the task runs */
    struct bench *bench;
    unsigned number;
    bool ran;
};

static void
on_all_closed(void *owner)
{
    ((struct bench *)owner)->all_closed = true;
}

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    struct hspz_error err;
    assert_int_equal(uv_loop_init(&b->loop), 0);
    hspz_handles_init(&b->handles, b, on_all_closed);
    assert_int_equal(hspz_mailbox_init(&b->mailbox, &b->loop, &b->handles, &err), HSPZ_OK);
    b->in_order = true;
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;
    hspz_worker_stop(&b->worker);
    hspz_mailbox_drain(&b->mailbox);
    hspz_mailbox_close(&b->mailbox);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_true(b->all_closed);
    hspz_mailbox_fini(&b->mailbox);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    assert_int_equal(b->engine.lanes, 0);
    free(b->items);
    free(b);
    return 0;
}

static void
on_part(struct hspz_event *event)
{
    struct item *item = (struct item *)(void *)((char *)event - offsetof(struct item, part));
    item->bench->in_order = item->bench->in_order && item->number == item->bench->fired;
    item->bench->parts++;
}

static void
on_task(struct hspz_event *event)
{
    struct item *item = (struct item *)(void *)event;
    struct bench *b = item->bench;
    b->in_order = b->in_order && item->ran && item->number == b->fired && b->parts == b->fired + 1;
    if (++b->fired == TASKS && b->running) {
        uv_stop(&b->loop);
    }
}

static void
run_item(struct hspz_task *task, struct hspz_worker *worker)
{
    struct item *item = (struct item *)(void *)task;
    item->ran = hspz_worker_lane(worker)->engine == &item->bench->engine;
    hspz_worker_post(worker, &item->part);
}

static void
start_items(struct bench *b)
{
    struct hspz_error err;
    assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, 0, &b->mailbox, &b->worker, &err),
                     HSPZ_OK);
    b->items = calloc(TASKS, sizeof(*b->items));
    assert_non_null(b->items);
    for (unsigned i = 0; i < TASKS; i++) {
        b->items[i] = (struct item){.bench = b, .number = i};
        b->items[i].task.run = run_item;
        b->items[i].task.event.fire = on_task;
        b->items[i].part.fire = on_part;
        hspz_worker_submit(b->worker, &b->items[i].task);
    }
}

static void
test_worker_no_event_is_lost_when_wakeups_merge(void **state)
{
    struct bench *b = *state;
    start_items(b);
    b->running = true;
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(b->fired, TASKS);
    assert_int_equal(b->parts, TASKS);
    assert_true(b->in_order);
}

static void
test_worker_stop_runs_what_was_submitted(void **state)
{
    struct bench *b = *state;
    start_items(b);
    hspz_worker_stop(&b->worker);
    hspz_mailbox_drain(&b->mailbox);
    assert_int_equal(b->fired, TASKS);
    assert_true(b->in_order);
}

/* Holds the worker until the others are submitted. */
static void
run_gate(struct hspz_task *task, struct hspz_worker *worker)
{
    struct item *item = (struct item *)(void *)task;
    atomic_store(&item->bench->taken_up, true);
    while (!atomic_load(&item->bench->submitted)) {
        uv_sleep(1);
    }
    item->ran = hspz_worker_wanted(worker);
}

static void
on_nothing(struct hspz_event *event)
{
    (void)event;
}

static void
on_ordered(struct hspz_event *event)
{
    struct item *item = (struct item *)(void *)event;
    struct bench *b = item->bench;
    b->in_order = b->in_order && item->number == b->fired;
    b->fired++;
}

static void
test_worker_takes_the_least_order_first(void **state)
{
    struct bench *b = *state;
    static const double orders[] = {-2, 5, 0, 7, 5, 1e12, 6, -1, 5};
    static const unsigned places[] = {0, 3, 2, 7, 4, 8, 6, 1, 5};
    enum { COUNT = sizeof(orders) / sizeof(orders[0]) };
    struct hspz_error err;
    assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, 0, &b->mailbox, &b->worker, &err),
                     HSPZ_OK);
    b->items = calloc(COUNT, sizeof(*b->items));
    assert_non_null(b->items);
    for (unsigned i = 0; i < COUNT; i++) {
        b->items[i] = (struct item){.bench = b, .number = places[i]};
        b->items[i].task.run = i == 0 ? run_gate : run_item;
        b->items[i].task.event.fire = on_ordered;
        b->items[i].part.fire = on_nothing;
        b->items[i].task.order = orders[i];
        hspz_worker_submit(b->worker, &b->items[i].task);
        while (!atomic_load(&b->taken_up)) {
            uv_sleep(1);
        }
    }
    atomic_store(&b->submitted, true);
    hspz_worker_stop(&b->worker);
    hspz_mailbox_drain(&b->mailbox);
    assert_true(b->items[0].ran);
    assert_int_equal(b->fired, COUNT);
    assert_true(b->in_order);
}

/* In a step until it may go on. */
static void
run_step(struct hspz_task *task, struct hspz_worker *worker)
{
    hspz_worker_step_begin(worker);
    run_gate(task, worker);
    hspz_worker_step_end(worker);
}

static void
test_what_waits_behind_a_step_is_withdrawn_in_order(void **state)
{
    struct bench *b = *state;
    enum { COUNT = 4 };
    assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, 0, &b->mailbox, &b->worker, NULL),
                     HSPZ_OK);
    assert_null(hspz_worker_running(b->worker));
    assert_null(hspz_worker_withdraw(b->worker));
    b->items = calloc(COUNT, sizeof(*b->items));
    assert_non_null(b->items);
    for (unsigned i = 0; i < COUNT; i++) {
        b->items[i] = (struct item){.bench = b};
        b->items[i].task.run = i == 0 ? run_step : run_item;
        b->items[i].task.event.fire = on_ordered;
        b->items[i].part.fire = on_nothing;
        b->items[i].task.order = -(double)i;
        hspz_worker_submit(b->worker, &b->items[i].task);
        while (!atomic_load(&b->taken_up)) {
            uv_sleep(1);
        }
    }
    assert_ptr_equal(hspz_worker_running(b->worker), &b->items[0].task);
    assert_true(hspz_worker_step_ns(b->worker, uv_hrtime() + 1000000000) >= 1000000000);
    unsigned left = COUNT - 1;
    for (struct hspz_task *t = hspz_worker_withdraw(b->worker); t != NULL; t = t->next) {
        assert_ptr_equal(t, &b->items[left--].task);
    }
    assert_int_equal(left, 0);
    assert_false(hspz_worker_wanted(b->worker) || hspz_worker_urgent(b->worker));
    atomic_store(&b->submitted, true);
    hspz_worker_stop(&b->worker);
    hspz_mailbox_drain(&b->mailbox);
    assert_int_equal(b->fired, 1);
    for (unsigned i = 1; i < COUNT; i++) {
        assert_false(b->items[i].ran);
    }
}

static void
test_worker_without_a_lane_does_not_start(void **state)
{
    struct bench *b = *state;
    struct hspz_error err = {0};
    b->engine.fail_lane = true;
    assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, 0, &b->mailbox, &b->worker, &err),
                     HSPZ_E_DEVICE_ERROR);
    assert_string_equal(err.text, "no lane");
    assert_null(b->worker);
}

static void
test_worker_start_survives_each_failing_allocation(void **state)
{
    struct bench *b = *state;
    long n = 1;
    for (bool failed = true; failed; n++) {
        struct hspz_error err = {0};
        failing_malloc_arm(n);
        const enum hspz_status status =
            hspz_worker_start(&fake_engine, &b->engine, 0, &b->mailbox, &b->worker, &err);
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_worker_stop(&b->worker);
        assert_int_equal(b->engine.lanes, 0);
    }
    assert_true(n > 3);
}

static void
test_worker_counts_its_jobs_and_turns(void **state)
{
    struct bench *b = *state;
    struct hspz_error err;
    assert_int_equal(hspz_worker_start(&fake_engine, &b->engine, 3, &b->mailbox, &b->worker, &err),
                     HSPZ_OK);
    assert_int_equal(hspz_worker_device(b->worker), 3);
    hspz_worker_join(b->worker);
    hspz_worker_join(b->worker);
    hspz_worker_leave(b->worker);
    assert_int_equal(hspz_worker_jobs(b->worker), 1);
    hspz_worker_turn_begin(b->worker);
    hspz_worker_turn_begin(b->worker);
    hspz_worker_turn_end(b->worker, 70);
    assert_int_equal(hspz_worker_busy_ns(b->worker), 70);
    assert_int_equal(hspz_worker_turns(b->worker), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_worker_no_event_is_lost_when_wakeups_merge, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_worker_stop_runs_what_was_submitted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_takes_the_least_order_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_waits_behind_a_step_is_withdrawn_in_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_worker_without_a_lane_does_not_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_start_survives_each_failing_allocation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_worker_counts_its_jobs_and_turns, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
