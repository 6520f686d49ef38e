/* A two-choice filter from within a kernel, a thread a key: hspz_tcf_insert, _insert_if_absent,
 * _find, _count, _erase, for tags of TAG bits in blocks of SLOTS slots, which must be the filter's.
 *
 * Threads: any of them beside each other, on the same keys as well. A key is found from when its
 *          insert has returned, its value too; a value that is looked up before that may be
 *          another one. An erase that is ALONE (nothing inserts while the kernel runs) leaves fewer
 *          tombstones. What one kernel changed, the next one sees.
 * Limits:  inserts choose between blocks by what they see there, and many at once all see the same.
 *          So that a filter takes what its plan says, no more threads may be inserting at a time
 *          than it has blocks (tcf.windows.blocks).
 *
 * Why no key is lost while others come and go: the backing table is looked into unless the last
 * slot of one of the key's blocks is empty, and a key goes there only when none is free. Once it
 * was taken, the last slot is a tombstone when it is free again. Tags of 12 bits may lie in two
 * words: these are changed under a lock, and may be seen half; the last slot's never does. */
#pragma once

#include "engine/cuda/kernels/filter_tcf_block.cuh"

#define TCF_NONE UINT64_MAX
#define TCF_PATIENCE 64u /* places of the backing table */

/* ---- backing table ---- */

struct tcf_backing {
    unsigned long long *words;
    unsigned long long *used;
    uint32_t slots;
};

static __device__ __forceinline__ tcf_backing
tcf_backing_of(const struct hspz_cuda_tcf &tcf)
{
    return {tcf.backing, &tcf.counts->spare, tcf.backing_slots};
}

static __device__ __forceinline__ uint32_t
tcf_backing_next(tcf_backing table, uint32_t at)
{
    return at + 1 == table.slots ? 0 : at + 1;
}

/* The first place with the word, or TCF_NONE. */
static __device__ __forceinline__ uint64_t
tcf_backing_find(tcf_backing table, uint64_t word)
{
    uint32_t at = hspz_tcf_home(word, table.slots);
    for (uint32_t n = 0; n < table.slots; n++, at = tcf_backing_next(table, at)) {
        const unsigned long long here = __ldcg(table.words + at);
        if (here == HSPZ_TCF_EMPTY || here == word) {
            return here == word ? at : TCF_NONE;
        }
    }
    return TCF_NONE;
}

static __device__ __forceinline__ uint64_t
tcf_backing_count(tcf_backing table, uint64_t word)
{
    uint32_t at = hspz_tcf_home(word, table.slots);
    uint64_t count = 0;
    for (uint32_t n = 0; n < table.slots; n++, at = tcf_backing_next(table, at)) {
        const unsigned long long here = __ldcg(table.words + at);
        if (here == HSPZ_TCF_EMPTY) {
            break;
        }
        count += here == word;
    }
    return count;
}

/* The place it took, or TCF_NONE. Who looks for long asks whether it is in vain: keys are counted
 * after they went in, and until after they were taken away. */
static __device__ __forceinline__ uint64_t
tcf_backing_insert(tcf_backing table, uint64_t word)
{
    uint32_t at = hspz_tcf_home(word, table.slots);
    for (uint32_t n = 0; n < table.slots; n++, at = tcf_backing_next(table, at)) {
        unsigned long long here = __ldcg(table.words + at);
        while (here < HSPZ_TCF_TAGS) {
            const unsigned long long got =
                atomicCAS(table.words + at, here, (unsigned long long)word);
            if (got == here) {
                atomicAdd(table.used, 1ull);
                return at;
            }
            here = got;
        }
        if (n % TCF_PATIENCE == TCF_PATIENCE - 1 && __ldcg(table.used) >= table.slots) {
            return TCF_NONE;
        }
    }
    return TCF_NONE;
}

/* ALONE: what ends a probe anyway need not be passed; while nothing is inserted, an empty place
 * stays one. */
