#include "tests/bench/card_count.h"

#include "tests/bench/floors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum way { WAY_WORDS, WAY_PRESENT_WORDS, WAY_GROUPS, WAYS };

static const char *const way_names[WAYS] = {"words", "present words", "groups"};

cudaError_t
card_call_count(struct card *c)
{
    return hspz_cuda_launch_count(&c->index, c->source, &c->counts, UINT32_MAX, false, c->stream);
}

static cudaError_t
call_nothing(struct card *c)
{
    return floors_nothing((uint32_t *)c->counts.tally + 12, c->stream);
}

#define GATHERS (UINT64_C(1) << 26)

static cudaError_t
call_gather(struct card *c)
{
    return floors_gather((const uint64_t *)c->index.table, SKEWED_LOG2_WORDS - 1, GATHERS,
                         c->multiprocessors * 8, (uint32_t *)c->counts.tally + 12, c->stream);
}

/* As many bytes as groups take, or nearly. */
static cudaError_t
call_gather_small(struct card *c)
{
    return floors_gather((const uint64_t *)c->index.table, SKEWED_LOG2_WORDS - 3, GATHERS,
                         c->multiprocessors * 8, (uint32_t *)c->counts.tally + 12, c->stream);
}

double
card_sector_rate(struct card *c)
{
    return card_rate(GATHERS, card_time(c, call_gather, "gather"));
}

/* ---- count ---- */

/* What counting has to write. */
struct expected {
    uint32_t *sums, *begins;
};

static struct expected
expect_counts(const struct card *c)
{
    struct expected e = {malloc(c->seed_count * sizeof(uint32_t)),
                         malloc(c->seed_count * sizeof(uint32_t))};
    memset(e.begins, CARD_NOT_WRITTEN, c->seed_count * sizeof(uint32_t));
    uint32_t sum = 0;
    for (uint64_t i = 0; i < c->seed_count; i++) {
        const uint32_t word = (uint32_t)(c->seeds[i] >> 32);
        const uint32_t begin = card_bucket_begin(c, word), size = c->in.table[word] - begin;
        sum = (i % HSPZ_CUDA_SCAN_BLOCK == 0 ? 0 : sum) + size;
        e.sums[i] = sum;
        if (size > 0) {
            e.begins[i] = begin;
        }
    }
    return e;
}

static void
forget_counts(struct card *c)
{
    const uint64_t bytes = c->seed_count * sizeof(uint32_t);
    card_check(cudaMemsetAsync(c->counts.sums, CARD_NOT_WRITTEN, bytes, c->stream), "memset");
    card_check(cudaMemsetAsync(c->counts.begins, CARD_NOT_WRITTEN, bytes, c->stream), "memset");
}

static void
check_counts(struct card *c, const struct expected *e, enum way way)
{
    const uint64_t bytes = c->seed_count * sizeof(uint32_t);
    uint32_t *got = malloc(bytes);
    card_check(cudaStreamSynchronize(c->stream), "count");
    card_check(cudaMemcpy(got, c->counts.sums, bytes, cudaMemcpyDeviceToHost), "sums");
    bool right = memcmp(got, e->sums, bytes) == 0;
    card_check(cudaMemcpy(got, c->counts.begins, bytes, cudaMemcpyDeviceToHost), "begins");
    right = right && memcmp(got, e->begins, bytes) == 0;
    free(got);
    if (!right) {
        printf("  %s: WRONG counts\n", way_names[way]);
        exit(1);
    }
}

static double
count_rate(struct card *c, enum way way, const struct hspz_cuda_seeds *source,
           const struct expected *e)
{
    c->source = source;
    forget_counts(c);
    const double ms = card_time(c, card_call_count, "count");
    check_counts(c, e, way);
    return card_rate(c->seed_count, ms);
}

static void
look_up_by(struct card *c, enum way way)
{
    c->index.present = way == WAY_PRESENT_WORDS ? c->present : NULL;
    c->index.groups = way == WAY_GROUPS ? c->groups : NULL;
}

