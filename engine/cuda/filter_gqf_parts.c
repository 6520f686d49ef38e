/* Changes of a quotient filter whose items are dealt to the parts of its quotients, not sorted.
 *
 *   begin    room is empty, and new slots are zero
 *   deal     a segment of keys or k-mers to buckets, and those to parts, in no order
 *   merge    each part with what is there, into new slots; of an insert, what went over, since
 *            parts had no room for it, then goes into those: sorted, equal ones by one thread under
 *            locks, and what moves too far by a merge into slots beside them
 *
 * The old slots stay until all is in the new ones: what does not fit changes nothing. */
#include "engine/cuda/filter_gqf.h"

#define PART_ROOM_MORE 64u /* beside twice as many items as a part gets of those spread well */
#define BUCKET_ROOM_MORE 1024u
#define OVER_SHARE 8u
#define OVER_LEAST 4096u
#define ROOM_STEP 32u
#define PILES_LOG2 10u

_Static_assert(HSPZ_CUDA_QUOTIENT_PILES == 1u << PILES_LOG2, "piles");

static unsigned
parts_log2(const struct hspz_cuda_quotient *q)
{
    const unsigned bits = q->fingerprint_bits - q->remainder_bits;
    return bits > HSPZ_CUDA_QUOTIENT_PART_LOG2 ? bits - HSPZ_CUDA_QUOTIENT_PART_LOG2 : 0;
}

uint64_t
hspz_gqf_parts_most(const struct hspz_filter *f)
{
    const uint64_t most = f->plan.spec.slots / 4 * 7;
    return most < HSPZ_CUDA_QUOTIENT_ITEMS_MAX / 2 ? most : HSPZ_CUDA_QUOTIENT_ITEMS_MAX / 2;
}

bool
hspz_gqf_is_for_parts(const struct hspz_cuda_quotient *q, const struct hspz_gqf_needs *needs,
                      enum hspz_filter_op op)
{
    return !needs->wide && !needs->counts && !needs->indices && q->slot_bits <= 16 &&
           parts_log2(q) <= 2 * PILES_LOG2 &&
           (op == HSPZ_FILTER_INSERT || op == HSPZ_FILTER_DELETE);
}

static uint32_t
room_of(uint64_t items)
{
    return (uint32_t)((items + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP);
}

/* For so many items, so many at a time. */
static struct hspz_cuda_quotient_rooms
rooms_for(const struct hspz_cuda_quotient *q, const struct hspz_gqf_needs *needs, uint64_t count,
          uint64_t segment)
{
    const unsigned all = parts_log2(q), value_bits = needs->key_bits - q->fingerprint_bits;
    struct hspz_cuda_quotient_rooms rooms = {
        .item_bits = HSPZ_CUDA_QUOTIENT_PART_LOG2 + q->remainder_bits + value_bits,
        .part_bits = all / 2,
        .bucket_bits = all - all / 2,
        .part_room = room_of(2 * (count >> all) + PART_ROOM_MORE),
        .over_room = (uint32_t)(count / OVER_SHARE) + OVER_LEAST};
    segment = count < segment ? count : segment;
    rooms.bucket_room = room_of(4 * (segment >> rooms.bucket_bits) + BUCKET_ROOM_MORE);
    if (rooms.part_room > HSPZ_CUDA_QUOTIENT_PART_ITEMS) {
        rooms.part_room = HSPZ_CUDA_QUOTIENT_PART_ITEMS;
    }
    return rooms;
}

enum hspz_status
hspz_gqf_parts_open(struct hspz_gqf_work *w, struct hspz_filter *f,
                    const struct hspz_gqf_needs *needs, uint64_t count, cudaStream_t stream,
                    struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const struct hspz_cuda_quotient_rooms rooms = rooms_for(&q, needs, count, f->segment);
    /* Counts are of what goes over. */
    const struct hspz_gqf_needs all = {
        .counts = true, .key_bits = needs->key_bits, .rooms = &rooms};
    return hspz_gqf_work_open(w, f, &f->plan, &all, rooms.over_room, stream, err);
}

enum hspz_status
hspz_gqf_parts_begin(struct hspz_gqf_work *w, struct hspz_error *err)
{
    cudaError_t error = hspz_gqf_clear_tally(w);
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(w->made.symbols, 0, w->made_bytes, w->stream);
    }
    return hspz_gqf_check(w, error, err);
}

/* ---- dealing ---- */

static cudaError_t
clear_buckets(const struct hspz_gqf_work *w)
{
    const size_t bytes = sizeof(uint32_t) << w->rooms.bucket_bits;
    return cudaMemsetAsync(w->rooms.bucket_counts, 0, bytes, w->stream);
}

enum hspz_status
hspz_gqf_parts_deal_kmers(struct hspz_gqf_work *w, const struct hspz_cuda_kmers *kmers,
                          struct hspz_error *err)
{
    cudaError_t error = clear_buckets(w);
    if (error == cudaSuccess) {
        error =
            hspz_cuda_launch_quotient_deal_kmers(&w->made, kmers, &w->rooms, w->tally, w->stream);
    }
    if (error == cudaSuccess) {
        error =
            hspz_cuda_launch_quotient_deal_buckets(&w->rooms, kmers->windows, w->tally, w->stream);
    }
    return hspz_gqf_check(w, error, err);
}

