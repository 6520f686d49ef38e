/* Words of a query's windows. */
#include "engine/cuda/kernels/bases.cuh"
#include "engine/cuda/kernels/overlap.cuh"

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#define THREADS BASES_THREADS
#define WINDOWS (HSPZ_CUDA_SEED_BLOCK / THREADS) /* per thread, neighbours */

static __device__ __forceinline__ bool
window_valid(const struct hspz_cuda_query &query, const struct bases_tile &tile, uint64_t begin,
             uint32_t offset)
{
    const uint64_t start = begin + offset;
    return start < query.positions && bases_valid(tile, offset, query.span) &&
           (query.masked == NULL || (query.masked[start / 32] >> start % 32 & 1) == 0);
}

static __global__ void
__launch_bounds__(THREADS) count_windows(struct hspz_cuda_query query, uint32_t *counts)
{
    __shared__ struct bases_tile tile;
    using Reduce = cub::BlockReduce<uint32_t, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    const uint64_t begin = (uint64_t)blockIdx.x * HSPZ_CUDA_SEED_BLOCK;
    uint8_t bytes[BASES_LOADS];
    overlap_let();
    bases_load(query.bases, query.bases_len, begin, query.minus, bytes);
    bases_pack(bytes, query.minus, query.unmask, &tile);
    uint32_t valid = 0;
#pragma unroll
    for (uint32_t u = 0; u < WINDOWS; u++) {
        valid += window_valid(query, tile, begin, threadIdx.x * WINDOWS + u);
    }
    valid = Reduce(storage).Sum(valid);
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = valid;
    }
}

static __global__ void
__launch_bounds__(THREADS)
    write_windows(struct hspz_cuda_query query, const uint32_t *counts, uint32_t per_window,
                  uint64_t *windows, struct hspz_cuda_tally *tally)
{
    __shared__ struct bases_tile tile;
    using Reduce = cub::BlockReduce<uint64_t, THREADS>;
    using Scan = cub::BlockScan<uint32_t, THREADS>;
    __shared__ typename Reduce::TempStorage reduce_storage;
    __shared__ typename Scan::TempStorage scan_storage;
    __shared__ uint64_t base;
    const uint64_t begin = (uint64_t)blockIdx.x * HSPZ_CUDA_SEED_BLOCK;

    uint8_t bytes[BASES_LOADS];
    overlap_let();
    bases_load(query.bases, query.bases_len, begin, query.minus, bytes);
    overlap_wait();
    uint64_t before = 0;
    for (uint32_t b = threadIdx.x; b < blockIdx.x; b += THREADS) {
        before += counts[b];
    }
    before = Reduce(reduce_storage).Sum(before);
    if (threadIdx.x == 0) {
        base = before;
        if (blockIdx.x == gridDim.x - 1) {
            tally->seeds = (before + counts[blockIdx.x]) * per_window;
        }
    }
    bases_pack(bytes, query.minus, query.unmask, &tile);

    bool valid[WINDOWS];
    uint32_t mine = 0, rank;
#pragma unroll
    for (uint32_t u = 0; u < WINDOWS; u++) {
        valid[u] = window_valid(query, tile, begin, threadIdx.x * WINDOWS + u);
        mine += valid[u];
    }
    uint32_t words[WINDOWS];
    bases_words(tile, threadIdx.x * WINDOWS, query.care, words);
    Scan(scan_storage).ExclusiveSum(mine, rank);
    uint64_t *out = windows + base + rank;
#pragma unroll
    for (uint32_t u = 0; u < WINDOWS; u++) {
        if (valid[u]) {
            const uint32_t offset = threadIdx.x * WINDOWS + u;
            *out++ = (uint64_t)words[u] << 32 | (query.first + (uint32_t)begin + offset);
        }
    }
}

static unsigned
query_grid(const struct hspz_cuda_query *query)
{
    return (unsigned)((query->positions + HSPZ_CUDA_SEED_BLOCK - 1) / HSPZ_CUDA_SEED_BLOCK);
}

extern "C" cudaError_t
hspz_cuda_launch_window_count(const struct hspz_cuda_query *query, uint32_t *counts,
                              cudaStream_t stream)
{
    if (query->positions == 0) {
        return cudaSuccess;
    }
    count_windows<<<query_grid(query), THREADS, 0, stream>>>(*query, counts);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_windows(const struct hspz_cuda_query *query, const uint32_t *counts,
                         uint32_t per_window, uint64_t *windows, struct hspz_cuda_tally *tally,
                         bool overlap, cudaStream_t stream)
{
    if (query->positions == 0) {
        return cudaSuccess;
    }
    return overlap_launch(overlap, write_windows, query_grid(query), THREADS, stream, *query,
                          counts, per_window, windows, tally);
}
