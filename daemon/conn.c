#include "daemon/conn_p.h"

#include "daemon/access.h"
#include "daemon/access_log.h"
#include "daemon/conn_shm.h"
#include "daemon/dispatch.h"
#include "daemon/job.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A peer that was answered for the last time has so long to hang up. */
#define LAST_MS 5000u
/* A begun message that moves by so much in a window is not stuck. */
#define WINDOW_BYTES 65536u
#define KEEPALIVE_SECONDS 60u
#define KEEPALIVE_INTERVAL_SECONDS 10
#define KEEPALIVE_PROBES 6
/* Where connections are at their limit, one that was not identified has so long for it. */
#define STRANGER_MS 1000u

static void
maybe_free(struct hspz_conn *conn)
{
    if (conn->state != HSPZ_CONN_CLOSING || conn->handles.open > 0 || conn->jobs != NULL ||
        conn->strays > 0) {
        return;
    }
    HSPZ_REQUIRE(conn->parts_held == 0 && conn->waits == NULL);
    struct hspz_service *service = conn->service;
    hspz_tls_close(&conn->tls.tls);
    hspz_conn_shm_close(conn);
    hspz_conn_move(&conn->state, HSPZ_CONN_CLOSED);
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        service->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    service->conn_count--;
    hspz_tenant_release(&service->tenants, &conn->tenant);
    free(conn);
    service->changed(service);
}

static void
on_all_closed(void *owner)
{
    hspz_conn_drop_sends(owner);
    maybe_free(owner);
}

void
hspz_conn_refund(struct hspz_conn *conn, uint64_t bytes)
{
    HSPZ_REQUIRE(conn->ingest_bytes >= bytes && conn->service->ingest_bytes >= bytes);
    if (bytes > 0) {
        conn->ingest_bytes -= bytes;
        conn->tenant->ingest_bytes -= bytes;
        conn->service->ingest_bytes -= bytes;
    }
}

void
hspz_conn_stop_serving(struct hspz_conn *conn)
{
    hspz_scheduler_remove(&conn->service->scheduler, &conn->source);
    hspz_shakes_remove(&conn->tls.shaker);
    if (conn->splitter != NULL) {
        hspz_conn_refund(conn, hspz_stream_admitted(conn->splitter));
        hspz_stream_destroy(&conn->splitter);
    }
    free(conn->stash);
    conn->stash = NULL;
    hspz_dispatch_forget(conn);
    hspz_conn_shm_reclaim(conn);
    for (struct hspz_conn_job *job = conn->jobs, *next; job != NULL; job = next) {
        next = job->next;
        hspz_conn_job_cancel(job, HSPZ_E_CANCELLED);
    }
}

void
hspz_conn_close(struct hspz_conn *conn, const char *why)
{
    if (conn->state == HSPZ_CONN_CLOSING || conn->state == HSPZ_CONN_CLOSED) {
        return;
    }
    hspz_access_log_close(conn, why);
    hspz_conn_move(&conn->state, HSPZ_CONN_CLOSING);
    hspz_handle_close(&conn->io.handle);
    hspz_conn_stop_serving(conn);
}

void
hspz_conn_end(struct hspz_conn *conn, const struct hspz_error *err)
{
    conn->in_input = true; /* no more requests meanwhile */
    const struct hspz_conn_job *job = conn->jobs;
    while (job != NULL && hspz_conn_state_serves(conn->state)) {
        hspz_conn_reply_error(conn, job->id, err);
        /* An answer that cannot be sent closes the connection, and its jobs may be gone. */
        job = hspz_conn_state_serves(conn->state) ? job->next : NULL;
    }
    if (hspz_conn_state_serves(conn->state)) {
        hspz_dispatch_refuse(conn, err);
    }
    hspz_conn_close(conn, err->text);
}

void
hspz_conn_cancel_jobs(struct hspz_conn *conn, enum hspz_status status, unsigned device)
{
    if (!hspz_conn_state_serves(conn->state)) {
        return;
    }
    conn->in_input = true; /* the end of one job must not let input end the next */
    /* An answer that cannot be sent ends the connection, and all jobs with it. */
    for (struct hspz_conn_job *job = conn->jobs, *next;
         job != NULL && hspz_conn_state_serves(conn->state); job = next) {
        next = job->next;
        if (device == HSPZ_ANY_DEVICE || job->worker == NULL ||
            hspz_worker_device(job->worker) == device) {
            hspz_conn_job_cancel(job, status);
        }
    }
    conn->in_input = false;
    hspz_conn_gate(conn);
}

