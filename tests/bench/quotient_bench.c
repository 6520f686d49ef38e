/* Quotient filters on a card, keys on the card: 10^9 operations a second, medians of events.
 *
 *   quotient_bench [LOG2 ...]     slots; 22 24 26 28
 *   ncu --profile-from-start off --clock-control none --csv \
 *       --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum \
 *       quotient_bench stages LOG2 ...    each change of a gqf once, and its kernels alone profiled
 *
 * insert     0.9 of the slots into an empty filter
 * half       0.45 into one that has 0.45
 * batch      0.01 into one that has 0.45; its time in percent of that of `insert` beside it
 * delete     0.45 of 0.9
 * zipf ...   keys that come again (tests/bench/floors.h), into an empty counting filter; `distinct`
 *            is `insert`'s rate for the same number of keys
 * point      0.9 of the slots into an empty filter, a thread a key, under locks; once
 *
 * Floors: `sort` sorts the keys of `insert` by as many bits; `sectors` a second at random places of
 * so much memory. A wrong answer to a key that is there ends the program. */
#include "engine/cuda/filter.h"
#include "engine/cuda/kernels/quotient.h"
#include "engine/engine.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/floors.h"

#include <cuda_profiler_api.h>
#include <math.h>
#include <string.h>

#define REPEATS 5

struct bench {
    struct hspz_engine *engine;
    cudaStream_t stream;
    cudaEvent_t from, to;
    uint64_t *keys; /* as many as slots, and as many more that are not put in */
    uint64_t *again;
    uint32_t *yes, *sink;
    struct hspz_cuda_filter_result *result;
    struct hspz_filter *filter;
    struct hspz_filter_plan plan;
    enum hspz_cuda_filter_way way;
    bool profiled;
};

static int
by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float
median(float ms[REPEATS])
{
    qsort(ms, REPEATS, sizeof(ms[0]), by_value);
    return ms[REPEATS / 2];
}

/* Milliseconds; `sure`: every key must be answered yes. */
static float
run(struct bench *b, enum hspz_filter_op op, const uint64_t *keys, uint64_t count, bool sure,
    uint64_t *yes)
{
    struct hspz_error err = {0};
    struct hspz_cuda_filter_result result;
    float ms = 0;
    const struct hspz_cuda_filter_call call = {.op = op,
                                               .keys = keys,
                                               .count = count,
                                               .yes = op == HSPZ_FILTER_QUERY ? b->yes : NULL,
                                               .result = b->result,
                                               .way = b->way};
    must_cuda(cudaMemsetAsync(b->result, 0, sizeof(result), b->stream));
    must_cuda(cudaEventRecord(b->from, b->stream));
    must(hspz_cuda_filter_run(b->filter, &call, b->stream, &err), &err);
    must_cuda(cudaEventRecord(b->to, b->stream));
    must_cuda(cudaEventSynchronize(b->to));
    must_cuda(cudaEventElapsedTime(&ms, b->from, b->to));
    must_cuda(cudaMemcpy(&result, b->result, sizeof(result), cudaMemcpyDeviceToHost));
    if (sure && (result.yes != count || result.refused != 0)) {
        fprintf(stderr, "%s: of %llu keys, %llu are answered yes and %llu were refused\n",
                hspz_filter_op_name(op), (unsigned long long)count, result.yes, result.refused);
        exit(1);
    }
    if (yes != NULL) {
        *yes = result.yes;
    }
    return ms;
}

static void
clear(struct bench *b)
{
    struct hspz_error err = {0};
    must(hspz_cuda_filter_clear(b->filter, b->stream, &err), &err);
}

static double
rate(uint64_t count, float ms)
{
    return (double)count / 1e6 / ms;
}

