#include "daemon/job.h"

#include "daemon/access_log.h"
#include "daemon/conn.h"
#include "daemon/conn_shm.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct hspz_conn_job *
hspz_conn_job_of_task(struct hspz_task *task)
{
    return (struct hspz_conn_job *)(void *)((char *)task - offsetof(struct hspz_conn_job, task));
}

/* Over a limit that is held by jobs whose ends come at `pace`; returns `status`. */
static enum hspz_status
try_later(struct hspz_error *err, enum hspz_status status, uint64_t limit,
          const struct hspz_pace *pace)
{
    if (err != NULL) {
        err->has_retry = true;
        err->retry_ms = hspz_pace_guess_ms(pace, uv_hrtime());
    }
    return hspz_error_limit(err, status, limit);
}

static enum hspz_status
check_counts(const struct hspz_conn *conn, struct hspz_error *err)
{
    const struct hspz_service *service = conn->service;
    const struct hspz_tenant *tenant = conn->tenant;
    const struct hspz_config *config = service->config;
    if (conn->job_count > config->max_jobs) {
        hspz_error_set(err, HSPZ_E_QUEUE_FULL,
                       "%zu jobs of this connection are waiting; at most %" PRIu64 " may",
                       conn->job_count - 1, config->max_jobs);
        return try_later(err, HSPZ_E_QUEUE_FULL, config->max_jobs, &conn->pace);
    }
    if (tenant->settings.max_jobs != 0 && tenant->jobs >= tenant->settings.max_jobs) {
        hspz_error_set(err, HSPZ_E_QUEUE_FULL,
                       "%" PRIu64 " jobs of tenant \"%s\" are waiting or running; at most %" PRIu64
                       " may (max_jobs)",
                       tenant->jobs, tenant->settings.name, tenant->settings.max_jobs);
        return try_later(err, HSPZ_E_QUEUE_FULL, tenant->settings.max_jobs, &tenant->pace);
    }
    if (!hspz_tenant_has_room(&service->tenants, tenant, HSPZ_HELD_JOBS, 1, config->max_all_jobs)) {
        hspz_error_set(err, HSPZ_E_QUEUE_FULL,
                       "%" PRIu64 " jobs are waiting; at most %" PRIu64 " may%s",
                       service->job_count, config->max_all_jobs,
                       service->job_count < config->max_all_jobs
                           ? ", a quarter of them of tenants that have few"
                           : "");
        return try_later(err, HSPZ_E_QUEUE_FULL, config->max_all_jobs, &service->pace);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_conn_job_admit(const struct hspz_conn *conn, uint32_t id, struct hspz_error *err)
{
    if (conn->service->state >= HSPZ_SERVICE_DRAINING) {
        return hspz_error_set(err, HSPZ_E_SHUTTING_DOWN, "the server is shutting down");
    }
    for (const struct hspz_conn_job *other = conn->jobs; other != NULL; other = other->next) {
        if (other->id == id) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "job %u is under way already", id);
        }
    }
    return check_counts(conn, err);
}

enum hspz_status
hspz_conn_job_refuse_bytes(const struct hspz_conn *conn, enum hspz_status status,
                           struct hspz_error *err)
{
    const struct hspz_service *service = conn->service;
    const struct hspz_tenant *tenant = conn->tenant;
    const uint64_t most = tenant->settings.max_queued_bytes;
    const uint64_t all = service->config->ingest_total,
                   mine = service->config->ingest_per_connection;
    const uint64_t ever = hspz_tenants_most(&service->tenants, all);
    const uint64_t least = most != 0 && most < ever ? most : ever;
    const uint64_t limit = mine < least ? mine : least;
    if (status == HSPZ_E_TOO_LARGE) {
        hspz_error_set(err, status,
                       "the request is larger than the %" PRIu64 " bytes that are held for a peer",
                       limit);
        return hspz_error_limit(err, status, limit);
    }
    hspz_error_set(err, status,
                   "requests under way hold %" PRIu64 " bytes of this connection, %" PRIu64
                   " of its tenant and %" PRIu64 " of all: too much of the %" PRIu64
                   " that are held for a peer, or of the %" PRIu64 " for all",
                   conn->ingest_bytes, tenant->ingest_bytes, service->ingest_bytes, limit, all);
    return try_later(err, status, limit, &tenant->pace);
}

