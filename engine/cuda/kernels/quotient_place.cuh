/* One entry into slots that are in use: the runs behind it move on up to the next free slots.
 *
 * Nothing at or behind slot `limit`, and no mark or offset of its block, is read or changed; an
 * entry that would need it is refused, and then nothing has changed. Nobody else may change slots
 * from the quotient's block on up to the limit meanwhile.
 *
 *   look      where the run is, and the entry in it; what it grows by
 *   reach     which runs move, and how far the last one does; moved runs have no gaps between them
 *   offsets   of the blocks that begin in between
 *   move      those runs, the last one first
 *   write     the entry */
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
    uint64_t before;      /* where the run before it ends, at most */
    uint64_t at, behind;  /* of the entry; equal when it is not there */
    uint64_t made, grown; /* its slots, and how many more those are */
};

static __device__ __forceinline__ uint64_t *
quotient_mark_word(const struct hspz_cuda_quotient &q, uint64_t slot, bool runend)
{
    return q.marks + slot / 128 * 4 + (runend ? 2 : 0) + slot / 64 % 2;
}

/* The first mark of [at, limit), a multiple of 64; `limit` when there is none. */
static __device__ __forceinline__ uint64_t
quotient_next_mark(const struct hspz_cuda_quotient &q, uint64_t at, uint64_t limit, bool runend)
{
    while (at < limit) {
        const uint64_t word = *quotient_mark_word(q, at, runend) >> at % 64;
        if (word != 0) {
            return at + (unsigned)__ffsll((long long)word) - 1;
        }
        at = (at / 64 + 1) * 64;
    }
    return limit;
}

/* The last mark below `at`, which there is. */
static __device__ __forceinline__ uint64_t
quotient_last_mark(const struct hspz_cuda_quotient &q, uint64_t at, bool runend)
{
    for (at--;; at = at / 64 * 64 - 1) {
        const uint64_t word = *quotient_mark_word(q, at, runend) << (63 - at % 64);
        if (word != 0) {
            return at - (unsigned)__clzll((long long)word);
        }
    }
}

