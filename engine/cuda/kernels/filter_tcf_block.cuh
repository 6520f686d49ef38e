/* Blocks of a two-choice filter in a thread's registers, and their values; for
 * engine/cuda/kernels/filter_tcf.cuh. */
#pragma once

#include "engine/cuda/kernels/filter_lock.cuh"
#include "engine/filter_hash.h"

/* Sets of slots. A slot's bit is where its field's highest bit gets when the words of a group, as
 * many as a tag has bits or fewer, are shifted over each other, the last one not at all; tags of 12
 * bits are in order. */
template <unsigned SLOTS> struct tcf_set {
    using type = uint32_t;
};
template <> struct tcf_set<64> {
    using type = unsigned long long;
};

static __device__ __forceinline__ unsigned
tcf_size(uint32_t set)
{
    return (unsigned)__popc(set);
}

static __device__ __forceinline__ unsigned
tcf_size(unsigned long long set)
{
    return (unsigned)__popcll(set);
}

static __device__ __forceinline__ unsigned
tcf_lowest(uint32_t set)
{
    return (unsigned)__ffs((int)set) - 1;
}

static __device__ __forceinline__ unsigned
tcf_lowest(unsigned long long set)
{
    return (unsigned)__ffsll((long long)set) - 1;
}

template <unsigned TAG, unsigned SLOTS> struct tcf_block {
    static constexpr unsigned WORDS = TAG * SLOTS / 32;
    static constexpr bool SPLIT = TAG == 12;
    static constexpr unsigned GROUP = WORDS < TAG ? WORDS : TAG;
    static constexpr uint32_t ONES = 0xffffffffu >> (32 - TAG);
    /* The lowest and the highest bits of a word's fields. */
    static constexpr uint32_t EACH = TAG == 8 ? 0x01010101u : TAG == 16 ? 0x00010001u : 1u;
    static constexpr uint32_t HIGHS = EACH << (TAG - 1) % 32;
    using set = typename tcf_set<SLOTS>::type;
    uint32_t word[WORDS];
};

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint32_t *
tcf_at(const struct hspz_cuda_tcf &tcf, uint32_t block)
{
    return tcf.tags + (uint64_t)block * tcf.block_words;
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ tcf_block<TAG, SLOTS>
tcf_load(const struct hspz_cuda_tcf &tcf, uint32_t block)
{
    tcf_block<TAG, SLOTS> made;
    const uint32_t *at = tcf_at<TAG, SLOTS>(tcf, block);
    if (made.WORDS % 4 == 0) {
#pragma unroll
        for (unsigned i = 0; i < made.WORDS; i += 4) {
            const uint4 four = __ldcg((const uint4 *)(at + i));
            made.word[i] = four.x;
            made.word[i + 1] = four.y;
            made.word[i + 2] = four.z;
            made.word[i + 3] = four.w;
        }
    } else {
#pragma unroll
        for (unsigned i = 0; i < made.WORDS; i += 2) {
            const uint2 two = __ldcg((const uint2 *)(at + i));
            made.word[i] = two.x;
            made.word[i + 1] = two.y;
        }
    }
    return made;
}

/* In words that are indexed by what only the running thread knows: registers have no such index. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint32_t
tcf_word(const tcf_block<TAG, SLOTS> &block, unsigned index)
{
    uint32_t word = block.word[0];
#pragma unroll
    for (unsigned i = 1; i < block.WORDS; i++) {
        word = i == index ? block.word[i] : word;
    }
    return word;
}

/* ---- sets of a block's slots ---- */

/* Fields of 12 bits whose code, of which the bits in `care` count, is `code`. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_equal_split(const tcf_block<TAG, SLOTS> &block, uint32_t code, uint32_t care)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    set equal = 0;
#pragma unroll
    for (unsigned s = 0; s < SLOTS; s++) {
        const unsigned bit = s * TAG, w = bit / 32, next = w + 1 < block.WORDS ? w + 1 : w;
        const uint32_t field = __funnelshift_r(block.word[w], block.word[next], bit % 32);
        equal |= ((field ^ code) & care & 0xfff) == 0 ? (set)1 << s : 0;
    }
    return equal;
}

/* The slots with another code than the one that `each` has in all fields of a word. Bits in `low`,
 * 0 or the lowest of each field, do not count. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_other(const tcf_block<TAG, SLOTS> &block, uint32_t each, uint32_t low)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    const uint32_t highs = block.HIGHS, rest = ~highs & ~low;
    set other = 0;
#pragma unroll
    for (unsigned g = 0; g < block.WORDS; g += block.GROUP) {
        uint32_t flags = 0;
#pragma unroll
        for (unsigned i = 0; i < block.GROUP; i++) {
            const uint32_t x = block.word[g + i] ^ each;
            /* A field's highest bit is set unless all of its other bits that count are 0. */
            flags = flags >> 1 | ((((x & rest) + rest) | x) & highs);
        }
        other |= (set)flags << (g / block.GROUP * 32 & 63);
    }
    return other;
}

