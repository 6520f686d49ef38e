/* One entry into slots that are in use: what is behind it moves on, up to the next free slots.
 *
 * Nothing at or behind slot `limit`, a multiple of 128, and no mark or offset of its block, is read
 * or changed; an entry that would need it is refused, and then nothing has changed. Nobody else may
 * change slots from the quotient's block on up to the limit meanwhile.
 *
 *   run      where it is, by the marks of the quotient's block
 *   entry    where it is in the run; what it grows by
 *   free     as many free slots behind the run as it grows by
 *   shift    for each of them, all up to there moves on by a slot
 *   write    the entry */
#pragma once

#include "engine/cuda/kernels/quotient.cuh"

struct quotient_placed {
    bool refused;
    uint64_t old, made; /* counts; old is 0 when it was not there */
    uint64_t grown;     /* slots */
};

/* A change of one run. */
struct quotient_step {
    uint64_t quotient;
    uint64_t begin, end;  /* of its run; of one that is not there, where it is to begin */
    uint64_t at, behind;  /* of the entry; equal when it is not there */
    uint64_t made, grown; /* its slots, and how many more those are */
};

static __device__ __forceinline__ uint64_t *
quotient_mark_word(const struct hspz_cuda_quotient &q, uint64_t slot, bool runend)
{
    return q.marks + slot / 128 * 4 + (runend ? 2 : 0) + slot / 64 % 2;
}

/* Marks of [at, end), which is not empty. */
static __device__ __forceinline__ unsigned
quotient_occupied(const struct hspz_cuda_quotient &q, uint64_t at, uint64_t end)
{
    unsigned ones = 0;
    for (;;) {
        uint64_t word = *quotient_mark_word(q, at, false) >> at % 64;
        const uint64_t next = (at / 64 + 1) * 64;
        if (end <= next) {
            return ones + (unsigned)__popcll(word << (next - end) << at % 64);
        }
        ones += (unsigned)__popcll(word);
        at = next;
    }
}

/* Behind the `runs`-th run from `at` on; more than the limit when that is not below it. */
static __device__ __forceinline__ uint64_t
quotient_behind_runs(const struct hspz_cuda_quotient &q, uint64_t at, unsigned runs, uint64_t limit)
{
    while (runs > 0) {
        if (at >= limit) {
            return limit + 1;
        }
        const uint64_t word = *quotient_mark_word(q, at, true) >> at % 64;
        const unsigned ones = (unsigned)__popcll(word);
        if (runs <= ones) {
            return at + quotient_select(word, runs) + 1;
        }
        runs -= ones;
        at = (at / 64 + 1) * 64;
    }
    return at;
}

/* The run of the quotient, or its place; false when that is not below the limit. */
static __device__ __forceinline__ bool
quotient_step_run(const struct hspz_cuda_quotient &q, uint64_t limit, struct quotient_step *s)
{
    const uint64_t block = s->quotient / HSPZ_CUDA_QUOTIENT_BLOCK;
    const uint64_t first = block * HSPZ_CUDA_QUOTIENT_BLOCK;
    if (q.offsets[block] == HSPZ_CUDA_QUOTIENT_FAR) {
        return false;
    }
    const unsigned runs = s->quotient > first ? quotient_occupied(q, first, s->quotient) : 0;
    const uint64_t at = quotient_behind_runs(q, first + q.offsets[block], runs, limit);
    if (at >= limit) {
        return false;
    }
    s->begin = s->end = quotient_later(at, s->quotient);
    if ((*quotient_mark_word(q, s->quotient, false) >> s->quotient % 64 & 1) != 0) {
        s->end = quotient_behind_runs(q, s->begin, 1, limit);
    }
    return s->end <= limit;
}

/* The entry's place in the run, and its count. */
template <typename S>
static __device__ __forceinline__ uint64_t
quotient_step_entry(const struct hspz_cuda_quotient &q, S symbol, struct quotient_step *s)
{
    quotient_reader<S> reader(q.symbols);
    s->at = s->behind = s->end;
    for (uint64_t at = s->begin; at < s->end;) {
        const uint64_t from = at;
        const struct quotient_entry<S> entry = quotient_next<S>(reader, &at, s->end);
        if (entry.symbol >= symbol) {
            s->at = from;
            s->behind = entry.symbol == symbol ? at : from;
            return entry.symbol == symbol ? entry.count : 0;
        }
    }
    return 0;
}

/* The first free slot from *end on, behind which runs of quotients up to `quotient` are; both move
 * behind it. `limit` when there is none below it. */
static __device__ __forceinline__ uint64_t
quotient_step_free(const struct hspz_cuda_quotient &q, uint64_t *quotient, uint64_t *end,
                   uint64_t limit)
{
    while (*end < limit) {
        const unsigned runs = *end > *quotient ? quotient_occupied(q, *quotient + 1, *end + 1) : 0;
        *quotient = quotient_later(*quotient, *end);
        if (runs == 0) {
            return (*end)++;
        }
        *end = quotient_behind_runs(q, *end, runs, limit);
    }
    return limit;
}

