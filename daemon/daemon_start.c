/* The start of the daemon, once its addresses are bound. */
#include "daemon/daemon_p.h"

#include "daemon/check.h"
#include "daemon/conn.h"
#include "daemon/engine_choice.h"
#include "daemon/job.h"
#include "daemon/notify.h"
#include "daemon/shm_pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors that are not connections. */
#define SPARE_DESCRIPTORS 64u

static void
ready(struct hspz_daemon *d)
{
    struct hspz_service *s = &d->service;
    s->state = HSPZ_SERVICE_READY;
    HSPZ_LOG(s->log, HSPZ_LOG_INFO, "ready", hspz_kv("version", HSPZ_VERSION),
             hspz_kv("engine", s->ops->name),
             hspz_kv_uint("index_bytes", hspz_catalog_bytes(s->catalog)));
    hspz_notify_ready("ready");
}

static void
on_start_loaded(struct hspz_waiter *waiter, struct hspz_served *served,
                const struct hspz_error *err)
{
    struct hspz_daemon *d = (struct hspz_daemon *)waiter->user;
    d->starts_left--;
    if (d->service.state != HSPZ_SERVICE_LOADING) {
        return;
    }
    if (served == NULL) {
        d->status = err->status;
        hspz_daemon_stop(d);
    } else if (d->starts_left == 0) {
        ready(d);
    }
}

static enum hspz_status
load_indexes(struct hspz_daemon *d, struct hspz_error *err)
{
    const struct hspz_config *config = d->service.config;
    if (config->index_count == 0) {
        ready(d);
        return HSPZ_OK;
    }
    d->starts = calloc(config->index_count, sizeof(*d->starts));
    if (d->starts == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the indexes");
    }
    for (size_t i = 0; i < config->index_count; i++) {
        d->starts[i] = (struct hspz_waiter){.done = on_start_loaded, .user = d};
        const enum hspz_status status =
            hspz_catalog_load_path(d->service.catalog, config->indexes[i].name,
                                   config->indexes[i].path, &d->starts[i], err);
        if (status != HSPZ_OK) {
            return status;
        }
        d->starts_left++;
    }
    return HSPZ_OK;
}

static uint64_t
spare_descriptors(const struct hspz_service *s)
{
    return SPARE_DESCRIPTORS + hspz_shm_pool_descriptors(s->shm_pool);
}

/* Connections must not use up the descriptors that everything else needs. */
static void
limit_connections(struct hspz_service *s)
{
    const uint64_t want = s->config->max_connections;
    struct rlimit files;
    uint64_t limit = want;
    const uint64_t spare = spare_descriptors(s);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        const rlim_t need = want + spare;
        if (files.rlim_cur < need) {
            files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
            if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
                (void)getrlimit(RLIMIT_NOFILE, &files);
            }
        }
        const uint64_t have = files.rlim_cur;
        const uint64_t allowed = have > 2 * spare ? have - spare : have / 2 + 1;
        limit = allowed < want ? allowed : want;
    }
    if (limit < want) {
        HSPZ_LOG(s->log, HSPZ_LOG_WARNING, "the descriptor limit allows fewer connections",
                 hspz_kv_uint("max_connections", want), hspz_kv_uint("allowed", limit));
    }
    s->conn_limit = limit;
}

/* Without it clients are served by the stream. */
static void
share_memory(struct hspz_service *s)
{
    const struct hspz_config *config = s->config;
    const struct hspz_shm_sizes sizes = {
        .ring_bytes = (size_t)(config->part_bytes * config->parts_per_connection),
        .input_bytes = (size_t)config->shm_input,
        .total_bytes = config->shm_memory,
        .most = config->max_connections,
    };
    struct hspz_error err = {0};
    if (hspz_shm_pool_create(s->ops, s->engine, &sizes, &s->shm_pool, &err) != HSPZ_OK) {
        HSPZ_LOG(s->log, HSPZ_LOG_WARNING, "no memory is shared", hspz_kv("why", err.text));
    }
}

