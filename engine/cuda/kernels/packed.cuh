/* Reading packed sequence (engine/packed.h), on a device and on a host. */
#pragma once

#include "engine/extend.h"
#include "engine/packed.h"

HSPZ_DEVICE static inline uint64_t
packed_load(const uint64_t *at)
{
#ifdef __CUDA_ARCH__
    return __ldg((const unsigned long long *)at);
#else
    return *at;
#endif
}

/* Reads sixteen bases at a time, the first in the lowest nibble: from a place on to the right, or
 * from before it to the left; one way or the other. */
struct packed_reader {
    const uint64_t *at;
    uint64_t kept;
    unsigned shift;
};

HSPZ_DEVICE static inline struct packed_reader
packed_open(const uint64_t *words, uint64_t place)
{
    const uint64_t *at = words + place / HSPZ_PACKED_WORD;
    const struct packed_reader reader = {at, packed_load(at),
                                         (unsigned)(place % HSPZ_PACKED_WORD) * 4};
    return reader;
}

HSPZ_DEVICE static inline uint64_t
packed_take(struct packed_reader *reader, bool right)
{
    reader->at += right ? 1 : -1;
    const uint64_t next = packed_load(reader->at);
    const uint64_t low = right ? reader->kept : next, high = right ? next : reader->kept;
    reader->kept = next;
    return low >> reader->shift | high << 1 << (63 - reader->shift);
}

/* Sixteen bases from a place on. */
HSPZ_DEVICE static inline uint64_t
packed_bases(const uint64_t *words, uint64_t place)
{
    struct packed_reader reader = packed_open(words, place);
    return packed_take(&reader, true);
}

/* Sixteen pairs as bytes that index scores: those of even bases, and of odd ones. */
struct packed_pairs {
    uint64_t even, odd;
};

HSPZ_DEVICE static inline struct packed_pairs
packed_pair(uint64_t ref, uint64_t query)
{
    const uint64_t twos = UINT64_C(0x3333333333333333), fours = UINT64_C(0x0f0f0f0f0f0f0f0f);
    const uint64_t low = (ref & twos) | (query & twos) << 2;
    const uint64_t high = (ref >> 2 & twos) | (query & ~twos);
    const struct packed_pairs pairs = {(low & fours) | (high & fours) << 4,
                                       (low >> 4 & fours) | (high & ~fours)};
    return pairs;
}

/* Of base k of them. */
HSPZ_DEVICE static inline uint32_t
packed_index(struct packed_pairs pairs, unsigned k)
{
    return (uint32_t)((k % 2 == 0 ? pairs.even : pairs.odd) >> (k / 2 * 8)) & 0xffu;
}

/* Bases from 16 w on of a piece of `len`, with separators behind the last. `backwards`: the piece
 * is read from its end. */
HSPZ_DEVICE static inline uint64_t
packed_word(const uint8_t *bases, uint64_t len, bool backwards, const uint8_t *classes, uint64_t w)
{
    uint64_t word = 0;
    for (unsigned k = 0; k < HSPZ_PACKED_WORD; k++) {
        const uint64_t i = w * HSPZ_PACKED_WORD + k;
        const uint64_t base =
            i < len ? classes[bases[backwards ? len - 1 - i : i]] : HSPZ_CLASS_SEPARATOR;
        word |= base << (4 * k);
    }
    return word;
}
