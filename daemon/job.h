/* A job of a connection: what the connection, the scheduler and the statistics need of it, whatever
 * it does. Embedded first in its owner (struct hspz_discover, struct hspz_filter_job).
 *
 * The first job of a connection is its head and alone gets turns. A job is answered exactly once,
 * on the loop, and then gone; or not at all when its connection is.
 *
 * Threads: the loop thread, but for `stop`. */
#pragma once

#include "daemon/scheduler.h"
#include "daemon/service.h"
#include "daemon/worker.h"
#include "protocol/message.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hspz_conn;
struct hspz_conn_job;
struct hspz_frame;

struct hspz_conn_job_ops {
    /* It is the head now. May end it, and with it the connection. */
    void (*lead)(struct hspz_conn_job *job);
    /* Whether the head can use a turn; `credit`: its connection may make parts. */
    bool (*ready)(struct hspz_conn_job *job, bool credit);
    /* A hspz_give_fn's work for the head. */
    enum hspz_give (*give_turn)(struct hspz_conn_job *job, const struct hspz_turn *turn);
    /* Of its turns (struct hspz_task); NULL: their steps cannot be given up. */
    bool (*give_up)(struct hspz_task *task);
    /* Ends it with `status`: nothing is at work for it. May free it at once. */
    void (*end)(struct hspz_conn_job *job, enum hspz_status status);
    /* What it counts for beside its tenant and device; NULL: nothing. */
    struct hspz_usage *(*usage)(const struct hspz_conn_job *job);
};

struct hspz_conn_job {
    const struct hspz_conn_job_ops *ops;
    struct hspz_conn *conn;
    struct hspz_conn_job *next;
    struct hspz_task task;      /* the one that is with a worker */
    struct hspz_worker *worker; /* the last turn's; NULL before the first */
    unsigned first_device;      /* with a worker: that it counts for */
    struct hspz_turn turn;      /* under way */
    enum hspz_method method;
    uint32_t id;
    unsigned priority;                /* below HSPZ_PRIORITIES */
    bool working, begun;              /* something is at work for it; has been */
    bool held;                        /* is, or was, the head */
    bool shm;                         /* its parts go through the connection's ring */
    bool lacking;                     /* waits for what others have: hspz_conn_job_wake */
    uint64_t charged_bytes;           /* to the ingest budgets, until it ends */
    uint64_t arrived_ns, deadline_ns; /* deadline 0: none */
    atomic_int stop;                  /* enum hspz_status to end with at the next step, or 0 */
};

struct hspz_conn_job *hspz_conn_job_of_task(struct hspz_task *task);
/* Whether one more may queue, by number and by id. */
HSPZ_MUST_USE enum hspz_status hspz_conn_job_admit(const struct hspz_conn *conn, uint32_t id,
                                                   struct hspz_error *err);
/* Charges what a request's own bytes, and `more`, add to those that were admitted as they came. */
HSPZ_MUST_USE enum hspz_status hspz_conn_job_charge(struct hspz_conn *conn,
                                                    const struct hspz_frame *frame, uint64_t more,
                                                    uint64_t *charged, struct hspz_error *err);
/* The error of a request whose bytes were refused with `status`. */
enum hspz_status hspz_conn_job_refuse_bytes(const struct hspz_conn *conn, enum hspz_status status,
                                            struct hspz_error *err);
void hspz_conn_job_set_deadline(struct hspz_conn_job *job, uint64_t deadline_ms);
/* Counts its end: for the daemon, its tenant, its device, and what `usage` says. */
void hspz_conn_job_count(const struct hspz_conn_job *job, const struct hspz_used *used,
                         uint64_t now_ns);
/* Ends it with `status` as soon as nothing is at work for it; may end (and free) it at once. */
void hspz_conn_job_cancel(struct hspz_conn_job *job, enum hspz_status status);
/* The text of an end with `status` that was asked for. */
void hspz_conn_job_fail(const struct hspz_conn_job *job, enum hspz_status status,
                        struct hspz_error *err);
/* On the worker or the loop: whether it has to end before its next step; *err says how. */
bool hspz_conn_job_must_stop(const struct hspz_conn_job *job, struct hspz_error *err);
/* On the worker: whether a turn that began at `start_ns` has had its time. */
bool hspz_conn_job_turn_over(const struct hspz_worker *worker, uint64_t start_ns);
/* A worker for the next turn, of `device` or any of `among` (daemon/device.h). False: none works.
 */
HSPZ_MUST_USE bool hspz_conn_job_choose_worker(struct hspz_conn_job *job, unsigned device,
                                               const bool *among);
/* Takes up to `parts` buffers, in a list; none when there is no room now. HSPZ_E_OUT_OF_MEMORY:
 * there is none, and nothing is under way that would give one back. */
HSPZ_MUST_USE enum hspz_status hspz_conn_job_take_parts(struct hspz_conn_job *job, unsigned parts,
                                                        struct hspz_buffer **out);
/* Gives back those that were not used. */
void hspz_conn_job_give_parts(struct hspz_conn_job *job, struct hspz_buffer **parts);
/* Hands the job's task to a worker: as a turn, which is to be ended; or as something else. */
void hspz_conn_job_submit_turn(struct hspz_conn_job *job,
                               void (*run)(struct hspz_task *, struct hspz_worker *),
                               void (*fire)(struct hspz_event *), const struct hspz_turn *turn);
void hspz_conn_job_end_turn(struct hspz_conn_job *job, const struct hspz_turned *turned);
void hspz_conn_job_submit(struct hspz_conn_job *job,
                          void (*run)(struct hspz_task *, struct hspz_worker *),
                          void (*fire)(struct hspz_event *), struct hspz_worker *worker,
                          double order);
/* Heads that wait for what others have try again. */
void hspz_conn_job_wake(struct hspz_service *service);
