/* Exact counts on a device (engine/filter.h; engine/cuda/kernels/counter.h says how).
 *
 * A piece's keys of the table have their counts added to first; then the table, and the front, are
 * made large enough for the others; those go in, and what has no place is refused. So a key that is
 * refused is as it was, but for what other pieces of the call have done. Once a call has failed
 * half way, what there is is counted again before anything is said of it. */
#include "engine/cuda/filter_counter.h"
#include "engine/cuda/cuda_status.h"
#include "engine/kmer.h"

#define ALIGN 256u
#define PIECE_MOST (UINT64_C(1) << 25) /* keys sorted together */
#define PIECE_LEAST (UINT64_C(1) << 12)
/* What growing may need (`room`): of the bytes that are there, a copy (of a merge), and a front or
 * table that is larger by a quarter; a place in such a table for each new key. */
#define ROOM_QUARTERS 9u
#define ROOM_KEY_BYTES 32u
#define ROOM_SPARE_BYTES (UINT64_C(1) << 18)

__extension__ typedef unsigned __int128 wide;

/* ---- scratch ---- */

static uint64_t
put(uint64_t *at, uint64_t bytes)
{
    const uint64_t here = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

/* Places from `memory` on; how much of it is needed. */
static uint64_t
lay_out(struct hspz_counter_work *w, bool with_counts, uintptr_t memory)
{
    const uint64_t words = w->capacity * sizeof(uint64_t);
    uint64_t at = 0;
    for (unsigned i = 0; i < 2; i++) {
        w->x[i] = (uint64_t *)(memory + put(&at, words));
        w->counts[i] = with_counts ? (uint64_t *)(memory + put(&at, words)) : NULL;
    }
    w->fates = (uint64_t *)(memory + put(&at, words));
    w->counted = (uint32_t *)(memory + put(&at, sizeof(*w->counted)));
    w->tally = (void *)(memory + put(&at, sizeof(*w->tally)));
    w->temp = (void *)(memory + put(&at, w->temp_bytes));
    return at;
}

enum hspz_status
hspz_counter_open(struct hspz_counter_work *w, struct hspz_filter *f, uint64_t count,
                  bool with_counts, cudaStream_t stream, struct hspz_error *err)
{
    const uint64_t all = count < PIECE_MOST ? (count + 32) / 32 * 32 : PIECE_MOST;
    *w = (struct hspz_counter_work){.f = f, .stream = stream, .capacity = all};
    enum hspz_status status = hspz_counter_settle(f, stream, err);
    while (status == HSPZ_OK) {
        status = hspz_counter_check(f,
                                    hspz_cuda_counter_temp_bytes(w->capacity, f->counter.shape.bits,
                                                                 with_counts, &w->temp_bytes),
                                    err);
        if (status == HSPZ_OK) {
            const uint64_t bytes = lay_out(w, with_counts, 0);
            status = hspz_cuda_buffer_reserve(f->device, &f->scratch, bytes, err);
        }
        if (status != HSPZ_E_OUT_OF_MEMORY || w->capacity <= PIECE_LEAST) {
            break;
        }
        w->capacity = w->capacity / 64 * 32;
        status = HSPZ_OK;
    }
    if (status == HSPZ_OK) {
        (void)lay_out(w, with_counts, (uintptr_t)f->scratch.data);
    }
    return status;
}

enum hspz_status
hspz_counter_clear_tally(const struct hspz_counter_work *w, struct hspz_error *err)
{
    return hspz_counter_check(w->f, cudaMemsetAsync(w->tally, 0, sizeof(*w->tally), w->stream),
                              err);
}

/* ---- inserts ---- */

/* Into the table: those that are to go there, or (`left`) that the front had no slot for. */
static enum hspz_status
put_pairs(struct hspz_counter_work *w, const struct hspz_cuda_counter_items *items, bool left,
          const struct hspz_cuda_counter_tally *told, struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    const uint64_t wanted = left ? told->left : told->pairs + told->moves;
    struct hspz_cuda_counter_tally now = {0};
    uint64_t room = 0;
    if (wanted == 0) {
        return HSPZ_OK;
    }
    enum hspz_status status = hspz_counter_reserve_pairs(f, wanted, w->stream, &room, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const bool all = wanted <= room;
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    cudaError_t error = cudaMemsetAsync(&w->tally->put, 0, 2 * sizeof(w->tally->put), w->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_counter_pairs(&c, items, left, all ? UINT64_MAX : room, w->tally,
                                               w->stream);
    }
    status = hspz_counter_check(f, error, err);
    if (status == HSPZ_OK && !all) {
        status = hspz_counter_read_tally(f, w->tally, w->stream, &now, err);
    }
    f->counter.pairs += all ? wanted : room;
    f->counter.singles -= left ? 0 : all ? told->moves : now.put_moves;
    return status;
}

/* Into the front, or where it is full to the table. */
static enum hspz_status
put_singles(struct hspz_counter_work *w, const struct hspz_cuda_counter_items *items,
            struct hspz_cuda_counter_tally *told, struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    const uint64_t wanted = told->singles;
    enum hspz_status status = HSPZ_OK;
    if (wanted > 0) {
        status = hspz_counter_reserve_singles(f, wanted, w->stream, err);
    }
    if (status == HSPZ_OK && wanted > 0) {
        const struct hspz_cuda_counter c = hspz_counter_view(f);
        status = hspz_counter_check(
            f, hspz_cuda_launch_counter_singles(&c, items, w->tally, w->stream), err);
    }
    if (status == HSPZ_OK) {
        status = hspz_counter_read_tally(f, w->tally, w->stream, told, err);
    }
    if (status == HSPZ_OK) {
        f->counter.singles += wanted - told->left;
        status = put_pairs(w, items, true, told, err);
    }
    return status == HSPZ_OK && told->left > 0
               ? hspz_counter_read_tally(f, w->tally, w->stream, told, err)
               : status;
}

static wide
halves(const unsigned long long sums[2])
{
    return sums[0] + ((wide)sums[1] << 32);
}

enum hspz_status
hspz_counter_add_items(struct hspz_counter_work *w, const struct hspz_cuda_counter_items *items,
                       bool strict, struct hspz_cuda_counter_tally *out, struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    f->counter.unsure = true;
    enum hspz_status status =
        hspz_counter_check(f, hspz_cuda_launch_counter_look(&c, items, w->tally, w->stream), err);
    if (status == HSPZ_OK) {
        status = hspz_counter_read_tally(f, w->tally, w->stream, out, err);
    }
    if (status != HSPZ_OK || (strict && (out->twice > 0 || out->wide > 0 || out->never > 0))) {
        return status;
    }
    status = put_pairs(w, items, false, out, err);
    if (status == HSPZ_OK) {
        status = put_singles(w, items, out, err);
    }
    if (status == HSPZ_OK) {
        const wide all = items->counts != NULL ? halves(out->sums) : items->count;
        const wide in = all - halves(out->refused_sums);
        f->counter.total =
            in >> 64 != 0 ? UINT64_MAX : hspz_counter_sum(f->counter.total, (uint64_t)in);
        f->counter.unsure = false;
    }
    return status;
}

/* The piece's keys in order, and how often those that have counts are there. */
static enum hspz_status
make_items(struct hspz_counter_work *w, const struct hspz_cuda_filter_call *call,
           struct hspz_cuda_counter_items *items, struct hspz_error *err)
{
    const struct hspz_cuda_counter c = hspz_counter_view(w->f);
    const uint64_t count = call->count;
    unsigned now = 0;
    cudaError_t error = hspz_cuda_launch_counter_mix(&c, call->keys, count, w->x[0], w->stream);
    if (error == cudaSuccess && call->counts != NULL) {
        error = cudaMemcpyAsync(w->counts[0], call->counts, count * sizeof(uint64_t),
                                cudaMemcpyDeviceToDevice, w->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_counter_sort(w->x, w->counts, &now, count, c.shape.bits, w->temp,
                                              w->temp_bytes, w->stream);
    }
    *items = (struct hspz_cuda_counter_items){.x = w->x[now], .count = count, .fates = w->fates};
    if (error == cudaSuccess && call->counts != NULL) {
        error = hspz_cuda_launch_counter_reduce(w->x[now], w->counts[now], count, w->x[1 - now],
                                                w->counts[1 - now], w->counted, w->temp,
                                                w->temp_bytes, w->stream);
        items->x = w->x[1 - now];
        items->counts = w->counts[1 - now];
        items->counted = w->counted;
    }
    return hspz_counter_check(w->f, error, err);
}

/* `told` what was refused. */
static enum hspz_status
answer(struct hspz_counter_work *w, const struct hspz_cuda_filter_call *call,
       const struct hspz_cuda_counter_items *items, struct hspz_cuda_counter_tally *told,
       struct hspz_error *err)
{
    const struct hspz_cuda_counter c = hspz_counter_view(w->f);
    cudaError_t error = cudaSuccess;
    if (told->refused > 0) {
        error = hspz_cuda_launch_counter_answers(&c, items, call, w->tally, w->stream);
    } else if (call->yes != NULL) {
        error = hspz_cuda_launch_quotient_prefix(call->yes, call->count, call->count, w->stream);
    }
    enum hspz_status status = hspz_counter_check(w->f, error, err);
    if (status == HSPZ_OK && told->refused > 0) {
        status = hspz_counter_read_tally(w->f, w->tally, w->stream, told, err);
    }
    if (status == HSPZ_OK && call->result != NULL) {
        status = hspz_counter_check(
            w->f,
            hspz_cuda_launch_quotient_result(call->result, call->count - told->refused_keys,
                                             told->refused_keys, w->stream),
            err);
    }
    return status;
}

static enum hspz_status
insert(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
       struct hspz_error *err)
{
    struct hspz_counter_work w;
    enum hspz_status status =
        hspz_counter_open(&w, f, call->count, call->counts != NULL, stream, err);
    for (uint64_t at = 0; at < call->count && status == HSPZ_OK; at += w.capacity) {
        struct hspz_cuda_filter_call piece = *call;
        struct hspz_cuda_counter_items items;
        struct hspz_cuda_counter_tally told;
        piece.keys += at;
        piece.counts = call->counts != NULL ? call->counts + at : NULL;
        piece.yes = call->yes != NULL ? call->yes + at / 32 : NULL;
        piece.count = call->count - at < w.capacity ? call->count - at : w.capacity;
        status = hspz_counter_clear_tally(&w, err);
        if (status == HSPZ_OK) {
            status = make_items(&w, &piece, &items, err);
        }
        if (status == HSPZ_OK) {
            status = hspz_counter_add_items(&w, &items, false, &told, err);
        }
        if (status == HSPZ_OK) {
            status = answer(&w, &piece, &items, &told, err);
        }
    }
    return status;
}

/* ---- calls ---- */

static void
sizes(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS])
{
    const struct hspz_counter_shape shape =
        hspz_counter_device_shape(hspz_counter_key_bits(&plan->spec), plan->spec.slots);
    bytes[0] = hspz_counter_device_bytes(&shape);
}

static enum hspz_status
run_there(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
          struct hspz_error *err)
{
    if (call->op == HSPZ_FILTER_INSERT) {
        return insert(f, call, stream, err);
    }
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    return hspz_counter_check(f, hspz_cuda_launch_counter_find(&c, call, stream), err);
}

static const struct hspz_cuda_filter_kind kind = {
    .ops = 1u << HSPZ_FILTER_INSERT | 1u << HSPZ_FILTER_QUERY | 1u << HSPZ_FILTER_COUNT,
    .sizes = sizes,
    .run = run_there};
const struct hspz_cuda_filter_kind *const hspz_cuda_filter_counter_kind = &kind;

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_counter_make(plan, plan->spec.slots, 0, out, err);
}

static enum hspz_status
run(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    if ((kind.ops >> call->op & 1) == 0) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    enum hspz_status status = hspz_counter_check_keys(&f->plan, call, err);
    if (status == HSPZ_OK && call->op == HSPZ_FILTER_INSERT) {
        f->counter.limit_bytes = call->memory_bytes;
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_run_host(f, call, err);
    }
    if (call->op == HSPZ_FILTER_INSERT) {
        f->counter.limit_bytes = 0;
    }
    return status;
}

static uint64_t
room(const struct hspz_filter *f, uint64_t keys)
{
    return f->counter.used_bytes / 4 * ROOM_QUARTERS + keys * ROOM_KEY_BYTES + ROOM_SPARE_BYTES;
}

static void
stats(const struct hspz_filter *filter, struct hspz_filter_stats *out)
{
    struct hspz_filter *f = (struct hspz_filter *)filter; /* what it has stays the same */
    *out = (struct hspz_filter_stats){0};
    if (hspz_cuda_device_use(f->device, NULL) != HSPZ_OK) {
        return;
    }
    pthread_mutex_lock(&f->mutex);
    const enum hspz_status status = hspz_counter_settle(f, f->stream, NULL);
    const struct hspz_cuda_filter_counter now = f->counter;
    pthread_mutex_unlock(&f->mutex);
    if (status == HSPZ_OK) {
        out->entries = out->used = now.singles + now.pairs;
        out->total = now.total;
        out->bytes = now.used_bytes;
        out->load = (double)out->used / (double)f->plan.spec.slots;
    }
}

const struct hspz_filter_ops hspz_cuda_filter_counter = {
    .create = create,
    .destroy = hspz_cuda_filter_destroy,
    .plan = hspz_cuda_filter_plan_of,
    .run = run,
    .takes_sequence = true,
    .room = room,
    .image_bytes = hspz_counter_device_image_bytes,
    .stats = stats,
    .enumerate = hspz_counter_device_enumerate,
    .merge = hspz_counter_device_merge,
    .copy = hspz_counter_device_copy,
    .save = hspz_counter_device_save,
    .load = hspz_counter_device_load,
};
