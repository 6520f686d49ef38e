#include "daemon/daemon_p.h"

#include "daemon/conn.h"
#include "daemon/drain.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "daemon/shm_pool.h"
#include "daemon/tls_choice.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK_MS 1000u

static const int signal_numbers[] = {SIGTERM, SIGINT, SIGHUP};
#define SIGNALS (sizeof(signal_numbers) / sizeof(signal_numbers[0]))

struct hspz_daemon *
hspz_daemon_of(struct hspz_service *service)
{
    return (struct hspz_daemon *)(void *)((char *)service - offsetof(struct hspz_daemon, service));
}

static void
on_all_closed(void *owner)
{
    (void)owner;
}

/* The workers and handles go once nobody is left to use them. */
static void
finish_if_done(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    if (d->finished || s->state != HSPZ_SERVICE_STOPPING || s->conn_count > 0 || s->strays > 0 ||
        !hspz_catalog_idle(s->catalog) || !hspz_filters_idle(s->filters)) {
        return;
    }
    if (d->lost_ms != 0 && !hspz_lane_watch_answers(d->lane_watch, uv_hrtime(), 0)) {
        return; /* its worker may never end */
    }
    d->finished = true;
    for (unsigned i = 0; i < s->worker_count; i++) {
        hspz_worker_stop(&s->workers[i]);
    }
    hspz_http_stop(d->http);
    hspz_mailbox_drain(&s->mailbox);
    hspz_mailbox_close(&s->mailbox);
    hspz_shakes_close(&s->shakes);
    hspz_handle_close((uv_handle_t *)&d->tick);
    hspz_handle_close((uv_handle_t *)&d->deadline);
    hspz_handle_close((uv_handle_t *)&d->look);
    for (size_t i = 0; i < SIGNALS; i++) {
        hspz_handle_close((uv_handle_t *)&d->signals[i]);
        /* Nothing but the exit is left, and one more signal must not change its status. */
        (void)signal(signal_numbers[i], SIG_IGN);
    }
}

void
hspz_daemon_stop(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    if (s->state == HSPZ_SERVICE_STOPPING) {
        return;
    }
    s->state = HSPZ_SERVICE_STOPPING;
    hspz_listeners_stop(d->listeners);
    hspz_address_file_remove(&d->address_file);
    hspz_catalog_stop(s->catalog);
    struct hspz_error why = {0};
    if (d->lost_ms != 0) {
        hspz_error_set(&why, HSPZ_E_DEVICE_ERROR, "a device was lost in the midst of this");
    } else {
        hspz_error_set(&why, HSPZ_E_SHUTTING_DOWN, "the server ended in the midst of this");
    }
    for (struct hspz_conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        hspz_conn_end(c, &why);
    }
    hspz_catalog_clear(s->catalog);
    hspz_filters_clear(s->filters);
    finish_if_done(d);
}

static bool
is_drained(const struct hspz_daemon *d)
{
    for (const struct hspz_conn *c = d->service.conns; c != NULL; c = c->next) {
        if (!hspz_conn_idle(c) || hspz_drain_expected(c, uv_now(&d->loop))) {
            return false;
        }
    }
    return hspz_catalog_loading(d->service.catalog) == 0;
}

static void
tell_drained(struct hspz_service *s)
{
    for (struct hspz_conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        hspz_drain_tell(c, 0, true);
    }
}

void
hspz_daemon_look(struct hspz_daemon *d)
{
    const enum hspz_service_state state = d->service.state;
    if ((state == HSPZ_SERVICE_DRAINING || state == HSPZ_SERVICE_FAILED) && is_drained(d)) {
        HSPZ_LOG(d->service.log, HSPZ_LOG_INFO, "drained");
        tell_drained(&d->service);
        hspz_daemon_stop(d);
    }
    finish_if_done(d);
}

static void
on_look(uv_async_t *async)
{
    hspz_daemon_look(hspz_handle_owner((uv_handle_t *)async));
}

/* From within whatever ended: looked at from the loop, where nobody's pointers are in use. */
static void
on_changed(struct hspz_service *service)
{
    struct hspz_daemon *d = hspz_daemon_of(service);
    if (service->state >= HSPZ_SERVICE_DRAINING && !d->finished) {
        HSPZ_REQUIRE(uv_async_send(&d->look) == 0);
    }
}

static void
on_lost(struct hspz_service *s, unsigned device, const struct hspz_error *why)
{
    struct hspz_daemon *d = hspz_daemon_of(s);
    if (hspz_device_lose(s, device, why)) {
        return;
    }
    if (d->lost_ms == 0) {
        d->lost_ms = uv_now(&d->loop);
        d->status = HSPZ_E_DEVICE_ERROR;
        HSPZ_LOG(s->log, HSPZ_LOG_ERROR, "device lost, ending", hspz_kv("why", why->text));
        hspz_notify_stopping("a device was lost");
    }
    if (s->state < HSPZ_SERVICE_FAILED) {
        s->state = HSPZ_SERVICE_FAILED;
        hspz_catalog_stop(s->catalog);
    }
    for (struct hspz_conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        hspz_conn_cancel_jobs(c, HSPZ_E_DEVICE_ERROR, device);
    }
    on_changed(s);
}

