#include "tests/bench/filter_time.h"

#include "tests/bench/cuda_bench.h"
#include "tests/bench/floors.h"

#define SECTOR_BYTES 32u

static int
by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float
filter_time_median(float *ms)
{
    qsort(ms, FILTER_REPEATS, sizeof(ms[0]), by_value);
    return ms[FILTER_REPEATS / 2];
}

void
filter_time_open(struct filter_time *t)
{
    struct hspz_error err = {0};
    const char *const first[] = {"0"};
    const struct hspz_engine_config config = {.cuda = {.devices = first, .device_count = 1}};
    must(hspz_cuda_engine.open(&config, &t->engine, &err), &err);
    must_cuda(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking));
    must_cuda(cudaEventCreate(&t->from));
    must_cuda(cudaEventCreate(&t->to));
    must_cuda(cudaMalloc((void **)&t->result, sizeof(*t->result)));
    must_cuda(cudaMalloc((void **)&t->sink, sizeof(*t->sink)));
}

void
filter_time_close(struct filter_time *t)
{
    must_cuda(cudaFree(t->result));
    must_cuda(cudaFree(t->sink));
    must_cuda(cudaEventDestroy(t->from));
    must_cuda(cudaEventDestroy(t->to));
    must_cuda(cudaStreamDestroy(t->stream));
    hspz_cuda_engine.close(&t->engine);
}

struct hspz_filter_plan
filter_time_plan(const struct filter_time *t, const struct hspz_filter_spec *spec)
{
    struct hspz_filter_plan plan;
    struct hspz_error err = {0};
    must(hspz_filter_plan(spec, 0, &plan, &err), &err);
    plan.device = hspz_cuda_engine.filter_device(t->engine, 0);
    return plan;
}

struct hspz_filter *
filter_time_create(const struct hspz_filter_plan *plan)
{
    struct hspz_filter *filter = NULL;
    struct hspz_error err = {0};
    must(hspz_cuda_filter(plan->spec.kind)->create(plan, &filter, &err), &err);
    return filter;
}

void
filter_time_clear(const struct filter_time *t, struct hspz_filter *filter)
{
    struct hspz_error err = {0};
    must(hspz_cuda_filter_clear(filter, t->stream, &err), &err);
}

float
filter_time_call(const struct filter_time *t, struct hspz_filter *filter,
                 const struct hspz_cuda_filter_call *call, struct hspz_cuda_filter_result *result)
{
    struct hspz_error err = {0};
    struct hspz_cuda_filter_call with = *call;
    float ms = 0;
    with.result = t->result;
    must_cuda(cudaMemsetAsync(t->result, 0, sizeof(*t->result), t->stream));
    must_cuda(cudaEventRecord(t->from, t->stream));
    must(hspz_cuda_filter_run(filter, &with, t->stream, &err), &err);
    must_cuda(cudaEventRecord(t->to, t->stream));
    must_cuda(cudaEventSynchronize(t->to));
    must_cuda(cudaEventElapsedTime(&ms, t->from, t->to));
    if (result != NULL) {
        must_cuda(cudaMemcpy(result, t->result, sizeof(*result), cudaMemcpyDeviceToHost));
    }
    return ms;
}

float
filter_time_sure(const struct filter_time *t, struct hspz_filter *filter,
                 const struct hspz_cuda_filter_call *call)
{
    struct hspz_cuda_filter_result result;
    const float ms = filter_time_call(t, filter, call, &result);
    if (result.yes != call->count || result.refused != 0) {
        fprintf(stderr, "%s: of %llu keys, %llu are answered yes and %llu were refused\n",
                hspz_filter_op_name(call->op), (unsigned long long)call->count, result.yes,
                result.refused);
        exit(1);
    }
    return ms;
}

double
filter_time_sectors(const struct filter_time *t, uint64_t bytes)
{
    float ms[FILTER_REPEATS];
    uint32_t *table = NULL;
    const uint64_t count = UINT64_C(1) << 28, sectors = bytes / SECTOR_BYTES;
    must_cuda(cudaMalloc((void **)&table, sectors * SECTOR_BYTES));
    for (int i = 0; i < FILTER_REPEATS; i++) {
        must_cuda(cudaEventRecord(t->from, t->stream));
        must_cuda(floors_sectors(table, sectors, count, 4096, t->sink, t->stream));
        must_cuda(cudaEventRecord(t->to, t->stream));
        must_cuda(cudaEventSynchronize(t->to));
        must_cuda(cudaEventElapsedTime(&ms[i], t->from, t->to));
    }
    must_cuda(cudaFree(table));
    return (double)count / 1e6 / filter_time_median(ms);
}
