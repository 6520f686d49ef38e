#include "daemon/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

struct hspz_worker {
    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
    struct hspz_lane *lane;
    unsigned device;
    unsigned jobs, turns; /* the loop thread's */
    uint64_t moved_ns, busy_ns;
    struct hspz_mailbox *mailbox;
    uv_thread_t thread;
    uv_mutex_t mutex;
    uv_cond_t changed;
    struct hspz_task *first, *last; /* by order */
    struct hspz_task *now;          /* under way; NULL: none is */
    double running;                 /* its order */
    _Atomic uint64_t step_ns;       /* a step began (uv_hrtime); 0: none is under way */
    atomic_bool wanted, urgent;     /* there is one; one of less order than that */
    bool opened, quit;
    enum hspz_status open_status;
    struct hspz_error open_error;
};

static void
on_async(uv_async_t *async)
{
    hspz_mailbox_drain(
        (struct hspz_mailbox *)((char *)async - offsetof(struct hspz_mailbox, async)));
}

enum hspz_status
hspz_mailbox_init(struct hspz_mailbox *mailbox, uv_loop_t *loop, struct hspz_handles *handles,
                  struct hspz_error *err)
{
    *mailbox = (struct hspz_mailbox){0};
    mailbox->last = &mailbox->first;
    int result = uv_mutex_init(&mailbox->mutex);
    if (result != 0) {
        return hspz_uv_error(err, result, "mutex");
    }
    result = uv_async_init(loop, &mailbox->async, on_async);
    if (result != 0) {
        uv_mutex_destroy(&mailbox->mutex);
        return hspz_uv_error(err, result, "wake-up handle");
    }
    hspz_handles_add(handles, (uv_handle_t *)&mailbox->async);
    return HSPZ_OK;
}

void
hspz_mailbox_post(struct hspz_mailbox *mailbox, struct hspz_event *event)
{
    event->next = NULL;
    uv_mutex_lock(&mailbox->mutex);
    *mailbox->last = event;
    mailbox->last = &event->next;
    uv_mutex_unlock(&mailbox->mutex);
    HSPZ_REQUIRE(uv_async_send(&mailbox->async) == 0);
}

void
hspz_mailbox_drain(struct hspz_mailbox *mailbox)
{
    uv_mutex_lock(&mailbox->mutex);
    struct hspz_event *event = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    uv_mutex_unlock(&mailbox->mutex);
    while (event != NULL) {
        struct hspz_event *next = event->next; /* firing may reuse or free the event */
        event->fire(event);
        event = next;
    }
}

void
hspz_mailbox_close(struct hspz_mailbox *mailbox)
{
    hspz_handle_close((uv_handle_t *)&mailbox->async);
}

void
hspz_mailbox_fini(struct hspz_mailbox *mailbox)
{
    HSPZ_REQUIRE(mailbox->first == NULL);
    uv_mutex_destroy(&mailbox->mutex);
}

/* The next task, or NULL when told to quit and none is left. */
static struct hspz_task *
wait_task(struct hspz_worker *worker)
{
    uv_mutex_lock(&worker->mutex);
    while (worker->first == NULL && !worker->quit) {
        uv_cond_wait(&worker->changed, &worker->mutex);
    }
    struct hspz_task *task = worker->first;
    if (task != NULL) {
        worker->first = task->next;
        worker->now = task;
        worker->running = task->order;
        atomic_store_explicit(&worker->wanted, worker->first != NULL, memory_order_relaxed);
        atomic_store_explicit(&worker->urgent, false, memory_order_relaxed);
    }
    uv_mutex_unlock(&worker->mutex);
    return task;
}

static void
worker_main(void *arg)
{
    struct hspz_worker *worker = arg;
    struct hspz_error err = {0};
    const enum hspz_status status =
        worker->ops->lane_open(worker->engine, worker->device, &worker->lane, &err);
    uv_mutex_lock(&worker->mutex);
    worker->opened = true;
    worker->open_status = status;
    worker->open_error = err;
    uv_cond_broadcast(&worker->changed);
    uv_mutex_unlock(&worker->mutex);
    if (status != HSPZ_OK) {
        return;
    }
    for (struct hspz_task *task; (task = wait_task(worker)) != NULL;) {
        task->run(task, worker);
        uv_mutex_lock(&worker->mutex);
        worker->now = NULL;
        uv_mutex_unlock(&worker->mutex);
        hspz_mailbox_post(worker->mailbox, &task->event);
    }
    worker->ops->lane_close(&worker->lane);
}

static void
worker_destroy(struct hspz_worker *worker)
{
    uv_cond_destroy(&worker->changed);
    uv_mutex_destroy(&worker->mutex);
    free(worker);
}

static enum hspz_status
worker_create(struct hspz_worker **out, struct hspz_error *err)
{
    struct hspz_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory for a worker");
    }
    int result = uv_mutex_init(&worker->mutex);
    if (result != 0) {
        free(worker);
        return hspz_uv_error(err, result, "mutex");
    }
    result = uv_cond_init(&worker->changed);
    if (result != 0) {
        uv_mutex_destroy(&worker->mutex);
        free(worker);
        return hspz_uv_error(err, result, "condition variable");
    }
    *out = worker;
    return HSPZ_OK;
}

