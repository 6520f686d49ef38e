/* New slots from old ones and items, a tile of quotients a thread block.
 *
 *   old runs   where the k-th one of the tile ends, from the runend bits
 *   items      the first one of each quotient
 *   lengths    of the merged runs, four neighbouring quotients a thread; one without items keeps
 *              its symbols as they are
 *   layout     a scan of max(e + length, least) over the threads, which begins with the tile's
 *
 * `measure` ends with the scan, `write` goes on from it. Places are counted from the tile's first
 * slot. */
#include "engine/cuda/kernels/quotient_merge.cuh"
#include "engine/cuda/kernels/quotient_stretch.cuh"

#define THREADS 256u
#define WARPS (THREADS / 32)
#define TILE HSPZ_CUDA_QUOTIENT_TILE
#define PER_THREAD (TILE / THREADS)
#define TILE_WORDS (TILE / 32) /* of bits, of 32 */
#define END_WORDS (2 * TILE_WORDS)
#define NONE UINT32_MAX
#define DENSE 16u /* items a quotient from which on each thread looks for its own */

static_assert(PER_THREAD == 4, "a thread's quotients are a nibble of a word");
static_assert(TILE_WORDS == 32, "a warp has a word of the tile in each lane");

typedef unsigned __int128 wide_key;

struct tile_shared {
    uint32_t ends[TILE + 1]; /* behind each old run; [0]: where the first may begin */
    uint32_t first[TILE];    /* item of each quotient, from the tile's first one */
    uint32_t runs[TILE];     /* length of each new run */
    uint32_t occupied[TILE_WORDS], ranks[TILE_WORDS + 1]; /* old */
    uint64_t lengths[WARPS], leasts[WARPS];               /* of the warps */
    uint32_t made_occupied[TILE_WORDS], made_ends[END_WORDS];
};

/* ---- old runs ---- */

static __device__ __forceinline__ uint32_t
warp_sums(uint32_t mine)
{
    const unsigned lane = threadIdx.x % 32;
    for (unsigned by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(UINT32_MAX, mine, by);
        mine += lane >= by ? other : 0;
    }
    return mine;
}

/* By one warp. */
static __device__ void
find_old_runs(const struct hspz_cuda_quotient &old, uint64_t base, struct tile_shared &t)
{
    const unsigned lane = threadIdx.x;
    const uint64_t block = base / HSPZ_CUDA_QUOTIENT_BLOCK + lane / (BLOCK_WORDS / 2);
    uint32_t word = 0;
    if (block < hspz_cuda_quotient_blocks(old.slots) && base + lane * 32 < old.quotients) {
        word = ((const uint32_t *)old.marks)[block * BLOCK_WORDS + lane % (BLOCK_WORDS / 2)];
    }
    const uint32_t upto = warp_sums((uint32_t)__popc(word));
    t.occupied[lane] = word;
    t.ranks[lane + 1] = upto;
    const uint32_t runs = __shfl_sync(UINT32_MAX, upto, 31);
    const uint64_t begin = quotient_block_begin(old, base / HSPZ_CUDA_QUOTIENT_BLOCK);
    if (lane == 0) {
        t.ranks[0] = 0;
        t.ends[0] = (uint32_t)(begin - base);
    }
    uint32_t found = 0;
    for (uint64_t from = begin / 32; found < runs; from += 32) {
        uint32_t ends = end_word(old, from + lane);
        if (from + lane == begin / 32) {
            ends &= UINT32_MAX << begin % 32;
        }
        const uint32_t count = (uint32_t)__popc(ends);
        const uint32_t upto_here = found + warp_sums(count);
        uint32_t rank = upto_here - count;
        const uint32_t slot = (uint32_t)((from + lane) * 32 - base);
        for (; ends != 0 && rank < runs; ends &= ends - 1) {
            t.ends[++rank] = slot + (uint32_t)__ffs((int)ends);
        }
        found = __shfl_sync(UINT32_MAX, upto_here, 31);
    }
}

/* ---- items ---- */

