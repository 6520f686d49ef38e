/* A part of the quotients as a thread block has it: its items by quotient, and its old runs
 * (engine/cuda/kernels/quotient_part.cu). */
#pragma once

#include "engine/cuda/kernels/quotient_merge.cuh"
#include "engine/cuda/kernels/quotient_stretch.cuh"

#define THREADS 512u
#define WARPS (THREADS / 32)
#define PART HSPZ_CUDA_QUOTIENT_PART
#define MOST HSPZ_CUDA_QUOTIENT_PART_ITEMS
#define PER_THREAD (PART / THREADS)
#define ITEMS_PER_THREAD (MOST / THREADS)
#define PART_WORDS (PART / 32) /* of bits, of 32 */
#define END_WORDS (2 * PART_WORDS)
#define SUMS 7u
#define OF_QUOTIENT 256u  /* items of an insert that a quotient takes; more go over */
#define INSERTED_MOST 16u /* items of a quotient that are sorted by insertion */
#define LEAST_ROUNDS 4u
#define FEW_EQUAL 4u /* items that are looked at one by one */

static_assert(PER_THREAD == 8, "a thread's quotients are a byte");
static_assert(MOST < UINT16_MAX, "places of items are half a word");

template <typename S> struct part_shared {
    /* Of each quotient, two a word: how many items; and then, where they end. */
    alignas(16) uint32_t places[PART / 2];
    uint32_t ends[PART + 1]; /* behind each old run; [0]: where the first may begin */
    S symbols[MOST];
    uint32_t made_occupied[PART_WORDS], made_ends[END_WORDS];
    uint32_t warps[WARPS];
    uint64_t lengths[WARPS], leasts[WARPS]; /* of the warps */
    unsigned long long sums[SUMS];          /* come, gone, yes */
    uint64_t part, before, end;
};

/* ---- sums ---- */

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

/* What the threads before this one bring; *all gets the block's. */
static __device__ uint32_t
sum_threads(uint32_t mine, uint32_t *warps, uint32_t *all)
{
    const uint32_t upto = warp_sums(mine);
    uint32_t before = 0, sum = 0;
    if (threadIdx.x % 32 == 31) {
        warps[threadIdx.x / 32] = upto;
    }
    __syncthreads();
    for (unsigned w = 0; w < WARPS; w++) {
        before += w < threadIdx.x / 32 ? warps[w] : 0;
        sum += warps[w];
    }
    __syncthreads();
    *all = sum;
    return before + upto - mine;
}

/* Adds a warp's to the block's. */
static __device__ __forceinline__ void
add_warp(uint64_t mine, unsigned long long *sum)
{
    if (__ballot_sync(UINT32_MAX, mine != 0) == 0) {
        return;
    }
    for (unsigned with = 16; with > 0; with /= 2) {
        mine += __shfl_xor_sync(UINT32_MAX, mine, (int)with);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(sum, (unsigned long long)mine);
    }
}

/* ---- items ---- */

/* A change as one thread block has it. */
template <typename S> struct change {
    struct hspz_cuda_quotient old, made;
    unsigned bits; /* of a key, below the quotient */
    uint64_t base;
};

static __device__ __forceinline__ uint32_t
quotient_in_part(uint32_t item, unsigned bits)
{
    return item >> bits & (PART - 1);
}

/* Counts an item; how many of its quotient were before. */
template <typename S>
static __device__ __forceinline__ uint32_t
take_rank(uint32_t quotient, struct part_shared<S> &t)
{
    const unsigned half = quotient % 2 * 16;
    return atomicAdd(&t.places[quotient / 2], 1u << half) >> half & UINT16_MAX;
}

/* Where the items of a quotient end, and where they begin, once all are counted. */
template <typename S>
static __device__ __forceinline__ uint32_t
items_upto(const struct part_shared<S> &t, unsigned quotient)
{
    return t.places[quotient / 2] >> quotient % 2 * 16 & UINT16_MAX;
}

template <typename S>
static __device__ __forceinline__ uint32_t
items_before(const struct part_shared<S> &t, unsigned quotient)
{
    return quotient == 0 ? 0 : items_upto(t, quotient - 1);
}

/* Brings the smallest ones to the front, all that are equal; how many. */
template <typename S>
static __device__ __forceinline__ uint32_t
sort_least(S *symbols, uint32_t count)
{
    uint32_t front = 0;
    S least = symbols[0];
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
    for (uint32_t i = 1; i < count; i++) {
        least = symbols[i] < least ? symbols[i] : least;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (symbols[i] == least) {
            symbols[i] = symbols[front];
            symbols[front++] = least;
        }
    }
    return front;
}

