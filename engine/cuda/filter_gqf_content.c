/* What a quotient filter on a device holds: listed, merged into another, in twice the slots, in an
 * image. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_gqf.h"

#include <string.h>

#define LIST_TILES 4096u /* most at a time */
#define CURSOR_SHIFT 32  /* tile, and below it entries of it and behind it that were given out */

/* ---- listing ---- */

/* Entries as items of an insert, and their counts, in device memory. */
struct listing {
    struct hspz_cuda_buffer numbers, temp, keys, counts;
    uint64_t count;
    bool wide;
};

static void
listing_fini(struct hspz_cuda_device *device, struct listing *l)
{
    hspz_cuda_buffer_free(device, &l->numbers);
    hspz_cuda_buffer_free(device, &l->temp);
    hspz_cuda_buffer_free(device, &l->keys);
    hspz_cuda_buffer_free(device, &l->counts);
}

static enum hspz_status
check(const struct hspz_filter *f, cudaError_t error, struct hspz_error *err)
{
    return hspz_cuda_check(error, f->device->label, "listing a quotient filter", err);
}

/* How many entries each of the tiles has before it; listing.count. */
static enum hspz_status
count_entries(const struct hspz_filter *f, uint64_t first, uint64_t tiles, struct listing *l,
              struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    size_t temp_bytes = 0;
    enum hspz_status status =
        check(f, hspz_cuda_quotient_temp_bytes(1, 64, l->wide, tiles, &temp_bytes), err);
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_buffer_reserve(f->device, &l->numbers, (tiles + 1) * sizeof(uint64_t), err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_buffer_reserve(f->device, &l->temp, temp_bytes, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    uint64_t *numbers = l->numbers.data;
    cudaError_t error = hspz_cuda_launch_quotient_tell(&q, first, tiles, numbers, f->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_sums(numbers, tiles, l->temp.data, temp_bytes, f->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(&l->count, numbers + tiles, sizeof(l->count),
                                cudaMemcpyDeviceToHost, f->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(f->stream);
    }
    return check(f, error, err);
}

static enum hspz_status
list_entries(const struct hspz_filter *f, uint64_t first, uint64_t tiles, struct listing *l,
             struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    l->wide = hspz_gqf_is_wide(&q);
    enum hspz_status status = count_entries(f, first, tiles, l, err);
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_buffer_reserve(f->device, &l->keys, l->count * (l->wide ? 16 : 8) + 1, err);
    }
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_buffer_reserve(f->device, &l->counts, l->count * sizeof(uint64_t) + 1, err);
    }
    return status != HSPZ_OK
               ? status
               : check(f,
                       hspz_cuda_launch_quotient_list(&q, first, tiles, l->numbers.data, l->wide,
                                                      l->keys.data, l->counts.data, f->stream),
                       err);
}

/* ---- enumerate ---- */

static struct hspz_filter_entry
entry_of(const struct hspz_filter *f, const void *keys, bool wide, uint64_t i, uint64_t count)
{
    const unsigned v = f->plan.spec.value_bits;
    hspz_gqf_total key = ((const uint64_t *)keys)[i];
    if (wide) {
        memcpy(&key, (const char *)keys + i * sizeof(key), sizeof(key));
    }
    return (struct hspz_filter_entry){.fingerprint = (uint64_t)(key >> v),
                                      .value = (uint64_t)key & ((UINT64_C(1) << v) - 1),
                                      .count = count};
}

/* Entries skip .. of a listing, as many as fit. */
static enum hspz_status
give_out(const struct hspz_filter *f, const struct listing *l, uint64_t skip,
         struct hspz_filter_entry *out, size_t capacity, size_t *count, struct hspz_error *err)
{
    const uint64_t most = l->count > skip ? l->count - skip : 0;
    const uint64_t n = most < capacity ? most : capacity;
    const size_t key_bytes = l->wide ? 16 : 8;
    *count = n;
    if (n == 0) {
        return HSPZ_OK;
    }
    char *keys = malloc(n * (key_bytes + sizeof(uint64_t)));
    if (keys == NULL) {
        return hspz_filter_no_memory(&f->plan, err);
    }
    uint64_t *counts = (uint64_t *)(void *)(keys + n * key_bytes);
    cudaError_t error = cudaMemcpyAsync(keys, (const char *)l->keys.data + skip * key_bytes,
                                        n * key_bytes, cudaMemcpyDeviceToHost, f->stream);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(counts, (const uint64_t *)l->counts.data + skip,
                                n * sizeof(*counts), cudaMemcpyDeviceToHost, f->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(f->stream);
    }
    for (uint64_t i = 0; i < n && error == cudaSuccess; i++) {
        out[i] = entry_of(f, keys, l->wide, i, counts[i]);
    }
    free(keys);
    return check(f, error, err);
}

enum hspz_status
hspz_gqf_enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
                   size_t capacity, size_t *count, struct hspz_error *err)
{
    const uint64_t tiles = hspz_cuda_quotient_tiles(f->plan.spec.slots);
    const uint64_t wanted = capacity / HSPZ_CUDA_QUOTIENT_TILE + 1;
    const uint64_t batch = wanted < LIST_TILES ? wanted : LIST_TILES;
    uint64_t tile = *cursor >> CURSOR_SHIFT;
    uint64_t skip = *cursor & ((UINT64_C(1) << CURSOR_SHIFT) - 1);
    struct listing l = {0};
    size_t done = 0;
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    while (status == HSPZ_OK && done < capacity && tile < tiles) {
        const uint64_t now = tiles - tile < batch ? tiles - tile : batch;
        size_t given = 0;
        status = list_entries(f, tile, now, &l, err);
        if (status == HSPZ_OK) {
            status = give_out(f, &l, skip, out + done, capacity - done, &given, err);
        }
        done += given;
        skip += given;
        if (skip >= l.count) {
            tile += now;
            skip = 0;
        }
    }
    listing_fini(f->device, &l);
    if (status == HSPZ_OK) {
        *cursor = tile << CURSOR_SHIFT | skip;
        *count = done;
    }
    return status;
}

/* ---- merge, grow ---- */

/* What `from` has, merged into the filter's slots, or with `anew` into empty ones of `plan`. */
static enum hspz_status
merge_listing(struct hspz_filter *f, const struct listing *l, const struct hspz_filter_plan *plan,
              bool anew, bool *fits, struct hspz_error *err)
{
    const struct hspz_gqf_needs needs = {.wide = l->wide, .key_bits = 64};
    struct hspz_gqf_work w;
    struct hspz_cuda_quotient_tally tally;
    enum hspz_status status = hspz_gqf_work_open(&w, f, plan, &needs, 1, f->stream, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (anew) {
        w.old = hspz_gqf_view_of(plan, f->salt, NULL);
        w.numbers = (struct hspz_gqf_numbers){0};
        w.full_slots = UINT64_MAX;
    }
    const struct hspz_cuda_quotient_items items = {.op = HSPZ_FILTER_INSERT,
                                                   .keys = l->keys.data,
                                                   .wide = l->wide,
                                                   .counts = l->counts.data,
                                                   .count = l->count};
    status = hspz_gqf_check(&w, cudaMemsetAsync(w.tally, 0, sizeof(*w.tally), f->stream), err);
    if (status == HSPZ_OK) {
        status = hspz_gqf_merge_items(&w, &items, true, &tally, err);
    }
    *fits = status == HSPZ_OK && tally.fits;
    if (*fits) {
        const struct hspz_filter_plan before = f->plan;
        f->plan = *plan;
        status = hspz_gqf_take_over(&w, &tally, err);
        if (status == HSPZ_OK) {
            f->bytes[0] = w.made_bytes;
        } else {
            f->plan = before;
        }
    }
    return status;
}

/* All that a filter has. */
static enum hspz_status
list_all(const struct hspz_filter *f, struct listing *l, struct hspz_error *err)
{
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status == HSPZ_OK) {
        status = list_entries(f, 0, hspz_cuda_quotient_tiles(f->plan.spec.slots), l, err);
    }
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "listing a quotient filter", err) : status;
}

