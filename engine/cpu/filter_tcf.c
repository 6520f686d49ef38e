/* Two-choice filter on the CPU (engine/filter.h).
 *
 * A tag goes to the first of its two blocks while that is less than three quarters full, else to
 * the emptier one, and when both are full to the backing table: 64-bit words, the lower block << 32
 * | tag, with linear probing. A block's last slot is taken last, and is never empty again
 * afterwards: a tag that is taken away leaves a tombstone there. So where the last slot of one of a
 * key's blocks is empty, the backing table cannot hold the key.
 *
 * Values of a block stand behind its tags when they fill whole sectors of a device's memory, so
 * that reading one brings the other; else in an array of their own. */
#include "engine/cpu/filter_p.h"

#include <string.h>

struct hspz_filter {
    struct hspz_filter_plan plan;
    uint64_t salt;
    struct hspz_tcf_windows windows;
    struct hspz_tcf_layout layout;
    uint64_t entries;
    uint8_t *arrays[HSPZ_FILTER_ARRAYS]; /* of the image */
    uint64_t *backing;                   /* the last one: spare_slots words */
};

static void
destroy(struct hspz_filter **filter)
{
    struct hspz_filter *f = *filter;
    if (f != NULL) {
        for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
            free(f->arrays[i]);
        }
        free(f);
        *filter = NULL;
    }
}

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return hspz_filter_no_memory(plan, err);
    }
    f->plan = *plan;
    f->salt = hspz_filter_salt(plan->spec.seed);
    f->windows = hspz_tcf_windows_of(plan->blocks, plan->spec.slot_bits, plan->spec.block_slots);
    f->layout = hspz_tcf_layout_of(plan);
    bool all = true;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        f->arrays[i] = calloc(1, f->layout.bytes[i] + 1);
        all = all && f->arrays[i] != NULL;
    }
    f->backing = (uint64_t *)(void *)f->arrays[2];
    if (!all) {
        destroy(&f);
        return hspz_filter_no_memory(plan, err);
    }
    *out = f;
    return HSPZ_OK;
}

static const struct hspz_filter_plan *
plan_of(const struct hspz_filter *f)
{
    return &f->plan;
}

/* ---- slots ---- */

struct place {
    uint32_t tag, block[2];
    uint64_t word; /* in the backing table */
};

static struct place
place_of(const struct hspz_filter *f, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, f->salt);
    struct place p = {.tag = hspz_tcf_tag(hash, f->plan.spec.slot_bits)};
    p.block[0] = hspz_tcf_block(hash, f->windows.blocks);
    p.block[1] = hspz_tcf_other(p.block[0], p.tag, f->windows);
    p.word = hspz_tcf_word(p.block[0], p.block[1], p.tag);
    return p;
}

/* Bit of a slot's tag in array 0. */
static uint64_t
tag_bit(const struct hspz_filter *f, uint64_t slot)
{
    const struct hspz_filter_spec *s = &f->plan.spec;
    return slot / s->block_slots * f->layout.block_bits + slot % s->block_slots * s->slot_bits;
}

static uint32_t
tag_at(const struct hspz_filter *f, uint64_t slot)
{
    return (uint32_t)hspz_filter_bits_get(f->arrays[0], tag_bit(f, slot), f->plan.spec.slot_bits);
}

static void
set_tag(struct hspz_filter *f, uint64_t slot, uint32_t tag)
{
    hspz_filter_bits_set(f->arrays[0], tag_bit(f, slot), f->plan.spec.slot_bits, tag);
}

/* Array and bit of a slot's value; slots of the backing table come behind the others. */
static uint8_t *
value_place(const struct hspz_filter *f, uint64_t slot, uint64_t *bit)
{
    const struct hspz_filter_spec *s = &f->plan.spec;
    const struct hspz_tcf_layout *l = &f->layout;
    if (slot >= s->slots) {
        *bit = l->spare_values_at + (slot - s->slots) * s->value_bits;
        return f->arrays[1];
    }
    *bit = l->values_at + slot / s->block_slots * l->value_block_bits +
           slot % s->block_slots * s->value_bits;
    return f->arrays[l->values_in];
}

