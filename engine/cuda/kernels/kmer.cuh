/* Windows of a sequence as a thread block takes them, a tile each: 16 bytes become a word of 2 bits
 * a base, and a bit each that says whether it is one; a window is cut out of three such units. */
#pragma once

#include "engine/cuda/kernels/kmer.h"

#define KMER_THREADS 256u
#define KMER_UNIT 16u /* bases packed together */
#define KMER_UNITS                                                                                 \
    (HSPZ_CUDA_KMER_TILE / KMER_UNIT + 2u) /* with those that the last windows reach to */

static_assert(HSPZ_KMER_MOST <= 2 * KMER_UNIT + 1, "a window lies in three units");

struct kmer_unit {
    uint32_t bases; /* the first one highest */
    uint32_t known; /* the first one lowest */
};

/* ---- packing ---- */

/* hspz_kmer_code of four bytes, the first one lowest; it gets the highest place. */
static __device__ __forceinline__ uint32_t
kmer_codes(uint32_t bytes)
{
    const uint32_t codes = (bytes >> 1 ^ bytes >> 2) & 0x03030303u;
    return codes * 0x40100401u >> 24;
}

/* Which of four bytes are bases. */
static __device__ __forceinline__ uint32_t
kmer_known(uint32_t bytes)
{
    const uint32_t letters = bytes & 0xdfdfdfdfu;
    const uint32_t known = __vcmpeq4(letters, 0x41414141u) | __vcmpeq4(letters, 0x43434343u) |
                           __vcmpeq4(letters, 0x47474747u) | __vcmpeq4(letters, 0x54545454u);
    return (known & 0x01010101u) * 0x01020408u >> 24;
}

static __device__ __forceinline__ struct kmer_unit
kmer_pack_unit(const struct hspz_cuda_kmers &kmers, uint64_t at)
{
    uint32_t words[KMER_UNIT / 4] = {0};
    if (at + KMER_UNIT <= kmers.len) {
        const uint4 all = __ldcs((const uint4 *)(kmers.bases + at));
        words[0] = all.x;
        words[1] = all.y;
        words[2] = all.z;
        words[3] = all.w;
    } else {
        for (unsigned i = 0; at + i < kmers.len; i++) {
            words[i / 4] |= (uint32_t)kmers.bases[at + i] << i % 4 * 8;
        }
    }
    struct kmer_unit unit = {0, 0};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < KMER_UNIT / 4; i++) {
        unit.bases = unit.bases << 8 | kmer_codes(words[i]);
        unit.known |= kmer_known(words[i]) << i * 4;
    }
    return unit;
}

static __device__ void
kmer_pack_tile(const struct hspz_cuda_kmers &kmers, struct kmer_unit *units)
{
    for (unsigned u = threadIdx.x; u < KMER_UNITS; u += KMER_THREADS) {
        units[u] =
            kmer_pack_unit(kmers, (uint64_t)blockIdx.x * HSPZ_CUDA_KMER_TILE + u * KMER_UNIT);
    }
    __syncthreads();
}

/* ---- windows ---- */

static __device__ __forceinline__ bool
kmer_is(const struct hspz_cuda_kmers &kmers, const struct kmer_unit *units, unsigned window)
{
    const struct kmer_unit *const u = units + window / KMER_UNIT;
    const uint64_t known = (uint64_t)u[2].known << 32 | u[1].known << 16 | u[0].known;
    return (uint64_t)blockIdx.x * HSPZ_CUDA_KMER_TILE + window < kmers.windows &&
           (~(known >> window % KMER_UNIT) & (UINT64_MAX >> (64 - kmers.k))) == 0;
}

static __device__ __forceinline__ uint64_t
kmer_reverse(uint64_t kmer, unsigned k)
{
    const uint64_t bits = __brevll(~kmer);
    const uint64_t bases = (bits >> 1 & 0x5555555555555555u) | (bits & 0x5555555555555555u) << 1;
    return bases >> (64 - 2 * k);
}

static __device__ __forceinline__ uint64_t
kmer_key(const struct hspz_cuda_kmers &kmers, const struct kmer_unit *units, unsigned window)
{
    const struct kmer_unit *const u = units + window / KMER_UNIT;
    const unsigned by = 2 * (window % KMER_UNIT);
    const uint64_t two = (uint64_t)u[0].bases << 32 | u[1].bases;
    const uint64_t forward = (two << by | (uint64_t)u[2].bases << by >> 32) >> (64 - 2 * kmers.k);
    if (!kmers.canonical) {
        return forward;
    }
    const uint64_t reverse = kmer_reverse(forward, kmers.k);
    return reverse < forward ? reverse : forward;
}
