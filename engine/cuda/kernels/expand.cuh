/* The mapping that is balanced by output, as a device function. */
#pragma once

#include "engine/cuda/kernels/lookup.cuh"

/* First of the 32 ends, one a lane and ascending, that is above k: every lane asks for its own k.
 */
static __device__ __forceinline__ uint32_t
owner_of(uint32_t end, uint32_t k)
{
    uint32_t owner = 0;
#pragma unroll
    for (uint32_t step = 16; step != 0; step >>= 1) {
        const uint32_t middle = __shfl_sync(HSPZ_FULL_WARP, end, owner + step - 1);
        owner += middle <= k ? step : 0;
    }
    return owner;
}

static __device__ __forceinline__ uint64_t
anchor_of(uint32_t position, uint32_t span, uint32_t query)
{
    return (uint64_t)query << 32 | (position + span);
}

/* A warp writes hits [tile << tile_log2, stop) of a tile, stop being its end or the window's. It
 * takes 32 records at a time, one a lane; their hits are one stretch of the output, which the lanes
 * sweep in pairs of neighbours, so that every store is of whole sectors. A pair's second hit
 * belongs to the first one's record or to the next, since every record has hits. */
template <uint32_t PAIRS>
static __device__ __forceinline__ void
expand_tile(const struct hspz_cuda_index &index, const struct hspz_cuda_records &records,
            uint64_t record_count, uint32_t tile, uint64_t stop,
            uint64_t *__restrict__ out /* hit 0 of the tile */)
{
    const uint32_t lane = threadIdx.x & 31;
    const uint64_t tile_begin = (uint64_t)tile << records.tile_log2;
    const uint32_t base = (uint32_t)tile_begin;
    const uint32_t len = (uint32_t)(stop - tile_begin);
    const uint32_t *__restrict__ pos = index.pos;
    const uint32_t span = index.span;

    uint64_t next = (uint64_t)records.starts[tile] + lane;
    uint32_t next_end = next < record_count ? __ldg(&records.ends[next]) - base : len;
    uint64_t next_source = next < record_count ? __ldg(&records.sources[next]) : 0;
    uint32_t done = 0;
    while (done < len) {
        const uint32_t end = next_end < len ? next_end : len;
        const uint32_t at = (uint32_t)next_source - base; /* of the tile's hit 0 in pos */
        const uint32_t query = (uint32_t)(next_source >> 32);
        const uint32_t last = __shfl_sync(HSPZ_FULL_WARP, end, 31);
        next += 32;
        if (last < len) {
            next_end = next < record_count ? __ldg(&records.ends[next]) - base : len;
            next_source = next < record_count ? __ldg(&records.sources[next]) : 0;
        }
        for (uint32_t sweep = done & ~3u; sweep < last; sweep += 64 * PAIRS) {
            uint32_t position[2 * PAIRS], queries[2 * PAIRS];
#pragma unroll
            for (uint32_t p = 0; p < PAIRS; p++) {
                const uint32_t k = sweep + 64 * p + 2 * lane;
                const uint32_t first = owner_of(end, k) & 31;
                const uint32_t second =
                    (first + (__shfl_sync(HSPZ_FULL_WARP, end, first) <= k + 1 ? 1 : 0)) & 31;
                const uint32_t first_at = __shfl_sync(HSPZ_FULL_WARP, at, first);
                const uint32_t second_at = __shfl_sync(HSPZ_FULL_WARP, at, second);
                queries[2 * p] = __shfl_sync(HSPZ_FULL_WARP, query, first);
                queries[2 * p + 1] = __shfl_sync(HSPZ_FULL_WARP, query, second);
                position[2 * p] = k >= done && k < last ? __ldg(&pos[first_at - k]) : 0;
                position[2 * p + 1] =
                    k + 1 >= done && k + 1 < last ? __ldg(&pos[second_at - k - 1]) : 0;
            }
#pragma unroll
            for (uint32_t p = 0; p < PAIRS; p++) {
                const uint32_t k = sweep + 64 * p + 2 * lane;
                const uint64_t one = anchor_of(position[2 * p], span, queries[2 * p]);
                const uint64_t two = anchor_of(position[2 * p + 1], span, queries[2 * p + 1]);
                if (k >= done && k + 1 < last) {
                    __stcs((ulonglong2 *)(out + k), make_ulonglong2(one, two));
                } else if (k >= done && k < last) {
                    __stcs((unsigned long long *)(out + k), (unsigned long long)one);
                } else if (k + 1 >= done && k + 1 < last) {
                    __stcs((unsigned long long *)(out + k + 1), (unsigned long long)two);
                }
            }
        }
        done = last;
    }
}
