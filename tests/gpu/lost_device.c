/* hspzd with a card that is lost in earnest, or that does not come back from a step for a while: a
 * job of one cap on hits harms the card that it is on at one of its steps (tests/gpu/harm.h).
 * Linked with
 * --wrap=hspz_engine_find, so that the daemon is as it is.
 *
 * HSPZ_LOSE_CAP    `max_hits` of the jobs that do
 * HSPZ_LOSE_PART   after so many parts of one of them
 * HSPZ_HANG_MS     for so long the card has something else to do; unset: it is lost */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/lane.h"
#include "engine/engine.h"
#include "tests/gpu/harm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const struct hspz_engine_ops *__real_hspz_engine_find(const char *name);
const struct hspz_engine_ops *__wrap_hspz_engine_find(const char *name);

static struct hspz_engine_ops losing;
static struct hspz_job *_Atomic victim;
static atomic_uint parts;

static unsigned long long
number_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static enum hspz_status
job_begin(struct hspz_engine *engine, struct hspz_ref *ref, const struct hspz_job_spec *spec,
          struct hspz_job **out, struct hspz_error *err)
{
    const enum hspz_status status = hspz_cuda_engine.job_begin(engine, ref, spec, out, err);
    if (status == HSPZ_OK && spec->max_hits == number_of("HSPZ_LOSE_CAP")) {
        victim = *out;
    }
    return status;
}

/* What the card does not do shows at the step that follows. */
static enum hspz_status
harm(const struct hspz_lane *lane, struct hspz_error *err)
{
    const uint64_t hang_ms = number_of("HSPZ_HANG_MS");
    const enum hspz_status status = hspz_cuda_device_use(lane->device, err);
    if (status != HSPZ_OK) {
        return status;
    }
    return hspz_cuda_check(hang_ms > 0 ? harm_occupy(hang_ms) : harm_lose(), lane->device->label,
                           "harming the device", err);
}

static enum hspz_status
job_step(struct hspz_lane *lane, struct hspz_job *job, struct hspz_part *part,
         struct hspz_error *err)
{
    if (job == victim && parts++ == number_of("HSPZ_LOSE_PART")) {
        const enum hspz_status status = harm(lane, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return hspz_cuda_engine.job_step(lane, job, part, err);
}

const struct hspz_engine_ops *
__wrap_hspz_engine_find(const char *name)
{
    if (strcmp(name, "cuda") != 0) {
        return __real_hspz_engine_find(name);
    }
    losing = hspz_cuda_engine;
    losing.job_begin = job_begin;
    losing.job_step = job_step;
    return &losing;
}