enum hspz_status
hspz_gqf_merge(struct hspz_filter *f, const struct hspz_filter *from,
               const struct hspz_filter_stop *stop, bool *full, struct hspz_error *err)
{
    const struct hspz_filter_plan *a = &f->plan, *b = &from->plan;
    if (a->spec.kind != b->spec.kind || f->salt != from->salt || f->device != from->device ||
        a->quotient_bits + a->remainder_bits != b->quotient_bits + b->remainder_bits ||
        a->spec.value_bits != b->spec.value_bits) {
        return hspz_filter_differ(err);
    }
    struct listing l = {0};
    bool fits = false;
    enum hspz_status status = hspz_filter_stopped(stop, err);
    if (status == HSPZ_OK) {
        status = list_all(from, &l, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_filter_stopped(stop, err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_filter_plan plan = f->plan;
        status = merge_listing(f, &l, &plan, false, &fits, err);
    }
    listing_fini(f->device, &l);
    if (status == HSPZ_OK) {
        *full = !fits;
    }
    return status;
}

enum hspz_status
hspz_gqf_grow(struct hspz_filter *f, uint64_t budget_bytes, struct hspz_error *err)
{
    struct hspz_filter_plan plan;
    enum hspz_status status = hspz_filter_plan_twice(&f->plan, budget_bytes, &plan, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct listing l = {0};
    bool fits = false;
    status = list_all(f, &l, err);
    if (status == HSPZ_OK) {
        status = merge_listing(f, &l, &plan, true, &fits, err);
    }
    listing_fini(f->device, &l);
    if (status == HSPZ_OK && !fits) {
        status = hspz_error_set(err, HSPZ_E_TOO_LARGE, "the entries do not fit twice the slots");
    }
    return status;
}

/* ---- images ---- */

/* Bytes of the arrays of an image. */
static void
image_bytes(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS])
{
    const uint64_t slots = plan->spec.slots + plan->spare_slots;
    bytes[0] = slots * (plan->spec.slot_bits / 8);
    bytes[1] = bytes[2] = (slots + 63) / 64 * sizeof(uint64_t);
}

#define PAIR_BYTES (2 * sizeof(uint64_t)) /* of one kind of mark of a block */

/* One kind of mark, to the host or from there: of all blocks but the last, then of that. */
static cudaError_t
copy_marks(uint64_t *marks, void *host, uint64_t bytes, bool down, cudaStream_t stream)
{
    const uint64_t blocks = (bytes - 1) / PAIR_BYTES, rest = bytes - blocks * PAIR_BYTES;
    char *last = (char *)host + blocks * PAIR_BYTES;
    if (down) {
        const cudaError_t error =
            cudaMemcpy2DAsync(host, PAIR_BYTES, marks, 2 * PAIR_BYTES, PAIR_BYTES, blocks,
                              cudaMemcpyDeviceToHost, stream);
        return error != cudaSuccess ? error
                                    : cudaMemcpyAsync(last, marks + 4 * blocks, rest,
                                                      cudaMemcpyDeviceToHost, stream);
    }
    const cudaError_t error = cudaMemcpy2DAsync(marks, 2 * PAIR_BYTES, host, PAIR_BYTES, PAIR_BYTES,
                                                blocks, cudaMemcpyHostToDevice, stream);
    return error != cudaSuccess
               ? error
               : cudaMemcpyAsync(marks + 4 * blocks, last, rest, cudaMemcpyHostToDevice, stream);
}

static enum hspz_status
copy_image(const struct hspz_filter *f, void *const arrays[HSPZ_FILTER_ARRAYS],
           const uint64_t bytes[HSPZ_FILTER_ARRAYS], bool down, const struct hspz_filter_stop *stop,
           struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    enum hspz_status status =
        hspz_cuda_filter_move(f, q.symbols, arrays[0], bytes[0], down, stop, err);
    for (unsigned i = 1; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        status =
            check(f, copy_marks(q.marks + 2 * (i - 1), arrays[i], bytes[i], down, f->stream), err);
    }
    return status;
}

enum hspz_status
hspz_gqf_save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
              struct hspz_filter_image *out, struct hspz_error *err)
{
    struct hspz_filter_image image = {0};
    struct hspz_gqf_numbers numbers;
    enum hspz_status status = hspz_gqf_numbers_get(f, &numbers, err);
    image_bytes(&f->plan, image.bytes);
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        image.arrays[i] = malloc(image.bytes[i]);
        if (image.arrays[i] == NULL) {
            status = hspz_filter_no_memory(&f->plan, err);
        }
    }
    if (status == HSPZ_OK) {
        status = copy_image(f, image.arrays, image.bytes, true, stop, err);
        const enum hspz_status waited =
            hspz_cuda_filter_wait(f, "downloading a filter", status == HSPZ_OK ? err : NULL);
        status = status != HSPZ_OK ? status : waited;
    }
    if (status != HSPZ_OK) {
        hspz_filter_image_fini(&image);
        return status;
    }
    image.entries = numbers.entries;
    image.total = numbers.total >> 64 != 0 ? UINT64_MAX : (uint64_t)numbers.total;
    *out = image;
    return HSPZ_OK;
}