enum hspz_status
hspz_conn_job_charge(struct hspz_conn *conn, const struct hspz_frame *frame, uint64_t more,
                     uint64_t *charged, struct hspz_error *err)
{
    const uint64_t len = frame->len > frame->admitted_bytes ? frame->len : frame->admitted_bytes;
    *charged = len + more;
    const enum hspz_status status = hspz_conn_charge(conn, *charged - frame->admitted_bytes);
    return status == HSPZ_OK ? HSPZ_OK : hspz_conn_job_refuse_bytes(conn, status, err);
}

void
hspz_conn_job_set_deadline(struct hspz_conn_job *job, uint64_t deadline_ms)
{
    if (deadline_ms != 0 && deadline_ms < UINT64_MAX / 2000000) {
        job->deadline_ns = job->arrived_ns + deadline_ms * 1000000;
    }
}

void
hspz_conn_job_count(const struct hspz_conn_job *job, const struct hspz_used *used, uint64_t now_ns)
{
    struct hspz_conn *conn = job->conn;
    struct hspz_service *service = conn->service;
    const char *const method = hspz_method_name(job->method);
    struct hspz_usage *usage = job->ops->usage != NULL ? job->ops->usage(job) : NULL;
    hspz_outcomes_end(&service->stats.requests, used->status);
    hspz_outcomes_end(&service->stats.jobs, used->status);
    hspz_usage_add(&conn->tenant->usage, used);
    if (usage != NULL) {
        hspz_usage_add(usage, used);
    }
    if (job->worker != NULL) {
        hspz_usage_add(&service->devices[job->first_device].usage, used);
    }
    hspz_access_log_request(conn, job->id,
                            (struct hspz_text){.bytes = method, .len = strlen(method)},
                            used->status, job->arrived_ns);
    hspz_pace_tick(&service->pace, now_ns);
    hspz_pace_tick(&conn->tenant->pace, now_ns);
    hspz_pace_tick(&conn->pace, now_ns);
}

void
hspz_conn_job_cancel(struct hspz_conn_job *job, enum hspz_status status)
{
    if (job->working) {
        int none = HSPZ_OK;
        atomic_compare_exchange_strong(&job->stop, &none, (int)status);
    } else {
        job->ops->end(job, status);
    }
}

void
hspz_conn_job_fail(const struct hspz_conn_job *job, enum hspz_status status, struct hspz_error *err)
{
    if (status == HSPZ_E_CANCELLED) {
        hspz_error_set(err, status, "job %u was cancelled", job->id);
    } else if (status == HSPZ_E_DEADLINE_EXCEEDED) {
        hspz_error_set(err, status, "job %u passed its deadline", job->id);
    } else if (status == HSPZ_E_DEVICE_ERROR) {
        hspz_error_set(err, status, "the device of job %u was lost", job->id);
    } else {
        hspz_error_set(err, status, "%s", hspz_status_text(status));
    }
}

bool
hspz_conn_job_must_stop(const struct hspz_conn_job *job, struct hspz_error *err)
{
    const int stop = atomic_load(&job->stop);
    if (stop != HSPZ_OK) {
        hspz_conn_job_fail(job, (enum hspz_status)stop, err);
        return true;
    }
    if (job->deadline_ns != 0 && uv_hrtime() >= job->deadline_ns) {
        hspz_conn_job_fail(job, HSPZ_E_DEADLINE_EXCEEDED, err);
        return true;
    }
    return false;
}

bool
hspz_conn_job_turn_over(const struct hspz_worker *worker, uint64_t start_ns)
{
    const uint64_t ns = uv_hrtime() - start_ns;
    return ns >= HSPZ_TURN_NS_ALONE || hspz_worker_urgent(worker) ||
           (ns >= HSPZ_TURN_NS && hspz_worker_wanted(worker));
}

