/* A two-choice filter from within a kernel, a thread a key: hspz_tcf_insert, _insert_if_absent,
 * _find, _count, _erase, for tags of TAG bits in blocks of SLOTS slots, which must be the filter's.
 *
 * Threads: any of them beside each other, on the same keys as well. A key is found from when its
 *          insert has returned, its value too; a value that is looked up before that may be
 *          another one. An erase that is ALONE (nothing inserts while the kernel runs) leaves fewer
 *          tombstones. What one kernel changed, the next one sees.
 *
 * Why no key is lost while others come and go: the backing table is looked into only when neither
 * block has an empty slot, so a word of a block without one must never get one again. An erase
 * therefore leaves a tombstone unless there is another empty slot in what it swaps as one (ALONE:
 * in the block). Tags of 12 bits may lie in two words: these are changed under a lock, and since
 * they may be seen half, an empty one is not counted as proof. */
#pragma once

#include "engine/cuda/kernels/filter_lock.cuh"
#include "engine/filter_hash.h"

#define TCF_NONE UINT64_MAX

/* ---- blocks in registers ---- */

/* Sets of slots. A slot's bit is where its field's highest bit can be moved to with one shift for
 * all fields of a word; tags of 12 bits are in order. */
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
    using set = typename tcf_set<SLOTS>::type;
    uint32_t word[WORDS];
};

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint32_t *
tcf_at(const struct hspz_cuda_tcf &tcf, uint64_t block)
{
    return tcf.tags + block * tcf_block<TAG, SLOTS>::WORDS;
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ tcf_block<TAG, SLOTS>
tcf_load(const struct hspz_cuda_tcf &tcf, uint64_t block)
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

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ void
tcf_set_word(tcf_block<TAG, SLOTS> &block, unsigned index, uint32_t word)
{
#pragma unroll
    for (unsigned i = 0; i < block.WORDS; i++) {
        block.word[i] = i == index ? word : block.word[i];
    }
}

/* The slots whose code, of which the bits in `care` count, is `code`. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_equal(const tcf_block<TAG, SLOTS> &block, uint32_t code, uint32_t care)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    set equal = 0;
    if (block.SPLIT) {
#pragma unroll
        for (unsigned s = 0; s < SLOTS; s++) {
            const unsigned bit = s * TAG, w = bit / 32, next = w + 1 < block.WORDS ? w + 1 : w;
            const uint32_t field = __funnelshift_r(block.word[w], block.word[next], bit % 32);
            equal |= ((field ^ code) & care & 0xfff) == 0 ? (set)1 << s : 0;
        }
        return equal;
    }
    constexpr uint32_t each = TAG == 8 ? 0x01010101u : TAG == 16 ? 0x00010001u : 1u;
    constexpr uint32_t highs = each << (TAG - 1) % 32;
    constexpr unsigned words = block.WORDS < TAG ? block.WORDS : TAG;
#pragma unroll
    for (unsigned g = 0; g < block.WORDS; g += words) {
        uint32_t flags = 0;
#pragma unroll
        for (unsigned i = 0; i < words; i++) {
            const uint32_t x = (block.word[g + i] ^ code * each) & care * each;
            const uint32_t zero = ~(((x & ~highs) + ~highs) | x) & highs;
            flags |= zero >> ((TAG - 1 - i) & 31);
        }
        equal |= (set)flags << (g / words * 32 & 63);
    }
    return equal;
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_tagged(const tcf_block<TAG, SLOTS> &block, uint32_t tag)
{
    return tcf_equal(block, tag, 0xffffffffu >> (32 - TAG));
}

/* Empty slots and tombstones. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_free(const tcf_block<TAG, SLOTS> &block)
{
    return tcf_equal(block, HSPZ_TCF_EMPTY, 0xfffffffeu >> (32 - TAG) & ~HSPZ_TCF_TOMBSTONE);
}

/* Slots of 12 bits that lie in two words of 64. */
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

/* Empty slots, for certain. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ typename tcf_block<TAG, SLOTS>::set
tcf_empty(const tcf_block<TAG, SLOTS> &block)
{
    return tcf_tagged(block, HSPZ_TCF_EMPTY) & ~tcf_split<TAG, SLOTS>();
}

struct tcf_field {
    unsigned word, shift; /* of 32 bits; tags of 12 bits: of 64 */
};

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ tcf_field
tcf_where(unsigned bit)
{
    if (tcf_block<TAG, SLOTS>::SPLIT) {
        return {bit * TAG / 64, bit * TAG % 64};
    }
    constexpr unsigned all = tcf_block<TAG, SLOTS>::WORDS, words = all < TAG ? all : TAG;
    return {bit / 32 * words + bit % TAG, bit % 32 / TAG * TAG};
}

