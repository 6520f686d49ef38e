#include "tests/bench/card.h"

#include "tests/bench/floors.h"

#include <stdio.h>
#include <stdlib.h>

#define REPEATS 9

void
card_check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

void *
card_take(uint64_t bytes)
{
    void *memory = NULL;
    card_check(cudaMalloc(&memory, bytes + 256), "cudaMalloc");
    return memory;
}

void *
card_upload(const void *from, uint64_t bytes)
{
    void *to = card_take(bytes);
    card_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload");
    return to;
}

struct hspz_cuda_seeds
card_seeds(const uint64_t *words, uint64_t count, uint32_t per_window)
{
    return (struct hspz_cuda_seeds){.words = words,
                                    .capacity = count,
                                    .per_window = per_window,
                                    .singles = per_window - 1,
                                    .inverse = ((UINT64_C(1) << 32) + per_window - 1) / per_window};
}

static void
derive(struct card *card)
{
    unsigned long long numbers[2] = {0};
    unsigned long long *on_device = card_upload(numbers, sizeof(numbers));
    const uint32_t words = card->index.words;
    card->present = card_take(words / 8);
    card->groups = card_take(HSPZ_CUDA_GROUPS(words) * sizeof(*card->groups));
    card_check(
        hspz_cuda_launch_presence(card->index.table, words, card->present, on_device, card->stream),
        "presence");
    card_check(hspz_cuda_launch_groups(card->index.table, words, card->groups, on_device + 1,
                                       card->stream),
               "groups");
    card_check(cudaStreamSynchronize(card->stream), "deriving");
    card_check(cudaMemcpy(numbers, on_device, sizeof(numbers), cudaMemcpyDeviceToHost), "deriving");
    card->full_buckets = numbers[0];
    card->cut_groups = numbers[1];
    card_check(cudaFree(on_device), "cudaFree");
}

void
card_open(struct card *card, const struct skewed_case *row, uint64_t most_hits)
{
    card_check(cudaStreamCreate(&card->stream), "stream");
    card_check(cudaEventCreate(&card->from), "event");
    card_check(cudaEventCreate(&card->to), "event");
    card->in = skewed_make(row, most_hits);
    const struct skewed_input *in = &card->in;
    card->seed_count = in->window_count * SKEWED_PER_WINDOW;
    card->blocks = (card->seed_count + HSPZ_CUDA_SCAN_BLOCK - 1) / HSPZ_CUDA_SCAN_BLOCK;
    card->seeds = malloc(card->seed_count * sizeof(uint64_t));
    for (uint64_t i = 0; i < card->seed_count; i++) {
        const uint64_t t = i % SKEWED_PER_WINDOW;
        card->seeds[i] =
            in->windows[i / SKEWED_PER_WINDOW] ^ (t == 0 ? 0 : UINT64_C(2) << (32 + 2 * (t - 1)));
    }
    uint32_t *pos = card_take(in->positions * sizeof(uint32_t));
    card_check(floors_fill(pos, in->positions, card->stream), "fill");
    card->index = (struct hspz_cuda_index){
        .table = card_upload(in->table, sizeof(uint32_t) << SKEWED_LOG2_WORDS),
        .pos = pos,
        .words = 1u << SKEWED_LOG2_WORDS,
        .span = CARD_SPAN};
    derive(card);
    card->given = card_seeds(card_upload(card->seeds, card->seed_count * sizeof(uint64_t)),
                             card->seed_count, 1);
    card->windows = card_seeds(card_upload(in->windows, in->window_count * sizeof(uint64_t)),
                               card->seed_count, SKEWED_PER_WINDOW);
    const struct hspz_cuda_tally tally = {.seeds = card->seed_count, .bad = HSPZ_CUDA_NO_BAD};
    card->counts = (struct hspz_cuda_counts){
        .sums = card_take(card->seed_count * sizeof(uint32_t)),
        .begins = card_take(card->seed_count * sizeof(uint32_t)),
        .blocks = card_take(card->blocks * sizeof(uint64_t)),
        .tally = card_upload(&tally, sizeof(tally)),
    };
    card_check(cudaHostAlloc((void **)&card->host_blocks, card->blocks * sizeof(uint64_t) + 256,
                             cudaHostAllocDefault),
               "cudaHostAlloc");
    card->window =
        (struct hspz_cuda_window){.out = card_take(in->hits * sizeof(uint64_t)), .end = in->hits};
    card_check(cudaStreamSynchronize(card->stream), "open");
}

void
card_close(struct card *card)
{
    void *const on_device[] = {(void *)card->index.table,
                               (void *)card->index.pos,
                               card->present,
                               card->groups,
                               (void *)card->given.words,
                               (void *)card->windows.words,
                               card->counts.sums,
                               card->counts.begins,
                               card->counts.blocks,
                               card->counts.tally,
                               card->records.ends,
                               card->records.sources,
                               card->records.starts,
                               card->window.out};
    for (size_t i = 0; i < sizeof(on_device) / sizeof(on_device[0]); i++) {
        card_check(cudaFree(on_device[i]), "cudaFree");
    }
    card_check(cudaFreeHost(card->host_blocks), "cudaFreeHost");
    card_check(cudaEventDestroy(card->from), "event");
    card_check(cudaEventDestroy(card->to), "event");
    card_check(cudaStreamDestroy(card->stream), "stream");
    free(card->seeds);
    skewed_free(&card->in);
}

void
card_scan(struct card *card)
{
    uint64_t hits = 0, records = 0;
    for (uint64_t i = 0; i < card->blocks; i++) {
        const uint64_t total = card->host_blocks[i];
        card->host_blocks[i] = hits | records << 32;
        hits += total & ((UINT64_C(1) << HSPZ_CUDA_BLOCK_RECORD_SHIFT) - 1);
        records += total >> HSPZ_CUDA_BLOCK_RECORD_SHIFT;
    }
    card->records.hits = hits;
    card->records.count = records;
}

void
card_open_records(struct card *card, uint32_t tile_log2)
{
    struct hspz_cuda_records *records = &card->records;
    records->tile_log2 = tile_log2;
    records->ends = card_take(records->count * sizeof(uint32_t));
    records->sources = card_take(records->count * sizeof(uint64_t));
    records->starts = card_take(((records->hits >> tile_log2) + 1) * sizeof(uint32_t));
}

static int
by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double
card_median(float *times, int count)
{
    qsort(times, (size_t)count, sizeof(times[0]), by_value);
    return times[count / 2];
}

double
card_time(struct card *card, card_call_fn call, const char *what)
{
    float times[REPEATS];
    card_check(call(card), what);
    card_check(cudaStreamSynchronize(card->stream), what);
    for (int i = 0; i < REPEATS; i++) {
        card_check(cudaEventRecord(card->from, card->stream), what);
        card_check(call(card), what);
        card_check(cudaEventRecord(card->to, card->stream), what);
        card_check(cudaEventSynchronize(card->to), what);
        card_check(cudaEventElapsedTime(&times[i], card->from, card->to), what);
    }
    return card_median(times, REPEATS);
}

double
card_rate(uint64_t things, double ms)
{
    return (double)things / 1e6 / ms;
}

uint32_t
card_bucket_begin(const struct card *card, uint32_t word)
{
    return word == 0 ? 0 : card->in.table[word - 1];
}
