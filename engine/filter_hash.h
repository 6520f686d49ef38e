/* How filters turn keys into bits; the same on the host and on a device.
 *
 * mix       the finaliser of splitmix64 (Steele, Lea and Flood 2014; Stafford's variant 13):
 *           a permutation of 64-bit numbers
 * hash      mix(key ^ mix(seed + 2^64 / golden ratio)): a permutation for every seed, so that two
 *           keys share all 64 bits only if they are equal
 * scale     the high bits of a number onto 0 .. n - 1 (Lemire 2019), for any n
 *
 * Which bits are used for what never overlaps: places take the high bits, tags and remainders the
 * low ones, and the second hash of the Bloom filters is a mix of its own. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define HSPZ_HOST_DEVICE __host__ __device__
#else
#define HSPZ_HOST_DEVICE
#endif

#define HSPZ_FILTER_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline HSPZ_HOST_DEVICE uint64_t
hspz_filter_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* mix's inverse. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_filter_unmix(uint64_t x)
{
    x = (x ^ x >> 31 ^ x >> 62) * UINT64_C(0x319642b2d24d8ec3);
    x = (x ^ x >> 27 ^ x >> 54) * UINT64_C(0x96de1b173f119089);
    return x ^ x >> 30 ^ x >> 60;
}

/* What a filter keeps of its seed. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_filter_salt(uint64_t seed)
{
    return hspz_filter_mix(seed + HSPZ_FILTER_GOLDEN);
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_filter_hash(uint64_t key, uint64_t salt)
{
    return hspz_filter_mix(key ^ salt);
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_filter_scale(uint64_t x, uint64_t n)
{
#ifdef __CUDA_ARCH__
    return __umul64hi(x, n);
#else
    return (uint64_t)((unsigned __int128)x * n >> 64);
#endif
}

/* ---- tcf ---- */

/* Codes of a slot that hold no tag. */
#define HSPZ_TCF_EMPTY 0u     /* never held one */
#define HSPZ_TCF_TOMBSTONE 1u /* in a block that was full once */
#define HSPZ_TCF_TAGS 2u      /* the first tag */

/* From the low half of the hash: HSPZ_TCF_TAGS .. 2^tag_bits - 1. */
static inline HSPZ_HOST_DEVICE uint32_t
hspz_tcf_tag(uint64_t hash, unsigned tag_bits)
{
    const uint64_t tags = (UINT64_C(1) << tag_bits) - HSPZ_TCF_TAGS;
    return HSPZ_TCF_TAGS + (uint32_t)((hash & UINT32_MAX) * tags >> 32);
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_tcf_block(uint64_t hash, uint64_t blocks)
{
    return hspz_filter_scale(hash, blocks);
}

/* The other block of a tag: depends on block and tag alone, and leads back. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_tcf_other(uint64_t block, uint32_t tag, uint64_t blocks)
{
    const uint64_t sum = hspz_filter_scale(hspz_filter_mix(tag), blocks);
    return sum >= block ? sum - block : sum + blocks - block;
}

/* ---- counter ---- */

/* A permutation of numbers of `bits` bits, 16 to 64: multiplied by odd numbers, and the high half
 * laid over the low one. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_mix(uint64_t key, uint64_t salt, unsigned bits)
{
    const uint64_t mask = UINT64_MAX >> (64 - bits);
    const unsigned half = (bits + 1) / 2;
    uint64_t x = (key ^ salt) & mask;
    x ^= x >> half;
    x = x * UINT64_C(0xbf58476d1ce4e5b9) & mask;
    x ^= x >> half;
    x = x * UINT64_C(0x94d049bb133111eb) & mask;
    return x ^ x >> half;
}

/* Its inverse. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_unmix(uint64_t x, uint64_t salt, unsigned bits)
{
    const uint64_t mask = UINT64_MAX >> (64 - bits);
    const unsigned half = (bits + 1) / 2;
    x ^= x >> half;
    x = x * UINT64_C(0x319642b2d24d8ec3) & mask;
    x ^= x >> half;
    x = x * UINT64_C(0x96de1b173f119089) & mask;
    x ^= x >> half;
    return (x ^ salt) & mask;
}

/* ---- bloom, blocked ---- */

#define HSPZ_BLOOM_BLOCK_BITS 256u
#define HSPZ_BLOOM_WORD_BITS 32u

static inline HSPZ_HOST_DEVICE uint64_t
hspz_bloom_second(uint64_t hash)
{
    return hspz_filter_mix(hash + HSPZ_FILTER_GOLDEN);
}

/* The i-th bit of a key among `bits`, by enhanced double hashing (Dillinger and Manolios 2004). */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_bloom_bit(uint64_t hash, uint64_t second, unsigned i, uint64_t bits)
{
    const uint64_t n = i;
    return hspz_filter_scale(hash + n * (second | 1) + (n * n * n - n) / 6, bits);
}

/* The i-th bit of a key in its block: one of word (i + first) mod 8, so that up to 8 bits of a key
 * are in different words. `second` gives 12 places of 5 bits and the first word; later places come
 * from its mix. */
static inline HSPZ_HOST_DEVICE uint32_t
hspz_blocked_bit(uint64_t second, unsigned i)
{
    const uint64_t from = i < 12 ? second : hspz_filter_mix(second);
    const unsigned at = i < 12 ? i : i - 12;
    const uint32_t word = (uint32_t)(i + (second >> 60)) & 7;
    return word * HSPZ_BLOOM_WORD_BITS + ((uint32_t)(from >> 5 * at) & 31);
}
