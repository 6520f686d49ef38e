/* Where the parts of a filter end (engine/cuda/kernels/quotient_stretch.cuh), each told by those
 * before it (engine/cuda/kernels/quotient_part.cu). */
#pragma once

#include "engine/cuda/kernels/quotient_part.cuh"

/* What a part says of itself: nothing yet; what it comes to, LENGTH_BITS each; where it ends. */
#define LENGTH_BITS 31u
#define SAYS_LENGTH (UINT64_C(1) << 62)
#define SAYS_END (UINT64_C(2) << 62)
#define SAID (SAYS_LENGTH - 1)

static __device__ __forceinline__ struct state
of_lane(struct state mine, unsigned lane)
{
    struct state other;
    other.length = __shfl_sync(UINT32_MAX, mine.length, (int)(lane % 32));
    other.least = __shfl_sync(UINT32_MAX, mine.least, (int)(lane % 32));
    return other;
}

/* ---- looking back ---- */

/* Where the parts before this one end; by one warp, when this part has said its length. */
static __device__ uint64_t
look_back(const volatile uint64_t *words, uint64_t part)
{
    const unsigned lane = threadIdx.x % 32;
    struct state upto = {0, 0};
    for (uint64_t behind_it = part;; behind_it -= 32) {
        const bool is_part = behind_it > lane;
        const uint64_t other = is_part ? behind_it - lane - 1 : 0;
        uint64_t word;
        do {
            word = is_part ? words[other] : SAYS_END;
        } while (__ballot_sync(UINT32_MAX, word <= SAID) != 0);
        const uint32_t ends = __ballot_sync(UINT32_MAX, word >= SAYS_END);
        const unsigned last = ends != 0 ? (unsigned)__ffs((int)ends) - 1 : 32;
        const uint64_t said = word & SAID;
        struct state mine = {0, 0};
        if (lane == last) {
            mine = {0, said};
        } else if (lane < last && said != 0) {
            mine = {said & ((UINT64_C(1) << LENGTH_BITS) - 1),
                    other * PART + (said >> LENGTH_BITS)};
        }
        for (unsigned by = 1; by < 32; by *= 2) {
            const struct state older = of_lane(mine, lane + by);
            if (lane + by < 32) {
                mine = behind(older, mine);
            }
        }
        upto = behind(of_lane(mine, 0), upto);
        if (last < 32) {
            return upto.least;
        }
    }
}

/* By one warp. */
template <typename S>
static __device__ __forceinline__ void
place_part(const struct change<S> &c, struct state all, volatile uint64_t *words, uint64_t parts,
           struct hspz_cuda_quotient_tally *tally, struct part_shared<S> &t)
{
    const uint64_t part = t.part;
    if (all.least >> LENGTH_BITS != 0) {
        all = {0, 0};
        tally->crowded = 1;
    }
    if (threadIdx.x == 0 && part > 0) {
        words[part] = SAYS_LENGTH | all.least << LENGTH_BITS | all.length;
    }
    const uint64_t before = part > 0 ? look_back(words, part) : 0;
    if (threadIdx.x == 0) {
        const uint64_t end =
            all.length > 0 ? quotient_later(before + all.length, c.base + all.least) : before;
        words[part] = SAYS_END | end;
        t.before = before;
        t.end = end;
        if (all.length > 0) {
            atomicAdd(&tally->used, (unsigned long long)all.length);
        }
        if (part + 1 == parts) {
            tally->end = end;
        }
    }
}
