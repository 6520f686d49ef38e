/* The experiments of McCoy et al. (PPoPP 2023) on a card, beside filter_bench and quotient_bench,
 * which have rates by size: 10^9 keys a second, medians of events.
 *
 *   filter_paper bits LOG2        false positives and bits a key of each kind
 *   filter_paper groups LOG2      tcf: threads a key, slots of a block and bits of a tag
 *   filter_paper counts LOG2 ...  gqf: distinct keys, keys that come 1 to 100 times, as Zipf has it
 *                                 with exponent 1.5, and 21-mers of reads
 *
 * LOG2 is of slots of a tcf or gqf, keys of a bloom filter. A wrong answer to a key that is there
 * ends the program. */
#include "tests/bench/cuda_bench.h"
#include "tests/bench/filter_groups.h"
#include "tests/bench/filter_time.h"
#include "tests/bench/floors.h"

#include <math.h>
#include <string.h>

struct data {
    uint64_t *keys; /* 2 * slots */
    uint32_t *yes;
    uint64_t slots;
};

static struct data
make_data(const struct filter_time *t, unsigned log2_slots)
{
    struct data data = {.slots = UINT64_C(1) << log2_slots};
    must_cuda(cudaMalloc((void **)&data.keys, 2 * data.slots * sizeof(*data.keys)));
    must_cuda(cudaMalloc((void **)&data.yes, data.slots / 4));
    must_cuda(floors_fill((uint32_t *)data.keys, 4 * data.slots, t->stream));
    return data;
}

static void
free_data(struct data *data)
{
    must_cuda(cudaFree(data->keys));
    must_cuda(cudaFree(data->yes));
}

/* ---- bits ---- */

struct kind {
    const char *name;
    struct hspz_filter_spec spec; /* slots: as many a thousand */
    double load;                  /* keys a slot; a thousandth of them of a bloom filter */
    enum hspz_cuda_filter_way way;
};

static const struct kind kinds[] = {
    {"tcf 16, blocks of 16", {.kind = HSPZ_FILTER_TCF, .slots = 1000}, 0.90, 0},
    {"the same, bulk", {.kind = HSPZ_FILTER_TCF, .slots = 1000}, 0.90, HSPZ_CUDA_FILTER_BULK},
    {"tcf 8, blocks of 16", {.kind = HSPZ_FILTER_TCF, .slots = 1000, .slot_bits = 8}, 0.90, 0},
    {"tcf 12, blocks of 32",
     {.kind = HSPZ_FILTER_TCF, .slots = 1000, .slot_bits = 12, .block_slots = 32},
     0.90,
     0},
    {"tcf 32, blocks of 16", {.kind = HSPZ_FILTER_TCF, .slots = 1000, .slot_bits = 32}, 0.90, 0},
    {"gqf 8", {.kind = HSPZ_FILTER_GQF, .slots = 1000, .slot_bits = 8}, 0.95, 0},
    {"gqf 16", {.kind = HSPZ_FILTER_GQF, .slots = 1000, .slot_bits = 16}, 0.95, 0},
    {"sqf 8", {.kind = HSPZ_FILTER_SQF, .slots = 1000, .slot_bits = 8}, 0.95, 0},
    {"rsqf 8", {.kind = HSPZ_FILTER_RSQF, .slots = 1000, .slot_bits = 8}, 0.95, 0},
    {"Bloom, 7 of 10.1", {.kind = HSPZ_FILTER_BLOOM, .slots = 10100, .hashes = 7}, 1, 0},
    {"blocked, 5 of 9.73", {.kind = HSPZ_FILTER_BLOCKED, .slots = 9730, .hashes = 5}, 1, 0},
    {"blocked, 5 of 10.1", {.kind = HSPZ_FILTER_BLOCKED, .slots = 10100, .hashes = 5}, 1, 0},
    {"blocked, 8 of 16", {.kind = HSPZ_FILTER_BLOCKED, .slots = 16000, .hashes = 8}, 1, 0},
};