/* Number of the slot in its block. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ unsigned
tcf_slot(unsigned bit)
{
    const tcf_field field = tcf_where<TAG, SLOTS>(bit);
    return tcf_block<TAG, SLOTS>::SPLIT ? bit : (field.word * 32 + field.shift) / TAG;
}

/* Whether the slots' set has another one in what is swapped together with this one. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_beside(typename tcf_block<TAG, SLOTS>::set slots, unsigned bit)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    const set others = slots & ~((set)1 << bit);
    if (tcf_block<TAG, SLOTS>::SPLIT) {
        /* Only those that lie in the same word of 64 as a whole. */
        for (set left = others; left != 0; left &= left - 1) {
            if (tcf_lowest(left) * TAG / 64 == bit * TAG / 64) {
                return bit * TAG % 64 <= 64 - TAG;
            }
        }
        return false;
    }
    constexpr uint32_t same = TAG == 8 ? 0x01010101u : TAG == 16 ? 0x00010001u : 1u;
    return (others & (set)same << (bit / 32 * 32 + bit % TAG)) != 0;
}

/* ---- changing a slot ---- */

template <unsigned TAG, unsigned SLOTS>
static __device__ bool
tcf_swap_split(const struct hspz_cuda_tcf &tcf, uint64_t at, tcf_block<TAG, SLOTS> &block,
               tcf_field field, uint32_t code)
{
    unsigned long long *words = (unsigned long long *)tcf_at<TAG, SLOTS>(tcf, at) + field.word;
    uint32_t *lock = tcf.locks + HSPZ_CUDA_FILTER_LOCKS + at % HSPZ_CUDA_TCF_SPLIT_LOCKS;
    const unsigned low_bits = 64 - field.shift, w = 2 * field.word;
    const unsigned long long ones = (1ull << TAG) - 1;
    const unsigned long long seen_low =
        (unsigned long long)tcf_word(block, w + 1) << 32 | tcf_word(block, w);
    const uint32_t seen = (uint32_t)((seen_low >> field.shift |
                                      (unsigned long long)tcf_word(block, w + 2) << low_bits) &
                                     ones);
    for (bool swapped = false;;) {
        if (!filter_lock(lock)) {
            continue;
        }
        const unsigned long long low = __ldcg(words), high = __ldcg(words + 1);
        const uint32_t now = (uint32_t)((low >> field.shift | high << low_bits) & ones);
        if (now == seen) {
            const unsigned long long change = now ^ code;
            atomicXor(words, change << field.shift);
            atomicXor(words + 1, change >> low_bits);
            swapped = true;
        } else {
            tcf_set_word(block, w, (uint32_t)low);
            tcf_set_word(block, w + 1, (uint32_t)(low >> 32));
            tcf_set_word(block, w + 2, (uint32_t)high);
            tcf_set_word(block, w + 3, (uint32_t)(high >> 32));
        }
        filter_unlock(lock);
        return swapped;
    }
}

/* Gives a slot, which holds what `block` says, another code. False: it holds something else by now,
 * which `block` then says. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_swap(const struct hspz_cuda_tcf &tcf, uint64_t at, tcf_block<TAG, SLOTS> &block, unsigned bit,
         uint32_t code)
{
    const tcf_field field = tcf_where<TAG, SLOTS>(bit);
    if (!block.SPLIT) {
        const uint32_t ones = 0xffffffffu >> (32 - TAG);
        const uint32_t old = tcf_word(block, field.word);
        const uint32_t wanted = (old & ~(ones << field.shift)) | code << field.shift;
        const uint32_t got = atomicCAS(tcf_at<TAG, SLOTS>(tcf, at) + field.word, old, wanted);
        if (got != old) {
            tcf_set_word(block, field.word, got);
        }
        return got == old;
    }
    if (field.shift > 64 - TAG) {
        return tcf_swap_split(tcf, at, block, field, code);
    }
    unsigned long long *word = (unsigned long long *)tcf_at<TAG, SLOTS>(tcf, at) + field.word;
    const unsigned w = 2 * field.word;
    const unsigned long long old =
        (unsigned long long)tcf_word(block, w + 1) << 32 | tcf_word(block, w);
    const unsigned long long ones = (1ull << TAG) - 1;
    const unsigned long long wanted = (old & ~(ones << field.shift)) | (unsigned long long)code
                                                                           << field.shift;
    const unsigned long long got = atomicCAS(word, old, wanted);
    if (got != old) {
        tcf_set_word(block, w, (uint32_t)got);
        tcf_set_word(block, w + 1, (uint32_t)(got >> 32));
    }
    return got == old;
}

/* ---- values ---- */

