/* What the daemon does once a second, and at deadlines. */
#include "daemon/conn.h"
#include "daemon/daemon_p.h"
#include "daemon/drain.h"
#include "daemon/notify.h"

#include <stdio.h>
#include <unistd.h>

/* Progress notices to the service manager, and what each buys. */
#define EXTEND_EVERY_TICKS 2u
#define EXTEND_USEC UINT64_C(30000000)
#define DRAIN_LOG_TICKS 5u
/* After a device is lost: for jobs on others to finish, and then for what hangs. */
#define LOST_MS 2500u
#define ABANDON_MS 3500u

static void
on_deadline(uv_timer_t *timer)
{
    struct hspz_daemon *d = hspz_handle_owner((uv_handle_t *)timer);
    const uint64_t now = uv_hrtime();
    uint64_t first = UINT64_MAX;
    d->deadline_ns = UINT64_MAX;
    for (struct hspz_conn *c = d->service.conns, *next; c != NULL; c = next) {
        next = c->next;
        const uint64_t its = hspz_conn_deadlines(c, now);
        first = its < first ? its : first;
    }
    if (first != UINT64_MAX) {
        hspz_daemon_due(&d->service, first);
    }
    hspz_scheduler_pump(&d->service.scheduler);
}

void
hspz_daemon_due(struct hspz_service *service, uint64_t deadline_ns)
{
    struct hspz_daemon *d = hspz_daemon_of(service);
    const uint64_t now = uv_hrtime();
    if (deadline_ns >= d->deadline_ns || d->finished) {
        return;
    }
    d->deadline_ns = deadline_ns;
    const uint64_t ms = deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;
    const int result = uv_timer_start(&d->deadline, on_deadline, ms, 0);
    if (result != 0) {
        /* The tick looks, too. */
        HSPZ_LOG(service->log, HSPZ_LOG_WARNING, "deadlines are late",
                 hspz_kv("why", uv_err_name(result)));
    }
}

static void
abandon(struct hspz_daemon *d)
{
    HSPZ_LOG(d->service.log, HSPZ_LOG_ERROR, "work does not come back, ending without it");
    d->abandoned = true;
    uv_stop(&d->loop);
}

/* A device that hangs must not keep the process. */
static void
tick_lost(struct hspz_daemon *d)
{
    const uint64_t ms = uv_now(&d->loop) - d->lost_ms;
    if (ms >= LOST_MS) {
        hspz_daemon_stop(d);
    }
    if (ms >= ABANDON_MS && !d->finished) {
        abandon(d);
    }
}

static void
tick_loading(struct hspz_daemon *d)
{
    const uint64_t progress = hspz_catalog_progress(d->service.catalog);
    if (d->ticks % EXTEND_EVERY_TICKS != 0 || progress == d->told_progress) {
        return;
    }
    char status[64];
    d->told_progress = progress;
    snprintf(status, sizeof(status), "loading indexes, %.0f percent",
             hspz_catalog_percent(d->service.catalog));
    hspz_notify_extend(status, EXTEND_USEC);
}

static void
tick_draining(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    const uint64_t timeout = s->config->drain_timeout_ms;
    if (timeout != 0 && uv_now(&d->loop) - d->drain_ms >= timeout) {
        HSPZ_LOG(s->log, HSPZ_LOG_WARNING, "the time to drain is over, stopping",
                 hspz_kv_uint("jobs", s->job_count));
        hspz_daemon_stop(d);
        return;
    }
    for (struct hspz_conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        hspz_drain_tell(c, uv_now(&d->loop), false);
    }
    if (d->ticks % EXTEND_EVERY_TICKS == 0 && s->stats.bytes_out != d->told_progress) {
        d->told_progress = s->stats.bytes_out;
        hspz_notify_extend("finishing jobs", EXTEND_USEC);
    }
    if (d->ticks % DRAIN_LOG_TICKS == 0) {
        HSPZ_LOG(s->log, HSPZ_LOG_INFO, "draining", hspz_kv_uint("jobs", s->job_count),
                 hspz_kv_uint("connections", s->conn_count), hspz_kv_uint("parts", s->stats.parts));
    }
}