/* Offsets of an image that is right; the loop stays in its arrays whatever they hold. */
static void
find_offsets(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
             uint16_t *offsets)
{
    const uint64_t *occupied = image->arrays[1], *runend = image->arrays[2];
    const uint64_t words = image->bytes[1] / sizeof(uint64_t);
    const uint64_t blocks = hspz_cuda_quotient_blocks(plan->spec.slots + plan->spare_slots);
    uint64_t at = 0, end = 0, rest = runend[0];
    for (uint64_t b = 0; b < blocks; b++) {
        const uint64_t first = b * HSPZ_CUDA_QUOTIENT_BLOCK;
        const uint64_t offset = end > first ? end - first : 0;
        offsets[b] = (uint16_t)(offset < HSPZ_CUDA_QUOTIENT_FAR ? offset : HSPZ_CUDA_QUOTIENT_FAR);
        unsigned runs = 0;
        for (uint64_t w = 2 * b; w < 2 * b + 2 && w < words; w++) {
            runs += (unsigned)__builtin_popcountll(occupied[w]);
        }
        for (; runs > 0; runs--, rest &= rest - 1) {
            while (rest == 0 && at + 1 < words) {
                rest = runend[++at];
            }
            if (rest == 0) {
                return;
            }
            end = at * 64 + (unsigned)__builtin_ctzll(rest) + 1;
        }
    }
}

