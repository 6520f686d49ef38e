/* The kernels of the CUDA engine on six inputs (tests/bench/skewed.h), each beside its limit.
 *
 *   expand_bench [--tile LOG2] [--rows FIRST-LAST]
 *
 * Times are medians of events; rates are 10^9 a second. Everything timed is checked: counts against
 * the host's, every mapping's anchors by one checksum and some of them by the host's arithmetic. */
#include "tests/bench/card_count.h"
#include "tests/bench/floors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_HITS UINT64_C(1200000000)
#define SPOTS 2000
#define BATCHES 9

static const struct skewed_case rows[] = {
    {"sparse 0.25", 0.25, 0, 3250000},
    {"4", 4, 0, 3250000},
    {"30", 30, 0, 3250000},
    {"30, 13M seeds", 30, 0, 13000000},
    {"30, tail 1.1", 30, 1.1, 3250000},
    {"4, tail 1.2", 4, 1.2, 3250000},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const mapping_names[] = {"", "thread", "warp", "tile"};

/* ---- calls to time ---- */

static cudaError_t
call_place(struct card *c)
{
    return hspz_cuda_launch_place(c->source, c->seed_count, &c->counts, c->counts.blocks, CARD_SPAN,
                                  &c->records, c->stream);
}

static cudaError_t
call_expand(struct card *c)
{
    return hspz_cuda_launch_expand(&c->index, &c->records, &c->window, c->mapping,
                                   c->multiprocessors, c->stream);
}

static cudaError_t
call_place_and_expand(struct card *c)
{
    const cudaError_t error = call_place(c);
    return error == cudaSuccess ? call_expand(c) : error;
}

static uint64_t
floor_hits(const struct card *c)
{
    return c->in.hits < c->in.positions ? c->in.hits : c->in.positions;
}

static cudaError_t
call_floor_pairs(struct card *c)
{
    return floors_stream_pairs(c->index.pos, c->window.out, floor_hits(c), c->multiprocessors * 16,
                               c->stream);
}

static cudaError_t
call_floor_fours(struct card *c)
{
    return floors_stream_fours(c->index.pos, c->window.out, floor_hits(c), c->multiprocessors * 16,
                               c->stream);
}

static cudaError_t
call_floor_lines(struct card *c)
{
    return floors_stream_lines(c->index.pos, c->in.positions, c->window.out, c->in.hits,
                               c->multiprocessors * 16, c->stream);
}

static cudaError_t
copy_blocks(struct card *c, enum cudaMemcpyKind kind)
{
    void *to = kind == cudaMemcpyDeviceToHost ? c->host_blocks : c->counts.blocks;
    const void *from = kind == cudaMemcpyDeviceToHost ? c->counts.blocks : c->host_blocks;
    return cudaMemcpyAsync(to, from, c->blocks * sizeof(uint64_t), kind, c->stream);
}

/* What a round trip cannot be without: totals to the host, a wait, offsets back. */
static cudaError_t
call_round_trip(struct card *c)
{
    cudaError_t error = copy_blocks(c, cudaMemcpyDeviceToHost);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(c->stream);
    }
    return error == cudaSuccess ? copy_blocks(c, cudaMemcpyHostToDevice) : error;
}

/* ---- expand ---- */

static unsigned long long
checksum(struct card *c)
{
    unsigned long long sum = 0;
    unsigned long long *on_device = card_upload(&sum, sizeof(sum));
    card_check(floors_checksum(c->window.out, c->in.hits, on_device, c->stream), "checksum");
    card_check(cudaStreamSynchronize(c->stream), "checksum");
    card_check(cudaMemcpy(&sum, on_device, sizeof(sum), cudaMemcpyDeviceToHost), "checksum");
    card_check(cudaFree(on_device), "cudaFree");
    return sum;
}

