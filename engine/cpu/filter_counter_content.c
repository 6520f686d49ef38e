/* All of an exact counter at once: saved, loaded, copied, merged. */
#include "engine/cpu/filter_counter.h"
#include "engine/cpu/pool.h"
#include "engine/filter_plan_p.h"

#include <string.h>

/* ---- copy, merge ---- */

/* Shards of `to` become those of `f`, with what `from` (may be NULL) has added. */
struct joining {
    struct hspz_filter *to;
    const struct hspz_filter *f, *from;
    const struct hspz_filter_stop *stop;
    bool good[HSPZ_COUNTER_SHARDS];
};

static void
join_shard(void *user, size_t shard)
{
    struct joining *j = user;
    struct hspz_counter_shard *to = &j->to->shards[shard];
    const struct hspz_counter_shard *from = j->from != NULL ? &j->from->shards[shard] : NULL;
    const uint64_t places = from != NULL ? hspz_counter_shard_places(from) : 0;
    bool good = hspz_filter_stopped(j->stop, NULL) == HSPZ_OK &&
                hspz_counter_shard_copy(to, &j->f->shards[shard], &j->to->memory);
    for (uint64_t i = 0; i < places && good; i++) {
        uint64_t x = 0;
        const uint64_t count = hspz_counter_shard_at(from, i, &x);
        good = count == 0 || hspz_counter_shard_add(to, x, count, &j->to->memory);
    }
    j->good[shard] = good;
}

/* HSPZ_E_OUT_OF_MEMORY: nothing was made. */
static enum hspz_status
join(const struct hspz_filter *f, const struct hspz_filter *from,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    struct joining j = {.to = hspz_counter_empty(&f->plan), .f = f, .from = from, .stop = stop};
    struct hspz_pool *pool = NULL;
    const unsigned threads = f->plan.threads != 0 ? f->plan.threads : hspz_pool_processors();
    bool good = j.to != NULL && hspz_pool_create(threads, &pool) == HSPZ_OK;
    if (good) {
        hspz_pool_run(pool, join_shard, &j, HSPZ_COUNTER_SHARDS);
    }
    hspz_pool_destroy(&pool);
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS && good; i++) {
        good = j.good[i];
    }
    if (!good) {
        hspz_counter_destroy(&j.to);
        const enum hspz_status stopped = hspz_filter_stopped(stop, err);
        return stopped != HSPZ_OK ? stopped : hspz_filter_no_memory(&f->plan, err);
    }
    *out = j.to;
    return HSPZ_OK;
}

enum hspz_status
hspz_counter_copy(const struct hspz_filter *f, struct hspz_filter **out, struct hspz_error *err)
{
    return join(f, NULL, NULL, out, err);
}

enum hspz_status
hspz_counter_merge(struct hspz_filter *f, const struct hspz_filter *from,
                   const struct hspz_filter_stop *stop, bool *full, struct hspz_error *err)
{
    struct hspz_filter *made = NULL;
    *full = false;
    if (!hspz_counter_alike(&f->plan.spec, &from->plan.spec)) {
        return hspz_filter_differ(err);
    }
    const enum hspz_status status = join(f, from, stop, &made, err);
    if (status != HSPZ_OK) {
        return status;
    }
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
        const struct hspz_counter_shard old = f->shards[i];
        f->shards[i] = made->shards[i];
        made->shards[i] = old;
    }
    atomic_store(&f->memory.used, atomic_load(&made->memory.used));
    hspz_counter_destroy(&made);
    return HSPZ_OK;
}

/* ---- save ---- */

/* Keys that are there once, and others. */
static void
count_entries(const struct hspz_filter *f, uint64_t entries[2])
{
    entries[0] = entries[1] = 0;
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
        entries[0] += f->shards[i].front.singles;
        entries[1] += f->shards[i].pair_count;
    }
}

static uint64_t
sum_totals(const struct hspz_filter *f)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
        const uint64_t more = f->shards[i].total;
        total = total + more < total ? UINT64_MAX : total + more;
    }
    return total;
}

uint64_t
hspz_counter_image_bytes(const struct hspz_filter *f)
{
    uint64_t entries[2];
    count_entries(f, entries);
    return entries[0] * HSPZ_COUNTER_SINGLE_BYTES + entries[1] * HSPZ_COUNTER_PAIR_BYTES;
}