void
hspz_conn_add_job(struct hspz_conn *conn, struct hspz_conn_job *job)
{
    job->next = NULL;
    *conn->jobs_last = job;
    conn->jobs_last = &job->next;
    conn->job_count++;
    conn->tenant->jobs++;
    conn->service->job_count++;
    if (job->deadline_ns != 0) {
        conn->service->due(conn->service, job->deadline_ns);
    }
    hspz_conn_update(conn);
}

void
hspz_conn_remove_job(struct hspz_conn *conn, struct hspz_conn_job *job)
{
    struct hspz_conn_job **link = &conn->jobs;
    while (*link != job) {
        link = &(*link)->next;
    }
    *link = job->next;
    if (conn->jobs_last == &job->next) {
        conn->jobs_last = link;
    }
    conn->job_count--;
    conn->tenant->jobs--;
    conn->service->job_count--;
}

void
hspz_conn_replace_job(struct hspz_conn *conn, struct hspz_conn_job *job, struct hspz_conn_job *by)
{
    struct hspz_conn_job **link = &conn->jobs;
    while (*link != job) {
        link = &(*link)->next;
    }
    *link = by;
    by->next = job->next;
    if (conn->jobs_last == &job->next) {
        conn->jobs_last = &by->next;
    }
}

void
hspz_conn_settle(struct hspz_conn *conn)
{
    if (conn->state == HSPZ_CONN_CLOSING) {
        maybe_free(conn);
        return;
    }
    hspz_conn_update(conn);
    hspz_conn_gate(conn);
}

/* Puts the connection in line if its head can use a turn; true: it could, had the client not all
 * parts of its ring. */
static bool
stand_in_line(struct hspz_conn *conn)
{
    struct hspz_conn_job *head = conn->jobs;
    if (head == NULL || !hspz_conn_state_serves(conn->state)) {
        return false;
    }
    if (!head->held) {
        head->held = true;
        head->ops->lead(head);
        head = conn->jobs;
        if (head == NULL || !hspz_conn_state_serves(conn->state)) {
            return false; /* it failed, and so did telling somebody here */
        }
    }
    const bool credit = conn->parts_held < conn->service->config->parts_per_connection;
    if (head->ops->ready(head, credit)) {
        hspz_scheduler_push(&conn->service->scheduler, &conn->source, &conn->tenant->share,
                            head->priority);
        return false;
    }
    return !credit && head->shm && !head->working;
}

void
hspz_conn_update(struct hspz_conn *conn)
{
    hspz_conn_shm_wait(conn, stand_in_line(conn));
}

bool
hspz_conn_idle(const struct hspz_conn *conn)
{
    return conn->jobs == NULL && conn->waits == NULL && conn->parts_held == 0 &&
           hspz_conn_unsent(conn) == 0;
}

/* Whether `bytes` more fit into a budget of which `held` are in use; a reload may have lowered it.
 */
static enum hspz_status
check_budget(uint64_t bytes, uint64_t held, uint64_t budget)
{
    return bytes > budget          ? HSPZ_E_TOO_LARGE
           : held > budget - bytes ? HSPZ_E_QUOTA_EXCEEDED
                                   : HSPZ_OK;
}

enum hspz_status
hspz_conn_charge(struct hspz_conn *conn, uint64_t bytes)
{
    struct hspz_service *service = conn->service;
    struct hspz_tenant *tenant = conn->tenant;
    const uint64_t total = service->config->ingest_total;
    enum hspz_status status =
        bytes > hspz_tenants_most(&service->tenants, total) ? HSPZ_E_TOO_LARGE
        : hspz_tenant_has_room(&service->tenants, tenant, HSPZ_HELD_INGEST, bytes, total)
            ? HSPZ_OK
            : HSPZ_E_QUOTA_EXCEEDED;
    if (status == HSPZ_OK && tenant->settings.max_queued_bytes != 0) {
        status = check_budget(bytes, tenant->ingest_bytes, tenant->settings.max_queued_bytes);
    }
    if (status == HSPZ_OK) {
        conn->ingest_bytes += bytes;
        tenant->ingest_bytes += bytes;
        service->ingest_bytes += bytes;
    }
    return status;
}

