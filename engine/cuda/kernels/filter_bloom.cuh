/* Bloom and blocked Bloom filters from within a kernel, a thread a key. */
#pragma once

#include "engine/cuda/kernels/filter_lock.cuh"
#include "engine/filter_hash.h"

/* ---- blocked ---- */

#define BLOCKED_WORDS (HSPZ_BLOOM_BLOCK_BITS / HSPZ_BLOOM_WORD_BITS)

/* The bits of a key in word w of its block: the i-th with w = (i + first) mod 8, for i < hashes. */
static __device__ __forceinline__ uint32_t
blocked_mask(uint64_t second, uint32_t w, unsigned hashes)
{
    const uint32_t i = (w - (uint32_t)(second >> 60)) & (BLOCKED_WORDS - 1);
    uint32_t mask = i < hashes ? 1u << (hspz_blocked_bit(second, i) & 31) : 0;
    if (i + BLOCKED_WORDS < hashes) {
        mask |= 1u << (hspz_blocked_bit(second, i + BLOCKED_WORDS) & 31);
    }
    return mask;
}

static __device__ __forceinline__ const uint4 *
blocked_at(const struct hspz_cuda_bloom &bloom, uint64_t hash)
{
    return (const uint4 *)bloom.bits + 2 * hspz_filter_scale(hash, bloom.blocks);
}

/* Whether a key's bits are all set in its block, whose halves these are. */
static __device__ __forceinline__ bool
blocked_has(const struct hspz_cuda_bloom &bloom, uint64_t hash, uint4 low, uint4 high)
{
    const uint64_t second = hspz_bloom_second(hash);
    const uint32_t words[BLOCKED_WORDS] = {low.x,  low.y,  low.z,  low.w,
                                           high.x, high.y, high.z, high.w};
    uint32_t missing = 0;
#pragma unroll
    for (uint32_t w = 0; w < BLOCKED_WORDS; w++) {
        missing |= blocked_mask(second, w, bloom.hashes) & ~words[w];
    }
    return missing == 0;
}

static __device__ __forceinline__ bool
hspz_blocked_query(const struct hspz_cuda_bloom &bloom, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, bloom.salt);
    const uint4 *at = blocked_at(bloom, hash);
    return blocked_has(bloom, hash, __ldcg(at), __ldcg(at + 1));
}

static __device__ __forceinline__ void
blocked_insert_hash(const struct hspz_cuda_bloom &bloom, uint64_t hash)
{
    const uint64_t second = hspz_bloom_second(hash);
    unsigned long long *at = (unsigned long long *)bloom.bits +
                             BLOCKED_WORDS / 2 * hspz_filter_scale(hash, bloom.blocks);
#pragma unroll
    for (uint32_t w = 0; w < BLOCKED_WORDS; w += 2) {
        const unsigned long long mask =
            (unsigned long long)blocked_mask(second, w + 1, bloom.hashes) << 32 |
            blocked_mask(second, w, bloom.hashes);
        if (mask != 0) {
            atomicOr(at + w / 2, mask);
        }
    }
}

static __device__ __forceinline__ void
hspz_blocked_insert(const struct hspz_cuda_bloom &bloom, uint64_t key)
{
    blocked_insert_hash(bloom, hspz_filter_hash(key, bloom.salt));
}

/* ---- bloom ---- */

static __device__ __forceinline__ bool
hspz_bloom_query(const struct hspz_cuda_bloom &bloom, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, bloom.salt);
    const uint64_t second = hspz_bloom_second(hash);
    for (unsigned i = 0; i < bloom.hashes; i++) {
        const uint64_t bit = hspz_bloom_bit(hash, second, i, bloom.slots);
        if ((__ldcg(bloom.bits + bit / 32) >> bit % 32 & 1) == 0) {
            return false;
        }
    }
    return true;
}

static __device__ __forceinline__ void
hspz_bloom_insert(const struct hspz_cuda_bloom &bloom, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, bloom.salt);
    const uint64_t second = hspz_bloom_second(hash);
    for (unsigned i = 0; i < bloom.hashes; i++) {
        const uint64_t bit = hspz_bloom_bit(hash, second, i, bloom.slots);
        atomicOr(bloom.bits + bit / 32, 1u << bit % 32);
    }
}

/* ---- both ---- */

/* Whether the key went in: of threads with equal keys, one's does. Needs the locks. */
template <bool BLOCKED>
static __device__ __forceinline__ bool
hspz_bloom_insert_if_absent(const struct hspz_cuda_bloom &bloom, uint64_t key)
{
    uint32_t *lock = filter_lock_of(bloom.locks, key);
    bool there = BLOCKED ? hspz_blocked_query(bloom, key) : hspz_bloom_query(bloom, key);
    while (!there) {
        if (!filter_lock(lock)) {
            continue;
        }
        there = BLOCKED ? hspz_blocked_query(bloom, key) : hspz_bloom_query(bloom, key);
        if (!there && BLOCKED) {
            hspz_blocked_insert(bloom, key);
        } else if (!there) {
            hspz_bloom_insert(bloom, key);
        }
        filter_unlock(lock);
        return !there;
    }
    return false;
}