static __device__ __forceinline__ bool
tcf_backing_erase(tcf_backing table, uint64_t word, bool alone)
{
    const unsigned long long tombstone = HSPZ_TCF_TOMBSTONE, empty = HSPZ_TCF_EMPTY;
    uint32_t at = hspz_tcf_home(word, table.slots);
    bool erased = false;
    for (uint32_t n = 0; n < table.slots && !erased; n++) {
        const unsigned long long here = __ldcg(table.words + at);
        if (here == empty) {
            return false;
        }
        erased = here == word && atomicCAS(table.words + at, here, tombstone) == here;
        at = erased ? at : tcf_backing_next(table, at);
    }
    if (erased) {
        atomicAdd(table.used, 0 - 1ull);
    }
    while (erased && alone && __ldcg(table.words + tcf_backing_next(table, at)) == empty &&
           atomicCAS(table.words + at, tombstone, empty) == tombstone) {
        at = at == 0 ? table.slots - 1 : at - 1;
    }
    return erased;
}

/* ---- keys ---- */

struct tcf_place {
    uint32_t tag, block[2];
};

template <unsigned TAG>
static __device__ __forceinline__ tcf_place
tcf_place_of(const struct hspz_cuda_tcf &tcf, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, tcf.salt);
    tcf_place place;
    place.tag = hspz_tcf_tag(hash, TAG);
    place.block[0] = hspz_tcf_block(hash, tcf.windows.blocks);
    place.block[1] = hspz_tcf_other(place.block[0], place.tag, tcf.windows);
    return place;
}

/* In the backing table. */
static __device__ __forceinline__ uint64_t
tcf_backing_word(const tcf_place &place)
{
    return hspz_tcf_word(place.block[0], place.block[1], place.tag);
}

/* Whether the backing table has the key, which may be only where neither block is open. Mostly the
 * first place says no. */
static __device__ __forceinline__ uint64_t
tcf_overflow_find(const struct hspz_cuda_tcf &tcf, const tcf_place &place)
{
    const uint64_t word = tcf_backing_word(place);
    const uint32_t home = hspz_tcf_home(word, tcf.backing_slots);
    const unsigned long long here = __ldcg(tcf.backing + home);
    return here == HSPZ_TCF_EMPTY ? TCF_NONE
           : here == word         ? home
                                  : tcf_backing_find(tcf_backing_of(tcf), word);
}

/* One of the free slots: the last one when there is no other; where they can be had with one swap,
 * if there are such. Neighbouring threads begin at different slots, should they meet. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ unsigned
tcf_choose(typename tcf_block<TAG, SLOTS>::set open)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    const set split = tcf_split<TAG, SLOTS>();
    const set others = open & ~((set)1 << tcf_last<TAG, SLOTS>());
    const set whole = others & ~split;
    const set best = whole != 0 ? whole : others != 0 ? others : open;
    const set ahead = best & (set) ~(set)0 << threadIdx.x % (8 * sizeof(set));
    return tcf_lowest(ahead != 0 ? ahead : best);
}

/* The slot that the key got, or TCF_NONE. Each try looks at the blocks as they are by then. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint64_t
tcf_insert_block(const struct hspz_cuda_tcf &tcf, const tcf_place &place)
{
    using set = typename tcf_block<TAG, SLOTS>::set;
    for (;;) {
        tcf_block<TAG, SLOTS> block = tcf_load<TAG, SLOTS>(tcf, place.block[0]);
        set open = tcf_free(block);
        uint32_t at = place.block[0];
        if (4 * tcf_size(open) <= SLOTS) {
            const tcf_block<TAG, SLOTS> second = tcf_load<TAG, SLOTS>(tcf, place.block[1]);
            const set second_open = tcf_free(second);
            if (tcf_size(second_open) > tcf_size(open)) {
                block = second;
                open = second_open;
                at = place.block[1];
            }
        }
        if (open == 0) {
            return TCF_NONE;
        }
        const unsigned bit = tcf_choose<TAG, SLOTS>(open);
        if (tcf_swap(tcf, at, block, bit, place.tag, 0)) {
            return (uint64_t)at * SLOTS + tcf_slot<TAG, SLOTS>(bit);
        }
    }
}

/* A key that found no place in its blocks; false: nor here. */
template <unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_insert_backing(const struct hspz_cuda_tcf &tcf, uint64_t word, uint64_t value)
{
    const uint64_t at = tcf_backing_insert(tcf_backing_of(tcf), word);
    if (at != TCF_NONE) {
        tcf_set_value<SLOTS>(tcf, (uint64_t)tcf.windows.blocks * SLOTS + at, value);
    }
    return at != TCF_NONE;
}

