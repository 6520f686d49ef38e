#include "engine/cuda/mask.h"

#include "engine/cuda/batch_p.h"
#include "engine/cuda/filter.h"

static const struct hspz_filter_plan *
plan_of(const struct hspz_seed_mask *mask)
{
    return mask->ops->plan(mask->filter);
}

static bool
is_here(const struct hspz_cuda_run *run, const struct hspz_seed_mask *mask)
{
    const struct hspz_filter_plan *plan = plan_of(mask);
    return plan->device == run->lane->device && plan->spec.parts <= 1;
}

enum hspz_status
hspz_cuda_mask_reserve(const struct hspz_cuda_run *run, const struct hspz_seed_mask *mask,
                       uint64_t starts)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const uint64_t bits = hspz_seed_mask_bits_bytes(starts);
    enum hspz_status status = hspz_cuda_run_reserve(run, &scratch->masked, bits);
    if (status != HSPZ_OK || !is_here(run, mask)) {
        return status == HSPZ_OK ? hspz_cuda_run_reserve_pinned(run, &scratch->host_masked, bits)
                                 : status;
    }
    status =
        hspz_cuda_run_reserve(run, &scratch->mask_keys,
                              starts * sizeof(uint64_t) + sizeof(struct hspz_cuda_filter_result));
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->mask_answers,
                                       mask->above == 0 ? bits : starts * sizeof(uint64_t));
    }
    return status;
}

/* The result is nobody's, but a call wants one. */
static enum hspz_status
find_here(const struct hspz_cuda_run *run, const struct hspz_seed_mask *mask,
          const struct hspz_cuda_query *query)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const struct hspz_filter_spec *spec = &plan_of(mask)->spec;
    uint64_t *const keys = scratch->mask_keys.data;
    const struct hspz_cuda_filter_call call = {
        .op = mask->above == 0 ? HSPZ_FILTER_QUERY : HSPZ_FILTER_COUNT,
        .keys = keys,
        .count = query->positions,
        .yes = mask->above == 0 ? scratch->mask_answers.data : NULL,
        .found = mask->above == 0 ? NULL : scratch->mask_answers.data,
        .result = (struct hspz_cuda_filter_result *)(keys + query->positions)};
    enum hspz_status status =
        hspz_cuda_run_check(run,
                            hspz_cuda_launch_mask_keys(query, spec->k, spec->canonical, keys,
                                                       scratch->masked.data, run->lane->work),
                            "masking seeds");
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_run(mask->filter, &call, run->lane->work, run->err);
    }
    return status == HSPZ_OK
               ? hspz_cuda_run_check(run,
                                     hspz_cuda_launch_mask_settle(call.yes, call.found, mask->above,
                                                                  call.count, scratch->masked.data,
                                                                  run->lane->work),
                                     "masking seeds")
               : status;
}

/* The filter may be another device's, which is then the current one for a while. */
static enum hspz_status
find_by_host(const struct hspz_cuda_run *run, const struct hspz_cuda_stretch *stretch)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const struct hspz_seed_starts starts = {.query = stretch->query,
                                            .strand = stretch->strand,
                                            .begin = stretch->begin,
                                            .end = stretch->end};
    enum hspz_status status = hspz_seed_mask_find(stretch->mask, run->lane->pool, &starts,
                                                  scratch->host_masked.data, run->err);
    const enum hspz_status back = hspz_cuda_device_use(run->lane->device, run->err);
    status = status == HSPZ_OK ? back : status;
    return status == HSPZ_OK
               ? hspz_cuda_run_check(
                     run,
                     cudaMemcpyAsync(scratch->masked.data, scratch->host_masked.data,
                                     hspz_seed_mask_bits_bytes(stretch->end - stretch->begin),
                                     cudaMemcpyHostToDevice, run->lane->work),
                     "masking seeds")
               : status;
}

enum hspz_status
hspz_cuda_mask_find(const struct hspz_cuda_run *run, const struct hspz_cuda_stretch *stretch,
                    const struct hspz_cuda_query *query)
{
    return is_here(run, stretch->mask) ? find_here(run, stretch->mask, query)
                                       : find_by_host(run, stretch);
}
