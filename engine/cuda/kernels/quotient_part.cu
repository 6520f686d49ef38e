/* New slots from old ones and items dealt to parts of the quotients (quotient_deal.cu), in one
 * pass: a part a thread block.
 *
 *   order      items are counted by quotient, and put beside each other; then those of each
 *              quotient are sorted; of an insert, a quotient's go over when they are so many that
 *              one thread would be long at work on them, since all parts behind it wait
 *   old runs   where the k-th one of the part ends, from the runend bits
 *   lengths    of the merged runs, eight neighbouring quotients a thread, and a scan of
 *              max(e + length, least) over them
 *   look back  to the parts before, for where the part begins: each says what its scan came to, and
 *              when it knows, where it ends
 *   write      the merged runs
 *
 * Parts are taken in order, so that those which a part waits for are at work. Places are counted
 * from the part's first slot. */
#include "engine/cuda/kernels/quotient_back.cuh"
#include "engine/cuda/kernels/quotient_part.cuh"

/* ---- lengths and layout ---- */

/* What a thread has of its quotients. */
struct thread_runs {
    unsigned first;    /* quotient */
    unsigned occupied; /* old, a bit each */
    unsigned rank;     /* old runs before them */
    unsigned plain;    /* no old run, and items are as they are written */
};

template <typename S, bool INSERT, typename OUT>
static __device__ __forceinline__ void
merge_run(const struct change<S> &c, quotient_reader<S> &reader, struct quotient_run run,
          part_cursor<S, INSERT> &item, OUT &out, struct quotient_sums &gone)
{
    run.begin += c.base;
    run.end += c.base;
    if (INSERT) {
        quotient_merge_inserts<S>(reader, run, item, c.old.set, out, gone);
    } else {
        quotient_merge_others<S>(reader, run, item, c.old.value_bits, out, gone);
    }
}

template <typename S, bool INSERT>
static __device__ struct state
measure_thread(const struct change<S> &c, struct part_shared<S> &t, struct thread_runs &mine)
{
    struct quotient_sums come = {0, 0, 0}, gone = {0, 0, 0};
    struct state all = {0, 0};
    quotient_reader<S> reader(c.old.symbols);
    unsigned rank = mine.rank;
    uint32_t yes = 0, begin = items_before(t, mine.first);
    for (unsigned i = 0; i < PER_THREAD; i++) {
        const unsigned q = mine.first + i;
        const struct quotient_run run = old_run(t, q, mine.occupied >> i & 1, &rank);
        const uint32_t end = items_before(t, q + 1), count = end - begin;
        uint64_t length = run.end - run.begin;
        if (count > 0) {
            sort_run<S>(t.symbols + begin, count);
            uint32_t distinct = 0;
            if (INSERT && length == 0) {
                distinct = count_distinct<S>(t.symbols + begin, count);
            }
            if (distinct == count || (distinct > 0 && !c.old.set)) {
                mine.plain |= 1u << i;
                length = count;
                come.entries += distinct;
                come.low += count;
            } else {
                struct quotient_measure<S> out = {
                    0, come
                };
                part_cursor<S, INSERT> item(t.symbols, begin, end);
                merge_run<S, INSERT>(c, reader, run, item, out, gone);
                length = out.length;
                come = out.sums;
                yes += item.yes;
            }
        }
        if (length > 0) {
            all = behind(all, {length, q + length});
        }
        begin = end;
    }
    const uint64_t sums[SUMS] = {come.entries, come.low,  come.high, gone.entries,
                                 gone.low,     gone.high, yes};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < SUMS; i++) {
        add_warp(sums[i], &t.sums[i]);
    }
    return all;
}

/* ---- writing ---- */

template <typename S>
static __device__ __forceinline__ void
mark_end(const struct change<S> &c, uint64_t place, struct part_shared<S> &t)
{
    if (place / 32 < END_WORDS) {
        atomicOr(&t.made_ends[place / 32], 1u << place % 32);
        return;
    }
    const uint64_t word = (c.base + place) / 32;
    atomicOr((uint32_t *)c.made.marks + word / (BLOCK_WORDS / 2) * BLOCK_WORDS + BLOCK_WORDS / 2 +
                 word % (BLOCK_WORDS / 2),
             1u << place % 32);
}

