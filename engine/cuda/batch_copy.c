/* Where chunks end, and hits to the host. */
#include "engine/cuda/batch_p.h"

#include <inttypes.h>
#include <stdlib.h>

/* A thread a seed is chosen below so many hits a record, unless a scan block has more than so many:
 * one large bucket would hold it up. */
#define THREAD_HITS 2u
#define THREAD_BLOCK_HITS 4096u
/* SPEC C.4: hits a seed from which a warp walks a bucket. */
#define SPEC_WARP_HITS 16u

#define WINDOW_DEFAULT (UINT64_C(1) << 22)

/* ---- find ---- */

/* Sums of scan block `block` within it, in host_sums. */
static enum hspz_status
fetch_block(const struct hspz_cuda_run *run, uint64_t block, uint64_t len)
{
    if (run->batch->fetched == block) {
        return HSPZ_OK;
    }
    const uint64_t bytes = HSPZ_SCAN_BLOCK * sizeof(uint32_t);
    enum hspz_status status = hspz_cuda_run_reserve_pinned(run, &run->scratch->host_sums, bytes);
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_check(
            run,
            cudaMemcpyAsync(run->scratch->host_sums.data,
                            run->batch->counts.sums + block * HSPZ_SCAN_BLOCK,
                            len * sizeof(uint32_t), cudaMemcpyDeviceToHost, run->lane->copy),
            "fetching a scan block");
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_lane_wait(run->lane, run->lane->copy, "fetching a scan block", run->err);
    }
    if (status == HSPZ_OK) {
        run->batch->fetched = block;
    }
    return status;
}

bool
hspz_cuda_batch_find_blocks(void *user, uint64_t hits, uint64_t *b, uint64_t *before, uint64_t *at)
{
    const struct hspz_cuda_run *run = user;
    const uint64_t *offsets = hspz_cuda_host_blocks(run);
    /* The last offset below `hits`. */
    uint64_t low = 0, high = hspz_cuda_scan_blocks(run->batch->seed_count);
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if ((uint32_t)offsets[middle] < hits) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const uint64_t first = low * HSPZ_SCAN_BLOCK;
    const uint64_t rest = run->batch->seed_count - first;
    const uint64_t len = rest < HSPZ_SCAN_BLOCK ? rest : HSPZ_SCAN_BLOCK;
    if (fetch_block(run, low, len) != HSPZ_OK) {
        return false;
    }
    const uint32_t *sums = run->scratch->host_sums.data;
    const uint64_t offset = (uint32_t)offsets[low];
    const uint64_t i = hspz_prefix_lower_bound(sums, 0, len, hits - offset);
    HSPZ_REQUIRE(i < len);
    *b = first + i;
    *before = offset + (i == 0 ? 0 : sums[i - 1]);
    *at = offset + sums[i];
    return true;
}

static enum hspz_status
fetch_prefix(const struct hspz_cuda_run *run)
{
    struct hspz_cuda_batch *batch = run->batch;
    uint32_t *prefix = malloc(batch->seed_count * sizeof(*prefix) + 1);
    if (prefix == NULL) {
        return hspz_error_set(run->err, HSPZ_E_OUT_OF_MEMORY,
                              "no memory for the prefix sums of %" PRIu64 " seeds",
                              batch->seed_count);
    }
    enum hspz_status status = hspz_cuda_run_check(
        run,
        cudaMemcpyAsync(prefix, batch->counts.sums, batch->seed_count * sizeof(*prefix),
                        cudaMemcpyDeviceToHost, run->lane->copy),
        "fetching prefix sums");
    if (status == HSPZ_OK) {
        status = hspz_cuda_lane_wait(run->lane, run->lane->copy, "fetching prefix sums", run->err);
    }
    if (status != HSPZ_OK) {
        free(prefix);
        return status;
    }
    for (uint64_t i = 0; i < batch->seed_count; i++) {
        prefix[i] += (uint32_t)hspz_cuda_host_blocks(run)[i / HSPZ_SCAN_BLOCK];
    }
    batch->prefix = prefix;
    return HSPZ_OK;
}

bool
hspz_cuda_batch_find_full(void *user, uint64_t hits, uint64_t *b, uint64_t *before, uint64_t *at)
{
    const struct hspz_cuda_run *run = user;
    if (run->batch->prefix == NULL && fetch_prefix(run) != HSPZ_OK) {
        return false;
    }
    struct hspz_prefix prefix = {.sums = run->batch->prefix, .count = run->batch->seed_count};
    return hspz_prefix_find_full(&prefix, hits, b, before, at);
}

/* ---- copy ---- */

