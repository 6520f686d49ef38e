/* The second half of C.2: block offsets are added, and the seeds that have hits are packed, with
 * everything expansion needs to know of them. */
#include "engine/cuda/kernels/lookup.cuh"

#define THREADS 256u
#define WARPS (THREADS / 32)
#define SEEDS (HSPZ_CUDA_SCAN_BLOCK / 32) /* per lane */
#define LONG_TILES 8u                     /* tiles in one bucket, from which a warp marks them */

static __global__ void
__launch_bounds__(THREADS)
    place_records(struct hspz_cuda_seeds seeds, uint64_t seed_count, struct hspz_cuda_counts counts,
                  const uint64_t *offsets, uint32_t span, struct hspz_cuda_records records)
{
    const uint32_t lane = threadIdx.x & 31;
    const uint64_t block = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const uint64_t base = block * HSPZ_CUDA_SCAN_BLOCK + lane;
    if (base - lane >= seed_count) {
        return;
    }
    const uint32_t hits_before = (uint32_t)offsets[block];
    uint32_t r = (uint32_t)(offsets[block] >> 32);

    uint32_t sum[SEEDS], before[SEEDS], begin[SEEDS], query[SEEDS];
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = base + u * 32;
        sum[u] = i < seed_count ? counts.sums[i] : 0;
    }
    uint32_t carry = 0;
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = base + u * 32;
        const uint32_t left = __shfl_up_sync(HSPZ_FULL_WARP, sum[u], 1);
        before[u] = lane == 0 ? carry : left;
        carry = __shfl_sync(HSPZ_FULL_WARP, sum[u], 31);
        before[u] = i < seed_count ? before[u] : sum[u];
    }
    /* All loads before the first store, which would wait for its own. */
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = base + u * 32;
        const bool full = sum[u] != before[u];
        begin[u] = full ? counts.begins[i] : 0;
        query[u] = full ? (uint32_t)seed_at(seeds, i) : 0;
    }
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const bool full = sum[u] != before[u];
        const uint32_t mask = __ballot_sync(HSPZ_FULL_WARP, full);
        const uint32_t mine = r + (uint32_t)__popc(mask & ((1u << lane) - 1));
        const uint32_t from = hits_before + before[u], end = hits_before + sum[u];
        bool far = false;
        if (full) {
            records.ends[mine] = end;
            records.sources[mine] = record_source(begin[u], end, query[u], span);
            far = (end - 1) / LONG_TILES >> records.tile_log2 > from / LONG_TILES >>
                  records.tile_log2;
            if (!far) {
                mark_tiles(records, mine, from, end, 0, 1);
            }
        }
        for (uint32_t rest = __ballot_sync(HSPZ_FULL_WARP, far); rest != 0; rest &= rest - 1) {
            const int other = __ffs((int)rest) - 1;
            mark_tiles(records, __shfl_sync(HSPZ_FULL_WARP, mine, other),
                       __shfl_sync(HSPZ_FULL_WARP, from, other),
                       __shfl_sync(HSPZ_FULL_WARP, end, other), lane, 32);
        }
        r += (uint32_t)__popc(mask);
    }
}

extern "C" cudaError_t
hspz_cuda_launch_place(const struct hspz_cuda_seeds *seeds, uint64_t seed_count,
                       const struct hspz_cuda_counts *counts, const uint64_t *offsets,
                       uint32_t span, const struct hspz_cuda_records *records, cudaStream_t stream)
{
    const uint64_t blocks = (seed_count + HSPZ_CUDA_SCAN_BLOCK - 1) / HSPZ_CUDA_SCAN_BLOCK;
    const unsigned grid = (unsigned)((blocks + WARPS - 1) / WARPS);
    if (grid == 0 || records->count == 0) {
        return cudaSuccess;
    }
    place_records<<<grid, THREADS, 0, stream>>>(*seeds, seed_count, *counts, offsets, span,
                                                *records);
    return cudaGetLastError();
}
