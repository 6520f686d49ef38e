/* What changes of a quotient filter share: how it lies in memory, scratch, and the merge. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_gqf.h"

#define ALIGN 256u
#define PIECE_MOST (UINT64_C(1) << 30)
#define PIECE_LEAST (UINT64_C(1) << 12)

static uint64_t
aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- slots ---- */

struct hspz_gqf_layout
hspz_gqf_lay_out(const struct hspz_filter_plan *plan)
{
    const uint64_t slots = plan->spec.slots + plan->spare_slots;
    const uint64_t blocks = hspz_cuda_quotient_blocks(slots);
    struct hspz_gqf_layout l;
    l.marks = aligned(slots * (plan->spec.slot_bits / 8) + HSPZ_CUDA_QUOTIENT_PAD);
    l.offsets = l.marks + aligned(blocks * 4 * sizeof(uint64_t));
    l.bytes = l.offsets + aligned(blocks * sizeof(uint16_t));
    return l;
}

struct hspz_cuda_quotient
hspz_gqf_view_of(const struct hspz_filter_plan *plan, uint64_t salt, void *memory)
{
    const struct hspz_gqf_layout l = hspz_gqf_lay_out(plan);
    struct hspz_cuda_quotient q = {
        .quotients = plan->spec.slots,
        .slots = plan->spec.slots + plan->spare_slots,
        .salt = salt,
        .remainder_bits = plan->remainder_bits,
        .value_bits = plan->spec.value_bits,
        .slot_bits = plan->spec.slot_bits,
        .fingerprint_bits = plan->quotient_bits + plan->remainder_bits,
        .set = plan->spec.kind != HSPZ_FILTER_GQF,
    };
    if (memory != NULL) {
        q.symbols = memory;
        q.marks = (uint64_t *)((char *)memory + l.marks);
        q.offsets = (uint16_t *)(void *)((char *)memory + l.offsets);
    }
    return q;
}

/* ---- numbers ---- */

enum hspz_status
hspz_gqf_numbers_get(const struct hspz_filter *f, struct hspz_gqf_numbers *out,
                     struct hspz_error *err)
{
    struct hspz_cuda_filter_counts counts;
    const enum hspz_status status = hspz_cuda_filter_counts_get(f, &counts, err);
    if (status == HSPZ_OK) {
        *out = (struct hspz_gqf_numbers){counts.entries, counts.used,
                                         (hspz_gqf_total)counts.total_high << 64 | counts.total};
    }
    return status;
}

/* As they are when the stream is there. */
static enum hspz_status
numbers_behind(const struct hspz_filter *f, cudaStream_t stream, struct hspz_gqf_numbers *out,
               struct hspz_error *err)
{
    struct hspz_cuda_filter_counts counts;
    const struct hspz_cuda_filter_known *known = &f->known;
    if (known->is) {
        *out = (struct hspz_gqf_numbers){known->entries, known->used,
                                         (hspz_gqf_total)known->total_high << 64 | known->total};
        return HSPZ_OK;
    }
    cudaError_t error =
        cudaMemcpyAsync(&counts, f->counts.data, sizeof(counts), cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(stream);
    }
    if (error == cudaSuccess) {
        *out = (struct hspz_gqf_numbers){counts.entries, counts.used,
                                         (hspz_gqf_total)counts.total_high << 64 | counts.total};
    }
    return hspz_cuda_check(error, f->device->label, "reading a filter's numbers", err);
}

static hspz_gqf_total
halves(const unsigned long long sums[2])
{
    return sums[0] + ((hspz_gqf_total)sums[1] << 32);
}

/* ---- scratch of a change ---- */

static uint64_t
put(uint64_t *at, uint64_t bytes)
{
    const uint64_t here = *at;
    *at += aligned(bytes);
    return here;
}

