/* An index built on a device: each step of it beside its floor, then the whole, then the way to and
 * from the host, and the CPU's build of the same for its bytes.
 *
 *   build_bench [--bases N] [--budget BYTES] [--no-cpu] [PATTERN ...]
 *
 * Floors are bytes that must move, at the rate of a copy measured in the same run. */
#include "engine/cuda/build.h"
#include "engine/cuda/build_block.h"
#include "engine/engine.h"
#include "engine/sequences.h"
#include "tests/bench/cuda_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 7
#define COPY_BYTES (UINT64_C(2) << 30)

static uint64_t
draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Every word about as often as every other: the worst case of a sort. */
static struct hspz_sequences *
random_sequences(size_t len)
{
    struct hspz_error err = {0};
    struct hspz_sequences *seqs = NULL;
    uint8_t *bases = malloc(len + 32);
    uint64_t seed = 1;
    size_t bad;
    if (bases == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < len; i += 32) {
        uint64_t r = draw(&seed);
        for (size_t j = 0; j < 32; j++, r >>= 2) {
            bases[i + j] = (uint8_t) "ACGT"[r & 3];
        }
    }
    must(hspz_sequences_create(HSPZ_BLOCK_BASES_LIMIT, &seqs), &err);
    must(hspz_sequences_begin(seqs, "r", 1, 0, &err), &err);
    must(hspz_sequences_append(seqs, bases, len, &bad, &err), &err);
    must(hspz_sequences_end(seqs, &err), &err);
    free(bases);
    return seqs;
}

/* Device time of something, the median of its runs. */
struct timer {
    cudaStream_t stream;
    cudaEvent_t from, to;
    double ms[RUNS];
};

static int
ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
timer_from(struct timer *timer, cudaStream_t stream)
{
    timer->stream = stream;
    if (timer->from == NULL) {
        must_cuda(cudaEventCreate(&timer->from));
        must_cuda(cudaEventCreate(&timer->to));
    }
    must_cuda(cudaEventRecord(timer->from, stream));
}

static void
timer_to(struct timer *timer, unsigned run)
{
    float ms;
    must_cuda(cudaEventRecord(timer->to, timer->stream));
    must_cuda(cudaEventSynchronize(timer->to));
    must_cuda(cudaEventElapsedTime(&ms, timer->from, timer->to));
    timer->ms[run] = ms;
}

static double
timer_median(struct timer *timer)
{
    qsort(timer->ms, RUNS, sizeof(timer->ms[0]), ascending);
    return timer->ms[RUNS / 2];
}

/* Bytes a millisecond, read and written. */
static double
copy_rate(void)
{
    void *a, *b;
    struct timer timer = {0};
    must_cuda(cudaMalloc(&a, COPY_BYTES));
    must_cuda(cudaMalloc(&b, COPY_BYTES));
    for (unsigned run = 0; run < RUNS; run++) {
        timer_from(&timer, NULL);
        must_cuda(cudaMemcpyAsync(b, a, COPY_BYTES, cudaMemcpyDeviceToDevice, NULL));
        timer_to(&timer, run);
    }
    cudaFree(a);
    cudaFree(b);
    return 2.0 * (double)COPY_BYTES / timer_median(&timer);
}

static void
row(const char *name, double ms, double floor_bytes, double rate)
{
    printf("  %-28s %8.2f ms   floor %7.2f ms  %5.1f %%\n", name, ms, floor_bytes / rate,
           100 * floor_bytes / rate / ms);
}

enum step { STEP_COUNT, STEP_PAIRS, STEP_SORT, STEP_RUNS, STEP_SUMS, STEPS };