static __device__ __forceinline__ uint64_t
tcf_value(const struct hspz_cuda_tcf &tcf, uint64_t slot)
{
    if (tcf.value_bits == 0) {
        return 0;
    }
    const uint64_t bit = slot * tcf.value_bits;
    const unsigned shift = (unsigned)(bit % 64);
    const unsigned long long *at = (const unsigned long long *)tcf.values + bit / 64;
    unsigned long long value = __ldcg(at) >> shift;
    if (shift + tcf.value_bits > 64) {
        value |= __ldcg(at + 1) << (64 - shift);
    }
    return value & ((1ull << tcf.value_bits) - 1);
}

/* Only the owner of a slot changes its value, but others change their values in the same words. */
static __device__ __forceinline__ void
tcf_set_value(const struct hspz_cuda_tcf &tcf, uint64_t slot, uint64_t value)
{
    const unsigned bits = tcf.value_bits;
    if (bits == 0) {
        return;
    }
    const uint64_t bit = slot * bits;
    if (bits % 16 == 0) {
        uint16_t *at = (uint16_t *)tcf.values + bit / 16;
        for (unsigned i = 0; i < bits; i += 16) {
            at[i / 16] = (uint16_t)(value >> i);
        }
        return;
    }
    const unsigned shift = (unsigned)(bit % 64);
    unsigned long long *at = (unsigned long long *)tcf.values + bit / 64;
    const unsigned long long change = (tcf_value(tcf, slot) ^ value) & ((1ull << bits) - 1);
    atomicXor(at, change << shift);
    if (shift + bits > 64) {
        atomicXor(at + 1, change >> (64 - shift));
    }
}

/* ---- backing table ---- */

/* By value, and not inlined: it is seldom looked at, and must cost the rest no registers. */
struct tcf_backing {
    unsigned long long *words;
    uint64_t slots;
};

static __device__ __forceinline__ tcf_backing
tcf_backing_of(const struct hspz_cuda_tcf &tcf)
{
    return {tcf.backing, tcf.backing_slots};
}

static __device__ __forceinline__ uint64_t
tcf_backing_home(tcf_backing table, uint64_t word)
{
    return hspz_filter_scale(hspz_filter_mix(word), table.slots);
}

static __device__ __forceinline__ uint64_t
tcf_backing_next(tcf_backing table, uint64_t at)
{
    return at + 1 == table.slots ? 0 : at + 1;
}

/* The first place with the word, or TCF_NONE. */
static __device__ __attribute__((noinline)) uint64_t
tcf_backing_find(tcf_backing table, uint64_t word)
{
    uint64_t at = tcf_backing_home(table, word);
    for (uint64_t n = 0; n < table.slots; n++, at = tcf_backing_next(table, at)) {
        const unsigned long long here = __ldcg(table.words + at);
        if (here == HSPZ_TCF_EMPTY || here == word) {
            return here == word ? at : TCF_NONE;
        }
    }
    return TCF_NONE;
}

static __device__ __attribute__((noinline)) uint64_t
tcf_backing_count(tcf_backing table, uint64_t word)
{
    uint64_t at = tcf_backing_home(table, word), count = 0;
    for (uint64_t n = 0; n < table.slots; n++, at = tcf_backing_next(table, at)) {
        const unsigned long long here = __ldcg(table.words + at);
        if (here == HSPZ_TCF_EMPTY) {
            break;
        }
        count += here == word;
    }
    return count;
}

/* The place it took, or TCF_NONE. */
static __device__ __attribute__((noinline)) uint64_t
tcf_backing_insert(tcf_backing table, uint64_t word)
{
    uint64_t at = tcf_backing_home(table, word);
    for (uint64_t n = 0; n < table.slots; n++, at = tcf_backing_next(table, at)) {
        unsigned long long here = __ldcg(table.words + at);
        while (here < HSPZ_TCF_TAGS) {
            const unsigned long long got =
                atomicCAS(table.words + at, here, (unsigned long long)word);
            if (got == here) {
                return at;
            }
            here = got;
        }
    }
    return TCF_NONE;
}

/* ALONE: what ends a probe anyway need not be passed; while nothing is inserted, an empty place
 * stays one. */