/* Places from `memory` on; how much of it is needed. */
static uint64_t
lay_out(struct hspz_gqf_work *w, const struct hspz_gqf_needs *needs, uint64_t count,
        uintptr_t memory)
{
    const uint64_t key_bytes = needs->wide ? 16 : 8;
    uint64_t at = 0;
    for (unsigned i = 0; i < 2; i++) {
        w->keys[i] = (void *)(memory + put(&at, count * key_bytes));
        w->indices[i] =
            needs->indices ? (uint32_t *)(memory + put(&at, count * sizeof(uint32_t))) : NULL;
        w->counts[i] =
            needs->counts ? (uint64_t *)(memory + put(&at, count * sizeof(uint64_t))) : NULL;
    }
    w->counted = (uint32_t *)(memory + put(&at, sizeof(uint32_t)));
    w->bounds = (uint64_t *)(memory + put(&at, (w->tiles + 1) * sizeof(uint64_t)));
    w->states = (void *)(memory + put(&at, (w->tiles + 1) * sizeof(*w->states)));
    w->before = (void *)(memory + put(&at, (w->tiles + 1) * sizeof(*w->before)));
    w->tally = (void *)(memory + put(&at, sizeof(*w->tally)));
    w->words = (uint64_t *)(memory + put(&at, (w->tiles + 1) * sizeof(uint64_t)));
    w->temp = (void *)(memory + put(&at, w->temp_bytes));
    return at;
}

enum hspz_status
hspz_gqf_check(const struct hspz_gqf_work *w, cudaError_t error, struct hspz_error *err)
{
    return hspz_cuda_check(error, w->f->device->label, "working on a quotient filter", err);
}

enum hspz_status
hspz_gqf_work_open(struct hspz_gqf_work *w, struct hspz_filter *f,
                   const struct hspz_filter_plan *made, const struct hspz_gqf_needs *needs,
                   uint64_t count, cudaStream_t stream, struct hspz_error *err)
{
    *w = (struct hspz_gqf_work){.f = f, .stream = stream, .full_slots = made->full_slots};
    w->wide = needs->wide;
    w->tiles = hspz_cuda_quotient_tiles(made->spec.slots);
    w->capacity = count < PIECE_MOST ? count : PIECE_MOST;
    /* What was put on the stream before may have changed the numbers. */
    enum hspz_status status = numbers_behind(f, stream, &w->numbers, err);
    if (status == HSPZ_OK) {
        w->made_bytes = hspz_gqf_lay_out(made).bytes;
        status = hspz_cuda_buffer_reserve(f->device, &f->extra, w->made_bytes, err);
    }
    while (status == HSPZ_OK) {
        status =
            hspz_gqf_check(w,
                           hspz_cuda_quotient_temp_bytes(w->capacity, needs->key_bits, needs->wide,
                                                         w->tiles, &w->temp_bytes),
                           err);
        if (status == HSPZ_OK) {
            const uint64_t bytes = lay_out(w, needs, w->capacity, 0);
            status = hspz_cuda_buffer_reserve(f->device, &f->scratch, bytes, err);
        }
        if (status != HSPZ_E_OUT_OF_MEMORY || w->capacity <= PIECE_LEAST) {
            break;
        }
        w->capacity /= 2;
        status = HSPZ_OK;
    }
    if (status == HSPZ_OK) {
        (void)lay_out(w, needs, w->capacity, (uintptr_t)f->scratch.data);
        w->old =
            hspz_gqf_view_of(&f->plan, f->salt, w->numbers.entries > 0 ? f->arrays[0].data : NULL);
        w->made = hspz_gqf_view_of(made, f->salt, f->extra.data);
    }
    return status;
}

/* ---- one change ---- */

