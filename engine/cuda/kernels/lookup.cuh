/* What the kernels that look seeds up share. */
#pragma once

#include "engine/cuda/kernels/launch.h"

#define HSPZ_FULL_WARP 0xffffffffu

/* What a window's seed is XORed with for its turn: nothing, one transition, or the two of pair
 * u (u - 1) / 2 + t, t < u. */
static __device__ __forceinline__ uint64_t
seed_flip(const struct hspz_cuda_seeds &seeds, uint32_t turn)
{
    if (turn <= seeds.singles) {
        return turn == 0 ? 0 : 2ull << (30 + 2 * turn);
    }
    const uint32_t pair = turn - seeds.singles - 1;
    uint32_t u = 1;
#pragma unroll
    for (uint32_t n = 2; n < 15; n++) {
        u += pair >= n * (n - 1) / 2;
    }
    const uint32_t t = pair - u * (u - 1) / 2;
    return 2ull << (32 + 2 * t) | 2ull << (32 + 2 * u);
}

/* The inverse is exact: a batch has fewer than 2^32 / per_window seeds. */
static __device__ __forceinline__ uint64_t
seed_at(const struct hspz_cuda_seeds &seeds, uint64_t i)
{
    const uint32_t window = (uint32_t)((uint32_t)i * seeds.inverse >> 32);
    const uint32_t turn = (uint32_t)i - window * seeds.per_window;
    return __ldg((const unsigned long long *)seeds.words + window) ^ seed_flip(seeds, turn);
}

static __device__ __forceinline__ bool
seed_in_range(const struct hspz_cuda_index &index, uint64_t seed)
{
    return (uint32_t)(seed >> 32) < index.words && (uint32_t)seed <= UINT32_MAX - index.span;
}

static __device__ __forceinline__ uint64_t
record_source(uint32_t bucket, uint32_t end, uint64_t seed, uint32_t span)
{
    return (uint64_t)((uint32_t)seed + span) << 32 | (uint32_t)(bucket + end - 1);
}

/* Enters record r, with hits [begin, end), as the start of the tiles that begin in it, `step` tiles
 * apart from the `first`. */
static __device__ __forceinline__ void
mark_tiles(const struct hspz_cuda_records &records, uint32_t r, uint32_t begin, uint32_t end,
           uint32_t first, uint32_t step)
{
    const uint64_t tile = 1ull << records.tile_log2;
    const uint64_t last = (end - 1) >> records.tile_log2;
    for (uint64_t t = ((begin + tile - 1) >> records.tile_log2) + first; t <= last; t += step) {
        records.starts[t] = r;
    }
}