/* Some hits by the formula of SPEC C.5; pos[i] is what floors_fill wrote. */
static bool
spots_hold(const struct card *c)
{
    uint64_t sum = 0, next = 0, wrong = 0;
    const uint64_t stride = c->in.hits / SPOTS + 1;
    for (uint64_t i = 0; i < c->seed_count; i++) {
        const uint32_t word = (uint32_t)(c->seeds[i] >> 32);
        const uint32_t begin = card_bucket_begin(c, word);
        sum += c->in.table[word] - begin;
        for (; next < sum; next += stride) {
            uint64_t got;
            card_check(cudaMemcpy(&got, c->window.out + next, sizeof(got), cudaMemcpyDeviceToHost),
                       "spot");
            const uint32_t pos = (uint32_t)floors_mix(begin + (sum - 1 - next));
            const uint64_t want =
                (uint64_t)((uint32_t)c->seeds[i] + CARD_SPAN) << 32 | (uint32_t)(pos + CARD_SPAN);
            wrong += got != want;
        }
    }
    return wrong == 0 && sum == c->in.hits;
}

static double
stream_floor(struct card *c)
{
    const double pairs = card_rate(floor_hits(c), card_time(c, call_floor_pairs, "floor"));
    const double fours = card_rate(floor_hits(c), card_time(c, call_floor_fours, "floor"));
    const double lines = card_rate(c->in.hits, card_time(c, call_floor_lines, "floor"));
    printf(
        "  floor: %.1f G anchors/s in stores of 16 bytes, %.1f in stores of 32; from random lines "
        "of 32 positions %.1f\n",
        pairs, fours, lines);
    return pairs > fours ? pairs : fours;
}

/* Every mapping; leaves the quickest set and returns its rate. */
static double
run_expand(struct card *c)
{
    unsigned long long first = 0;
    double best = 0;
    enum hspz_cuda_mapping best_mapping = HSPZ_CUDA_MAPPING_AUTO;
    for (int m = HSPZ_CUDA_MAPPING_AUTO + 1; m <= HSPZ_CUDA_MAPPING_TILE; m++) {
        c->mapping = (enum hspz_cuda_mapping)m;
        card_check(cudaMemsetAsync(c->window.out, CARD_NOT_WRITTEN, c->in.hits * sizeof(uint64_t),
                                   c->stream),
                   "memset");
        const double rate = card_rate(c->in.hits, card_time(c, call_expand, mapping_names[m]));
        const unsigned long long sum = checksum(c);
        first = m == HSPZ_CUDA_MAPPING_AUTO + 1 ? sum : first;
        const bool right = sum == first && spots_hold(c);
        const double both =
            card_rate(c->in.hits, card_time(c, call_place_and_expand, mapping_names[m]));
        printf("  %-6s %7.1f G anchors/s, with place %7.1f  %s\n", mapping_names[m], rate, both,
               right ? "ok" : "WRONG");
        if (!right) {
            exit(1);
        }
        best_mapping = rate > best ? (enum hspz_cuda_mapping)m : best_mapping;
        best = rate > best ? rate : best;
    }
    c->mapping = best_mapping;
    return best;
}

/* ---- a whole batch ---- */

enum { PART_COUNT, PART_ROUND_TRIP, PART_PLACE, PART_EXPAND, PARTS };

/* Milliseconds of each part and of all of it, by events in one stream: the host's turn shows as
 * the time the device waits. */
static void
time_batch(struct card *c, double parts[PARTS], double *whole)
{
    static float times[PARTS + 1][BATCHES];
    cudaEvent_t at[PARTS + 1];
    for (int p = 0; p <= PARTS; p++) {
        card_check(cudaEventCreate(&at[p]), "event");
    }
    for (int i = 0; i < BATCHES; i++) {
        card_check(cudaEventRecord(at[0], c->stream), "event");
        card_check(card_call_count(c), "count");
        card_check(cudaEventRecord(at[1], c->stream), "event");
        card_check(copy_blocks(c, cudaMemcpyDeviceToHost), "download");
        card_check(cudaStreamSynchronize(c->stream), "count");
        card_scan(c);
        card_check(copy_blocks(c, cudaMemcpyHostToDevice), "upload");
        card_check(cudaEventRecord(at[2], c->stream), "event");
        card_check(call_place(c), "place");
        card_check(cudaEventRecord(at[3], c->stream), "event");
        card_check(call_expand(c), "expand");
        card_check(cudaEventRecord(at[4], c->stream), "event");
        card_check(cudaEventSynchronize(at[4]), "batch");
        for (int p = 0; p < PARTS; p++) {
            card_check(cudaEventElapsedTime(&times[p][i], at[p], at[p + 1]), "event");
        }
        card_check(cudaEventElapsedTime(&times[PARTS][i], at[0], at[PARTS]), "event");
    }
    for (int p = 0; p < PARTS; p++) {
        parts[p] = card_median(times[p], BATCHES);
    }
    *whole = card_median(times[PARTS], BATCHES);
    for (int p = 0; p <= PARTS; p++) {
        card_check(cudaEventDestroy(at[p]), "event");
    }
}