static void
run_bits(const struct filter_time *t, unsigned log2_slots)
{
    struct data data = make_data(t, log2_slots);
    printf("filter                  load   bits/key   expected   measured, of %llu absent keys\n",
           (unsigned long long)data.slots);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct kind *kind = &kinds[i];
        struct hspz_filter_spec spec = kind->spec;
        const uint64_t count = (uint64_t)((double)data.slots * kind->load);
        struct hspz_cuda_filter_result absent;
        spec.slots = spec.slots == 1000
                         ? data.slots
                         : (uint64_t)((double)data.slots * 1e-3 * (double)spec.slots);
        const struct hspz_filter_plan plan = filter_time_plan(t, &spec);
        struct hspz_filter *filter = filter_time_create(&plan);
        struct hspz_cuda_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = data.keys, .count = count, .way = kind->way};
        struct hspz_filter_stats stats;
        (void)filter_time_sure(t, filter, &call);
        call.op = HSPZ_FILTER_QUERY;
        (void)filter_time_sure(t, filter, &call);
        call.keys = data.keys + data.slots;
        call.count = data.slots;
        (void)filter_time_call(t, filter, &call, &absent);
        hspz_cuda_filter(spec.kind)->stats(filter, &stats);
        printf("%-22s %.3f %8.2f     %.2e   %.2e\n", kind->name, kind->load,
               (double)plan.bytes * 8 / (double)count, stats.rate,
               (double)absent.yes / (double)data.slots);
        fflush(stdout);
        hspz_cuda_filter(spec.kind)->destroy(&filter);
    }
    free_data(&data);
}

/* ---- groups ---- */

static float
time_group(const struct filter_time *t, const struct hspz_cuda_tcf *tcf,
           const struct hspz_filter_plan *plan, unsigned lanes, enum hspz_filter_op op,
           const uint64_t *keys, uint64_t count, bool sure)
{
    float ms = 0;
    unsigned long long yes = 0;
    must_cuda(cudaMemsetAsync(t->result, 0, sizeof(*t->result), t->stream));
    must_cuda(cudaEventRecord(t->from, t->stream));
    must_cuda(filter_groups_run(tcf, plan->spec.slot_bits, plan->spec.block_slots, lanes, op, keys,
                                count, &t->result->yes, t->stream));
    must_cuda(cudaEventRecord(t->to, t->stream));
    must_cuda(cudaEventSynchronize(t->to));
    must_cuda(cudaEventElapsedTime(&ms, t->from, t->to));
    must_cuda(cudaMemcpy(&yes, &t->result->yes, sizeof(yes), cudaMemcpyDeviceToHost));
    if (sure && yes != count) {
        fprintf(stderr, "%s by %u threads: of %llu keys, %llu are answered yes\n",
                hspz_filter_op_name(op), lanes, (unsigned long long)count, yes);
        exit(1);
    }
    return ms;
}

static void
run_group(const struct filter_time *t, const struct data *data, struct hspz_filter *filter,
          const struct hspz_filter_plan *plan, unsigned lanes)
{
    const uint64_t count = (uint64_t)((double)data->slots * 0.9);
    const uint64_t *absent = data->keys + data->slots;
    float ms[4][FILTER_REPEATS];
    struct hspz_cuda_tcf tcf;
    struct hspz_error err = {0};
    must(hspz_cuda_filter_tcf_view(filter, &tcf, &err), &err);
    for (int r = 0; r < FILTER_REPEATS; r++) {
        filter_time_clear(t, filter);
        ms[0][r] = time_group(t, &tcf, plan, lanes, HSPZ_FILTER_INSERT, data->keys, count, true);
        ms[1][r] = time_group(t, &tcf, plan, lanes, HSPZ_FILTER_QUERY, data->keys, count, true);
        ms[2][r] = time_group(t, &tcf, plan, lanes, HSPZ_FILTER_QUERY, absent, count, false);
        ms[3][r] = time_group(t, &tcf, plan, lanes, HSPZ_FILTER_DELETE, data->keys, count, true);
    }
    printf("  %2u: ", lanes);
    for (int i = 0; i < 4; i++) {
        printf("%.1f%s", (double)count / 1e6 / filter_time_median(ms[i]), i < 3 ? " / " : "");
    }
    fflush(stdout);
}

