/* hspzd whose card is lost in earnest: a job of one cap on hits has a kernel read far outside all
 * memory at one of its steps. Linked with --wrap=hspz_engine_find, so that the daemon is as it is.
 *
 * HSPZ_LOSE_CAP    `max_hits` of the jobs that do
 * HSPZ_LOSE_PART   after so many parts of one of them */
#include "engine/cuda/kernels/launch.h"
#include "engine/engine.h"

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

static enum hspz_status
job_step(struct hspz_lane *lane, struct hspz_job *job, struct hspz_part *part,
         struct hspz_error *err)
{
    if (job == victim && parts++ == number_of("HSPZ_LOSE_PART")) {
        uint32_t *nowhere = (uint32_t *)(uintptr_t)(UINT64_C(1) << 52);
        hspz_cuda_launch_presence(nowhere, 1 << 20, nowhere, (unsigned long long *)(void *)nowhere,
                                  NULL);
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
