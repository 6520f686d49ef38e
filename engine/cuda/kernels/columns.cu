/* Records to anchors by columns (protocol/columns.h): where a window's hits begin, what of the hits
 * fits a part, and the part itself, as it is sent. */
#include "engine/cuda/kernels/expand.cuh"

#define THREADS 256u
#define WARPS (THREADS / 32)
#define TILE_STEPS 4u

static __global__ void
__launch_bounds__(THREADS) mark_runs(struct hspz_cuda_records records, uint32_t *run_of)
{
    const uint64_t r = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r < records.count) {
        const uint32_t query = (uint32_t)(records.sources[r] >> 32);
        run_of[r] = r == 0 || (uint32_t)(records.sources[r - 1] >> 32) != query ? 1 : 0;
    }
}

/* Runs up to record r's. */
static __device__ __forceinline__ uint64_t
runs_upto(const struct hspz_cuda_runs &runs, uint64_t r)
{
    return runs.run_of != NULL ? runs.run_of[r] : r + 1;
}

static __global__ void
__launch_bounds__(THREADS) write_runs(struct hspz_cuda_records records, struct hspz_cuda_runs runs)
{
    const uint64_t r = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r >= records.count) {
        return;
    }
    const uint64_t upto = runs_upto(runs, r);
    if (r == 0 || runs_upto(runs, r - 1) != upto) {
        const uint64_t begin = r == 0 ? 0 : records.ends[r - 1];
        runs.runs[upto - 1] = begin | records.sources[r] >> 32 << 32;
    }
}

/* The run, of lowest .. highest, that has this hit. */
static __device__ uint64_t
run_at(const struct hspz_cuda_runs &runs, uint64_t lowest, uint64_t highest, uint64_t hit)
{
    while (lowest < highest) {
        const uint64_t middle = lowest + (highest - lowest + 1) / 2;
        if ((uint32_t)runs.runs[middle] <= hit) {
            lowest = middle;
        } else {
            highest = middle - 1;
        }
    }
    return lowest;
}

