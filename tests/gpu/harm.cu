#include "tests/gpu/harm.h"

#define THREADS 1024

static __global__ void
read_nowhere(volatile const uint32_t *nowhere, uint32_t *out)
{
    if (*nowhere == 1) {
        *out = 1;
    }
}

static __device__ uint64_t
clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void
__launch_bounds__(THREADS) occupy(uint64_t ns)
{
    const uint64_t from = clock_ns();
    while (clock_ns() - from < ns) {
    }
}

extern "C" cudaError_t
harm_lose(void)
{
    uint32_t *const nowhere = (uint32_t *)(uintptr_t)(1ull << 52);
    read_nowhere<<<1, 1>>>(nowhere, nowhere);
    return cudaGetLastError();
}

extern "C" cudaError_t
harm_occupy(uint64_t ms)
{
    int device, multiprocessors, blocks;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (error == cudaSuccess) {
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, occupy, THREADS, 0);
    }
    if (error != cudaSuccess) {
        return error;
    }
    occupy<<<multiprocessors * blocks, THREADS>>>(ms * 1000000);
    return cudaGetLastError();
}
