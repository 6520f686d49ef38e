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

/* Of parts, what is cleared with the tally. */
static void
lay_out_rooms(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_rooms *rooms, uint64_t *at,
              uintptr_t memory)
{
    const uint64_t parts = UINT64_C(1) << (rooms->bucket_bits + rooms->part_bits);
    w->rooms = *rooms;
    w->rooms.over = w->keys[0];
    w->rooms.part_counts = (uint32_t *)(memory + put(at, parts * sizeof(uint32_t)));
    w->words = (uint64_t *)(memory + put(at, (parts + 1) * sizeof(uint64_t)));
    w->spill = (void *)(memory + put(at, sizeof(*w->spill)));
}

/* The rest. */
static void
lay_out_items(struct hspz_gqf_work *w, uint64_t *at, uintptr_t memory)
{
    struct hspz_cuda_quotient_rooms *rooms = &w->rooms;
    const uint64_t buckets = UINT64_C(1) << rooms->bucket_bits;
    const uint64_t parts = buckets << rooms->part_bits;
    const uint64_t item_bytes = hspz_cuda_quotient_rooms_wide(rooms) ? 8 : 4;
    rooms->bucket_counts = (uint32_t *)(memory + put(at, buckets * sizeof(uint32_t)));
    rooms->buckets = (void *)(memory + put(at, buckets * rooms->bucket_room * item_bytes));
    rooms->parts = (uint32_t *)(memory + put(at, parts * rooms->part_room * sizeof(uint32_t)));
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
    w->temp = (void *)(memory + put(&at, w->temp_bytes));
    const uint64_t tally = put(&at, sizeof(*w->tally));
    w->tally = (void *)(memory + tally);
    if (needs->rooms != NULL) {
        lay_out_rooms(w, needs->rooms, &at, memory);
    }
    w->tally_bytes = at - tally;
    if (needs->rooms != NULL) {
        lay_out_items(w, &at, memory);
    }
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
        if (status != HSPZ_E_OUT_OF_MEMORY || w->capacity <= PIECE_LEAST || needs->rooms != NULL) {
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
        error = cudaMemsetAsync(w->made.symbols, 0, w->made_bytes, w->stream);
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
    return cudaMemsetAsync(w->tally, 0, w->tally_bytes, w->stream);
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
