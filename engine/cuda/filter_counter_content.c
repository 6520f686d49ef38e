/* All of an exact counter on a device at once: listed, saved, loaded, copied, merged. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_counter.h"
#include "engine/filter_plan_p.h"

#include <string.h>

/* Places listed, or keys taken in, at a time. */
#define LIST_PLACES (UINT64_C(1) << 22)
#define LOAD_KEYS (UINT64_C(1) << 22)
/* Of singles, those that may find no slot in a front that was made for them. */
#define LEFT_SHARE 32u

/* ---- listing ---- */

/* Keys, or keys and counts beside each other, in device memory, and a tally behind them. */
struct listing {
    struct hspz_cuda_buffer memory;
    uint64_t places; /* at a time */
    uint64_t *words;
    struct hspz_cuda_counter_tally *tally;
};

static void
listing_fini(const struct hspz_filter *f, struct listing *l)
{
    hspz_cuda_buffer_free(f->device, &l->memory);
}

/* For as many places at a time, or fewer. */
static enum hspz_status
listing_init(struct listing *l, const struct hspz_filter *f, uint64_t places,
             struct hspz_error *err)
{
    *l = (struct listing){.places = places};
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status == HSPZ_OK) {
        const uint64_t bytes = places * HSPZ_COUNTER_PAIR_BYTES + sizeof(*l->tally);
        status = hspz_cuda_buffer_reserve(f->device, &l->memory, bytes, err);
    }
    l->words = l->memory.data;
    l->tally = (void *)(l->words + 2 * places);
    return status;
}

static uint64_t
front_places(const struct hspz_filter *f)
{
    return hspz_counter_shape_slots(&f->counter.shape);
}

static uint64_t
all_places(const struct hspz_filter *f)
{
    return front_places(f) + f->counter.pair_slots;
}

/* What is in `list`; how many. Waits. */
static enum hspz_status
list_some(const struct hspz_filter *f, struct listing *l, struct hspz_cuda_counter_list list,
          uint64_t *count, struct hspz_error *err)
{
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    struct hspz_cuda_counter_tally told = {0};
    cudaError_t error = cudaMemsetAsync(l->tally, 0, sizeof(*l->tally), f->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_counter_list(&c, &list, l->tally, f->stream);
    }
    enum hspz_status status = hspz_counter_check(f, error, err);
    if (status == HSPZ_OK) {
        status = hspz_counter_read_tally(f, l->tally, f->stream, &told, err);
    }
    *count = told.listed;
    return status;
}

/* ---- enumerate ---- */

/* Those of the next places, to `words` of the host; the cursor is a place. */
static enum hspz_status
next_entries(const struct hspz_filter *f, struct listing *l, uint64_t *cursor, uint64_t *words,
             uint64_t *count, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    *count = 0;
    while (status == HSPZ_OK && *count == 0 && *cursor < all_places(f)) {
        const uint64_t left = all_places(f) - *cursor;
        const struct hspz_cuda_counter_list list = {.first = *cursor,
                                                    .count = left < l->places ? left : l->places,
                                                    .keys = l->words,
                                                    .counts = l->words + 1,
                                                    .stride = 2};
        status = list_some(f, l, list, count, err);
        *cursor += status == HSPZ_OK ? list.count : 0;
    }
    return status != HSPZ_OK
               ? status
               : hspz_cuda_filter_move(f, l->words, words, *count * HSPZ_COUNTER_PAIR_BYTES, true,
                                       NULL, err);
}

enum hspz_status
hspz_counter_device_enumerate(const struct hspz_filter *f, uint64_t *cursor,
                              struct hspz_filter_entry *out, size_t capacity, size_t *count,
                              struct hspz_error *err)
{
    const uint64_t places = capacity < LIST_PLACES ? capacity : LIST_PLACES;
    uint64_t at = *cursor, got = 0;
    struct listing l = {0};
    uint64_t *words = malloc(places * HSPZ_COUNTER_PAIR_BYTES + 1);
    *count = 0;
    enum hspz_status status = words != NULL ? HSPZ_OK : hspz_filter_no_memory(&f->plan, err);
    if (status == HSPZ_OK) {
        status = listing_init(&l, f, places, err);
    }
    if (status == HSPZ_OK && places > 0) {
        status = next_entries(f, &l, &at, words, &got, err);
    }
    for (uint64_t i = 0; i < got && status == HSPZ_OK; i++) {
        out[i] = (struct hspz_filter_entry){.fingerprint = words[2 * i], .count = words[2 * i + 1]};
    }
    if (status == HSPZ_OK) {
        *count = (size_t)got;
        *cursor = at;
    }
    listing_fini(f, &l);
    free(words);
    return status;
}

