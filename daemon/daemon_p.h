/* Between daemon.c, daemon_start.c and daemon_tick.c. */
#pragma once

#include "daemon/address_file.h"
#include "daemon/catalog.h"
#include "daemon/daemon.h"
#include "daemon/filters.h"
#include "daemon/http.h"
#include "daemon/lane_watch.h"
#include "daemon/listener.h"
#include "daemon/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct hspz_daemon {
    uv_loop_t loop;
    struct hspz_handles handles;
    struct hspz_service service;
    struct hspz_config *config; /* the service's */
    struct hspz_listeners *listeners;
    struct hspz_address_file address_file;
    struct hspz_http *http;             /* NULL: none */
    struct hspz_lane_watch *lane_watch; /* NULL: nothing to watch */
    uv_timer_t tick, deadline;
    uint64_t deadline_ns; /* that `deadline` is set for; UINT64_MAX: none */
    uv_signal_t signals[3];
    uv_async_t look; /* something ended while the daemon is about to end */
    enum hspz_status status;
    struct hspz_waiter *starts; /* one a configured index */
    size_t starts_left;
    bool finished;
    unsigned signals_seen; /* to end */
    bool reload_owed;      /* asked for while the first indexes were loading */
    uint64_t ticks, drain_ms;
    uint64_t lost_ms;     /* when a device was lost; 0: none is */
    bool abandoned;       /* the loop was left with work under way */
    unsigned stray_ticks; /* while it stops and only strays are left to wait for */
    uint64_t seen_progress, told_progress;
    uint64_t watchdog_usec;
    bool hanging;           /* a lane does not answer */
    uint64_t busy_ms;       /* when somebody was last connected; 0: no tick looked yet */
    uint64_t seen_accepted; /* connections, at the last tick */
    uv_work_t first_work;
    uv_poll_t highest; /* for a moment at the hspz_daemon_start */
};

/* Opens the engine, begins to accept, begins to load. On failure the daemon is to be stopped. */
HSPZ_MUST_USE enum hspz_status hspz_daemon_start(struct hspz_daemon *d, struct hspz_error *err);
/* Ends whatever is left and closes everything; the loop then ends by itself. Idempotent. */
void hspz_daemon_stop(struct hspz_daemon *d);
/* No more connections or jobs; stops once those under way are done. */
void hspz_daemon_drain(struct hspz_daemon *d, const char *why);
/* Reads the configuration again; when ready. */
void hspz_daemon_reload(struct hspz_daemon *d);
/* After something ended: goes on with the end where there is nothing left to wait for. */
void hspz_daemon_look(struct hspz_daemon *d);
struct hspz_daemon *hspz_daemon_of(struct hspz_service *service);

void hspz_daemon_on_tick(uv_timer_t *timer);
/* The service's `due`. */
void hspz_daemon_due(struct hspz_service *service, uint64_t deadline_ns);
