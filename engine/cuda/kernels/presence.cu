/* Which buckets of an index are not empty, a bit each. */
#include "engine/cuda/kernels/lookup.cuh"

#define THREADS 256u

static __global__ void
__launch_bounds__(THREADS)
    mark_present(const uint32_t *table, uint64_t words, uint32_t *present, unsigned long long *full)
{
    const uint64_t w = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (w >= words) {
        return;
    }
    const bool here = table[w] != (w == 0 ? 0 : table[w - 1]);
    const uint32_t bits = __ballot_sync(HSPZ_FULL_WARP, here);
    if ((threadIdx.x & 31) == 0) {
        present[w / 32] = bits;
        atomicAdd(full, (unsigned long long)__popc(bits));
    }
}

extern "C" cudaError_t
hspz_cuda_launch_presence(const uint32_t *table, uint64_t words, uint32_t *present,
                          unsigned long long *full, cudaStream_t stream)
{
    const unsigned grid = (unsigned)((words + THREADS - 1) / THREADS);
    if (grid == 0) {
        return cudaSuccess;
    }
    mark_present<<<grid, THREADS, 0, stream>>>(table, words, present, full);
    return cudaGetLastError();
}
