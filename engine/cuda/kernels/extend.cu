/* Anchors to HSPs: a thread an anchor as long as that may settle it, then a warp each for those
 * that are left and that no earlier hit stands for. */
#include "engine/cuda/kernels/gate.cuh"
#include "engine/cuda/kernels/lookup.cuh"
#include "engine/cuda/kernels/stride.cuh"

#define THREADS 256u
#define WARPS (THREADS / 32)
#define BLOCKS_PER_MULTIPROCESSOR 8u

static __device__ __forceinline__ void
load_scores(const struct hspz_packed_scores &scores, int32_t *pair)
{
    if (threadIdx.x < HSPZ_PACKED_PAIRS) {
        pair[threadIdx.x] = scores.pair[threadIdx.x];
    }
    __syncthreads();
}

static __device__ __forceinline__ uint64_t
ref_place(uint64_t anchor)
{
    return (uint64_t)(uint32_t)anchor + HSPZ_PACKED_PAD;
}

static __device__ __forceinline__ uint64_t
query_place(uint64_t anchor)
{
    return (anchor >> 32) + HSPZ_PACKED_PAD;
}

/* A number for each lane that wants one, in order. */
static __device__ __forceinline__ uint64_t
take_slot(bool wanted, unsigned long long *count)
{
    const uint32_t lane = threadIdx.x & 31;
    const uint32_t mask = __ballot_sync(HSPZ_FULL_WARP, wanted);
    unsigned long long first = 0;
    if (lane == 0 && mask != 0) {
        first = atomicAdd(count, (unsigned long long)__popc((int)mask));
    }
    first = __shfl_sync(HSPZ_FULL_WARP, first, 0);
    return first + (uint32_t)__popc((int)(mask & ((1u << lane) - 1)));
}

static __global__ void
__launch_bounds__(THREADS)
    gate(const __grid_constant__ struct hspz_cuda_extension extension, const uint64_t *anchors,
         uint64_t count, struct hspz_cuda_anchors left)
{
    __shared__ int32_t pair[HSPZ_PACKED_PAIRS];
    load_scores(extension.scores, pair);
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t anchor = 0;
    bool passes = false;
    if (i < count) {
        anchor = __ldcs((const unsigned long long *)anchors + i);
        passes = gate_passes(extension.ref, ref_place(anchor), extension.query, query_place(anchor),
                             pair, extension.scores.xdrop, extension.scores.enough);
    }
    const uint64_t slot = take_slot(passes, left.count);
    if (passes) {
        left.anchors[slot] = anchor;
    }
}

/* Exclusive over the lanes. */
static __device__ __forceinline__ uint32_t
sum_before(uint32_t value, uint32_t *whole)
{
    const uint32_t lane = threadIdx.x & 31;
    uint32_t sum = value;
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(HSPZ_FULL_WARP, sum, step);
        sum += lane >= step ? other : 0;
    }
    *whole = __shfl_sync(HSPZ_FULL_WARP, sum, 31);
    return sum - value;
}

static __device__ __forceinline__ int32_t
most_before(int32_t value, int32_t first)
{
    const uint32_t lane = threadIdx.x & 31;
    int32_t most = __shfl_up_sync(HSPZ_FULL_WARP, value, 1);
    most = lane == 0 || first > most ? first : most;
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_up_sync(HSPZ_FULL_WARP, most, step);
        most = lane >= step && other > most ? other : most;
    }
    return most;
}

static __device__ __forceinline__ struct hspz_extend_side
extend_side(const struct hspz_cuda_extension &extension, uint64_t anchor, bool right,
            const int32_t *pair)
{
    const uint32_t lane = threadIdx.x & 31;
    const uint64_t r = ref_place(anchor), q = query_place(anchor);
    struct hspz_extend_side side = {0, 0, 0, 0};
    bool open = true;
    while (open) {
        const uint64_t at = side.bases;
        const struct packed_pairs pairs =
            stride_load(extension.ref, right ? r + at : r - at, extension.query,
                        right ? q + at : q - at, right, lane);
        const struct stride_sums sums = stride_sum(pairs, right, pair);
        uint32_t whole;
        const uint32_t before = sum_before((uint32_t)sums.after[STRIDE_LANE - 1], &whole);
        const int32_t best =
            most_before((int32_t)(before + (uint32_t)sums.peak), stride_best(&side));
        const struct stride_look look =
            stride_look(&sums, (int32_t)before, best, extension.scores.xdrop);
        const uint32_t dropped = __ballot_sync(HSPZ_FULL_WARP, look.dropped);
        const int winner =
            stride_winner(dropped, __ballot_sync(HSPZ_FULL_WARP, look.best_bases != 0));
        const int from = winner < 0 ? 0 : winner;
        open = stride_join(&side, winner, __shfl_sync(HSPZ_FULL_WARP, look.best, from),
                           __shfl_sync(HSPZ_FULL_WARP, look.best_bases, from), (int32_t)whole,
                           dropped);
    }
    return side;
}

