/* One filter over the GPUs of a host against the same on one of them: 10^9 keys a second, medians.
 *
 *   split_bench [LOG2 ...]     slots of a tcf or gqf, keys of a blocked Bloom filter; 26 28
 *
 * Keys and answers are in the memory of the first GPU. Every GPU gets a part; with one GPU there
 * are two on it, which shows what the sharing out costs. */
#include "engine/filter_split.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/filter_time.h"
#include "tests/bench/floors.h"

#include <time.h>

struct bench {
    struct hspz_engine *engine;
    cudaStream_t stream;
    unsigned devices, parts;
    uint64_t *keys;
    uint32_t *yes;
    struct hspz_cuda_filter_result *result;
};

static double
now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A call on the parts, or on the whole filter that is the only one of them; until it is done. */
static float
time_call(const struct bench *b, struct hspz_filter *const *parts, unsigned count,
          const struct hspz_cuda_filter_call *call)
{
    struct hspz_error err = {0};
    struct hspz_cuda_filter_result result;
    struct hspz_cuda_filter_call with = *call;
    with.result = b->result;
    must_cuda(cudaMemset(b->result, 0, sizeof(*b->result)));
    must_cuda(cudaStreamSynchronize(b->stream));
    const double from = now_ms();
    must(count == 1 ? hspz_cuda_filter_run(parts[0], &with, b->stream, &err)
                    : hspz_cuda_filter_run_split(parts, count, &with, b->stream, &err),
         &err);
    must_cuda(cudaStreamSynchronize(b->stream));
    const double to = now_ms();
    must_cuda(cudaMemcpy(&result, b->result, sizeof(result), cudaMemcpyDeviceToHost));
    if (result.yes != call->count || result.refused != 0) {
        fprintf(stderr, "%s: of %llu keys %llu are answered yes\n", hspz_filter_op_name(call->op),
                (unsigned long long)call->count, result.yes);
        exit(1);
    }
    return (float)(to - from);
}

/* Of inserts into the empty filter, and of queries with answers. */
static void
measure(const struct bench *b, struct hspz_filter *const *parts, unsigned count, uint64_t keys,
        double rates[2])
{
    float ms[2][FILTER_REPEATS];
    const struct hspz_cuda_filter_call insert = {
        .op = HSPZ_FILTER_INSERT, .keys = b->keys, .count = keys};
    const struct hspz_cuda_filter_call query = {
        .op = HSPZ_FILTER_QUERY, .keys = b->keys, .count = keys, .yes = b->yes};
    for (int r = -1; r < FILTER_REPEATS; r++) {
        const int at = r < 0 ? 0 : r; /* the first one makes scratch */
        for (unsigned p = 0; p < count; p++) {
            struct hspz_error err = {0};
            must(hspz_cuda_filter_clear(parts[p], NULL, &err), &err);
            must_cuda(cudaDeviceSynchronize());
        }
        must_cuda(cudaSetDevice(0));
        ms[0][at] = time_call(b, parts, count, &insert);
        ms[1][at] = time_call(b, parts, count, &query);
    }
    for (int i = 0; i < 2; i++) {
        rates[i] = (double)keys / 1e6 / filter_time_median(ms[i]);
    }
}

static void
run_row(const struct bench *b, const char *name, struct hspz_filter_spec spec, unsigned log2_slots,
        double load)
{
    double rates[2][2];
    const uint64_t keys = (uint64_t)((double)(UINT64_C(1) << log2_slots) * load);
    for (unsigned i = 0; i < 2; i++) {
        struct hspz_filter_plan plan;
        struct hspz_error err = {0};
        struct hspz_filter *filter = NULL;
        spec.parts = i == 0 ? 1 : b->parts;
        must(hspz_filter_plan(&spec, 0, &plan, &err), &err);
        plan.device = hspz_cuda_engine.filter_device(b->engine, 0);
        for (unsigned p = 0; p < b->parts; p++) {
            plan.part_devices[p] = hspz_cuda_engine.filter_device(b->engine, p % b->devices);
        }
        const struct hspz_filter_ops *ops = hspz_filter_ops_of(&plan, hspz_cuda_filter(spec.kind));
        must(ops->create(&plan, &filter, &err), &err);
        measure(b, i == 0 ? &filter : hspz_filter_split_parts(filter), spec.parts, keys, rates[i]);
        ops->destroy(&filter);
    }
    printf("%-8s 2^%-3u insert %6.2f whole %6.2f in %u parts (%.2f), query %6.2f, %6.2f (%.2f)\n",
           name, log2_slots, rates[0][0], rates[1][0], b->parts, rates[1][0] / rates[0][0],
           rates[0][1], rates[1][1], rates[1][1] / rates[0][1]);
    fflush(stdout);
}

static void
run_size(struct bench *b, unsigned log2_slots)
{
    const uint64_t count = UINT64_C(1) << log2_slots;
    must_cuda(cudaMalloc((void **)&b->keys, count * sizeof(*b->keys)));
    must_cuda(cudaMalloc((void **)&b->yes, count / 8));
    must_cuda(floors_fill((uint32_t *)b->keys, 2 * count, b->stream));
    run_row(b, "tcf", (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF, .slots = count},
            log2_slots, 0.88);
    run_row(b, "gqf",
            (struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = count, .slot_bits = 8},
            log2_slots, 0.9);
    run_row(
        b, "blocked",
        (struct hspz_filter_spec){.kind = HSPZ_FILTER_BLOCKED, .slots = 16 * count, .hashes = 8},
        log2_slots, 1);
    must_cuda(cudaFree(b->keys));
    must_cuda(cudaFree(b->yes));
}

int
main(int argc, char **argv)
{
    struct bench b = {0};
    struct hspz_error err = {0};
    must(hspz_cuda_engine.open(&(struct hspz_engine_config){0}, &b.engine, &err), &err);
    b.devices = hspz_cuda_engine.device_count(b.engine);
    for (b.parts = 2; b.parts < b.devices && b.parts < HSPZ_FILTER_PARTS_MAX;) {
        b.parts *= 2;
    }
    must_cuda(cudaSetDevice(0));
    must_cuda(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    must_cuda(cudaMalloc((void **)&b.result, sizeof(*b.result)));
    printf("%u devices; 10^9 keys a second\n", b.devices);
    for (int i = 1; i < argc; i++) {
        run_size(&b, (unsigned)strtoul(argv[i], NULL, 10));
    }
    for (unsigned log2_slots = 26; argc == 1 && log2_slots <= 28; log2_slots += 2) {
        run_size(&b, log2_slots);
    }
    must_cuda(cudaFree(b.result));
    must_cuda(cudaStreamDestroy(b.stream));
    hspz_cuda_engine.close(&b.engine);
    return 0;
}
