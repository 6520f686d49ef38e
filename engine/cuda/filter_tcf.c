/* Two-choice filters on a device. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"
#include "engine/cuda/filter_sort.h"

/* Sorting pays from so much filter on, for so many keys of it. */
#define BULK_BYTES ((uint64_t)48 << 20)
#define BULK_SHARE 32u
/* Slots that enumerate looks at together, at most. */
#define LOOK_MAX ((uint64_t)1 << 20)

static void
sizes(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS])
{
    const struct hspz_filter_spec *s = &plan->spec;
    bytes[0] = s->slots * s->slot_bits / 8;
    bytes[1] = ((s->slots + plan->spare_slots) * s->value_bits + 7) / 8;
    bytes[2] = plan->spare_slots * sizeof(uint64_t);
}

static struct hspz_cuda_tcf
view(const struct hspz_filter *f)
{
    return (struct hspz_cuda_tcf){.tags = f->arrays[0].data,
                                  .values = f->arrays[1].data,
                                  .backing = f->arrays[2].data,
                                  .locks = f->extra.data,
                                  .blocks = f->plan.blocks,
                                  .backing_slots = f->plan.spare_slots,
                                  .salt = f->salt,
                                  .slot_bits = f->plan.spec.slot_bits,
                                  .block_slots = f->plan.spec.block_slots,
                                  .value_bits = f->plan.spec.value_bits,
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
    if (call->op != HSPZ_FILTER_INSERT || call->way == HSPZ_CUDA_FILTER_POINT ||
        call->yes != NULL || s->value_bits != 0 || s->block_slots != 16 || s->slot_bits == 12) {
        return false;
    }
    return call->way == HSPZ_CUDA_FILTER_BULK ||
           (f->bytes[0] >= BULK_BYTES && call->count >= f->bytes[0] / BULK_SHARE);
}

static enum hspz_status
run_bulk(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
         struct hspz_cuda_filter_sorted *sorted, struct hspz_error *err)
{
    const struct hspz_cuda_tcf tcf = view(f);
    cudaError_t error = cudaSuccess;
    for (uint64_t at = 0; at < call->count && error == cudaSuccess; at += sorted->count) {
        const uint64_t left = call->count - at;
        sorted->count = left < sorted->count ? left : sorted->count;
        const struct hspz_cuda_filter_call part = hspz_cuda_filter_cut(call, at, sorted->count);
        error = cudaMemsetAsync(sorted->left, 0, sizeof(*sorted->left), stream);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_filter_hashes(&part, f->salt, sorted, stream);
        }
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_filter_sort(sorted, stream);
        }
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_tcf_sorted(&tcf, &part, sorted, f->device->multiprocessors,
                                                stream);
        }
    }
    return hspz_cuda_check(error, f->device->label, "inserting into a tcf filter", err);
}

static enum hspz_status
run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
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
    if (wants_bulk(f, call)) {
        struct hspz_cuda_filter_sorted sorted = {.count = call->count < HSPZ_CUDA_FILTER_SORT_MAX
                                                              ? call->count
                                                              : HSPZ_CUDA_FILTER_SORT_MAX};
        hspz_cuda_filter_regions(&sorted, f->plan.blocks,
                                 HSPZ_CUDA_FILTER_REGION_BYTES / (2 * f->plan.spec.slot_bits));
        if (hspz_cuda_filter_sorted_init(f, &sorted) == HSPZ_OK) {
            return run_bulk(f, call, stream, &sorted, err);
        }
    }
    const struct hspz_cuda_tcf tcf = view(f);
    return hspz_cuda_check(hspz_cuda_launch_tcf(&tcf, call, stream), f->device->label,
                           "working on a tcf filter", err);
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
     struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_load(plan, &tcf_kind, image, out, err);
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

/* A stretch of slots on the host: whole bytes of each array, which begin at the slot's byte. */
struct stretch {
    uint64_t first, count;
    uint8_t *tags, *values; /* of the backing table: tags are its words */
};