/* Few by insertion; of many, which may be few different ones, the smallest first, and then those
 * far apart. */
template <typename S>
static __device__ __forceinline__ void
sort_run(S *symbols, uint32_t count)
{
    for (unsigned i = 0; i < LEAST_ROUNDS && count > INSERTED_MOST; i++) {
        const uint32_t least = sort_least<S>(symbols, count);
        symbols += least;
        count -= least;
    }
    for (uint32_t gap = count <= INSERTED_MOST ? 1 : count / 9 * 4; gap > 0;
         gap = gap == 1 ? 0 : (uint32_t)quotient_later(1, gap / 9 * 4)) {
        for (uint32_t i = gap; i < count; i++) {
            const S symbol = symbols[i];
            uint32_t at = i;
            for (; at >= gap && symbols[at - gap] > symbol; at -= gap) {
                symbols[at] = symbols[at - gap];
            }
            symbols[at] = symbol;
        }
    }
}

/* How many are distinct; 0 when some are there three times or more. */
template <typename S>
static __device__ __forceinline__ uint32_t
count_distinct(const S *symbols, uint32_t count)
{
    uint32_t distinct = 1;
    for (uint32_t i = 1; i < count; i++) {
        if (i > 1 && symbols[i - 2] == symbols[i]) {
            return 0;
        }
        distinct += symbols[i - 1] != symbols[i];
    }
    return distinct;
}

/* As quotient_cursor, of sorted symbols. */
template <typename S, bool INSERT> struct part_cursor {
    const S *symbols;
    uint32_t next, end;
    bool more, met;
    S low;
    uint64_t count;
    uint32_t yes;

    __device__ __forceinline__ part_cursor(const S *all, uint32_t begin, uint32_t behind)
        : symbols(all), next(begin), end(behind), more(true), met(false), low(0), count(0), yes(0)
    {
        advance();
    }
    __device__ __forceinline__ void advance()
    {
        const uint32_t first = next;
        met = false;
        more = next < end;
        if (!more) {
            return;
        }
        low = symbols[next];
        do {
            next++;
        } while (next < end && next - first < FEW_EQUAL && symbols[next] == low);
        if (next - first == FEW_EQUAL) {
            next = (uint32_t)quotient_upper<S>(symbols, first, end);
        }
        count = next - first;
    }
    __device__ __forceinline__ void meet()
    {
        yes += !met;
        met = true;
    }
    __device__ __forceinline__ enum hspz_filter_op op() const
    {
        return INSERT ? HSPZ_FILTER_INSERT : HSPZ_FILTER_DELETE;
    }
    __device__ __forceinline__ S symbol(unsigned) const
    {
        return low;
    }
};

/* ---- old runs ---- */

template <typename S>
static __device__ void
find_old_runs(const struct change<S> &c, uint32_t runs, struct part_shared<S> &t)
{
    const uint64_t begin = quotient_block_begin(c.old, c.base / HSPZ_CUDA_QUOTIENT_BLOCK);
    if (threadIdx.x == 0) {
        t.ends[0] = (uint32_t)(begin - c.base);
    }
    uint32_t found = 0;
    for (uint64_t from = begin / 32; found < runs; from += THREADS) {
        uint32_t all, ends = end_word(c.old, from + threadIdx.x);
        if (from + threadIdx.x == begin / 32) {
            ends &= UINT32_MAX << begin % 32;
        }
        uint32_t rank = found + sum_threads((uint32_t)__popc(ends), t.warps, &all);
        const uint32_t slot = (uint32_t)((from + threadIdx.x) * 32 - c.base);
        for (; ends != 0 && rank < runs; ends &= ends - 1) {
            t.ends[++rank] = slot + (uint32_t)__ffs((int)ends);
        }
        found += all;
    }
}

/* The run of a quotient, if `occupied`; `rank` counts those before it, and goes on. */
template <typename S>
static __device__ __forceinline__ struct quotient_run
old_run(const struct part_shared<S> &t, unsigned quotient, bool occupied, unsigned *rank)
{
    struct quotient_run run = {0, 0};
    if (occupied) {
        run.begin = quotient_later(t.ends[*rank], quotient);
        run.end = t.ends[++*rank];
    }
    return run;
}
