/* Windows of a sequence to keys, a tile of windows a thread block (engine/cuda/kernels/kmer.cuh).
 *
 *   count    of the windows of each warp, those that are k-mers
 *   write    their keys, beside each other and in order; the tile's keys begin where the sums of
 *            all tiles say */
#include "engine/cuda/kernels/kmer.cuh"

#include <cub/block/block_scan.cuh>

#define THREADS KMER_THREADS
#define WARPS (THREADS / 32)
#define TILE HSPZ_CUDA_KMER_TILE
#define WARP_WINDOWS (TILE / WARPS)
#define SUM_THREADS 1024u
#define ALL_LANES 0xffffffffu

/* k-mers of the warp's windows; all lanes get it. */
static __device__ uint32_t
count_warp(const struct hspz_cuda_kmers &kmers, const struct kmer_unit *units)
{
    const unsigned first = threadIdx.x / 32 * WARP_WINDOWS + threadIdx.x % 32;
    uint32_t count = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
    for (unsigned i = 0; i < WARP_WINDOWS; i += 32) {
        count += (uint32_t)__popc(__ballot_sync(ALL_LANES, kmer_is(kmers, units, first + i)));
    }
    return count;
}

/* Of each warp how many are before it; how many the tile has. */
static __device__ uint32_t
count_tile(const struct hspz_cuda_kmers &kmers, const struct kmer_unit *units, uint32_t *warps)
{
    uint32_t before = 0;
    const uint32_t mine = count_warp(kmers, units);
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = mine;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 0; w < WARPS; w++) {
            const uint32_t count = warps[w];
            warps[w] = before;
            before += count;
        }
    }
    return before; /* of thread 0 */
}

/* ---- kernels ---- */

static __global__ void
__launch_bounds__(THREADS) count_tiles(struct hspz_cuda_kmers kmers, uint64_t *starts)
{
    __shared__ struct kmer_unit units[KMER_UNITS];
    __shared__ uint32_t warps[WARPS];
    kmer_pack_tile(kmers, units);
    const uint32_t count = count_tile(kmers, units, warps);
    if (threadIdx.x == 0) {
        starts[blockIdx.x] = count;
    }
}

/* By one block. */
static __global__ void
__launch_bounds__(SUM_THREADS) sum_tiles(uint64_t *starts, uint64_t tiles)
{
    using Scan = cub::BlockScan<uint64_t, SUM_THREADS>;
    __shared__ typename Scan::TempStorage storage;
    uint64_t sum = 0;
    for (uint64_t from = 0; from < tiles; from += SUM_THREADS) {
        const uint64_t i = from + threadIdx.x;
        uint64_t before, all;
        Scan(storage).ExclusiveSum(i < tiles ? starts[i] : 0, before, all);
        if (i < tiles) {
            starts[i] = sum + before;
        }
        sum += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        starts[tiles] = sum;
    }
}

static __global__ void
__launch_bounds__(THREADS) write_keys(struct hspz_cuda_kmers kmers, struct hspz_cuda_kmer_keys out)
{
    __shared__ struct kmer_unit units[KMER_UNITS];
    __shared__ uint32_t warps[WARPS];
    __shared__ uint64_t start;
    kmer_pack_tile(kmers, units);
    (void)count_tile(kmers, units, warps);
    if (threadIdx.x == 0) {
        start = out.starts[blockIdx.x];
    }
    __syncthreads();
    const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * WARP_WINDOWS + lane;
    uint64_t at = start + warps[threadIdx.x / 32];
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
    for (unsigned i = 0; i < WARP_WINDOWS; i += 32) {
        const unsigned window = first + i;
        const bool is = kmer_is(kmers, units, window);
        const uint32_t all = __ballot_sync(ALL_LANES, is);
        if (is) {
            const uint64_t to = at + (uint32_t)__popc(all & ((1u << lane) - 1));
            out.keys[to] = kmer_key(kmers, units, window);
            if (out.from != NULL) {
                out.from[to] = blockIdx.x * TILE + window;
            }
        }
        at += (uint32_t)__popc(all);
    }
}

static __global__ void
__launch_bounds__(THREADS) spread_answers(struct hspz_cuda_kmer_answers answers)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= answers.count) {
        return;
    }
    const uint32_t window = answers.from[i];
    if (answers.found != NULL) {
        answers.windows_found[window] = answers.found[i];
    }
    if (answers.yes != NULL && (answers.yes[i / 32] >> i % 32 & 1) != 0) {
        atomicOr(&answers.windows_yes[window / 32], 1u << window % 32);
    }
}

/* ---- launches ---- */

extern "C" cudaError_t
hspz_cuda_launch_kmer_starts(const struct hspz_cuda_kmers *kmers, uint64_t *starts,
                             cudaStream_t stream)
{
    const uint64_t tiles = hspz_cuda_kmer_tiles(kmers->windows);
    if (tiles > 0) {
        count_tiles<<<(unsigned)tiles, THREADS, 0, stream>>>(*kmers, starts);
    }
    sum_tiles<<<1, SUM_THREADS, 0, stream>>>(starts, tiles);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_kmer_keys(const struct hspz_cuda_kmers *kmers,
                           const struct hspz_cuda_kmer_keys *out, cudaStream_t stream)
{
    const uint64_t tiles = hspz_cuda_kmer_tiles(kmers->windows);
    if (tiles == 0) {
        return cudaSuccess;
    }
    write_keys<<<(unsigned)tiles, THREADS, 0, stream>>>(*kmers, *out);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_kmer_answers(const struct hspz_cuda_kmer_answers *answers, cudaStream_t stream)
{
    if (answers->count == 0) {
        return cudaSuccess;
    }
    const unsigned grid = (unsigned)((answers->count + THREADS - 1) / THREADS);
    spread_answers<<<grid, THREADS, 0, stream>>>(*answers);
    return cudaGetLastError();
}
