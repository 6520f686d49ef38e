#include "engine/cuda/batch_p.h"
#include "engine/cuda/mask.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HSPZ_CUDA_SCAN_BLOCK == HSPZ_SCAN_BLOCK, "one size of scan block");

#define SEEDS_LIMIT (UINT64_C(4294967295) - HSPZ_SCAN_BLOCK)

/* Hits in a tile of a small batch. */
#define SMALL_TILE_LOG2 7u
/* Hits a small batch may have: more are better off with the copy engine. */
#define SMALL_HITS (UINT64_C(1) << 17)

uint64_t
hspz_cuda_batch_host_bytes(uint64_t seed_count)
{
    return HSPZ_CUDA_TALLY_BYTES + hspz_cuda_scan_blocks(seed_count) * sizeof(uint64_t) +
           HSPZ_SCAN_BLOCK * sizeof(uint32_t) + 2 * sizeof(struct hspz_cuda_fit);
}

void
hspz_cuda_batch_reset(struct hspz_cuda_batch *batch)
{
    free(batch->prefix);
    *batch = (struct hspz_cuda_batch){0};
}

/* ---- seeds ---- */

static struct hspz_cuda_seeds
seeds_view(const struct hspz_cuda_run *run, const uint64_t *words, uint64_t capacity,
           uint32_t per_window)
{
    const uint32_t weight = (uint32_t)__builtin_ctz(run->index->words) / 2;
    return (struct hspz_cuda_seeds){
        .words = words,
        .capacity = capacity,
        .per_window = per_window,
        .singles = per_window - 1 < weight ? per_window - 1 : weight,
        .inverse = ((UINT64_C(1) << 32) + per_window - 1) / per_window,
    };
}

/* Room for the counts of up to `seeds` seeds from `windows` windows, and a fresh tally. */
static enum hspz_status
open_batch(const struct hspz_cuda_run *run, uint64_t windows, uint32_t per_window, uint64_t known)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const uint64_t seeds = windows * per_window;
    const uint64_t block_bytes =
        HSPZ_CUDA_TALLY_BYTES + hspz_cuda_scan_blocks(seeds) * sizeof(uint64_t);
    hspz_cuda_batch_reset(run->batch);
    if (seeds > SEEDS_LIMIT) {
        return hspz_error_set(run->err, HSPZ_E_OUT_OF_MEMORY,
                              "%s: no memory for a batch of %" PRIu64 " seeds",
                              run->lane->device->label, seeds);
    }
    struct {
        struct hspz_cuda_buffer *buffer;
        uint64_t bytes;
    } const needs[] = {
        {&scratch->windows, windows * sizeof(uint64_t)},
        {&scratch->sums, seeds * sizeof(uint32_t)},
        {&scratch->begins, seeds * sizeof(uint32_t)},
        {&scratch->blocks, block_bytes},
    };
    enum hspz_status status = hspz_cuda_run_reserve_pinned(run, &scratch->host_blocks, block_bytes);
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]) && status == HSPZ_OK; i++) {
        status = hspz_cuda_run_reserve(run, needs[i].buffer, needs[i].bytes);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    run->batch->seeds = seeds_view(run, scratch->windows.data, seeds, per_window);
    run->batch->counts = (struct hspz_cuda_counts){
        .sums = scratch->sums.data,
        .begins = scratch->begins.data,
        .blocks = (uint64_t *)((char *)scratch->blocks.data + HSPZ_CUDA_TALLY_BYTES),
        .tally = scratch->blocks.data,
    };
    struct hspz_cuda_tally *tally = scratch->host_blocks.data;
    memset(tally, 0, HSPZ_CUDA_TALLY_BYTES);
    *tally = (struct hspz_cuda_tally){.seeds = known, .bad = HSPZ_CUDA_NO_BAD};
    return hspz_cuda_run_check(run,
                               cudaMemcpyAsync(scratch->blocks.data, tally, HSPZ_CUDA_TALLY_BYTES,
                                               cudaMemcpyHostToDevice, run->lane->work),
                               "opening a batch");
}

enum hspz_status
hspz_cuda_batch_given(const struct hspz_cuda_run *run, uint64_t count)
{
    return open_batch(run, count, 1, count);
}

enum hspz_status
hspz_cuda_batch_upload(const struct hspz_cuda_run *run, const uint8_t *bytes, uint64_t first,
                       uint64_t count)
{
    return hspz_cuda_run_check(run,
                               cudaMemcpyAsync((uint64_t *)run->scratch->windows.data + first,
                                               bytes + first * sizeof(uint64_t),
                                               count * sizeof(uint64_t), cudaMemcpyHostToDevice,
                                               run->lane->work),
                               "uploading seeds");
}

static bool
overlaps(const struct hspz_cuda_run *run)
{
    return !run->tuning->no_overlap && run->lane->device->overlaps;
}

