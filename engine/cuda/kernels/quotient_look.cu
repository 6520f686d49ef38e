/* Questions to a quotient filter: of keys as they come, of sorted items, and of all it holds. */
#include "engine/cuda/kernels/quotient_merge.cuh"

#define THREADS 256u
#define TILE HSPZ_CUDA_QUOTIENT_TILE

typedef unsigned __int128 wide_key;

static unsigned
grid_of(uint64_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

/* Adds the warp's number of those that bring true. */
static __device__ __forceinline__ void
add_yes(bool mine, unsigned long long *sum)
{
    const uint32_t ballot = __ballot_sync(UINT32_MAX, mine);
    if (threadIdx.x % 32 == 0 && ballot != 0) {
        atomicAdd(sum, (unsigned long long)__popc(ballot));
    }
}

/* ---- keys as they come ---- */

template <typename S>
static __global__ void
__launch_bounds__(THREADS)
    look_keys(struct hspz_cuda_quotient q, const uint64_t *keys, uint64_t count, bool counts,
              uint32_t *yes, uint64_t *found, unsigned long long *yes_count)
{
    __shared__ uint32_t sum;
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t n = 0, value;
    if (threadIdx.x == 0) {
        sum = 0;
    }
    __syncthreads();
    if (i < count) {
        n = quotient_look<S>(q, quotient_fingerprint(q, keys[i]), &value);
        if (found != NULL) {
            found[i] = counts ? n : value;
        }
    }
    const uint32_t ballot = __ballot_sync(UINT32_MAX, n > 0);
    if (threadIdx.x % 32 == 0) {
        if (yes != NULL && i < count) {
            yes[i / 32] = ballot;
        }
        atomicAdd(&sum, (uint32_t)__popc(ballot));
    }
    __syncthreads();
    if (threadIdx.x == 0 && sum > 0) {
        atomicAdd(yes_count, (unsigned long long)sum);
    }
}

static __global__ void
__launch_bounds__(THREADS) set_prefix(uint32_t *yes, uint64_t words, uint64_t inside)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < words) {
        const uint64_t left = inside > i * 32 ? inside - i * 32 : 0;
        yes[i] = left >= 32 ? UINT32_MAX : (1u << left) - 1;
    }
}

/* ---- what a change answers ---- */

template <typename S>
static __global__ void
__launch_bounds__(THREADS)
    answer_items(struct hspz_cuda_quotient q, struct hspz_cuda_quotient_items items,
                 const uint64_t *before, uint32_t *yes, uint64_t *found,
                 struct hspz_cuda_quotient_tally *tally)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t *keys = (const uint64_t *)items.keys;
    bool mine = false;
    if (i < items.count) {
        const uint64_t key = keys[i];
        const bool is_first = i == 0 || keys[i - 1] != key;
        const bool by_first = items.op == HSPZ_FILTER_DELETE && !is_first;
        uint64_t value = 0;
        const uint64_t there = by_first ? 0 : quotient_look<S>(q, key, &value);
        if (items.op == HSPZ_FILTER_INSERT_IF_ABSENT) {
            mine = is_first && there == 0;
            if (found != NULL && there == 0 && !is_first && items.values != NULL) {
                value = items.values[items.indices[quotient_lower<uint64_t>(keys, 0, i, key)]] &
                        quotient_low(q.value_bits);
            }
            if (found != NULL) {
                found[items.indices[i]] = value;
            }
        } else if (items.op == HSPZ_FILTER_DECREMENT) {
            const uint64_t taken =
                before != NULL ? before[i] : i - quotient_lower<uint64_t>(keys, 0, i, key);
            mine = taken < there;
        } else {
            mine = there > 0;
        }
        if (mine && yes != NULL) {
            atomicOr(&yes[items.indices[i] / 32], 1u << items.indices[i] % 32);
        }
    }
    add_yes(mine, &tally->yes_count);
}

static __global__ void
add_result(struct hspz_cuda_filter_result *result, uint64_t yes, uint64_t refused)
{
    result->yes += yes;
    result->refused += refused;
}