/* Inserts `count` keys behind `before` that are there. */
static float
time_insert(struct bench *b, const uint64_t *keys, uint64_t before, uint64_t count)
{
    float ms[REPEATS];
    for (int r = -1; r < REPEATS; r++) {
        clear(b);
        if (before > 0) {
            (void)run(b, HSPZ_FILTER_INSERT, keys, before, true, NULL);
        }
        const float time = run(b, HSPZ_FILTER_INSERT, keys + before, count, true, NULL);
        ms[r < 0 ? 0 : r] = time; /* the first one makes scratch */
    }
    return median(ms);
}

static float
time_query(struct bench *b, const uint64_t *keys, uint64_t count, bool sure, uint64_t *yes)
{
    float ms[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        ms[r] = run(b, HSPZ_FILTER_QUERY, keys, count, sure, yes);
    }
    return median(ms);
}

/* Of a full filter; keys of one fingerprint go together. */
static float
time_delete(struct bench *b, uint64_t full, uint64_t count)
{
    float ms[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        clear(b);
        (void)run(b, HSPZ_FILTER_INSERT, b->keys, full, true, NULL);
        ms[r] = run(b, HSPZ_FILTER_DELETE, b->keys, count, false, NULL);
    }
    return median(ms);
}

static float
time_sort(struct bench *b, uint64_t count)
{
    const unsigned bits = b->plan.quotient_bits + b->plan.remainder_bits;
    uint32_t *const indices[2] = {NULL, NULL};
    void *keys[2], *temp;
    size_t bytes = 0;
    float ms[REPEATS];
    must_cuda(hspz_cuda_quotient_temp_bytes(count, bits, false, 1, &bytes));
    must_cuda(cudaMalloc(&temp, bytes));
    must_cuda(cudaMalloc(&keys[0], count * 8));
    must_cuda(cudaMalloc(&keys[1], count * 8));
    for (int r = 0; r < REPEATS; r++) {
        unsigned now = 0;
        must_cuda(cudaMemcpy(keys[0], b->keys, count * 8, cudaMemcpyDeviceToDevice));
        must_cuda(cudaEventRecord(b->from, b->stream));
        must_cuda(hspz_cuda_launch_quotient_sort(keys, indices, &now, count, 0, bits, false, temp,
                                                 bytes, b->stream));
        must_cuda(cudaEventRecord(b->to, b->stream));
        must_cuda(cudaEventSynchronize(b->to));
        must_cuda(cudaEventElapsedTime(&ms[r], b->from, b->to));
    }
    must_cuda(cudaFree(temp));
    must_cuda(cudaFree(keys[0]));
    must_cuda(cudaFree(keys[1]));
    return median(ms);
}

static double
time_sectors(struct bench *b)
{
    const uint64_t count = UINT64_C(1) << 28;
    unsigned log2_words = 10;
    float ms[REPEATS];
    uint64_t *table = NULL;
    while ((UINT64_C(16) << log2_words) <= b->plan.bytes) {
        log2_words++;
    }
    must_cuda(cudaMalloc((void **)&table, UINT64_C(8) << log2_words));
    for (int r = 0; r < REPEATS; r++) {
        must_cuda(cudaEventRecord(b->from, b->stream));
        must_cuda(floors_gather(table, log2_words, count, 4096, b->sink, b->stream));
        must_cuda(cudaEventRecord(b->to, b->stream));
        must_cuda(cudaEventSynchronize(b->to));
        must_cuda(cudaEventElapsedTime(&ms[r], b->from, b->to));
    }
    must_cuda(cudaFree(table));
    return rate(count, median(ms));
}

static void
open_filter(struct bench *b, enum hspz_filter_kind kind, unsigned log2_slots)
{
    struct hspz_error err = {0};
    const struct hspz_filter_spec spec = {
        .kind = kind, .slots = UINT64_C(1) << log2_slots, .slot_bits = 8, .seed = 1};
    must(hspz_filter_plan(&spec, 0, &b->plan, &err), &err);
    b->plan.device = hspz_cuda_engine.filter_device(b->engine, 0);
    must(hspz_cuda_filter(kind)->create(&b->plan, &b->filter, &err), &err);
}

