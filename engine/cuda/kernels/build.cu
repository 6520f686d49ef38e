/* Building an index (engine/cuda/build_block.h): words of a reference's windows, and tables from
 * them. Pairs of word and start are sorted by word; the sort is stable, so that the starts of a
 * bucket keep ascending. */
#include "engine/cuda/kernels/bases.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#define THREADS BASES_THREADS
#define WARPS (THREADS / 32)
#define ROUNDS (BASES_TILE / THREADS) /* windows per lane, 32 apart */

static __device__ __forceinline__ bool
window_wanted(const struct hspz_cuda_piece &piece, const struct bases_tile &tile, uint32_t begin,
              uint32_t offset)
{
    const uint32_t start = begin + offset;
    return offset < piece.starts - begin && (piece.step == 1 || start % piece.step == 0) &&
           bases_valid(tile, offset, piece.span);
}

static __device__ __forceinline__ void
load_piece(const struct hspz_cuda_piece &piece, uint32_t begin, struct bases_tile *tile)
{
    uint8_t bytes[BASES_LOADS];
    bases_load(piece.bases, (uint64_t)piece.starts + piece.span - 1, begin, false, bytes);
    bases_pack(bytes, false, piece.unmask, tile);
}

static __global__ void
__launch_bounds__(THREADS) count_windows(struct hspz_cuda_piece piece, uint32_t *counts)
{
    __shared__ struct bases_tile tile;
    const uint32_t begin = blockIdx.x * BASES_TILE;
    load_piece(piece, begin, &tile);
    int count = 0;
#pragma unroll
    for (uint32_t u = 0; u < ROUNDS; u++) {
        count += __syncthreads_count(window_wanted(piece, tile, begin, u * THREADS + threadIdx.x));
    }
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = (uint32_t)count;
        if (blockIdx.x == gridDim.x - 1) {
            counts[gridDim.x] = 0;
        }
    }
}

static __global__ void
__launch_bounds__(THREADS) write_pairs(struct hspz_cuda_piece piece, const uint32_t *offsets,
                                       uint32_t *words, uint32_t *starts)
{
    __shared__ struct bases_tile tile;
    __shared__ uint32_t totals[WARPS];
    const uint32_t begin = blockIdx.x * BASES_TILE;
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    load_piece(piece, begin, &tile);

    const uint32_t mine = warp * ROUNDS * 32 + lane;
    uint32_t masks[ROUNDS], total = 0;
#pragma unroll
    for (uint32_t u = 0; u < ROUNDS; u++) {
        masks[u] = __ballot_sync(HSPZ_FULL_WARP, window_wanted(piece, tile, begin, mine + u * 32));
        total += (uint32_t)__popc(masks[u]);
    }
    if (lane == 0) {
        totals[warp] = total;
    }
    __syncthreads();
    uint32_t at = offsets[blockIdx.x];
    for (uint32_t w = 0; w < warp; w++) {
        at += totals[w];
    }
#pragma unroll
    for (uint32_t u = 0; u < ROUNDS; u++) {
        if ((masks[u] >> lane & 1) != 0) {
            const uint32_t slot = at + (uint32_t)__popc(masks[u] & ((1u << lane) - 1));
            words[slot] = bases_word(tile, mine + u * 32, piece.care);
            starts[slot] = piece.first + begin + mine + u * 32;
        }
        at += (uint32_t)__popc(masks[u]);
    }
}

/* Lanes with the same word add once: runs and short repeats would all wait for one entry. */
static __global__ void
__launch_bounds__(THREADS) count_words(struct hspz_cuda_piece piece, uint32_t *table)
{
    __shared__ struct bases_tile tile;
    const uint32_t begin = blockIdx.x * BASES_TILE;
    load_piece(piece, begin, &tile);
#pragma unroll
    for (uint32_t u = 0; u < ROUNDS; u++) {
        const uint32_t offset = u * THREADS + threadIdx.x;
        const bool wanted = window_wanted(piece, tile, begin, offset);
        const uint32_t mask = __ballot_sync(HSPZ_FULL_WARP, wanted);
        if (wanted) {
            const uint32_t word = bases_word(tile, offset, piece.care);
            const uint32_t same = __match_any_sync(mask, word);
            if ((same & ((1u << (threadIdx.x & 31)) - 1)) == 0) {
                atomicAdd(&table[word], (uint32_t)__popc(same));
            }
        }
    }
}