static __device__ __attribute__((noinline)) bool
tcf_backing_erase(tcf_backing table, uint64_t word, bool alone)
{
    const unsigned long long tombstone = HSPZ_TCF_TOMBSTONE, empty = HSPZ_TCF_EMPTY;
    uint64_t at = tcf_backing_home(table, word);
    bool erased = false;
    for (uint64_t n = 0; n < table.slots && !erased; n++) {
        const unsigned long long here = __ldcg(table.words + at);
        if (here == empty) {
            return false;
        }
        erased = here == word && atomicCAS(table.words + at, here, tombstone) == here;
        at = erased ? at : tcf_backing_next(table, at);
    }
    while (erased && alone && __ldcg(table.words + tcf_backing_next(table, at)) == empty &&
           atomicCAS(table.words + at, tombstone, empty) == tombstone) {
        at = at == 0 ? table.slots - 1 : at - 1;
    }
    return erased;
}

/* ---- keys ---- */

struct tcf_place {
    uint32_t tag;
    uint64_t block[2];
};

template <unsigned TAG>
static __device__ __forceinline__ tcf_place
tcf_place_of_hash(const struct hspz_cuda_tcf &tcf, uint64_t hash)
{
    tcf_place place;
    place.tag = hspz_tcf_tag(hash, TAG);
    place.block[0] = hspz_tcf_block(hash, tcf.blocks);
    place.block[1] = hspz_tcf_other(place.block[0], place.tag, tcf.blocks);
    return place;
}

template <unsigned TAG>
static __device__ __forceinline__ tcf_place
tcf_place_of(const struct hspz_cuda_tcf &tcf, uint64_t key)
{
    return tcf_place_of_hash<TAG>(tcf, hspz_filter_hash(key, tcf.salt));
}

/* In the backing table. */
static __device__ __forceinline__ uint64_t
tcf_backing_word(const tcf_place &place)
{
    const uint64_t a = place.block[0], b = place.block[1];
    return (a < b ? a : b) << 32 | place.tag;
}

/* Takes one of the free slots; its number in the filter, or TCF_NONE. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint64_t
tcf_take(const struct hspz_cuda_tcf &tcf, uint64_t at, tcf_block<TAG, SLOTS> &block, uint32_t tag)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    /* Neighbouring threads begin at different slots, should they meet. */
    const unsigned turn = threadIdx.x % SLOTS;
    for (;;) {
        const set all = tcf_free(block), split = tcf_split<TAG, SLOTS>();
        const set open = (all & ~split) != 0 ? all & ~split : all;
        if (open == 0) {
            return TCF_NONE;
        }
        const set ahead = open & (set) ~(set)0 << turn;
        const unsigned bit = tcf_lowest(ahead != 0 ? ahead : open);
        if (tcf_swap(tcf, at, block, bit, tag)) {
            return at * SLOTS + tcf_slot<TAG, SLOTS>(bit);
        }
    }
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_insert_place(const struct hspz_cuda_tcf &tcf, const tcf_place &place, uint64_t value)
{
    tcf_block<TAG, SLOTS> a = tcf_load<TAG, SLOTS>(tcf, place.block[0]);
    const unsigned free_a = tcf_size(tcf_free(a));
    uint64_t slot = TCF_NONE;
    if (4 * free_a > SLOTS) {
        slot = tcf_take(tcf, place.block[0], a, place.tag);
    }
    if (slot == TCF_NONE) {
        tcf_block<TAG, SLOTS> b = tcf_load<TAG, SLOTS>(tcf, place.block[1]);
        if (tcf_size(tcf_free(b)) > free_a) {
            slot = tcf_take(tcf, place.block[1], b, place.tag);
        }
        if (slot == TCF_NONE) {
            slot = tcf_take(tcf, place.block[0], a, place.tag);
        }
        if (slot == TCF_NONE) {
            slot = tcf_take(tcf, place.block[1], b, place.tag);
        }
    }
    if (slot == TCF_NONE) {
        slot = tcf_backing_insert(tcf_backing_of(tcf), tcf_backing_word(place));
        if (slot == TCF_NONE) {
            return false;
        }
        slot += tcf.blocks * SLOTS;
    }
    tcf_set_value(tcf, slot, value);
    return true;
}