static uint64_t
value_at(const struct hspz_filter *f, uint64_t slot)
{
    uint64_t bit;
    const uint8_t *array = value_place(f, slot, &bit);
    return hspz_filter_bits_get(array, bit, f->plan.spec.value_bits);
}

static void
set_value(struct hspz_filter *f, uint64_t slot, uint64_t value)
{
    uint64_t bit;
    uint8_t *array = value_place(f, slot, &bit);
    hspz_filter_bits_set(array, bit, f->plan.spec.value_bits, value);
}

/* What a block holds. */
struct census {
    unsigned used, same;
    bool open;                     /* the last slot is empty */
    uint64_t free_slot, same_slot; /* the first of each */
};

static struct census
take_census(const struct hspz_filter *f, uint64_t block, uint32_t tag)
{
    struct census c = {.free_slot = UINT64_MAX, .same_slot = UINT64_MAX};
    const unsigned slots = f->plan.spec.block_slots;
    for (uint64_t slot = block * slots; slot < (block + 1) * slots; slot++) {
        const uint32_t here = tag_at(f, slot);
        c.used += here >= HSPZ_TCF_TAGS;
        c.open = here == HSPZ_TCF_EMPTY;
        c.same += here == tag;
        if (here < HSPZ_TCF_TAGS && c.free_slot == UINT64_MAX) {
            c.free_slot = slot;
        }
        if (here == tag && c.same_slot == UINT64_MAX) {
            c.same_slot = slot;
        }
    }
    return c;
}

/* ---- backing table ---- */

/* The place of a word (*same) and the first free one on the way to it; UINT64_MAX: none. */
static uint64_t
probe(const struct hspz_filter *f, uint64_t word, uint64_t *same, uint64_t *free_slot)
{
    const uint64_t slots = f->plan.spare_slots;
    uint64_t at = hspz_tcf_home(word, (uint32_t)slots), found = 0;
    *same = *free_slot = UINT64_MAX;
    for (uint64_t n = 0; n < slots; n++, at = at + 1 == slots ? 0 : at + 1) {
        if (f->backing[at] == word) {
            found++;
            *same = *same == UINT64_MAX ? at : *same;
        }
        if (f->backing[at] < HSPZ_TCF_TAGS && *free_slot == UINT64_MAX) {
            *free_slot = at;
        }
        if (f->backing[at] == HSPZ_TCF_EMPTY) {
            break;
        }
    }
    return found;
}

/* Whether the backing table may hold a key of these blocks. */
static bool
overflowed(const struct census c[2])
{
    return !c[0].open && !c[1].open;
}

/* ---- operations ---- */

struct lookup {
    struct place place;
    struct census census[2];
    uint64_t slot; /* where the tag is: of the table, or slots + place in the backing table */
    uint64_t same; /* how often */
};

static struct lookup
look_up(const struct hspz_filter *f, uint64_t key)
{
    struct lookup l = {.place = place_of(f, key), .slot = UINT64_MAX};
    const unsigned blocks = l.place.block[0] == l.place.block[1] ? 1 : 2;
    for (unsigned i = 0; i < 2; i++) {
        l.census[i] = take_census(f, l.place.block[i], l.place.tag);
        if (i < blocks) {
            l.same += l.census[i].same;
            l.slot = l.slot == UINT64_MAX ? l.census[i].same_slot : l.slot;
        }
    }
    if (overflowed(l.census)) {
        uint64_t same, free_slot;
        l.same += probe(f, l.place.word, &same, &free_slot);
        if (l.slot == UINT64_MAX && same != UINT64_MAX) {
            l.slot = f->plan.spec.slots + same;
        }
    }
    return l;
}

