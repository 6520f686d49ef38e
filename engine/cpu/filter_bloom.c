/* Bloom and blocked Bloom filters on the CPU (engine/filter.h). */
#include "engine/cpu/filter_p.h"

#include <string.h>

struct hspz_filter {
    struct hspz_filter_plan plan;
    uint64_t salt;
    uint64_t entries;
    uint64_t words; /* of 64 bits */
    uint64_t bits[];
};

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = calloc(1, sizeof(*f) + plan->bytes);
    if (f == NULL) {
        return hspz_filter_no_memory(plan, err);
    }
    f->plan = *plan;
    f->salt = hspz_filter_salt(plan->spec.seed);
    f->words = plan->bytes / sizeof(uint64_t);
    *out = f;
    return HSPZ_OK;
}

static void
destroy(struct hspz_filter **filter)
{
    free(*filter);
    *filter = NULL;
}

static const struct hspz_filter_plan *
plan_of(const struct hspz_filter *f)
{
    return &f->plan;
}

/* Where a key's bits are. */
struct places {
    uint64_t hash, second;
    uint64_t block; /* first bit of it */
};

static struct places
places_of(const struct hspz_filter *f, uint64_t key)
{
    struct places p = {.hash = hspz_filter_hash(key, f->salt)};
    p.second = hspz_bloom_second(p.hash);
    p.block = hspz_filter_scale(p.hash, f->plan.blocks) * HSPZ_BLOOM_BLOCK_BITS;
    return p;
}

static uint64_t
place(const struct hspz_filter *f, const struct places *p, unsigned i)
{
    return f->plan.spec.kind == HSPZ_FILTER_BLOOM
               ? hspz_bloom_bit(p->hash, p->second, i, f->plan.spec.slots)
               : p->block + hspz_blocked_bit(p->second, i);
}

static bool
query(const struct hspz_filter *f, uint64_t key)
{
    const struct places p = places_of(f, key);
    for (unsigned i = 0; i < f->plan.spec.hashes; i++) {
        const uint64_t bit = place(f, &p, i);
        if ((f->bits[bit / 64] >> bit % 64 & 1) == 0) {
            return false;
        }
    }
    return true;
}

static void
insert(struct hspz_filter *f, uint64_t key)
{
    const struct places p = places_of(f, key);
    for (unsigned i = 0; i < f->plan.spec.hashes; i++) {
        const uint64_t bit = place(f, &p, i);
        f->bits[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    f->entries++;
}

static enum hspz_status
run(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    if (call->op != HSPZ_FILTER_INSERT && call->op != HSPZ_FILTER_INSERT_IF_ABSENT &&
        call->op != HSPZ_FILTER_QUERY) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    hspz_filter_call_begin(call);
    for (size_t i = 0; i < call->count; i++) {
        bool yes = true;
        if (call->op != HSPZ_FILTER_INSERT) {
            yes = query(f, call->keys[i]);
        }
        if (call->op == HSPZ_FILTER_INSERT_IF_ABSENT) {
            yes = !yes;
        }
        if (call->op != HSPZ_FILTER_QUERY && yes) {
            insert(f, call->keys[i]);
        }
        if (yes) {
            hspz_filter_call_yes(call, i);
        }
    }
    return HSPZ_OK;
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    *out = (struct hspz_filter_stats){
        .entries = f->entries, .total = f->entries, .bytes = f->plan.bytes};
    const unsigned k = f->plan.spec.hashes;
    double sum = 0;
    uint64_t block_used = 0;
    for (uint64_t w = 0; w < f->words; w++) {
        const uint64_t used = (uint64_t)__builtin_popcountll(f->bits[w]);
        out->used += used;
        block_used += used;
        if (w % (HSPZ_BLOOM_BLOCK_BITS / 64) == HSPZ_BLOOM_BLOCK_BITS / 64 - 1) {
            sum += hspz_filter_power((double)block_used / HSPZ_BLOOM_BLOCK_BITS, k);
            block_used = 0;
        }
    }
    out->load = (double)out->used / (double)f->plan.spec.slots;
    out->rate = f->plan.spec.kind == HSPZ_FILTER_BLOOM ? hspz_filter_power(out->load, k)
                                                       : sum / (double)f->plan.blocks;
}

static enum hspz_status
merge(struct hspz_filter *f, const struct hspz_filter *from, const struct hspz_filter_stop *stop,
      bool *full, struct hspz_error *err)
{
    *full = false;
    if (f->words != from->words || f->plan.spec.hashes != from->plan.spec.hashes ||
        f->plan.spec.kind != from->plan.spec.kind || f->salt != from->salt) {
        return hspz_filter_differ(err);
    }
    for (uint64_t w = 0; w < f->words; w++) {
        if (w % HSPZ_FILTER_STOP_SLOTS == 0) {
            const enum hspz_status status = hspz_filter_stopped(stop, err);
            if (status != HSPZ_OK) {
                return status;
            }
        }
        f->bits[w] |= from->bits[w];
    }
    f->entries += from->entries;
    return HSPZ_OK;
}

static enum hspz_status
copy(const struct hspz_filter *f, struct hspz_filter **out, struct hspz_error *err)
{
    const enum hspz_status status = create(&f->plan, out, err);
    if (status == HSPZ_OK) {
        memcpy((*out)->bits, f->bits, f->plan.bytes);
        (*out)->entries = f->entries;
    }
    return status;
}

static enum hspz_status
save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
     struct hspz_filter_image *out, struct hspz_error *err)
{
    struct hspz_filter_image image = {.entries = f->entries, .total = f->entries};
    const enum hspz_status status =
        hspz_filter_image_add(&image, 0, f->bits, f->plan.bytes, stop, err);
    if (status == HSPZ_OK) {
        *out = image;
    }
    return status;
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    if (image->bytes[0] != plan->bytes) {
        return hspz_filter_bad_image(plan, "its bits are of another number", err);
    }
    enum hspz_status status = hspz_filter_stopped(stop, err);
    if (status == HSPZ_OK) {
        status = create(plan, out, err);
    }
    if (status == HSPZ_OK) {
        memcpy((*out)->bits, image->arrays[0], plan->bytes);
        (*out)->entries = image->entries;
    }
    return status;
}

const struct hspz_filter_ops hspz_cpu_filter_bloom = {
    .create = create,
    .destroy = destroy,
    .plan = plan_of,
    .run = run,
    .stats = stats,
    .merge = merge,
    .copy = copy,
    .save = save,
    .load = load,
};