/* Bases that the windows reach, and of a mask the k-mers that begin where they do. */
static uint64_t
reach(const struct hspz_cuda_stretch *stretch)
{
    const struct hspz_seed_mask *mask = stretch->mask;
    const uint64_t k = mask != NULL ? mask->ops->plan(mask->filter)->spec.k : 0;
    const uint64_t len = k > stretch->shape->span ? k : stretch->shape->span;
    const uint64_t wanted = stretch->end - stretch->begin + len - 1;
    const uint64_t rest = stretch->query.len - stretch->begin;
    return wanted < rest ? wanted : rest;
}

enum hspz_status
hspz_cuda_batch_query(const struct hspz_cuda_run *run, const struct hspz_cuda_stretch *stretch)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const struct hspz_shape *shape = stretch->shape;
    const uint64_t positions = stretch->end - stretch->begin;
    const uint64_t bases_len = reach(stretch);
    const uint64_t blocks = (positions + HSPZ_CUDA_SEED_BLOCK - 1) / HSPZ_CUDA_SEED_BLOCK;
    const uint32_t per_window = hspz_shape_seeds_per_position(shape, stretch->transitions);
    enum hspz_status status = open_batch(run, positions, per_window, 0);
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->bases, bases_len);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->window_counts, blocks * sizeof(uint32_t));
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve_pinned(run, &scratch->host_bases, bases_len);
    }
    if (status == HSPZ_OK && stretch->mask != NULL) {
        status = hspz_cuda_mask_reserve(run, stretch->mask, positions);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const bool minus = stretch->strand == HSPZ_STRAND_MINUS;
    const uint64_t from = minus ? stretch->query.len - stretch->begin - bases_len : stretch->begin;
    memcpy(scratch->host_bases.data, stretch->query.bytes + from, bases_len);
    const struct hspz_cuda_query query = {
        .bases = scratch->bases.data,
        .bases_len = bases_len,
        .positions = positions,
        .first = (uint32_t)stretch->begin,
        .minus = minus,
        .unmask = stretch->unmask,
        .care = hspz_shape_care(shape),
        .span = shape->span,
        .masked = stretch->mask != NULL ? scratch->masked.data : NULL,
    };
    cudaError_t error = cudaMemcpyAsync(scratch->bases.data, scratch->host_bases.data, bases_len,
                                        cudaMemcpyHostToDevice, run->lane->work);
    if (error == cudaSuccess && stretch->mask != NULL) {
        status = hspz_cuda_mask_find(run, stretch, &query);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_window_count(&query, scratch->window_counts.data, run->lane->work);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_windows(&query, scratch->window_counts.data, per_window,
                                         scratch->windows.data, run->batch->counts.tally,
                                         overlaps(run), run->lane->work);
    }
    run->batch->fresh_windows = error == cudaSuccess;
    return hspz_cuda_run_check(run, error, "making seeds");
}

/* ---- count, place ---- */

static uint32_t
word_limit(uint64_t max_word_count)
{
    return max_word_count < UINT32_MAX ? (uint32_t)max_word_count : UINT32_MAX;
}

/* Totals of scan blocks become exclusive sums, in 64 bits; what is kept of them fits 32 bits unless
 * the batch is refused. */
static void
scan_on_host(struct hspz_cuda_batch *batch, uint64_t *blocks)
{
    const uint64_t hit_mask = (UINT64_C(1) << HSPZ_CUDA_BLOCK_RECORD_SHIFT) - 1;
    uint64_t hits = 0, records = 0, most = 0;
    for (uint64_t b = 0; b < hspz_cuda_scan_blocks(batch->seed_count); b++) {
        const uint64_t total = blocks[b];
        blocks[b] = (hits & UINT32_MAX) | records << 32;
        const uint64_t block_hits = total & hit_mask;
        most = block_hits > most ? block_hits : most;
        hits += block_hits;
        records += total >> HSPZ_CUDA_BLOCK_RECORD_SHIFT;
    }
    batch->hits = hits;
    batch->most_block_hits = most;
    batch->records.hits = hits;
    batch->records.count = records;
}