/* ---- save ---- */

/* What a filter has; of one that is unsure it is counted. */
static enum hspz_status
numbers_of(const struct hspz_filter *filter, struct hspz_cuda_filter_counter *out,
           struct hspz_error *err)
{
    struct hspz_filter *f = (struct hspz_filter *)filter; /* what it has stays the same */
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    pthread_mutex_lock(&f->mutex);
    if (status == HSPZ_OK) {
        status = hspz_counter_settle(f, f->stream, err);
    }
    *out = f->counter;
    pthread_mutex_unlock(&f->mutex);
    return status;
}

uint64_t
hspz_counter_device_image_bytes(const struct hspz_filter *f)
{
    struct hspz_cuda_filter_counter now;
    return numbers_of(f, &now, NULL) == HSPZ_OK
               ? now.singles * HSPZ_COUNTER_SINGLE_BYTES + now.pairs * HSPZ_COUNTER_PAIR_BYTES
               : 0;
}

/* Places first .. end as the image's array i. */
static enum hspz_status
save_places(const struct hspz_filter *f, struct listing *l, uint64_t first, uint64_t end,
            struct hspz_filter_image *image, int i, const struct hspz_filter_stop *stop,
            struct hspz_error *err)
{
    const uint64_t bytes = i == 0 ? HSPZ_COUNTER_SINGLE_BYTES : HSPZ_COUNTER_PAIR_BYTES;
    char *to = image->arrays[i], *const behind = to + image->bytes[i];
    enum hspz_status status = HSPZ_OK;
    for (uint64_t at = first; at < end && status == HSPZ_OK; at += l->places) {
        const struct hspz_cuda_counter_list list = {.first = at,
                                                    .count =
                                                        end - at < l->places ? end - at : l->places,
                                                    .keys = l->words,
                                                    .counts = i == 0 ? NULL : l->words + 1,
                                                    .stride = i == 0 ? 1 : 2};
        uint64_t count = 0;
        status = hspz_filter_stopped(stop, err);
        if (status == HSPZ_OK) {
            status = list_some(f, l, list, &count, err);
        }
        if (status == HSPZ_OK) {
            HSPZ_REQUIRE(count * bytes <= (uint64_t)(behind - to));
            status = hspz_cuda_filter_move(f, l->words, to, count * bytes, true, stop, err);
            to += count * bytes;
        }
    }
    return status;
}

enum hspz_status
hspz_counter_device_save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
                         struct hspz_filter_image *out, struct hspz_error *err)
{
    struct hspz_filter_image image = {0};
    struct hspz_cuda_filter_counter now;
    struct listing l = {0};
    enum hspz_status status = numbers_of(f, &now, err);
    for (int i = 0; i < 2 && status == HSPZ_OK; i++) {
        image.bytes[i] =
            i == 0 ? now.singles * HSPZ_COUNTER_SINGLE_BYTES : now.pairs * HSPZ_COUNTER_PAIR_BYTES;
        image.arrays[i] = malloc(image.bytes[i] > 0 ? image.bytes[i] : 1);
        status = image.arrays[i] != NULL ? HSPZ_OK : hspz_filter_no_memory(&f->plan, err);
    }
    if (status == HSPZ_OK) {
        const uint64_t places = all_places(f);
        status = listing_init(&l, f, places < LIST_PLACES ? places : LIST_PLACES, err);
    }
    if (status == HSPZ_OK) {
        status = save_places(f, &l, 0, front_places(f), &image, 0, stop, err);
    }
    if (status == HSPZ_OK) {
        status = save_places(f, &l, front_places(f), all_places(f), &image, 1, stop, err);
    }
    listing_fini(f, &l);
    if (status != HSPZ_OK) {
        hspz_filter_image_fini(&image);
        return status;
    }
    image.entries = now.singles + now.pairs;
    image.total = now.total;
    *out = image;
    return HSPZ_OK;
}

/* ---- load ---- */

static const char *
damage_of(const struct hspz_cuda_counter_tally *told)
{
    return told->wide > 0    ? "a key has too many bits"
           : told->never > 0 ? "a key is never there"
           : told->twice > 0 ? "a key is there twice"
                             : NULL;
}