static bool
insert(struct hspz_filter *f, const struct lookup *l, uint64_t value)
{
    const unsigned slots = f->plan.spec.block_slots;
    const unsigned used = l->census[0].used;
    const unsigned i = 4 * used >= 3 * slots && l->census[1].used < used;
    uint64_t slot = l->census[i].free_slot;
    if (slot != UINT64_MAX) {
        set_tag(f, slot, l->place.tag);
    } else {
        uint64_t same, free_slot;
        (void)probe(f, l->place.word, &same, &free_slot);
        if (free_slot == UINT64_MAX) {
            return false;
        }
        f->backing[free_slot] = l->place.word;
        slot = f->plan.spec.slots + free_slot;
    }
    set_value(f, slot, value);
    f->entries++;
    return true;
}

static void
delete_backing(struct hspz_filter *f, uint64_t at)
{
    const uint64_t slots = f->plan.spare_slots;
    f->backing[at] = HSPZ_TCF_TOMBSTONE;
    /* What ends a probe anyway need not be passed. */
    while (f->backing[at] == HSPZ_TCF_TOMBSTONE &&
           f->backing[at + 1 == slots ? 0 : at + 1] == HSPZ_TCF_EMPTY) {
        f->backing[at] = HSPZ_TCF_EMPTY;
        at = at == 0 ? slots - 1 : at - 1;
    }
}

static void delete (struct hspz_filter *f, const struct lookup *l)
{
    const uint64_t slots = f->plan.spec.slots;
    if (l->slot >= slots) {
        delete_backing(f, l->slot - slots);
    } else {
        const bool last = (l->slot + 1) % f->plan.spec.block_slots == 0;
        set_tag(f, l->slot, last ? HSPZ_TCF_TOMBSTONE : HSPZ_TCF_EMPTY);
    }
    f->entries--;
}

/* One key; true for its bit of `yes`. */
static bool
run_key(struct hspz_filter *f, struct hspz_filter_call *call, size_t i)
{
    const struct lookup l = look_up(f, call->keys[i]);
    const bool there = l.same > 0;
    if (call->found != NULL) {
        call->found[i] = call->op == HSPZ_FILTER_COUNT ? l.same : there ? value_at(f, l.slot) : 0;
    }
    switch (call->op) {
    case HSPZ_FILTER_DELETE:
        if (there) {
            delete (f, &l);
        }
        return there;
    case HSPZ_FILTER_INSERT_IF_ABSENT:
        if (there) {
            return false;
        }
        break;
    case HSPZ_FILTER_INSERT:
        break;
    default:
        return there;
    }
    const bool in = insert(f, &l, call->values != NULL ? call->values[i] : 0);
    call->full |= !in;
    return in;
}

static enum hspz_status
run(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    if (call->op == HSPZ_FILTER_DECREMENT) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    const enum hspz_status status = hspz_filter_check_values(&f->plan, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_filter_call_begin(call);
    for (size_t i = 0; i < call->count; i++) {
        if (run_key(f, call, i)) {
            hspz_filter_call_yes(call, i);
        }
    }
    return HSPZ_OK;
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    const struct hspz_filter_spec *s = &f->plan.spec;
    *out = (struct hspz_filter_stats){.entries = f->entries,
                                      .total = f->entries,
                                      .used = f->entries,
                                      .bytes = f->plan.bytes,
                                      .load = (double)f->entries / (double)s->slots};
    out->rate = hspz_filter_tcf_rate(out->load, s->block_slots, s->slot_bits);
}

static enum hspz_status
enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
          size_t capacity, size_t *count, struct hspz_error *err)
{
    (void)err;
    const uint64_t slots = f->plan.spec.slots, all = slots + f->plan.spare_slots;
    *count = 0;
    for (; *cursor < all && *count < capacity; ++*cursor) {
        const uint64_t slot = *cursor;
        uint64_t word;
        if (slot < slots) {
            const uint32_t block = (uint32_t)(slot / f->plan.spec.block_slots);
            const uint32_t tag = tag_at(f, slot);
            word = tag < HSPZ_TCF_TAGS
                       ? tag
                       : hspz_tcf_word(block, hspz_tcf_other(block, tag, f->windows), tag);
        } else {
            word = f->backing[slot - slots];
        }
        if (word >= HSPZ_TCF_TAGS) {
            out[(*count)++] = (struct hspz_filter_entry){
                .fingerprint = word, .value = value_at(f, slot), .count = 1};
        }
    }
    return HSPZ_OK;
}

