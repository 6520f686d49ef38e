/* A side of an extension in strides of STRIDE_BASES, 32 lanes with eight neighbouring bases each.
 *
 *   load    a lane's pairs
 *   sums    its sums after each base, as if nothing came before it; their peak; all of it
 *   look    with what came before: where it drops, where its best is
 *   join    what the lanes found, in order, moves the side on
 *
 * Between sums and look stand two scans over the lanes, the sums' (exclusive) and then that of the
 * highest (sum before + peak) of the lanes before. Lanes behind the first that drops hold nonsense,
 * and are not looked at: a separator makes its lane drop. */
#pragma once

#include "engine/cuda/kernels/packed.cuh"

#define STRIDE_LANES 32u
#define STRIDE_LANE 8u
#define STRIDE_BASES (STRIDE_LANES * STRIDE_LANE)

struct stride_sums {
    int32_t after[STRIDE_LANE];
    int32_t peak;
};

/* The pairs of lane `lane`, its first one in bytes 0 of `even`; on the left side those are read
 * backwards. r and q are where the stride begins. */
HSPZ_DEVICE static inline struct packed_pairs
stride_load(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q, bool right,
            unsigned lane)
{
    const uint64_t from = (uint64_t)lane * STRIDE_LANE;
    return right ? packed_pair(packed_bases(ref, r + from), packed_bases(query, q + from))
                 : packed_pair(packed_bases(ref, r - from - STRIDE_LANE),
                               packed_bases(query, q - from - STRIDE_LANE));
}

HSPZ_DEVICE static inline struct stride_sums
stride_sum(struct packed_pairs pairs, bool right, const int32_t *pair)
{
    struct stride_sums sums;
    int32_t sum = 0;
    sums.peak = INT32_MIN;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned k = 0; k < STRIDE_LANE; k++) {
        const int32_t score = pair[packed_index(pairs, right ? k : STRIDE_LANE - 1 - k)];
        /* One separator is enough, and two might not fit. */
        sum = sum < HSPZ_PACKED_STOP / 2 ? sum : sum + score;
        sums.after[k] = sum;
        sums.peak = sum > sums.peak ? sum : sums.peak;
    }
    return sums;
}

struct stride_look {
    int32_t best;
    uint32_t best_bases; /* of the lane's, up to a new best; 0: there is none */
    bool dropped;
};

/* `before`: the sum of the lanes before; `best`: the side's best up to them. Both count from the
 * side's sum as the stride begins. */
HSPZ_DEVICE static inline struct stride_look
stride_look(const struct stride_sums *sums, int32_t before, int32_t best, int32_t xdrop)
{
    struct stride_look look = {best, 0, false};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned k = 0; k < STRIDE_LANE; k++) {
        const int32_t sum = (int32_t)((uint32_t)before + (uint32_t)sums->after[k]);
        if (!look.dropped && sum > look.best) {
            look.best = sum;
            look.best_bases = k + 1;
        }
        look.dropped = look.dropped || look.best - sum > xdrop;
    }
    return look;
}

/* The side's best, as the first lane of a stride gets it. */
HSPZ_DEVICE static inline int32_t
stride_best(const struct hspz_extend_side *side)
{
    return (int32_t)(side->best - side->sum);
}

/* The last lane that counts and has a new best, or -1. */
HSPZ_DEVICE static inline int
stride_winner(uint32_t dropped, uint32_t improved)
{
    /* Up to the first that dropped. */
    const uint32_t counting = dropped ^ (dropped - 1);
    const uint32_t winners = improved & counting;
#ifdef __CUDA_ARCH__
    return 31 - __clz((int)winners);
#else
    return winners == 0 ? -1 : 31 - __builtin_clz(winners);
#endif
}

/* Moves the side on by a stride that came to `sum`: `best` and `bases` are the winner's. False when
 * a lane dropped. */
HSPZ_DEVICE static inline bool
stride_join(struct hspz_extend_side *side, int winner, int32_t best, uint32_t bases, int32_t sum,
            uint32_t dropped)
{
    if (winner >= 0) {
        side->best = side->sum + best;
        side->best_bases = side->bases + (uint32_t)winner * STRIDE_LANE + bases;
    }
    side->sum += sum;
    side->bases += STRIDE_BASES;
    return dropped == 0;
}

/* Bases that match among the `count` (up to 16) from a place on, by base. */
HSPZ_DEVICE static inline void
stride_matches(uint64_t ref, uint64_t query, unsigned count, uint32_t matches[4])
{
    const uint64_t ones = UINT64_C(0x1111111111111111);
    const uint64_t wanted =
        count >= HSPZ_PACKED_WORD ? ones : ones & ((UINT64_C(1) << 4 * count) - 1);
    const uint64_t differ = ref ^ query;
    const uint64_t same = ~(differ | differ >> 1 | differ >> 2 | ref >> 2);
    for (unsigned base = 0; base < 4; base++) {
        const uint64_t low = (base & 1) != 0 ? ref : ~ref;
        const uint64_t high = (base & 2) != 0 ? ref >> 1 : ~ref >> 1;
        const uint64_t bits = same & wanted & low & high;
#ifdef __CUDA_ARCH__
        matches[base] += (uint32_t)__popcll((long long)bits);
#else
        matches[base] += (uint32_t)__builtin_popcountll(bits);
#endif
    }
}
