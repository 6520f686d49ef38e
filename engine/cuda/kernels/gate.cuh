/* What settles most anchors, one thread each.
 *
 *   gate        extends both sides no further than it must to know whether their total is too low
 *   redundant   finds an earlier hit that extends to the very same HSP
 *
 * Redundancy. Let a < a' be hits of one diagonal, and the left side of a' reach a without an
 * X-drop, with a sum at a that is above all before it (0 included), which are all above 0. Write
 * L(x) for that side's sum down to x. The right side of a has at k the sum L(a) - L(k + 1): above 0
 * and, before a' - 1, below L(a). Its drop from an earlier j is L(k + 1) - L(j + 1), which the left
 * side of a' passed too (its best at j + 1 is at least L(k + 1)); so it reaches a' - 1, with a new
 * best there, and goes on as the right side of a' does, L(a) higher. The left side of a' goes on
 * from a as that of a does, L(a) higher. Both bests are where they are for a, and their total is
 * the same: L(a) comes once to each of the two.
 *
 * So a' can be dropped when a is a hit of the same job or chunk, whether or not a is dropped for a
 * still earlier one. Whether it is shows from the sequences alone. */
#pragma once

#include "engine/cuda/kernels/packed.cuh"

/* Bases of a side after which the gate leaves an anchor undecided: sums then fit 32 bits. */
#define GATE_BASES 512u
/* How far back an earlier hit is looked for. */
#define GATE_REACH 64u

/* The best sum of a side; *open when it may not be all: it is `enough`, or the side is long. */
HSPZ_DEVICE static inline int32_t
gate_side(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q, bool right,
          const int32_t *pair, int32_t xdrop, int32_t enough, bool *open)
{
    struct packed_reader x = packed_open(ref, r), y = packed_open(query, q);
    int32_t sum = 0, best = 0;
    *open = true;
    for (uint32_t done = 0; done < GATE_BASES && best < enough; done += HSPZ_PACKED_WORD) {
        const uint64_t from = packed_take(&x, right);
        const struct packed_pairs pairs = packed_pair(from, packed_take(&y, right));
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (unsigned k = 0; k < HSPZ_PACKED_WORD; k++) {
            sum += pair[packed_index(pairs, right ? k : HSPZ_PACKED_WORD - 1 - k)];
            best = sum > best ? sum : best;
            if (best - sum > xdrop) {
                *open = false;
                return best;
            }
        }
    }
    return best;
}

/* False when the anchor at these places certainly does not pass. */
HSPZ_DEVICE static inline bool
gate_passes(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q, const int32_t *pair,
            int32_t xdrop, int32_t enough)
{
    bool open;
    const int32_t left = gate_side(ref, r, query, q, false, pair, xdrop, enough, &open);
    if (open || left >= enough) {
        return true;
    }
    const int32_t right = gate_side(ref, r, query, q, true, pair, xdrop, enough - left, &open);
    return open || left + right >= enough;
}

/* A bit for each of sixteen nibbles, from its lowest bit. */
HSPZ_DEVICE static inline uint64_t
gate_gather(uint64_t bits)
{
    bits &= UINT64_C(0x1111111111111111);
    bits = (bits | bits >> 3) & UINT64_C(0x0303030303030303);
    bits = (bits | bits >> 6) & UINT64_C(0x000f000f000f000f);
    bits = (bits | bits >> 12) & UINT64_C(0x000000ff000000ff);
    return (bits | bits >> 24) & 0xffff;
}

/* Of the bases before an anchor, the last one in bit 127 (bit 63 of [1]). */
struct gate_planes {
    uint64_t other[2];    /* codes differ */
    uint64_t far[2];      /* by more than a transition */
    uint64_t seedless[2]; /* either has none */
};

