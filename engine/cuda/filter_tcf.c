/* Two-choice filters on a device. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"
#include "engine/cuda/filter_sort.h"

#include <string.h>

/* Windows pay for a filter that a device's cache does not hold, from so many keys on, and for so
 * many keys of it. */
#define BULK_BYTES (UINT64_C(40) << 20)
#define BULK_KEYS (UINT64_C(4) << 20)
#define BULK_SHARE 32u
/* Keys of one launch; a multiple of 32. */
#define PART (UINT64_C(1) << 30)
/* Slots that enumerate looks at together, at most. */
#define LOOK_MAX ((uint64_t)1 << 20)

static void
sizes(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS])
{
    const struct hspz_tcf_layout layout = hspz_tcf_layout_of(plan);
    memcpy(bytes, layout.bytes, sizeof(layout.bytes));
}

/* From the highest bit of a word on, a block's number. */
static unsigned
word_shift(uint32_t blocks)
{
    unsigned shift = 63;
    while (shift > 32 && (blocks - 1) >> (64 - shift) != 0) {
        shift--;
    }
    return shift;
}

static struct hspz_cuda_tcf
view(const struct hspz_filter *f)
{
    const struct hspz_filter_spec *s = &f->plan.spec;
    const struct hspz_tcf_layout l = hspz_tcf_layout_of(&f->plan);
    uint8_t *const values = (uint8_t *)f->arrays[l.values_in].data + l.values_at / 8;
    uint8_t *const spare = (uint8_t *)f->arrays[1].data + l.spare_values_at / 8;
    return (struct hspz_cuda_tcf){
        .tags = f->arrays[0].data,
        .values = (uint64_t *)(void *)values,
        .spare_values = (uint64_t *)(void *)spare,
        .backing = f->arrays[2].data,
        .locks = f->extra.data,
        .windows = hspz_tcf_windows_of(f->plan.blocks, s->slot_bits, s->block_slots),
        .backing_slots = (uint32_t)f->plan.spare_slots,
        .block_words = (uint32_t)(l.block_bits / 32),
        .value_block_bits = (uint32_t)l.value_block_bits,
        .slot_bits = s->slot_bits,
        .block_slots = s->block_slots,
        .value_bits = s->value_bits,
        .word_shift = word_shift((uint32_t)f->plan.blocks),
        .salt = f->salt,
        .counts = f->counts.data};
}

enum hspz_status
hspz_cuda_filter_tcf_view(struct hspz_filter *f, struct hspz_cuda_tcf *out, struct hspz_error *err)
{
    if (f->plan.spec.kind != HSPZ_FILTER_TCF) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a %s filter is no tcf filter",
                              hspz_filter_kind_name(f->plan.spec.kind));
    }
    const enum hspz_status status = hspz_cuda_filter_locks_now(f, HSPZ_CUDA_TCF_LOCKS, err);
    if (status == HSPZ_OK) {
        *out = view(f);
    }
    return status;
}

/* Inserts if absent, then looks up what was there: a value may be written after its tag. */
static enum hspz_status
run_absent(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
           struct hspz_error *err)
{
    struct hspz_cuda_filter_call with_bits = *call;
    if (call->yes == NULL && call->found != NULL) {
        const uint64_t bytes = (call->count + 31) / 32 * sizeof(uint32_t);
        const enum hspz_status status =
            hspz_cuda_buffer_reserve(f->device, &f->scratch, bytes, err);
        if (status != HSPZ_OK) {
            return status;
        }
        with_bits.yes = f->scratch.data;
    }
    const struct hspz_cuda_tcf tcf = view(f);
    cudaError_t error = hspz_cuda_launch_tcf(&tcf, &with_bits, stream);
    if (error == cudaSuccess && call->found != NULL) {
        error = hspz_cuda_launch_tcf_found(&tcf, &with_bits, stream);
    }
    return hspz_cuda_check(error, f->device->label, "working on a tcf filter", err);
}

