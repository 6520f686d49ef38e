/* A few items into slots that are in use, each where it belongs: regions of even number first, each
 * with the next one to itself, then the odd ones. */
#include "engine/cuda/kernels/quotient_merge.cuh"
#include "engine/cuda/kernels/quotient_point.cuh"

#define THREADS 128u
#define REGION HSPZ_CUDA_QUOTIENT_REGION /* quotients, and slots */

/* The quotients of a region a thread. */
template <typename S>
static __global__ void
__launch_bounds__(THREADS)
    place_items(struct hspz_cuda_quotient q, struct hspz_cuda_quotient_items all, uint64_t regions,
                unsigned odd, struct hspz_cuda_quotient_tally *tally)
{
    const uint64_t region = 2 * ((uint64_t)blockIdx.x * THREADS + threadIdx.x) + odd;
    const struct quotient_items<uint64_t> items = quotient_items_of<uint64_t>(q, all);
    struct quotient_sums come = {0, 0, 0}, gone = {0, 0, 0};
    uint64_t grown = 0, refused = 0;
    if (region < regions) {
        const uint64_t count = all.counted != NULL ? *all.counted : all.count;
        const uint64_t least = region * REGION << items.bits;
        const uint64_t slots = q.slots / HSPZ_CUDA_QUOTIENT_BLOCK * HSPZ_CUDA_QUOTIENT_BLOCK;
        const uint64_t limit = (region + 2) * REGION < slots ? (region + 2) * REGION : slots;
        uint64_t at = quotient_lower<uint64_t>(items.keys, 0, count, least);
        while (at < count && items.keys[at] >> items.bits < (region + 1) * REGION) {
            const uint64_t key = items.keys[at];
            const uint64_t behind =
                items.counts != NULL ? at + 1 : quotient_upper<uint64_t>(items.keys, at, count);
            const uint64_t times = items.counts != NULL ? items.counts[at] : behind - at;
            if (times > 0) {
                const struct quotient_placed placed = quotient_place<S>(
                    q, key >> items.bits, (S)(key & quotient_low(items.bits)), times, limit);
                refused += placed.refused;
                grown += placed.grown;
                if (placed.old > 0) {
                    gone.add(placed.old);
                }
                if (!placed.refused) {
                    come.add(placed.made);
                }
            }
            at = behind;
        }
    }
    quotient_add_sums(come, &tally->come, tally->come_sums);
    quotient_add_sums(gone, &tally->gone, tally->gone_sums);
    quotient_add_sums({grown, refused, 0}, &tally->used, tally->refused);
}

template <typename S>
static void
place(const struct hspz_cuda_quotient *q, const struct hspz_cuda_quotient_items *items,
      struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    const uint64_t regions = (q->quotients + REGION - 1) / REGION;
    const unsigned grid = (unsigned)((regions + 1) / 2 / THREADS + 1);
    for (unsigned odd = 0; odd < 2; odd++) {
        place_items<S><<<grid, THREADS, 0, stream>>>(*q, *items, regions, odd, tally);
    }
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_place(const struct hspz_cuda_quotient *q,
                                const struct hspz_cuda_quotient_items *items,
                                struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    if (items->wide || items->op != HSPZ_FILTER_INSERT) {
        return cudaErrorInvalidValue;
    }
    switch (q->slot_bits) {
    case 8:
        place<uint8_t>(q, items, tally, stream);
        break;
    case 16:
        place<uint16_t>(q, items, tally, stream);
        break;
    case 32:
        place<uint32_t>(q, items, tally, stream);
        break;
    default:
        place<uint64_t>(q, items, tally, stream);
        break;
    }
    return cudaGetLastError();
}

/* ---- by themselves ---- */

template <typename S>
static __global__ void
__launch_bounds__(THREADS) place_points(struct hspz_cuda_quotient_point point, const uint64_t *keys,
                                        const uint64_t *values, const uint64_t *counts,
                                        uint64_t count, uint64_t *left, unsigned long long *refused)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    struct quotient_change change = {0, 0, 0, 0};
    if (i >= count) {
        return;
    }
    const uint64_t times = point.q.set || counts == NULL ? 1 : counts[i];
    const bool placed =
        quotient_insert<S>(point, keys[i], values != NULL ? values[i] : 0, times, change);
    left[i] = placed ? 0 : times;
    if (!placed) {
        atomicAdd(refused, 1ull);
    }
    quotient_settle(point, change);
}

template <typename S>
static void
points(const struct hspz_cuda_quotient_point *point, const uint64_t *keys, const uint64_t *values,
       const uint64_t *counts, uint64_t count, uint64_t *left, unsigned long long *refused,
       cudaStream_t stream)
{
    const unsigned grid = (unsigned)((count + THREADS - 1) / THREADS);
    place_points<S>
        <<<grid, THREADS, 0, stream>>>(*point, keys, values, counts, count, left, refused);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_points(const struct hspz_cuda_quotient_point *point, const uint64_t *keys,
                                 const uint64_t *values, const uint64_t *counts, uint64_t count,
                                 uint64_t *left, unsigned long long *refused, cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    switch (point->q.slot_bits) {
    case 8:
        points<uint8_t>(point, keys, values, counts, count, left, refused, stream);
        break;
    case 16:
        points<uint16_t>(point, keys, values, counts, count, left, refused, stream);
        break;
    case 32:
        points<uint32_t>(point, keys, values, counts, count, left, refused, stream);
        break;
    default:
        points<uint64_t>(point, keys, values, counts, count, left, refused, stream);
        break;
    }
    return cudaGetLastError();
}