enum hspz_status
hspz_cuda_batch_count(const struct hspz_cuda_run *run, uint64_t max_word_count)
{
    struct hspz_cuda_batch *batch = run->batch;
    const uint64_t bytes =
        HSPZ_CUDA_TALLY_BYTES + hspz_cuda_scan_blocks(batch->seeds.capacity) * sizeof(uint64_t);
    cudaError_t error = hspz_cuda_launch_count(
        run->index, &batch->seeds, &batch->counts, word_limit(max_word_count),
        batch->fresh_windows && overlaps(run), run->lane->work);
    batch->fresh_windows = false;
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(run->scratch->host_blocks.data, run->scratch->blocks.data, bytes,
                                cudaMemcpyDeviceToHost, run->lane->work);
    }
    enum hspz_status status = hspz_cuda_run_check(run, error, "counting hits");
    if (status == HSPZ_OK) {
        status = hspz_cuda_lane_wait(run->lane, run->lane->work, "counting hits", run->err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_tally *tally = run->scratch->host_blocks.data;
    free(batch->prefix);
    batch->prefix = NULL;
    batch->seed_count = tally->seeds;
    batch->bad = tally->bad;
    batch->fetched = UINT64_MAX;
    batch->window_len = batch->columns_bytes = 0;
    batch->runs = (struct hspz_cuda_runs){0};
    batch->ready[0] = batch->ready[1] = (struct hspz_cuda_ready){0};
    scan_on_host(batch, hspz_cuda_host_blocks(run));
    return HSPZ_OK;
}

enum hspz_status
hspz_cuda_batch_place(const struct hspz_cuda_run *run)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    struct hspz_cuda_batch *batch = run->batch;
    struct hspz_cuda_records *records = &batch->records;
    if (records->count == 0) {
        return HSPZ_OK;
    }
    records->tile_log2 = HSPZ_CUDA_TILE_LOG2;
    const uint64_t tiles = (records->hits >> HSPZ_CUDA_TILE_LOG2) + 1;
    enum hspz_status status =
        hspz_cuda_run_reserve(run, &scratch->ends, records->count * sizeof(uint32_t));
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->sources, records->count * sizeof(uint64_t));
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->starts, tiles * sizeof(uint32_t));
    }
    if (status != HSPZ_OK) {
        return status;
    }
    records->ends = scratch->ends.data;
    records->sources = scratch->sources.data;
    records->starts = scratch->starts.data;
    cudaError_t error = cudaMemcpyAsync(batch->counts.blocks, hspz_cuda_host_blocks(run),
                                        hspz_cuda_scan_blocks(batch->seed_count) * sizeof(uint64_t),
                                        cudaMemcpyHostToDevice, run->lane->work);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_place(&batch->seeds, batch->seed_count, &batch->counts,
                                       batch->counts.blocks, run->index->span, records,
                                       run->lane->work);
    }
    return hspz_cuda_run_check(run, error, "placing hits");
}

/* ---- small ---- */

enum hspz_status
hspz_cuda_batch_small_seeds(const struct hspz_cuda_run *run, uint64_t **seeds)
{
    const enum hspz_status status = hspz_cuda_run_reserve_pinned(
        run, &run->scratch->host_bases,
        HSPZ_CUDA_TALLY_BYTES + HSPZ_CUDA_SMALL_SEEDS * sizeof(uint64_t));
    if (status == HSPZ_OK) {
        *seeds = (uint64_t *)((char *)run->scratch->host_bases.data + HSPZ_CUDA_TALLY_BYTES);
    }
    return status;
}

enum hspz_status
hspz_cuda_batch_small(const struct hspz_cuda_run *run, uint64_t count, uint64_t max_word_count,
                      uint64_t *out, uint64_t capacity, bool *written)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const uint64_t limit = capacity < SMALL_HITS ? capacity : SMALL_HITS;
    const uint64_t tiles = (SMALL_HITS >> SMALL_TILE_LOG2) + 1;
    hspz_cuda_batch_reset(run->batch);
    uint64_t *seeds = NULL;
    enum hspz_status status = hspz_cuda_batch_small_seeds(run, &seeds);
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->blocks, HSPZ_CUDA_TALLY_BYTES);
    }
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_run_reserve(run, &scratch->ends, HSPZ_CUDA_SMALL_SEEDS * sizeof(uint32_t));
    }
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_run_reserve(run, &scratch->sources, HSPZ_CUDA_SMALL_SEEDS * sizeof(uint64_t));
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->starts, tiles * sizeof(uint32_t));
    }
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_cuda_tally *tally = scratch->host_bases.data;
    const struct hspz_cuda_seeds view = seeds_view(run, seeds, count, 1);
    const struct hspz_cuda_records records = {.ends = scratch->ends.data,
                                              .sources = scratch->sources.data,
                                              .starts = scratch->starts.data,
                                              .tile_log2 = SMALL_TILE_LOG2};
    status = hspz_cuda_run_check(
        run,
        hspz_cuda_launch_small(run->index, &view, count, word_limit(max_word_count), &records,
                               scratch->blocks.data, tally, out, limit, run->lane->work),
        "running a small batch");
    if (status == HSPZ_OK) {
        status = hspz_cuda_lane_wait(run->lane, run->lane->work, "running a small batch", run->err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    run->batch->seed_count = count;
    run->batch->hits = tally->hits;
    run->batch->bad = tally->bad;
    *written = tally->bad == HSPZ_CUDA_NO_BAD && tally->hits <= limit;
    return HSPZ_OK;
}
