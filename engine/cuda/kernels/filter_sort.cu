/* Keys of a filter in the order of its regions. */
#include "engine/cuda/kernels/filter.cuh"

#include <cub/device/device_radix_sort.cuh>

template <typename WORD>
static __global__ void
__launch_bounds__(FILTER_THREADS) find_starts(struct hspz_cuda_filter_sorted sorted)
{
    const WORD *words = (const WORD *)sorted.data[0];
    const uint64_t region = filter_index();
    if (region > sorted.regions) {
        return;
    }
    uint64_t low = 0, high = sorted.count;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if ((uint64_t)(words[middle] >> sorted.shift) < region) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    sorted.starts[region] = (uint32_t)low;
}

static __global__ void
__launch_bounds__(FILTER_THREADS)
    hash_keys(struct hspz_cuda_filter_call call, uint64_t salt, unsigned long long *out)
{
    const uint64_t i = filter_index();
    if (i < call.count) {
        out[i] = hspz_filter_hash(filter_key(call, i), salt);
    }
}

template <typename WORD>
static cudaError_t
sort_words(struct hspz_cuda_filter_sorted *sorted, void *temp, size_t *temp_bytes,
           cudaStream_t stream)
{
    cub::DoubleBuffer<WORD> words((WORD *)sorted->data[0], (WORD *)sorted->data[1]);
    const cudaError_t error =
        cub::DeviceRadixSort::SortKeys(temp, *temp_bytes, words, (uint32_t)sorted->count,
                                       (int)sorted->shift, (int)sorted->end_bit, stream);
    if (temp != NULL && words.selector != 0) {
        void *const other = sorted->data[0];
        sorted->data[0] = sorted->data[1];
        sorted->data[1] = other;
    }
    return error;
}

extern "C" cudaError_t
hspz_cuda_filter_sort_bytes(const struct hspz_cuda_filter_sorted *sorted, size_t *bytes)
{
    struct hspz_cuda_filter_sorted of = *sorted;
    return of.wide ? sort_words<uint64_t>(&of, NULL, bytes, NULL)
                   : sort_words<uint32_t>(&of, NULL, bytes, NULL);
}

extern "C" cudaError_t
hspz_cuda_launch_filter_sort(struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    const cudaError_t error =
        sorted->wide ? sort_words<uint64_t>(sorted, sorted->temp, &sorted->temp_bytes, stream)
                     : sort_words<uint32_t>(sorted, sorted->temp, &sorted->temp_bytes, stream);
    if (error != cudaSuccess || sorted->starts == NULL) {
        return error;
    }
    const unsigned grid = filter_grid((uint64_t)sorted->regions + 1);
    const auto kernel = sorted->wide ? find_starts<uint64_t> : find_starts<uint32_t>;
    kernel<<<grid, FILTER_THREADS, 0, stream>>>(*sorted);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_filter_hashes(const struct hspz_cuda_filter_call *call, uint64_t salt,
                               const struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    const unsigned grid = filter_grid(call->count);
    hash_keys<<<grid, FILTER_THREADS, 0, stream>>>(*call, salt,
                                                   (unsigned long long *)sorted->data[0]);
    return cudaGetLastError();
}