enum hspz_status
hspz_counter_save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
                  struct hspz_filter_image *out, struct hspz_error *err)
{
    struct hspz_filter_image image = {.total = sum_totals(f)};
    uint64_t entries[2];
    count_entries(f, entries);
    image.entries = entries[0] + entries[1];
    for (int i = 0; i < 2; i++) {
        image.bytes[i] =
            entries[i] * (i == 0 ? HSPZ_COUNTER_SINGLE_BYTES : HSPZ_COUNTER_PAIR_BYTES);
        image.arrays[i] = malloc(image.bytes[i] > 0 ? image.bytes[i] : 1);
        if (image.arrays[i] == NULL) {
            hspz_filter_image_fini(&image);
            return hspz_filter_no_memory(&f->plan, err);
        }
    }
    uint64_t *single = image.arrays[0], *pair = image.arrays[1];
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
        const enum hspz_status status = hspz_filter_stopped(stop, err);
        if (status != HSPZ_OK) {
            hspz_filter_image_fini(&image);
            return status;
        }
        const struct hspz_counter_shard *s = &f->shards[i];
        const uint64_t places = hspz_counter_shard_places(s), pairs = places - s->pair_slots;
        for (uint64_t place = 0; place < places; place++) {
            uint64_t x = 0;
            const uint64_t count = hspz_counter_shard_at(s, place, &x);
            if (count > 0 && place < pairs) {
                *single++ = hspz_counter_key_of(f, i, x);
            } else if (count > 0) {
                *pair++ = hspz_counter_key_of(f, i, x);
                *pair++ = count;
            }
        }
    }
    *out = image;
    return HSPZ_OK;
}

/* ---- load ---- */

/* A key as it comes in the image; *why is what is wrong with it. */
static bool
load_key(struct hspz_filter *f, uint64_t key, uint64_t count, const char **why)
{
    if (f->key_bits < 64 && key >> f->key_bits != 0) {
        *why = "a key has too many bits";
        return false;
    }
    const uint64_t mixed = hspz_counter_mix(key, f->salt, f->key_bits);
    struct hspz_counter_shard *s = &f->shards[hspz_counter_shard_of(f, mixed)];
    const uint64_t x = hspz_counter_x_of(f, mixed);
    if (count == 0 || hspz_counter_shard_count(s, x) != 0) {
        *why = count == 0 ? "a key is never there" : "a key is there twice";
        return false;
    }
    return hspz_counter_shard_add(s, x, count, &f->memory);
}

static bool
goes_on(uint64_t i, const struct hspz_filter_stop *stop)
{
    return i % HSPZ_FILTER_STOP_SLOTS != 0 || hspz_filter_stopped(stop, NULL) == HSPZ_OK;
}

static bool
load_keys(struct hspz_filter *f, const struct hspz_filter_image *image,
          const struct hspz_filter_stop *stop, const char **why)
{
    const uint64_t *const singles = image->arrays[0], *const pairs = image->arrays[1];
    const uint64_t count[2] = {image->bytes[0] / HSPZ_COUNTER_SINGLE_BYTES,
                               image->bytes[1] / HSPZ_COUNTER_PAIR_BYTES};
    bool good = true;
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS && good; i++) {
        good =
            hspz_counter_shard_reserve(&f->shards[i], count[1] / HSPZ_COUNTER_SHARDS, &f->memory);
    }
    for (uint64_t i = 0; i < count[0] && good; i++) {
        good = goes_on(i, stop) && load_key(f, singles[i], 1, why);
    }
    for (uint64_t i = 0; i < count[1] && good; i++) {
        good = goes_on(i, stop) && load_key(f, pairs[2 * i], pairs[2 * i + 1], why);
    }
    return good;
}

/* What the numbers beside the keys are not. */
static const char *
check_numbers(const struct hspz_filter *f, const struct hspz_filter_image *image)
{
    uint64_t entries[2];
    count_entries(f, entries);
    return hspz_counter_wrong_numbers(image, entries[0] + entries[1], sum_totals(f));
}

enum hspz_status
hspz_counter_load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
                  const struct hspz_filter_stop *stop, struct hspz_filter **out,
                  struct hspz_error *err)
{
    struct hspz_filter_plan holds;
    uint64_t keys = 0;
    const enum hspz_status status = hspz_counter_plan_image(plan, image, &holds, &keys, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_filter *f = hspz_counter_empty(plan);
    const char *why = NULL;
    bool good = f != NULL;
    if (good) {
        f->memory.limit = holds.bytes;
    }
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS && good; i++) {
        good = hspz_counter_shard_init(&f->shards[i], f->key_bits, keys / HSPZ_COUNTER_SHARDS,
                                       &f->memory);
    }
    good = good && load_keys(f, image, stop, &why);
    if (good) {
        why = check_numbers(f, image);
        f->memory.limit = 0;
    }
    if (!good || why != NULL) {
        hspz_counter_destroy(&f);
        const enum hspz_status stopped = why == NULL ? hspz_filter_stopped(stop, err) : HSPZ_OK;
        return stopped != HSPZ_OK ? stopped
               : why != NULL      ? hspz_filter_bad_image(plan, why, err)
                                  : hspz_filter_no_memory(&holds, err);
    }
    *out = f;
    return HSPZ_OK;
}
