/* Quotient filters on a device: counting, standard, rank and select. A change sorts its keys and
 * merges them with what is there into slots beside the old ones, which then take their place
 * (engine/cuda/kernels/quotient.h).
 *
 * Changes return when they are done: whether the keys fit shows at the end. Of keys that do not, as
 * many as fit from the first on are found by halving, as the CPU does it. */
#include "engine/cuda/filter_gqf.h"
#include "engine/cuda/cuda_status.h"

static enum hspz_status run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
                            cudaStream_t stream, struct hspz_error *err);

/* ---- changes ---- */

static struct hspz_gqf_needs
needs_of(const struct hspz_cuda_quotient *q, const struct hspz_cuda_filter_call *call)
{
    const bool insert = call->op == HSPZ_FILTER_INSERT;
    const bool counts =
        call->counts != NULL && !q->set && (insert || call->op == HSPZ_FILTER_DECREMENT);
    return (struct hspz_gqf_needs){
        .wide = insert && hspz_gqf_is_wide(q),
        .counts = counts,
        .indices = counts ||
                   (!insert && (call->yes != NULL || call->found != NULL || call->values != NULL)),
        .key_bits = q->fingerprint_bits + (insert ? q->value_bits : 0),
    };
}

/* The first `count` keys of a call as sorted items; with counts, distinct ones. `items->counts` is
 * then for the merge alone. */