void
hspz_daemon_drain(struct hspz_daemon *d, const char *why)
{
    struct hspz_service *s = &d->service;
    s->state = HSPZ_SERVICE_DRAINING;
    d->drain_ms = uv_now(&d->loop);
    d->ticks = 0;
    HSPZ_LOG(s->log, HSPZ_LOG_INFO, "draining", hspz_kv_uint("jobs", s->job_count),
             hspz_kv_uint("connections", s->conn_count), hspz_kv("why", why));
    hspz_notify_stopping("finishing jobs");
    hspz_listeners_stop(d->listeners);
    hspz_address_file_remove(&d->address_file);
    hspz_catalog_stop(s->catalog);
    on_changed(s);
}

static void
on_drain(struct hspz_service *service, const char *why)
{
    hspz_daemon_drain(hspz_daemon_of(service), why);
}

void
hspz_daemon_reload(struct hspz_daemon *d)
{
    d->reload_owed = false;
    hspz_notify_status("reloading");
    hspz_reload(&d->service, d->config);
    hspz_notify_status("ready");
}

static void
on_signal(uv_signal_t *handle, int number)
{
    struct hspz_daemon *d = hspz_handle_owner((uv_handle_t *)handle);
    if (number == SIGHUP) {
        if (d->service.state == HSPZ_SERVICE_READY) {
            hspz_daemon_reload(d);
        } else if (d->service.state == HSPZ_SERVICE_LOADING) {
            d->reload_owed = true;
            HSPZ_LOG(d->service.log, HSPZ_LOG_INFO, "will be reloaded when ready");
        } else {
            HSPZ_LOG(d->service.log, HSPZ_LOG_WARNING, "ending, not reloaded");
        }
        return;
    }
    HSPZ_LOG(d->service.log, HSPZ_LOG_INFO, "signal",
             hspz_kv("name", number == SIGTERM ? "SIGTERM" : "SIGINT"));
    d->signals_seen++;
    if (d->service.state < HSPZ_SERVICE_DRAINING) {
        hspz_daemon_drain(d, "a signal");
    } else if (d->service.state > HSPZ_SERVICE_DRAINING || d->signals_seen > 1) {
        HSPZ_LOG(d->service.log, HSPZ_LOG_WARNING, "stopping at once",
                 hspz_kv_uint("jobs", d->service.job_count));
        hspz_daemon_stop(d);
    }
}

