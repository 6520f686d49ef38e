/* Where the buckets of words are: N look-ups of one thread, in flight together. */
#pragma once

#include "engine/cuda/kernels/lookup.cuh"

enum lookup { LOOKUP_WORDS, LOOKUP_PRESENT_WORDS, LOOKUP_GROUPS };

template <uint32_t N> struct buckets {
    uint32_t word[N];
    bool look[N];
    uint32_t begin[N], size[N]; /* size 0 where not to be looked up */
};

template <uint32_t N>
static __device__ __forceinline__ void
keep_present(const struct hspz_cuda_index &index, struct buckets<N> *b)
{
    uint32_t bits[N];
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        bits[u] = b->look[u] ? __ldg(&index.present[b->word[u] >> 5]) : 0;
    }
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        b->look[u] = bits[u] >> (b->word[u] & 31) & 1;
    }
}

/* Two loads of four bytes each. */
template <uint32_t N>
static __device__ __forceinline__ void
find_by_words(const struct hspz_cuda_index &index, struct buckets<N> *b)
{
    uint32_t end[N];
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        const uint32_t w = b->word[u];
        end[u] = b->look[u] ? __ldg(&index.table[w]) : 0;
        b->begin[u] = b->look[u] && w != 0 ? __ldg(&index.table[w - 1]) : 0;
    }
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        b->size[u] = end[u] - b->begin[u];
    }
}

/* One load of 16 bytes; of the table only for buckets at or after one that a byte does not hold. */
template <uint32_t N>
static __device__ __forceinline__ void
find_by_groups(const struct hspz_cuda_index &index, struct buckets<N> *b)
{
    uint4 group[N];
    bool cut[N], any = false;
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        group[u] = b->look[u]
                       ? __ldg((const uint4 *)index.groups + b->word[u] / HSPZ_CUDA_GROUP_WORDS)
                       : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (uint32_t u = 0; u < N; u++) {
        const uint4 g = group[u];
        const uint32_t i = b->word[u] % HSPZ_CUDA_GROUP_WORDS;
        const uint32_t here = i < 4 ? g.y : i < 8 ? g.z : g.w;
        const uint32_t shift = 8 * (i % 4);
        uint32_t begin = __dp4a(here & ((1u << shift) - 1), 0x01010101u, g.x);
        begin = i >= 4 ? __dp4a(g.y, 0x01010101u, begin) : begin;
        b->begin[u] = i >= 8 ? __dp4a(g.z, 0x01010101u, begin) : begin;
        b->size[u] = here >> shift & 0xff;
        cut[u] = b->size[u] == HSPZ_CUDA_GROUP_CUT;
        any = any || cut[u];
    }
    if (any) {
        struct buckets<N> rest;
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            rest.word[u] = b->word[u];
            rest.look[u] = cut[u];
        }
        find_by_words(index, &rest);
#pragma unroll
        for (uint32_t u = 0; u < N; u++) {
            b->begin[u] = cut[u] ? rest.begin[u] : b->begin[u];
            b->size[u] = cut[u] ? rest.size[u] : b->size[u];
        }
    }
}

template <enum lookup LOOKUP, uint32_t N>
static __device__ __forceinline__ void
find_buckets(const struct hspz_cuda_index &index, struct buckets<N> *b)
{
    if (LOOKUP == LOOKUP_GROUPS) {
        find_by_groups(index, b);
        return;
    }
    if (LOOKUP == LOOKUP_PRESENT_WORDS) {
        keep_present(index, b);
    }
    find_by_words(index, b);
}