static enum hspz_status
sort_keys(struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
          const struct hspz_gqf_needs *needs, uint64_t count,
          struct hspz_cuda_quotient_items *items, struct hspz_error *err)
{
    unsigned now = 0;
    const bool with_values = call->op == HSPZ_FILTER_INSERT && w->made.value_bits > 0;
    cudaError_t error = cudaMemsetAsync(w->tally, 0, sizeof(*w->tally), w->stream);
    if (error == cudaSuccess) {
        error =
            hspz_cuda_launch_quotient_hash(&w->made, call->keys, call->values, count, with_values,
                                           w->wide, w->keys[0], w->indices[0], w->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_sort(w->keys, w->indices, &now, count, needs->key_bits,
                                               w->wide, w->temp, w->temp_bytes, w->stream);
    }
    if (error == cudaSuccess && needs->counts) {
        error = hspz_cuda_launch_quotient_gather(call->counts, w->indices[now], count, w->counts[0],
                                                 w->stream);
    }
    *items = (struct hspz_cuda_quotient_items){
        .op = call->op,
        .keys = w->keys[now],
        .wide = w->wide,
        .indices = w->indices[now],
        .values = call->op == HSPZ_FILTER_INSERT_IF_ABSENT ? call->values : NULL,
        .count = count};
    return hspz_gqf_check(w, error, err);
}

/* Yes to the first `inside` keys, and nothing found. */
static cudaError_t
clear_answers(const struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
              uint64_t inside)
{
    cudaError_t error = cudaSuccess;
    if (call->yes != NULL) {
        error = hspz_cuda_launch_quotient_prefix(call->yes, call->count, inside, w->stream);
    }
    if (error == cudaSuccess && call->found != NULL) {
        error = cudaMemsetAsync(call->found, 0, call->count * sizeof(*call->found), w->stream);
    }
    return error;
}

/* What the call answers, of the first items; yes and found are written whole. */
static enum hspz_status
answer(struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
       const struct hspz_gqf_needs *needs, const struct hspz_cuda_quotient_items *items,
       struct hspz_error *err)
{
    const bool insert = call->op == HSPZ_FILTER_INSERT;
    cudaError_t error = clear_answers(w, call, insert ? items->count : 0);
    if (insert) {
        return hspz_gqf_check(w, error, err);
    }
    if (error == cudaSuccess && needs->counts) {
        error = hspz_cuda_launch_quotient_before(items->keys, w->counts[0], items->count, w->wide,
                                                 w->counts[1], w->temp, w->temp_bytes, w->stream);
    }
    if (error == cudaSuccess) {
        const struct hspz_cuda_quotient old = hspz_gqf_view(w->f);
        error = hspz_cuda_launch_quotient_answer(
            &old, items, needs->counts ? w->counts[1] : NULL, call->yes,
            call->op == HSPZ_FILTER_INSERT_IF_ABSENT ? call->found : NULL, w->tally, w->stream);
    }
    return hspz_gqf_check(w, error, err);
}

/* Equal keys become one, and their counts a sum. */
static enum hspz_status
reduce(struct hspz_gqf_work *w, struct hspz_cuda_quotient_items *items, struct hspz_error *err)
{
    void *const other = items->keys == w->keys[0] ? w->keys[1] : w->keys[0];
    const cudaError_t error = hspz_cuda_launch_quotient_reduce(
        items->keys, w->counts[0], items->count, w->wide, other, w->counts[1], w->counted, w->temp,
        w->temp_bytes, w->stream);
    items->keys = other;
    items->counts = w->counts[1];
    items->counted = w->counted;
    return hspz_gqf_check(w, error, err);
}

/* The first `count` keys of a call; only measured unless `write`. */
static enum hspz_status
try_keys(struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
         const struct hspz_gqf_needs *needs, uint64_t count, bool write,
         struct hspz_cuda_quotient_tally *tally, struct hspz_error *err)
{
    struct hspz_cuda_quotient_items items;
    enum hspz_status status = sort_keys(w, call, needs, count, &items, err);
    if (status == HSPZ_OK && write) {
        status = answer(w, call, needs, &items, err);
    }
    if (status == HSPZ_OK && needs->counts) {
        status = reduce(w, &items, err);
    }
    bool placed = false;
    if (status == HSPZ_OK && write) {
        status = hspz_gqf_place_items(w, &items, tally, &placed, err);
    }
    return status == HSPZ_OK && !placed ? hspz_gqf_merge_items(w, &items, write, tally, err)
                                        : status;
}

/* As many keys of a call as fit, from the first on. */
static enum hspz_status
change_piece(struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
             const struct hspz_gqf_needs *needs, uint64_t *inside, uint64_t *yes,
             struct hspz_error *err)
{
    struct hspz_cuda_quotient_tally tally;
    uint64_t low = call->count, high = call->count;
    enum hspz_status status = try_keys(w, call, needs, call->count, true, &tally, err);
    if (status == HSPZ_OK && !tally.fits) {
        low = 0; /* fits; high does not */
        while (status == HSPZ_OK && high - low > 1) {
            const uint64_t middle = low + (high - low) / 2;
            status = try_keys(w, call, needs, middle, false, &tally, err);
            *(tally.fits ? &low : &high) = middle;
        }
        if (status == HSPZ_OK) {
            status = try_keys(w, call, needs, low, true, &tally, err);
        }
    }
    *inside = low;
    *yes = call->op == HSPZ_FILTER_INSERT ? low : tally.yes_count;
    return status == HSPZ_OK ? hspz_gqf_take_over(w, &tally, err) : status;
}

static enum hspz_status
change(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
       struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const struct hspz_gqf_needs needs = needs_of(&q, call);
    struct hspz_gqf_work w;
    enum hspz_status status = hspz_gqf_work_open(&w, f, &f->plan, &needs, call->count, stream, err);
    uint64_t done = 0, all_yes = 0;
    bool full = false;
    /* Pieces begin with whole words of answers. */
    const uint64_t piece = w.capacity < call->count ? w.capacity / 32 * 32 : call->count;
    for (uint64_t at = 0; at < call->count && status == HSPZ_OK; at += piece) {
        struct hspz_cuda_filter_call part = *call;
        uint64_t inside = 0, yes = 0;
        part.keys += at;
        part.count = call->count - at < piece ? call->count - at : piece;
        part.values = call->values != NULL ? call->values + at : NULL;
        part.counts = call->counts != NULL ? call->counts + at : NULL;
        part.yes = call->yes != NULL ? call->yes + at / 32 : NULL;
        part.found = call->found != NULL ? call->found + at : NULL;
        status = full ? hspz_gqf_check(&w, clear_answers(&w, &part, 0), err)
                      : change_piece(&w, &part, &needs, &inside, &yes, err);
        full = full || inside < part.count;
        done += inside;
        all_yes += yes;
    }
    if (status == HSPZ_OK) {
        status = hspz_gqf_check(
            &w, hspz_cuda_launch_quotient_result(call->result, all_yes, call->count - done, stream),
            err);
    }
    return status;
}

/* ---- a thread a key ---- */

enum hspz_status
hspz_cuda_filter_quotient_view(struct hspz_filter *f, cudaStream_t stream,
                               struct hspz_cuda_quotient_point *out, struct hspz_error *err)
{
    if (f->kind->run != run) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "not a quotient filter");
    }
    const uint64_t bytes = hspz_cuda_quotient_locks(f->plan.spec.slots) * sizeof(uint32_t);
    /* The second array is no content of these kinds. */
    const enum hspz_status status = hspz_cuda_buffer_reserve(f->device, &f->arrays[1], bytes, err);
    if (status != HSPZ_OK) {
        return status;
    }
    *out = (struct hspz_cuda_quotient_point){
        .q = hspz_gqf_view(f), .locks = f->arrays[1].data, .counts = f->counts.data};
    return hspz_cuda_check(cudaMemsetAsync(out->locks, 0, bytes, stream), f->device->label,
                           "clearing locks", err);
}

