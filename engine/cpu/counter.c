#include "engine/cpu/counter.h"

#include "engine/filter_hash.h"
#include "protocol/status.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_SLOTS HSPZ_COUNTER_BLOCK_SLOTS
/* A slot is read as 8 bytes from the byte on that it begins in. */
#define SPARE_BYTES 8u
#define SLOT_BITS_MOST 57u

/* ---- memory ---- */

static void *
take(struct hspz_counter_memory *memory, uint64_t bytes)
{
    const uint64_t before = atomic_fetch_add(&memory->used, bytes);
    void *made = NULL;
    if (memory->limit == 0 || (before <= memory->limit && bytes <= memory->limit - before)) {
        made = calloc(1, bytes);
    }
    if (made == NULL) {
        atomic_fetch_sub(&memory->used, bytes);
    }
    return made;
}

static void
give(struct hspz_counter_memory *memory, void *bytes, uint64_t len)
{
    if (bytes != NULL) {
        free(bytes);
        atomic_fetch_sub(&memory->used, len);
    }
}

/* ---- the front ---- */

static uint64_t
front_blocks(const struct hspz_counter_front *f)
{
    return hspz_counter_shape_blocks(&f->shape);
}

static uint64_t
front_slots(const struct hspz_counter_front *f)
{
    return hspz_counter_shape_slots(&f->shape);
}

static uint64_t
slot_bytes(const struct hspz_counter_front *f)
{
    return front_slots(f) * f->shape.slot_bits / 8 + SPARE_BYTES;
}

static uint64_t
slot_at(const struct hspz_counter_front *f, uint64_t slot)
{
    const uint64_t at = slot * f->shape.slot_bits;
    uint64_t word;
    memcpy(&word, f->slots + at / 8, sizeof(word));
    return word >> at % 8 & (UINT64_MAX >> (64 - f->shape.slot_bits));
}

static void
set_slot(struct hspz_counter_front *f, uint64_t slot, uint64_t value)
{
    const uint64_t at = slot * f->shape.slot_bits;
    const uint64_t mask = UINT64_MAX >> (64 - f->shape.slot_bits);
    uint64_t word;
    memcpy(&word, f->slots + at / 8, sizeof(word));
    word = (word & ~(mask << at % 8)) | value << at % 8;
    memcpy(f->slots + at / 8, &word, sizeof(word));
}

static uint64_t
front_x(const struct hspz_counter_front *f, uint64_t slot)
{
    return hspz_counter_slot_x(&f->shape, slot / BLOCK_SLOTS, slot_at(f, slot));
}

/* The slot of a key; UINT64_MAX: it is not there. */
static uint64_t
front_find(const struct hspz_counter_front *f, const struct hspz_counter_choice *c)
{
    for (int i = 0; i < 2; i++) {
        const uint64_t first = c->block[i] * BLOCK_SLOTS, end = first + f->taken[c->block[i]];
        for (uint64_t slot = first; slot < end; slot++) {
            if (slot_at(f, slot) == c->value[i]) {
                return slot;
            }
        }
    }
    return UINT64_MAX;
}

/* False: both blocks are full. */
static bool
front_put(struct hspz_counter_front *f, const struct hspz_counter_choice *c)
{
    const int i = f->taken[c->block[1]] < f->taken[c->block[0]];
    const uint64_t block = c->block[i];
    if (f->taken[block] == BLOCK_SLOTS) {
        return false;
    }
    set_slot(f, block * BLOCK_SLOTS + f->taken[block]++, c->value[i]);
    f->singles++;
    return true;
}

/* The last of its block takes its place. */
static void
front_remove(struct hspz_counter_front *f, uint64_t slot)
{
    const uint64_t block = slot / BLOCK_SLOTS;
    const uint64_t last = block * BLOCK_SLOTS + --f->taken[block];
    set_slot(f, slot, slot_at(f, last));
    f->singles--;
}

static bool
is_taken(const struct hspz_counter_front *f, uint64_t slot)
{
    return slot % BLOCK_SLOTS < f->taken[slot / BLOCK_SLOTS];
}

static void
front_give(struct hspz_counter_front *f, struct hspz_counter_memory *memory)
{
    give(memory, f->slots, slot_bytes(f));
    give(memory, f->taken, front_blocks(f));
    f->slots = f->taken = NULL;
}

/* Gives `f`, with its shape alone, arrays and all that `from` has; false: it does not fit, or there
 * is no memory. */