/* Keys of an image: of `stride` words each, `count` of them. */
static enum hspz_status
load_some(struct hspz_counter_work *w, uint64_t *words, uint64_t count, unsigned stride,
          const char **why, struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    uint64_t *const there = f->staging[HSPZ_CUDA_FILTER_KEYS].data;
    uint64_t *const counts[2] = {stride > 1 ? w->counts[0] : NULL, w->counts[1]};
    struct hspz_cuda_counter_tally told;
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    unsigned now = 0;
    enum hspz_status status =
        hspz_cuda_filter_move(f, there, words, count * stride * sizeof(*words), false, NULL, err);
    if (status == HSPZ_OK) {
        status = hspz_counter_clear_tally(w, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = hspz_cuda_launch_counter_unpack(&c, there, count, stride, w->x[0],
                                                        counts[0], w->tally, w->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_counter_sort(w->x, counts, &now, count, c.shape.bits, w->temp,
                                              w->temp_bytes, w->stream);
    }
    status = hspz_counter_check(f, error, err);
    if (status == HSPZ_OK) {
        const struct hspz_cuda_counter_items items = {.x = w->x[now],
                                                      .counts = stride > 1 ? counts[now] : NULL,
                                                      .count = count,
                                                      .fates = w->fates};
        status = hspz_counter_add_items(w, &items, true, &told, err);
    }
    if (status == HSPZ_OK) {
        *why = damage_of(&told);
    }
    return status == HSPZ_OK && *why == NULL && told.refused > 0
               ? hspz_filter_no_memory(&f->plan, err)
               : status;
}

static enum hspz_status
load_keys(struct hspz_filter *f, const struct hspz_filter_image *image,
          const struct hspz_filter_stop *stop, const char **why, struct hspz_error *err)
{
    const uint64_t singles = image->bytes[0] / HSPZ_COUNTER_SINGLE_BYTES,
                   pairs = image->bytes[1] / HSPZ_COUNTER_PAIR_BYTES;
    const uint64_t most = singles > pairs ? singles : pairs;
    struct hspz_counter_work w;
    uint64_t room;
    enum hspz_status status =
        hspz_counter_open(&w, f, most < LOAD_KEYS ? most : LOAD_KEYS, pairs > 0, f->stream, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_buffer_reserve(f->device, &f->staging[HSPZ_CUDA_FILTER_KEYS],
                                          w.capacity * HSPZ_COUNTER_PAIR_BYTES, err);
    }
    if (status == HSPZ_OK && pairs > 0) {
        status = hspz_counter_reserve_pairs(f, pairs + singles / LEFT_SHARE, f->stream, &room, err);
    }
    for (unsigned i = 0; i < 2; i++) {
        uint64_t *const words = image->arrays[i];
        const uint64_t count = i == 0 ? singles : pairs;
        for (uint64_t at = 0; at < count && status == HSPZ_OK && *why == NULL; at += w.capacity) {
            const uint64_t piece = count - at < w.capacity ? count - at : w.capacity;
            status = hspz_filter_stopped(stop, err);
            if (status == HSPZ_OK) {
                status = load_some(&w, words + at * (i + 1), piece, i + 1, why, err);
            }
        }
    }
    return status;
}

enum hspz_status
hspz_counter_device_load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
                         const struct hspz_filter_stop *stop, struct hspz_filter **out,
                         struct hspz_error *err)
{
    struct hspz_filter_plan holds;
    uint64_t keys = 0;
    const char *why = NULL;
    struct hspz_filter *f = NULL;
    enum hspz_status status = hspz_counter_plan_image(plan, image, &holds, &keys, err);
    if (status == HSPZ_OK) {
        status = hspz_counter_make(plan, keys, holds.bytes, &f, err);
    }
    if (status == HSPZ_OK) {
        status = load_keys(f, image, stop, &why, err);
    }
    if (status == HSPZ_OK && why == NULL) {
        why = hspz_counter_wrong_numbers(image, f->counter.singles + f->counter.pairs,
                                         f->counter.total);
    }
    if (status == HSPZ_OK && why != NULL) {
        status = hspz_filter_bad_image(plan, why, err);
    }
    if (status != HSPZ_OK) {
        hspz_cuda_filter_destroy(&f);
        return status;
    }
    f->counter.limit_bytes = 0;
    *out = f;
    return HSPZ_OK;
}

/* ---- copy, merge ---- */

enum hspz_status
hspz_counter_device_copy(const struct hspz_filter *f, struct hspz_filter **out,
                         struct hspz_error *err)
{
    struct hspz_cuda_filter_counter now;
    struct hspz_filter *made = NULL;
    enum hspz_status status = numbers_of(f, &now, err);
    if (status == HSPZ_OK) {
        status = hspz_counter_make(&f->plan, 0, 0, &made, err);
    }
    for (int i = 0; i < 2 && status == HSPZ_OK; i++) {
        made->bytes[i] = f->bytes[i];
        if (f->bytes[i] > 0) {
            status = hspz_cuda_buffer_reserve(f->device, &made->arrays[i], f->bytes[i], err);
        }
        if (status == HSPZ_OK && f->bytes[i] > 0) {
            status = hspz_counter_check(f,
                                        cudaMemcpyAsync(made->arrays[i].data, f->arrays[i].data,
                                                        f->bytes[i], cudaMemcpyDeviceToDevice,
                                                        made->stream),
                                        err);
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_wait(made, "copying a counter", err);
    }
    if (status != HSPZ_OK) {
        hspz_cuda_filter_destroy(&made);
        return status;
    }
    made->counter = now;
    made->counter.limit_bytes = 0;
    *out = made;
    return HSPZ_OK;
}

/* Keys of some places of another. */
static enum hspz_status
add_places(struct hspz_counter_work *w, const struct hspz_filter *from, struct listing *l,
           uint64_t first, uint64_t count, struct hspz_error *err)
{
    struct hspz_cuda_counter_items items = {
        .x = w->x[0], .counts = w->counts[0], .fates = w->fates};
    const struct hspz_cuda_counter_list list = {.first = first,
                                                .count = count,
                                                .mixed = true,
                                                .keys = w->x[0],
                                                .counts = w->counts[0],
                                                .stride = 1};
    struct hspz_cuda_counter_tally told = {0};
    enum hspz_status status = list_some(from, l, list, &items.count, err);
    if (status == HSPZ_OK && items.count > 0) {
        status = hspz_counter_clear_tally(w, err);
    }
    if (status == HSPZ_OK && items.count > 0) {
        status = hspz_counter_add_items(w, &items, false, &told, err);
    }
    return status == HSPZ_OK && told.refused > 0 ? hspz_filter_no_memory(&w->f->plan, err) : status;
}

static enum hspz_status
add_all(struct hspz_filter *f, const struct hspz_filter *from, const struct hspz_filter_stop *stop,
        struct hspz_error *err)
{
    const uint64_t places = all_places(from);
    struct hspz_counter_work w;
    struct listing l = {0};
    enum hspz_status status =
        hspz_counter_open(&w, f, places < LIST_PLACES ? places : LIST_PLACES, true, f->stream, err);
    if (status == HSPZ_OK) {
        status = listing_init(&l, f, 0, err); /* keys go to where they are added from */
    }
    for (uint64_t at = 0; at < places && status == HSPZ_OK; at += w.capacity) {
        const uint64_t left = places - at;
        status = hspz_filter_stopped(stop, err);
        if (status == HSPZ_OK) {
            status = add_places(&w, from, &l, at, left < w.capacity ? left : w.capacity, err);
        }
    }
    listing_fini(f, &l);
    return status;
}

/* What a filter holds, of two. */
static void
swap_content(struct hspz_filter *a, struct hspz_filter *b)
{
    for (int i = 0; i < 2; i++) {
        const struct hspz_cuda_buffer memory = a->arrays[i];
        const uint64_t bytes = a->bytes[i];
        a->arrays[i] = b->arrays[i];
        a->bytes[i] = b->bytes[i];
        b->arrays[i] = memory;
        b->bytes[i] = bytes;
    }
    const struct hspz_cuda_filter_counter counter = a->counter;
    a->counter = b->counter;
    b->counter = counter;
}

enum hspz_status
hspz_counter_device_merge(struct hspz_filter *f, const struct hspz_filter *from,
                          const struct hspz_filter_stop *stop, bool *full, struct hspz_error *err)
{
    struct hspz_filter *made = NULL;
    *full = false;
    if (!hspz_counter_alike(&f->plan.spec, &from->plan.spec)) {
        return hspz_filter_differ(err);
    }
    enum hspz_status status = hspz_counter_device_copy(f, &made, err);
    if (status == HSPZ_OK) {
        status = add_all(made, from, stop, err);
    }
    if (status == HSPZ_OK) {
        made->counter.limit_bytes = f->counter.limit_bytes;
        swap_content(f, made);
    }
    hspz_cuda_filter_destroy(&made);
    return status;
}