/* Hits in each run are 1 or more, so what a hit takes up to itself ascends. */
static __global__ void
fit_columns(struct hspz_cuda_records records, struct hspz_cuda_runs runs,
            struct hspz_cuda_columns columns)
{
    const uint64_t run_count = runs_upto(runs, records.count - 1);
    const uint64_t first = run_at(runs, 0, run_count - 1, columns.begin);
    const uint64_t last = run_at(runs, first, run_count - 1, columns.end - 1);
    uint64_t low = first, high = last; /* the last run of which a hit fits */
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        const uint64_t refs = (uint32_t)runs.runs[middle] - columns.begin + 1;
        if ((middle - first + 1) * HSPZ_CUDA_RUN_BYTES + refs * HSPZ_CUDA_REF_BYTES <=
            columns.bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    const uint64_t stop = low == last ? columns.end : (uint32_t)runs.runs[low + 1];
    const uint64_t refs =
        (columns.bytes - (low - first + 1) * HSPZ_CUDA_RUN_BYTES) / HSPZ_CUDA_REF_BYTES;
    columns.fit->end = stop - columns.begin < refs ? stop : columns.begin + refs;
    columns.fit->first_run = first;
    columns.fit->run_count = low - first + 1;
}

/* A warp writes what lies between `begin` and `end`, hits of the tile, of it. It takes 32 records
 * at a time, one a lane; their hits are one stretch of the output, which the lanes sweep. */
static __device__ __forceinline__ void
write_tile(const struct hspz_cuda_index &index, const struct hspz_cuda_records &records,
           uint32_t tile, uint32_t begin, uint32_t end, uint32_t *__restrict__ out)
{
    const uint32_t lane = threadIdx.x & 31;
    const uint32_t base = tile << records.tile_log2;
    const uint32_t *__restrict__ pos = index.pos;
    uint64_t next = (uint64_t)records.starts[tile] + lane;
    for (uint32_t done = 0; done < end; next += 32) {
        const uint32_t its_end = next < records.count ? __ldg(&records.ends[next]) - base : end;
        const uint32_t at = next < records.count ? (uint32_t)records.sources[next] - base : 0;
        const uint32_t stop = its_end < end ? its_end : end;
        const uint32_t last = __shfl_sync(HSPZ_FULL_WARP, stop, 31);
        for (uint32_t sweep = done > begin ? done : begin; sweep < last; sweep += 32 * TILE_STEPS) {
            uint32_t position[TILE_STEPS];
#pragma unroll
            for (uint32_t p = 0; p < TILE_STEPS; p++) {
                const uint32_t k = sweep + 32 * p + lane;
                const uint32_t from = __shfl_sync(HSPZ_FULL_WARP, at, owner_of(stop, k) & 31);
                position[p] = k < last ? __ldg(&pos[from - k]) : 0;
            }
#pragma unroll
            for (uint32_t p = 0; p < TILE_STEPS; p++) {
                const uint32_t k = sweep + 32 * p + lane;
                if (k < last) {
                    __stcs(out + (k - begin), position[p] + index.span);
                }
            }
        }
        done = last;
    }
}

static __global__ void
__launch_bounds__(THREADS)
    write_columns(struct hspz_cuda_index index, struct hspz_cuda_records records,
                  struct hspz_cuda_runs runs, struct hspz_cuda_columns columns)
{
    const struct hspz_cuda_fit fit = *columns.fit;
    const uint64_t all_runs = runs_upto(runs, records.count - 1);
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t j = (uint64_t)blockIdx.x * THREADS + threadIdx.x; j < fit.run_count;
         j += stride) {
        const uint64_t run = fit.first_run + j;
        const uint64_t from = (uint32_t)runs.runs[run];
        const uint64_t to = run + 1 < all_runs ? (uint32_t)runs.runs[run + 1] : records.hits;
        const uint64_t count =
            (to < fit.end ? to : fit.end) - (from > columns.begin ? from : columns.begin);
        columns.out[j] = runs.runs[run] >> 32 | count << 32;
    }
    uint32_t *refs = (uint32_t *)(columns.out + fit.run_count);
    const uint64_t tile =
        (columns.begin >> records.tile_log2) + (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const uint64_t tile_begin = tile << records.tile_log2;
    if (tile_begin < fit.end) {
        const uint64_t tile_end = tile_begin + (1ull << records.tile_log2);
        const uint64_t begin = tile_begin > columns.begin ? tile_begin : columns.begin;
        const uint64_t end = tile_end < fit.end ? tile_end : fit.end;
        write_tile(index, records, (uint32_t)tile, (uint32_t)(begin - tile_begin),
                   (uint32_t)(end - tile_begin), refs + (begin - columns.begin));
    }
}

static unsigned
grid_of(uint64_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

extern "C" cudaError_t
hspz_cuda_launch_mark_runs(const struct hspz_cuda_records *records, uint32_t *run_of,
                           cudaStream_t stream)
{
    if (records->count == 0) {
        return cudaSuccess;
    }
    mark_runs<<<grid_of(records->count), THREADS, 0, stream>>>(*records, run_of);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_runs(const struct hspz_cuda_records *records, const struct hspz_cuda_runs *runs,
                      cudaStream_t stream)
{
    if (records->count == 0) {
        return cudaSuccess;
    }
    write_runs<<<grid_of(records->count), THREADS, 0, stream>>>(*records, *runs);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_columns(const struct hspz_cuda_index *index,
                         const struct hspz_cuda_records *records, const struct hspz_cuda_runs *runs,
                         const struct hspz_cuda_columns *columns, cudaStream_t stream)
{
    if (columns->begin >= columns->end) {
        return cudaSuccess;
    }
    const unsigned one = 1;
    fit_columns<<<1, one, 0, stream>>>(*records, *runs, *columns);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        return error;
    }
    /* As many tiles as may be touched when all hits are of one run. */
    const uint64_t room = (columns->bytes - HSPZ_CUDA_RUN_BYTES) / HSPZ_CUDA_REF_BYTES;
    const uint64_t hits =
        columns->end - columns->begin < room ? columns->end - columns->begin : room;
    const uint64_t tiles = ((columns->begin + hits - 1) >> records->tile_log2) -
                           (columns->begin >> records->tile_log2) + 1;
    const unsigned grid = (unsigned)((tiles + WARPS - 1) / WARPS);
    write_columns<<<grid, THREADS, 0, stream>>>(*index, *records, *runs, *columns);
    return cudaGetLastError();
}
