/* What the programs that measure filters on a card share: calls on arrays of the card, timed by
 * events. What goes wrong ends the program. */
#pragma once

#include "engine/cuda/filter.h"
#include "engine/engine.h"

#include <cuda_runtime_api.h>

#define FILTER_REPEATS 5

struct filter_time {
    struct hspz_engine *engine;
    cudaStream_t stream;
    cudaEvent_t from, to;
    struct hspz_cuda_filter_result *result;
    uint32_t *sink;
};

/* Of device 0. The arrays of keys are not counted against its budget. */
void filter_time_open(struct filter_time *t);
void filter_time_close(struct filter_time *t);

/* The plan of a spec, on that device. */
struct hspz_filter_plan filter_time_plan(const struct filter_time *t,
                                         const struct hspz_filter_spec *spec);
struct hspz_filter *filter_time_create(const struct hspz_filter_plan *plan);
void filter_time_clear(const struct filter_time *t, struct hspz_filter *filter);

/* Milliseconds of a call, whose `result` is set here; what it came to, where `result` is not NULL.
 */
float filter_time_call(const struct filter_time *t, struct hspz_filter *filter,
                       const struct hspz_cuda_filter_call *call,
                       struct hspz_cuda_filter_result *result);
/* The same for a call that says yes to every key. */
float filter_time_sure(const struct filter_time *t, struct hspz_filter *filter,
                       const struct hspz_cuda_filter_call *call);

/* The middle one of FILTER_REPEATS. */
float filter_time_median(float *ms);

/* Random sectors that can be read of so much memory, 10^9 a second. */
double filter_time_sectors(const struct filter_time *t, uint64_t bytes);