/* The steps of hspz_cuda_build_block_whole, one after the other. */
static void
time_steps(struct hspz_cuda_build_block *b, const struct hspz_cuda_piece *piece, double rate)
{
    struct timer timers[STEPS] = {{0}};
    const unsigned bits = 2 * b->params->shape.weight;
    const uint64_t words = hspz_shape_words(&b->params->shape);
    const uint64_t tiles = (piece->starts + HSPZ_CUDA_SEED_BLOCK - 1) / HSPZ_CUDA_SEED_BLOCK;
    const uint64_t n = b->position_count;
    for (unsigned run = 0; run < RUNS; run++) {
        timer_from(&timers[STEP_COUNT], b->stream);
        must_cuda(hspz_cuda_launch_piece_count(piece, b->counts, b->stream));
        must_cuda(
            hspz_cuda_launch_sums(b->counts, tiles + 1, false, b->temp, b->temp_bytes, b->stream));
        timer_to(&timers[STEP_COUNT], run);
        timer_from(&timers[STEP_PAIRS], b->stream);
        must_cuda(hspz_cuda_launch_piece_pairs(piece, b->counts, &b->pairs, b->stream));
        timer_to(&timers[STEP_PAIRS], run);
        timer_from(&timers[STEP_SORT], b->stream);
        must_cuda(hspz_cuda_launch_sort(&b->pairs, n, bits, b->temp, b->temp_bytes, b->stream));
        timer_to(&timers[STEP_SORT], run);
        const uint32_t *sorted = b->pairs.words[b->pairs.now];
        timer_from(&timers[STEP_RUNS], b->stream);
        must_cuda(cudaMemsetAsync(b->table.data, 0, words * 4, b->stream));
        must_cuda(hspz_cuda_launch_begin_runs(sorted, n, b->table.data, b->stream));
        must_cuda(hspz_cuda_launch_end_runs(sorted, n, b->table.data, b->stream));
        timer_to(&timers[STEP_RUNS], run);
        timer_from(&timers[STEP_SUMS], b->stream);
        must_cuda(
            hspz_cuda_launch_sums(b->table.data, words, true, b->temp, b->temp_bytes, b->stream));
        timer_to(&timers[STEP_SUMS], run);
    }
    const double bases = (double)piece->starts, pairs = (double)n, table = 4.0 * (double)words;
    row("count windows", timer_median(&timers[STEP_COUNT]), bases, rate);
    row("write pairs", timer_median(&timers[STEP_PAIRS]), bases + 8 * pairs, rate);
    row("sort (passes of 8 bits)", timer_median(&timers[STEP_SORT]),
        4 * pairs + (bits + 7) / 8 * 16 * pairs, rate);
    row("run lengths", timer_median(&timers[STEP_RUNS]), 4 * pairs + table, rate);
    row("sum the table", timer_median(&timers[STEP_SUMS]), 2 * table, rate);
}

static void
time_whole(struct hspz_cuda_build_block *b, double rate)
{
    struct hspz_error err = {0};
    struct hspz_cuda_piece piece;
    struct timer timer = {0};
    const double from = now_s();
    must(hspz_cuda_build_block_upload(b, 0, &piece, &err), &err);
    must_cuda(cudaStreamSynchronize(b->stream));
    printf("  upload %.0f ms, %.1f GB of work memory\n", (now_s() - from) * 1e3,
           (double)b->work.bytes / 1e9);
    must(hspz_cuda_build_block_whole(b, &piece, &err), &err);
    time_steps(b, &piece, rate);
    for (unsigned run = 0; run < RUNS; run++) {
        timer_from(&timer, b->stream);
        must(hspz_cuda_build_block_whole(b, &piece, &err), &err);
        timer_to(&timer, run);
    }
    const double n = (double)b->position_count;
    const double passes = (2 * b->params->shape.weight + 7) / 8;
    const double table = 4.0 * hspz_shape_words(&b->params->shape);
    row("whole, sequence on device", timer_median(&timer),
        2 * (double)piece.starts + (8 + 4 + 16 * passes + 4) * n + 3 * table, rate);
}

/* Whether the block's tables on the device are those of the index. */
static void
fetch(struct hspz_cuda_build_block *b, const struct hspz_index *want)
{
    struct hspz_error err = {0};
    const size_t words = hspz_shape_words(&b->params->shape);
    uint32_t *table = hspz_index_alloc(words * sizeof(uint32_t));
    uint32_t *pos = hspz_index_alloc(b->position_count * sizeof(uint32_t));
    if (table == NULL || pos == NULL) {
        exit(1);
    }
    const double from = now_s();
    must(hspz_cuda_build_block_download(b, table, pos, &err), &err);
    printf("  download %.0f ms\n", (now_s() - from) * 1e3);
    if (want != NULL) {
        const struct hspz_index_block block = hspz_index_get_block(want, 0);
        const bool equal = block.pos_count == b->position_count &&
                           memcmp(block.table, table, words * sizeof(uint32_t)) == 0 &&
                           memcmp(block.pos, pos, b->position_count * sizeof(uint32_t)) == 0;
        printf("  %s the CPU's build\n", equal ? "equal to" : "DIFFERENT FROM");
        if (!equal) {
            exit(1);
        }
    }
    free(table);
    free(pos);
}

