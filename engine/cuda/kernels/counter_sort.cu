/* Keys of an exact counter in order, and equal ones as one. */
#include "engine/cuda/kernels/counter.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>

struct saturating_add {
    __host__ __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const
    {
        return a + b < a ? UINT64_MAX : a + b;
    }
};

static cudaError_t
sort(uint64_t *const x[2], uint64_t *const counts[2], unsigned *now, uint64_t count, unsigned bits,
     void *temp, size_t *bytes, cudaStream_t stream)
{
    const unsigned from = *now;
    cub::DoubleBuffer<uint64_t> keys(x[from], x[1 - from]);
    cudaError_t error;
    if (counts == NULL) {
        error = cub::DeviceRadixSort::SortKeys(temp, *bytes, keys, (uint32_t)count, 0, (int)bits,
                                               stream);
    } else {
        cub::DoubleBuffer<uint64_t> values(counts[from], counts[1 - from]);
        error = cub::DeviceRadixSort::SortPairs(temp, *bytes, keys, values, (uint32_t)count, 0,
                                                (int)bits, stream);
    }
    *now = keys.selector == 0 ? from : 1 - from;
    return error;
}

extern "C" cudaError_t
hspz_cuda_launch_counter_sort(uint64_t *const x[2], uint64_t *const counts[2], unsigned *now,
                              uint64_t count, unsigned bits, void *temp, size_t temp_bytes,
                              cudaStream_t stream)
{
    return sort(x, counts[0] != NULL ? counts : NULL, now, count, bits, temp, &temp_bytes, stream);
}

static cudaError_t
reduce(const uint64_t *x, const uint64_t *counts, uint64_t count, uint64_t *out_x,
       uint64_t *out_counts, uint32_t *counted, void *temp, size_t *bytes, cudaStream_t stream)
{
    return cub::DeviceReduce::ReduceByKey(temp, *bytes, x, out_x, counts, out_counts, counted,
                                          saturating_add(), (uint32_t)count, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_counter_reduce(const uint64_t *x, const uint64_t *counts, uint64_t count,
                                uint64_t *out_x, uint64_t *out_counts, uint32_t *counted,
                                void *temp, size_t temp_bytes, cudaStream_t stream)
{
    return reduce(x, counts, count, out_x, out_counts, counted, temp, &temp_bytes, stream);
}

extern "C" cudaError_t
hspz_cuda_counter_temp_bytes(uint64_t count, unsigned bits, bool counts, size_t *bytes)
{
    uint64_t *const none[2] = {NULL, NULL};
    unsigned now = 0;
    size_t reducing = 0;
    cudaError_t error = sort(none, counts ? none : NULL, &now, count, bits, NULL, bytes, NULL);
    if (error == cudaSuccess && counts) {
        error = reduce(NULL, NULL, count, NULL, NULL, NULL, NULL, &reducing, NULL);
    }
    *bytes = reducing > *bytes ? reducing : *bytes;
    return error;
}