enum hspz_status
hspz_cuda_batch_open_windows(const struct hspz_cuda_run *run, uint64_t most)
{
    struct hspz_cuda_batch *batch = run->batch;
    const uint64_t tile = UINT64_C(1) << batch->records.tile_log2;
    const uint64_t wanted =
        run->tuning->window_hits != 0 ? run->tuning->window_hits : WINDOW_DEFAULT;
    uint64_t len = wanted < batch->hits ? wanted : batch->hits;
    len = len < most ? len : most;
    for (;;) {
        len = (len + tile - 1) / tile * tile;
        enum hspz_status status =
            hspz_cuda_run_reserve(run, &run->scratch->anchors[0], len * sizeof(uint64_t));
        if (status == HSPZ_OK && len < batch->hits) {
            status = hspz_cuda_run_reserve(run, &run->scratch->anchors[1], len * sizeof(uint64_t));
        }
        if (status == HSPZ_OK) {
            batch->window_len = len;
            batch->window_at[0] = batch->window_at[1] = UINT64_MAX;
            return HSPZ_OK;
        }
        if (status != HSPZ_E_OUT_OF_MEMORY || len == tile) {
            return status;
        }
        hspz_cuda_buffer_free(run->lane->device, &run->scratch->anchors[0]);
        hspz_cuda_buffer_free(run->lane->device, &run->scratch->anchors[1]);
        len /= 2;
    }
}

static enum hspz_cuda_mapping
mapping_of(const struct hspz_cuda_run *run)
{
    const struct hspz_cuda_batch *batch = run->batch;
    switch ((enum hspz_cuda_mapping)run->tuning->mapping) {
    case HSPZ_CUDA_MAPPING_AUTO:
        return batch->hits < THREAD_HITS * batch->records.count &&
                       batch->most_block_hits <= THREAD_BLOCK_HITS
                   ? HSPZ_CUDA_MAPPING_THREAD
                   : HSPZ_CUDA_MAPPING_TILE;
    case HSPZ_CUDA_MAPPING_SPEC:
        return batch->hits < SPEC_WARP_HITS * batch->seed_count ? HSPZ_CUDA_MAPPING_THREAD
                                                                : HSPZ_CUDA_MAPPING_WARP;
    default:
        return (enum hspz_cuda_mapping)run->tuning->mapping;
    }
}

enum hspz_status
hspz_cuda_batch_expand_window(const struct hspz_cuda_run *run, uint64_t number)
{
    struct hspz_cuda_batch *batch = run->batch;
    const unsigned which = number & 1;
    if (batch->window_at[which] == number || number * batch->window_len >= batch->hits) {
        return HSPZ_OK;
    }
    const uint64_t begin = number * batch->window_len;
    const uint64_t rest = batch->hits - begin;
    const struct hspz_cuda_window window = {
        .out = run->scratch->anchors[which].data,
        .begin = begin,
        .end = begin + (rest < batch->window_len ? rest : batch->window_len),
    };
    cudaError_t error =
        hspz_cuda_launch_expand(run->index, &batch->records, &window, mapping_of(run),
                                run->lane->device->multiprocessors, run->lane->work);
    if (error == cudaSuccess) {
        error = cudaEventRecord(run->scratch->expanded[which], run->lane->work);
    }
    batch->window_at[which] = error == cudaSuccess ? number : UINT64_MAX;
    return hspz_cuda_run_check(run, error, "expanding hits");
}

static enum hspz_status
copy_from_window(const struct hspz_cuda_run *run, uint64_t number, uint64_t begin, uint64_t end,
                 uint64_t *out)
{
    const uint64_t *anchors = run->scratch->anchors[number & 1].data;
    const uint64_t offset = begin - number * run->batch->window_len;
    cudaError_t error = cudaStreamWaitEvent(run->lane->copy, run->scratch->expanded[number & 1], 0);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(out, anchors + offset, (end - begin) * sizeof(uint64_t),
                                cudaMemcpyDeviceToHost, run->lane->copy);
    }
    return hspz_cuda_run_check(run, error, "downloading anchors");
}

enum hspz_status
hspz_cuda_batch_copy(const struct hspz_cuda_run *run, uint64_t begin, uint64_t end, uint64_t *out,
                     uint64_t *copied)
{
    struct hspz_cuda_batch *batch = run->batch;
    enum hspz_status status =
        batch->window_len != 0 ? HSPZ_OK : hspz_cuda_batch_open_windows(run, UINT64_MAX);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t len = batch->window_len;
    end = end - begin < len ? end : begin + len;
    const uint64_t first = begin / len, last = (end - 1) / len;
    for (uint64_t number = first; number <= last && status == HSPZ_OK; number++) {
        status = hspz_cuda_batch_expand_window(run, number);
    }
    for (uint64_t number = first; number <= last && status == HSPZ_OK; number++) {
        const uint64_t from = number == first ? begin : number * len;
        const uint64_t to = number == last ? end : (number + 1) * len;
        status = copy_from_window(run, number, from, to, out + (from - begin));
    }
    if (status == HSPZ_OK && first == last) {
        status = hspz_cuda_batch_expand_window(run, first + 1);
    }
    /* Waited for also after a failure: out is the caller's again. */
    const enum hspz_status waited = hspz_cuda_lane_wait(
        run->lane, run->lane->copy, "downloading anchors", status == HSPZ_OK ? run->err : NULL);
    *copied = end - begin;
    return status != HSPZ_OK ? status : waited;
}
