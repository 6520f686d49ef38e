/* Bloom and blocked Bloom filters: calls on arrays of keys. */
#include "engine/cuda/kernels/filter_bloom.cuh"

#include "engine/cuda/kernels/filter.cuh"

#define BLOCKED_LANES 4u /* that insert a key: 64 bits of its block each */
#define CHUNK_WORDS (HSPZ_CUDA_FILTER_CHUNK / 32)

/* BLOCKED_LANES neighbours insert their keys one after the other, so that a key's words go out
 * together. */
static __device__ __forceinline__ void
insert_together(const struct hspz_cuda_bloom &bloom, uint64_t key, bool mine)
{
    const uint64_t hash = hspz_filter_hash(key, bloom.salt);
    const uint32_t lane = threadIdx.x & 31, part = lane % BLOCKED_LANES;
    const uint32_t wanted = __ballot_sync(FILTER_FULL_WARP, mine);
#pragma unroll
    for (uint32_t turn = 0; turn < BLOCKED_LANES; turn++) {
        const uint32_t from = lane - part + turn;
        const uint64_t its = __shfl_sync(FILTER_FULL_WARP, hash, (int)from);
        const uint64_t second = hspz_bloom_second(its);
        const unsigned long long mask =
            (unsigned long long)blocked_mask(second, 2 * part + 1, bloom.hashes) << 32 |
            blocked_mask(second, 2 * part, bloom.hashes);
        if ((wanted >> from & 1) != 0 && mask != 0) {
            atomicOr((unsigned long long *)bloom.bits +
                         BLOCKED_LANES * hspz_filter_scale(its, bloom.blocks) + part,
                     mask);
        }
    }
}

template <bool BLOCKED>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    bloom_insert(struct hspz_cuda_bloom bloom, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    const uint64_t key = i < call.count ? filter_key(call, i) : 0;
    bool yes = i < call.count;
    if (call.op == HSPZ_FILTER_INSERT_IF_ABSENT) {
        yes = yes && hspz_bloom_insert_if_absent<BLOCKED>(bloom, key);
    } else if (BLOCKED) {
        insert_together(bloom, key, yes);
    } else if (yes) {
        hspz_bloom_insert(bloom, key);
    }
    if (i < call.count && call.found != NULL) {
        call.found[i] = 0;
    }
    filter_answer(call, bloom.counts, i, yes, 1);
}

/* While nothing writes to the filter: the second half of a block then comes with the first, as both
 * wait for one sector in the nearest cache. */
static __device__ __forceinline__ bool
query_alone(const struct hspz_cuda_bloom &bloom, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, bloom.salt);
    const uint4 *at = blocked_at(bloom, hash);
    return blocked_has(bloom, hash, __ldca(at), __ldca(at + 1));
}

template <bool BLOCKED>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    bloom_query(struct hspz_cuda_bloom bloom, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    bool yes = false;
    if (i < call.count) {
        const uint64_t key = filter_key(call, i);
        yes = BLOCKED ? query_alone(bloom, key) : hspz_bloom_query(bloom, key);
        if (call.found != NULL) {
            call.found[i] = 0;
        }
    }
    filter_answer(call, bloom.counts, i, yes, 0);
}

/* ---- keys by region ---- */

static __global__ void
__launch_bounds__(FILTER_THREADS)
    bloom_places(struct hspz_cuda_bloom bloom, struct hspz_cuda_filter_call call, uint32_t *out)
{
    const uint64_t i = filter_index();
    if (i < call.count) {
        const uint64_t hash = hspz_filter_hash(filter_key(call, i), bloom.salt);
        const uint64_t second = hspz_bloom_second(hash);
        for (unsigned k = 0; k < bloom.hashes; k++) {
            out[k * call.count + i] = (uint32_t)hspz_bloom_bit(hash, second, k, bloom.slots);
        }
    }
}

/* A thread block a region: its bits to shared memory, the keys' bits in, and back. */
static __global__ void
__launch_bounds__(REGION_THREADS)
    bloom_fill(struct hspz_cuda_bloom bloom, struct hspz_cuda_filter_sorted sorted)
{
    __shared__ __align__(16) uint32_t bits[HSPZ_CUDA_FILTER_REGION_BYTES / sizeof(uint32_t)];
    const uint32_t *places = (const uint32_t *)sorted.data[0];
    const uint32_t begin = sorted.starts[blockIdx.x], end = sorted.starts[blockIdx.x + 1];
    const uint64_t first = ((uint64_t)blockIdx.x << sorted.shift) / 32;
    const uint64_t left = bloom.words - first, most = (1ull << sorted.shift) / 32;
    const uint32_t words = (uint32_t)(left < most ? left : most);
    if (begin == end) {
        return;
    }
    for (uint32_t w = threadIdx.x; w < words; w += REGION_THREADS) {
        bits[w] = bloom.bits[first + w];
    }
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += REGION_THREADS) {
        const uint32_t bit = places[i] & ((1u << sorted.shift) - 1);
        atomicOr(&bits[bit / 32], 1u << bit % 32);
    }
    __syncthreads();
    for (uint32_t w = threadIdx.x; w < words; w += REGION_THREADS) {
        bloom.bits[first + w] = bits[w];
    }
}

