/* Two-choice filters: many keys, in the order of their first blocks.
 *
 *   fill   a thread block has a region of blocks in shared memory; keys take free slots there while
 * a block is less than three quarters full; a key's slot is given by how many came to its block
 * before it. The others are left: rest   they look at both blocks, a thread a key, as keys that
 * come alone */
#include "engine/cuda/kernels/filter.cuh"
#include "engine/cuda/kernels/filter_tcf.cuh"

#define SLOTS 16u
#define FILL 9u
#define PRIME UINT64_C(2654435761) /* more than there are keys */
#define WIDE_BLOCKS 256u           /* of a region whose keys come in any order, as good as all */
#define SEEN_SHIFT 16 /* of a block's state: keys that came; below it, the free slots */

/* The n-th slot of the set, in order. */
static __device__ __forceinline__ uint32_t
nth_slot(uint32_t slots, uint32_t n)
{
    if (slots == (1u << SLOTS) - 1) {
        return n;
    }
    for (; n > 0; n--) {
        slots &= slots - 1;
    }
    return (uint32_t)__ffs((int)slots) - 1;
}

template <typename FIELD>
static __device__ __forceinline__ uint32_t
free_slots(const FIELD *tags)
{
    uint32_t slots = 0;
#pragma unroll
    for (uint32_t s = 0; s < SLOTS; s++) {
        slots |= (uint32_t)(tags[s] < HSPZ_TCF_TAGS) << s;
    }
    return slots;
}

/* Lanes of a warp append theirs together. */
static __device__ __forceinline__ void
leave(const struct hspz_cuda_filter_sorted &sorted, bool mine, uint64_t hash)
{
    const uint32_t lanes = __ballot_sync(FILTER_FULL_WARP, mine), lane = threadIdx.x & 31;
    unsigned long long at = 0;
    if (lane == 0 && lanes != 0) {
        at = atomicAdd(sorted.left, (unsigned long long)__popc(lanes));
    }
    at = __shfl_sync(FILTER_FULL_WARP, at, 0);
    if (mine) {
        ((unsigned long long *)sorted.data[1])[at + __popc(lanes & ((1u << lane) - 1))] = hash;
    }
}

template <typename FIELD>
static __global__ void
__launch_bounds__(REGION_THREADS)
    tcf_fill(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call,
             struct hspz_cuda_filter_sorted sorted)
{
    constexpr uint32_t block_bytes = SLOTS * sizeof(FIELD);
    constexpr uint32_t most = HSPZ_CUDA_FILTER_REGION_BYTES / block_bytes;
    __shared__ __align__(16) FIELD tags[most * SLOTS];
    __shared__ uint32_t state[most];
    const unsigned long long *hashes = (const unsigned long long *)sorted.data[0];
    const filter_region region = filter_region_of(sorted, blockIdx.x, tcf.blocks);
    if (region.begin_key == region.end_key) {
        return;
    }
    const uint32_t blocks = (uint32_t)(region.end - region.first);
    const uint32_t quads = blocks * block_bytes / 16;
    uint4 *const own = (uint4 *)tcf.tags + region.first * block_bytes / 16;
    filter_move((uint4 *)tags, own, quads);
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < blocks; b += REGION_THREADS) {
        state[b] = free_slots(tags + b * SLOTS);
    }
    __syncthreads();
    uint32_t went_in = 0;
    const uint32_t count = region.end_key - region.begin_key;
    for (uint32_t begin = 0; begin < count; begin += REGION_THREADS) {
        const uint32_t i = begin + threadIdx.x;
        const bool here = i < count;
        const uint64_t hash = here ? __ldcs(hashes + region.begin_key + i) : 0;
        const uint64_t block = hspz_tcf_block(hash, tcf.blocks);
        bool in = false;
        if (here && block >= region.first && block < region.end) {
            const uint32_t b = (uint32_t)(block - region.first);
            const uint32_t slots = state[b] & ((1u << SLOTS) - 1);
            /* Not counted any further than needed: any number of keys may be of one block. */
            uint32_t before = state[b] >> SEEN_SHIFT;
            if (before < SLOTS) {
                before = atomicAdd(&state[b], 1u << SEEN_SHIFT) >> SEEN_SHIFT;
            }
            in = (uint32_t)__popc(slots) > before + (SLOTS - FILL);
            if (in) {
                tags[b * SLOTS + nth_slot(slots, before)] =
                    (FIELD)hspz_tcf_tag(hash, 8 * sizeof(FIELD));
            }
        }
        went_in += in;
        leave(sorted, here && !in, hash);
    }
    __syncthreads();
    filter_move(own, (const uint4 *)tags, quads);
    if (went_in > 0) {
        atomicAdd(&tcf.counts->entries, (unsigned long long)went_in);
        if (call.result != NULL) {
            atomicAdd(&call.result->yes, (unsigned long long)went_in);
        }
    }
}

template <unsigned TAG>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_rest(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call,
             struct hspz_cuda_filter_sorted sorted)
{
    const unsigned long long *hashes = (const unsigned long long *)sorted.data[1];
    const uint64_t count = *sorted.left, stride = (uint64_t)gridDim.x * FILTER_THREADS;
    unsigned long long went_in = 0, refused = 0;
    /* Neighbours share their reads of the list where that does no harm. */
    const uint32_t together = tcf.blocks / sorted.regions >= WIDE_BLOCKS ? 32 : 1;
    const uint64_t chunks = (count + together - 1) / together;
    for (uint64_t t = filter_index(); t / together < chunks; t += stride) {
        const uint64_t i = t / together * PRIME % chunks * together + t % together;
        if (i < count) {
            const tcf_place place = tcf_place_of_hash<TAG>(tcf, __ldcs(hashes + i));
            const bool in = tcf_insert_place<TAG, SLOTS>(tcf, place, 0);
            went_in += in;
            refused += !in;
        }
    }
    if (went_in > 0) {
        atomicAdd(&tcf.counts->entries, went_in);
    }
    if (call.result != NULL && went_in + refused > 0) {
        atomicAdd(&call.result->yes, went_in);
        atomicAdd(&call.result->refused, refused);
    }
}

template <unsigned TAG, typename FIELD>
static cudaError_t
launch(const struct hspz_cuda_tcf *tcf, const struct hspz_cuda_filter_call *call,
       const struct hspz_cuda_filter_sorted *sorted, unsigned multiprocessors, cudaStream_t stream)
{
    const auto fill = tcf_fill<FIELD>;
    const auto rest = tcf_rest<TAG>;
    const unsigned all = filter_grid(call->count), some = multiprocessors * 8;
    const unsigned grid = all < some ? all : some;
    fill<<<sorted->regions, REGION_THREADS, 0, stream>>>(*tcf, *call, *sorted);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        return error;
    }
    rest<<<grid, FILTER_THREADS, 0, stream>>>(*tcf, *call, *sorted);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_tcf_sorted(const struct hspz_cuda_tcf *tcf,
                            const struct hspz_cuda_filter_call *call,
                            const struct hspz_cuda_filter_sorted *sorted, unsigned multiprocessors,
                            cudaStream_t stream)
{
    switch (tcf->slot_bits) {
    case 8:
        return launch<8, uint8_t>(tcf, call, sorted, multiprocessors, stream);
    case 16:
        return launch<16, uint16_t>(tcf, call, sorted, multiprocessors, stream);
    default:
        return launch<32, uint32_t>(tcf, call, sorted, multiprocessors, stream);
    }
}
