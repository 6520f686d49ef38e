/* HSPs in the order in which they are compared, equal ones once. */
#include "engine/cuda/kernels/launch.h"

#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_select.cuh>

struct by_diagonal {
    __device__ __forceinline__ bool operator()(const struct hspz_hsp &a,
                                               const struct hspz_hsp &b) const
    {
        const uint32_t x = a.ref_start - a.query_start, y = b.ref_start - b.query_start;
        return x != y                       ? x < y
               : a.ref_start != b.ref_start ? a.ref_start < b.ref_start
               : a.length != b.length       ? a.length < b.length
                                            : a.score > b.score;
    }
};

static __host__ __device__ __forceinline__ bool
operator==(const struct hspz_hsp &a, const struct hspz_hsp &b)
{
    return a.ref_start == b.ref_start && a.query_start == b.query_start && a.length == b.length &&
           a.score == b.score;
}

extern "C" cudaError_t
hspz_cuda_hsps_temp_bytes(uint64_t count, size_t *bytes)
{
    struct hspz_hsp *none = NULL;
    unsigned long long *number = NULL;
    size_t sort = 0, select = 0;
    cudaError_t error = cub::DeviceMergeSort::SortKeys(NULL, sort, none, (int)count, by_diagonal());
    if (error == cudaSuccess) {
        error = cub::DeviceSelect::Unique(NULL, select, none, none, number, (int)count);
    }
    *bytes = sort > select ? sort : select;
    return error;
}

extern "C" cudaError_t
hspz_cuda_launch_hsps_unique(struct hspz_hsp *hsps, uint64_t count, struct hspz_hsp *out,
                             unsigned long long *out_count, void *temp, size_t temp_bytes,
                             cudaStream_t stream)
{
    size_t bytes = temp_bytes;
    if (count == 0) {
        return cudaSuccess;
    }
    const cudaError_t error =
        cub::DeviceMergeSort::SortKeys(temp, bytes, hsps, (int)count, by_diagonal(), stream);
    if (error != cudaSuccess) {
        return error;
    }
    bytes = temp_bytes;
    return cub::DeviceSelect::Unique(temp, bytes, hsps, out, out_count, (int)count, stream);
}
