/* A thread's insert and look-up in a quotient filter that other threads change too.
 *
 * Regions of slots have a lock each. An insert holds its region's and the next one's, so that runs
 * may move on into that; what would move further is refused, and goes in by a call of
 * hspz_cuda_filter_run. A look-up beside inserts holds both locks, too; with no inserts under way
 * quotient_look is enough.
 *
 *   struct quotient_change change = {};
 *   if (quotient_insert<uint8_t>(point, key, 0, 1, change)) ...
 *   quotient_settle(point, change);
 *
 * S is the type of a symbol, slot_bits of the filter. Without quotient_settle the filter's numbers
 * are wrong. */
#pragma once

#include "engine/cuda/kernels/quotient_place.cuh"

/* What a thread's inserts come to. */
struct quotient_change {
    unsigned long long entries, used, total, total_high;
};

static __device__ __forceinline__ bool
quotient_lock(uint32_t *lock)
{
    return atomicCAS(lock, 0u, 1u) == 0;
}

/* Calls `work` with both locks of a region. Never waits with a lock in hand. */
template <typename WORK>
static __device__ __forceinline__ void
quotient_locked(const struct hspz_cuda_quotient_point &point, uint64_t region, WORK work)
{
    uint32_t *const locks = point.locks + region;
    for (bool done = false; !done;) {
        if (quotient_lock(&locks[0])) {
            if (quotient_lock(&locks[1])) {
                __threadfence();
                work();
                __threadfence();
                atomicExch(&locks[1], 0u);
                done = true;
            }
            atomicExch(&locks[0], 0u);
        }
    }
}

/* False: refused. */
template <typename S>
static __device__ __forceinline__ bool
quotient_insert(const struct hspz_cuda_quotient_point &point, uint64_t key, uint64_t value,
                uint64_t count, struct quotient_change &change)
{
    const struct hspz_cuda_quotient &q = point.q;
    const uint64_t fingerprint = quotient_fingerprint(q, key);
    const uint64_t quotient = fingerprint >> q.remainder_bits;
    const uint64_t remainder = fingerprint & quotient_low(q.remainder_bits);
    const S symbol = (S)(remainder << q.value_bits | (value & quotient_low(q.value_bits)));
    const uint64_t region = quotient / HSPZ_CUDA_QUOTIENT_REGION;
    const uint64_t all = q.slots / HSPZ_CUDA_QUOTIENT_BLOCK * HSPZ_CUDA_QUOTIENT_BLOCK;
    const uint64_t next = (region + 2) * HSPZ_CUDA_QUOTIENT_REGION;
    struct quotient_placed placed = {false, 0, 0, 0};
    if (count == 0) {
        return true;
    }
    quotient_locked(point, region, [&] {
        placed = quotient_place<S>(q, quotient, symbol, count, next < all ? next : all);
    });
    if (placed.refused) {
        return false;
    }
    const uint64_t more = placed.made - placed.old;
    change.entries += placed.old == 0;
    change.used += placed.grown;
    change.total += more;
    change.total_high += change.total < more;
    return true;
}

/* As quotient_look, beside inserts. */
template <typename S>
static __device__ __forceinline__ uint64_t
quotient_look_beside(const struct hspz_cuda_quotient_point &point, uint64_t key, uint64_t *value)
{
    const uint64_t fingerprint = quotient_fingerprint(point.q, key);
    const uint64_t quotient = fingerprint >> point.q.remainder_bits;
    uint64_t count = 0;
    quotient_locked(point, quotient / HSPZ_CUDA_QUOTIENT_REGION,
                    [&] { count = quotient_look<S>(point.q, fingerprint, value); });
    return count;
}

static __device__ __forceinline__ void
quotient_settle(const struct hspz_cuda_quotient_point &point, const struct quotient_change &change)
{
    if (change.used > 0 || change.total > 0 || change.total_high > 0) {
        atomicAdd(&point.counts->entries, change.entries);
        atomicAdd(&point.counts->used, change.used);
        const unsigned long long old = atomicAdd(&point.counts->total, change.total);
        const unsigned long long high = change.total_high + (old + change.total < old);
        if (high > 0) {
            atomicAdd(&point.counts->total_high, high);
        }
    }
}