HSPZ_DEVICE static inline struct gate_planes
gate_planes_before(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q)
{
    struct gate_planes planes = {{0, 0}, {0, 0}, {0, 0}};
    struct packed_reader above = packed_open(ref, r - 128), below = packed_open(query, q - 128);
    for (unsigned w = 0; w < 8; w++) {
        const uint64_t x = packed_take(&above, true), y = packed_take(&below, true);
        const uint64_t differ = x ^ y;
        const unsigned shift = w % 4 * 16;
        planes.other[w / 4] |= gate_gather(differ | differ >> 1) << shift;
        planes.far[w / 4] |= gate_gather(differ) << shift;
        planes.seedless[w / 4] |= gate_gather((x | y) >> 2) << shift;
    }
    return planes;
}

/* Bit 63 - i: the window that ends i + 1 bases earlier, offset c of it at bit `from` + c of the
 * 128.
 */
HSPZ_DEVICE static inline uint64_t
gate_shifted(const uint64_t plane[2], unsigned by)
{
    return plane[0] >> by | plane[1] << 1 << (63 - by);
}

/* Bit 63 - i: the window that ends i + 1 bases before the anchor is a hit. */
HSPZ_DEVICE static inline uint64_t
gate_hits_before(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q,
                 const struct hspz_packed_seeds *seeds)
{
    const struct gate_planes planes = gate_planes_before(ref, r, query, q);
    const unsigned from = GATE_REACH - seeds->span;
    uint64_t bad = 0, one = 0, two = 0, three = 0; /* so many positions differ, or more */
    if ((planes.seedless[0] | planes.seedless[1]) != 0) {
        for (unsigned c = 0; c < seeds->span; c++) {
            bad |= gate_shifted(planes.seedless, from + c);
        }
    }
    for (unsigned c = 0; c < seeds->span; c++) {
        if ((seeds->care >> c & 1) != 0) {
            const uint64_t other = gate_shifted(planes.other, from + c);
            three |= two & other;
            two |= one & other;
            one |= other;
            bad |= gate_shifted(planes.far, from + c);
        }
    }
    const uint64_t many = seeds->transitions >= 2 ? three : seeds->transitions == 1 ? two : one;
    return ~bad & ~many & seeds->before;
}

/* Of those hits, as many as lie within the index and the query's windows. r and q are places. */
HSPZ_DEVICE static inline uint64_t
gate_earlier_hits(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q,
                  const struct hspz_packed_seeds *seeds)
{
    const uint64_t least_r = (uint64_t)seeds->first_ref + seeds->span + HSPZ_PACKED_PAD;
    const uint64_t least_q = (uint64_t)seeds->first_query + seeds->span + HSPZ_PACKED_PAD;
    if (!seeds->known || r <= least_r || q <= least_q) {
        return 0;
    }
    const uint64_t most = r - least_r < q - least_q ? r - least_r : q - least_q;
    const uint64_t hits = gate_hits_before(ref, r, query, q, seeds);
    return most < GATE_REACH ? hits & ~(UINT64_MAX >> most) : hits;
}

/* Whether an earlier hit extends to the same HSP. */
HSPZ_DEVICE static inline bool
gate_redundant(const uint64_t *ref, uint64_t r, const uint64_t *query, uint64_t q,
               const int32_t *pair, int32_t xdrop, const struct hspz_packed_seeds *seeds)
{
    uint64_t hits = gate_earlier_hits(ref, r, query, q, seeds);
    struct packed_reader x = packed_open(ref, r), y = packed_open(query, q);
    int32_t sum = 0, best = 0;
    struct packed_pairs pairs = {0, 0};
    for (uint32_t i = 0; hits != 0; i++, hits <<= 1) {
        if (i % HSPZ_PACKED_WORD == 0) {
            const uint64_t from = packed_take(&x, false);
            pairs = packed_pair(from, packed_take(&y, false));
        }
        sum += pair[packed_index(pairs, HSPZ_PACKED_WORD - 1 - i % HSPZ_PACKED_WORD)];
        if (sum <= 0 || best - sum > xdrop) {
            return false;
        }
        if (sum > best) {
            best = sum;
            if (hits >> 63 != 0) {
                return true;
            }
        }
    }
    return false;
}