/* Floors: look-ups at the random-sector rate, a round trip without work, and the bytes that placing
 * and expansion move at the streaming rate. */
static void
run_batch(struct card *c, const char *name, double floor_rate)
{
    static const char *const names[PARTS] = {"count", "round trip", "place", "expand"};
    const double gather = card_sector_rate(c);
    const double trip = card_time(c, call_round_trip, "round trip");
    const double bytes_rate = floor_rate * 12e6; /* a millisecond */
    const uint64_t placed = c->seed_count * 4 + c->in.window_count * 8 + c->records.count * 16 +
                            (c->in.hits >> c->records.tile_log2) * 4;
    double parts[PARTS], whole, floors = 0;
    c->source = &c->windows;
    time_batch(c, parts, &whole);
    const double floor[PARTS] = {(double)c->seed_count / 1e6 / gather, trip,
                                 (double)placed / bytes_rate,
                                 (double)c->in.hits / 1e6 / floor_rate};
    for (int p = 0; p < PARTS; p++) {
        printf("  batch, %-10s %.4f ms, floor %.4f\n", names[p], parts[p], floor[p]);
        floors += floor[p];
    }
    printf("batch, %s, ms, %.4f, sum of floors, %.4f, ratio, %.2f, G anchors/s, %.1f\n", name,
           whole, floors, whole / floors, card_rate(c->in.hits, whole));
}

static void
run_row(struct card *c, const struct skewed_case *row, uint32_t tile_log2)
{
    card_open(c, row, MOST_HITS);
    printf("row %s: %llu seeds, %llu hits, %llu positions\n", row->name,
           (unsigned long long)c->seed_count, (unsigned long long)c->in.hits,
           (unsigned long long)c->in.positions);
    card_run_count(c);
    c->source = &c->windows;
    card_check(card_call_count(c), "count");
    card_check(copy_blocks(c, cudaMemcpyDeviceToHost), "download");
    card_check(cudaStreamSynchronize(c->stream), "count");
    card_scan(c);
    card_check(copy_blocks(c, cudaMemcpyHostToDevice), "upload");
    card_open_records(c, tile_log2);
    const double place = card_time(c, call_place, "place");
    printf("  %llu records, place %.4f ms (%.1f G seeds/s)\n", (unsigned long long)c->records.count,
           place, card_rate(c->seed_count, place));
    const double floor = stream_floor(c);
    const double best = run_expand(c);
    printf("row, %s, best, %s, %.1f, floor, %.1f\n", row->name, mapping_names[c->mapping], best,
           floor);
    run_batch(c, row->name, floor);
    if (c->seed_count >= CARD_POSITIONS * SKEWED_PER_WINDOW) {
        card_run_seeding(c);
    }
    card_close(c);
}

int
main(int argc, char **argv)
{
    uint32_t tile_log2 = 10;
    size_t first = 0, last = ROWS - 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--tile") == 0) {
            tile_log2 = (uint32_t)atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--rows") == 0) {
            sscanf(argv[i + 1], "%zu-%zu", &first, &last);
        }
    }
    struct cudaDeviceProp properties;
    card_check(cudaGetDeviceProperties(&properties, 0), "device");
    printf("%s, %d multiprocessors, tile 2^%u\n", properties.name, properties.multiProcessorCount,
           tile_log2);
    for (size_t i = first; i <= last && i < ROWS; i++) {
        struct card card = {.multiprocessors = (unsigned)properties.multiProcessorCount};
        run_row(&card, &rows[i], tile_log2);
    }
    return 0;
}
