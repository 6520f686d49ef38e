/* A thread's insert and look-up in a quotient filter that other threads change too.
 *
 * Regions of slots have a lock each. An insert holds that of its region, and when what is behind
 * its run would move further, those of more regions behind it. What would move further still is
 * refused, and goes in by a call of hspz_cuda_filter_run. A look-up beside inserts holds its
 * region's, too; with no inserts under way quotient_look is enough.
 *
 *   struct quotient_change change = {};
 *   if (quotient_insert<uint8_t>(point, key, 0, 1, change)) ...
 *   quotient_settle(point, change);
 *
 * S is the type of a symbol, slot_bits of the filter. Without quotient_settle the filter's numbers
 * are wrong. */
#pragma once

#include "engine/cuda/kernels/quotient_place.cuh"

#define QUOTIENT_LOCKS_MORE 3u /* times as many, when those of an insert do not reach */

/* What a thread's inserts come to. */
struct quotient_change {
    unsigned long long entries, used, total, total_high;
};

static __device__ __forceinline__ bool
quotient_lock(uint32_t *lock)
{
    return atomicCAS(lock, 0u, 1u) == 0;
}

/* Calls `work` with so many locks from a region's on. Never waits with a lock in hand; false: not
 * once in so many tries (0: for ever) were all free. */
template <typename WORK>
static __device__ __forceinline__ bool
quotient_locked(const struct hspz_cuda_quotient_point &point, uint64_t region, unsigned count,
                uint32_t tries, WORK work)
{
    uint32_t *const locks = point.locks + region;
    bool done = false;
    for (uint32_t i = 0; !done && (tries == 0 || i < tries); i++) {
        unsigned held = 0;
        while (held < count && quotient_lock(&locks[held])) {
            held++;
        }
        if (held == count) {
            __threadfence();
            work();
            __threadfence();
            done = true;
        }
        while (held > 0) {
            atomicExch(&locks[--held], 0u);
        }
    }
    return done;
}

/* Behind the slots of so many regions that can be changed. */
static __device__ __forceinline__ uint64_t
quotient_region_limit(const struct hspz_cuda_quotient &q, uint64_t region, unsigned count)
{
    const uint64_t all = q.slots / HSPZ_CUDA_QUOTIENT_BLOCK * HSPZ_CUDA_QUOTIENT_BLOCK;
    const uint64_t limit = (region + count) * HSPZ_CUDA_QUOTIENT_REGION;
    return limit < all ? limit : all;
}

/* Brings what an insert begins with near, while it waits for a lock. */
template <typename S>
static __device__ __forceinline__ void
quotient_fetch(const struct hspz_cuda_quotient &q, uint64_t quotient)
{
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(q.marks + quotient / 128 * 4));
    asm volatile("prefetch.global.L2 [%0];" ::"l"((const S *)q.symbols + quotient));
#else
    (void)q;
    (void)quotient;
#endif
}

/* Gives up when locks were not free in so many tries (0: never). */
template <typename S>
static __device__ __forceinline__ bool
quotient_try_place(const struct hspz_cuda_quotient_point &point, uint64_t quotient, S symbol,
                   uint64_t count, uint32_t tries, struct quotient_change &change)
{
    const struct hspz_cuda_quotient &q = point.q;
    const uint64_t region = quotient / HSPZ_CUDA_QUOTIENT_REGION;
    struct quotient_placed placed = {true, 0, 0, 0};
    if (count == 0) {
        return true;
    }
    quotient_fetch<S>(q, quotient);
    for (unsigned locks = 1; placed.refused && locks <= HSPZ_CUDA_QUOTIENT_LOCKS_MOST;
         locks *= QUOTIENT_LOCKS_MORE) {
        if (!quotient_locked(point, region, locks, tries, [&] {
                placed = quotient_place<S>(q, quotient, symbol, count,
                                           quotient_region_limit(q, region, locks));
            })) {
            return false;
        }
    }
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

template <typename S>
static __device__ __forceinline__ bool
quotient_try_insert(const struct hspz_cuda_quotient_point &point, uint64_t key, uint64_t value,
                    uint64_t count, uint32_t tries, struct quotient_change &change)
{
    const struct hspz_cuda_quotient &q = point.q;
    const uint64_t fingerprint = quotient_fingerprint(q, key);
    const uint64_t remainder = fingerprint & quotient_low(q.remainder_bits);
    const S symbol = (S)(remainder << q.value_bits | (value & quotient_low(q.value_bits)));
    return quotient_try_place<S>(point, fingerprint >> q.remainder_bits, symbol, count, tries,
                                 change);
}

/* False: refused. */
template <typename S>
static __device__ __forceinline__ bool
quotient_insert(const struct hspz_cuda_quotient_point &point, uint64_t key, uint64_t value,
                uint64_t count, struct quotient_change &change)
{
    return quotient_try_insert<S>(point, key, value, count, 0, change);
}

/* As quotient_look, beside inserts. */
template <typename S>
static __device__ __forceinline__ uint64_t
quotient_look_beside(const struct hspz_cuda_quotient_point &point, uint64_t key, uint64_t *value)
{
    const uint64_t fingerprint = quotient_fingerprint(point.q, key);
    const uint64_t quotient = fingerprint >> point.q.remainder_bits;
    uint64_t count = 0;
    /* Inserts of later regions move nothing up to the end of the run. */
    (void)quotient_locked(point, quotient / HSPZ_CUDA_QUOTIENT_REGION, 1, 0,
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