static __device__ __forceinline__ uint64_t
thread_index(void)
{
    return (uint64_t)blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void
__launch_bounds__(THREADS) begin_runs(const uint32_t *words, uint64_t count, uint32_t *table)
{
    const uint64_t i = thread_index();
    if (i < count && (i == 0 || words[i - 1] != words[i])) {
        table[words[i]] -= (uint32_t)i;
    }
}

static __global__ void
__launch_bounds__(THREADS) end_runs(const uint32_t *words, uint64_t count, uint32_t *table)
{
    const uint64_t i = thread_index();
    if (i < count && (i + 1 == count || words[i + 1] != words[i])) {
        table[words[i]] += (uint32_t)(i + 1);
    }
}

static __global__ void
__launch_bounds__(THREADS) scatter_starts(const uint32_t *words, const uint32_t *starts,
                                          uint64_t count, const uint32_t *table, uint32_t *pos)
{
    const uint64_t i = thread_index();
    if (i < count) {
        pos[table[words[i]] + (uint32_t)i] = starts[i];
    }
}

static unsigned
grid_of(uint64_t count, uint64_t per_block)
{
    return (unsigned)((count + per_block - 1) / per_block);
}

static cudaError_t
sort_pairs(struct hspz_cuda_pairs *pairs, uint64_t count, unsigned word_bits, void *temp,
           size_t *temp_bytes, cudaStream_t stream)
{
    const unsigned now = pairs->now;
    cub::DoubleBuffer<uint32_t> words(pairs->words[now], pairs->words[1 - now]);
    cub::DoubleBuffer<uint32_t> starts(pairs->starts[now], pairs->starts[1 - now]);
    const cudaError_t error = cub::DeviceRadixSort::SortPairs(
        temp, *temp_bytes, words, starts, (uint32_t)count, 0, (int)word_bits, stream);
    pairs->now = words.selector == 0 ? now : 1 - now;
    return error;
}

static cudaError_t
sum(uint32_t *data, uint64_t count, bool inclusive, void *temp, size_t *temp_bytes,
    cudaStream_t stream)
{
    return inclusive ? cub::DeviceScan::InclusiveSum(temp, *temp_bytes, data, data, (uint32_t)count,
                                                     stream)
                     : cub::DeviceScan::ExclusiveSum(temp, *temp_bytes, data, data, (uint32_t)count,
                                                     stream);
}

extern "C" cudaError_t
hspz_cuda_build_temp_bytes(uint64_t pairs, unsigned word_bits, uint64_t sums, size_t *bytes)
{
    struct hspz_cuda_pairs none = {};
    size_t needs[3] = {0, 0, 0};
    cudaError_t error = sort_pairs(&none, pairs, word_bits, NULL, &needs[0], NULL);
    for (unsigned i = 1; i < 3 && error == cudaSuccess; i++) {
        error = sum(NULL, sums, i == 1, NULL, &needs[i], NULL);
    }
    *bytes = 0;
    for (unsigned i = 0; i < 3; i++) {
        *bytes = needs[i] > *bytes ? needs[i] : *bytes;
    }
    return error;
}

extern "C" cudaError_t
hspz_cuda_sums_temp_bytes(uint64_t sums, size_t *bytes)
{
    *bytes = 0;
    return sum(NULL, sums, true, NULL, bytes, NULL);
}

extern "C" cudaError_t
hspz_cuda_launch_piece_count(const struct hspz_cuda_piece *piece, uint32_t *counts,
                             cudaStream_t stream)
{
    if (piece->starts == 0) {
        return cudaSuccess;
    }
    count_windows<<<grid_of(piece->starts, BASES_TILE), THREADS, 0, stream>>>(*piece, counts);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_piece_pairs(const struct hspz_cuda_piece *piece, const uint32_t *offsets,
                             const struct hspz_cuda_pairs *pairs, cudaStream_t stream)
{
    if (piece->starts == 0) {
        return cudaSuccess;
    }
    write_pairs<<<grid_of(piece->starts, BASES_TILE), THREADS, 0, stream>>>(
        *piece, offsets, pairs->words[pairs->now], pairs->starts[pairs->now]);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_piece_words(const struct hspz_cuda_piece *piece, uint32_t *table,
                             cudaStream_t stream)
{
    if (piece->starts == 0) {
        return cudaSuccess;
    }
    count_words<<<grid_of(piece->starts, BASES_TILE), THREADS, 0, stream>>>(*piece, table);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_sort(struct hspz_cuda_pairs *pairs, uint64_t count, unsigned word_bits, void *temp,
                      size_t temp_bytes, cudaStream_t stream)
{
    return count == 0 ? cudaSuccess
                      : sort_pairs(pairs, count, word_bits, temp, &temp_bytes, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_sums(uint32_t *data, uint64_t count, bool inclusive, void *temp, size_t temp_bytes,
                      cudaStream_t stream)
{
    return count == 0 ? cudaSuccess : sum(data, count, inclusive, temp, &temp_bytes, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_begin_runs(const uint32_t *words, uint64_t count, uint32_t *table,
                            cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    begin_runs<<<grid_of(count, THREADS), THREADS, 0, stream>>>(words, count, table);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_end_runs(const uint32_t *words, uint64_t count, uint32_t *table,
                          cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    end_runs<<<grid_of(count, THREADS), THREADS, 0, stream>>>(words, count, table);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_scatter(const uint32_t *words, const uint32_t *starts, uint64_t count,
                         const uint32_t *table, uint32_t *pos, cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
    scatter_starts<<<grid_of(count, THREADS), THREADS, 0, stream>>>(words, starts, count, table,
                                                                    pos);
    return cudaGetLastError();
}