static enum hspz_status
start_engine(struct hspz_daemon *d, struct hspz_error *err)
{
    struct hspz_service *s = &d->service;
    enum hspz_status status = hspz_check_folders(s->config, err);
    if (status == HSPZ_OK) {
        status = hspz_engine_choose(s->config, s->log, &s->ops, &s->engine, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const unsigned devices = s->ops->device_count(s->engine);
    status = hspz_config_groups_check(s->config, devices, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const unsigned workers = devices * hspz_engine_lanes(s->config, s->ops);
    status = hspz_buffers_create(s->ops, s->engine, (size_t)s->config->part_bytes,
                                 s->config->buffer_memory, &s->buffers);
    if (status == HSPZ_OK) {
        share_memory(s);
        s->workers = calloc(workers, sizeof(struct hspz_worker *));
        s->devices = calloc(devices, sizeof(*s->devices));
        status = s->workers != NULL && s->devices != NULL ? HSPZ_OK : HSPZ_E_OUT_OF_MEMORY;
    }
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "no memory for the engine's workers");
    }
    for (; s->device_count < devices; s->device_count++) {
        struct hspz_device_info info;
        s->ops->device_info(s->engine, s->device_count, &info);
        snprintf(s->devices[s->device_count].name, sizeof(s->devices[0].name), "%s", info.name);
    }
    for (unsigned i = 0; i < workers; i++) {
        status =
            hspz_worker_start(s->ops, s->engine, i % devices, &s->mailbox, &s->workers[i], err);
        if (status != HSPZ_OK) {
            return status;
        }
        s->worker_count++;
    }
    status = hspz_lane_watch_create(s, &d->lane_watch);
    return hspz_error_set(err, status, "no memory for the engine's workers");
}

static enum hspz_give
give_turn(void *user, struct hspz_source *source, const struct hspz_turn *turn)
{
    (void)user;
    struct hspz_conn *conn =
        (struct hspz_conn *)(void *)((char *)source - offsetof(struct hspz_conn, source));
    return conn->jobs != NULL ? conn->jobs->ops->give_turn(conn->jobs, turn) : HSPZ_GAVE_NONE;
}

static uint64_t
read_clock(void *user)
{
    (void)user;
    return uv_hrtime();
}

static void
wake(void *user, uint64_t at_ns)
{
    struct hspz_service *service = user;
    service->due(service, at_ns);
}

static void
on_highest(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

/* libuv keeps a table by descriptor, and ends the process when it cannot grow it: so let it grow
 * now, to the highest that a connection may get. Without a descriptor there, it grows when it must.
 */
static enum hspz_status
reserve_descriptors(struct hspz_daemon *d, struct hspz_error *err)
{
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int high = event < 0
                         ? -1
                         : fcntl(event, F_DUPFD_CLOEXEC,
                                 (int)(d->service.conn_limit + spare_descriptors(&d->service) - 1));
    int result = 0;
    if (high >= 0) {
        result = uv_poll_init(&d->loop, &d->highest, high);
        if (result == 0) {
            hspz_handles_add(&d->handles, (uv_handle_t *)&d->highest);
            result = uv_poll_start(&d->highest, UV_READABLE, on_highest);
            hspz_handle_close((uv_handle_t *)&d->highest);
        }
        (void)close(high);
    }
    if (event >= 0) {
        (void)close(event);
    }
    return result == 0 ? HSPZ_OK : hspz_uv_error(err, result, "descriptors");
}

static void
run_nothing(uv_work_t *work)
{
    (void)work;
}

enum hspz_status
hspz_daemon_start(struct hspz_daemon *d, struct hspz_error *err)
{
    struct hspz_service *s = &d->service;
    /* libuv makes its pool on first use, and ends the process if it cannot: so let it be now. */
    const int result = uv_queue_work(&d->loop, &d->first_work, run_nothing, NULL);
    if (result != 0) {
        return hspz_uv_error(err, result, "thread pool");
    }
    enum hspz_status status = start_engine(d, err);
    if (status == HSPZ_OK) {
        hspz_scheduler_init(&s->scheduler, s->worker_count, give_turn, read_clock, wake, s);
        hspz_scratch_init(&s->scratch, s->config->job_memory);
        limit_connections(s);
        status = reserve_descriptors(d, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_listeners_start(d->listeners, s, err);
    }
    if (status == HSPZ_OK && d->http != NULL) {
        status = hspz_http_start(d->http, s, err);
    }
    if (status == HSPZ_OK && s->config->address_file != NULL) {
        status = hspz_address_file_write(&d->address_file, s->config->address_file, d->listeners,
                                         hspz_config_serves_tls(s->config), err);
    }
    return status == HSPZ_OK ? load_indexes(d, err) : status;
}
