/* Bases in shared memory, for kernels that make words of windows (SPEC section 1).
 *
 * A block of BASES_THREADS looks at the windows that start at BASES_TILE neighbouring positions. A
 * base is three bits, 32 bases to a word: low and high bit of the code, and whether there is none.
 * A window is then 64 bits of each, from two shifts. */
#pragma once

#include "engine/cuda/kernels/lookup.cuh"

#define BASES_TILE HSPZ_CUDA_SEED_BLOCK
#define BASES_SLICES (BASES_TILE / 32 + 3) /* words of 32 bases, 64 bases of reach */
#define BASES_THREADS 256u
#define BASES_LOADS ((BASES_SLICES * 32 + BASES_THREADS - 1) / BASES_THREADS)

struct bases_tile {
    uint32_t low[BASES_SLICES], high[BASES_SLICES], none[BASES_SLICES];
};

/* Code of a base, 4 for a byte that has none. */
static __device__ __forceinline__ uint32_t
bases_code(uint32_t byte, bool unmask)
{
    const uint32_t upper = unmask ? byte & 0xdfu : byte;
    const uint32_t letter = upper - 'A';
    const uint32_t acgt = 1u << 0 | 1u << ('C' - 'A') | 1u << ('G' - 'A') | 1u << ('T' - 'A');
    const bool valid = letter < 32 && (acgt >> letter & 1) != 0;
    return valid ? (upper >> 1 ^ upper >> 2) & 3 : 4;
}

/* A thread's bytes of the bases from `begin` on, or with `minus` from the end backwards, all in
 * flight before any is looked at; zero past `len`. */
static __device__ __forceinline__ void
bases_load(const uint8_t *bases, uint64_t len, uint64_t begin, bool minus,
           uint8_t (&bytes)[BASES_LOADS])
{
#pragma unroll
    for (uint32_t u = 0; u < BASES_LOADS; u++) {
        const uint32_t i = u * BASES_THREADS + threadIdx.x;
        const uint64_t at = begin + i;
        bytes[u] = 0;
        if (i < BASES_SLICES * 32 && at < len) {
            bytes[u] = bases[minus ? len - 1 - at : at];
        }
    }
}

/* All threads of the block call it. */
static __device__ __forceinline__ void
bases_pack(const uint8_t (&bytes)[BASES_LOADS], bool minus, bool unmask, struct bases_tile *tile)
{
#pragma unroll
    for (uint32_t u = 0; u < BASES_LOADS; u++) {
        const uint32_t i = u * BASES_THREADS + threadIdx.x;
        if (i < BASES_SLICES * 32) { /* the same for a whole warp */
            const uint32_t code = bases_code(bytes[u], unmask) ^ (minus ? 3 : 0);
            const uint32_t low = __ballot_sync(HSPZ_FULL_WARP, (code & 1) != 0);
            const uint32_t high = __ballot_sync(HSPZ_FULL_WARP, (code & 2) != 0);
            const uint32_t none = __ballot_sync(HSPZ_FULL_WARP, (code & 4) != 0);
            if ((i & 31) == 0) {
                tile->low[i / 32] = low;
                tile->high[i / 32] = high;
                tile->none[i / 32] = none;
            }
        }
    }
    __syncthreads();
}

/* 64 bits from bit `at`. */
static __device__ __forceinline__ uint64_t
bases_bits(const uint32_t *bits, uint32_t at)
{
    const uint32_t *word = bits + at / 32;
    const uint32_t low = __funnelshift_r(word[0], word[1], at & 31);
    const uint32_t high = __funnelshift_r(word[1], word[2], at & 31);
    return (uint64_t)high << 32 | low;
}

/* Whether every base of the window has a code. */
static __device__ __forceinline__ bool
bases_valid(const struct bases_tile &tile, uint32_t offset, uint32_t span)
{
    return (bases_bits(tile.none, offset) & UINT64_MAX >> (64 - span)) == 0;
}

/* Words of N neighbouring windows. Bit c of `care`: offset c of a window is a care position. */
template <uint32_t N>
static __device__ __forceinline__ void
bases_words(const struct bases_tile &tile, uint32_t offset, uint64_t care, uint32_t (&words)[N])
{
    uint64_t low[N], high[N];
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        low[u] = bases_bits(tile.low, offset + u);
        high[u] = bases_bits(tile.high, offset + u);
        words[u] = 0;
    }
    for (uint64_t rest = care; rest != 0; rest &= rest - 1) {
        const int c = __ffsll((long long)rest) - 1;
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            words[u] =
                words[u] << 2 | (uint32_t)(high[u] >> c & 1) << 1 | (uint32_t)(low[u] >> c & 1);
        }
    }
}

static __device__ __forceinline__ uint32_t
bases_word(const struct bases_tile &tile, uint32_t offset, uint64_t care)
{
    uint32_t words[1];
    bases_words(tile, offset, care, words);
    return words[0];
}
