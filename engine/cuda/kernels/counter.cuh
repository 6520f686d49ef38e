/* An exact counter in device memory: a key's slot in the front, its place in the table. */
#pragma once

#include "engine/cuda/kernels/counter.h"
#include "engine/cuda/kernels/filter.cuh"

#define COUNTER_NONE UINT64_MAX
/* Slots that a block has taken before it matters which one is emptier: of keys that come at once,
 * one for a block, 3 of 10,000 then find no slot at 7/8, in place of 2. */
#define COUNTER_FEW 10

static __device__ __forceinline__ uint64_t
counter_add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static __device__ __forceinline__ uint8_t *
counter_block(const struct hspz_cuda_counter &c, uint64_t block)
{
    return c.blocks + block * hspz_counter_device_block_bytes(&c.shape);
}

/* ---- slots ---- */

static __device__ __forceinline__ uint64_t
counter_slot(const uint8_t *block, unsigned bytes, unsigned slot)
{
    const uint8_t *at = block + HSPZ_COUNTER_DEVICE_RESTS;
    uint64_t value = block[HSPZ_COUNTER_DEVICE_TAGS + slot];
    unsigned shift = 8;
    bytes--;
    if ((bytes & 4) != 0) {
        value |= (uint64_t)((const uint32_t *)at)[slot] << shift;
        at += 4 * HSPZ_COUNTER_BLOCK_SLOTS;
        shift += 32;
    }
    if ((bytes & 2) != 0) {
        value |= (uint64_t)((const uint16_t *)at)[slot] << shift;
        at += 2 * HSPZ_COUNTER_BLOCK_SLOTS;
        shift += 16;
    }
    return (bytes & 1) != 0 ? value | (uint64_t)at[slot] << shift : value;
}

static __device__ __forceinline__ void
counter_set_slot(uint8_t *block, unsigned bytes, unsigned slot, uint64_t value)
{
    uint8_t *at = block + HSPZ_COUNTER_DEVICE_RESTS;
    block[HSPZ_COUNTER_DEVICE_TAGS + slot] = (uint8_t)value;
    value >>= 8;
    bytes--;
    if ((bytes & 4) != 0) {
        ((uint32_t *)at)[slot] = (uint32_t)value;
        at += 4 * HSPZ_COUNTER_BLOCK_SLOTS;
        value >>= 32;
    }
    if ((bytes & 2) != 0) {
        ((uint16_t *)at)[slot] = (uint16_t)value;
        at += 2 * HSPZ_COUNTER_BLOCK_SLOTS;
        value >>= 16;
    }
    if ((bytes & 1) != 0) {
        at[slot] = (uint8_t)value;
    }
}

/* The slot of a block that has the value; BLOCK_SLOTS: none. */
static __device__ __forceinline__ unsigned
counter_find_slot(const uint8_t *block, unsigned bytes, uint64_t value)
{
    const uint32_t *const words = (const uint32_t *)block;
    const uint32_t taken = words[0], tags = (uint32_t)(value & 0xff) * 0x01010101u;
    uint32_t equal = 0;
    for (unsigned w = 0; w < HSPZ_COUNTER_BLOCK_SLOTS / 4; w++) {
        equal |= ((__vcmpeq4(words[1 + w], tags) & 0x01010101u) * 0x10204080u >> 28) << 4 * w;
    }
    for (equal &= taken; equal != 0; equal &= equal - 1) {
        const unsigned slot = (unsigned)__ffs((int)equal) - 1;
        if (counter_slot(block, bytes, slot) == value) {
            return slot;
        }
    }
    return HSPZ_COUNTER_BLOCK_SLOTS;
}