/* Slots from a multiple of 8 on. */
static enum hspz_status
look(const struct hspz_filter *f, struct stretch *s, struct hspz_error *err)
{
    const struct hspz_filter_spec *spec = &f->plan.spec;
    const bool backing = s->first >= spec->slots;
    const uint64_t at = backing ? s->first - spec->slots : s->first;
    const uint64_t width = backing ? 64 : spec->slot_bits;
    const uint64_t value_at = s->first * spec->value_bits / 8;
    const uint64_t value_end = ((s->first + s->count) * spec->value_bits + 7) / 8;
    const uint8_t *const from = f->arrays[backing ? 2 : 0].data;
    cudaError_t error = cudaMemcpyAsync(s->tags, from + at * width / 8, (s->count * width + 7) / 8,
                                        cudaMemcpyDeviceToHost, f->stream);
    if (error == cudaSuccess && value_end > value_at) {
        error = cudaMemcpyAsync(s->values, (const uint8_t *)f->arrays[1].data + value_at,
                                value_end - value_at, cudaMemcpyDeviceToHost, f->stream);
    }
    const enum hspz_status status =
        hspz_cuda_check(error, f->device->label, "reading a filter", err);
    const enum hspz_status waited =
        hspz_cuda_filter_wait(f, "reading a filter", status == HSPZ_OK ? err : NULL);
    return status != HSPZ_OK ? status : waited;
}

/* The word that the backing table would have for slot i of the stretch; free ones: below
 * HSPZ_TCF_TAGS. */
static uint64_t
word_of(const struct hspz_filter *f, const struct stretch *s, uint64_t i)
{
    const struct hspz_filter_spec *spec = &f->plan.spec;
    if (s->first >= spec->slots) {
        return hspz_filter_bits_get(s->tags, i * 64, 64);
    }
    const uint32_t tag =
        (uint32_t)hspz_filter_bits_get(s->tags, i * spec->slot_bits, spec->slot_bits);
    if (tag < HSPZ_TCF_TAGS) {
        return tag;
    }
    const uint64_t block = (s->first + i) / spec->block_slots;
    const uint64_t other = hspz_tcf_other(block, tag, f->plan.blocks);
    return (block < other ? block : other) << 32 | tag;
}

static void
list(const struct hspz_filter *f, const struct stretch *s, uint64_t *cursor,
     struct hspz_filter_entry *out, size_t capacity, size_t *count)
{
    const unsigned bits = f->plan.spec.value_bits;
    const uint64_t value_skip = s->first * bits % 8;
    for (; *cursor < s->first + s->count && *count < capacity; ++*cursor) {
        const uint64_t i = *cursor - s->first, word = word_of(f, s, i);
        if (word >= HSPZ_TCF_TAGS) {
            out[(*count)++] = (struct hspz_filter_entry){
                .fingerprint = word,
                .value = hspz_filter_bits_get(s->values, value_skip + i * bits, bits),
                .count = 1};
        }
    }
}

static enum hspz_status
enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
          size_t capacity, size_t *count, struct hspz_error *err)
{
    const uint64_t slots = f->plan.spec.slots, all = slots + f->plan.spare_slots;
    uint64_t most = capacity + capacity / 4 + 16;
    most = most < LOOK_MAX ? most : LOOK_MAX;
    *count = 0;
    struct stretch s = {.tags = malloc((most + 8) * sizeof(uint64_t)),
                        .values = malloc((most + 8) * sizeof(uint64_t))};
    enum hspz_status status = s.tags == NULL || s.values == NULL
                                  ? hspz_filter_no_memory(&f->plan, err)
                                  : hspz_cuda_device_use(f->device, err);
    while (status == HSPZ_OK && *cursor < all && *count < capacity) {
        /* slots is a multiple of 16, so a stretch of the backing table begins at its word. */
        s.first = *cursor - *cursor % 8;
        const uint64_t end = s.first < slots ? slots : all;
        s.count = end - s.first < most ? end - s.first : most;
        status = look(f, &s, err);
        if (status == HSPZ_OK) {
            list(f, &s, cursor, out, capacity, count);
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
    .stats = stats,
    .enumerate = enumerate,
    .copy = hspz_cuda_filter_copy,
    .save = hspz_cuda_filter_save,
    .load = load,
};
