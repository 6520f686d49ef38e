/* Work off the loop: one thread a lane, and the mailbox by which any thread reaches the loop.
 *
 * A task runs on its worker's thread, the one of least `order` first and in the order submitted
 * among equals; while it runs it may post events; then it is itself posted. Events fire on the loop
 * in the order posted, each exactly once, however the wake-ups merge.
 *
 * Owns:    nothing of what is passed through: tasks and events are embedded in their owners.
 * Threads: hspz_mailbox_post from any; run functions on the worker; all else on the loop thread. */
#pragma once

#include "daemon/handle.h"
#include "engine/engine.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct hspz_event {
    struct hspz_event *next;
    void (*fire)(struct hspz_event *event);
};

struct hspz_mailbox {
    uv_mutex_t mutex;
    uv_async_t async;
    struct hspz_event *first, **last;
};

HSPZ_MUST_USE enum hspz_status hspz_mailbox_init(struct hspz_mailbox *mailbox, uv_loop_t *loop,
                                                 struct hspz_handles *handles,
                                                 struct hspz_error *err);
void hspz_mailbox_post(struct hspz_mailbox *mailbox, struct hspz_event *event);
/* Fires what is there; for shutdown, when no more will be posted. */
void hspz_mailbox_drain(struct hspz_mailbox *mailbox);
/* Closes the handle (counted in `handles`); fini once it is closed. */
void hspz_mailbox_close(struct hspz_mailbox *mailbox);
void hspz_mailbox_fini(struct hspz_mailbox *mailbox);

struct hspz_worker;

/* What becomes of a task that waits on a worker which is stuck: it goes on waiting, runs on another
 * worker, or fires without having run. */
enum hspz_task_kind { HSPZ_TASK_WAITS, HSPZ_TASK_MOVES, HSPZ_TASK_SKIPS };

struct hspz_task {
    struct hspz_event event; /* fires when the task has run */
    struct hspz_task *next;
    double order; /* 0: before every turn */
    enum hspz_task_kind kind;
    void (*run)(struct hspz_task *task, struct hspz_worker *worker);
    /* On the loop, while the task is in a step that does not come back: what it was for goes on
     * without it. False: it came back. NULL for tasks without steps. */
    bool (*give_up)(struct hspz_task *task);
};

/* Starts the thread, which opens its lane; returns when that succeeded or failed. */
HSPZ_MUST_USE enum hspz_status hspz_worker_start(const struct hspz_engine_ops *ops,
                                                 struct hspz_engine *engine, unsigned device,
                                                 struct hspz_mailbox *mailbox,
                                                 struct hspz_worker **out, struct hspz_error *err);
void hspz_worker_submit(struct hspz_worker *worker, struct hspz_task *task);
/* Runs what was submitted, then ends and joins the thread. */
void hspz_worker_stop(struct hspz_worker **worker);

/* It has one job more; one less; how many. */
void hspz_worker_join(struct hspz_worker *worker);
void hspz_worker_leave(struct hspz_worker *worker);
unsigned hspz_worker_jobs(const struct hspz_worker *worker);
/* A turn is counted from hspz_worker_turn_begin to _end; `ns` is what it took. */
void hspz_worker_turn_begin(struct hspz_worker *worker);
void hspz_worker_turn_end(struct hspz_worker *worker, uint64_t ns);
/* Turns under way, when one last ended or the first of these began (uv_hrtime), and the time taken
 * by all that ended. */
unsigned hspz_worker_turns(const struct hspz_worker *worker);
uint64_t hspz_worker_moved_ns(const struct hspz_worker *worker);
uint64_t hspz_worker_busy_ns(const struct hspz_worker *worker);
unsigned hspz_worker_device(const struct hspz_worker *worker);

/* For how long the step under way has run; 0: there is none. The task that runs; NULL: none does.
 */
uint64_t hspz_worker_step_ns(const struct hspz_worker *worker, uint64_t now_ns);
struct hspz_task *hspz_worker_running(struct hspz_worker *worker);
/* Takes all that waits out of its queue: a list by `next`. */
struct hspz_task *hspz_worker_withdraw(struct hspz_worker *worker);

/* For run functions: around what may hang. */
void hspz_worker_step_begin(struct hspz_worker *worker);
void hspz_worker_step_end(struct hspz_worker *worker);
/* For run functions. `wanted`: a task waits for this one to end; `urgent`: one of less order does.
 */
bool hspz_worker_wanted(const struct hspz_worker *worker);
bool hspz_worker_urgent(const struct hspz_worker *worker);
struct hspz_lane *hspz_worker_lane(struct hspz_worker *worker);
void hspz_worker_post(struct hspz_worker *worker, struct hspz_event *event);