/* All slots. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_all()
{
    using block = tcf_block<TAG, SLOTS>;
    typename block::set all = ~(typename block::set)0 >> (8 * sizeof(all) - SLOTS);
    if (!block::SPLIT) {
        all = 0;
#pragma unroll
        for (unsigned s = 0; s < SLOTS; s++) {
            const unsigned word = s * TAG / 32, high = s * TAG % 32 + TAG - 1;
            const unsigned over = block::GROUP - 1 - word % block::GROUP;
            all |= (typename block::set)1 << (word / block::GROUP * 32 + high - over) % 64;
        }
    }
    return all;
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_tagged(const tcf_block<TAG, SLOTS> &block, uint32_t tag)
{
    if (block.SPLIT) {
        return tcf_equal_split(block, tag, block.ONES);
    }
    return tcf_all<TAG, SLOTS>() & ~tcf_other(block, tag * block.EACH, 0);
}

/* Empty slots and tombstones. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_free(const tcf_block<TAG, SLOTS> &block)
{
    if (block.SPLIT) {
        return tcf_equal_split(block, HSPZ_TCF_EMPTY, block.ONES & ~HSPZ_TCF_TOMBSTONE);
    }
    return tcf_all<TAG, SLOTS>() & ~tcf_other(block, HSPZ_TCF_EMPTY, block.EACH);
}

/* Whether a slot has the tag. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_has(const tcf_block<TAG, SLOTS> &block, uint32_t tag)
{
    if (block.SPLIT) {
        return tcf_tagged(block, tag) != 0;
    }
    const uint32_t each = tag * block.EACH;
    uint32_t flags = 0;
    /* The lowest field of a word that is flagged is 0; one above it may be 1. */
#pragma unroll
    for (unsigned i = 0; i < block.WORDS; i++) {
        const uint32_t x = block.word[i] ^ each;
        flags |= (x - block.EACH) & ~x;
    }
    return (flags & block.HIGHS) != 0;
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint32_t
tcf_last_code(const tcf_block<TAG, SLOTS> &block)
{
    return block.word[block.WORDS - 1] >> (32 - TAG);
}

/* Whether the last slot is empty: then no key of this block is in the backing table. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_open(const tcf_block<TAG, SLOTS> &block)
{
    return tcf_last_code(block) == HSPZ_TCF_EMPTY;
}

/* Slots of 12 bits that lie in two words of 64; the last one never does. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_split()
{
    typename tcf_block<TAG, SLOTS>::set split = 0;
    if (tcf_block<TAG, SLOTS>::SPLIT) {
#pragma unroll
        for (unsigned s = 0; s < SLOTS; s++) {
            split |= s * TAG % 64 > 64 - TAG ? (typename tcf_block<TAG, SLOTS>::set)1 << s : 0;
        }
    }
    return split;
}

struct tcf_field {
    unsigned word, shift; /* of 32 bits; tags of 12 bits: of 64 */
};

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ tcf_field
tcf_where(unsigned bit)
{
    using block = tcf_block<TAG, SLOTS>;
    if (block::SPLIT) {
        return {bit * TAG / 64, bit * TAG % 64};
    }
    return {bit / 32 * block::GROUP + bit % TAG - (TAG - block::GROUP), bit % 32 / TAG * TAG};
}

/* Number of the slot in its block. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ unsigned
tcf_slot(unsigned bit)
{
    const tcf_field field = tcf_where<TAG, SLOTS>(bit);
    return tcf_block<TAG, SLOTS>::SPLIT ? bit : (field.word * 32 + field.shift) / TAG;
}

/* The last slot's bit. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ unsigned
tcf_last()
{
    return SLOTS == 64 ? 63 : tcf_block<TAG, SLOTS>::SPLIT ? SLOTS - 1 : 31;
}

/* ---- changing a slot ---- */

