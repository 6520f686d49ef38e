/* A two-choice filter from within a kernel, a group of threads a key: hspz_tcf_group_insert, _find,
 * _erase, for tags of 8, 16 or 32 bits; a block's words are spread over the group. All threads of
 * the group call with the same key, and get the same answer.
 *
 * A group is a cooperative_groups::thread_block_tile of a power of two of threads, or what has its
 * thread_rank, num_threads (constant), shfl, shfl_xor and ballot. The contract is that of
 * engine/cuda/kernels/filter_tcf.cuh, but that half as many groups as there are blocks may be
 * inserting at a time; both may work on a filter at the same time. */
#pragma once

#include "engine/cuda/kernels/filter_tcf.cuh"

/* Word i of a block is word i / lanes of thread i % lanes. */
template <unsigned TAG, unsigned SLOTS, typename GROUP> struct tcf_share {
    static_assert(TAG != 12, "tags of 12 bits lie in two words: use a thread a key");
    static constexpr unsigned LANES = (unsigned)GROUP::num_threads();
    static constexpr unsigned ALL = TAG * SLOTS / 32;
    static constexpr unsigned WORDS = ALL > LANES ? ALL / LANES : 1;
    static constexpr unsigned USED = ALL > LANES ? LANES : ALL; /* threads that have any */
    static constexpr uint32_t EACH = TAG == 8 ? 0x01010101u : TAG == 16 ? 0x00010001u : 1u;
    static constexpr uint32_t HIGHS = EACH << (TAG - 1);
    static constexpr uint32_t ONES = 0xffffffffu >> (32 - TAG);
    uint32_t *at;
    uint32_t word[WORDS];
};

template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ tcf_share<TAG, SLOTS, GROUP>
tcf_share_load(const GROUP &group, const struct hspz_cuda_tcf &tcf, uint32_t block)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    share made;
    made.at = tcf_at<TAG, SLOTS>(tcf, block) + group.thread_rank() % share::USED;
#pragma unroll
    for (unsigned i = 0; i < share::WORDS; i++) {
        made.word[i] = __ldcg(made.at + i * share::LANES);
    }
    return made;
}

/* Highest bits of the fields of a word whose code, of which the bits in `care` count, is `code`. */
template <typename SHARE>
static __device__ __forceinline__ uint32_t
tcf_share_equal(uint32_t word, uint32_t code, uint32_t care)
{
    const uint32_t x = (word ^ code * SHARE::EACH) & care * SHARE::EACH;
    return ~(((x & ~SHARE::HIGHS) + ~SHARE::HIGHS) | x) & SHARE::HIGHS;
}

template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ unsigned
tcf_share_count(const GROUP &group, const tcf_share<TAG, SLOTS, GROUP> &mine, uint32_t code,
                uint32_t care)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    unsigned count = 0;
#pragma unroll
    for (unsigned i = 0; i < share::WORDS; i++) {
        count += (unsigned)__popc(tcf_share_equal<share>(mine.word[i], code, care));
    }
    count = group.thread_rank() < share::USED ? count : 0;
    for (unsigned step = share::LANES / 2; step > 0; step /= 2) {
        count += group.shfl_xor(count, step);
    }
    return count;
}

/* Gives one slot of the block whose code is `code`, as far as `care` goes, another one; its number
 * in the block, or SLOTS: there is none. The last slot comes last, and gets a tombstone for an
 * empty code. */
template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ unsigned
tcf_share_swap(const GROUP &group, tcf_share<TAG, SLOTS, GROUP> &mine, uint32_t code, uint32_t care,
               uint32_t instead)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    const unsigned rank = (unsigned)group.thread_rank();
    for (;;) {
        unsigned which = share::WORDS;
        uint32_t flags = 0, word = 0;
#pragma unroll
        for (unsigned i = 0; i < share::WORDS; i++) {
            const uint32_t equal = tcf_share_equal<share>(mine.word[i], code, care);
            if (which == share::WORDS && equal != 0 && rank < share::USED) {
                which = i;
                flags = equal;
                word = mine.word[i];
            }
        }
        const uint32_t lanes = (uint32_t)group.ballot(flags != 0);
        if (lanes == 0) {
            return SLOTS;
        }
        const unsigned leader = (unsigned)__ffs((int)lanes) - 1;
        unsigned slot = SLOTS;
        if (rank == leader) {
            const unsigned shift = (unsigned)__ffs((int)flags) - TAG;
            const unsigned in = ((which * share::LANES + rank) * 32 + shift) / TAG;
            const uint32_t to =
                instead == HSPZ_TCF_EMPTY && in == SLOTS - 1 ? HSPZ_TCF_TOMBSTONE : instead;
            const uint32_t wanted = (word & ~(share::ONES << shift)) | to << shift;
            const uint32_t got = atomicCAS(mine.at + which * share::LANES, word, wanted);
#pragma unroll
            for (unsigned i = 0; i < share::WORDS; i++) {
                mine.word[i] = i == which ? (got == word ? wanted : got) : mine.word[i];
            }
            slot = got == word ? in : slot;
        }
        slot = group.shfl(slot, (int)leader);
        if (slot != SLOTS) {
            return slot;
        }
    }
}

