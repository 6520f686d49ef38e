/* Windows of a sequence to keys, a tile of windows a thread block.
 *
 *   pack     16 bytes become a word of 2 bits a base, and a bit each that says whether it is one
 *   count    of the windows of each warp, those that are k-mers
 *   write    their keys, beside each other and in order; the tile's keys begin where the sums of
 *            all tiles say, or at the next free place */
#include "engine/cuda/kernels/kmer.h"

#include <cub/block/block_scan.cuh>

#define THREADS 256u
#define WARPS (THREADS / 32)
#define TILE HSPZ_CUDA_KMER_TILE
#define WARP_WINDOWS (TILE / WARPS)
#define UNIT 16u                 /* bases packed together */
#define UNITS (TILE / UNIT + 2u) /* with those that the last windows reach to */
#define SUM_THREADS 1024u
#define ALL_LANES 0xffffffffu

static_assert(HSPZ_KMER_MOST <= 2 * UNIT + 1, "a window lies in three units");

struct unit {
    uint32_t bases; /* the first one highest */
    uint32_t known; /* the first one lowest */
};

/* ---- packing ---- */

/* hspz_kmer_code of four bytes, the first one lowest; it gets the highest place. */
static __device__ __forceinline__ uint32_t
codes_of(uint32_t bytes)
{
    const uint32_t codes = (bytes >> 1 ^ bytes >> 2) & 0x03030303u;
    return codes * 0x40100401u >> 24;
}

/* Which of four bytes are bases. */
static __device__ __forceinline__ uint32_t
known_of(uint32_t bytes)
{
    const uint32_t letters = bytes & 0xdfdfdfdfu;
    const uint32_t known = __vcmpeq4(letters, 0x41414141u) | __vcmpeq4(letters, 0x43434343u) |
                           __vcmpeq4(letters, 0x47474747u) | __vcmpeq4(letters, 0x54545454u);
    return (known & 0x01010101u) * 0x01020408u >> 24;
}

static __device__ __forceinline__ struct unit
pack_unit(const struct hspz_cuda_kmers &kmers, uint64_t at)
{
    uint32_t words[UNIT / 4] = {0};
    if (at + UNIT <= kmers.len) {
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
    struct unit unit = {0, 0};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < UNIT / 4; i++) {
        unit.bases = unit.bases << 8 | codes_of(words[i]);
        unit.known |= known_of(words[i]) << i * 4;
    }
    return unit;
}

static __device__ void
pack_tile(const struct hspz_cuda_kmers &kmers, struct unit *units)
{
    for (unsigned u = threadIdx.x; u < UNITS; u += THREADS) {
        units[u] = pack_unit(kmers, (uint64_t)blockIdx.x * TILE + u * UNIT);
    }
    __syncthreads();
}

/* ---- windows ---- */

static __device__ __forceinline__ bool
is_kmer(const struct hspz_cuda_kmers &kmers, const struct unit *units, unsigned window)
{
    const struct unit *const u = units + window / UNIT;
    const uint64_t known = (uint64_t)u[2].known << 32 | u[1].known << 16 | u[0].known;
    return (uint64_t)blockIdx.x * TILE + window < kmers.windows &&
           (~(known >> window % UNIT) & (UINT64_MAX >> (64 - kmers.k))) == 0;
}

static __device__ __forceinline__ uint64_t
reverse_complement(uint64_t kmer, unsigned k)
{
    const uint64_t bits = __brevll(~kmer);
    const uint64_t bases = (bits >> 1 & 0x5555555555555555u) | (bits & 0x5555555555555555u) << 1;
    return bases >> (64 - 2 * k);
}

static __device__ __forceinline__ uint64_t
key_at(const struct hspz_cuda_kmers &kmers, const struct unit *units, unsigned window)
{
    const struct unit *const u = units + window / UNIT;
    const unsigned by = 2 * (window % UNIT);
    const uint64_t two = (uint64_t)u[0].bases << 32 | u[1].bases;
    const uint64_t forward = (two << by | (uint64_t)u[2].bases << by >> 32) >> (64 - 2 * kmers.k);
    if (!kmers.canonical) {
        return forward;
    }
    const uint64_t reverse = reverse_complement(forward, kmers.k);
    return reverse < forward ? reverse : forward;
}

/* k-mers of the warp's windows; all lanes get it. */
static __device__ uint32_t
count_warp(const struct hspz_cuda_kmers &kmers, const struct unit *units)
{
    const unsigned first = threadIdx.x / 32 * WARP_WINDOWS + threadIdx.x % 32;
    uint32_t count = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
    for (unsigned i = 0; i < WARP_WINDOWS; i += 32) {
        count += (uint32_t)__popc(__ballot_sync(ALL_LANES, is_kmer(kmers, units, first + i)));
    }
    return count;
}

/* Of each warp how many are before it; how many the tile has. */
static __device__ uint32_t
count_tile(const struct hspz_cuda_kmers &kmers, const struct unit *units, uint32_t *warps)
{
    uint32_t before = 0;
    const uint32_t mine = count_warp(kmers, units);
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = mine;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 0; w < WARPS; w++) {
            const uint32_t count = warps[w];
            warps[w] = before;
            before += count;
        }
    }
    return before; /* of thread 0 */
}