static bool
front_make(struct hspz_counter_front *f, const struct hspz_counter_front *from,
           struct hspz_counter_memory *memory)
{
    f->slots = take(memory, slot_bytes(f));
    f->taken = take(memory, front_blocks(f));
    bool good = f->slots != NULL && f->taken != NULL;
    /* The first of each block, then the second: block by block, the blocks would fill unevenly. */
    for (uint64_t i = 0; good && from != NULL && i < front_slots(from); i++) {
        const uint64_t blocks = front_blocks(from), slot = i % blocks * BLOCK_SLOTS + i / blocks;
        if (is_taken(from, slot)) {
            const struct hspz_counter_choice c =
                hspz_counter_choose(&f->shape, front_x(from, slot));
            good = front_put(f, &c);
        }
    }
    if (!good) {
        front_give(f, memory);
    }
    return good;
}

static bool
front_grow(struct hspz_counter_shard *s, struct hspz_counter_memory *memory)
{
    struct hspz_counter_front *f = &s->front, made = *f;
    bool grown = false;
    if (16 * f->singles < HSPZ_COUNTER_FULL_16THS * front_slots(f)) {
        return false;
    }
    for (unsigned i = 0; i < HSPZ_COUNTER_GROWTHS_MOST && !grown; i++) {
        made = (struct hspz_counter_front){.shape = hspz_counter_shape_next(&made.shape)};
        grown =
            made.shape.slot_bits >= HSPZ_COUNTER_SLOT_BITS_LEAST && front_make(&made, f, memory);
    }
    if (grown) {
        front_give(f, memory);
        *f = made;
    }
    return grown;
}

/* For so many keys, and their chance to be on one shard. */
static struct hspz_counter_front
front_for(unsigned bits, uint64_t keys)
{
    return (struct hspz_counter_front){
        .shape = hspz_counter_shape_for(bits, 0, keys, HSPZ_COUNTER_FIRST_16THS)};
}

/* ---- the table ---- */

static uint64_t
pair_home(const struct hspz_counter_shard *s, uint64_t x)
{
    return hspz_filter_scale(x << (64 - s->bits), s->pair_slots);
}

/* Where x is, or the free place where it would be; the table is never full. */
static uint64_t
pair_place(const struct hspz_counter_shard *s, uint64_t x)
{
    uint64_t at = pair_home(s, x);
    while (s->pairs[at].count != 0 && s->pairs[at].x != x) {
        at = at + 1 == s->pair_slots ? 0 : at + 1;
    }
    return at;
}

static struct hspz_counter_pair *
pair_find(const struct hspz_counter_shard *s, uint64_t x)
{
    if (s->pair_slots == 0) {
        return NULL;
    }
    struct hspz_counter_pair *pair = &s->pairs[pair_place(s, x)];
    return pair->count != 0 ? pair : NULL;
}

/* To a table of more places. */
static bool
pairs_grow(struct hspz_counter_shard *s, uint64_t slots, struct hspz_counter_memory *memory)
{
    struct hspz_counter_shard made = {.bits = s->bits, .pair_slots = slots};
    made.pairs = take(memory, made.pair_slots * sizeof(*made.pairs));
    if (made.pairs == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < s->pair_slots; i++) {
        if (s->pairs[i].count != 0) {
            made.pairs[pair_place(&made, s->pairs[i].x)] = s->pairs[i];
        }
    }
    give(memory, s->pairs, s->pair_slots * sizeof(*s->pairs));
    s->pairs = made.pairs;
    s->pair_slots = made.pair_slots;
    return true;
}

/* Of an x that is not there. */
static bool
pair_put(struct hspz_counter_shard *s, uint64_t x, uint64_t count,
         struct hspz_counter_memory *memory)
{
    if (16 * (s->pair_count + 1) > HSPZ_COUNTER_PAIRS_16THS * s->pair_slots &&
        !pairs_grow(s, s->pair_slots + s->pair_slots / 2 + 16, memory)) {
        return false;
    }
    s->pairs[pair_place(s, x)] = (struct hspz_counter_pair){x, count};
    s->pair_count++;
    return true;
}

/* ---- all of it ---- */

bool
hspz_counter_shard_init(struct hspz_counter_shard *s, unsigned key_bits, uint64_t keys,
                        struct hspz_counter_memory *memory)
{
    HSPZ_REQUIRE(key_bits >= HSPZ_COUNTER_BITS_LEAST && key_bits <= 64);
    *s = (struct hspz_counter_shard){.bits = key_bits - HSPZ_COUNTER_SHARD_BITS};
    s->front = front_for(s->bits, keys);
    HSPZ_REQUIRE(s->front.shape.slot_bits <= SLOT_BITS_MOST);
    return front_make(&s->front, NULL, memory);
}

void
hspz_counter_shard_fini(struct hspz_counter_shard *s)
{
    free(s->front.slots);
    free(s->front.taken);
    free(s->pairs);
    *s = (struct hspz_counter_shard){0};
}

