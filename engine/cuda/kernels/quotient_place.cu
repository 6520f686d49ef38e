/* Keys that go in by themselves, a thread a key, and those that are left. */
#include "engine/cuda/kernels/quotient_merge.cuh"
#include "engine/cuda/kernels/quotient_point.cuh"

#define THREADS 128u
#define RESIDENT 8 /* thread blocks of a multiprocessor; bounds registers */

/* Those of a warp, all of it. */
static __device__ __forceinline__ void
sum_changes(struct quotient_change &change)
{
    uint64_t sums[5] = {change.entries, change.used, change.total & UINT32_MAX, change.total >> 32,
                        change.total_high};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned with = 16; with > 0; with /= 2) {
            sums[i] += __shfl_xor_sync(UINT32_MAX, sums[i], (int)with);
        }
    }
    const uint64_t high = sums[3] << 32;
    change = {sums[0], sums[1], high + sums[2], sums[4] + (sums[3] >> 32)};
    change.total_high += change.total < high;
}

/* Key i, or all items that are equal to item i, by the first of them; how often in *times. */
template <typename S>
static __device__ __forceinline__ bool
place_point(const struct hspz_cuda_quotient_point &point,
            const struct hspz_cuda_quotient_insert &insert, uint64_t i, uint64_t *times,
            struct quotient_change &change)
{
    if (insert.items == NULL) {
        const uint64_t value = insert.values != NULL ? insert.values[i] : 0;
        *times = point.q.set || insert.counts == NULL ? 1 : insert.counts[i];
        return quotient_try_insert<S>(point, insert.keys[i], value, *times, insert.tries, change);
    }
    const uint64_t item = insert.items[i];
    const unsigned bits = point.q.remainder_bits + point.q.value_bits;
    *times = i > 0 && insert.items[i - 1] == item
                 ? 0
                 : quotient_upper(insert.items, i, insert.count) - i;
    return quotient_try_place<S>(point, item >> bits, (S)(item & quotient_low(bits)), *times,
                                 insert.tries, change);
}

template <typename S>
static __global__ void
__launch_bounds__(THREADS, RESIDENT)
    place_points(struct hspz_cuda_quotient_point point, struct hspz_cuda_quotient_insert insert)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    struct quotient_change change = {0, 0, 0, 0};
    bool placed = true;
    if (i < insert.count) {
        uint64_t times = 0;
        placed = place_point<S>(point, insert, i, &times, change);
        insert.left[i] = placed ? 0 : times;
    }
    if (!placed) {
        atomicAdd(insert.refused, 1ull);
    }
    sum_changes(change);
    if (threadIdx.x % 32 == 0) {
        quotient_settle(point, change);
    }
}

static __global__ void
__launch_bounds__(THREADS)
    collect_left(struct hspz_cuda_quotient_insert insert, uint64_t *out_keys, uint64_t *out_values,
                 uint64_t *out_counts, unsigned long long *out_count)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < insert.count && insert.left[i] > 0) {
        const unsigned long long at = atomicAdd(out_count, 1ull);
        out_keys[at] = insert.keys[i];
        out_values[at] = insert.values != NULL ? insert.values[i] : 0;
        out_counts[at] = insert.left[i];
    }
}

static unsigned
grid_of(uint64_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

template <typename S>
static void
points(const struct hspz_cuda_quotient_point *point, const struct hspz_cuda_quotient_insert *insert,
       cudaStream_t stream)
{
    place_points<S><<<grid_of(insert->count), THREADS, 0, stream>>>(*point, *insert);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_points(const struct hspz_cuda_quotient_point *point,
                                 const struct hspz_cuda_quotient_insert *insert,
                                 cudaStream_t stream)
{
    if (insert->count == 0) {
        return cudaSuccess;
    }
    switch (point->q.slot_bits) {
    case 8:
        points<uint8_t>(point, insert, stream);
        break;
    case 16:
        points<uint16_t>(point, insert, stream);
        break;
    case 32:
        points<uint32_t>(point, insert, stream);
        break;
    default:
        points<uint64_t>(point, insert, stream);
        break;
    }
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_left(const struct hspz_cuda_quotient_insert *insert, uint64_t *out_keys,
                               uint64_t *out_values, uint64_t *out_counts,
                               unsigned long long *out_count, cudaStream_t stream)
{
    if (insert->count == 0) {
        return cudaSuccess;
    }
    collect_left<<<grid_of(insert->count), THREADS, 0, stream>>>(*insert, out_keys, out_values,
                                                                 out_counts, out_count);
    return cudaGetLastError();
}
