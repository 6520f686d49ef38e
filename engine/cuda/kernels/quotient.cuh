/* What a thread does with a quotient filter: finds runs, reads and writes their symbols.
 *
 *   quotient_run     where a quotient's run lies
 *   quotient_next    the next entry of a run
 *   quotient_look    count and smallest value of a fingerprint
 *   quotient_put     writes an entry
 *
 * S is the type of a symbol. engine/cpu/quotient.h says how entries are written. */
#pragma once

#include "engine/cuda/kernels/quotient.h"
#include "engine/filter_hash.h"

/* Where a run begins, and what is behind it. */
struct quotient_run {
    uint64_t begin, end;
};

/* Symbols in order, eight bytes at a time. */
template <typename S> struct quotient_reader {
    const uint64_t *words;
    uint64_t word, index;

    __device__ __forceinline__ quotient_reader(const void *symbols)
        : words((const uint64_t *)symbols), word(0), index(UINT64_MAX)
    {
    }
    __device__ __forceinline__ S at(uint64_t slot)
    {
        const uint64_t byte = slot * sizeof(S);
        if (byte / 8 != index) {
            index = byte / 8;
            word = words[index];
        }
        return (S)(word >> byte % 8 * 8);
    }
};

template <typename S> struct quotient_entry {
    S symbol;
    uint64_t count;
};

