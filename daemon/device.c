#include "daemon/device.h"

#include "daemon/service.h"

/* What an idle device is taken to be faster each time that a turn goes behind another elsewhere. */
#define DOUBT 8u

/* Workers are dealt to devices in turn: those of device d are d, d + device_count, ... */
unsigned
hspz_device_lanes(const struct hspz_service *service)
{
    return service->worker_count / service->device_count;
}

unsigned
hspz_device_turns(const struct hspz_service *service, unsigned device)
{
    unsigned turns = 0;
    for (unsigned i = device; i < service->worker_count; i += service->device_count) {
        turns += hspz_worker_turns(service->workers[i]);
    }
    return turns;
}

unsigned
hspz_device_queued(const struct hspz_service *service, unsigned device)
{
    unsigned queued = 0;
    for (unsigned i = device; i < service->worker_count; i += service->device_count) {
        const unsigned turns = hspz_worker_turns(service->workers[i]);
        queued += turns > 1 ? turns - 1 : 0;
    }
    return queued;
}

static unsigned
jobs_of(const struct hspz_service *service, unsigned device)
{
    unsigned jobs = 0;
    for (unsigned i = device; i < service->worker_count; i += service->device_count) {
        jobs += hspz_worker_jobs(service->workers[i]);
    }
    return jobs;
}

/* Of its device the one with the fewest turns, then jobs; `now` where it is one of them. */
static struct hspz_worker *
lightest(const struct hspz_service *service, unsigned device, struct hspz_worker *now)
{
    const bool stays = now != NULL && hspz_worker_device(now) == device;
    struct hspz_worker *best = stays ? now : service->workers[device];
    for (unsigned i = device; i < service->worker_count; i += service->device_count) {
        struct hspz_worker *const w = service->workers[i];
        const unsigned turns = hspz_worker_turns(w), least = hspz_worker_turns(best);
        if (turns < least ||
            (!stays && turns == least && hspz_worker_jobs(w) < hspz_worker_jobs(best))) {
            best = w;
        }
    }
    return best;
}

/* One that made no step yet is taken to be as fast as the fastest. */
static uint64_t
fastest_ns(const struct hspz_service *service)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < service->device_count; i++) {
        const uint64_t ns = service->devices[i].step_ns;
        least = ns != 0 && ns < least ? ns : least;
    }
    return least == UINT64_MAX ? 1 : least;
}

static bool
is_ready(const struct hspz_service *service, unsigned device)
{
    return service->devices[device].state == HSPZ_DEVICE_READY;
}

/* Others wait, and these have nothing to do: what was slow once is tried again in the end. */
static void
doubt_idle(struct hspz_service *service)
{
    for (unsigned d = 0; d < service->device_count; d++) {
        struct hspz_device *const device = &service->devices[d];
        const bool idle = is_ready(service, d) && hspz_device_turns(service, d) == 0;
        device->step_ns -= idle ? device->step_ns / DOUBT : 0;
    }
}

const char *
hspz_device_state_name(enum hspz_device_state state)
{
    static const char *const names[] = {"ready", "stuck", "lost"};
    return names[state];
}

unsigned
hspz_device_count_ready(const struct hspz_service *service)
{
    unsigned count = 0;
    for (unsigned i = 0; i < service->device_count; i++) {
        count += is_ready(service, i);
    }
    return count;
}

static void
set_state(struct hspz_service *service, unsigned device, enum hspz_device_state state)
{
    service->devices[device].state = state;
    const unsigned ready = hspz_device_count_ready(service);
    hspz_scheduler_resize(&service->scheduler,
                          hspz_device_lanes(service) * (ready > 0 ? ready : 1));
}

bool
hspz_device_lose(struct hspz_service *service, unsigned device, const struct hspz_error *why)
{
    if (!service->ops->devices_apart || device == HSPZ_ANY_DEVICE) {
        return false;
    }
    if (service->devices[device].state != HSPZ_DEVICE_LOST) {
        set_state(service, device, HSPZ_DEVICE_LOST);
        if (hspz_device_count_ready(service) > 0) {
            HSPZ_LOG(service->log, HSPZ_LOG_ERROR, "device lost, others go on",
                     hspz_kv_uint("device", device),
                     hspz_kv_uint("ready", hspz_device_count_ready(service)),
                     hspz_kv("why", why->text));
        }
    }
    return hspz_device_count_ready(service) > 0;
}

struct hspz_worker *
hspz_device_working(struct hspz_service *service, struct hspz_worker *worker)
{
    struct hspz_worker *const other =
        is_ready(service, hspz_worker_device(worker))
            ? NULL
            : hspz_device_choose(service, NULL, HSPZ_ANY_DEVICE, NULL);
    return other != NULL ? other : worker;
}