static void
run_kind(struct bench *b, enum hspz_filter_kind kind, unsigned log2_slots)
{
    const uint64_t slots = UINT64_C(1) << log2_slots;
    const uint64_t full = slots / 10 * 9, half = full / 2, few = slots / 100;
    uint64_t yes = 0;
    open_filter(b, kind, log2_slots);
    const float half_ms = time_insert(b, b->keys, half, half);
    const float few_ms = time_insert(b, b->keys, half, few);
    const float insert_ms = time_insert(b, b->keys, 0, full);
    const float present_ms = time_query(b, b->keys, full, true, NULL);
    const float absent_ms = time_query(b, b->keys + slots, full, false, &yes);
    const float delete_ms = kind == HSPZ_FILTER_RSQF ? 0 : time_delete(b, full, half);
    printf("%-5s 2^%-3u %6.2f  %.1e %7.2f %6.2f %6.2f %4.1f%% %7.2f %7.2f ",
           hspz_filter_kind_name(kind), log2_slots, (double)b->plan.bytes * 8 / (double)full,
           (double)yes / (double)full, rate(full, insert_ms), rate(half, half_ms),
           rate(few, few_ms), (double)few_ms / insert_ms * 100, rate(full, present_ms),
           rate(full, absent_ms));
    if (delete_ms > 0) {
        printf("%7.2f", rate(half, delete_ms));
    } else {
        printf("      -");
    }
    printf(" %7.2f %8.1f\n", rate(full, time_sort(b, full)), time_sectors(b));
    fflush(stdout);
    hspz_cuda_filter(kind)->destroy(&b->filter);
}

static void
run_counts(struct bench *b, unsigned log2_slots)
{
    const uint64_t count = (UINT64_C(1) << log2_slots) / 10 * 9;
    float ms[3], query_ms[2];
    open_filter(b, HSPZ_FILTER_GQF, log2_slots);
    must_cuda(floors_zipf(b->again, count, b->stream));
    ms[0] = time_insert(b, b->again, 0, count);
    query_ms[0] = time_query(b, b->again, count, true, NULL);
    must_cuda(floors_hundreds(b->again, count, b->stream));
    ms[1] = time_insert(b, b->again, 0, count);
    query_ms[1] = time_query(b, b->again, count, true, NULL);
    ms[2] = time_insert(b, b->keys, 0, count);
    clear(b);
    b->way = HSPZ_CUDA_FILTER_POINT;
    const float point_ms = run(b, HSPZ_FILTER_INSERT, b->keys, count, true, NULL);
    b->way = HSPZ_CUDA_FILTER_AUTO;
    printf("count 2^%-3u zipf 1.5 %.2f, 1..100 %.2f, distinct %.2f; query zipf %.2f, 1..100 %.2f;"
           " point insert %.3f\n",
           log2_slots, rate(count, ms[0]), rate(count, ms[1]), rate(count, ms[2]),
           rate(count, query_ms[0]), rate(count, query_ms[1]), rate(count, point_ms));
    fflush(stdout);
    hspz_cuda_filter(HSPZ_FILTER_GQF)->destroy(&b->filter);
}

/* One change between marks of a profiler, behind another of the same size that makes scratch. */
static void
run_stage(struct bench *b, const char *name, uint64_t before, enum hspz_filter_op op,
          const uint64_t *keys, uint64_t count)
{
    float ms = 0;
    for (int r = 0; r < 2; r++) {
        clear(b);
        if (before > 0) {
            (void)run(b, HSPZ_FILTER_INSERT, b->keys, before, true, NULL);
        }
        if (r == 1) {
            printf("stage %s of %llu keys\n", name, (unsigned long long)count);
            fflush(stdout);
            must_cuda(cudaProfilerStart());
        }
        ms = run(b, op, keys, count, op == HSPZ_FILTER_INSERT, NULL);
        must_cuda(cudaProfilerStop());
    }
    printf("stage %s: %.3f ms\n", name, (double)ms);
    fflush(stdout);
}