static __global__ void
set_numbers(struct hspz_cuda_filter_counts *counts, uint64_t entries, uint64_t used, uint64_t total,
            uint64_t total_high)
{
    counts->entries = entries;
    counts->used = used;
    counts->total = total;
    counts->total_high = total_high;
}

/* ---- all entries ---- */

/* Entries of a thread's quotients, which neighbour. */
#define PER_THREAD (TILE / THREADS)

template <typename S>
static __device__ uint32_t
tell_thread(const struct hspz_cuda_quotient &q, uint64_t first)
{
    uint32_t entries = 0;
    for (unsigned i = 0; i < PER_THREAD; i++) {
        struct quotient_run run;
        if (first + i < q.quotients && quotient_find(q, first + i, &run)) {
            quotient_reader<S> reader(q.symbols);
            for (uint64_t at = run.begin; at < run.end; entries++) {
                (void)quotient_next<S>(reader, &at, run.end);
            }
        }
    }
    return entries;
}

/* What the threads before this one have; *all gets the block's. */
static __device__ uint32_t
sum_threads(uint32_t mine, uint32_t *warps, uint32_t *all)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t upto = mine, before = 0;
    for (unsigned by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(UINT32_MAX, upto, by);
        upto += lane >= by ? other : 0;
    }
    if (lane == 31) {
        warps[threadIdx.x / 32] = upto;
    }
    __syncthreads();
    *all = 0;
    for (unsigned w = 0; w < THREADS / 32; w++) {
        before += w < threadIdx.x / 32 ? warps[w] : 0;
        *all += warps[w];
    }
    return before + upto - mine;
}

template <typename S>
static __global__ void
__launch_bounds__(THREADS)
    tell_tiles(struct hspz_cuda_quotient q, uint64_t first, uint64_t tiles, uint64_t *numbers)
{
    __shared__ uint32_t warps[THREADS / 32];
    uint32_t all;
    const uint64_t base = (first + blockIdx.x) * TILE;
    (void)sum_threads(tell_thread<S>(q, base + threadIdx.x * PER_THREAD), warps, &all);
    if (threadIdx.x == 0) {
        numbers[blockIdx.x] = all;
        if (blockIdx.x + 1 == tiles) {
            numbers[tiles] = 0;
        }
    }
}

template <typename S, typename K>
static __global__ void
__launch_bounds__(THREADS) list_tiles(struct hspz_cuda_quotient q, uint64_t first,
                                      const uint64_t *offsets, K *keys, uint64_t *counts)
{
    __shared__ uint32_t warps[THREADS / 32];
    uint32_t all;
    const uint64_t quotient = (first + blockIdx.x) * TILE + threadIdx.x * PER_THREAD;
    uint64_t to = offsets[blockIdx.x] + sum_threads(tell_thread<S>(q, quotient), warps, &all);
    for (unsigned i = 0; i < PER_THREAD; i++) {
        struct quotient_run run;
        if (quotient + i < q.quotients && quotient_find(q, quotient + i, &run)) {
            quotient_reader<S> reader(q.symbols);
            for (uint64_t at = run.begin; at < run.end; to++) {
                const struct quotient_entry<S> entry = quotient_next<S>(reader, &at, run.end);
                keys[to] = (K)(quotient + i) << (q.remainder_bits + q.value_bits) | entry.symbol;
                counts[to] = entry.count;
            }
        }
    }
}

/* ---- launches ---- */

/* LAUNCH(S) for the type of a symbol. */
#define FOR_SYMBOLS(slot_bits, LAUNCH)                                                             \
    switch (slot_bits) {                                                                           \
    case 8:                                                                                        \
        LAUNCH(uint8_t);                                                                           \
        break;                                                                                     \
    case 16:                                                                                       \
        LAUNCH(uint16_t);                                                                          \
        break;                                                                                     \
    case 32:                                                                                       \
        LAUNCH(uint32_t);                                                                          \
        break;                                                                                     \
    case 64:                                                                                       \
        LAUNCH(uint64_t);                                                                          \
        break;                                                                                     \
    default:                                                                                       \
        return cudaErrorInvalidValue;                                                              \
    }