enum hspz_status
hspz_worker_start(const struct hspz_engine_ops *ops, struct hspz_engine *engine, unsigned device,
                  struct hspz_mailbox *mailbox, struct hspz_worker **out, struct hspz_error *err)
{
    struct hspz_worker *worker = NULL;
    enum hspz_status status = worker_create(&worker, err);
    if (status != HSPZ_OK) {
        return status;
    }
    worker->ops = ops;
    worker->engine = engine;
    worker->device = device;
    worker->mailbox = mailbox;
    const int result = uv_thread_create(&worker->thread, worker_main, worker);
    if (result != 0) {
        worker_destroy(worker);
        return hspz_uv_error(err, result, "worker thread");
    }
    uv_mutex_lock(&worker->mutex);
    while (!worker->opened) {
        uv_cond_wait(&worker->changed, &worker->mutex);
    }
    uv_mutex_unlock(&worker->mutex);
    if (worker->open_status != HSPZ_OK) {
        HSPZ_REQUIRE(uv_thread_join(&worker->thread) == 0);
        status = worker->open_status;
        if (err != NULL) {
            *err = worker->open_error;
        }
        worker_destroy(worker);
        return status;
    }
    *out = worker;
    return HSPZ_OK;
}

void
hspz_worker_submit(struct hspz_worker *worker, struct hspz_task *task)
{
    uv_mutex_lock(&worker->mutex);
    struct hspz_task **link = &worker->first;
    if (worker->first != NULL && worker->last->order <= task->order) {
        link = &worker->last->next;
    }
    while (*link != NULL && (*link)->order <= task->order) {
        link = &(*link)->next;
    }
    task->next = *link;
    *link = task;
    worker->last = task->next == NULL ? task : worker->last;
    atomic_store_explicit(&worker->wanted, true, memory_order_relaxed);
    if (task->order < worker->running) {
        atomic_store_explicit(&worker->urgent, true, memory_order_relaxed);
    }
    uv_cond_signal(&worker->changed);
    uv_mutex_unlock(&worker->mutex);
}

void
hspz_worker_stop(struct hspz_worker **worker)
{
    if (*worker == NULL) {
        return;
    }
    uv_mutex_lock(&(*worker)->mutex);
    (*worker)->quit = true;
    uv_cond_signal(&(*worker)->changed);
    uv_mutex_unlock(&(*worker)->mutex);
    HSPZ_REQUIRE(uv_thread_join(&(*worker)->thread) == 0);
    worker_destroy(*worker);
    *worker = NULL;
}

void
hspz_worker_join(struct hspz_worker *worker)
{
    worker->jobs++;
}

void
hspz_worker_leave(struct hspz_worker *worker)
{
    HSPZ_REQUIRE(worker->jobs > 0);
    worker->jobs--;
}

unsigned
hspz_worker_jobs(const struct hspz_worker *worker)
{
    return worker->jobs;
}

void
hspz_worker_turn_begin(struct hspz_worker *worker)
{
    if (worker->turns++ == 0) {
        worker->moved_ns = uv_hrtime();
    }
}

void
hspz_worker_turn_end(struct hspz_worker *worker, uint64_t ns)
{
    HSPZ_REQUIRE(worker->turns > 0);
    worker->turns--;
    worker->moved_ns = uv_hrtime();
    worker->busy_ns += ns;
}

uint64_t
hspz_worker_step_ns(const struct hspz_worker *worker, uint64_t now_ns)
{
    const uint64_t began = atomic_load(&worker->step_ns);
    return began != 0 && now_ns > began ? now_ns - began : 0;
}

struct hspz_task *
hspz_worker_running(struct hspz_worker *worker)
{
    uv_mutex_lock(&worker->mutex);
    struct hspz_task *task = worker->now;
    uv_mutex_unlock(&worker->mutex);
    return task;
}

struct hspz_task *
hspz_worker_withdraw(struct hspz_worker *worker)
{
    uv_mutex_lock(&worker->mutex);
    struct hspz_task *tasks = worker->first;
    worker->first = worker->last = NULL;
    atomic_store_explicit(&worker->wanted, false, memory_order_relaxed);
    atomic_store_explicit(&worker->urgent, false, memory_order_relaxed);
    uv_mutex_unlock(&worker->mutex);
    return tasks;
}

void
hspz_worker_step_begin(struct hspz_worker *worker)
{
    atomic_store(&worker->step_ns, uv_hrtime());
}

void
hspz_worker_step_end(struct hspz_worker *worker)
{
    atomic_store(&worker->step_ns, 0);
}

unsigned
hspz_worker_turns(const struct hspz_worker *worker)
{
    return worker->turns;
}

uint64_t
hspz_worker_moved_ns(const struct hspz_worker *worker)
{
    return worker->moved_ns;
}

uint64_t
hspz_worker_busy_ns(const struct hspz_worker *worker)
{
    return worker->busy_ns;
}

unsigned
hspz_worker_device(const struct hspz_worker *worker)
{
    return worker->device;
}

struct hspz_lane *
hspz_worker_lane(struct hspz_worker *worker)
{
    return worker->lane;
}

bool
hspz_worker_wanted(const struct hspz_worker *worker)
{
    return atomic_load_explicit(&worker->wanted, memory_order_relaxed);
}

bool
hspz_worker_urgent(const struct hspz_worker *worker)
{
    return atomic_load_explicit(&worker->urgent, memory_order_relaxed);
}

void
hspz_worker_post(struct hspz_worker *worker, struct hspz_event *event)
{
    hspz_mailbox_post(worker->mailbox, event);
}