/* What waited behind a step that does not come back. */
static void
empty_queue(struct hspz_service *service, struct hspz_worker *worker)
{
    for (struct hspz_task *task = hspz_worker_withdraw(worker), *next; task != NULL; task = next) {
        next = task->next;
        if (task->kind == HSPZ_TASK_SKIPS) {
            task->event.fire(&task->event);
        } else {
            hspz_worker_submit(task->kind == HSPZ_TASK_MOVES ? hspz_device_working(service, worker)
                                                             : worker,
                               task);
        }
    }
}

static void
give_up(struct hspz_service *service, struct hspz_worker *worker)
{
    struct hspz_error why = {0};
    const unsigned device = hspz_worker_device(worker);
    struct hspz_task *const task = hspz_worker_running(worker);
    const bool ready = is_ready(service, device);
    if (ready && hspz_device_count_ready(service) == 1) {
        hspz_error_set(&why, HSPZ_E_DEVICE_ERROR, "device %u, the last one, does not answer",
                       device);
        service->lost(service, device, &why);
        return;
    }
    if (task == NULL || task->give_up == NULL) {
        return;
    }
    /* First, so that what goes on does so elsewhere. */
    if (ready) {
        set_state(service, device, HSPZ_DEVICE_STUCK);
    }
    if (!task->give_up(task)) {
        if (ready) {
            set_state(service, device, HSPZ_DEVICE_READY);
        }
        return;
    }
    service->devices[device].strays++;
    service->devices[device].redone++;
    service->strays++;
    HSPZ_LOG(service->log, HSPZ_LOG_ERROR, "device does not answer, others go on",
             hspz_kv_uint("device", device),
             hspz_kv_uint("ready", hspz_device_count_ready(service)));
    empty_queue(service, worker);
}

void
hspz_device_tick(struct hspz_service *service, uint64_t now_ns)
{
    const uint64_t limit_ns = service->config->device_timeout_ms * 1000000;
    if (service->device_count < 2 || limit_ns == 0) {
        return;
    }
    for (unsigned i = 0; i < service->worker_count; i++) {
        if (service->state < HSPZ_SERVICE_FAILED &&
            hspz_worker_step_ns(service->workers[i], now_ns) > limit_ns) {
            give_up(service, service->workers[i]);
        }
    }
    hspz_scheduler_pump(&service->scheduler);
}

void
hspz_device_back(struct hspz_service *service, unsigned device, const struct hspz_error *why)
{
    struct hspz_device *const d = &service->devices[device];
    d->strays--;
    service->strays--;
    if (why->status == HSPZ_E_DEVICE_ERROR) {
        service->lost(service, device, why);
    } else if (d->state == HSPZ_DEVICE_STUCK && d->strays == 0) {
        d->step_ns = 0;
        set_state(service, device, HSPZ_DEVICE_READY);
        HSPZ_LOG(service->log, HSPZ_LOG_WARNING, "device answers again",
                 hspz_kv_uint("device", device));
    }
}

struct hspz_worker *
hspz_device_choose(struct hspz_service *service, struct hspz_worker *now, unsigned only,
                   const bool *among)
{
    const unsigned count = service->device_count;
    if (only != HSPZ_ANY_DEVICE) {
        return is_ready(service, only) ? lightest(service, only, now) : NULL;
    }
    const uint64_t fastest = fastest_ns(service);
    unsigned best = count;
    uint64_t least = UINT64_MAX, here = UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        const unsigned d = (service->next_device + i) % count;
        if (!is_ready(service, d) || (among != NULL && !among[d])) {
            continue;
        }
        const uint64_t step_ns = service->devices[d].step_ns;
        const unsigned ahead = now != NULL ? hspz_device_turns(service, d) : jobs_of(service, d);
        const uint64_t wait = (ahead + 1) * (step_ns != 0 ? step_ns : fastest);
        if (wait < least) {
            least = wait;
            best = d;
        }
        if (now != NULL && hspz_worker_device(now) == d) {
            here = wait;
        }
    }
    if (best == count) {
        return NULL;
    }
    if (now != NULL && here / 2 <= least) {
        best = hspz_worker_device(now);
    } else {
        service->next_device = (best + 1) % count;
    }
    if (now != NULL && hspz_device_turns(service, best) > 0) {
        doubt_idle(service);
    }
    return lightest(service, best, now);
}

void
hspz_device_turned(struct hspz_device *device, const struct hspz_turned *turned)
{
    device->usage.device_ns += turned->ns;
    device->parts += turned->parts;
    if (turned->steps > 0) {
        const uint64_t step_ns = turned->ns / turned->steps + 1;
        device->step_ns = device->step_ns == 0 ? step_ns : (3 * device->step_ns + step_ns) / 4;
    }
}