static void
run_groups(const struct filter_time *t, unsigned log2_slots)
{
    static const unsigned shapes[][2] = {{8, 16},  {8, 32},  {8, 64}, {16, 16},
                                         {16, 32}, {16, 64}, {32, 16}};
    struct data data = make_data(t, log2_slots);
    printf("tag, slots of a block; threads a key: insert / present / absent / delete\n");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_TCF,
                                              .slots = data.slots,
                                              .slot_bits = shapes[i][0],
                                              .block_slots = shapes[i][1]};
        const struct hspz_filter_plan plan = filter_time_plan(t, &spec);
        struct hspz_filter *filter = filter_time_create(&plan);
        printf("%2u, %2u", shapes[i][0], shapes[i][1]);
        for (unsigned lanes = 1; lanes <= 32; lanes *= 2) {
            run_group(t, &data, filter, &plan, lanes);
        }
        printf("\n");
        hspz_cuda_filter(HSPZ_FILTER_TCF)->destroy(&filter);
    }
    free_data(&data);
}

/* ---- counts ---- */

static void
run_counts(const struct filter_time *t, unsigned log2_slots)
{
    static const char *const names[] = {"distinct", "1 to 100", "Zipf 1.5", "21-mers"};
    struct data data = make_data(t, log2_slots);
    const struct hspz_filter_spec spec = {
        .kind = HSPZ_FILTER_GQF, .slots = data.slots, .slot_bits = 8, .seed = 1};
    const struct hspz_filter_plan plan = filter_time_plan(t, &spec);
    struct hspz_filter *filter = filter_time_create(&plan);
    for (int i = 0; i < 4; i++) {
        float ms[2][FILTER_REPEATS];
        struct hspz_filter_stats stats;
        struct hspz_cuda_filter_call call = {.keys = data.keys,
                                             .count = (uint64_t)((double)data.slots * 0.9)};
        if (i == 1) {
            must_cuda(floors_hundreds(data.keys, call.count, t->stream));
        } else if (i == 2) {
            must_cuda(floors_zipf(data.keys, call.count, t->stream));
        } else if (i == 3) {
            call.count = 2 * data.slots;
            must_cuda(floors_words(data.keys, call.count, t->stream));
        }
        for (int r = -1; r < FILTER_REPEATS; r++) {
            filter_time_clear(t, filter);
            call.op = HSPZ_FILTER_INSERT;
            ms[0][r < 0 ? 0 : r] = filter_time_sure(t, filter, &call);
            call.op = HSPZ_FILTER_COUNT;
            ms[1][r < 0 ? 0 : r] = filter_time_sure(t, filter, &call);
        }
        hspz_cuda_filter(HSPZ_FILTER_GQF)->stats(filter, &stats);
        printf("2^%-3u %-9s %11llu %11llu  %.2f %7.2f %7.2f\n", log2_slots, names[i],
               (unsigned long long)call.count, (unsigned long long)stats.entries, stats.load,
               (double)call.count / 1e6 / filter_time_median(ms[0]),
               (double)call.count / 1e6 / filter_time_median(ms[1]));
        fflush(stdout);
    }
    hspz_cuda_filter(HSPZ_FILTER_GQF)->destroy(&filter);
    free_data(&data);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const struct filter_time *t, unsigned log2_slots);
    } modes[] = {{"bits", run_bits}, {"groups", run_groups}, {"counts", run_counts}};
    struct filter_time t = {0};
    size_t mode = 0;
    while (mode < 3 && (argc < 3 || strcmp(argv[1], modes[mode].name) != 0)) {
        mode++;
    }
    if (mode == 3) {
        fprintf(stderr, "usage: filter_paper bits|groups|counts LOG2 ...\n");
        return 2;
    }
    filter_time_open(&t);
    if (modes[mode].run == run_counts) {
        printf("gqf   keys          inserted    distinct  load  insert   count\n");
    }
    for (int i = 2; i < argc; i++) {
        modes[mode].run(&t, (unsigned)strtoul(argv[i], NULL, 10));
    }
    filter_time_close(&t);
    return 0;
}