static void
run_stages(struct bench *b, unsigned log2_slots)
{
    const uint64_t slots = UINT64_C(1) << log2_slots, full = slots / 10 * 9, half = full / 2;
    printf("stages at 2^%u slots\n", log2_slots);
    open_filter(b, HSPZ_FILTER_GQF, log2_slots);
    run_stage(b, "insert", 0, HSPZ_FILTER_INSERT, b->keys, full);
    run_stage(b, "half", half, HSPZ_FILTER_INSERT, b->keys + half, half);
    run_stage(b, "batch", half, HSPZ_FILTER_INSERT, b->keys + half, slots / 100);
    run_stage(b, "delete", full, HSPZ_FILTER_DELETE, b->keys, half);
    b->way = HSPZ_CUDA_FILTER_POINT;
    run_stage(b, "point", 0, HSPZ_FILTER_INSERT, b->keys, full);
    b->way = HSPZ_CUDA_FILTER_AUTO;
    hspz_cuda_filter(HSPZ_FILTER_GQF)->destroy(&b->filter);
}

static void
run_size(struct bench *b, unsigned log2_slots)
{
    const uint64_t slots = UINT64_C(1) << log2_slots;
    must_cuda(cudaMalloc((void **)&b->keys, 2 * slots * sizeof(*b->keys)));
    must_cuda(cudaMalloc((void **)&b->again, slots * sizeof(*b->again)));
    must_cuda(cudaMalloc((void **)&b->yes, slots / 8 + 4));
    must_cuda(floors_fill((uint32_t *)b->keys, 4 * slots, b->stream));
    if (b->profiled) {
        run_stages(b, log2_slots);
    } else {
        run_kind(b, HSPZ_FILTER_GQF, log2_slots);
        run_counts(b, log2_slots);
        run_kind(b, HSPZ_FILTER_SQF, log2_slots);
        run_kind(b, HSPZ_FILTER_RSQF, log2_slots);
    }
    must_cuda(cudaFree(b->keys));
    must_cuda(cudaFree(b->again));
    must_cuda(cudaFree(b->yes));
}

int
main(int argc, char **argv)
{
    static const unsigned sizes[] = {22, 24, 26, 28};
    struct bench b = {0};
    struct hspz_error err = {0};
    const char *const first[] = {"0"};
    const struct hspz_engine_config config = {.cuda = {.devices = first, .device_count = 1}};
    must(hspz_cuda_engine.open(&config, &b.engine, &err), &err);
    must_cuda(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    must_cuda(cudaEventCreate(&b.from));
    must_cuda(cudaEventCreate(&b.to));
    must_cuda(cudaMalloc((void **)&b.result, sizeof(*b.result)));
    must_cuda(cudaMalloc((void **)&b.sink, sizeof(*b.sink)));
    printf("             bits/    false\n"
           "kind  size     key positive  insert   half  batch       present  absent  delete    sort"
           "  sectors\n");
    b.profiled = argc > 1 && strcmp(argv[1], "stages") == 0;
    for (int i = b.profiled ? 2 : 1; i < argc; i++) {
        run_size(&b, (unsigned)strtoul(argv[i], NULL, 10));
    }
    for (int i = 0; argc == 1 && i < 4; i++) {
        run_size(&b, sizes[i]);
    }
    must_cuda(cudaFree(b.result));
    must_cuda(cudaFree(b.sink));
    must_cuda(cudaEventDestroy(b.from));
    must_cuda(cudaEventDestroy(b.to));
    must_cuda(cudaStreamDestroy(b.stream));
    hspz_cuda_engine.close(&b.engine);
    return 0;
}