static bool
wants_bulk(const struct hspz_filter *f, const struct hspz_cuda_filter_call *call)
{
    const struct hspz_filter_spec *s = &f->plan.spec;
    if ((call->op != HSPZ_FILTER_INSERT && call->op != HSPZ_FILTER_DELETE) ||
        call->way == HSPZ_CUDA_FILTER_POINT || call->yes != NULL || call->found != NULL ||
        s->block_slots != 16 || s->slot_bits == 12 ||
        s->slot_bits + s->value_bits > word_shift((uint32_t)f->plan.blocks)) {
        return false;
    }
    return call->way == HSPZ_CUDA_FILTER_BULK ||
           (f->bytes[0] >= BULK_BYTES && call->count >= BULK_KEYS &&
            call->count >= s->slots / BULK_SHARE);
}

/* By window, of which there may be one alone. */
static struct hspz_cuda_filter_sorted
make_sorted(const struct hspz_cuda_tcf *tcf, uint64_t count)
{
    struct hspz_cuda_filter_sorted sorted = {
        .wide = true,
        .count = count < HSPZ_CUDA_FILTER_SORT_MAX ? count : HSPZ_CUDA_FILTER_SORT_MAX,
        .shift = tcf->word_shift,
        .end_bit = 64,
        .regions = tcf->windows.last / tcf->windows.size + 1};
    for (uint32_t size = tcf->windows.size; size > 1 && sorted.regions > 1; size /= 2) {
        sorted.shift++;
    }
    return sorted;
}

static enum hspz_status
run_bulk(struct hspz_filter *f, const struct hspz_cuda_tcf *tcf,
         const struct hspz_cuda_filter_call *call, cudaStream_t stream,
         struct hspz_cuda_filter_sorted *sorted, struct hspz_error *err)
{
    cudaError_t error = cudaSuccess;
    for (uint64_t at = 0; at < call->count && error == cudaSuccess; at += sorted->count) {
        const uint64_t left = call->count - at;
        sorted->count = left < sorted->count ? left : sorted->count;
        const struct hspz_cuda_filter_call part = hspz_cuda_filter_cut(call, at, sorted->count);
        error = hspz_cuda_launch_tcf_words(tcf, &part, sorted, stream);
        if (error == cudaSuccess && sorted->regions > 1) {
            error = hspz_cuda_launch_filter_sort(sorted, stream);
        }
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_tcf_sorted(tcf, &part, sorted, stream);
        }
    }
    return hspz_cuda_check(error, f->device->label, "working on a tcf filter", err);
}

static enum hspz_status
run_part(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
         struct hspz_error *err)
{
    const bool absent = call->op == HSPZ_FILTER_INSERT_IF_ABSENT;
    if (absent || f->plan.spec.slot_bits == 12) {
        const enum hspz_status status = hspz_cuda_filter_locks(f, HSPZ_CUDA_TCF_LOCKS, stream, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    if (absent) {
        return run_absent(f, call, stream, err);
    }
    const struct hspz_cuda_tcf tcf = view(f);
    if (wants_bulk(f, call)) {
        struct hspz_cuda_filter_sorted sorted = make_sorted(&tcf, call->count);
        if (hspz_cuda_filter_sorted_init(f, &sorted) == HSPZ_OK) {
            sorted.starts = NULL; /* windows find their own words */
            return run_bulk(f, &tcf, call, stream, &sorted, err);
        }
    }
    return hspz_cuda_check(hspz_cuda_launch_tcf(&tcf, call, stream), f->device->label,
                           "working on a tcf filter", err);
}

static enum hspz_status
run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
    struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (uint64_t at = 0; at < call->count && status == HSPZ_OK; at += PART) {
        const uint64_t left = call->count - at;
        const struct hspz_cuda_filter_call part =
            hspz_cuda_filter_cut(call, at, left < PART ? left : PART);
        status = run_part(f, &part, stream, err);
    }
    return status;
}

/* Words of the backing table must be of blocks that were full, and the number of tags as said. */
static enum hspz_status
check(struct hspz_filter *f, const char **damage, struct hspz_error *err)
{
    const struct hspz_cuda_tcf tcf = view(f);
    enum hspz_status status = hspz_cuda_check(hspz_cuda_launch_tcf_check(&tcf, f->stream),
                                              f->device->label, "checking a filter", err);
    struct hspz_cuda_filter_counts counts;
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_counts_get(f, &counts, err);
    }
    if (status == HSPZ_OK) {
        *damage = counts.damaged > 0              ? "a word of the backing table is of no key"
                  : counts.used != counts.entries ? "it holds another number of tags"
                                                  : NULL;
    }
    return status;
}

