/* Hits per seed (SPEC C.1), with sums within blocks of 256 and a total for each block (C.2). */
#include "engine/cuda/kernels/bucket.cuh"
#include "engine/cuda/kernels/overlap.cuh"

#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#define THREADS 128u
#define WARPS (THREADS / 32)
#define SEEDS (HSPZ_CUDA_SCAN_BLOCK / 32) /* per lane */

/* The seeds of a lane, 32 apart: their words; bit u of the result: look word u up. */
static __device__ __forceinline__ uint32_t
load_words(const struct hspz_cuda_index &index, const struct hspz_cuda_seeds &seeds, uint64_t first,
           uint64_t seed_count, struct hspz_cuda_tally *tally, uint32_t (&word)[SEEDS])
{
    uint64_t seed[SEEDS];
    uint64_t bad = HSPZ_CUDA_NO_BAD;
    uint32_t look = 0;
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = first + u * 32;
        seed[u] = seed_at(seeds, i < seed_count ? i : 0);
    }
#pragma unroll
    for (uint32_t u = 0; u < SEEDS; u++) {
        const uint64_t i = first + u * 32;
        const bool right = seed_in_range(index, seed[u]);
        word[u] = (uint32_t)(seed[u] >> 32);
        look |= (uint32_t)(i < seed_count && right) << u;
        bad = i < seed_count && !right && i < bad ? i : bad;
    }
    if (bad != HSPZ_CUDA_NO_BAD) {
        atomicMin((unsigned long long *)&tally->bad, (unsigned long long)bad);
    }
    return look;
}

/* A warp takes one scan block, with N look-ups of each lane in flight. */
template <enum lookup LOOKUP, uint32_t N>
static __global__ void
__launch_bounds__(THREADS)
    count_seeds(struct hspz_cuda_index index, struct hspz_cuda_seeds seeds,
                struct hspz_cuda_counts counts, uint32_t max_word_count, uint64_t blocks)
{
    const uint32_t lane = threadIdx.x & 31;
    const uint64_t block = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    overlap_wait();
    if (block >= blocks) {
        return;
    }
    const uint64_t seed_count = counts.tally->seeds;
    const uint64_t base = block * HSPZ_CUDA_SCAN_BLOCK;
    if (base >= seed_count) {
        if (lane == 0) {
            counts.blocks[block] = 0;
        }
        return;
    }

    using Scan = cub::WarpScan<uint32_t>;
    using Reduce = cub::WarpReduce<unsigned long long>;
    __shared__ typename Scan::TempStorage scan_storage[WARPS];
    __shared__ typename Reduce::TempStorage reduce_storage[WARPS];
    uint32_t carry = 0, records = 0;
    unsigned long long hits = 0;
    uint32_t word[SEEDS];
    const uint32_t look = load_words(index, seeds, base + lane, seed_count, counts.tally, word);
#pragma unroll
    for (uint32_t from = 0; from < SEEDS; from += N) {
        struct buckets<N> b;
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            b.word[u] = word[from + u];
            b.look[u] = look >> (from + u) & 1;
        }
        find_buckets<LOOKUP>(index, &b);
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            const uint64_t i = base + (from + u) * 32 + lane;
            const uint32_t count = b.size[u] <= max_word_count ? b.size[u] : 0;
            uint32_t sum, total;
            Scan(scan_storage[threadIdx.x / 32]).InclusiveSum(count, sum, total);
            if (i < seed_count) {
                counts.sums[i] = carry + sum;
            }
            if (count != 0) {
                counts.begins[i] = b.begin[u];
            }
            carry += total;
            hits += count;
            records += (uint32_t)__popc(__ballot_sync(HSPZ_FULL_WARP, count != 0));
        }
    }
    hits = Reduce(reduce_storage[threadIdx.x / 32]).Sum(hits);
    if (lane == 0) {
        counts.blocks[block] = hits | (uint64_t)records << HSPZ_CUDA_BLOCK_RECORD_SHIFT;
    }
}

extern "C" cudaError_t
hspz_cuda_launch_count(const struct hspz_cuda_index *index, const struct hspz_cuda_seeds *seeds,
                       const struct hspz_cuda_counts *counts, uint32_t max_word_count, bool overlap,
                       cudaStream_t stream)
{
    const uint64_t blocks = (seeds->capacity + HSPZ_CUDA_SCAN_BLOCK - 1) / HSPZ_CUDA_SCAN_BLOCK;
    const unsigned grid = (unsigned)((blocks + WARPS - 1) / WARPS);
    if (grid == 0) {
        return cudaSuccess;
    }
    const auto kernel = index->groups != NULL    ? count_seeds<LOOKUP_GROUPS, 4>
                        : index->present != NULL ? count_seeds<LOOKUP_PRESENT_WORDS, 2>
                                                 : count_seeds<LOOKUP_WORDS, 2>;
    return overlap_launch(overlap, kernel, grid, THREADS, stream, *index, *seeds, *counts,
                          max_word_count, blocks);
}

extern "C" cudaError_t
hspz_cuda_probe(void)
{
    struct cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, count_seeds<LOOKUP_GROUPS, 4>);
    (void)cudaGetLastError();
    return error;
}

extern "C" bool
hspz_cuda_overlaps(void)
{
    struct cudaFuncAttributes attributes = {};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, count_seeds<LOOKUP_GROUPS, 4>);
    (void)cudaGetLastError();
    return error == cudaSuccess && attributes.binaryVersion >= 90;
}