/* Whether every lane that has work got on with it lately. */
static bool
workers_answer(struct hspz_daemon *d, uint64_t limit_ns)
{
    const struct hspz_service *s = &d->service;
    const uint64_t now = uv_hrtime();
    for (unsigned i = 0; i < s->worker_count; i++) {
        if (hspz_worker_turns(s->workers[i]) > 0 &&
            now - hspz_worker_moved_ns(s->workers[i]) > limit_ns) {
            return false;
        }
    }
    return hspz_lane_watch_answers(d->lane_watch, now, limit_ns);
}

/* The watchdog is fed by a loop whose workers answer; otherwise the manager starts us anew. */
static void
tick_watchdog(struct hspz_daemon *d)
{
    if (d->watchdog_usec == 0) {
        return;
    }
    const bool answer = workers_answer(d, d->watchdog_usec * 1000 / 2);
    if (!answer && !d->hanging) {
        HSPZ_LOG(d->service.log, HSPZ_LOG_ERROR, "a lane does not answer, the watchdog is not fed");
    }
    d->hanging = !answer;
    if (answer && (d->watchdog_usec <= 4000000 || d->ticks % 2 == 0)) {
        hspz_notify_alive();
    }
}

static void
tick_idle(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    const uint64_t limit_ms = s->config->idle_exit_s * 1000, now = uv_now(&d->loop);
    /* Somebody may have come and gone since the last tick. */
    const bool came = s->stats.connections_accepted != d->seen_accepted;
    d->seen_accepted = s->stats.connections_accepted;
    if (d->busy_ms == 0 || came || s->state != HSPZ_SERVICE_READY || s->conn_count > 0 ||
        hspz_catalog_loading(s->catalog) > 0) {
        d->busy_ms = now;
    } else if (limit_ms != 0 && now - d->busy_ms >= limit_ms) {
        hspz_daemon_drain(d, "nobody was here for idle_exit_s");
    }
}

/* Once the parent is gone nothing is waited for. PR_SET_PDEATHSIG would be sooner, but tells the
 * end of the thread that started us, which a program with a pool of threads goes on without. */
static void
tick_parent(struct hspz_daemon *d)
{
    const struct hspz_config *config = d->service.config;
    if (config->die_with_parent && getppid() != config->parent &&
        d->service.state != HSPZ_SERVICE_STOPPING) {
        HSPZ_LOG(d->service.log, HSPZ_LOG_WARNING, "the parent process has ended, stopping",
                 hspz_kv_uint("jobs", d->service.job_count));
        hspz_daemon_stop(d);
    }
}

/* Whether a step takes longer than any does that comes back. */
static bool
step_hangs(const struct hspz_service *s)
{
    const uint64_t now = uv_hrtime(), limit_ns = s->config->device_timeout_ms * 1000000;
    for (unsigned i = 0; i < s->worker_count && limit_ns != 0; i++) {
        if (hspz_worker_step_ns(s->workers[i], now) > limit_ns) {
            return true;
        }
    }
    return false;
}

void
hspz_daemon_on_tick(uv_timer_t *timer)
{
    struct hspz_daemon *d = hspz_handle_owner((uv_handle_t *)timer);
    struct hspz_service *s = &d->service;
    const uint64_t now = uv_now(&d->loop);
    d->ticks++;
    for (struct hspz_conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        hspz_conn_tick(c, now);
    }
    if (d->deadline_ns <= uv_hrtime()) {
        on_deadline(&d->deadline);
    }
    hspz_scheduler_pump(&s->scheduler);
    hspz_listeners_tick(d->listeners);
    if (s->state == HSPZ_SERVICE_READY) {
        if (d->reload_owed) {
            hspz_daemon_reload(d);
        }
        hspz_catalog_tick(s->catalog);
    }
    if (s->state == HSPZ_SERVICE_LOADING) {
        tick_loading(d);
    } else if (s->state == HSPZ_SERVICE_DRAINING) {
        tick_draining(d);
    }
    hspz_lane_watch_tick(d->lane_watch, uv_hrtime());
    hspz_device_tick(s, uv_hrtime());
    tick_watchdog(d);
    tick_idle(d);
    tick_parent(d);
    hspz_daemon_look(d);
    if (d->finished) {
        return; /* workers and handles are gone */
    }
    if (d->lost_ms != 0) {
        tick_lost(d);
    } else if (s->state == HSPZ_SERVICE_STOPPING &&
               ((s->strays > 0 && d->stray_ticks++ > 0) || step_hangs(s))) {
        abandon(d);
    }
}