/* The run of the quotient, or its place; false when that is not below the limit. */
static __device__ __forceinline__ bool
quotient_step_run(const struct hspz_cuda_quotient &q, uint64_t limit, struct quotient_step *s)
{
    const uint64_t block = s->quotient / HSPZ_CUDA_QUOTIENT_BLOCK;
    if (q.offsets[block] == HSPZ_CUDA_QUOTIENT_FAR) {
        return false;
    }
    uint64_t at = block * HSPZ_CUDA_QUOTIENT_BLOCK + q.offsets[block];
    uint64_t other = block * HSPZ_CUDA_QUOTIENT_BLOCK;
    const uint64_t behind = other + HSPZ_CUDA_QUOTIENT_BLOCK;
    for (other = quotient_next_mark(q, other, behind, false); other < s->quotient && at < limit;
         other = quotient_next_mark(q, other + 1, behind, false)) {
        at = quotient_next_mark(q, at, limit, true) + 1;
    }
    if (at >= limit) {
        return false;
    }
    s->before = at;
    s->begin = s->end = quotient_later(at, s->quotient);
    if (other == s->quotient) {
        s->end = quotient_next_mark(q, s->begin, limit, true) + 1;
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

/* Runs behind the one that grows, as they move on. */
struct quotient_reach {
    uint64_t quotient;  /* of the last that moves, or of the one that grows */
    uint64_t old, made; /* where it ends */
};

/* False when that is not below the limit. With `offsets`, sets those of the blocks that begin
 * behind the quotient. */
static __device__ __forceinline__ bool
quotient_step_reach(const struct hspz_cuda_quotient &q, const struct quotient_step *s,
                    uint64_t limit, bool offsets, struct quotient_reach *r)
{
    *r = {s->quotient, s->end > s->begin ? s->end : s->before, s->end + s->grown};
    uint64_t next_block = (s->quotient / HSPZ_CUDA_QUOTIENT_BLOCK + 1) * HSPZ_CUDA_QUOTIENT_BLOCK;
    while (r->made <= limit) {
        const uint64_t next = quotient_next_mark(q, r->quotient + 1, limit, false);
        for (; offsets && next_block <= next && next_block < r->made;
             next_block += HSPZ_CUDA_QUOTIENT_BLOCK) {
            const uint64_t offset = r->made - next_block;
            q.offsets[next_block / HSPZ_CUDA_QUOTIENT_BLOCK] =
                (uint16_t)(offset < HSPZ_CUDA_QUOTIENT_FAR ? offset : HSPZ_CUDA_QUOTIENT_FAR);
        }
        if (next >= r->made) {
            return true;
        }
        const uint64_t begin = quotient_later(r->old, next);
        if (begin >= r->made) {
            return true;
        }
        const uint64_t end = quotient_next_mark(q, begin, limit, true) + 1;
        *r = {next, end, r->made + (end - begin)};
    }
    return false;
}

/* Moves the runs behind the one that grows, whose quotient is marked as occupied, up to the last
 * one. */
template <typename S>
static __device__ __forceinline__ void
quotient_step_move(const struct hspz_cuda_quotient &q, const struct quotient_step *s,
                   struct quotient_reach r)
{
    S *const symbols = (S *)q.symbols;
    while (r.quotient > s->quotient) {
        const uint64_t before = quotient_last_mark(q, r.quotient, false);
        uint64_t old = s->end > s->begin ? s->end : s->before; /* where the run before it ends */
        if (before > s->quotient) {
            old = quotient_last_mark(q, r.old - 1, true) + 1;
        }
        const uint64_t begin = quotient_later(old, r.quotient);
        *quotient_mark_word(q, r.old - 1, true) &= ~(UINT64_C(1) << (r.old - 1) % 64);
        *quotient_mark_word(q, r.made - 1, true) |= UINT64_C(1) << (r.made - 1) % 64;
        for (uint64_t n = r.old - begin; n > 0; n--) {
            symbols[--r.made] = symbols[--r.old];
        }
        r.old = old;
        r.quotient = before;
    }
}

/* Adds an entry, or to its count; a count of 1 is enough of a set. */
template <typename S>
static __device__ __noinline__ struct quotient_placed
quotient_place(const struct hspz_cuda_quotient &q, uint64_t quotient, S symbol, uint64_t count,
               uint64_t limit)
{
    struct quotient_placed placed = {true, 0, 0, 0};
    struct quotient_step s;
    struct quotient_reach reach;
    s.quotient = quotient;
    if (!quotient_step_run(q, limit, &s)) {
        return placed;
    }
    const uint64_t old = quotient_step_entry<S>(q, symbol, &s);
    const uint64_t sum = q.set ? 1 : quotient_add(old, count);
    s.made = quotient_length<S>(symbol, sum);
    s.grown = s.made - (s.behind - s.at);
    if (!quotient_step_reach(q, &s, limit, false, &reach)) {
        return placed;
    }
    placed = {false, old, sum, s.grown};
    if (s.grown > 0) {
        (void)quotient_step_reach(q, &s, limit, true, &reach);
        *quotient_mark_word(q, quotient, false) |= UINT64_C(1) << quotient % 64;
        quotient_step_move<S>(q, &s, reach);
        S *const symbols = (S *)q.symbols;
        for (uint64_t at = s.end; at > s.behind; at--) {
            symbols[at - 1 + s.grown] = symbols[at - 1];
        }
        if (s.end > s.begin) {
            *quotient_mark_word(q, s.end - 1, true) &= ~(UINT64_C(1) << (s.end - 1) % 64);
        }
        const uint64_t last = s.end + s.grown - 1;
        *quotient_mark_word(q, last, true) |= UINT64_C(1) << last % 64;
    }
    (void)quotient_put<S>((S *)q.symbols + s.at, symbol, sum);
    return placed;
}
