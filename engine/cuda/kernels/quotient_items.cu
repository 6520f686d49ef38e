/* From the keys of a call to sorted items. */
#include "engine/cuda/kernels/quotient.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#define THREADS 256u

typedef unsigned __int128 wide_key;

struct saturating_add {
    __host__ __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const
    {
        return a + b < a ? UINT64_MAX : a + b;
    }
};

struct equal_keys {
    template <typename K> __host__ __device__ __forceinline__ bool operator()(K a, K b) const
    {
        return a == b;
    }
};

static unsigned
grid_of(uint64_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

template <typename K>
static __global__ void
__launch_bounds__(THREADS)
    hash_keys(struct hspz_cuda_quotient q, const uint64_t *keys, const uint64_t *values,
              uint64_t count, bool with_values, K *items, uint32_t *indices)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    K item = quotient_fingerprint(q, keys[i]);
    if (with_values) {
        item = item << q.value_bits | (values != NULL ? values[i] & quotient_low(q.value_bits) : 0);
    }
    items[i] = item;
    if (indices != NULL) {
        indices[i] = (uint32_t)i;
    }
}

static __global__ void
__launch_bounds__(THREADS)
    gather(const uint64_t *counts, const uint32_t *indices, uint64_t count, uint64_t *out)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) {
        out[i] = counts[indices[i]];
    }
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_hash(const struct hspz_cuda_quotient *q, const uint64_t *keys,
                               const uint64_t *values, uint64_t count, bool with_values, bool wide,
                               void *items, uint32_t *indices, cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    if (wide) {
        hash_keys<wide_key><<<grid_of(count), THREADS, 0, stream>>>(
            *q, keys, values, count, with_values, (wide_key *)items, indices);
    } else {
        hash_keys<uint64_t><<<grid_of(count), THREADS, 0, stream>>>(
            *q, keys, values, count, with_values, (uint64_t *)items, indices);
    }
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_gather(const uint64_t *counts, const uint32_t *indices, uint64_t count,
                                 uint64_t *out, cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    gather<<<grid_of(count), THREADS, 0, stream>>>(counts, indices, count, out);
    return cudaGetLastError();
}

/* ---- a sample ---- */

#define SAMPLE_THREADS 1024u
#define SAMPLE_SEEN 8192u

/* A key whose place another one took meanwhile is not met again. */
static __global__ void
__launch_bounds__(SAMPLE_THREADS)
    sample_keys(const uint64_t *keys, uint64_t count, struct hspz_cuda_quotient_tally *tally)
{
    __shared__ uint32_t seen[SAMPLE_SEEN];
    unsigned twins = 0;
    for (unsigned i = threadIdx.x; i < SAMPLE_SEEN; i += SAMPLE_THREADS) {
        seen[i] = 0;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < HSPZ_CUDA_QUOTIENT_SAMPLE; i += SAMPLE_THREADS) {
        const uint64_t at = hspz_filter_scale(hspz_filter_mix(i), count);
        const uint64_t hash = hspz_filter_mix(keys[at]);
        const uint32_t mine = (uint32_t)(hash >> 32) | 1;
        twins += atomicExch(&seen[hash % SAMPLE_SEEN], mine) == mine;
    }
    if (twins > 0) {
        atomicAdd(&tally->twins, twins);
    }
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_sample(const uint64_t *keys, uint64_t count,
                                 struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    sample_keys<<<1, SAMPLE_THREADS, 0, stream>>>(keys, count, tally);
    return cudaGetLastError();
}

/* ---- sort ---- */

template <typename K>
static cudaError_t
sort(void *const keys[2], uint32_t *const indices[2], unsigned *now, uint64_t count,
     unsigned first_bit, unsigned key_bits, void *temp, size_t *bytes, cudaStream_t stream)
{
    const unsigned from = *now;
    cub::DoubleBuffer<K> k((K *)keys[from], (K *)keys[1 - from]);
    if (indices == NULL) {
        const cudaError_t error = cub::DeviceRadixSort::SortKeys(
            temp, *bytes, k, (uint32_t)count, (int)first_bit, (int)key_bits, stream);
        *now = k.selector == 0 ? from : 1 - from;
        return error;
    }
    cub::DoubleBuffer<uint32_t> x(indices[from], indices[1 - from]);
    const cudaError_t error = cub::DeviceRadixSort::SortPairs(
        temp, *bytes, k, x, (uint32_t)count, (int)first_bit, (int)key_bits, stream);
    *now = k.selector == 0 ? from : 1 - from;
    return error;
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_sort(void *const keys[2], uint32_t *const indices[2], unsigned *now,
                               uint64_t count, unsigned first_bit, unsigned key_bits, bool wide,
                               void *temp, size_t temp_bytes, cudaStream_t stream)
{
    if (count == 0 || first_bit >= key_bits) {
        return cudaSuccess;
    }
    uint32_t *const *pairs = indices[0] != NULL ? indices : NULL;
    return wide ? sort<wide_key>(keys, pairs, now, count, first_bit, key_bits, temp, &temp_bytes,
                                 stream)
                : sort<uint64_t>(keys, pairs, now, count, first_bit, key_bits, temp, &temp_bytes,
                                 stream);
}

/* ---- counts ---- */

template <typename K>
static cudaError_t
reduce(const void *keys, const uint64_t *counts, uint64_t count, void *out_keys,
       uint64_t *out_counts, uint32_t *out_count, void *temp, size_t *bytes, cudaStream_t stream)
{
    return cub::DeviceReduce::ReduceByKey(temp, *bytes, (const K *)keys, (K *)out_keys, counts,
                                          out_counts, out_count, saturating_add(), (uint32_t)count,
                                          stream);
}

template <typename K>
static cudaError_t
before(const void *keys, const uint64_t *counts, uint64_t count, uint64_t *out, void *temp,
       size_t *bytes, cudaStream_t stream)
{
    return cub::DeviceScan::ExclusiveScanByKey(temp, *bytes, (const K *)keys, counts, out,
                                               saturating_add(), UINT64_C(0), (uint32_t)count,
                                               equal_keys(), stream);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_reduce(const void *keys, const uint64_t *counts, uint64_t count,
                                 bool wide, void *out_keys, uint64_t *out_counts,
                                 uint32_t *out_count, void *temp, size_t temp_bytes,
                                 cudaStream_t stream)
{
    if (count == 0) {
        return cudaMemsetAsync(out_count, 0, sizeof(*out_count), stream);
    }
    return wide ? reduce<wide_key>(keys, counts, count, out_keys, out_counts, out_count, temp,
                                   &temp_bytes, stream)
                : reduce<uint64_t>(keys, counts, count, out_keys, out_counts, out_count, temp,
                                   &temp_bytes, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_before(const void *keys, const uint64_t *counts, uint64_t count,
                                 bool wide, uint64_t *out, void *temp, size_t temp_bytes,
                                 cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    return wide ? before<wide_key>(keys, counts, count, out, temp, &temp_bytes, stream)
                : before<uint64_t>(keys, counts, count, out, temp, &temp_bytes, stream);
}

/* ---- tiles ---- */

/* f after g, of functions max(e + length, least). */
struct compose {
    __host__ __device__ __forceinline__ struct hspz_cuda_quotient_state
    operator()(const struct hspz_cuda_quotient_state &g,
               const struct hspz_cuda_quotient_state &f) const
    {
        const uint64_t least = g.least + f.length;
        return {g.length + f.length, least > f.least ? least : f.least};
    }
};

static __global__ void
judge(uint64_t tiles, uint64_t slots, uint64_t full_slots,
      const struct hspz_cuda_quotient_state *before, struct hspz_cuda_quotient_tally *tally)
{
    const struct hspz_cuda_quotient_state all = before[tiles];
    tally->used = all.length;
    tally->end = all.least;
    tally->fits = all.least <= slots && all.length <= full_slots;
}

static cudaError_t
scan(const struct hspz_cuda_quotient_state *states, struct hspz_cuda_quotient_state *out,
     uint64_t count, void *temp, size_t *bytes, cudaStream_t stream)
{
    const struct hspz_cuda_quotient_state none = {0, 0};
    return cub::DeviceScan::ExclusiveScan(temp, *bytes, states, out, compose(), none,
                                          (uint32_t)count, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_scan(const struct hspz_cuda_quotient *made, uint64_t full_slots,
                               const struct hspz_cuda_quotient_state *states,
                               struct hspz_cuda_quotient_state *before,
                               struct hspz_cuda_quotient_tally *tally, void *temp,
                               size_t temp_bytes, cudaStream_t stream)
{
    const uint64_t tiles = hspz_cuda_quotient_tiles(made->quotients);
    const cudaError_t error = scan(states, before, tiles + 1, temp, &temp_bytes, stream);
    if (error != cudaSuccess) {
        return error;
    }
    judge<<<1, 1, 0, stream>>>(tiles, made->slots, full_slots, before, tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_sums(uint64_t *numbers, uint64_t count, void *temp, size_t temp_bytes,
                               cudaStream_t stream)
{
    return cub::DeviceScan::ExclusiveSum(temp, temp_bytes, numbers, numbers, (uint32_t)(count + 1),
                                         stream);
}

/* ---- memory ---- */

template <typename K>
static cudaError_t
needs(uint64_t count, unsigned key_bits, size_t bytes[4])
{
    void *keys[2] = {NULL, NULL};
    uint32_t *indices[2] = {NULL, NULL};
    unsigned now = 0;
    cudaError_t error = sort<K>(keys, NULL, &now, count, 0, key_bits, NULL, &bytes[0], NULL);
    if (error == cudaSuccess) {
        error = sort<K>(keys, indices, &now, count, 0, key_bits, NULL, &bytes[1], NULL);
    }
    if (error == cudaSuccess) {
        error = reduce<K>(NULL, NULL, count, NULL, NULL, NULL, NULL, &bytes[2], NULL);
    }
    if (error == cudaSuccess) {
        error = before<K>(NULL, NULL, count, NULL, NULL, &bytes[3], NULL);
    }
    return error;
}

extern "C" cudaError_t
hspz_cuda_quotient_temp_bytes(uint64_t count, unsigned key_bits, bool wide, uint64_t tiles,
                              size_t *bytes)
{
    size_t all[6] = {0};
    uint64_t *numbers = NULL;
    cudaError_t error =
        wide ? needs<wide_key>(count, key_bits, all) : needs<uint64_t>(count, key_bits, all);
    if (error == cudaSuccess) {
        error = scan(NULL, NULL, tiles + 1, NULL, &all[4], NULL);
    }
    if (error == cudaSuccess) {
        error = cub::DeviceScan::ExclusiveSum(NULL, all[5], numbers, numbers, (uint32_t)(tiles + 1),
                                              NULL);
    }
    *bytes = 0;
    for (unsigned i = 0; i < 6; i++) {
        *bytes = all[i] > *bytes ? all[i] : *bytes;
    }
    return error;
}