void
card_run_count(struct card *c)
{
    const struct expected e = expect_counts(c);
    const double gather = card_sector_rate(c);
    const double small = card_rate(GATHERS, card_time(c, call_gather_small, "gather"));
    double best = 0;
    enum way best_way = WAY_WORDS;
    printf("  random sectors %.1f G/s (of 16 MiB: %.1f); nothing at all %.4f ms\n", gather, small,
           card_time(c, call_nothing, "nothing"));
    printf("  %.3f of buckets full, %.4f of groups cut\n", (double)c->full_buckets / c->index.words,
           (double)c->cut_groups / (double)HSPZ_CUDA_GROUPS(c->index.words));
    for (int w = 0; w < WAYS; w++) {
        const enum way way = (enum way)w;
        look_up_by(c, way);
        const double given = count_rate(c, way, &c->given, &e);
        const double windows = count_rate(c, way, &c->windows, &e);
        printf("  count, %-13s given seeds %6.1f (%.2f of the sectors), windows %6.1f (%.2f)\n",
               way_names[way], given, given / gather, windows, windows / gather);
        best_way = windows > best ? way : best_way;
        best = windows > best ? windows : best;
    }
    look_up_by(c, best_way);
    free(e.sums);
    free(e.begins);
}

/* ---- seeding ---- */

static cudaError_t
seed(struct card *c, bool overlap)
{
    cudaError_t error = hspz_cuda_launch_window_count(&c->query, c->made_counts, c->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_windows(&c->query, c->made_counts, SKEWED_PER_WINDOW, c->made,
                                         c->counts.tally, overlap, c->stream);
    }
    return error;
}

static cudaError_t
call_seed(struct card *c)
{
    return seed(c, false);
}

static cudaError_t
call_seed_and_count(struct card *c)
{
    const cudaError_t error = call_seed(c);
    return error == cudaSuccess ? card_call_count(c) : error;
}

static cudaError_t
call_seed_and_count_overlapped(struct card *c)
{
    const cudaError_t error = seed(c, true);
    return error == cudaSuccess ? hspz_cuda_launch_count(&c->index, c->source, &c->counts,
                                                         UINT32_MAX, true, c->stream)
                                : error;
}

void
card_run_seeding(struct card *c)
{
    static const char pattern[] = "1110100110010101111";
    const uint64_t words = CARD_POSITIONS * SKEWED_PER_WINDOW;
    char *bases = malloc(CARD_POSITIONS + CARD_SPAN);
    for (uint64_t i = 0; i < CARD_POSITIONS + CARD_SPAN; i++) {
        bases[i] = "ACGT"[floors_mix(i) & 3];
    }
    uint8_t *on_device = card_upload(bases, CARD_POSITIONS + CARD_SPAN);
    c->query = (struct hspz_cuda_query){.bases = on_device,
                                        .bases_len = CARD_POSITIONS + CARD_SPAN - 1,
                                        .positions = CARD_POSITIONS,
                                        .span = CARD_SPAN};
    for (uint32_t i = 0; i < CARD_SPAN; i++) {
        c->query.care |= (uint64_t)(pattern[i] == '1') << i;
    }
    c->made = card_take(CARD_POSITIONS * sizeof(uint64_t));
    c->made_counts = card_take(CARD_POSITIONS / HSPZ_CUDA_SEED_BLOCK * sizeof(uint32_t) + 64);
    const struct hspz_cuda_seeds made = card_seeds(c->made, words, SKEWED_PER_WINDOW);
    printf("seeding, G words/s, %.1f", card_rate(words, card_time(c, call_seed, "seeding")));
    c->source = &made;
    for (int w = 0; w < WAYS; w++) {
        look_up_by(c, (enum way)w);
        printf(", with count by %s, %.1f", way_names[w],
               card_rate(words, card_time(c, call_seed_and_count, "seeding")));
        if (hspz_cuda_overlaps()) {
            printf(", overlapped, %.1f",
                   card_rate(words, card_time(c, call_seed_and_count_overlapped, "seeding")));
        }
    }
    printf("\n");
    card_check(cudaFree(on_device), "cudaFree");
    card_check(cudaFree(c->made), "cudaFree");
    card_check(cudaFree(c->made_counts), "cudaFree");
    free(bases);
}
