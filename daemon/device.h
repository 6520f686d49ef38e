/* The engine's devices as the daemon sees them: how fast each is, what it has to do, and which of
 * them the next turn of a job goes to.
 *
 * A turn goes where it would wait least: by the turns that are under way there and the time that
 * steps take there of late. A job that has begun leaves its device only for half the wait or less,
 * as what it has there is made again elsewhere. So a slow device gets less to do, and nobody waits
 * for it who could be served. One that idles because it was slow is tried again by and by.
 *
 * A device that fails is lost. Where the engine says that devices are apart, and another one works,
 * it gets no more turns, and what jobs had there is done again on others; else the daemon ends. One
 * of several that does not come back from a step for `device_timeout_ms` is stuck: the step is
 * given up and done again elsewhere, and the device gets no more turns until it comes back, when
 * what the step made is thrown away. The last one that works is not given up but lost.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/usage.h"
#include "daemon/worker.h"

#include <stdint.h>

#define HSPZ_ANY_DEVICE UINT32_MAX

struct hspz_service;

enum hspz_device_state { HSPZ_DEVICE_READY, HSPZ_DEVICE_STUCK, HSPZ_DEVICE_LOST };

struct hspz_device {
    char name[128];
    enum hspz_device_state state;
    uint64_t step_ns; /* what steps took of late; 0: none was yet */
    unsigned strays;  /* steps that were given up and have not come back */
    uint64_t parts;   /* made */
    uint64_t redone;  /* turns that were lost with it, and are done again on others */
    struct hspz_usage usage;
};

/* What a turn did. */
struct hspz_turned {
    uint64_t ns, steps, parts;
};

const char *hspz_device_state_name(enum hspz_device_state state);
unsigned hspz_device_count_ready(const struct hspz_service *service);
/* `device` failed. False: the others cannot go on without it. */
bool hspz_device_lose(struct hspz_service *service, unsigned device, const struct hspz_error *why);
/* Once a second: looks for those that are stuck. */
void hspz_device_tick(struct hspz_service *service, uint64_t now_ns);
/* A step of the device that was given up came back, in the end, with *why (its status: how). */
void hspz_device_back(struct hspz_service *service, unsigned device, const struct hspz_error *why);

/* The worker for the next turn of a job that had its last one with `now` (NULL: none yet): one of
 * device `only`, or with HSPZ_ANY_DEVICE of any of `among` (NULL: of all); NULL when none works. */
struct hspz_worker *hspz_device_choose(struct hspz_service *service, struct hspz_worker *now,
                                       unsigned only, const bool *among);
/* For work that any worker can do: `worker`, or while its device does not work one whose does. */
struct hspz_worker *hspz_device_working(struct hspz_service *service, struct hspz_worker *worker);
/* A turn on the device ended. */
void hspz_device_turned(struct hspz_device *device, const struct hspz_turned *turned);
/* Turns that wait for one before them on their lane. */
unsigned hspz_device_queued(const struct hspz_service *service, unsigned device);
/* Turns under way, those included; lanes. */
unsigned hspz_device_turns(const struct hspz_service *service, unsigned device);
unsigned hspz_device_lanes(const struct hspz_service *service);