static __device__ __forceinline__ double
entropy_of(const struct hspz_cuda_extension &extension, const struct hspz_hsp &hsp)
{
    const uint64_t r = (uint64_t)hsp.ref_start + HSPZ_PACKED_PAD;
    const uint64_t q = (uint64_t)hsp.query_start + HSPZ_PACKED_PAD;
    uint32_t matches[4] = {0, 0, 0, 0};
    for (uint64_t at = (threadIdx.x & 31) * HSPZ_PACKED_WORD; at < hsp.length;
         at += 32 * HSPZ_PACKED_WORD) {
        const uint64_t rest = hsp.length - at;
        stride_matches(packed_bases(extension.ref, r + at), packed_bases(extension.query, q + at),
                       rest < HSPZ_PACKED_WORD ? (unsigned)rest : HSPZ_PACKED_WORD, matches);
    }
#pragma unroll
    for (unsigned step = 16; step > 0; step /= 2) {
#pragma unroll
        for (unsigned base = 0; base < 4; base++) {
            matches[base] += __shfl_xor_sync(HSPZ_FULL_WARP, matches[base], (int)step);
        }
    }
    return hspz_extend_entropy(matches, hsp.length);
}

/* As hspz_extend_anchor; all lanes get the same. */
static __device__ __forceinline__ bool
extend_by_warp(const struct hspz_cuda_extension &extension, uint64_t anchor, const int32_t *pair,
               struct hspz_hsp *out)
{
    const struct hspz_extend_side right = extend_side(extension, anchor, true, pair);
    const struct hspz_extend_side left = extend_side(extension, anchor, false, pair);
    const int32_t total = hspz_extend_total(right.best, left.best);
    double entropy = 1;
    out->ref_start = (uint32_t)anchor - left.best_bases;
    out->query_start = (uint32_t)(anchor >> 32) - left.best_bases;
    out->length = left.best_bases + right.best_bases;
    if (hspz_extend_wants_entropy(total, &extension.scoring)) {
        entropy = entropy_of(extension, *out);
    }
    return hspz_extend_keep(total, entropy, extension.scoring.threshold, &out->score);
}

/* A lane looks whether its anchor is redundant; the warp extends those that are not. When there are
 * few, all warps have some. */
static __global__ void
__launch_bounds__(THREADS) extend(const __grid_constant__ struct hspz_cuda_extension extension,
                                  struct hspz_cuda_anchors anchors, struct hspz_cuda_hsp_list hsps)
{
    __shared__ int32_t pair[HSPZ_PACKED_PAIRS];
    load_scores(extension.scores, pair);
    struct hspz_packed_seeds seeds = extension.seeds;
    if (extension.behind != NULL) {
        seeds.first_query = (uint32_t)*extension.behind + 1;
    }
    const uint32_t lane = threadIdx.x & 31;
    const uint64_t count = *anchors.count;
    const uint64_t warps = (uint64_t)gridDim.x * WARPS;
    const uint64_t warp = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const uint64_t share = (count + warps - 1) / warps;
    const uint64_t group = share < 32 ? share : 32;
    for (uint64_t base = warp * group; base < count; base += warps * group) {
        uint64_t anchor = 0;
        bool wanted = lane < group && base + lane < count;
        if (wanted) {
            anchor = anchors.anchors[base + lane];
            wanted = !gate_redundant(extension.ref, ref_place(anchor), extension.query,
                                     query_place(anchor), pair, extension.scores.xdrop, &seeds);
        }
        struct hspz_hsp mine = {0, 0, 0, 0};
        bool passes = false;
        for (uint32_t rest = __ballot_sync(HSPZ_FULL_WARP, wanted); rest != 0; rest &= rest - 1) {
            const int from = __ffs((int)rest) - 1;
            struct hspz_hsp hsp;
            const bool kept = extend_by_warp(
                extension, __shfl_sync(HSPZ_FULL_WARP, (unsigned long long)anchor, from), pair,
                &hsp);
            if (lane == (uint32_t)from) {
                mine = hsp;
                passes = kept;
            }
        }
        const uint64_t slot = take_slot(passes, hsps.count);
        if (passes && slot < hsps.capacity) {
            *(uint4 *)&hsps.hsps[slot] =
                make_uint4(mine.ref_start, mine.query_start, mine.length, (uint32_t)mine.score);
        }
    }
}

extern "C" cudaError_t
hspz_cuda_launch_gate(const struct hspz_cuda_extension *extension, const uint64_t *anchors,
                      uint64_t count, const struct hspz_cuda_anchors *left, cudaStream_t stream)
{
    const unsigned grid = (unsigned)((count + THREADS - 1) / THREADS);
    if (grid == 0) {
        return cudaSuccess;
    }
    gate<<<grid, THREADS, 0, stream>>>(*extension, anchors, count, *left);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_extend(const struct hspz_cuda_extension *extension,
                        const struct hspz_cuda_anchors *anchors,
                        const struct hspz_cuda_hsp_list *hsps, unsigned multiprocessors,
                        cudaStream_t stream)
{
    extend<<<multiprocessors * BLOCKS_PER_MULTIPROCESSOR, THREADS, 0, stream>>>(*extension,
                                                                                *anchors, *hsps);
    return cudaGetLastError();
}
