/* Window starts masked by a filter on the device (engine/seed_mask.h): the keys of their k-mers,
 * and what the filter's answers leave of them. */
#include "engine/cuda/kernels/bases.cuh"

#define THREADS BASES_THREADS
#define STARTS (BASES_TILE / THREADS) /* per thread, THREADS apart */

/* Bits of a half word to the even places of a word. */
static __device__ __forceinline__ uint64_t
spread(uint64_t bits)
{
    bits = (bits | bits << 16) & 0x0000ffff0000ffffull;
    bits = (bits | bits << 8) & 0x00ff00ff00ff00ffull;
    bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0full;
    bits = (bits | bits << 2) & 0x3333333333333333ull;
    return (bits | bits << 1) & 0x5555555555555555ull;
}

/* The key that engine/kmer.h gives the k bases from `offset` on. */
static __device__ __forceinline__ uint64_t
key_at(const struct bases_tile &tile, uint32_t offset, uint32_t k, bool canonical)
{
    const uint64_t some = UINT64_MAX >> (64 - k);
    const uint64_t low = bases_bits(tile.low, offset) & some;
    const uint64_t high = bases_bits(tile.high, offset) & some;
    const uint64_t key = spread(__brevll(low) >> (64 - k)) | spread(__brevll(high) >> (64 - k))
                                                                 << 1;
    const uint64_t other = spread(low ^ some) | spread(high ^ some) << 1;
    return canonical && other < key ? other : key;
}

static __global__ void
__launch_bounds__(THREADS) mask_keys(struct hspz_cuda_query query, uint32_t k, bool canonical,
                                     uint64_t *keys, uint32_t *masked)
{
    __shared__ struct bases_tile tile;
    const uint64_t begin = (uint64_t)blockIdx.x * BASES_TILE;
    uint8_t bytes[BASES_LOADS];
    bases_load(query.bases, query.bases_len, begin, query.minus, bytes);
    bases_pack(bytes, query.minus, true, &tile);
#pragma unroll
    for (uint32_t u = 0; u < STARTS; u++) {
        const uint32_t offset = u * THREADS + threadIdx.x;
        const uint64_t start = begin + offset;
        const bool valid = start < query.positions && bases_valid(tile, offset, k);
        const uint32_t word = __ballot_sync(HSPZ_FULL_WARP, valid);
        if (start < query.positions) {
            keys[start] = valid ? key_at(tile, offset, k, canonical) : 0;
            if (start % 32 == 0) {
                masked[start / 32] = word;
            }
        }
    }
}

static __global__ void
__launch_bounds__(THREADS) mask_settle(const uint32_t *yes, const uint64_t *found, uint64_t above,
                                       uint64_t count, uint32_t *masked)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    bool more = false;
    if (i < count) {
        more = found != NULL ? found[i] > above : yes[i / 32] >> (i % 32) & 1;
    }
    const uint32_t word = __ballot_sync(HSPZ_FULL_WARP, more);
    if (i < count && i % 32 == 0) {
        masked[i / 32] &= word;
    }
}

extern "C" cudaError_t
hspz_cuda_launch_mask_keys(const struct hspz_cuda_query *query, uint32_t k, bool canonical,
                           uint64_t *keys, uint32_t *masked, cudaStream_t stream)
{
    const unsigned grid = (unsigned)((query->positions + BASES_TILE - 1) / BASES_TILE);
    if (grid == 0) {
        return cudaSuccess;
    }
    mask_keys<<<grid, THREADS, 0, stream>>>(*query, k, canonical, keys, masked);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_mask_settle(const uint32_t *yes, const uint64_t *found, uint64_t above,
                             uint64_t count, uint32_t *masked, cudaStream_t stream)
{
    const unsigned grid = (unsigned)((count + THREADS - 1) / THREADS);
    if (grid == 0) {
        return cudaSuccess;
    }
    mask_settle<<<grid, THREADS, 0, stream>>>(yes, found, above, count, masked);
    return cudaGetLastError();
}
