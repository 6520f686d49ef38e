/* A small batch in two launches: one thread block counts, scans and places, then warps expand what
 * the tally on the device says there is. */
#include "engine/cuda/kernels/expand.cuh"

#include <cub/block/block_scan.cuh>

#define THREADS 1024u
#define SEEDS (HSPZ_CUDA_SMALL_SEEDS / THREADS) /* per thread, neighbours */
#define EXPAND_THREADS 128u
#define EXPAND_WARPS (EXPAND_THREADS / 32)

static __global__ void
__launch_bounds__(THREADS)
    place_small(struct hspz_cuda_index index, struct hspz_cuda_seeds seeds, uint64_t seed_count,
                uint32_t max_word_count, struct hspz_cuda_records records,
                struct hspz_cuda_tally *device_tally, struct hspz_cuda_tally *tally,
                uint64_t capacity)
{
    __shared__ unsigned long long bad;
    if (threadIdx.x == 0) {
        bad = HSPZ_CUDA_NO_BAD;
    }
    __syncthreads();

    uint64_t seed[SEEDS];
    uint32_t begin[SEEDS], count[SEEDS];
    uint64_t mine = 0; /* hits | records << 48 */
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = (uint64_t)threadIdx.x * SEEDS + u;
        seed[u] = i < seed_count ? seed_at(seeds, i) : 0;
    }
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = (uint64_t)threadIdx.x * SEEDS + u;
        const bool look = i < seed_count && seed_in_range(index, seed[u]);
        if (i < seed_count && !look) {
            atomicMin(&bad, (unsigned long long)i);
        }
        const uint32_t word = (uint32_t)(seed[u] >> 32);
        const uint32_t end = look ? __ldg(&index.table[word]) : 0;
        begin[u] = look && word != 0 ? __ldg(&index.table[word - 1]) : 0;
        count[u] = end - begin[u] <= max_word_count ? end - begin[u] : 0;
    }
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        mine += count[u] + ((uint64_t)(count[u] != 0) << HSPZ_CUDA_BLOCK_RECORD_SHIFT);
    }
    using Scan = cub::BlockScan<uint64_t, THREADS>;
    __shared__ typename Scan::TempStorage storage;
    uint64_t before, total;
    Scan(storage).ExclusiveSum(mine, before, total);
    __syncthreads();

    const uint64_t hit_mask = (1ull << HSPZ_CUDA_BLOCK_RECORD_SHIFT) - 1;
    const uint64_t hits = total & hit_mask;
    const bool fits = hits <= capacity && bad == HSPZ_CUDA_NO_BAD;
    if (threadIdx.x == 0) {
        struct hspz_cuda_tally result = {seed_count, bad, hits,
                                         total >> HSPZ_CUDA_BLOCK_RECORD_SHIFT};
        *tally = result;
        result.hits = fits ? hits : 0;
        *device_tally = result;
    }
    if (!fits) {
        return;
    }
    uint32_t at = (uint32_t)(before & hit_mask);
    uint32_t r = (uint32_t)(before >> HSPZ_CUDA_BLOCK_RECORD_SHIFT);
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        if (count[u] != 0) {
            const uint32_t end = at + count[u];
            records.ends[r] = end;
            records.sources[r] = record_source(begin[u], end, seed[u], index.span);
            mark_tiles(records, r, at, end, 0, 1);
            at = end;
            r++;
        }
    }
}

static __global__ void
__launch_bounds__(EXPAND_THREADS)
    expand_small(struct hspz_cuda_index index, struct hspz_cuda_records records,
                 const struct hspz_cuda_tally *tally, uint64_t *out)
{
    const uint64_t tile = (uint64_t)blockIdx.x * EXPAND_WARPS + threadIdx.x / 32;
    const uint64_t begin = tile << records.tile_log2;
    const uint64_t hits = tally->hits;
    if (begin >= hits) {
        return;
    }
    const uint64_t end = (tile + 1) << records.tile_log2;
    expand_tile<1>(index, records, tally->records, (uint32_t)tile, end < hits ? end : hits,
                   out + begin);
}

extern "C" cudaError_t
hspz_cuda_launch_small(const struct hspz_cuda_index *index, const struct hspz_cuda_seeds *seeds,
                       uint64_t seed_count, uint32_t max_word_count,
                       const struct hspz_cuda_records *records,
                       struct hspz_cuda_tally *device_tally, struct hspz_cuda_tally *tally,
                       uint64_t *out, uint64_t capacity, cudaStream_t stream)
{
    const uint64_t tiles = (capacity + (1ull << records->tile_log2) - 1) >> records->tile_log2;
    const unsigned grid = (unsigned)((tiles + EXPAND_WARPS - 1) / EXPAND_WARPS);
    if (seed_count > HSPZ_CUDA_SMALL_SEEDS || grid == 0) {
        return cudaErrorInvalidValue;
    }
    place_small<<<1, THREADS, 0, stream>>>(*index, *seeds, seed_count, max_word_count, *records,
                                           device_tally, tally, capacity);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        return error;
    }
    expand_small<<<grid, EXPAND_THREADS, 0, stream>>>(*index, *records, device_tally, out);
    return cudaGetLastError();
}