static void
run_budget(uint64_t budget, const struct hspz_sequences *seqs, const struct hspz_index *want,
           const struct hspz_index_params *params, double rate)
{
    struct hspz_error err = {0};
    struct hspz_cuda_device device;
    struct hspz_cuda_build_block b;
    int visible = 0;
    must_cuda(cudaGetDeviceCount(&visible));
    must(hspz_cuda_device_init(&device, NULL, visible, budget, &err), &err);
    const struct hspz_block block =
        hspz_sequences_block(want != NULL ? hspz_index_sequences(want) : seqs, 0);
    double from = now_s();
    must(hspz_cuda_build_block_init(&b, &device, params, block.bases, block.len, &err), &err);
    printf(" budget %.1f GB: %llu pieces, memory taken in %.1f ms\n",
           (double)device.budget_bytes / 1e9, (unsigned long long)b.piece_count,
           (now_s() - from) * 1e3);
    if (b.piece_count == 1) {
        time_whole(&b, rate);
    } else {
        from = now_s();
        must(hspz_cuda_build_block_run(&b, &(struct hspz_cuda_build_watch){0}, &err), &err);
        printf("  run with its uploads %.0f ms\n", (now_s() - from) * 1e3);
    }
    fetch(&b, want);
    hspz_cuda_build_block_fini(&b);
    hspz_cuda_device_fini(&device);
}

/* All of it as the daemon does it, hashes included. */
static void
run_index(size_t bases, const struct hspz_index *want, const struct hspz_index_params *params)
{
    struct hspz_error err = {0};
    struct hspz_engine *engine = NULL;
    struct hspz_index *index = NULL;
    struct hspz_sequences *seqs = random_sequences(bases);
    must(hspz_cuda_engine.open(&(struct hspz_engine_config){0}, &engine, &err), &err);
    const double from = now_s();
    must(hspz_cuda_engine.build(engine, &seqs, params, 0, NULL, NULL, &index, &err), &err);
    printf(" index, digest and all: %.2f s, digest %s%s\n", now_s() - from,
           hspz_index_digest(index),
           want == NULL                                                     ? ""
           : strcmp(hspz_index_digest(index), hspz_index_digest(want)) == 0 ? ", the CPU's"
                                                                            : ", DIFFERENT");
    hspz_index_release(&index);
    hspz_cuda_engine.close(&engine);
}

static void
run_pattern(const char *pattern, size_t bases, uint64_t budget, bool cpu, double rate)
{
    struct hspz_error err = {0};
    struct hspz_index_params params = {.step = 1};
    struct hspz_index *want = NULL;
    struct hspz_sequences *seqs = random_sequences(bases);
    must(hspz_shape_parse(pattern, strlen(pattern), &params.shape, &err), &err);
    printf("%s, %.1f Mbp\n", pattern, (double)bases / 1e6);
    if (cpu) {
        const double from = now_s();
        must(hspz_index_build(&seqs, &params, 16, 0, NULL, NULL, &want, &err), &err);
        printf(" CPU, 16 threads: %.2f s\n", now_s() - from);
    }
    run_budget(0, seqs, want, &params, rate);
    run_budget(budget, seqs, want, &params, rate);
    run_index(bases, want, &params);
    hspz_sequences_destroy(&seqs);
    hspz_index_release(&want);
}

int
main(int argc, char **argv)
{
    static const char *const usual[] = {"12of19", "14of22"};
    const char *const *patterns = usual;
    size_t bases = 500000000, count = 2;
    uint64_t budget = UINT64_C(8) << 30;
    bool cpu = true;
    int arg = 1;
    for (; arg < argc && argv[arg][0] == '-'; arg++) {
        if (strcmp(argv[arg], "--no-cpu") == 0) {
            cpu = false;
        } else if (strcmp(argv[arg], "--bases") == 0 && arg + 1 < argc) {
            bases = strtoull(argv[++arg], NULL, 10);
        } else if (strcmp(argv[arg], "--budget") == 0 && arg + 1 < argc) {
            budget = strtoull(argv[++arg], NULL, 10);
        } else {
            fprintf(stderr, "build_bench [--bases N] [--budget BYTES] [--no-cpu] [PATTERN ...]\n");
            return 2;
        }
    }
    if (arg < argc) {
        patterns = (const char *const *)&argv[arg];
        count = (size_t)(argc - arg);
    }
    const double rate = copy_rate();
    printf("copy %.2f TB/s\n", rate / 1e9);
    for (size_t p = 0; p < count; p++) {
        run_pattern(patterns[p], bases, budget, cpu, rate);
    }
    return 0;
}
