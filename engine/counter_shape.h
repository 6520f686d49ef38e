/* How the front of an exact counter keeps keys; the same on the host and on a device.
 *
 * A mixed key x of `bits` bits lies in one of 2^group_bits groups, by its highest bits; a group is
 * cut into 4 to 7 parts of what x has left, and each part is a block of 16 slots. x would like its
 * part's block; the rest, how far into the part it is, is what a slot keeps, with one bit that is
 * set in its other block, which follows from block and rest. So block and slot say all of x. */
#pragma once

#include "engine/filter_hash.h"

#include <stdint.h>

#define HSPZ_COUNTER_BLOCK_SLOTS 16u
/* With fewer a larger front would be of no use. */
#define HSPZ_COUNTER_SLOT_BITS_LEAST 5u
#define HSPZ_COUNTER_GROUP_LEAST 4u
#define HSPZ_COUNTER_GROUP_MOST 7u
/* In 16ths: it grows when it is this full; it is made to be this full; its pairs grow when they
 * are. */
#define HSPZ_COUNTER_FULL_16THS 15u
#define HSPZ_COUNTER_FIRST_16THS 13u
#define HSPZ_COUNTER_PAIRS_16THS 12u
/* Sizes that it tries when it grows. */
#define HSPZ_COUNTER_GROWTHS_MOST 3u

struct hspz_counter_shape {
    unsigned bits;                           /* of x; less group_bits at most 56 */
    unsigned group_bits, group_blocks;       /* blocks of a group: 4 .. 7 */
    unsigned slot_bits;                      /* of the rest, and one */
    uint64_t start[HSPZ_COUNTER_GROUP_MOST]; /* in its group, where the part of a block begins */
};

static inline HSPZ_HOST_DEVICE struct hspz_counter_shape
hspz_counter_shape_of(unsigned bits, unsigned group_bits, unsigned group_blocks)
{
    const unsigned left = bits - group_bits;
    struct hspz_counter_shape s;
    s.bits = bits;
    s.group_bits = group_bits;
    s.group_blocks = group_blocks;
    s.slot_bits = left - 1;
    for (unsigned i = 0; i < HSPZ_COUNTER_GROUP_MOST; i++) {
        s.start[i] =
            i < group_blocks ? (((uint64_t)i << left) + group_blocks - 1) / group_blocks : 0;
    }
    return s;
}

/* The next larger. */
static inline struct hspz_counter_shape
hspz_counter_shape_next(const struct hspz_counter_shape *s)
{
    return s->group_blocks == HSPZ_COUNTER_GROUP_MOST
               ? hspz_counter_shape_of(s->bits, s->group_bits + 1, HSPZ_COUNTER_GROUP_LEAST)
               : hspz_counter_shape_of(s->bits, s->group_bits, s->group_blocks + 1);
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_shape_blocks(const struct hspz_counter_shape *s)
{
    return (uint64_t)s->group_blocks << s->group_bits;
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_shape_slots(const struct hspz_counter_shape *s)
{
    return HSPZ_COUNTER_BLOCK_SLOTS * hspz_counter_shape_blocks(s);
}

/* Of 2^group_bits groups or more, for so many keys to fill at most so many 16ths; or the largest
 * that is of use. */
static inline struct hspz_counter_shape
hspz_counter_shape_for(unsigned bits, unsigned group_bits, uint64_t keys, unsigned full)
{
    struct hspz_counter_shape s = hspz_counter_shape_of(bits, group_bits, HSPZ_COUNTER_GROUP_LEAST);
    struct hspz_counter_shape next = s;
    while (next.slot_bits >= HSPZ_COUNTER_SLOT_BITS_LEAST &&
           16 * keys > full * hspz_counter_shape_slots(&s)) {
        s = next;
        next = hspz_counter_shape_next(&s);
    }
    return s;
}

/* Leads back; may be the block itself. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_other_block(const struct hspz_counter_shape *s, uint64_t block, uint64_t rest)
{
    const uint64_t blocks = hspz_counter_shape_blocks(s);
    const uint64_t sum = hspz_filter_scale(hspz_filter_mix(rest), blocks);
    return sum >= block ? sum - block : sum + blocks - block;
}

/* The two blocks of a key, and what its slot has in each. */
struct hspz_counter_choice {
    uint64_t block[2], value[2];
};

static inline HSPZ_HOST_DEVICE struct hspz_counter_choice
hspz_counter_choose(const struct hspz_counter_shape *s, uint64_t x)
{
    const unsigned left = s->bits - s->group_bits;
    const uint64_t low = x & ((UINT64_C(1) << left) - 1);
    const uint64_t part = low * s->group_blocks >> left;
    const uint64_t rest = low - s->start[part];
    struct hspz_counter_choice c;
    c.block[0] = (x >> left) * s->group_blocks + part;
    c.block[1] = hspz_counter_other_block(s, c.block[0], rest);
    c.value[0] = rest << 1;
    c.value[1] = rest << 1 | 1;
    return c;
}

/* The key of a slot. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_slot_x(const struct hspz_counter_shape *s, uint64_t block, uint64_t value)
{
    const uint64_t rest = value >> 1;
    if ((value & 1) != 0) {
        block = hspz_counter_other_block(s, block, rest);
    }
    return (block / s->group_blocks << (s->bits - s->group_bits)) +
           s->start[block % s->group_blocks] + rest;
}

/* ---- on a device ---- */

/* All keys are in one front there, whose slots have whole bytes. A block is a word whose low half
 * has a bit for each slot that is taken; the lowest byte of each slot; then, of slots of more
 * bytes, four, two and one of each, lowest first. */
#define HSPZ_COUNTER_DEVICE_GROUP_BITS 8u  /* at first */
#define HSPZ_COUNTER_DEVICE_FULL_16THS 14u /* keys that come at once choose less well */
#define HSPZ_COUNTER_DEVICE_TAGS 4u
#define HSPZ_COUNTER_DEVICE_RESTS (HSPZ_COUNTER_DEVICE_TAGS + HSPZ_COUNTER_BLOCK_SLOTS)

static inline HSPZ_HOST_DEVICE unsigned
hspz_counter_device_slot_bytes(const struct hspz_counter_shape *s)
{
    return (s->slot_bits + 7) / 8;
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_counter_device_block_bytes(const struct hspz_counter_shape *s)
{
    return HSPZ_COUNTER_DEVICE_TAGS + HSPZ_COUNTER_BLOCK_SLOTS * hspz_counter_device_slot_bytes(s);
}

static inline uint64_t
hspz_counter_device_bytes(const struct hspz_counter_shape *s)
{
    return hspz_counter_shape_blocks(s) * hspz_counter_device_block_bytes(s);
}

/* For so many keys. */
static inline struct hspz_counter_shape
hspz_counter_device_shape(unsigned bits, uint64_t keys)
{
    return hspz_counter_shape_for(bits, HSPZ_COUNTER_DEVICE_GROUP_BITS, keys,
                                  HSPZ_COUNTER_FIRST_16THS);
}