static enum hspz_status
admit(void *user, uint64_t bytes)
{
    struct hspz_conn *conn = user;
    if (conn->tenant == NULL) {
        return HSPZ_E_TOO_LARGE;
    }
    const enum hspz_status status =
        check_budget(bytes, conn->ingest_bytes, conn->service->config->ingest_per_connection);
    return status == HSPZ_OK ? hspz_conn_charge(conn, bytes) : status;
}

static bool
tick_write(struct hspz_conn *conn, uint64_t now_ms)
{
    const uint64_t queued = hspz_conn_unsent(conn);
    const uint64_t written = conn->submitted_bytes - queued;
    if (queued == 0 || written != conn->progress_bytes) {
        conn->progress_bytes = written;
        conn->progress_ms = now_ms;
        return false;
    }
    return now_ms - conn->progress_ms >= conn->service->config->write_timeout_ms;
}

static bool
tick_read(struct hspz_conn *conn, uint64_t now_ms)
{
    if (conn->window_ms == 0 || !hspz_conn_state_serves(conn->state)) {
        return false;
    }
    if (conn->reading && now_ms - conn->window_ms < conn->service->config->frame_timeout_ms) {
        return false;
    }
    const bool stuck = conn->reading && conn->window_bytes < WINDOW_BYTES;
    conn->window_ms = now_ms;
    conn->window_bytes = 0;
    return stuck;
}

static bool
tick_idle(struct hspz_conn *conn, uint64_t now_ms)
{
    const uint64_t limit = conn->service->config->idle_timeout_ms;
    if (conn->state != HSPZ_CONN_OPEN || !hspz_conn_idle(conn) || conn->window_ms != 0) {
        conn->active_ms = now_ms;
        return false;
    }
    return limit != 0 && now_ms - conn->active_ms >= limit;
}

void
hspz_conn_tick(struct hspz_conn *conn, uint64_t now_ms)
{
    if (!hspz_conn_state_reads(conn->state)) {
        return;
    }
    const struct hspz_config *config = conn->service->config;
    const char *why = NULL;
    if (tick_write(conn, now_ms)) {
        why = "the peer does not read";
    } else if (hspz_conn_shm_stuck(conn, now_ms)) {
        why = "the peer gives no part back";
    } else if (tick_read(conn, now_ms)) {
        why = "a message did not arrive in time";
    } else if (conn->state == HSPZ_CONN_GREET &&
               now_ms - conn->opened_ms >= config->hello_timeout_ms) {
        why = "no hello in time";
    } else if (tick_idle(conn, now_ms)) {
        why = "nothing was asked for";
    } else if (conn->state == HSPZ_CONN_LAST && now_ms - conn->last_ms >= LAST_MS) {
        hspz_conn_close(conn, "answered for the last time");
        return;
    }
    if (why != NULL) {
        conn->service->stats.timeouts++;
        HSPZ_LOG(conn->service->log, HSPZ_LOG_INFO, "connection timed out",
                 hspz_kv_uint("conn", conn->id), hspz_kv("why", why));
        hspz_conn_close(conn, why);
        return;
    }
}

uint64_t
hspz_conn_deadlines(struct hspz_conn *conn, uint64_t now_ns)
{
    uint64_t first = UINT64_MAX;
    conn->in_input = true; /* the end of one job must not let input end the next */
    for (struct hspz_conn_job *job = conn->jobs, *next;
         job != NULL && hspz_conn_state_serves(conn->state); job = next) {
        next = job->next;
        if (job->deadline_ns != 0 && now_ns >= job->deadline_ns) {
            hspz_conn_job_cancel(job, HSPZ_E_DEADLINE_EXCEEDED);
        } else if (job->deadline_ns != 0 && job->deadline_ns < first) {
            first = job->deadline_ns;
        }
    }
    conn->in_input = false;
    hspz_conn_gate(conn);
    return first;
}