/* The thread's runs, the first of which begins at `at` or behind it. */
template <typename S, bool INSERT>
static __device__ void
write_thread(const struct change<S> &c, const struct thread_runs &mine, uint64_t at,
             struct part_shared<S> &t)
{
    S *const to = (S *)c.made.symbols + c.base;
    quotient_reader<S> reader(c.old.symbols);
    const uint64_t slot = c.base + mine.first;
    unsigned rank = mine.rank;
    uint32_t occupied = 0, begin = items_before(t, mine.first);
    if (slot % HSPZ_CUDA_QUOTIENT_BLOCK == 0 && slot < c.made.quotients) {
        const uint64_t offset = at > mine.first ? at - mine.first : 0;
        c.made.offsets[slot / HSPZ_CUDA_QUOTIENT_BLOCK] =
            (uint16_t)(offset < HSPZ_CUDA_QUOTIENT_FAR ? offset : HSPZ_CUDA_QUOTIENT_FAR);
    }
    for (unsigned i = 0; i < PER_THREAD; i++) {
        const unsigned q = mine.first + i;
        const struct quotient_run run = old_run(t, q, mine.occupied >> i & 1, &rank);
        const uint32_t end = items_before(t, q + 1), count = end - begin;
        const uint64_t place = quotient_later(at, q);
        S *out = to + place;
        if (count > 0 && (mine.plain >> i & 1) == 0) {
            struct quotient_writer<S> writer = {
                out
            };
            struct quotient_sums gone = {0, 0, 0};
            part_cursor<S, INSERT> item(t.symbols, begin, end);
            merge_run<S, INSERT>(c, reader, run, item, writer, gone);
            out = writer.to;
        } else if (count > 0) {
            for (uint32_t s = begin; s < end; s++) {
                *out++ = t.symbols[s];
            }
        } else {
            for (uint64_t s = run.begin; s < run.end; s++) {
                *out++ = reader.at(c.base + s);
            }
        }
        if (out > to + place) {
            at = (uint64_t)(out - to);
            occupied |= 1u << i;
            mark_end<S>(c, at - 1, t);
        }
        begin = end;
    }
    if (occupied != 0) {
        atomicOr(&t.made_occupied[mine.first / 32], occupied << mine.first % 32);
    }
}

/* ---- kernel ---- */

/* Takes the next part. */
template <typename S>
static __device__ void
open_part(struct change<S> &c, unsigned long long *next, struct part_shared<S> &t)
{
    if (threadIdx.x == 0) {
        t.part = atomicAdd(next, 1ull);
    }
    for (unsigned i = threadIdx.x; i < PART / 2; i += THREADS) {
        t.places[i] = 0;
    }
    if (threadIdx.x < PART_WORDS) {
        t.made_occupied[threadIdx.x] = 0;
    }
    if (threadIdx.x < END_WORDS) {
        t.made_ends[threadIdx.x] = 0;
    }
    if (threadIdx.x < SUMS) {
        t.sums[threadIdx.x] = 0;
    }
    __syncthreads();
    c.base = t.part * PART;
}

static __device__ __forceinline__ void
put_over(const struct hspz_cuda_quotient_rooms &rooms, uint64_t part, uint32_t item,
         struct hspz_cuda_quotient_tally *tally)
{
    const uint32_t at = atomicAdd(&tally->over, 1u);
    if (at < rooms.over_room) {
        rooms.over[at] = part << rooms.item_bits | item;
    }
}

/* The part's items, counted by quotient; ranks: where they are among those. */
template <typename S, bool INSERT>
static __device__ __forceinline__ void
count_items(const struct change<S> &c, const struct hspz_cuda_quotient_rooms &rooms,
            const uint32_t *items, uint32_t count, struct hspz_cuda_quotient_tally *tally,
            uint16_t (&ranks)[ITEMS_PER_THREAD], struct part_shared<S> &t)
{
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < ITEMS_PER_THREAD; i++) {
        const uint32_t at = i * THREADS + threadIdx.x;
        if (at < count) {
            ranks[i] = (uint16_t)take_rank<S>(quotient_in_part(items[at], c.bits), t);
            if (INSERT && ranks[i] >= OF_QUOTIENT) {
                put_over(rooms, t.part, items[at], tally);
            }
        }
    }
}

/* Their symbols to where those of each quotient end. */
template <typename S, bool INSERT>
static __device__ __forceinline__ void
put_symbols(const struct change<S> &c, const uint32_t *items, uint32_t count,
            const uint16_t (&ranks)[ITEMS_PER_THREAD], struct part_shared<S> &t)
{
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < ITEMS_PER_THREAD; i++) {
        const uint32_t at = i * THREADS + threadIdx.x;
        if (at < count && (!INSERT || ranks[i] < OF_QUOTIENT)) {
            const uint32_t item = items[at];
            const uint32_t end = items_upto(t, quotient_in_part(item, c.bits));
            t.symbols[end - 1 - ranks[i]] = (S)(item & (uint32_t)quotient_low(c.bits));
        }
    }
}

/* Two counts, as far as they are taken. */
template <bool INSERT>
static __device__ __forceinline__ uint32_t
taken(uint32_t counts)
{
    const uint32_t first = counts & UINT16_MAX, second = counts >> 16;
    if (!INSERT) {
        return counts;
    }
    return (first < OF_QUOTIENT ? first : OF_QUOTIENT) |
           (second < OF_QUOTIENT ? second : OF_QUOTIENT) << 16;
}

