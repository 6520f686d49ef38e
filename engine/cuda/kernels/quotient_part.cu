/* New slots from old ones and items in the order of their parts, in one pass: a part of the
 * quotients a thread block.
 *
 *   order      items are counted by quotient, and put beside each other; then those of each
 *              quotient are sorted
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

/* Takes the next part; how many items it has, of which there may be none. */
template <typename S>
static __device__ void
open_part(struct change<S> &c, const struct part_items &items, unsigned long long *next,
          struct hspz_cuda_quotient_tally *tally, struct part_shared<S> &t)
{
    uint64_t mine = 0;
    if (threadIdx.x == 0) {
        t.part = atomicAdd(next, 1ull);
        t.items = 0;
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
    for (unsigned s = threadIdx.x; s < items.segments; s += THREADS) {
        const uint64_t *const bounds = items.bounds + s * (items.parts + 1) + t.part;
        mine += bounds[1] - bounds[0];
    }
    if (mine > 0) { /* a part has fewer than 2^31 */
        atomicAdd(&t.items, (uint32_t)mine);
    }
    __syncthreads();
    if (t.items > MOST) {
        tally->crowded = 1;
    }
}

/* All up to the lengths. */
template <typename S>
static __device__ void
order_part(const struct change<S> &c, const struct part_items &items, struct thread_runs &mine,
           struct part_shared<S> &t)
{
    const bool any = t.items <= MOST;
    if (any) {
        for_items(items, t.part, [&](uint64_t key) { (void)take_place<S>(c, key, t); });
    }
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
        counts[i] = t.places[mine.first / 2 + i];
        sum += (counts[i] & UINT16_MAX) + (counts[i] >> 16);
    }
    const uint32_t before = sum_threads(sum, t.warps, &all);
    uint32_t at = before & UINT16_MAX;
    mine.rank = before >> 16;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < PER_THREAD / 2; i++) {
        const uint32_t second = at + (counts[i] & UINT16_MAX);
        t.places[mine.first / 2 + i] = at | second << 16;
        at = second + (counts[i] >> 16);
    }
    __syncthreads();
    if (any) {
        for_items(items, t.part, [&](uint64_t key) {
            t.symbols[take_place<S>(c, key, t)] = (S)(key & quotient_low(c.bits));
        });
    }
    if (all >> 16 != 0) {
        find_old_runs<S>(c, all >> 16, t);
    }
    __syncthreads();
}

template <typename S, bool INSERT>
static __global__ void
__launch_bounds__(THREADS, 2)
    merge_parts(struct hspz_cuda_quotient old, struct hspz_cuda_quotient made,
                struct part_items items, uint64_t *words, struct hspz_cuda_quotient_tally *tally)
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
    open_part<S>(c, items, (unsigned long long *)words + items.parts, tally, t);
    order_part<S>(c, items, mine, t);
    const struct state length = measure_thread<S, INSERT>(c, t, mine);
    const struct state upto = scan_threads(length, t.lengths, t.leasts, &all);
    if (threadIdx.x < 32) {
        place_part<S>(c, all, words, items.parts, tally, t);
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
      const struct hspz_cuda_quotient_items *items, const uint64_t *bounds, uint64_t *words,
      struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    struct part_items all = {(const uint64_t *)items->keys,
                             bounds,
                             items->segment_items,
                             hspz_cuda_quotient_parts(made->quotients),
                             items->segments > 0 ? items->segments : 1,
                             THREADS};
    while (all.lanes > 32 && THREADS / all.lanes < all.segments) {
        all.lanes /= 2;
    }
    const auto kernel =
        items->op == HSPZ_FILTER_INSERT ? merge_parts<S, true> : merge_parts<S, false>;
    kernel<<<(unsigned)all.parts, THREADS, 0, stream>>>(*old, *made, all, words, tally);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_parts(const struct hspz_cuda_quotient *old,
                                const struct hspz_cuda_quotient *made,
                                const struct hspz_cuda_quotient_items *items,
                                const uint64_t *bounds, uint64_t *words,
                                struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    if (items->wide || (items->op != HSPZ_FILTER_INSERT && items->op != HSPZ_FILTER_DELETE)) {
        return cudaErrorInvalidValue;
    }
    switch (made->slot_bits) {
    case 8:
        merge<uint8_t>(old, made, items, bounds, words, tally, stream);
        break;
    case 16:
        merge<uint16_t>(old, made, items, bounds, words, tally, stream);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
