/* Filters on a card, keys on the card: operations a second, medians of events.
 *
 *   filter_bench [-r ROW] [-l LOAD] [LOG2 ...]     sizes in slots of a tcf, keys of a bloom filter;
 *                                                  22 26 28
 *
 * ROW: of those rows alone whose names begin so. LOAD: keys a slot, instead of the rows' own.
 * `sectors` is how many random sectors a second can be read of as much memory as the filter has: an
 * operation touches one at least. A wrong answer to a key that is there ends the program. */
#include "engine/cuda/filter.h"
#include "engine/engine.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/floors.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define REPEATS 5

struct row {
    const char *name;
    enum hspz_filter_kind kind;
    enum hspz_cuda_filter_way way;
    double load;     /* keys a slot */
    double bits;     /* bloom and blocked: bits a key */
    unsigned hashes; /* the same */
    unsigned values; /* bits */
};

static const struct row rows[] = {
    {"tcf", HSPZ_FILTER_TCF, HSPZ_CUDA_FILTER_POINT, 0.90, 0, 0, 0},
    {"tcf bulk", HSPZ_FILTER_TCF, HSPZ_CUDA_FILTER_BULK, 0.90, 0, 0, 0},
    {"tcf, 16-bit values", HSPZ_FILTER_TCF, HSPZ_CUDA_FILTER_POINT, 0.90, 0, 0, 16},
    {"tcf bulk, values", HSPZ_FILTER_TCF, HSPZ_CUDA_FILTER_BULK, 0.90, 0, 0, 16},
    {"bloom", HSPZ_FILTER_BLOOM, HSPZ_CUDA_FILTER_POINT, 1, 10.1, 7, 0},
    {"bloom bulk", HSPZ_FILTER_BLOOM, HSPZ_CUDA_FILTER_BULK, 1, 10.1, 7, 0},
    {"blocked 10", HSPZ_FILTER_BLOCKED, HSPZ_CUDA_FILTER_POINT, 1, 10.1, 5, 0},
    {"blocked 10 bulk", HSPZ_FILTER_BLOCKED, HSPZ_CUDA_FILTER_BULK, 1, 10.1, 5, 0},
    {"blocked 16", HSPZ_FILTER_BLOCKED, HSPZ_CUDA_FILTER_POINT, 1, 16, 8, 0},
    {"blocked 16 bulk", HSPZ_FILTER_BLOCKED, HSPZ_CUDA_FILTER_BULK, 1, 16, 8, 0},
};

struct bench {
    const char *row;
    double load; /* 0: that of the row */
    struct hspz_engine *engine;
    cudaStream_t stream;
    cudaEvent_t from, to;
    uint64_t *keys; /* those that go in, and behind them as many that do not */
    uint64_t count;
    struct hspz_cuda_filter_result *result;
    uint32_t *yes;
    uint32_t *sink;
};

enum timed { INSERT, PRESENT, ABSENT, DELETE, TIMED };

static int
by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static struct hspz_filter_plan
plan_row(struct bench *bench, const struct row *row, unsigned log2_slots)
{
    struct hspz_filter_plan plan;
    struct hspz_error err = {0};
    const double size = ldexp(1, (int)log2_slots);
    struct hspz_filter_spec spec = {.kind = row->kind,
                                    .slots = (uint64_t)(row->bits != 0 ? size * row->bits : size),
                                    .hashes = row->hashes,
                                    .value_bits = row->values};
    must(hspz_filter_plan(&spec, 0, &plan, &err), &err);
    plan.device = hspz_cuda_engine.filter_device(bench->engine, 0);
    bench->count = (uint64_t)(size * (bench->load != 0 ? bench->load : row->load));
    return plan;
}

/* Milliseconds of a call; what it came to. */
static float
time_call(struct bench *bench, struct hspz_filter *filter, const struct row *row, enum timed what,
          struct hspz_cuda_filter_result *result)
{
    static const enum hspz_filter_op ops[TIMED] = {HSPZ_FILTER_INSERT, HSPZ_FILTER_QUERY,
                                                   HSPZ_FILTER_QUERY, HSPZ_FILTER_DELETE};
    struct hspz_error err = {0};
    float ms = 0;
    const struct hspz_cuda_filter_call call = {
        .op = ops[what],
        .keys = bench->keys + (what == ABSENT ? bench->count : 0),
        .count = bench->count,
        .yes = what == PRESENT || what == ABSENT ? bench->yes : NULL,
        .result = bench->result,
        .way = row->way};
    must_cuda(cudaMemsetAsync(bench->result, 0, sizeof(*result), bench->stream));
    must_cuda(cudaEventRecord(bench->from, bench->stream));
    must(hspz_cuda_filter_run(filter, &call, bench->stream, &err), &err);
    must_cuda(cudaEventRecord(bench->to, bench->stream));
    must_cuda(cudaEventSynchronize(bench->to));
    must_cuda(cudaEventElapsedTime(&ms, bench->from, bench->to));
    must_cuda(cudaMemcpy(result, bench->result, sizeof(*result), cudaMemcpyDeviceToHost));
    return ms;
}