/* All up to the lengths. */
template <typename S, bool INSERT>
static __device__ void
order_part(const struct change<S> &c, const struct hspz_cuda_quotient_rooms &rooms,
           struct hspz_cuda_quotient_tally *tally, struct thread_runs &mine,
           struct part_shared<S> &t)
{
    const uint32_t *const items = rooms.parts + t.part * rooms.part_room;
    const uint32_t dealt = rooms.part_counts[t.part];
    const uint32_t count = dealt < rooms.part_room ? dealt : rooms.part_room;
    uint16_t ranks[ITEMS_PER_THREAD];
    count_items<S, INSERT>(c, rooms, items, count, tally, ranks, t);
    mine = {threadIdx.x * PER_THREAD, 0, 0, 0};
    const uint64_t slot = c.base + mine.first;
    if (c.old.marks != NULL && slot < c.old.quotients) {
        mine.occupied =
            ((const uint8_t *)c.old.marks)[slot / HSPZ_CUDA_QUOTIENT_BLOCK * (BLOCK_WORDS * 4) +
                                           slot % HSPZ_CUDA_QUOTIENT_BLOCK / 8];
    }
    __syncthreads();
    uint32_t counts[PER_THREAD / 2], sum = (uint32_t)__popc(mine.occupied) << 16, all;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < PER_THREAD / 2; i++) {
        counts[i] = taken<INSERT>(t.places[mine.first / 2 + i]);
        sum += (counts[i] & UINT16_MAX) + (counts[i] >> 16);
    }
    const uint32_t before = sum_threads(sum, t.warps, &all);
    uint32_t at = before & UINT16_MAX;
    mine.rank = before >> 16;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < PER_THREAD / 2; i++) {
        const uint32_t first = at + (counts[i] & UINT16_MAX);
        at = first + (counts[i] >> 16);
        t.places[mine.first / 2 + i] = first | at << 16;
    }
    __syncthreads();
    put_symbols<S, INSERT>(c, items, count, ranks, t);
    if (all >> 16 != 0) {
        find_old_runs<S>(c, all >> 16, t);
    }
    __syncthreads();
}

template <typename S, bool INSERT>
static __global__ void
__launch_bounds__(THREADS, 2)
    merge_parts(struct hspz_cuda_quotient old, struct hspz_cuda_quotient made,
                struct hspz_cuda_quotient_rooms rooms, uint64_t *words,
                struct hspz_cuda_quotient_tally *tally)
{
    __shared__ struct part_shared<S> t;
    struct change<S> c = {
        old, made, made.remainder_bits, 0
    };
    struct thread_runs mine;
    struct state all;
    if (INSERT) {
        c.bits += made.value_bits;
    }
    const uint64_t parts = hspz_cuda_quotient_parts(made.quotients);
    open_part<S>(c, (unsigned long long *)words + parts, t);
    order_part<S, INSERT>(c, rooms, tally, mine, t);
    const struct state length = measure_thread<S, INSERT>(c, t, mine);
    const struct state upto = scan_threads(length, t.lengths, t.leasts, &all);
    if (threadIdx.x < 32) {
        place_part<S>(c, all, words, parts, tally, t);
    }
    __syncthreads();
    unsigned long long *const sums[SUMS] = {
        &tally->come,         &tally->come_sums[0], &tally->come_sums[1], &tally->gone,
        &tally->gone_sums[0], &tally->gone_sums[1], &tally->yes_count};
    if (threadIdx.x == 0) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (unsigned i = 0; i < SUMS; i++) {
            if (t.sums[i] != 0) {
                atomicAdd(sums[i], t.sums[i]);
            }
        }
    }
    if (t.end > made.slots) {
        return;
    }
    const uint64_t from = t.before > c.base ? t.before - c.base : 0;
    write_thread<S, INSERT>(c, mine, quotient_later(from + upto.length, upto.least), t);
    __syncthreads();
    write_marks<THREADS>(c.made, c.base, t.made_occupied, t.made_ends);
}

/* ---- launch ---- */

template <typename S>
static void
merge(const struct hspz_cuda_quotient *old, const struct hspz_cuda_quotient *made,
      enum hspz_filter_op op, const struct hspz_cuda_quotient_rooms *rooms, uint64_t *words,
      struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    const uint64_t parts = hspz_cuda_quotient_parts(made->quotients);
    const auto kernel = op == HSPZ_FILTER_INSERT ? merge_parts<S, true> : merge_parts<S, false>;
    kernel<<<(unsigned)parts, THREADS, 0, stream>>>(*old, *made, *rooms, words, tally);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_parts(const struct hspz_cuda_quotient *old,
                                const struct hspz_cuda_quotient *made, enum hspz_filter_op op,
                                const struct hspz_cuda_quotient_rooms *rooms, uint64_t *words,
                                struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    if ((op != HSPZ_FILTER_INSERT && op != HSPZ_FILTER_DELETE) || rooms->part_room > MOST) {
        return cudaErrorInvalidValue;
    }
    switch (made->slot_bits) {
    case 8:
        merge<uint8_t>(old, made, op, rooms, words, tally, stream);
        break;
    case 16:
        merge<uint16_t>(old, made, op, rooms, words, tally, stream);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
