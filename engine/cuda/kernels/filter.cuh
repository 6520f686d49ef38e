/* What the kernels of the filters share. */
#pragma once

#include "engine/cuda/kernels/filter_launch.h"
#include "engine/filter_hash.h"

#define FILTER_THREADS 256u
#define FILTER_FULL_WARP 0xffffffffu

/* A thread a key. */
static inline unsigned
filter_grid(uint64_t count)
{
    return (unsigned)((count + FILTER_THREADS - 1) / FILTER_THREADS);
}

static __device__ __forceinline__ uint64_t
filter_index()
{
    return (uint64_t)blockIdx.x * FILTER_THREADS + threadIdx.x;
}

static __device__ __forceinline__ uint64_t
filter_key(const struct hspz_cuda_filter_call &call, uint64_t i)
{
    return __ldcs((const unsigned long long *)call.keys + i);
}

/* All threads of the block bring key i's answer; those past the last key bring false. `sign`: what
 * a yes does to the number of entries. */
static __device__ __forceinline__ void
filter_answer(const struct hspz_cuda_filter_call &call, struct hspz_cuda_filter_counts *counts,
              uint64_t i, bool yes, int sign)
{
    if (call.yes != NULL) {
        const uint32_t bits = __ballot_sync(FILTER_FULL_WARP, yes);
        if ((threadIdx.x & 31) == 0 && i < call.count) {
            call.yes[i / 32] = bits;
        }
    }
    if (call.result == NULL && sign == 0) {
        return;
    }
    const unsigned long long all = (unsigned long long)__syncthreads_count(yes);
    if (threadIdx.x == 0 && all > 0) {
        if (call.result != NULL) {
            atomicAdd(&call.result->yes, all);
        }
        if (sign != 0) {
            atomicAdd(&counts->entries, sign > 0 ? all : 0 - all);
        }
    }
}

/* ---- regions ---- */

#define REGION_THREADS 512u

/* Blocks of a filter whose hashes have the same high bits. The first one, or the last, may be
 * shared with the region beside it: then it is not among those it has for itself. */
struct filter_region {
    uint64_t first, end; /* of its own */
    uint32_t begin_key, end_key;
};

static __device__ __forceinline__ filter_region
filter_region_of(const struct hspz_cuda_filter_sorted &sorted, uint32_t r, uint64_t blocks)
{
    const uint64_t low = (uint64_t)r << sorted.shift;
    const uint64_t high = low + ((1ull << sorted.shift) - 1);
    filter_region region;
    region.first = hspz_filter_scale(low, blocks);
    region.end = hspz_filter_scale(high, blocks) + 1;
    region.begin_key = sorted.starts[r];
    region.end_key = sorted.starts[r + 1];
    if (r > 0 && hspz_filter_scale(low - 1, blocks) == region.first) {
        region.first++;
    }
    if (r + 1 < sorted.regions && hspz_filter_scale(high + 1, blocks) == region.end - 1) {
        region.end--;
    }
    region.end = region.end < region.first ? region.first : region.end;
    return region;
}

/* All threads of the block; words of 16 bytes. */
static __device__ __forceinline__ void
filter_move(uint4 *to, const uint4 *from, uint32_t words)
{
    for (uint32_t i = threadIdx.x; i < words; i += REGION_THREADS) {
        to[i] = from[i];
    }
}