/* A slot that holds the tag, or TCF_NONE. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint64_t
tcf_find_place(const struct hspz_cuda_tcf &tcf, const tcf_place &place)
{
    bool empty = false;
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const tcf_block<TAG, SLOTS> block = tcf_load<TAG, SLOTS>(tcf, place.block[i]);
        const auto same = tcf_tagged(block, place.tag);
        if (same != 0) {
            return place.block[i] * SLOTS + tcf_slot<TAG, SLOTS>(tcf_lowest(same));
        }
        empty = empty || tcf_empty(block) != 0;
    }
    const uint64_t at =
        empty ? TCF_NONE : tcf_backing_find(tcf_backing_of(tcf), tcf_backing_word(place));
    return at != TCF_NONE ? tcf.blocks * SLOTS + at : TCF_NONE;
}

/* ---- operations ---- */

/* False: the filter is full. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
hspz_tcf_insert(const struct hspz_cuda_tcf &tcf, uint64_t key, uint64_t value)
{
    return tcf_insert_place<TAG, SLOTS>(tcf, tcf_place_of<TAG>(tcf, key), value);
}

/* Whether it is there; *value: one that it went in with. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
hspz_tcf_find(const struct hspz_cuda_tcf &tcf, uint64_t key, uint64_t *value)
{
    const uint64_t slot = tcf_find_place<TAG, SLOTS>(tcf, tcf_place_of<TAG>(tcf, key));
    *value = slot != TCF_NONE ? tcf_value(tcf, slot) : 0;
    return slot != TCF_NONE;
}

enum hspz_tcf_absent { HSPZ_TCF_WENT_IN, HSPZ_TCF_WAS_THERE, HSPZ_TCF_FULL };

/* Of threads with keys that are equal to the filter one goes in. *value: what was there. Needs the
 * locks. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ enum hspz_tcf_absent
hspz_tcf_insert_if_absent(const struct hspz_cuda_tcf &tcf, uint64_t key, uint64_t *value)
{
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    const uint64_t word = tcf_backing_word(place);
    uint32_t *lock = filter_lock_of(tcf.locks, word);
    uint64_t slot = tcf_find_place<TAG, SLOTS>(tcf, place);
    enum hspz_tcf_absent answer = HSPZ_TCF_WAS_THERE;
    while (slot == TCF_NONE) {
        if (!filter_lock(lock)) {
            continue;
        }
        slot = tcf_find_place<TAG, SLOTS>(tcf, place);
        if (slot == TCF_NONE) {
            answer =
                tcf_insert_place<TAG, SLOTS>(tcf, place, *value) ? HSPZ_TCF_WENT_IN : HSPZ_TCF_FULL;
        }
        filter_unlock(lock);
        break;
    }
    if (answer == HSPZ_TCF_WAS_THERE) {
        *value = tcf_value(tcf, slot);
    }
    return answer;
}

/* How often it is there. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint64_t
hspz_tcf_count(const struct hspz_cuda_tcf &tcf, uint64_t key)
{
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    const tcf_block<TAG, SLOTS> a = tcf_load<TAG, SLOTS>(tcf, place.block[0]);
    const tcf_block<TAG, SLOTS> b = tcf_load<TAG, SLOTS>(tcf, place.block[1]);
    uint64_t count = tcf_size(tcf_tagged(a, place.tag));
    if (place.block[1] != place.block[0]) {
        count += tcf_size(tcf_tagged(b, place.tag));
    }
    if (tcf_empty(a) == 0 && tcf_empty(b) == 0) {
        count += tcf_backing_count(tcf_backing_of(tcf), tcf_backing_word(place));
    }
    return count;
}

/* Takes it away once; false: it was not there. */
template <unsigned TAG, unsigned SLOTS, bool ALONE>
static __device__ __forceinline__ bool
hspz_tcf_erase(const struct hspz_cuda_tcf &tcf, uint64_t key)
{
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    bool any_empty = false;
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        tcf_block<TAG, SLOTS> block = tcf_load<TAG, SLOTS>(tcf, place.block[i]);
        for (auto same = tcf_tagged(block, place.tag); same != 0;
             same = tcf_tagged(block, place.tag)) {
            const unsigned bit = tcf_lowest(same);
            const auto empty = tcf_empty(block);
            const bool another = ALONE ? empty != 0 : tcf_beside<TAG, SLOTS>(empty, bit);
            if (tcf_swap(tcf, place.block[i], block, bit,
                         another ? HSPZ_TCF_EMPTY : HSPZ_TCF_TOMBSTONE)) {
                return true;
            }
        }
        any_empty = any_empty || tcf_empty(block) != 0;
    }
    return !any_empty && tcf_backing_erase(tcf_backing_of(tcf), tcf_backing_word(place), ALONE);
}