static void
submit(struct hspz_conn_job *job, void (*run)(struct hspz_task *, struct hspz_worker *),
       void (*fire)(struct hspz_event *), struct hspz_worker *worker, const struct hspz_task *how)
{
    HSPZ_REQUIRE(!job->working);
    job->working = true;
    job->task = *how;
    job->task.run = run;
    job->task.event.fire = fire;
    hspz_worker_submit(worker, &job->task);
}

void
hspz_conn_job_submit(struct hspz_conn_job *job,
                     void (*run)(struct hspz_task *, struct hspz_worker *),
                     void (*fire)(struct hspz_event *), struct hspz_worker *worker, double order)
{
    submit(job, run, fire, worker, &(struct hspz_task){.order = order, .kind = HSPZ_TASK_MOVES});
}

void
hspz_conn_job_submit_turn(struct hspz_conn_job *job,
                          void (*run)(struct hspz_task *, struct hspz_worker *),
                          void (*fire)(struct hspz_event *), const struct hspz_turn *turn)
{
    const bool anywhere = job->conn->service->ops->filter_device == NULL;
    job->turn = *turn;
    hspz_worker_turn_begin(job->worker);
    submit(job, run, fire, job->worker,
           &(struct hspz_task){.order = turn->order,
                               .give_up = job->ops->give_up,
                               .kind = job->ops->give_up != NULL ? HSPZ_TASK_SKIPS
                                       : anywhere                ? HSPZ_TASK_MOVES
                                                                 : HSPZ_TASK_WAITS});
}

void
hspz_conn_job_end_turn(struct hspz_conn_job *job, const struct hspz_turned *turned)
{
    struct hspz_service *service = job->conn->service;
    struct hspz_usage *usage = job->ops->usage != NULL ? job->ops->usage(job) : NULL;
    job->working = false;
    hspz_scheduler_done(&service->scheduler, &job->turn, turned->ns);
    hspz_worker_turn_end(job->worker, turned->ns);
    job->conn->tenant->usage.device_ns += turned->ns;
    hspz_device_turned(&service->devices[hspz_worker_device(job->worker)], turned);
    if (usage != NULL) {
        usage->device_ns += turned->ns;
    }
}

bool
hspz_conn_job_choose_worker(struct hspz_conn_job *job, unsigned device, const bool *among)
{
    struct hspz_service *service = job->conn->service;
    struct hspz_worker *next = hspz_device_choose(service, job->worker, device, among);
    if (next == NULL) {
        return false;
    }
    if (job->worker == NULL) {
        job->first_device = hspz_worker_device(next);
        service->devices[job->first_device].usage.jobs.received++;
    } else {
        hspz_worker_leave(job->worker);
    }
    hspz_worker_join(next);
    job->worker = next;
    return true;
}

enum hspz_status
hspz_conn_job_take_parts(struct hspz_conn_job *job, unsigned parts, struct hspz_buffer **out)
{
    struct hspz_conn *conn = job->conn;
    const uint64_t most = conn->service->config->parts_per_connection;
    enum hspz_status status = HSPZ_OK;
    struct hspz_buffer **last = out;
    for (unsigned i = 0; i < parts && conn->parts_held < most && status == HSPZ_OK; i++) {
        struct hspz_buffer *buffer = NULL;
        status = hspz_conn_take_part(conn, job->shm, &buffer);
        if (status == HSPZ_OK) {
            conn->parts_held++;
            *last = buffer;
            last = &buffer->next;
        }
    }
    return status == HSPZ_E_OUT_OF_MEMORY && conn->parts_held == 0 ? status : HSPZ_OK;
}

void
hspz_conn_job_give_parts(struct hspz_conn_job *job, struct hspz_buffer **parts)
{
    while (*parts != NULL) {
        struct hspz_buffer *buffer = *parts;
        *parts = buffer->next;
        job->conn->parts_held--;
        hspz_conn_return_part(job->conn, buffer);
    }
}

void
hspz_conn_job_wake(struct hspz_service *service)
{
    for (struct hspz_conn *conn = service->conns; conn != NULL; conn = conn->next) {
        if (conn->jobs != NULL && conn->jobs->lacking) {
            conn->jobs->lacking = false;
            hspz_conn_update(conn);
        }
    }
}
