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
#define HSPZ_TCF_EMPTY 0u
#define HSPZ_TCF_TOMBSTONE 1u /* of a block's last slot alone: it held a tag once */
#define HSPZ_TCF_TAGS 2u      /* the first tag */

/* From the low half of the hash: HSPZ_TCF_TAGS .. 2^tag_bits - 1. */
static inline HSPZ_HOST_DEVICE uint32_t
hspz_tcf_tag(uint64_t hash, unsigned tag_bits)
{
    const uint64_t tags = (UINT64_C(1) << tag_bits) - HSPZ_TCF_TAGS;
    return HSPZ_TCF_TAGS + (uint32_t)((hash & UINT32_MAX) * tags >> 32);
}

/* Both blocks of a key are in one window, a stretch of blocks whose tags fit into what a thread
 * block of a device can have for itself. The last window takes what is left over, and so is up to
 * twice as long, or shorter when it is the only one. */
struct hspz_tcf_windows {
    uint32_t blocks;
    uint32_t size;      /* in blocks, a power of two */
    uint32_t last;      /* first block of the last one */
    uint32_t last_size; /* in blocks */
};

static inline HSPZ_HOST_DEVICE struct hspz_tcf_windows
hspz_tcf_windows_of(uint64_t blocks, unsigned tag_bits, unsigned block_slots)
{
    struct hspz_tcf_windows w;
    w.blocks = (uint32_t)blocks;
    w.size = (tag_bits > 16 ? 1u << 14 : 1u << 15) / block_slots;
    w.last = w.blocks < 2 * w.size ? 0 : (w.blocks / w.size - 1) * w.size;
    w.last_size = w.blocks - w.last;
    return w;
}

/* hspz_filter_scale for the number of blocks, which has 32 bits. */
static inline HSPZ_HOST_DEVICE uint32_t
hspz_tcf_block(uint64_t hash, uint32_t blocks)
{
    const uint64_t low = (hash & UINT32_MAX) * blocks;
    return (uint32_t)(((hash >> 32) * blocks + (low >> 32)) >> 32);
}

/* The other block of a tag: depends on block and tag alone, and leads back. */
static inline HSPZ_HOST_DEVICE uint32_t
hspz_tcf_other(uint32_t block, uint32_t tag, struct hspz_tcf_windows w)
{
    const uint32_t first = block >= w.last ? w.last : block & ~(w.size - 1);
    const uint32_t blocks = block >= w.last ? w.last_size : w.size;
    const uint32_t spread = tag * UINT32_C(0x9e3779b1);
    const uint32_t sum = (uint32_t)((uint64_t)spread * blocks >> 32), at = block - first;
    return first + (sum >= at ? sum - at : sum + blocks - at);
}

/* A key in the backing table. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_tcf_word(uint32_t block, uint32_t other, uint32_t tag)
{
    return (uint64_t)(block < other ? block : other) << 32 | tag;
}

/* Where the search for a word begins there, of fewer than 2^32 places. */
static inline HSPZ_HOST_DEVICE uint32_t
hspz_tcf_home(uint64_t word, uint32_t places)
{
    uint32_t x = (uint32_t)word * UINT32_C(0x9e3779b1) ^ (uint32_t)(word >> 32);
    x = (x ^ x >> 15) * UINT32_C(0x2c1b3c6d);
    x = (x ^ x >> 12) * UINT32_C(0x297a2d39);
    return (uint32_t)((uint64_t)x * places >> 32);
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