enum hspz_status
hspz_gqf_parts_deal_keys(struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
                         struct hspz_error *err)
{
    const unsigned value_bits = call->op == HSPZ_FILTER_INSERT ? w->made.value_bits : 0;
    const uint64_t segment = w->f->segment;
    cudaError_t error = cudaSuccess;
    for (uint64_t at = 0; at < call->count && error == cudaSuccess; at += segment) {
        const uint64_t count = call->count - at < segment ? call->count - at : segment;
        const uint64_t *const values = call->values != NULL ? call->values + at : NULL;
        error = clear_buckets(w);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_quotient_deal_keys(&w->made, call->keys + at, values, count,
                                                        value_bits, &w->rooms, w->tally, w->stream);
        }
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_quotient_deal_buckets(&w->rooms, count, w->tally, w->stream);
        }
    }
    return hspz_gqf_check(w, error, err);
}

/* ---- what went over ---- */

/* Items by themselves; what they come to. Waits. */
static enum hspz_status
place_over(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_items *items, uint32_t *locks,
           struct hspz_gqf_spill *out, struct hspz_error *err)
{
    const struct hspz_cuda_quotient_point point = {
        .q = w->made, .locks = locks, .counts = &w->spill->counts};
    const struct hspz_cuda_quotient_insert insert = {.items = items->keys,
                                                     .count = items->count,
                                                     .tries = HSPZ_GQF_POINT_TRIES,
                                                     .left = w->counts[0],
                                                     .refused = &w->spill->refused};
    cudaError_t error = hspz_cuda_launch_quotient_points(&point, &insert, w->stream);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(out, w->spill, sizeof(*out), cudaMemcpyDeviceToHost, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(w->stream);
    }
    return hspz_gqf_check(w, error, err);
}

/* What points have left of the new slots' items, w->counts[0] of each, with those slots into others
 * that become the new ones; if there is memory for them, and if it fits. */
static enum hspz_status
merge_left(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_items *items,
           struct hspz_cuda_quotient_tally *tally, struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    struct hspz_cuda_buffer third = {0};
    struct hspz_cuda_quotient_tally more = {0};
    struct hspz_cuda_quotient_items left = *items;
    struct hspz_gqf_work on = *w;
    enum hspz_status status = hspz_cuda_buffer_reserve(f->device, &third, w->made_bytes, err);
    tally->fits = false;
    if (status != HSPZ_OK) {
        return status == HSPZ_E_OUT_OF_MEMORY ? HSPZ_OK : status;
    }
    left.counts = w->counts[0];
    on.old = w->made;
    on.made = hspz_gqf_view_of(&f->plan, f->salt, third.data);
    status = hspz_gqf_check(w, hspz_gqf_clear_tally(w), err);
    if (status == HSPZ_OK) {
        status = hspz_gqf_merge_items(&on, &left, true, &more, err);
    }
    if (status == HSPZ_OK && more.fits) {
        const struct hspz_cuda_buffer made = f->extra;
        f->extra = third;
        third = made;
        w->made = on.made;
        tally->fits = true;
        tally->used = more.used;
        tally->come += more.come;
        tally->gone += more.gone;
        for (unsigned i = 0; i < 2; i++) {
            tally->come_sums[i] += more.come_sums[i];
            tally->gone_sums[i] += more.gone_sums[i];
        }
    }
    hspz_cuda_buffer_free(f->device, &third);
    return status;
}

/* Into the new slots, beside what the parts had; if there is memory for locks. */
static enum hspz_status
insert_over(struct hspz_gqf_work *w, struct hspz_cuda_quotient_tally *tally, struct hspz_error *err)
{
    struct hspz_gqf_spill spill;
    uint32_t *locks, *const indices[2] = {NULL, NULL};
    unsigned now = 0;
    enum hspz_status status = hspz_gqf_locks(w->f, w->stream, &locks, err);
    tally->fits = false;
    if (status != HSPZ_OK) {
        return status == HSPZ_E_OUT_OF_MEMORY ? HSPZ_OK : status;
    }
    cudaError_t error = hspz_cuda_launch_quotient_sort(
        w->keys, indices, &now, tally->over, 0, w->made.fingerprint_bits + w->made.value_bits,
        false, w->temp, w->temp_bytes, w->stream);
    const struct hspz_cuda_quotient_items items = {
        .op = HSPZ_FILTER_INSERT, .keys = w->keys[now], .count = tally->over};
    status = hspz_gqf_check(w, error, err);
    if (status == HSPZ_OK) {
        status = place_over(w, &items, locks, &spill, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    tally->come += spill.counts.entries;
    tally->come_sums[0] += spill.counts.total;
    tally->used += spill.counts.used;
    tally->fits = tally->used <= w->full_slots;
    return spill.refused == 0 || !tally->fits ? HSPZ_OK : merge_left(w, &items, tally, err);
}

/* ---- merge ---- */

enum hspz_status
hspz_gqf_parts_merge(struct hspz_gqf_work *w, enum hspz_filter_op op,
                     struct hspz_cuda_quotient_tally *out, struct hspz_error *err)
{
    cudaError_t error = hspz_cuda_launch_quotient_parts(&w->old, &w->made, op, &w->rooms, w->words,
                                                        w->tally, w->stream);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(out, w->tally, sizeof(*out), cudaMemcpyDeviceToHost, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(w->stream);
    }
    enum hspz_status status = hspz_gqf_check(w, error, err);
    if (status != HSPZ_OK) {
        return status;
    }
    out->fits = out->crowded == 0 && out->end <= w->made.slots && out->used <= w->full_slots &&
                out->over <= w->rooms.over_room;
    if (out->fits && out->over > 0) {
        out->fits = op == HSPZ_FILTER_INSERT;
        status = out->fits ? insert_over(w, out, err) : HSPZ_OK;
    }
    return status == HSPZ_OK && out->fits ? hspz_gqf_take_over(w, out, err) : status;
}
