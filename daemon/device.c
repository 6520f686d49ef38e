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

/* Others wait, and these have nothing to do: what was slow once is tried again in the end. */
static void
doubt_idle(struct hspz_service *service)
{
    for (unsigned d = 0; d < service->device_count; d++) {
        struct hspz_device *const device = &service->devices[d];
        device->step_ns -= hspz_device_turns(service, d) == 0 ? device->step_ns / DOUBT : 0;
    }
}

struct hspz_worker *
hspz_device_choose(struct hspz_service *service, struct hspz_worker *now, unsigned only)
{
    const unsigned count = service->device_count;
    if (only != HSPZ_ANY_DEVICE || count == 1) {
        return lightest(service, only != HSPZ_ANY_DEVICE ? only : 0, now);
    }
    const uint64_t fastest = fastest_ns(service);
    unsigned best = count;
    uint64_t least = UINT64_MAX, here = UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        const unsigned d = (service->next_device + i) % count;
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
