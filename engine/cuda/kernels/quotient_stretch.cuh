/* What the kernels that write a filter's slots stretch by stretch share (quotient_part.cu: parts,
 * quotient_tile.cu: tiles): marks as words, and where a stretch ends, which depends on all before
 * it: each brings max(e + length, least). */
#pragma once

#include "engine/cuda/kernels/quotient.cuh"

#define BLOCK_WORDS 8u /* of marks of a block, of 32; the first half is of occupied ones */

/* ---- marks ---- */

/* A word of runend bits; `word` counts them from the first slot. */
static __device__ __forceinline__ uint32_t
end_word(const struct hspz_cuda_quotient &q, uint64_t word)
{
    const uint64_t block = word / (BLOCK_WORDS / 2);
    return block >= hspz_cuda_quotient_blocks(q.slots)
               ? 0
               : ((const uint32_t *)
                      q.marks)[block * BLOCK_WORDS + BLOCK_WORDS / 2 + word % (BLOCK_WORDS / 2)];
}

/* By all threads of the block: marks of a stretch from quotient and slot `base` on. Runs may end in
 * slots that the next stretch marks, too. */
template <unsigned THREAD_COUNT, unsigned OCCUPIED_WORDS, unsigned END_COUNT>
static __device__ __forceinline__ void
write_marks(const struct hspz_cuda_quotient &made, uint64_t base,
            const uint32_t (&occupied)[OCCUPIED_WORDS], const uint32_t (&ends)[END_COUNT])
{
    uint32_t *const marks = (uint32_t *)made.marks + base / HSPZ_CUDA_QUOTIENT_BLOCK * BLOCK_WORDS;
    for (unsigned i = threadIdx.x; i < OCCUPIED_WORDS; i += THREAD_COUNT) {
        if (occupied[i] != 0) {
            marks[i / (BLOCK_WORDS / 2) * BLOCK_WORDS + i % (BLOCK_WORDS / 2)] = occupied[i];
        }
    }
    for (unsigned i = threadIdx.x; i < END_COUNT; i += THREAD_COUNT) {
        if (ends[i] != 0) {
            atomicOr(&marks[i / (BLOCK_WORDS / 2) * BLOCK_WORDS + BLOCK_WORDS / 2 +
                            i % (BLOCK_WORDS / 2)],
                     ends[i]);
        }
    }
}

/* ---- where stretches end ---- */

struct state {
    uint64_t length, least;
};

/* `f` behind `g`. */
static __device__ __forceinline__ struct state
behind(struct state g, struct state f)
{
    return {g.length + f.length, quotient_later(g.least + f.length, f.least)};
}

static __device__ __forceinline__ struct state
from_lane(struct state mine, unsigned by)
{
    struct state other;
    other.length = __shfl_up_sync(UINT32_MAX, mine.length, by);
    other.least = __shfl_up_sync(UINT32_MAX, mine.least, by);
    return other;
}

/* What is before the thread; *all gets the whole stretch. lengths, leasts: one of each warp. */
template <unsigned WARP_COUNT>
static __device__ __forceinline__ struct state
scan_threads(struct state mine, uint64_t (&lengths)[WARP_COUNT], uint64_t (&leasts)[WARP_COUNT],
             struct state *all)
{
    const unsigned lane = threadIdx.x % 32;
    for (unsigned by = 1; by < 32; by *= 2) {
        const struct state other = from_lane(mine, by);
        if (lane >= by) {
            mine = behind(other, mine);
        }
    }
    if (lane == 31) {
        lengths[threadIdx.x / 32] = mine.length;
        leasts[threadIdx.x / 32] = mine.least;
    }
    struct state before = from_lane(mine, 1);
    if (lane == 0) {
        before = {0, 0};
    }
    __syncthreads();
    struct state warps = {0, 0}, upto = {0, 0};
    for (unsigned w = 0; w < WARP_COUNT; w++) {
        warps = w == threadIdx.x / 32 ? upto : warps;
        upto = behind(upto, {lengths[w], leasts[w]});
    }
    *all = upto;
    return behind(warps, before);
}
