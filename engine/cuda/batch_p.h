/* What the parts of a batch (batch.c, batch_copy.c) share. */
#pragma once

#include "engine/cuda/batch.h"
#include "engine/cuda/cuda_status.h"
#include "engine/engine.h"

/* The tally stands before the scan blocks, on the device and on the host. */
#define HSPZ_CUDA_TALLY_BYTES 64u
/* Hits in a tile: one warp's work. */
#define HSPZ_CUDA_TILE_LOG2 10u

HSPZ_MUST_USE static inline enum hspz_status
hspz_cuda_run_check(const struct hspz_cuda_run *run, cudaError_t error, const char *what)
{
    return hspz_cuda_check(error, run->lane->device->label, what, run->err);
}

HSPZ_MUST_USE static inline enum hspz_status
hspz_cuda_run_reserve(const struct hspz_cuda_run *run, struct hspz_cuda_buffer *buffer,
                      uint64_t bytes)
{
    return hspz_cuda_buffer_reserve(run->lane->device, buffer, bytes, run->err);
}

HSPZ_MUST_USE static inline enum hspz_status
hspz_cuda_run_reserve_pinned(const struct hspz_cuda_run *run, struct hspz_cuda_buffer *buffer,
                             uint64_t bytes)
{
    return hspz_cuda_pinned_reserve(run->lane->device, buffer, bytes, run->err);
}

static inline uint64_t
hspz_cuda_scan_blocks(uint64_t seeds)
{
    return (seeds + HSPZ_SCAN_BLOCK - 1) / HSPZ_SCAN_BLOCK;
}

/* Hits in the smallest window. */
#define HSPZ_CUDA_WINDOW_LEAST (UINT64_C(1) << HSPZ_CUDA_TILE_LOG2)

/* Two buffers of a window each, of at most `most` hits, smaller when memory is short. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_open_windows(const struct hspz_cuda_run *run,
                                                            uint64_t most);
/* Sees to it that window `number` is in its buffer, or on its way there. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_expand_window(const struct hspz_cuda_run *run,
                                                             uint64_t number);

/* Of the batch: totals once counted, then offsets. */
static inline uint64_t *
hspz_cuda_host_blocks(const struct hspz_cuda_run *run)
{
    return (uint64_t *)((char *)run->scratch->host_blocks.data + HSPZ_CUDA_TALLY_BYTES);
}