/* G sectors a second. */
static double
time_sectors(struct bench *bench, uint64_t bytes)
{
    float ms[REPEATS];
    uint32_t *table = NULL;
    const uint64_t count = UINT64_C(1) << 28, sectors = bytes / 32;
    must_cuda(cudaMalloc((void **)&table, sectors * 32));
    for (int i = 0; i < REPEATS; i++) {
        must_cuda(cudaEventRecord(bench->from, bench->stream));
        must_cuda(floors_sectors(table, sectors, count, 4096, bench->sink, bench->stream));
        must_cuda(cudaEventRecord(bench->to, bench->stream));
        must_cuda(cudaEventSynchronize(bench->to));
        must_cuda(cudaEventElapsedTime(&ms[i], bench->from, bench->to));
    }
    must_cuda(cudaFree(table));
    qsort(ms, REPEATS, sizeof(ms[0]), by_value);
    return (double)count / 1e6 / ms[REPEATS / 2];
}

static void
check(const struct row *row, enum timed what, uint64_t count,
      const struct hspz_cuda_filter_result *result)
{
    if (what != ABSENT && (result->yes != count || result->refused != 0)) {
        fprintf(stderr, "%s: of %llu keys, %llu are answered yes and %llu were refused\n",
                row->name, (unsigned long long)count, result->yes, result->refused);
        exit(1);
    }
}

static void
run_row(struct bench *bench, const struct row *row, unsigned log2_slots)
{
    const struct hspz_filter_plan plan = plan_row(bench, row, log2_slots);
    const struct hspz_filter_ops *ops = hspz_cuda_filter(row->kind);
    const int timed = row->kind == HSPZ_FILTER_TCF ? TIMED : ABSENT + 1;
    struct hspz_filter *filter = NULL;
    struct hspz_error err = {0};
    struct hspz_cuda_filter_result result;
    float ms[TIMED][REPEATS + 1] = {{0}};
    double rate = 0;
    must(ops->create(&plan, &filter, &err), &err);
    for (int r = 0; r <= REPEATS; r++) {
        must(hspz_cuda_filter_clear(filter, bench->stream, &err), &err);
        for (int t = 0; t < timed; t++) {
            ms[t][r] = time_call(bench, filter, row, (enum timed)t, &result);
            check(row, (enum timed)t, bench->count, &result);
            rate = t == ABSENT ? (double)result.yes / (double)bench->count : rate;
        }
    }
    ops->destroy(&filter);
    printf("%-19s 2^%-3u %.2f %6.2f  %.1e", row->name, log2_slots,
           ldexp((double)bench->count, -(int)log2_slots),
           (double)plan.bytes * 8 / (double)bench->count, rate);
    for (int t = 0; t < TIMED; t++) {
        /* The first one made scratch. */
        qsort(ms[t] + 1, REPEATS, sizeof(ms[t][0]), by_value);
        if (t < timed) {
            printf(" %7.1f", (double)bench->count / 1e6 / ms[t][1 + REPEATS / 2]);
        } else {
            printf("       -");
        }
    }
    printf(" %8.1f\n", time_sectors(bench, plan.bytes));
    fflush(stdout);
}

static void
run_size(struct bench *bench, unsigned log2_slots)
{
    const uint64_t most = UINT64_C(1) << log2_slots;
    must_cuda(cudaMalloc((void **)&bench->keys, 2 * most * sizeof(*bench->keys)));
    must_cuda(cudaMalloc((void **)&bench->yes, most / 8 + 4));
    must_cuda(floors_fill((uint32_t *)bench->keys, 4 * most, bench->stream));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strncmp(rows[i].name, bench->row, strlen(bench->row)) == 0) {
            run_row(bench, &rows[i], log2_slots);
        }
    }
    must_cuda(cudaFree(bench->keys));
    must_cuda(cudaFree(bench->yes));
}

int
main(int argc, char **argv)
{
    struct bench bench = {.row = ""};
    struct hspz_error err = {0};
    for (int option; (option = getopt(argc, argv, "r:l:")) != -1;) {
        if (option == 'r') {
            bench.row = optarg;
        } else if (option == 'l') {
            bench.load = strtod(optarg, NULL);
        } else {
            return 2;
        }
    }
    const char *const first[] = {"0"};
    /* The arrays of keys are not counted. */
    const struct hspz_engine_config config = {.cuda = {.devices = first, .device_count = 1}};
    must(hspz_cuda_engine.open(&config, &bench.engine, &err), &err);
    must_cuda(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking));
    must_cuda(cudaEventCreate(&bench.from));
    must_cuda(cudaEventCreate(&bench.to));
    must_cuda(cudaMalloc((void **)&bench.result, sizeof(*bench.result)));
    must_cuda(cudaMalloc((void **)&bench.sink, sizeof(*bench.sink)));
    printf("10^9 operations a second   bits/    false\n"
           "filter              size  load    key  positive  insert present  absent  delete"
           "  sectors\n");
    for (int i = optind; i < argc; i++) {
        run_size(&bench, (unsigned)strtoul(argv[i], NULL, 10));
    }
    if (optind == argc) {
        run_size(&bench, 22);
        run_size(&bench, 26);
        run_size(&bench, 28);
    }
    must_cuda(cudaFree(bench.result));
    must_cuda(cudaFree(bench.sink));
    must_cuda(cudaEventDestroy(bench.from));
    must_cuda(cudaEventDestroy(bench.to));
    must_cuda(cudaStreamDestroy(bench.stream));
    hspz_cuda_engine.close(&bench.engine);
    return 0;
}