static const struct hspz_cuda_filter_kind tcf_kind = {
    .ops = 1u << HSPZ_FILTER_INSERT | 1u << HSPZ_FILTER_INSERT_IF_ABSENT | 1u << HSPZ_FILTER_QUERY |
           1u << HSPZ_FILTER_COUNT | 1u << HSPZ_FILTER_DELETE,
    .sizes = sizes,
    .run = run,
    .check = check,
};

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_make(plan, &tcf_kind, out, err);
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_load(plan, &tcf_kind, image, stop, out, err);
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    const struct hspz_filter_spec *s = &f->plan.spec;
    struct hspz_cuda_filter_counts counts;
    *out = (struct hspz_filter_stats){0};
    if (hspz_cuda_filter_counts_get(f, &counts, NULL) != HSPZ_OK) {
        return;
    }
    out->entries = out->total = out->used = counts.entries;
    out->bytes = f->plan.bytes;
    out->load = (double)counts.entries / (double)s->slots;
    out->rate = hspz_filter_tcf_rate(out->load, s->block_slots, s->slot_bits);
}

/* ---- enumerate ---- */

/* Slots on the host: those of whole blocks, or some of the backing table, which come behind them.
 */
struct stretch {
    uint64_t first, count;
    uint8_t *tags;   /* array 0 from the first block on, or words of the backing table */
    uint8_t *values; /* of the array they are in, from the first one's byte on */
    uint64_t value_skip;
};

static enum hspz_status
fetch(const struct hspz_filter *f, unsigned array, uint64_t at, uint64_t end, uint8_t *to,
      struct hspz_error *err)
{
    const uint8_t *const from = f->arrays[array].data;
    return hspz_cuda_check(
        cudaMemcpyAsync(to, from + at, end - at, cudaMemcpyDeviceToHost, f->stream),
        f->device->label, "reading a filter", err);
}

/* Bits [first, first + count * bits) of an array, from a byte on. */
static enum hspz_status
look_at_values(const struct hspz_filter *f, struct stretch *s, uint64_t first, uint64_t bits,
               struct hspz_error *err)
{
    s->value_skip = first % 8;
    return bits > 0 ? fetch(f, 1, first / 8, (first + bits + 7) / 8, s->values, err) : HSPZ_OK;
}

static enum hspz_status
look(const struct hspz_filter *f, const struct hspz_tcf_layout *l, struct stretch *s,
     struct hspz_error *err)
{
    const struct hspz_filter_spec *spec = &f->plan.spec;
    enum hspz_status status;
    if (s->first >= spec->slots) {
        const uint64_t at = s->first - spec->slots;
        status = fetch(f, 2, at * 8, (at + s->count) * 8, s->tags, err);
        if (status == HSPZ_OK) {
            status = look_at_values(f, s, l->spare_values_at + at * spec->value_bits,
                                    s->count * spec->value_bits, err);
        }
    } else {
        const uint64_t block = s->first / spec->block_slots;
        const uint64_t blocks = s->count / spec->block_slots;
        status = fetch(f, 0, block * l->block_bits / 8, (block + blocks) * l->block_bits / 8,
                       s->tags, err);
        if (status == HSPZ_OK && l->values_in == 1) {
            status = look_at_values(f, s, block * l->value_block_bits, blocks * l->value_block_bits,
                                    err);
        }
    }
    const enum hspz_status waited =
        hspz_cuda_filter_wait(f, "reading a filter", status == HSPZ_OK ? err : NULL);
    return status != HSPZ_OK ? status : waited;
}