/* What does not go in this way goes in with all others that do not. */
static enum hspz_status
run_points(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
           struct hspz_error *err)
{
    struct hspz_cuda_quotient_point point;
    struct hspz_cuda_buffer left = {0};
    unsigned long long refused = 0;
    enum hspz_status status = hspz_cuda_filter_quotient_view(f, stream, &point, err);
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_buffer_reserve(f->device, &left, (call->count + 1) * sizeof(uint64_t), err);
    }
    if (status == HSPZ_OK) {
        uint64_t *lefts = left.data;
        unsigned long long *sum = (unsigned long long *)(lefts + call->count);
        cudaError_t error = cudaMemsetAsync(sum, 0, sizeof(*sum), stream);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_quotient_points(&point, call->keys, call->values, call->counts,
                                                     call->count, lefts, sum, stream);
        }
        if (error == cudaSuccess) {
            error = cudaMemcpyAsync(&refused, sum, sizeof(refused), cudaMemcpyDeviceToHost, stream);
        }
        if (error == cudaSuccess) {
            error = cudaStreamSynchronize(stream);
        }
        status = hspz_cuda_check(error, f->device->label, "working on a quotient filter", err);
    }
    struct hspz_cuda_filter_call rest = *call;
    rest.counts = left.data;
    if (status == HSPZ_OK && refused > 0 && !point.q.set) {
        status = change(f, &rest, stream, err);
    } else if (status == HSPZ_OK && refused > 0) {
        status = change(f, call, stream, err);
    } else if (status == HSPZ_OK) {
        const struct hspz_gqf_work w = {.f = f, .stream = stream};
        cudaError_t error = clear_answers(&w, call, call->count);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_quotient_result(call->result, call->count, 0, stream);
        }
        status = hspz_gqf_check(&w, error, err);
    }
    hspz_cuda_buffer_free(f->device, &left);
    return status;
}

/* ---- kinds ---- */

static void
sizes(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS])
{
    bytes[0] = hspz_gqf_lay_out(plan).bytes;
}

static enum hspz_status
run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
    struct hspz_error *err)
{
    if (call->op == HSPZ_FILTER_INSERT && call->way == HSPZ_CUDA_FILTER_POINT) {
        return run_points(f, call, stream, err);
    }
    if (call->op != HSPZ_FILTER_QUERY && call->op != HSPZ_FILTER_COUNT) {
        return change(f, call, stream, err);
    }
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    return hspz_cuda_check(hspz_cuda_launch_quotient_look(&q, call->keys, call->count,
                                                          call->op == HSPZ_FILTER_COUNT, call->yes,
                                                          call->found, &call->result->yes, stream),
                           f->device->label, "asking a quotient filter", err);
}

#define OPS_OF_SETS                                                                                \
    (1u << HSPZ_FILTER_INSERT | 1u << HSPZ_FILTER_INSERT_IF_ABSENT | 1u << HSPZ_FILTER_QUERY)

static const struct hspz_cuda_filter_kind kinds[HSPZ_FILTER_KINDS] = {
    [HSPZ_FILTER_GQF] = {.ops = OPS_OF_SETS | 1u << HSPZ_FILTER_COUNT | 1u << HSPZ_FILTER_DELETE |
                                1u << HSPZ_FILTER_DECREMENT,
                         .in_order = true,
                         .sizes = sizes,
                         .run = run},
    [HSPZ_FILTER_SQF] = {.ops = OPS_OF_SETS | 1u << HSPZ_FILTER_DELETE,
                         .in_order = true,
                         .sizes = sizes,
                         .run = run},
    [HSPZ_FILTER_RSQF] = {.ops = OPS_OF_SETS, .in_order = true, .sizes = sizes, .run = run},
};

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_make(plan, &kinds[plan->spec.kind], out, err);
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_gqf_load(plan, &kinds[plan->spec.kind], image, out, err);
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    struct hspz_gqf_numbers numbers;
    *out = (struct hspz_filter_stats){0};
    if (hspz_gqf_numbers_get(f, &numbers, NULL) != HSPZ_OK) {
        return;
    }
    *out = (struct hspz_filter_stats){
        .entries = numbers.entries,
        .total = numbers.total >> 64 != 0 ? UINT64_MAX : (uint64_t)numbers.total,
        .used = numbers.used,
        .bytes = f->plan.bytes,
        .load = (double)numbers.used / (double)f->plan.spec.slots,
        .rate = (double)numbers.entries /
                hspz_filter_power(2, f->plan.quotient_bits + f->plan.remainder_bits)};
}

const struct hspz_filter_ops hspz_cuda_filter_gqf = {
    .create = create,
    .destroy = hspz_cuda_filter_destroy,
    .plan = hspz_cuda_filter_plan_of,
    .run = hspz_cuda_filter_run_host,
    .stats = stats,
    .enumerate = hspz_gqf_enumerate,
    .merge = hspz_gqf_merge,
    .grow = hspz_gqf_grow,
    .copy = hspz_cuda_filter_copy,
    .save = hspz_gqf_save,
    .load = load,
};