static __global__ void
__launch_bounds__(REGION_THREADS)
    blocked_fill(struct hspz_cuda_bloom bloom, struct hspz_cuda_filter_sorted sorted)
{
    __shared__ __align__(16) uint32_t bits[HSPZ_CUDA_FILTER_REGION_BYTES / sizeof(uint32_t)];
    const uint64_t *hashes = (const uint64_t *)sorted.data[0];
    const filter_region region = filter_region_of(sorted, blockIdx.x, bloom.blocks);
    if (region.begin_key == region.end_key) {
        return;
    }
    const uint32_t quads = (uint32_t)(region.end - region.first) * (BLOCKED_WORDS / 4);
    uint4 *const own = (uint4 *)bloom.bits + region.first * (BLOCKED_WORDS / 4);
    filter_move((uint4 *)bits, own, quads);
    __syncthreads();
    for (uint32_t i = region.begin_key + threadIdx.x; i < region.end_key; i += REGION_THREADS) {
        const uint64_t hash = hashes[i], second = hspz_bloom_second(hash);
        const uint64_t block = hspz_filter_scale(hash, bloom.blocks);
        if (block < region.first || block >= region.end) {
            blocked_insert_hash(bloom, hash);
            continue;
        }
        uint32_t *const at = bits + (block - region.first) * BLOCKED_WORDS;
        for (unsigned k = 0; k < bloom.hashes; k++) {
            const uint32_t bit = hspz_blocked_bit(second, k);
            atomicOr(&at[bit / 32], 1u << bit % 32);
        }
    }
    __syncthreads();
    filter_move(own, (const uint4 *)bits, quads);
}

/* What an insert that always succeeds answers. */
static __global__ void
__launch_bounds__(FILTER_THREADS)
    all_yes(struct hspz_cuda_filter_call call, struct hspz_cuda_filter_counts *counts)
{
    const uint64_t w = filter_index();
    if (call.yes != NULL && w * 32 < call.count) {
        const uint64_t left = call.count - w * 32;
        call.yes[w] = left >= 32 ? FILTER_FULL_WARP : (1u << left) - 1;
    }
    if (w == 0) {
        counts->entries += call.count;
        if (call.result != NULL) {
            call.result->yes += call.count;
        }
    }
}

extern "C" cudaError_t
hspz_cuda_launch_bloom_places(const struct hspz_cuda_bloom *bloom,
                              const struct hspz_cuda_filter_call *call,
                              const struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    const unsigned grid = filter_grid(call->count);
    bloom_places<<<grid, FILTER_THREADS, 0, stream>>>(*bloom, *call, (uint32_t *)sorted->data[0]);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_bloom_sorted(const struct hspz_cuda_bloom *bloom,
                              const struct hspz_cuda_filter_call *call,
                              const struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    const unsigned grid = call->yes != NULL ? filter_grid((call->count + 31) / 32) : 1;
    const auto kernel = bloom->blocked ? blocked_fill : bloom_fill;
    kernel<<<sorted->regions, REGION_THREADS, 0, stream>>>(*bloom, *sorted);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        return error;
    }
    all_yes<<<grid, FILTER_THREADS, 0, stream>>>(*call, bloom->counts);
    return cudaGetLastError();
}

/* ---- numbers ---- */

static __global__ void
__launch_bounds__(FILTER_THREADS) bloom_count(struct hspz_cuda_bloom bloom)
{
    __shared__ unsigned long long chunks[HSPZ_CUDA_FILTER_CHUNK + 1];
    for (uint32_t n = threadIdx.x; n <= HSPZ_CUDA_FILTER_CHUNK; n += FILTER_THREADS) {
        chunks[n] = 0;
    }
    __syncthreads();
    const uint64_t stride = (uint64_t)gridDim.x * FILTER_THREADS;
    for (uint64_t c = filter_index(); c * CHUNK_WORDS < bloom.words; c += stride) {
        uint32_t set = 0;
        for (uint64_t w = c * CHUNK_WORDS; w < (c + 1) * CHUNK_WORDS && w < bloom.words; w++) {
            set += (uint32_t)__popc(bloom.bits[w]);
        }
        atomicAdd(&chunks[set], 1ull);
    }
    __syncthreads();
    for (uint32_t n = threadIdx.x; n <= HSPZ_CUDA_FILTER_CHUNK; n += FILTER_THREADS) {
        if (chunks[n] > 0) {
            atomicAdd(&bloom.counts->chunks[n], chunks[n]);
        }
    }
}

static __global__ void
__launch_bounds__(FILTER_THREADS)
    bloom_merge(struct hspz_cuda_bloom bloom, struct hspz_cuda_bloom from)
{
    const uint64_t w = filter_index();
    if (w < bloom.words) {
        bloom.bits[w] |= from.bits[w];
    }
    if (w == 0) {
        bloom.counts->entries += from.counts->entries;
    }
}

extern "C" cudaError_t
hspz_cuda_launch_bloom(const struct hspz_cuda_bloom *bloom,
                       const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    const unsigned grid = filter_grid(call->count);
    if (grid == 0) {
        return cudaSuccess;
    }
    const bool query = call->op == HSPZ_FILTER_QUERY;
    const auto kernel = bloom->blocked ? (query ? bloom_query<true> : bloom_insert<true>)
                                       : (query ? bloom_query<false> : bloom_insert<false>);
    kernel<<<grid, FILTER_THREADS, 0, stream>>>(*bloom, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_bloom_count(const struct hspz_cuda_bloom *bloom, cudaStream_t stream)
{
    const unsigned most = 2048, all = filter_grid((bloom->words + CHUNK_WORDS - 1) / CHUNK_WORDS);
    const unsigned grid = all < most ? all : most;
    bloom_count<<<grid, FILTER_THREADS, 0, stream>>>(*bloom);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_bloom_merge(const struct hspz_cuda_bloom *bloom,
                             const struct hspz_cuda_bloom *from, cudaStream_t stream)
{
    const unsigned grid = filter_grid(bloom->words);
    bloom_merge<<<grid, FILTER_THREADS, 0, stream>>>(*bloom, *from);
    return cudaGetLastError();
}
