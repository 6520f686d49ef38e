/* Records to anchors (SPEC C.4, C.5). Every mapping writes the same bytes and clips to the window.
 */
#include "engine/cuda/kernels/expand.cuh"

#define THREADS 256u
#define WARPS (THREADS / 32)
#define LONG_HITS 64u
#define TILE_PAIRS 4u
#define BLOCKS_PER_MULTIPROCESSOR 8u

/* Records [*first, *last) have all hits of the window. */
static __device__ __forceinline__ void
window_records(const struct hspz_cuda_records &records, const struct hspz_cuda_window &window,
               uint64_t *first, uint64_t *last)
{
    *first = records.starts[window.begin >> records.tile_log2];
    *last = window.end == records.hits
                ? records.count
                : (uint64_t)records.starts[window.end >> records.tile_log2] + 1;
}

/* Hits of record r inside the window. */
static __device__ __forceinline__ void
record_hits(const struct hspz_cuda_records &records, const struct hspz_cuda_window &window,
            uint64_t r, uint64_t *begin, uint64_t *end)
{
    const uint64_t before = r == 0 ? 0 : records.ends[r - 1];
    const uint64_t after = records.ends[r];
    *begin = before > window.begin ? before : window.begin;
    *end = after < window.end ? after : window.end;
}

static __device__ __forceinline__ void
write_hit(const struct hspz_cuda_index &index, const struct hspz_cuda_window &window,
          uint64_t source, uint64_t h)
{
    const uint32_t position = __ldg(&index.pos[(uint32_t)source - (uint32_t)h]);
    window.out[h - window.begin] = anchor_of(position, index.span, (uint32_t)(source >> 32));
}

/* A thread a record; the warp shares those of many hits. */
static __global__ void
__launch_bounds__(THREADS)
    expand_by_thread(struct hspz_cuda_index index, struct hspz_cuda_records records,
                     struct hspz_cuda_window window)
{
    uint64_t first, last;
    window_records(records, window, &first, &last);
    const uint32_t lane = threadIdx.x & 31;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    const uint64_t warp = (uint64_t)blockIdx.x * THREADS + (threadIdx.x - lane);
    for (uint64_t base = first + warp; base < last; base += stride) {
        uint64_t begin = 0, end = 0, source = 0;
        if (base + lane < last) {
            record_hits(records, window, base + lane, &begin, &end);
            source = records.sources[base + lane];
        }
        const bool far = end > begin && end - begin > LONG_HITS;
        for (uint64_t h = end; !far && h > begin; h--) {
            write_hit(index, window, source, h - 1);
        }
        for (uint32_t rest = __ballot_sync(HSPZ_FULL_WARP, far); rest != 0; rest &= rest - 1) {
            const int from = __ffs((int)rest) - 1;
            const uint64_t far_begin = __shfl_sync(HSPZ_FULL_WARP, begin, from);
            const uint64_t far_end = __shfl_sync(HSPZ_FULL_WARP, end, from);
            const uint64_t far_source = __shfl_sync(HSPZ_FULL_WARP, source, from);
            for (uint64_t h = far_begin + lane; h < far_end; h += 32) {
                write_hit(index, window, far_source, h);
            }
        }
    }
}

static __global__ void
__launch_bounds__(THREADS)
    expand_by_warp(struct hspz_cuda_index index, struct hspz_cuda_records records,
                   struct hspz_cuda_window window)
{
    uint64_t first, last;
    window_records(records, window, &first, &last);
    const uint64_t stride = (uint64_t)gridDim.x * WARPS;
    const uint64_t warp = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    for (uint64_t r = first + warp; r < last; r += stride) {
        uint64_t begin, end;
        record_hits(records, window, r, &begin, &end);
        const uint64_t source = records.sources[r];
#pragma unroll 4
        for (uint64_t h = begin + (threadIdx.x & 31); h < end; h += 32) {
            write_hit(index, window, source, h);
        }
    }
}

static __global__ void
__launch_bounds__(THREADS)
    expand_by_tile(struct hspz_cuda_index index, struct hspz_cuda_records records,
                   struct hspz_cuda_window window)
{
    const uint64_t tile =
        (window.begin >> records.tile_log2) + (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const uint64_t begin = tile << records.tile_log2;
    if (begin >= window.end) {
        return;
    }
    const uint64_t end = (tile + 1) << records.tile_log2;
    expand_tile<TILE_PAIRS>(index, records, records.count, (uint32_t)tile,
                            end < window.end ? end : window.end,
                            window.out + (begin - window.begin));
}

extern "C" cudaError_t
hspz_cuda_launch_expand(const struct hspz_cuda_index *index,
                        const struct hspz_cuda_records *records,
                        const struct hspz_cuda_window *window, enum hspz_cuda_mapping mapping,
                        unsigned multiprocessors, cudaStream_t stream)
{
    if (window->begin >= window->end) {
        return cudaSuccess;
    }
    const uint64_t tiles =
        ((window->end - window->begin) + (1ull << records->tile_log2) - 1) >> records->tile_log2;
    const unsigned tile_grid = (unsigned)((tiles + WARPS - 1) / WARPS);
    const unsigned strides = multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    switch (mapping) {
    case HSPZ_CUDA_MAPPING_THREAD:
        expand_by_thread<<<strides, THREADS, 0, stream>>>(*index, *records, *window);
        break;
    case HSPZ_CUDA_MAPPING_WARP:
        expand_by_warp<<<strides, THREADS, 0, stream>>>(*index, *records, *window);
        break;
    default:
        expand_by_tile<<<tile_grid, THREADS, 0, stream>>>(*index, *records, *window);
        break;
    }
    return cudaGetLastError();
}
