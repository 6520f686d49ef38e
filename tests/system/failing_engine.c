/* hspzd with an engine that fails: the CPU engine, whose jobs of one cap on hits end with an error
 * at one of their chunks. Linked with --wrap=hspz_engine_find, so that the daemon is as it is.
 *
 * HSPZ_FAIL_CAP     `max_hits` of the jobs that fail
 * HSPZ_FAIL_CHUNK   the chunk at which they do, counted from 0 over the whole job
 * HSPZ_FAIL_STATUS  the name of the status they fail with
 * HSPZ_HANG_CAP     `max_hits` of jobs whose first step takes a minute
 * HSPZ_CHECK        what checks of lanes do: `fail`, or `hang` for a minute */
#include "engine/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VICTIMS 64

const struct hspz_engine_ops *__real_hspz_engine_find(const char *name);
const struct hspz_engine_ops *__wrap_hspz_engine_find(const char *name);

struct victim {
    struct hspz_job *job;
    uint64_t chunks; /* whole ones so far */
    bool hangs;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct victim victims[VICTIMS];
static struct hspz_engine_ops failing;

static uint64_t
number_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* With the mutex held; NULL finds a free place. */
static struct victim *
find(const struct hspz_job *job)
{
    for (size_t i = 0; i < VICTIMS; i++) {
        if (victims[i].job == job) {
            return &victims[i];
        }
    }
    return NULL;
}

static enum hspz_status
job_begin(struct hspz_engine *engine, struct hspz_ref *ref, const struct hspz_job_spec *spec,
          struct hspz_job **out, struct hspz_error *err)
{
    const enum hspz_status status = hspz_cpu_engine.job_begin(engine, ref, spec, out, err);
    const bool hangs = spec->max_hits == number_of("HSPZ_HANG_CAP");
    if (status == HSPZ_OK && (hangs || spec->max_hits == number_of("HSPZ_FAIL_CAP"))) {
        pthread_mutex_lock(&mutex);
        struct victim *victim = find(NULL);
        if (victim != NULL) {
            *victim = (struct victim){.job = *out, .hangs = hangs};
        }
        pthread_mutex_unlock(&mutex);
    }
    return status;
}

static enum hspz_status
job_step(struct hspz_lane *lane, struct hspz_job *job, struct hspz_part *part,
         struct hspz_error *err)
{
    bool fails = false;
    pthread_mutex_lock(&mutex);
    struct victim *victim = find(job);
    const bool hangs = victim != NULL && victim->hangs;
    pthread_mutex_unlock(&mutex);
    if (hangs) {
        sleep(60);
    }
    const enum hspz_status status = hspz_cpu_engine.job_step(lane, job, part, err);
    pthread_mutex_lock(&mutex);
    victim = find(job);
    if (victim != NULL && status == HSPZ_OK && part->kind == HSPZ_STEP_ANCHORS) {
        fails = victim->chunks == number_of("HSPZ_FAIL_CHUNK");
        victim->chunks += part->id.last_part;
    }
    pthread_mutex_unlock(&mutex);
    if (!fails) {
        return status;
    }
    const char *name = getenv("HSPZ_FAIL_STATUS");
    return hspz_error_set(
        err, name != NULL ? hspz_status_from_name(name, strlen(name)) : HSPZ_E_INTERNAL,
        "an unspecified launch failure");
}

static void
job_end(struct hspz_job **job)
{
    pthread_mutex_lock(&mutex);
    struct victim *victim = *job != NULL ? find(*job) : NULL;
    if (victim != NULL) {
        *victim = (struct victim){0};
    }
    pthread_mutex_unlock(&mutex);
    hspz_cpu_engine.job_end(job);
}

static enum hspz_status
lane_check(struct hspz_lane *lane, struct hspz_error *err)
{
    (void)lane;
    if (strcmp(getenv("HSPZ_CHECK"), "hang") == 0) {
        sleep(60);
    }
    return hspz_error_set(err, HSPZ_E_DEVICE_ERROR, "an unspecified launch failure");
}

const struct hspz_engine_ops *
__wrap_hspz_engine_find(const char *name)
{
    if (strcmp(name, "cpu") != 0) {
        return __real_hspz_engine_find(name);
    }
    failing = hspz_cpu_engine;
    failing.job_begin = job_begin;
    failing.job_step = job_step;
    failing.job_end = job_end;
    if (getenv("HSPZ_CHECK") != NULL) {
        failing.lane_check = lane_check;
    }
    return &failing;
}