static enum hspz_status
fill(struct hspz_filter *f, const struct hspz_filter_image *image,
     const struct hspz_filter_stats *stats, const struct hspz_filter_stop *stop,
     struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const uint64_t bytes = hspz_cuda_quotient_blocks(q.slots) * sizeof(uint16_t);
    const struct hspz_cuda_filter_counts counts = {
        .entries = stats->entries, .total = stats->total, .used = stats->used};
    uint16_t *offsets = calloc(1, bytes);
    if (offsets == NULL) {
        return hspz_filter_no_memory(&f->plan, err);
    }
    find_offsets(&f->plan, image, offsets);
    const enum hspz_status copied = copy_image(f, image->arrays, image->bytes, false, stop, err);
    cudaError_t error = cudaSuccess;
    if (copied == HSPZ_OK) {
        error = cudaMemcpyAsync(q.offsets, offsets, bytes, cudaMemcpyHostToDevice, f->stream);
    }
    const enum hspz_status status =
        copied != HSPZ_OK ? copied
                          : hspz_cuda_check(error, f->device->label, "uploading a filter", err);
    const enum hspz_status waited =
        hspz_cuda_filter_counts_set(f, &counts, status == HSPZ_OK ? err : NULL);
    free(offsets);
    return status != HSPZ_OK ? status : waited;
}

enum hspz_status
hspz_gqf_load(const struct hspz_filter_plan *plan, const struct hspz_cuda_filter_kind *kind,
              const struct hspz_filter_image *image, const struct hspz_filter_stop *stop,
              struct hspz_filter **out, struct hspz_error *err)
{
    /* The CPU's filter checks every slot of it. */
    const struct hspz_filter_ops *cpu = hspz_cpu_filter(plan->spec.kind);
    struct hspz_filter *checked = NULL, *f = NULL;
    struct hspz_filter_stats stats;
    enum hspz_status status = cpu->load(plan, image, stop, &checked, err);
    if (status != HSPZ_OK) {
        return status;
    }
    cpu->stats(checked, &stats);
    cpu->destroy(&checked);
    status = hspz_cuda_filter_make(plan, kind, &f, err);
    if (status == HSPZ_OK) {
        status = fill(f, image, &stats, stop, err);
    }
    if (status != HSPZ_OK) {
        hspz_cuda_filter_destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}