/* Runend bits from .. end - 1 move on by one; the first becomes 0. */
static __device__ __forceinline__ void
quotient_shift_marks(const struct hspz_cuda_quotient &q, uint64_t from, uint64_t end)
{
    uint64_t carry = 0;
    for (uint64_t at = from / 64 * 64; at <= end; at += 64) {
        uint64_t *const word = quotient_mark_word(q, at, true);
        const uint64_t old = *word;
        /* Those that change: from .. end. */
        uint64_t mask = UINT64_MAX;
        if (at < from) {
            mask <<= from - at;
        }
        if (end - at < 63) {
            mask &= (UINT64_C(1) << (end - at + 1)) - 1;
        }
        const uint64_t moved = ((old & mask) << 1 | carry) & mask;
        carry = old >> 63;
        *word = (old & ~mask) | moved;
    }
}

/* Symbols from .. end - 1 move on by one, a word at a time, the last one first. */
template <typename S>
static __device__ __forceinline__ void
quotient_shift_symbols(const struct hspz_cuda_quotient &q, uint64_t from, uint64_t end)
{
    const unsigned a_word = 8 / sizeof(S), bits = 8 * sizeof(S) % 64;
    uint64_t *const words = (uint64_t *)q.symbols;
    for (uint64_t at = end / a_word; end > from; at--) {
        const uint64_t old = words[at];
        uint64_t moved = at > 0 ? words[at - 1] : 0;
        if (bits != 0) {
            moved = old << bits | moved >> (64 - bits) % 64;
        }
        /* Those that change: from + 1 .. end. */
        uint64_t mask = UINT64_MAX;
        if (end % a_word + 1 < a_word) {
            mask = (UINT64_C(1) << bits * (end % a_word + 1)) - 1;
        }
        if (at * a_word <= from) {
            mask &= from % a_word + 1 < a_word ? UINT64_MAX << bits * (from % a_word + 1) : 0;
        }
        words[at] = (old & ~mask) | (moved & mask);
        end = at * a_word > 0 ? at * a_word - 1 : 0;
        if (at * a_word <= from) {
            return;
        }
    }
}

/* A slot for the run at s->behind, since slot `free` is free. */
template <typename S>
static __device__ __forceinline__ void
quotient_step_shift(const struct hspz_cuda_quotient &q, struct quotient_step *s, uint64_t free)
{
    quotient_shift_symbols<S>(q, s->behind, free);
    if (s->end > s->begin) {
        quotient_shift_marks(q, s->end - 1, free);
    } else {
        quotient_shift_marks(q, s->begin, free);
        *quotient_mark_word(q, s->begin, true) |= UINT64_C(1) << s->begin % 64;
        *quotient_mark_word(q, s->quotient, false) |= UINT64_C(1) << s->quotient % 64;
    }
    s->end++;
    for (uint64_t b = s->quotient / HSPZ_CUDA_QUOTIENT_BLOCK + 1;
         b * HSPZ_CUDA_QUOTIENT_BLOCK <= free; b++) {
        q.offsets[b] = (uint16_t)(q.offsets[b] + (q.offsets[b] != HSPZ_CUDA_QUOTIENT_FAR));
    }
}

/* Adds an entry, or to its count; a count of 1 is enough of a set. */
template <typename S>
static __device__ __forceinline__ struct quotient_placed
quotient_place(const struct hspz_cuda_quotient &q, uint64_t quotient, S symbol, uint64_t count,
               uint64_t limit)
{
    struct quotient_placed placed = {true, 0, 0, 0};
    struct quotient_step s;
    s.quotient = quotient;
    if (!quotient_step_run(q, limit, &s)) {
        return placed;
    }
    const uint64_t old = quotient_step_entry<S>(q, symbol, &s);
    const uint64_t sum = q.set ? 1 : quotient_add(old, count);
    s.made = quotient_length<S>(symbol, sum);
    s.grown = s.made - (s.behind - s.at);
    uint64_t upto = quotient, end = s.end, free = 0;
    for (uint64_t i = 0; i < s.grown; i++) {
        free = quotient_step_free(q, &upto, &end, limit);
        if (free >= limit) {
            return placed;
        }
    }
    placed = {false, old, sum, s.grown};
    for (uint64_t i = 0; i < placed.grown; i++) {
        if (placed.grown > 1) {
            upto = quotient;
            end = s.end;
            free = quotient_step_free(q, &upto, &end, limit);
        }
        quotient_step_shift<S>(q, &s, free);
    }
    (void)quotient_put<S>((S *)q.symbols + s.at, symbol, sum);
    return placed;
}
