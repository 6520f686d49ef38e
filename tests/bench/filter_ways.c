/* Where sorting the keys of an insert begins to pay: 10^9 keys a second, medians of events.
 *
 *   filter_ways [LOG2 ...]     slots of a tcf, keys of a bloom filter; 22 .. 28; 25.5 is a size,
 * too
 *
 * A filter that is half full takes a share of what it can hold, key by key (`point`), by regions
 * (`bulk`) and as it chooses itself (`auto`), which ought to be as fast as the faster one. */
#include "tests/bench/cuda_bench.h"
#include "tests/bench/filter_time.h"
#include "tests/bench/floors.h"

#include <math.h>

struct row {
    const char *name;
    enum hspz_filter_kind kind;
    double bits; /* bloom and blocked: a key */
    unsigned hashes;
    double load;
};

static const struct row rows[] = {
    {"bloom", HSPZ_FILTER_BLOOM, 10.1, 7, 1},
    {"blocked 10", HSPZ_FILTER_BLOCKED, 10.1, 5, 1},
    {"blocked 16", HSPZ_FILTER_BLOCKED, 16, 8, 1},
    {"tcf", HSPZ_FILTER_TCF, 0, 0, 0.9},
};

static float
time_way(const struct filter_time *t, struct hspz_filter *filter, const uint64_t *keys,
         uint64_t before, uint64_t count, enum hspz_cuda_filter_way way)
{
    float ms[FILTER_REPEATS];
    const struct hspz_cuda_filter_call half = {
        .op = HSPZ_FILTER_INSERT, .keys = keys, .count = before};
    const struct hspz_cuda_filter_call call = {
        .op = HSPZ_FILTER_INSERT, .keys = keys + before, .count = count, .way = way};
    for (int r = -1; r < FILTER_REPEATS; r++) {
        filter_time_clear(t, filter);
        (void)filter_time_sure(t, filter, &half);
        const float time = filter_time_sure(t, filter, &call);
        ms[r < 0 ? 0 : r] = time; /* the first one makes scratch */
    }
    return filter_time_median(ms);
}

static void
run_row(const struct filter_time *t, const struct row *row, double log2_slots, const uint64_t *keys)
{
    static const enum hspz_cuda_filter_way ways[] = {HSPZ_CUDA_FILTER_POINT, HSPZ_CUDA_FILTER_BULK,
                                                     HSPZ_CUDA_FILTER_AUTO};
    const double size = exp2(log2_slots);
    const struct hspz_filter_spec spec = {.kind = row->kind,
                                          .slots =
                                              (uint64_t)(row->bits != 0 ? size * row->bits : size),
                                          .hashes = row->hashes};
    const struct hspz_filter_plan plan = filter_time_plan(t, &spec);
    struct hspz_filter *filter = filter_time_create(&plan);
    const uint64_t half = (uint64_t)(size * row->load) / 2;
    for (unsigned share = 1; share <= 64; share *= 4) {
        double rate[3];
        for (int w = 0; w < 3; w++) {
            rate[w] = (double)(half / share) / 1e6 /
                      time_way(t, filter, keys, half, half / share, ways[w]);
        }
        printf("%-11s 2^%-4g %7.1f MB  1/%-3u %9llu %6.1f %6.1f %6.1f%s\n", row->name, log2_slots,
               (double)plan.bytes / 1e6, 2 * share, (unsigned long long)(half / share), rate[0],
               rate[1], rate[2], rate[2] < 0.9 * fmax(rate[0], rate[1]) ? "  slower" : "");
    }
    hspz_cuda_filter(row->kind)->destroy(&filter);
    fflush(stdout);
}

static void
run_size(const struct filter_time *t, double log2_slots)
{
    uint64_t *keys = NULL;
    must_cuda(cudaMalloc((void **)&keys, (uint64_t)exp2(log2_slots) * sizeof(*keys)));
    must_cuda(floors_fill((uint32_t *)keys, 2 * (uint64_t)exp2(log2_slots), t->stream));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run_row(t, &rows[i], log2_slots, keys);
    }
    must_cuda(cudaFree(keys));
}

int
main(int argc, char **argv)
{
    struct filter_time t = {0};
    filter_time_open(&t);
    printf("filter      size              of it      keys  point   bulk   auto\n");
    for (int i = 1; i < argc; i++) {
        run_size(&t, strtod(argv[i], NULL));
    }
    for (int log2_slots = 22; argc == 1 && log2_slots <= 28; log2_slots++) {
        run_size(&t, log2_slots);
    }
    filter_time_close(&t);
    return 0;
}