/* Whether the last slots of both are not empty, so that the backing table may have the key. */
template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ bool
tcf_share_overflowed(const GROUP &group, const tcf_share<TAG, SLOTS, GROUP> &a,
                     const tcf_share<TAG, SLOTS, GROUP> &b)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    const uint32_t code_a = a.word[share::WORDS - 1] >> (32 - TAG);
    const uint32_t code_b = b.word[share::WORDS - 1] >> (32 - TAG);
    const bool has_last = group.thread_rank() == share::USED - 1;
    return group.ballot(has_last && code_a != HSPZ_TCF_EMPTY && code_b != HSPZ_TCF_EMPTY) != 0;
}

/* False: the filter is full. */
template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ bool
hspz_tcf_group_insert(const GROUP &group, const struct hspz_cuda_tcf &tcf, uint64_t key,
                      uint64_t value)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    const uint32_t care = share::ONES & ~HSPZ_TCF_TOMBSTONE;
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    share a = tcf_share_load<TAG, SLOTS>(group, tcf, place.block[0]);
    const unsigned free_a = tcf_share_count(group, a, HSPZ_TCF_EMPTY, care);
    uint32_t block = place.block[0];
    unsigned in = SLOTS;
    if (4 * free_a > SLOTS) {
        in = tcf_share_swap(group, a, HSPZ_TCF_EMPTY, care, place.tag);
    }
    if (in == SLOTS) {
        share b = tcf_share_load<TAG, SLOTS>(group, tcf, place.block[1]);
        const bool second = tcf_share_count(group, b, HSPZ_TCF_EMPTY, care) > free_a;
        for (unsigned turn = 0; turn < 2 && in == SLOTS; turn++) {
            const bool other = second == (turn == 0);
            block = place.block[other ? 1 : 0];
            in = other ? tcf_share_swap(group, b, HSPZ_TCF_EMPTY, care, place.tag)
                       : tcf_share_swap(group, a, HSPZ_TCF_EMPTY, care, place.tag);
        }
    }
    bool went_in = true;
    if (group.thread_rank() == 0) {
        if (in == SLOTS) {
            went_in = tcf_insert_backing<SLOTS>(tcf, tcf_backing_word(place), value);
        } else {
            tcf_set_value<SLOTS>(tcf, (uint64_t)block * SLOTS + in, value);
        }
    }
    return group.shfl((unsigned)went_in, 0) != 0;
}

/* Whether it is there; *value: one that it went in with. */
template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ bool
hspz_tcf_group_find(const GROUP &group, const struct hspz_cuda_tcf &tcf, uint64_t key,
                    uint64_t *value)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    share blocks[2];
    uint64_t slot = TCF_NONE;
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        if (slot != TCF_NONE) {
            break;
        }
        blocks[i] = tcf_share_load<TAG, SLOTS>(group, tcf, place.block[i]);
        unsigned in = SLOTS;
#pragma unroll
        for (unsigned w = 0; w < share::WORDS; w++) {
            const uint32_t equal =
                tcf_share_equal<share>(blocks[i].word[w], place.tag, share::ONES);
            if (equal != 0 && in == SLOTS && group.thread_rank() < share::USED) {
                in = ((w * share::LANES + (unsigned)group.thread_rank()) * 32 +
                      (unsigned)__ffs((int)equal) - TAG) /
                     TAG;
            }
        }
        const uint32_t lanes = (uint32_t)group.ballot(in != SLOTS);
        if (lanes != 0) {
            slot = (uint64_t)place.block[i] * SLOTS + group.shfl(in, __ffs((int)lanes) - 1);
        }
    }
    if (slot == TCF_NONE && tcf_share_overflowed(group, blocks[0], blocks[1])) {
        if (group.thread_rank() == 0) {
            slot = tcf_backing_find(tcf_backing_of(tcf), tcf_backing_word(place));
            slot = slot == TCF_NONE ? slot : (uint64_t)tcf.windows.blocks * SLOTS + slot;
        }
        slot = group.shfl(slot, 0);
    }
    *value = slot != TCF_NONE ? tcf_value<SLOTS>(tcf, slot) : 0;
    return slot != TCF_NONE;
}

/* Takes it away once; false: it was not there. */
template <unsigned TAG, unsigned SLOTS, typename GROUP>
static __device__ __forceinline__ bool
hspz_tcf_group_erase(const GROUP &group, const struct hspz_cuda_tcf &tcf, uint64_t key)
{
    using share = tcf_share<TAG, SLOTS, GROUP>;
    const tcf_place place = tcf_place_of<TAG>(tcf, key);
    share blocks[2];
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        blocks[i] = tcf_share_load<TAG, SLOTS>(group, tcf, place.block[i]);
        if (tcf_share_swap(group, blocks[i], place.tag, share::ONES, HSPZ_TCF_EMPTY) != SLOTS) {
            return true;
        }
    }
    bool erased = false;
    if (tcf_share_overflowed(group, blocks[0], blocks[1])) {
        if (group.thread_rank() == 0) {
            erased = tcf_backing_erase(tcf_backing_of(tcf), tcf_backing_word(place), false);
        }
        erased = group.shfl((unsigned)erased, 0) != 0;
    }
    return erased;
}