template <unsigned TAG, unsigned SLOTS>
static __device__ bool
tcf_swap_split(const struct hspz_cuda_tcf &tcf, uint32_t at, const tcf_block<TAG, SLOTS> &block,
               tcf_field field, uint32_t code)
{
    unsigned long long *words = (unsigned long long *)tcf_at<TAG, SLOTS>(tcf, at) + field.word;
    uint32_t *lock = tcf.locks + HSPZ_CUDA_FILTER_LOCKS + at % HSPZ_CUDA_TCF_SPLIT_LOCKS;
    const unsigned low_bits = 64 - field.shift, w = 2 * field.word;
    const unsigned long long seen_low =
        (unsigned long long)tcf_word(block, w + 1) << 32 | tcf_word(block, w);
    const uint32_t seen = (uint32_t)(seen_low >> field.shift |
                                     (unsigned long long)tcf_word(block, w + 2) << low_bits) &
                          block.ONES;
    for (;;) {
        if (!filter_lock(lock)) {
            continue;
        }
        const unsigned long long low = __ldcg(words), high = __ldcg(words + 1);
        const uint32_t now = (uint32_t)(low >> field.shift | high << low_bits) & block.ONES;
        if (now == seen) {
            const unsigned long long change = now ^ code;
            atomicXor(words, change << field.shift);
            atomicXor(words + 1, change >> low_bits);
        }
        filter_unlock(lock);
        return now == seen;
    }
}

/* Gives a slot, which holds what `block` says, another code; `turned`: which bits are the other way
 * in all words of `block`, but for tags of 12 bits. False: what is swapped together with the slot
 * has changed. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_swap(const struct hspz_cuda_tcf &tcf, uint32_t at, const tcf_block<TAG, SLOTS> &block,
         unsigned bit, uint32_t code, uint32_t turned)
{
    const tcf_field field = tcf_where<TAG, SLOTS>(bit);
    if (!block.SPLIT) {
        const uint32_t old = tcf_word(block, field.word) ^ turned;
        const uint32_t wanted = (old & ~(block.ONES << field.shift)) | code << field.shift;
        return atomicCAS(tcf_at<TAG, SLOTS>(tcf, at) + field.word, old, wanted) == old;
    }
    if (field.shift > 64 - TAG) {
        return tcf_swap_split(tcf, at, block, field, code);
    }
    unsigned long long *word = (unsigned long long *)tcf_at<TAG, SLOTS>(tcf, at) + field.word;
    const unsigned w = 2 * field.word;
    const unsigned long long old =
        (unsigned long long)tcf_word(block, w + 1) << 32 | tcf_word(block, w);
    const unsigned long long ones = block.ONES;
    const unsigned long long wanted = (old & ~(ones << field.shift)) | (unsigned long long)code
                                                                           << field.shift;
    return atomicCAS(word, old, wanted) == old;
}

/* ---- values ---- */

/* Where a slot's value is: the words of 64 bits that it begins in, and its bit there. Slots of the
 * backing table come behind the others. */
struct tcf_value_place {
    unsigned long long *at;
    unsigned shift;
};

template <unsigned SLOTS>
static __device__ __forceinline__ tcf_value_place
tcf_value_where(const struct hspz_cuda_tcf &tcf, uint64_t slot)
{
    const uint64_t block = slot / SLOTS;
    const bool spare = block >= tcf.windows.blocks;
    const uint64_t bit = spare ? (slot - (uint64_t)tcf.windows.blocks * SLOTS) * tcf.value_bits
                               : block * tcf.value_block_bits + slot % SLOTS * tcf.value_bits;
    uint64_t *from = spare ? tcf.spare_values : tcf.values;
    return {(unsigned long long *)from + bit / 64, (unsigned)(bit % 64)};
}

template <unsigned SLOTS>
static __device__ __forceinline__ uint64_t
tcf_value(const struct hspz_cuda_tcf &tcf, uint64_t slot)
{
    if (tcf.value_bits == 0) {
        return 0;
    }
    const tcf_value_place place = tcf_value_where<SLOTS>(tcf, slot);
    unsigned long long value = __ldcg(place.at) >> place.shift;
    if (place.shift + tcf.value_bits > 64) {
        value |= __ldcg(place.at + 1) << (64 - place.shift);
    }
    return value & ((1ull << tcf.value_bits) - 1);
}

/* Only the owner of a slot changes its value, but others change their values in the same words. */
template <unsigned SLOTS>
static __device__ __forceinline__ void
tcf_set_value(const struct hspz_cuda_tcf &tcf, uint64_t slot, uint64_t value)
{
    const unsigned bits = tcf.value_bits;
    if (bits == 0) {
        return;
    }
    const tcf_value_place place = tcf_value_where<SLOTS>(tcf, slot);
    if (bits % 16 == 0) {
        uint16_t *at = (uint16_t *)place.at + place.shift / 16;
        for (unsigned i = 0; i < bits; i += 16) {
            at[i / 16] = (uint16_t)(value >> i);
        }
        return;
    }
    const unsigned long long change = (tcf_value<SLOTS>(tcf, slot) ^ value) & ((1ull << bits) - 1);
    atomicXor(place.at, change << place.shift);
    if (place.shift + bits > 64) {
        atomicXor(place.at + 1, change >> (64 - place.shift));
    }
}