template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_insert_place(const struct hspz_cuda_tcf &tcf, const tcf_place &place, uint64_t value)
{
    const uint64_t slot = tcf_insert_block<TAG, SLOTS>(tcf, place);
    if (slot == TCF_NONE) {
        return tcf_insert_backing<SLOTS>(tcf, tcf_backing_word(place), value);
    }
    tcf_set_value<SLOTS>(tcf, slot, value);
    return true;
}

/* A slot that holds the tag, or TCF_NONE. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ uint64_t
tcf_find_place(const struct hspz_cuda_tcf &tcf, const tcf_place &place)
{
    tcf_block<TAG, SLOTS> block = tcf_load<TAG, SLOTS>(tcf, place.block[0]);
    uint32_t at = place.block[0];
    bool has = tcf_has(block, place.tag);
    if (!has) {
        const bool open = tcf_open(block);
        at = place.block[1];
        block = tcf_load<TAG, SLOTS>(tcf, at);
        has = tcf_has(block, place.tag);
        if (!has && (open || tcf_open(block))) {
            return TCF_NONE;
        }
    }
    if (has) {
        return (uint64_t)at * SLOTS +
               tcf_slot<TAG, SLOTS>(tcf_lowest(tcf_tagged(block, place.tag)));
    }
    const uint64_t spare = tcf_overflow_find(tcf, place);
    return spare != TCF_NONE ? (uint64_t)tcf.windows.blocks * SLOTS + spare : TCF_NONE;
}

/* Whether there is one. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ bool
tcf_there(const struct hspz_cuda_tcf &tcf, const tcf_place &place)
{
    const tcf_block<TAG, SLOTS> a = tcf_load<TAG, SLOTS>(tcf, place.block[0]);
    if (tcf_has(a, place.tag)) {
        return true;
    }
    const tcf_block<TAG, SLOTS> b = tcf_load<TAG, SLOTS>(tcf, place.block[1]);
    if (tcf_has(b, place.tag)) {
        return true;
    }
    return !tcf_open(a) && !tcf_open(b) && tcf_overflow_find(tcf, place) != TCF_NONE;
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
    *value = slot != TCF_NONE ? tcf_value<SLOTS>(tcf, slot) : 0;
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
        *value = tcf_value<SLOTS>(tcf, slot);
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
    if (!tcf_open(a) && !tcf_open(b)) {
        count += tcf_backing_count(tcf_backing_of(tcf), tcf_backing_word(place));
    }
    return count;
}

/* A block from which the tag is taken off, so that it is there as 0; tags of 12 bits stay. */
template <unsigned TAG, unsigned SLOTS>
static __device__ __forceinline__ tcf_block<TAG, SLOTS>
tcf_load_turned(const struct hspz_cuda_tcf &tcf, uint32_t at, uint32_t turned)
{
    tcf_block<TAG, SLOTS> block = tcf_load<TAG, SLOTS>(tcf, at);
#pragma unroll
    for (unsigned i = 0; i < block.WORDS; i++) {
        block.word[i] ^= turned;
    }
    return block;
}

/* Takes it away once; false: it was not there. Words are kept in one form alone: registers are
 * short. */
template <unsigned TAG, unsigned SLOTS, bool ALONE>
static __device__ __forceinline__ bool
hspz_tcf_erase(const struct hspz_cuda_tcf &tcf, uint64_t key)
{
    using kind = tcf_block<TAG, SLOTS>;
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    const uint32_t turned = kind::SPLIT ? 0 : place.tag * kind::EACH;
    const uint32_t tag = kind::SPLIT ? place.tag : 0, empty = turned & kind::ONES;
    for (;;) {
        kind block = tcf_load_turned<TAG, SLOTS>(tcf, place.block[0], turned);
        uint32_t at = place.block[0];
        bool has = tcf_has(block, tag), open = false;
        if (!has) {
            open = tcf_last_code(block) == empty;
            at = place.block[1];
            block = tcf_load_turned<TAG, SLOTS>(tcf, at, turned);
            has = tcf_has(block, tag);
            open = open || tcf_last_code(block) == empty;
        }
        if (!has) {
            return !open && tcf_backing_erase(tcf_backing_of(tcf), tcf_backing_word(place), ALONE);
        }
        const unsigned bit = tcf_lowest(tcf_tagged(block, tag));
        const bool last = bit == tcf_last<TAG, SLOTS>();
        if (tcf_swap(tcf, at, block, bit, last ? HSPZ_TCF_TOMBSTONE : HSPZ_TCF_EMPTY, turned)) {
            return true;
        }
    }
}