template <typename S>
static void
look(const struct hspz_cuda_quotient *q, const uint64_t *keys, uint64_t count, bool counts,
     uint32_t *yes, uint64_t *found, unsigned long long *yes_count, cudaStream_t stream)
{
    look_keys<S>
        <<<grid_of(count), THREADS, 0, stream>>>(*q, keys, count, counts, yes, found, yes_count);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_look(const struct hspz_cuda_quotient *q, const uint64_t *keys,
                               uint64_t count, bool counts, uint32_t *yes, uint64_t *found,
                               unsigned long long *yes_count, cudaStream_t stream)
{
    if (count == 0) {
        return cudaSuccess;
    }
#define LOOK(S) look<S>(q, keys, count, counts, yes, found, yes_count, stream)
    FOR_SYMBOLS(q->slot_bits, LOOK)
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_prefix(uint32_t *yes, uint64_t count, uint64_t inside,
                                 cudaStream_t stream)
{
    const uint64_t words = (count + 31) / 32;
    if (words == 0) {
        return cudaSuccess;
    }
    set_prefix<<<grid_of(words), THREADS, 0, stream>>>(yes, words, inside);
    return cudaGetLastError();
}

template <typename S>
static void
answer(const struct hspz_cuda_quotient *q, const struct hspz_cuda_quotient_items *items,
       const uint64_t *before, uint32_t *yes, uint64_t *found,
       struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    answer_items<S>
        <<<grid_of(items->count), THREADS, 0, stream>>>(*q, *items, before, yes, found, tally);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_answer(const struct hspz_cuda_quotient *q,
                                 const struct hspz_cuda_quotient_items *items,
                                 const uint64_t *before, uint32_t *yes, uint64_t *found,
                                 struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    if (items->count == 0) {
        return cudaSuccess;
    }
#define ANSWER(S) answer<S>(q, items, before, yes, found, tally, stream)
    FOR_SYMBOLS(q->slot_bits, ANSWER)
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_numbers(struct hspz_cuda_filter_counts *counts, uint64_t entries,
                                  uint64_t used, uint64_t total, uint64_t total_high,
                                  cudaStream_t stream)
{
    set_numbers<<<1, 1, 0, stream>>>(counts, entries, used, total, total_high);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_result(struct hspz_cuda_filter_result *result, uint64_t yes,
                                 uint64_t refused, cudaStream_t stream)
{
    add_result<<<1, 1, 0, stream>>>(result, yes, refused);
    return cudaGetLastError();
}

template <typename S>
static void
tell(const struct hspz_cuda_quotient *q, uint64_t first, uint64_t tiles, uint64_t *numbers,
     cudaStream_t stream)
{
    const unsigned grid = (unsigned)tiles;
    tell_tiles<S><<<grid, THREADS, 0, stream>>>(*q, first, tiles, numbers);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_tell(const struct hspz_cuda_quotient *q, uint64_t first, uint64_t tiles,
                               uint64_t *numbers, cudaStream_t stream)
{
#define TELL(S) tell<S>(q, first, tiles, numbers, stream)
    FOR_SYMBOLS(q->slot_bits, TELL)
    return cudaGetLastError();
}

template <typename S, typename K>
static void
list(const struct hspz_cuda_quotient *q, uint64_t first, uint64_t tiles, const uint64_t *offsets,
     void *keys, uint64_t *counts, cudaStream_t stream)
{
    const unsigned grid = (unsigned)tiles;
    list_tiles<S, K><<<grid, THREADS, 0, stream>>>(*q, first, offsets, (K *)keys, counts);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_list(const struct hspz_cuda_quotient *q, uint64_t first, uint64_t tiles,
                               const uint64_t *offsets, bool wide, void *keys, uint64_t *counts,
                               cudaStream_t stream)
{
    if (wide && q->slot_bits == 64) {
        list<uint64_t, wide_key>(q, first, tiles, offsets, keys, counts, stream);
        return cudaGetLastError();
    }
#define LIST(S) list<S, uint64_t>(q, first, tiles, offsets, keys, counts, stream)
    FOR_SYMBOLS(wide ? 0 : q->slot_bits, LIST)
    return cudaGetLastError();
}