template <typename K>
static __device__ void
find_items(const struct quotient_items<K> &items, uint64_t base, uint64_t lo, uint64_t hi,
           struct tile_shared &t)
{
    const K *keys = items.keys;
    for (unsigned i = threadIdx.x; i < TILE; i += THREADS) {
        t.first[i] = NONE;
    }
    __syncthreads();
    if (hi - lo <= DENSE * TILE) {
        for (uint64_t i = lo + threadIdx.x; i < hi; i += THREADS) {
            const K quotient = keys[i] >> items.bits;
            if (i == lo || keys[i - 1] >> items.bits != quotient) {
                t.first[(uint64_t)quotient - base] = (uint32_t)(i - lo);
            }
        }
    } else {
        for (unsigned i = threadIdx.x; i < TILE; i += THREADS) {
            const K quotient = base + i;
            const uint64_t at = quotient_lower<K>(keys, lo, hi, quotient << items.bits);
            if (at < hi && keys[at] >> items.bits == quotient) {
                t.first[i] = (uint32_t)(at - lo);
            }
        }
    }
    __syncthreads();
}

/* ---- lengths and layout ---- */

/* The old run of a thread's i-th quotient; `rank` counts those before it, and goes on. */
static __device__ __forceinline__ struct quotient_run
old_run(const struct tile_shared &t, unsigned quotient, unsigned *rank)
{
    struct quotient_run run = {0, 0};
    if ((t.occupied[quotient / 32] >> quotient % 32 & 1) != 0) {
        run.begin = quotient_later(t.ends[*rank], quotient);
        run.end = t.ends[++*rank];
    }
    return run;
}

static __device__ __forceinline__ unsigned
old_rank(const struct tile_shared &t, unsigned quotient)
{
    const uint32_t before = t.occupied[quotient / 32] & ((1u << quotient % 32) - 1);
    return t.ranks[quotient / 32] + (unsigned)__popc(before);
}

/* A change as one thread block has it. */
template <typename K> struct change {
    struct hspz_cuda_quotient old, made;
    struct quotient_items<K> items;
    uint64_t base, lo, hi;
};

/* The run of a quotient of the tile, merged. */
template <typename S, typename K, typename OUT>
static __device__ __forceinline__ void
merge_run(const struct change<K> &c, const struct tile_shared &t, unsigned quotient,
          struct quotient_run run, OUT &out, struct quotient_sums &gone)
{
    run.begin += c.base;
    run.end += c.base;
    quotient_merge<S, K>(c.old, run, c.items, c.base + quotient, c.lo + t.first[quotient], c.hi,
                         out, gone);
}

template <typename S, typename K>
static __device__ void
measure_thread(const struct change<K> &c, struct tile_shared &t, struct state *mine,
               struct quotient_sums &come, struct quotient_sums &gone)
{
    const unsigned first = threadIdx.x * PER_THREAD;
    unsigned rank = old_rank(t, first);
    *mine = {0, 0};
    for (unsigned q = first; q < first + PER_THREAD; q++) {
        const struct quotient_run run = old_run(t, q, &rank);
        uint64_t length = run.end - run.begin;
        if (c.hi > c.lo && t.first[q] != NONE) {
            struct quotient_measure<S> out = {
                0, come
            };
            merge_run<S, K>(c, t, q, run, out, gone);
            length = out.length;
            come = out.sums;
        }
        t.runs[q] = (uint32_t)length;
        if (length > 0) {
            *mine = behind(*mine, {length, q + length});
        }
    }
}

/* ---- writing ---- */

static __device__ __forceinline__ void
mark_end(const struct hspz_cuda_quotient &made, uint64_t base, uint64_t place,
         struct tile_shared &t)
{
    if (place / 32 < END_WORDS) {
        atomicOr(&t.made_ends[place / 32], 1u << place % 32);
        return;
    }
    const uint64_t word = (base + place) / 32;
    atomicOr((uint32_t *)made.marks + word / (BLOCK_WORDS / 2) * BLOCK_WORDS + BLOCK_WORDS / 2 +
                 word % (BLOCK_WORDS / 2),
             1u << place % 32);
}