/* Slot i of the stretch. */
static struct hspz_filter_entry
entry_of(const struct hspz_filter *f, const struct hspz_tcf_layout *l,
         const struct hspz_tcf_windows *windows, const struct stretch *s, uint64_t i)
{
    const struct hspz_filter_spec *spec = &f->plan.spec;
    const unsigned bits = spec->value_bits;
    struct hspz_filter_entry entry = {.count = 1};
    if (s->first >= spec->slots) {
        entry.fingerprint = hspz_filter_bits_get(s->tags, i * 64, 64);
        entry.value = hspz_filter_bits_get(s->values, s->value_skip + i * bits, bits);
        return entry;
    }
    const uint64_t block = i / spec->block_slots, slot = i % spec->block_slots;
    const uint32_t tag = (uint32_t)hspz_filter_bits_get(
        s->tags, block * l->block_bits + slot * spec->slot_bits, spec->slot_bits);
    const uint32_t number = (uint32_t)(s->first / spec->block_slots + block);
    entry.fingerprint = tag < HSPZ_TCF_TAGS
                            ? tag
                            : hspz_tcf_word(number, hspz_tcf_other(number, tag, *windows), tag);
    entry.value = hspz_filter_bits_get(l->values_in == 0 ? s->tags : s->values,
                                       (l->values_in == 0 ? l->values_at : s->value_skip) +
                                           block * l->value_block_bits + slot * bits,
                                       bits);
    return entry;
}

/* The stretch that the cursor is in, of about so many slots. */
static void
cut(const struct hspz_filter_plan *plan, uint64_t cursor, uint64_t most, struct stretch *s)
{
    const uint64_t slots = plan->spec.slots, block = plan->spec.block_slots;
    s->first = cursor < slots ? cursor / block * block : cursor;
    const uint64_t end = cursor < slots ? slots : slots + plan->spare_slots;
    s->count = end - s->first < most ? end - s->first : most;
}

static enum hspz_status
enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
          size_t capacity, size_t *count, struct hspz_error *err)
{
    const struct hspz_filter_spec *spec = &f->plan.spec;
    const struct hspz_tcf_layout l = hspz_tcf_layout_of(&f->plan);
    const struct hspz_tcf_windows windows =
        hspz_tcf_windows_of(f->plan.blocks, spec->slot_bits, spec->block_slots);
    const uint64_t all = spec->slots + f->plan.spare_slots;
    uint64_t most =
        (capacity + capacity / 4) / spec->block_slots * spec->block_slots + 2 * spec->block_slots;
    most = most < LOOK_MAX ? most : LOOK_MAX;
    *count = 0;
    /* A tag and its value have 80 bits at most, a word of the backing table 64. */
    struct stretch s = {.tags = malloc(most * 10 + 8), .values = malloc(most * 6 + 8)};
    enum hspz_status status = s.tags == NULL || s.values == NULL
                                  ? hspz_filter_no_memory(&f->plan, err)
                                  : hspz_cuda_device_use(f->device, err);
    while (status == HSPZ_OK && *cursor < all && *count < capacity) {
        cut(&f->plan, *cursor, most, &s);
        status = look(f, &l, &s, err);
        for (; status == HSPZ_OK && *cursor < s.first + s.count && *count < capacity; ++*cursor) {
            out[*count] = entry_of(f, &l, &windows, &s, *cursor - s.first);
            *count += out[*count].fingerprint >= HSPZ_TCF_TAGS;
        }
    }
    free(s.tags);
    free(s.values);
    return status;
}

const struct hspz_filter_ops hspz_cuda_filter_tcf = {
    .create = create,
    .destroy = hspz_cuda_filter_destroy,
    .plan = hspz_cuda_filter_plan_of,
    .run = hspz_cuda_filter_run_host,
    .takes_sequence = true,
    .run_parts = hspz_cuda_filter_run_parts,
    .stats = stats,
    .enumerate = enumerate,
    .copy = hspz_cuda_filter_copy,
    .save = hspz_cuda_filter_save,
    .load = load,
};