bool
hspz_counter_shard_reserve(struct hspz_counter_shard *s, uint64_t pairs,
                           struct hspz_counter_memory *memory)
{
    const uint64_t slots = 16 * pairs / HSPZ_COUNTER_PAIRS_16THS + 2;
    return pairs == 0 || slots <= s->pair_slots || pairs_grow(s, slots, memory);
}

bool
hspz_counter_shard_copy(struct hspz_counter_shard *to, const struct hspz_counter_shard *from,
                        struct hspz_counter_memory *memory)
{
    struct hspz_counter_shard made = *from;
    struct hspz_counter_front *f = &made.front;
    const uint64_t pair_bytes = from->pair_slots * sizeof(*from->pairs);
    f->slots = take(memory, slot_bytes(f));
    f->taken = take(memory, front_blocks(f));
    made.pairs = pair_bytes > 0 ? take(memory, pair_bytes) : NULL;
    if (f->slots == NULL || f->taken == NULL || (made.pairs == NULL && pair_bytes > 0)) {
        front_give(f, memory);
        give(memory, made.pairs, pair_bytes);
        return false;
    }
    memcpy(f->slots, from->front.slots, slot_bytes(f));
    memcpy(f->taken, from->front.taken, front_blocks(f));
    if (pair_bytes > 0) {
        memcpy(made.pairs, from->pairs, pair_bytes);
    }
    *to = made;
    return true;
}

uint64_t
hspz_counter_shard_bytes(unsigned key_bits, uint64_t keys)
{
    const struct hspz_counter_front f = front_for(key_bits - HSPZ_COUNTER_SHARD_BITS, keys);
    return slot_bytes(&f) + front_blocks(&f);
}

static uint64_t
add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static bool
add_new(struct hspz_counter_shard *s, uint64_t x, uint64_t n, const struct hspz_counter_choice *c,
        struct hspz_counter_memory *memory)
{
    if (n == 1 && front_put(&s->front, c)) {
        return true;
    }
    if (n == 1 && front_grow(s, memory)) {
        const struct hspz_counter_choice again = hspz_counter_choose(&s->front.shape, x);
        if (front_put(&s->front, &again)) {
            return true;
        }
    }
    return pair_put(s, x, n, memory);
}

bool
hspz_counter_shard_add(struct hspz_counter_shard *s, uint64_t x, uint64_t n,
                       struct hspz_counter_memory *memory)
{
    struct hspz_counter_pair *pair = pair_find(s, x);
    if (pair != NULL) {
        pair->count = add(pair->count, n);
        s->total = add(s->total, n);
        return true;
    }
    const struct hspz_counter_choice c = hspz_counter_choose(&s->front.shape, x);
    const uint64_t slot = front_find(&s->front, &c);
    if (slot == UINT64_MAX) {
        if (!add_new(s, x, n, &c, memory)) {
            return false;
        }
    } else if (pair_put(s, x, add(1, n), memory)) {
        front_remove(&s->front, slot);
    } else {
        return false;
    }
    s->total = add(s->total, n);
    return true;
}

uint64_t
hspz_counter_shard_count(const struct hspz_counter_shard *s, uint64_t x)
{
    const struct hspz_counter_pair *pair = pair_find(s, x);
    if (pair != NULL) {
        return pair->count;
    }
    const struct hspz_counter_choice c = hspz_counter_choose(&s->front.shape, x);
    return front_find(&s->front, &c) != UINT64_MAX;
}

void
hspz_counter_shard_fetch(const struct hspz_counter_shard *s, uint64_t x)
{
    const struct hspz_counter_front *f = &s->front;
    const struct hspz_counter_choice c = hspz_counter_choose(&f->shape, x);
    if (s->pair_slots > 0) {
        __builtin_prefetch(&s->pairs[pair_home(s, x)], 1);
    }
    for (int i = 0; i < 2; i++) {
        __builtin_prefetch(f->slots + c.block[i] * BLOCK_SLOTS * f->shape.slot_bits / 8, 1);
    }
}

uint64_t
hspz_counter_shard_places(const struct hspz_counter_shard *s)
{
    return front_slots(&s->front) + s->pair_slots;
}

uint64_t
hspz_counter_shard_at(const struct hspz_counter_shard *s, uint64_t place, uint64_t *x)
{
    const uint64_t slots = front_slots(&s->front);
    if (place >= slots) {
        *x = s->pairs[place - slots].x;
        return s->pairs[place - slots].count;
    }
    if (!is_taken(&s->front, place)) {
        return 0;
    }
    *x = front_x(&s->front, place);
    return 1;
}