/* The thread's runs, the first of which begins at `at` or behind it. */
template <typename S, typename K>
static __device__ void
write_thread(const struct change<K> &c, struct tile_shared &t, uint64_t at)
{
    const unsigned first = threadIdx.x * PER_THREAD;
    unsigned rank = old_rank(t, first);
    struct quotient_sums gone = {0, 0, 0};
    S *const to = (S *)c.made.symbols + c.base;
    const S *const from = (const S *)c.old.symbols + c.base;
    uint32_t occupied = 0;
    if (first % HSPZ_CUDA_QUOTIENT_BLOCK == 0 && c.base + first < c.made.quotients) {
        const uint64_t offset = at > first ? at - first : 0;
        c.made.offsets[(c.base + first) / HSPZ_CUDA_QUOTIENT_BLOCK] =
            (uint16_t)(offset < HSPZ_CUDA_QUOTIENT_FAR ? offset : HSPZ_CUDA_QUOTIENT_FAR);
    }
    for (unsigned q = first; q < first + PER_THREAD; q++) {
        const struct quotient_run run = old_run(t, q, &rank);
        const uint32_t length = t.runs[q];
        if (length == 0) {
            continue;
        }
        at = quotient_later(at, q);
        if (c.hi > c.lo && t.first[q] != NONE) {
            struct quotient_writer<S> out = {
                to + at
            };
            merge_run<S, K>(c, t, q, run, out, gone);
        } else {
            for (uint32_t s = 0; s < length; s++) {
                to[at + s] = from[run.begin + s];
            }
        }
        at += length;
        occupied |= 1u << (q - first);
        mark_end(c.made, c.base, at - 1, t);
    }
    if (occupied != 0) {
        atomicOr(&t.made_occupied[first / 32], occupied << first % 32);
    }
}

/* ---- kernels ---- */

/* All up to the lengths. */
template <typename S, typename K>
static __device__ void
open_tile(struct change<K> &c, const uint64_t *bounds, struct tile_shared &t)
{
    c.base = (uint64_t)blockIdx.x * TILE;
    c.lo = bounds[blockIdx.x];
    c.hi = bounds[blockIdx.x + 1];
    if (c.old.marks == NULL) {
        if (threadIdx.x < TILE_WORDS) {
            t.occupied[threadIdx.x] = t.ranks[threadIdx.x] = 0;
        }
    } else if (threadIdx.x < 32) {
        find_old_runs(c.old, c.base, t);
    }
    if (c.hi > c.lo) {
        find_items(c.items, c.base, c.lo, c.hi, t);
    } else {
        __syncthreads();
    }
}

template <typename S, typename K>
static __global__ void
__launch_bounds__(THREADS)
    measure_tiles(struct hspz_cuda_quotient old, struct hspz_cuda_quotient made,
                  struct hspz_cuda_quotient_items items, const uint64_t *bounds, uint64_t tiles,
                  struct hspz_cuda_quotient_state *states, struct hspz_cuda_quotient_tally *tally)
{
    __shared__ struct tile_shared t;
    struct change<K> c = {
        old, made, quotient_items_of<K>(made, items), 0, 0, 0
    };
    open_tile<S, K>(c, bounds, t);
    struct quotient_sums come = {0, 0, 0}, gone = {0, 0, 0};
    struct state mine, all;
    measure_thread<S, K>(c, t, &mine, come, gone);
    (void)scan_threads(mine, t.lengths, t.leasts, &all);
    if (threadIdx.x == 0) {
        states[blockIdx.x] = {all.length, all.length > 0 ? c.base + all.least : 0};
        if (blockIdx.x + 1 == tiles) {
            states[tiles] = {0, 0};
        }
    }
    if (c.hi > c.lo) {
        quotient_add_sums(come, &tally->come, tally->come_sums);
        quotient_add_sums(gone, &tally->gone, tally->gone_sums);
    }
}

template <typename S, typename K>
static __global__ void
__launch_bounds__(THREADS)
    write_tiles(struct hspz_cuda_quotient old, struct hspz_cuda_quotient made,
                struct hspz_cuda_quotient_items items, const uint64_t *bounds,
                const struct hspz_cuda_quotient_state *before,
                const struct hspz_cuda_quotient_tally *tally)
{
    __shared__ struct tile_shared t;
    if (tally->fits == 0) {
        return;
    }
    struct change<K> c = {
        old, made, quotient_items_of<K>(made, items), 0, 0, 0
    };
    if (threadIdx.x < TILE_WORDS) {
        t.made_occupied[threadIdx.x] = 0;
    }
    if (threadIdx.x < END_WORDS) {
        t.made_ends[threadIdx.x] = 0;
    }
    open_tile<S, K>(c, bounds, t);
    struct quotient_sums come = {0, 0, 0}, gone = {0, 0, 0};
    struct state mine, all;
    measure_thread<S, K>(c, t, &mine, come, gone);
    const uint64_t end = before[blockIdx.x].least;
    const struct state upto = scan_threads(mine, t.lengths, t.leasts, &all);
    const uint64_t e = end > c.base ? end - c.base : 0;
    write_thread<S, K>(c, t, quotient_later(e + upto.length, upto.least));
    __syncthreads();
    write_marks<THREADS>(made, c.base, t.made_occupied, t.made_ends);
}