/* The handles that live as long as the daemon. Those that were made are in `handles`. */
static enum hspz_status
start_handles(struct hspz_daemon *d, struct hspz_error *err)
{
    enum hspz_status status = hspz_mailbox_init(&d->service.mailbox, &d->loop, &d->handles, err);
    if (status == HSPZ_OK) {
        status = hspz_shakes_init(&d->service.shakes, &d->loop, &d->handles, hspz_conn_shake, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    int result = uv_async_init(&d->loop, &d->look, on_look);
    if (result != 0) {
        return hspz_uv_error(err, result, "wake-up handle");
    }
    hspz_handles_add(&d->handles, (uv_handle_t *)&d->look);
    result = uv_timer_init(&d->loop, &d->tick);
    if (result != 0) {
        return hspz_uv_error(err, result, "timer");
    }
    hspz_handles_add(&d->handles, (uv_handle_t *)&d->tick);
    result = uv_timer_init(&d->loop, &d->deadline);
    if (result != 0) {
        return hspz_uv_error(err, result, "timer");
    }
    hspz_handles_add(&d->handles, (uv_handle_t *)&d->deadline);
    d->deadline_ns = UINT64_MAX;
    result = uv_timer_start(&d->tick, hspz_daemon_on_tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < SIGNALS && result == 0; i++) {
        result = uv_signal_init(&d->loop, &d->signals[i]);
        if (result == 0) {
            hspz_handles_add(&d->handles, (uv_handle_t *)&d->signals[i]);
            result = uv_signal_start(&d->signals[i], on_signal, signal_numbers[i]);
        }
    }
    return result == 0 ? HSPZ_OK : hspz_uv_error(err, result, "timer and signals");
}

/* Keeps the signals that end or reload until there are handlers for them: from the first address on
 * there is something to remove again. */
static void
hold_signals(sigset_t *was)
{
    sigset_t held;
    (void)sigemptyset(&held);
    for (size_t i = 0; i < SIGNALS; i++) {
        (void)sigaddset(&held, signal_numbers[i]);
    }
    HSPZ_REQUIRE(pthread_sigmask(SIG_BLOCK, &held, was) == 0);
}

static void
close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    hspz_handle_close(handle);
}

static void
log_leak(uv_handle_t *handle, void *user)
{
    struct hspz_log *log = user;
    HSPZ_LOG(log, HSPZ_LOG_ERROR, "a handle was left",
             hspz_kv("type", uv_handle_type_name(uv_handle_get_type(handle))));
}

static void
daemon_destroy(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    hspz_catalog_destroy(&s->catalog);
    hspz_filters_destroy(&s->filters);
    hspz_buffers_destroy(&s->buffers);
    hspz_shm_pool_destroy(&s->shm_pool);
    hspz_lane_watch_destroy(&d->lane_watch);
    free(s->workers);
    free(s->devices);
    if (s->engine != NULL) {
        s->ops->close(&s->engine);
    }
    hspz_listeners_destroy(&d->listeners);
    hspz_http_destroy(&d->http);
    hspz_tenants_fini(&s->tenants);
    hspz_tls_context_destroy(&s->tls);
    free(d->starts);
    free(d);
}

/* Runs the loop of a daemon whose handles, catalog and addresses are there. */
static enum hspz_status
run_loop(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    struct hspz_error err = {0};
    enum hspz_status status = hspz_daemon_start(d, &err);
    if (status != HSPZ_OK) {
        HSPZ_LOG(s->log, HSPZ_LOG_ERROR, "cannot start", hspz_kv("why", err.text));
        d->status = status;
        hspz_daemon_stop(d);
    }
    const int active = uv_run(&d->loop, UV_RUN_DEFAULT);
    if (d->abandoned) {
        return d->status;
    }
    hspz_mailbox_fini(&s->mailbox);
    if (active != 0) {
        d->status = HSPZ_E_INTERNAL;
    }
    return d->status;
}

enum hspz_status
hspz_daemon_run(struct hspz_config *config, struct hspz_log *log, bool *abandoned)
{
    struct hspz_error err = {0};
    *abandoned = false;
    struct hspz_daemon *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        HSPZ_LOG(log, HSPZ_LOG_ERROR, "cannot start", hspz_kv("why", "out of memory"));
        return HSPZ_E_OUT_OF_MEMORY;
    }
    struct hspz_service *s = &d->service;
    hspz_handles_init(&d->handles, d, on_all_closed);
    s->loop = &d->loop;
    s->config = config;
    d->config = config;
    s->log = log;
    s->started_ns = uv_hrtime();
    s->changed = on_changed;
    s->drain = on_drain;
    s->due = hspz_daemon_due;
    s->lost = on_lost;
    d->watchdog_usec = hspz_notify_watchdog_usec();
    sigset_t signals;
    hold_signals(&signals);
    enum hspz_status status =
        hspz_tenants_apply(&s->tenants, config->has_tenants, config->tenants, config->tenant_count);
    hspz_error_set(&err, status, "out of memory");
    if (status == HSPZ_OK) {
        status = hspz_tls_configure(config, log, &s->tls, &err);
    }
    if (status == HSPZ_OK) {
        status = hspz_listeners_bind(config, log, &d->listeners, &err);
    }
    if (status == HSPZ_OK && config->metrics != NULL && *config->metrics != '\0') {
        status = hspz_http_bind(config, log, &d->http, &err);
    }
    if (status == HSPZ_OK) {
        status = hspz_filters_create(s, &s->filters);
        hspz_error_set(&err, status, "out of memory");
    }
    if (status == HSPZ_OK) {
        status = hspz_catalog_create(s, &s->catalog);
        hspz_error_set(&err, status, "out of memory");
    }
    int result = 0;
    if (status == HSPZ_OK) {
        result = uv_loop_init(&d->loop);
        status = result == 0 ? HSPZ_OK : hspz_uv_error(&err, result, "event loop");
    }
    if (status != HSPZ_OK) {
        HSPZ_LOG(log, HSPZ_LOG_ERROR, "cannot start", hspz_kv("why", err.text));
        daemon_destroy(d);
        return status;
    }
    status = start_handles(d, &err);
    HSPZ_REQUIRE(pthread_sigmask(SIG_SETMASK, &signals, NULL) == 0);
    if (status != HSPZ_OK) {
        HSPZ_LOG(log, HSPZ_LOG_ERROR, "cannot start", hspz_kv("why", err.text));
        uv_walk(&d->loop, close_handle, NULL);
        (void)uv_run(&d->loop, UV_RUN_DEFAULT);
    } else {
        status = run_loop(d);
    }
    *abandoned = d->abandoned;
    if (d->abandoned) {
        return status;
    }
    if (uv_loop_close(&d->loop) != 0) {
        uv_walk(&d->loop, log_leak, log);
        status = HSPZ_E_INTERNAL;
    }
    HSPZ_LOG(log, HSPZ_LOG_INFO, "ended", hspz_kv("status", hspz_status_name(status)));
    daemon_destroy(d);
    return status;
}