static enum hspz_status
create(struct hspz_service *service, bool tcp, struct hspz_conn **out, struct hspz_error *err)
{
    struct hspz_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a connection");
    }
    conn->service = service;
    conn->tcp = tcp;
    conn->jobs_last = &conn->jobs;
    conn->tls.waiting_last = &conn->tls.waiting;
    hspz_handles_init(&conn->handles, conn, on_all_closed);
    enum hspz_status status =
        hspz_stream_create(service->config->max_message, admit, conn, &conn->splitter);
    if (status == HSPZ_OK && tcp && service->tls != NULL) {
        status = hspz_tls_open(service->tls, &conn->tls.tls);
    }
    if (status != HSPZ_OK) {
        hspz_stream_destroy(&conn->splitter);
        free(conn);
        return hspz_error_set(err, status, "no memory for a connection");
    }
    const int result = tcp ? uv_tcp_init(service->loop, &conn->io.tcp)
                           : uv_pipe_init(service->loop, &conn->io.pipe, 0);
    if (result != 0) {
        hspz_tls_close(&conn->tls.tls);
        hspz_stream_destroy(&conn->splitter);
        free(conn);
        return hspz_uv_error(err, result, "a connection's handle");
    }
    hspz_handles_add(&conn->handles, &conn->io.handle);
    conn->id = ++service->conn_next_id;
    conn->opened_ms = conn->progress_ms = uv_now(service->loop);
    conn->next = service->conns;
    if (conn->next != NULL) {
        conn->next->prev = conn;
    }
    service->conns = conn;
    service->conn_count++;
    *out = conn;
    return HSPZ_OK;
}

/* Somebody who did not say who it is must not keep others out: of those that had their second for
 * it, the oldest goes. Its descriptor is free at once. */
static bool
make_room(struct hspz_service *service)
{
    const uint64_t now = uv_now(service->loop);
    struct hspz_conn *oldest = NULL;
    for (struct hspz_conn *c = service->conns; c != NULL; c = c->next) {
        if (c->tenant == NULL && hspz_conn_state_reads(c->state) &&
            now - c->opened_ms >= STRANGER_MS &&
            (oldest == NULL || c->opened_ms <= oldest->opened_ms)) {
            oldest = c;
        }
    }
    if (oldest != NULL) {
        service->stats.timeouts++;
        hspz_conn_close(oldest, "no hello, and others wait");
    }
    return oldest != NULL;
}

/* A peer that is gone without a word is noticed after two minutes. */
static int
keep_alive(struct hspz_conn *conn)
{
    const int interval = KEEPALIVE_INTERVAL_SECONDS, count = KEEPALIVE_PROBES;
    uv_os_fd_t fd;
    int result = uv_tcp_keepalive(&conn->io.tcp, 1, KEEPALIVE_SECONDS);
    result = result == 0 ? uv_fileno(&conn->io.handle, &fd) : result;
    if (result == 0 &&
        (setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval)) != 0 ||
         setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count)) != 0)) {
        result = -errno;
    }
    return result;
}

enum hspz_status
hspz_conn_accept(struct hspz_service *service, uv_stream_t *server, bool tcp,
                 struct hspz_error *err)
{
    struct hspz_conn *conn = NULL;
    const bool full = service->conn_count >= service->conn_limit && !make_room(service);
    if (create(service, tcp, &conn, err) != HSPZ_OK) {
        /* Whatever the reason: libuv takes no other before this one is taken from it. */
        return HSPZ_E_OUT_OF_MEMORY;
    }
    int result = uv_accept(server, &conn->io.stream);
    if (result == 0 && full) {
        service->stats.connections_refused++;
        hspz_conn_close(conn, "too many connections");
        return hspz_error_set(err, HSPZ_E_QUEUE_FULL, "%" PRIu64 " connections are open",
                              service->conn_limit);
    }
    if (result == 0 && tcp) {
        result = uv_tcp_nodelay(&conn->io.tcp, 1);
        result = result == 0 ? keep_alive(conn) : result;
    }
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
        hspz_uv_error(err, result, "accept");
        return HSPZ_E_IO;
    }
    hspz_access_log_accept(conn);
    struct hspz_error why;
    if (hspz_access_accept(conn, &why) != HSPZ_OK) {
        service->stats.connections_refused++;
        hspz_conn_reply_last(conn, 0, &why);
        return HSPZ_OK;
    }
    service->stats.connections_accepted++;
    hspz_conn_gate(conn);
    return HSPZ_OK;
}
