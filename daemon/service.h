/* What the parts of the daemon share: the loop, the engine, the budgets, the connections. It
 * belongs to daemon.c, which fills it before anything is served; everybody else borrows.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/buffers.h"
#include "daemon/config.h"
#include "daemon/device.h"
#include "daemon/log.h"
#include "daemon/scheduler.h"
#include "daemon/scratch.h"
#include "daemon/shake.h"
#include "daemon/stats.h"
#include "daemon/tenant.h"
#include "daemon/worker.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define HSPZ_READ_BYTES 65536u

enum hspz_service_state {
    HSPZ_SERVICE_LOADING, /* indexes of the configuration are on their way */
    HSPZ_SERVICE_READY,
    HSPZ_SERVICE_DRAINING, /* jobs finish, new ones are refused */
    HSPZ_SERVICE_FAILED,   /* a device was lost: jobs on others finish, and the process ends */
    HSPZ_SERVICE_STOPPING, /* everything is being closed */
};

struct hspz_catalog;
struct hspz_shm_pool;
struct hspz_filters;
struct hspz_conn;
struct hspz_tls_context;

struct hspz_service {
    uv_loop_t *loop;
    const struct hspz_config *config;
    struct hspz_log *log;
    enum hspz_service_state state;
    uint64_t started_ns; /* uv_hrtime */

    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
    struct hspz_mailbox mailbox;
    struct hspz_worker **workers; /* one a lane */
    unsigned worker_count;
    struct hspz_device *devices;
    unsigned device_count, next_device;
    unsigned strays; /* steps that were given up and have not come back */

    struct hspz_buffers *buffers;
    struct hspz_shm_pool *shm_pool; /* NULL: no memory is shared */
    struct hspz_scratch scratch;
    struct hspz_scheduler scheduler;
    struct hspz_catalog *catalog;
    struct hspz_filters *filters;

    struct hspz_tenants tenants;
    struct hspz_shakes shakes;
    struct hspz_tls_context *tls; /* of TCP connections to come; NULL: they are plain */
    struct hspz_conn *conns;      /* list */
    uint64_t conn_count, conn_next_id;
    uint64_t conn_limit;   /* the configured one, or what the descriptor limit allows */
    uint64_t job_count;    /* waiting or running */
    struct hspz_pace pace; /* jobs end */
    uint64_t ingest_bytes; /* of requests, held */
    struct hspz_stats stats;
    uint8_t read_buffer[HSPZ_READ_BYTES]; /* filled and consumed within one callback */

    /* At that time (uv_hrtime) jobs past their deadline are ended and turns given, at the latest.
     */
    void (*due)(struct hspz_service *service, uint64_t deadline_ns);
    /* No more connections or jobs, and the end once those under way are done; for the log, why. */
    void (*drain)(struct hspz_service *service, const char *why);
    void (*changed)(struct hspz_service *service); /* a job or a connection ended; a load, too */
    /* A device is lost for this process; `device` HSPZ_ANY_DEVICE: not known which. Not from within
     * the end of a job. */
    void (*lost)(struct hspz_service *service, unsigned device, const struct hspz_error *why);
};

const char *hspz_service_state_name(enum hspz_service_state state);
