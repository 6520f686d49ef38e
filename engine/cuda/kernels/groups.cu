/* Groups of buckets: twelve sizes in a byte each after the place of the first, in 16 bytes. A third
 * of the table's size, so that it stays in the cache where the table does not, and one load a
 * look-up. */
#include "engine/cuda/kernels/lookup.cuh"

#define THREADS 256u

/* From the first bucket on that a byte does not hold, every size says so. */
static __global__ void
__launch_bounds__(THREADS) make_groups(const uint32_t *table, uint64_t words, uint64_t count,
                                       struct hspz_cuda_group *groups, unsigned long long *cut)
{
    const uint64_t g = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    bool over = false;
    if (g < count) {
        const uint64_t first = g * HSPZ_CUDA_GROUP_WORDS;
        uint32_t end = first == 0 ? 0 : table[first - 1];
        struct hspz_cuda_group group = {end, {0}};
#pragma unroll
        for (uint32_t i = 0; i < HSPZ_CUDA_GROUP_WORDS; i++) {
            const uint32_t begin = end;
            end = first + i < words ? table[first + i] : begin;
            over = over || end - begin >= HSPZ_CUDA_GROUP_CUT;
            group.sizes[i / 4] |= (over ? HSPZ_CUDA_GROUP_CUT : end - begin) << (8 * (i % 4));
        }
        *(uint4 *)&groups[g] =
            make_uint4(group.begin, group.sizes[0], group.sizes[1], group.sizes[2]);
    }
    const uint32_t mask = __ballot_sync(HSPZ_FULL_WARP, over);
    if ((threadIdx.x & 31) == 0 && mask != 0) {
        atomicAdd(cut, (unsigned long long)__popc(mask));
    }
}

extern "C" cudaError_t
hspz_cuda_launch_groups(const uint32_t *table, uint64_t words, struct hspz_cuda_group *groups,
                        unsigned long long *cut, cudaStream_t stream)
{
    const uint64_t count = HSPZ_CUDA_GROUPS(words);
    const unsigned grid = (unsigned)((count + THREADS - 1) / THREADS);
    if (grid == 0) {
        return cudaSuccess;
    }
    make_groups<<<grid, THREADS, 0, stream>>>(table, words, count, groups, cut);
    return cudaGetLastError();
}