enum hspz_status
hspz_gqf_merge_items(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_items *items,
                     bool write, struct hspz_cuda_quotient_tally *out, struct hspz_error *err)
{
    cudaError_t error = hspz_cuda_launch_quotient_bounds(&w->made, items, HSPZ_CUDA_QUOTIENT_TILE,
                                                         w->bounds, w->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_measure(&w->old, &w->made, items, w->bounds, w->states,
                                                  w->tally, w->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_scan(&w->made, w->full_slots, w->states, w->before,
                                               w->tally, w->temp, w->temp_bytes, w->stream);
    }
    if (error == cudaSuccess && write) {
        error = cudaMemsetAsync(w->f->extra.data, 0, w->made_bytes, w->stream);
    }
    if (error == cudaSuccess && write) {
        error = hspz_cuda_launch_quotient_write(&w->old, &w->made, items, w->bounds, w->before,
                                                w->tally, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(out, w->tally, sizeof(*out), cudaMemcpyDeviceToHost, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(w->stream);
    }
    return hspz_gqf_check(w, error, err);
}

cudaError_t
hspz_gqf_clear_tally(const struct hspz_gqf_work *w)
{
    const uint64_t words = hspz_cuda_quotient_parts(w->made.quotients) + 1;
    const size_t bytes = (size_t)((char *)(w->words + words) - (char *)w->tally);
    return cudaMemsetAsync(w->tally, 0, bytes, w->stream);
}

/* ---- parts ---- */

bool
hspz_gqf_is_for_parts(const struct hspz_gqf_work *w, const struct hspz_gqf_needs *needs,
                      enum hspz_filter_op op)
{
    return !needs->wide && !needs->counts && !needs->indices && w->made.slot_bits <= 16 &&
           (op == HSPZ_FILTER_INSERT || op == HSPZ_FILTER_DELETE);
}

unsigned
hspz_gqf_part_bit(const struct hspz_gqf_work *w, const struct hspz_gqf_needs *needs)
{
    return HSPZ_CUDA_QUOTIENT_PART_LOG2 + needs->key_bits - w->made.fingerprint_bits +
           w->made.remainder_bits;
}

enum hspz_status
hspz_gqf_merge_parts(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_items *items,
                     const uint64_t *bounds, struct hspz_cuda_quotient_tally *out, bool *merged,
                     struct hspz_error *err)
{
    cudaError_t error = cudaMemsetAsync(w->f->extra.data, 0, w->made_bytes, w->stream);
    if (error == cudaSuccess && bounds == NULL) {
        error = hspz_cuda_launch_quotient_bounds(&w->made, items, HSPZ_CUDA_QUOTIENT_PART,
                                                 w->bounds, w->stream);
        bounds = w->bounds;
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_parts(&w->old, &w->made, items, bounds, w->words,
                                                w->tally, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(out, w->tally, sizeof(*out), cudaMemcpyDeviceToHost, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(w->stream);
    }
    *merged = error == cudaSuccess && out->crowded == 0;
    out->fits = *merged && out->end <= w->made.slots && out->used <= w->full_slots;
    return hspz_gqf_check(w, error, err);
}

/* ---- locks, numbers ---- */

enum hspz_status
hspz_gqf_locks(struct hspz_filter *f, cudaStream_t stream, uint32_t **out, struct hspz_error *err)
{
    const uint64_t bytes = hspz_cuda_quotient_locks(f->plan.spec.slots) * sizeof(uint32_t);
    const enum hspz_status status = hspz_cuda_filter_zeroed(f, &f->arrays[1], bytes, stream, err);
    *out = f->arrays[1].data;
    return status;
}

enum hspz_status
hspz_gqf_take_over(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_tally *tally,
                   struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    const struct hspz_gqf_numbers numbers = {
        .entries = w->numbers.entries + tally->come - tally->gone,
        .total = w->numbers.total + halves(tally->come_sums) - halves(tally->gone_sums),
        .used = tally->used};
    const struct hspz_cuda_filter_known known = {.is = true,
                                                 .entries = numbers.entries,
                                                 .used = numbers.used,
                                                 .total = (uint64_t)numbers.total,
                                                 .total_high = (uint64_t)(numbers.total >> 64)};
    const cudaError_t error = hspz_cuda_launch_quotient_numbers(
        f->counts.data, known.entries, known.used, known.total, known.total_high, w->stream);
    if (error != cudaSuccess) {
        return hspz_gqf_check(w, error, err);
    }
    const struct hspz_cuda_buffer old = f->arrays[0];
    f->arrays[0] = f->extra;
    f->extra = old;
    f->known = known;
    w->numbers = numbers;
    w->old = hspz_gqf_view_of(&f->plan, f->salt, numbers.entries > 0 ? f->arrays[0].data : NULL);
    w->made = hspz_gqf_view_of(&f->plan, f->salt, f->extra.data);
    return HSPZ_OK;
}
