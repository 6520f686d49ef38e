#include "daemon/lane_watch.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Between two checks of a lane, and how long one may take: more than an engine itself waits. */
#define EVERY_NS UINT64_C(5000000000)
#define ANSWER_NS UINT64_C(10000000000)

struct lane {
    struct hspz_task task;
    struct hspz_service *service;
    struct hspz_worker *worker;
    bool asked;
    bool given_up;
    uint64_t answered_ns;
    _Atomic uint64_t began_ns; /* 0: the check does not run */
    enum hspz_status status;
    struct hspz_error err;
};

struct hspz_lane_watch {
    unsigned count;
    struct lane lanes[];
};

static void
run_check(struct hspz_task *task, struct hspz_worker *worker)
{
    struct lane *lane = (struct lane *)(void *)task;
    lane->err = (struct hspz_error){0};
    atomic_store(&lane->began_ns, uv_hrtime());
    lane->status = lane->service->ops->lane_check(hspz_worker_lane(worker), &lane->err);
    atomic_store(&lane->began_ns, 0);
}

static void
on_checked(struct hspz_event *event)
{
    struct lane *lane = (struct lane *)(void *)event;
    struct hspz_service *service = lane->service;
    lane->asked = false;
    lane->answered_ns = uv_hrtime();
    if (lane->status == HSPZ_E_DEVICE_ERROR && service->state < HSPZ_SERVICE_FAILED) {
        service->lost(service, hspz_worker_device(lane->worker), &lane->err);
    }
}

enum hspz_status
hspz_lane_watch_create(struct hspz_service *service, struct hspz_lane_watch **out)
{
    const unsigned count = service->worker_count;
    if (service->ops->lane_check == NULL) {
        return HSPZ_OK;
    }
    struct hspz_lane_watch *watch = calloc(1, sizeof(*watch) + count * sizeof(watch->lanes[0]));
    if (watch == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    watch->count = count;
    for (unsigned i = 0; i < count; i++) {
        struct lane *lane = &watch->lanes[i];
        lane->task.run = run_check;
        lane->task.event.fire = on_checked;
        lane->service = service;
        lane->worker = service->workers[i];
        lane->answered_ns = uv_hrtime();
    }
    *out = watch;
    return HSPZ_OK;
}

void
hspz_lane_watch_destroy(struct hspz_lane_watch **watch)
{
    free(*watch);
    *watch = NULL;
}

/* How long the check has run; 0: it does not. */
static uint64_t
waited_ns(const struct lane *lane, uint64_t now)
{
    const uint64_t began = atomic_load(&lane->began_ns);
    return began != 0 && now > began ? now - began : 0;
}

static void
give_up(struct lane *lane)
{
    struct hspz_error err = {0};
    const unsigned device = hspz_worker_device(lane->worker);
    lane->given_up = true;
    (void)hspz_error_set(&err, HSPZ_E_DEVICE_ERROR, "device %u does not answer", device);
    lane->service->lost(lane->service, device, &err);
}

/* Turns show by themselves that a lane works. */
static bool
is_due(const struct lane *lane, uint64_t now)
{
    const uint64_t moved = hspz_worker_moved_ns(lane->worker);
    const uint64_t last = moved > lane->answered_ns ? moved : lane->answered_ns;
    const struct hspz_service *s = lane->service;
    return s->devices[hspz_worker_device(lane->worker)].state == HSPZ_DEVICE_READY &&
           !lane->asked && hspz_worker_turns(lane->worker) == 0 && now > last &&
           now - last >= EVERY_NS;
}

void
hspz_lane_watch_tick(struct hspz_lane_watch *watch, uint64_t now)
{
    for (unsigned i = 0; watch != NULL && i < watch->count; i++) {
        struct lane *lane = &watch->lanes[i];
        if (lane->service->state >= HSPZ_SERVICE_FAILED) {
            return;
        }
        if (is_due(lane, now)) {
            lane->asked = true;
            hspz_worker_submit(lane->worker, &lane->task);
        } else if (!lane->given_up && waited_ns(lane, now) > ANSWER_NS) {
            give_up(lane);
        }
    }
}

bool
hspz_lane_watch_answers(const struct hspz_lane_watch *watch, uint64_t now, uint64_t limit_ns)
{
    for (unsigned i = 0; watch != NULL && i < watch->count; i++) {
        if (waited_ns(&watch->lanes[i], now) > limit_ns) {
            return false;
        }
    }
    return true;
}