/* ---- kernels ---- */

static __global__ void
__launch_bounds__(THREADS) count_tiles(struct hspz_cuda_kmers kmers, uint64_t *starts)
{
    __shared__ struct unit units[UNITS];
    __shared__ uint32_t warps[WARPS];
    pack_tile(kmers, units);
    const uint32_t count = count_tile(kmers, units, warps);
    if (threadIdx.x == 0) {
        starts[blockIdx.x] = count;
    }
}

/* By one block. */
static __global__ void
__launch_bounds__(SUM_THREADS) sum_tiles(uint64_t *starts, uint64_t tiles)
{
    using Scan = cub::BlockScan<uint64_t, SUM_THREADS>;
    __shared__ typename Scan::TempStorage storage;
    uint64_t sum = 0;
    for (uint64_t from = 0; from < tiles; from += SUM_THREADS) {
        const uint64_t i = from + threadIdx.x;
        uint64_t before, all;
        Scan(storage).ExclusiveSum(i < tiles ? starts[i] : 0, before, all);
        if (i < tiles) {
            starts[i] = sum + before;
        }
        sum += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        starts[tiles] = sum;
    }
}

static __global__ void
__launch_bounds__(THREADS) write_keys(struct hspz_cuda_kmers kmers, struct hspz_cuda_kmer_keys out)
{
    __shared__ struct unit units[UNITS];
    __shared__ uint32_t warps[WARPS];
    __shared__ uint64_t start;
    pack_tile(kmers, units);
    const uint32_t count = count_tile(kmers, units, warps);
    if (threadIdx.x == 0) {
        start = out.starts != NULL ? out.starts[blockIdx.x] : atomicAdd(out.count, count);
    }
    __syncthreads();
    const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * WARP_WINDOWS + lane;
    uint64_t at = start + warps[threadIdx.x / 32];
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
    for (unsigned i = 0; i < WARP_WINDOWS; i += 32) {
        const unsigned window = first + i;
        const bool is = is_kmer(kmers, units, window);
        const uint32_t all = __ballot_sync(ALL_LANES, is);
        if (is) {
            const uint64_t to = at + (uint32_t)__popc(all & ((1u << lane) - 1));
            uint64_t key = key_at(kmers, units, window);
            if (out.fingerprint_bits != 0) {
                key = hspz_filter_hash(key, out.salt) >> (64 - out.fingerprint_bits)
                                                             << out.value_bits;
            }
            out.keys[to] = key;
            if (out.from != NULL) {
                out.from[to] = blockIdx.x * TILE + window;
            }
        }
        at += (uint32_t)__popc(all);
    }
}

static __global__ void
__launch_bounds__(THREADS)
    fill_keys(uint64_t *keys, const uint32_t *count, uint64_t room, uint64_t value)
{
    const uint64_t threads = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = *count + (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < room;
         i += threads) {
        keys[i] = value;
    }
}

static __global__ void
__launch_bounds__(THREADS) spread_answers(struct hspz_cuda_kmer_answers answers)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= answers.count) {
        return;
    }
    const uint32_t window = answers.from[i];
    if (answers.found != NULL) {
        answers.windows_found[window] = answers.found[i];
    }
    if (answers.yes != NULL && (answers.yes[i / 32] >> i % 32 & 1) != 0) {
        atomicOr(&answers.windows_yes[window / 32], 1u << window % 32);
    }
}

/* ---- launches ---- */

extern "C" cudaError_t
hspz_cuda_launch_kmer_starts(const struct hspz_cuda_kmers *kmers, uint64_t *starts,
                             cudaStream_t stream)
{
    const uint64_t tiles = hspz_cuda_kmer_tiles(kmers->windows);
    if (tiles > 0) {
        count_tiles<<<(unsigned)tiles, THREADS, 0, stream>>>(*kmers, starts);
    }
    sum_tiles<<<1, SUM_THREADS, 0, stream>>>(starts, tiles);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_kmer_keys(const struct hspz_cuda_kmers *kmers,
                           const struct hspz_cuda_kmer_keys *out, cudaStream_t stream)
{
    const uint64_t tiles = hspz_cuda_kmer_tiles(kmers->windows);
    if (tiles == 0) {
        return cudaSuccess;
    }
    write_keys<<<(unsigned)tiles, THREADS, 0, stream>>>(*kmers, *out);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_kmer_fill(uint64_t *keys, const uint32_t *count, uint64_t room, uint64_t value,
                           cudaStream_t stream)
{
    fill_keys<<<128, THREADS, 0, stream>>>(keys, count, room, value);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_kmer_answers(const struct hspz_cuda_kmer_answers *answers, cudaStream_t stream)
{
    if (answers->count == 0) {
        return cudaSuccess;
    }
    const unsigned grid = (unsigned)((answers->count + THREADS - 1) / THREADS);
    spread_answers<<<grid, THREADS, 0, stream>>>(*answers);
    return cudaGetLastError();
}