/* The slot of a key, of all slots. */
static __device__ __forceinline__ uint64_t
counter_find_single(const struct hspz_cuda_counter &c, uint64_t x)
{
    const struct hspz_counter_choice choice = hspz_counter_choose(&c.shape, x);
    const unsigned bytes = hspz_counter_device_slot_bytes(&c.shape);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned slot =
            counter_find_slot(counter_block(c, choice.block[i]), bytes, choice.value[i]);
        if (slot < HSPZ_COUNTER_BLOCK_SLOTS) {
            return choice.block[i] * HSPZ_COUNTER_BLOCK_SLOTS + slot;
        }
    }
    return COUNTER_NONE;
}

/* Takes a slot of the emptier block, or of the first one while that has many (the other is then not
 * looked at); false: both are full. Nobody looks for keys meanwhile. */
static __device__ __forceinline__ bool
counter_put_single(const struct hspz_cuda_counter &c, uint64_t x)
{
    const struct hspz_counter_choice choice = hspz_counter_choose(&c.shape, x);
    const uint32_t full = (1u << HSPZ_COUNTER_BLOCK_SLOTS) - 1;
    uint8_t *const first = counter_block(c, choice.block[0]);
    uint8_t *const second = counter_block(c, choice.block[1]);
    uint32_t now = __ldcg((const uint32_t *)first);
    bool other = false;
    if (__popc(now) >= COUNTER_FEW) {
        const uint32_t there = __ldcg((const uint32_t *)second);
        other = __popc(there) < __popc(now);
        now = other ? there : now;
    }
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *const block = other ? second : first;
        while (now != full) {
            const uint32_t bit = ~now & (now + 1);
            now = atomicOr((uint32_t *)block, bit);
            if ((now & bit) == 0) {
                counter_set_slot(block, hspz_counter_device_slot_bytes(&c.shape),
                                 (unsigned)__ffs((int)bit) - 1,
                                 other ? choice.value[1] : choice.value[0]);
                return true;
            }
        }
        other = !other;
        now = __ldcg((const uint32_t *)(other ? second : first));
    }
    return false;
}

/* The mixed key of slot i; false: it is free. */
static __device__ __forceinline__ bool
counter_single_at(const struct hspz_cuda_counter &c, uint64_t i, uint64_t *x)
{
    const uint64_t block = i / HSPZ_COUNTER_BLOCK_SLOTS;
    const unsigned slot = (unsigned)(i % HSPZ_COUNTER_BLOCK_SLOTS);
    const uint8_t *const at = counter_block(c, block);
    if ((*(const uint32_t *)at >> slot & 1) == 0) {
        return false;
    }
    *x = hspz_counter_slot_x(&c.shape, block,
                             counter_slot(at, hspz_counter_device_slot_bytes(&c.shape), slot));
    return true;
}

/* ---- the table, which is never full ---- */

static __device__ __forceinline__ uint64_t
counter_home(const struct hspz_cuda_counter &c, uint64_t x)
{
    return hspz_filter_scale(x << (64 - c.shape.bits), c.pair_slots);
}

static __device__ __forceinline__ struct hspz_cuda_counter_pair *
counter_find_pair(const struct hspz_cuda_counter &c, uint64_t x)
{
    if (c.pair_slots == 0) {
        return NULL;
    }
    uint64_t at = counter_home(c, x);
    while (c.pairs[at].count != 0) {
        if (c.pairs[at].x == x) {
            return &c.pairs[at];
        }
        at = at + 1 == c.pair_slots ? 0 : at + 1;
    }
    return NULL;
}

/* Of a key that is not there, nor put by another thread; nobody looks for keys meanwhile. */
static __device__ __forceinline__ void
counter_put_pair(const struct hspz_cuda_counter &c, uint64_t x, uint64_t count)
{
    uint64_t at = counter_home(c, x);
    while (__ldcg(&c.pairs[at].count) != 0 ||
           atomicCAS(&c.pairs[at].count, 0ull, (unsigned long long)count) != 0) {
        at = at + 1 == c.pair_slots ? 0 : at + 1;
    }
    c.pairs[at].x = x;
}