/* ---- copy, save, load ---- */

static enum hspz_status
copy(const struct hspz_filter *f, struct hspz_filter **out, struct hspz_error *err)
{
    const enum hspz_status status = create(&f->plan, out, err);
    if (status == HSPZ_OK) {
        for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
            memcpy((*out)->arrays[i], f->arrays[i], f->layout.bytes[i]);
        }
        (*out)->entries = f->entries;
    }
    return status;
}

static enum hspz_status
save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
     struct hspz_filter_image *out, struct hspz_error *err)
{
    struct hspz_filter_image image = {.entries = f->entries, .total = f->entries};
    enum hspz_status status = HSPZ_OK;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        status = hspz_filter_image_add(&image, i, f->arrays[i], f->layout.bytes[i], stop, err);
    }
    if (status == HSPZ_OK) {
        *out = image;
    }
    return status;
}

/* Words of the backing table must be of blocks that were full, and the number of tags as said. */
static enum hspz_status
find_damage(const struct hspz_filter *f, uint64_t entries, const struct hspz_filter_stop *stop,
            const char **damage, struct hspz_error *err)
{
    uint64_t tags = 0;
    for (uint64_t slot = 0; slot < f->plan.spec.slots; slot++) {
        if (slot % HSPZ_FILTER_STOP_SLOTS == 0) {
            const enum hspz_status status = hspz_filter_stopped(stop, err);
            if (status != HSPZ_OK) {
                return status;
            }
        }
        tags += tag_at(f, slot) >= HSPZ_TCF_TAGS;
    }
    for (uint64_t at = 0; at < f->plan.spare_slots; at++) {
        const uint64_t word = f->backing[at], block = word >> 32;
        const uint32_t tag = (uint32_t)word;
        if (word < HSPZ_TCF_TAGS) {
            continue;
        }
        if (block >= f->plan.blocks || tag < HSPZ_TCF_TAGS ||
            (uint64_t)tag >> f->plan.spec.slot_bits != 0 ||
            hspz_tcf_other((uint32_t)block, tag, f->windows) < block) {
            *damage = "a word of the backing table is of no key";
            return HSPZ_OK;
        }
        tags++;
    }
    *damage = tags == entries ? NULL : "it holds another number of tags";
    return HSPZ_OK;
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = NULL;
    enum hspz_status status = hspz_filter_stopped(stop, err);
    if (status == HSPZ_OK) {
        status = create(plan, &f, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const char *damage = "its arrays are of other lengths";
    if (memcmp(image->bytes, f->layout.bytes, sizeof(image->bytes)) == 0) {
        for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
            memcpy(f->arrays[i], image->arrays[i], image->bytes[i]);
        }
        f->entries = image->entries;
        status = find_damage(f, image->entries, stop, &damage, err);
    }
    if (status == HSPZ_OK && damage != NULL) {
        status = hspz_filter_bad_image(plan, damage, err);
    }
    if (status != HSPZ_OK) {
        destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}

const struct hspz_filter_ops hspz_cpu_filter_tcf = {
    .create = create,
    .destroy = destroy,
    .plan = plan_of,
    .run = run,
    .stats = stats,
    .enumerate = enumerate,
    .copy = copy,
    .save = save,
    .load = load,
};