static __global__ void
__launch_bounds__(THREADS) find_bounds(struct hspz_cuda_quotient_items items, unsigned bits,
                                       unsigned size, uint64_t tiles, uint64_t *bounds)
{
    const uint64_t tile = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (tile > tiles) {
        return;
    }
    const uint64_t count = items.counted != NULL ? *items.counted : items.count;
    const wide_key least = (wide_key)(tile * size) << bits;
    uint64_t at = count;
    if (tile < tiles && items.wide) {
        at = quotient_lower<wide_key>((const wide_key *)items.keys, 0, count, least);
    } else if (tile < tiles) {
        at = quotient_lower<uint64_t>((const uint64_t *)items.keys, 0, count, (uint64_t)least);
    }
    bounds[tile] = at;
}

/* ---- launches ---- */

/* LAUNCH(S, K) for the types of symbol and key. */
#define FOR_TYPES(slot_bits, wide, LAUNCH)                                                         \
    switch ((slot_bits) + ((wide) ? 1u : 0u)) {                                                    \
    case 8:                                                                                        \
        LAUNCH(uint8_t, uint64_t);                                                                 \
        break;                                                                                     \
    case 16:                                                                                       \
        LAUNCH(uint16_t, uint64_t);                                                                \
        break;                                                                                     \
    case 32:                                                                                       \
        LAUNCH(uint32_t, uint64_t);                                                                \
        break;                                                                                     \
    case 64:                                                                                       \
        LAUNCH(uint64_t, uint64_t);                                                                \
        break;                                                                                     \
    case 65:                                                                                       \
        LAUNCH(uint64_t, wide_key);                                                                \
        break;                                                                                     \
    default:                                                                                       \
        return cudaErrorInvalidValue;                                                              \
    }

extern "C" cudaError_t
hspz_cuda_launch_quotient_bounds(const struct hspz_cuda_quotient *q,
                                 const struct hspz_cuda_quotient_items *items, unsigned size,
                                 uint64_t *bounds, cudaStream_t stream)
{
    const uint64_t tiles = (q->quotients + size - 1) / size;
    const unsigned bits = q->remainder_bits + (items->op == HSPZ_FILTER_INSERT ? q->value_bits : 0);
    const unsigned grid = (unsigned)(tiles / THREADS + 1);
    find_bounds<<<grid, THREADS, 0, stream>>>(*items, bits, size, tiles, bounds);
    return cudaGetLastError();
}

template <typename S, typename K>
static void
measure(const struct hspz_cuda_quotient *old, const struct hspz_cuda_quotient *made,
        const struct hspz_cuda_quotient_items *items, const uint64_t *bounds,
        struct hspz_cuda_quotient_state *states, struct hspz_cuda_quotient_tally *tally,
        cudaStream_t stream)
{
    const uint64_t tiles = hspz_cuda_quotient_tiles(made->quotients);
    measure_tiles<S, K><<<(unsigned)tiles, THREADS, 0, stream>>>(*old, *made, *items, bounds, tiles,
                                                                 states, tally);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_measure(const struct hspz_cuda_quotient *old,
                                  const struct hspz_cuda_quotient *made,
                                  const struct hspz_cuda_quotient_items *items,
                                  const uint64_t *bounds, struct hspz_cuda_quotient_state *states,
                                  struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
#define MEASURE(S, K) measure<S, K>(old, made, items, bounds, states, tally, stream)
    FOR_TYPES(made->slot_bits, items->wide, MEASURE)
    return cudaGetLastError();
}

template <typename S, typename K>
static void
write(const struct hspz_cuda_quotient *old, const struct hspz_cuda_quotient *made,
      const struct hspz_cuda_quotient_items *items, const uint64_t *bounds,
      const struct hspz_cuda_quotient_state *before, const struct hspz_cuda_quotient_tally *tally,
      cudaStream_t stream)
{
    const unsigned grid = (unsigned)hspz_cuda_quotient_tiles(made->quotients);
    write_tiles<S, K><<<grid, THREADS, 0, stream>>>(*old, *made, *items, bounds, before, tally);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_write(const struct hspz_cuda_quotient *old,
                                const struct hspz_cuda_quotient *made,
                                const struct hspz_cuda_quotient_items *items,
                                const uint64_t *bounds,
                                const struct hspz_cuda_quotient_state *before,
                                const struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
#define WRITE(S, K) write<S, K>(old, made, items, bounds, before, tally, stream)
    FOR_TYPES(made->slot_bits, items->wide, WRITE)
    return cudaGetLastError();
}