static __device__ __forceinline__ uint64_t
quotient_add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static __device__ __forceinline__ uint64_t
quotient_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The low `bits` bits; bits may be 64. */
static __device__ __forceinline__ uint64_t
quotient_low(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static __device__ __forceinline__ uint64_t
quotient_fingerprint(const struct hspz_cuda_quotient &q, uint64_t key)
{
    return hspz_filter_hash(key, q.salt) >> (64 - q.fingerprint_bits);
}

/* The k-th set bit, from 1, of a word that has so many. */
static __device__ __forceinline__ unsigned
quotient_select(uint64_t word, unsigned k)
{
    unsigned at = 0;
    uint32_t half = (uint32_t)word;
    unsigned ones = (unsigned)__popc(half);
    if (k > ones) {
        k -= ones;
        at = 32;
        half = (uint32_t)(word >> 32);
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned width = 16; width > 0; width /= 2) {
        ones = (unsigned)__popc(half & ((1u << width) - 1));
        if (k > ones) {
            k -= ones;
            at += width;
            half >>= width;
        }
    }
    return at;
}

/* ---- runs ---- */

/* Where the runs of the quotients of a block may begin, when that is far: the runs of the blocks
 * from the last near one on are counted through. */
static __device__ __noinline__ uint64_t
quotient_far(const struct hspz_cuda_quotient &q, uint64_t block)
{
    uint64_t near = block, runs = 0;
    do {
        near--;
        runs += (unsigned)__popcll(q.marks[4 * near]) + (unsigned)__popcll(q.marks[4 * near + 1]);
    } while (q.offsets[near] == HSPZ_CUDA_QUOTIENT_FAR);
    uint64_t at = near * HSPZ_CUDA_QUOTIENT_BLOCK + q.offsets[near];
    for (;;) {
        const uint64_t word = q.marks[at / 128 * 4 + 2 + at / 64 % 2] >> at % 64;
        const unsigned ones = (unsigned)__popcll(word);
        if (runs <= ones) {
            return runs == 0 ? at : at + quotient_select(word, (unsigned)runs) + 1;
        }
        runs -= ones;
        at = (at / 64 + 1) * 64;
    }
}

static __device__ __forceinline__ uint64_t
quotient_block_begin(const struct hspz_cuda_quotient &q, uint64_t block)
{
    const unsigned offset = q.offsets[block];
    return offset != HSPZ_CUDA_QUOTIENT_FAR ? block * HSPZ_CUDA_QUOTIENT_BLOCK + offset
                                            : quotient_far(q, block);
}

/* The `runs`-th run from `at` on, where one may begin; `quotient` is the last one's. */
static __device__ __forceinline__ struct quotient_run
quotient_seek(const struct hspz_cuda_quotient &q, uint64_t at, unsigned runs, uint64_t quotient)
{
    struct quotient_run run = {at, 0};
    for (;;) {
        const uint64_t begin = at & ~UINT64_C(63);
        uint64_t word = q.marks[at / 128 * 4 + 2 + at / 64 % 2];
        word &= UINT64_MAX << at % 64;
        const unsigned ones = (unsigned)__popcll(word);
        if (runs <= ones) {
            const unsigned last = quotient_select(word, runs);
            const uint64_t before = word & ((UINT64_C(1) << last) - 1);
            if (before != 0) {
                run.begin = begin + 64 - (unsigned)__clzll((long long)before);
            }
            run.begin = quotient_later(run.begin, quotient);
            run.end = begin + last + 1;
            return run;
        }
        if (ones != 0) {
            run.begin = begin + 64 - (unsigned)__clzll((long long)word);
        }
        runs -= ones;
        at = begin + 64;
    }
}

static __device__ __forceinline__ bool
quotient_find(const struct hspz_cuda_quotient &q, uint64_t quotient, struct quotient_run *out)
{
    const uint64_t block = quotient / HSPZ_CUDA_QUOTIENT_BLOCK;
    const unsigned bit = (unsigned)(quotient % 64);
    const ulonglong2 occupied = *(const ulonglong2 *)(q.marks + 4 * block);
    const bool second = quotient % HSPZ_CUDA_QUOTIENT_BLOCK >= 64;
    const uint64_t word = second ? occupied.y : occupied.x;
    if ((word >> bit & 1) == 0) {
        return false;
    }
    const unsigned runs =
        (unsigned)__popcll(word << (63 - bit)) + (second ? (unsigned)__popcll(occupied.x) : 0);
    *out = quotient_seek(q, quotient_block_begin(q, block), runs, quotient);
    return true;
}

/* ---- entries ---- */

/* The digits of a count from slot *at on, up to symbol x. */
template <typename S>
static __device__ __forceinline__ uint64_t
quotient_digits(quotient_reader<S> &reader, uint64_t *at, uint64_t end, S x)
{
    const uint64_t base = (S) ~(S)0;
    uint64_t value = 0;
    while (*at < end) {
        const S symbol = reader.at((*at)++);
        if (symbol == x) {
            break;
        }
        value = value * base + (symbol < x ? symbol : symbol - 1);
    }
    return quotient_add(value, 3);
}

/* The entry at slot *at, which moves behind it. */
template <typename S>
static __device__ __forceinline__ struct quotient_entry<S>
quotient_next(quotient_reader<S> &reader, uint64_t *at, uint64_t end) {
    struct quotient_entry<S> entry = {
        reader.at((*at)++), 1
    };
    if (*at >= end) {
        return entry;
    }
    const S x = entry.symbol, next = reader.at(*at);
    if (next > x) {
        return entry;
    }
    if (next == x) {
        ++*at;
        if (x != 0 || *at >= end || reader.at(*at) != 0) {
            entry.count = 2;
            return entry;
        }
        ++*at; /* three zeros */
    }
    entry.count = quotient_digits<S>(reader, at, end, x);
    return entry;
}

/* The number of a count's digits, and the place value of the first. */
template <typename S>
static __device__ __forceinline__ unsigned
quotient_places(uint64_t value, uint64_t *place)
{
    const uint64_t base = (S) ~(S)0;
    unsigned places = 1;
    *place = 1;
    while (value / *place >= base) {
        *place *= base;
        places++;
    }
    return places;
}

/* Slots of an entry. */
template <typename S>
static __device__ __forceinline__ unsigned
quotient_length(S x, uint64_t count)
{
    if (count <= 2) {
        return (unsigned)count;
    }
    uint64_t place;
    const unsigned places = quotient_places<S>(count - 3, &place);
    return x == 0 ? places + 4 : places + 2 + ((count - 3) / place >= x ? 1 : 0);
}

/* Writes an entry; behind it. */
template <typename S>
static __device__ __forceinline__ S *
quotient_put(S *to, S x, uint64_t count)
{
    *to++ = x;
    if (count == 1) {
        return to;
    }
    if (count == 2) {
        *to++ = x;
        return to;
    }
    const uint64_t base = (S) ~(S)0;
    uint64_t rest = count - 3, place;
    quotient_places<S>(rest, &place);
    if (x == 0) {
        *to++ = 0;
        *to++ = 0;
    } else if (rest / place >= x) {
        *to++ = 0;
    }
    for (; place > 0; place /= base) {
        const uint64_t digit = rest / place;
        rest %= place;
        *to++ = (S)(digit < x ? digit : digit + 1);
    }
    *to++ = x;
    return to;
}

/* ---- looking up ---- */

/* How often a fingerprint is there, and its smallest value; 0 when it is not. */
template <typename S>
static __device__ __forceinline__ uint64_t
quotient_look(const struct hspz_cuda_quotient &q, uint64_t fingerprint, uint64_t *value)
{
    struct quotient_run run;
    uint64_t count = 0;
    *value = 0;
    if (!quotient_find(q, fingerprint >> q.remainder_bits, &run)) {
        return 0;
    }
    const uint64_t wanted = fingerprint & quotient_low(q.remainder_bits);
    quotient_reader<S> reader(q.symbols);
    for (uint64_t at = run.begin; at < run.end;) {
        const struct quotient_entry<S> entry = quotient_next<S>(reader, &at, run.end);
        const uint64_t remainder = (uint64_t)entry.symbol >> q.value_bits;
        if (remainder > wanted) {
            break;
        }
        if (remainder == wanted) {
            *value = count == 0 ? entry.symbol & quotient_low(q.value_bits) : *value;
            count = quotient_add(count, entry.count);
        }
    }
    return count;
}
