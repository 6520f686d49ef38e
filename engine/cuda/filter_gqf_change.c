/* A call that changes a quotient filter: which way its keys go.
 *
 *   few      each by itself, under locks (engine/cuda/filter_gqf.c)
 *   parts    dealt to parts, and merged in one pass (engine/cuda/filter_gqf_parts.c)
 *   else     sorted; answered if that is asked for; equal ones become one if they have counts;
 *            merged
 *
 * Keys that one way has no room for go the next one. */
#include "engine/cuda/filter_gqf.h"

#define SAMPLED_LEAST (UINT64_C(1) << 20) /* keys from which on some are looked at first */
#define TWINS_MOST (HSPZ_CUDA_QUOTIENT_SAMPLE / 8)

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

/* The first `count` keys of a call as sorted items. */
static enum hspz_status
sort_keys(struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
          const struct hspz_gqf_needs *needs, uint64_t count,
          struct hspz_cuda_quotient_items *items, struct hspz_error *err)
{
    unsigned now = 0;
    const bool with_values = call->op == HSPZ_FILTER_INSERT && w->made.value_bits > 0;
    cudaError_t error = hspz_gqf_clear_tally(w);
    if (error == cudaSuccess) {
        error =
            hspz_cuda_launch_quotient_hash(&w->made, call->keys, call->values, count, with_values,
                                           w->wide, w->keys[0], w->indices[0], w->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_sort(w->keys, w->indices, &now, count, 0, needs->key_bits,
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

cudaError_t
hspz_gqf_clear_answers(const struct hspz_gqf_work *w, const struct hspz_cuda_filter_call *call,
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
    cudaError_t error = hspz_gqf_clear_answers(w, call, insert ? items->count : 0);
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
    return status == HSPZ_OK ? hspz_gqf_merge_items(w, &items, write, tally, err) : status;
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

/* Whether keys come again so often that parts would be crowded; waits. */
static enum hspz_status
are_skewed(const struct hspz_gqf_work *w, const uint64_t *keys, uint64_t count, bool *skewed,
           struct hspz_error *err)
{
    unsigned twins = 0;
    *skewed = false;
    if (count < SAMPLED_LEAST) {
        return HSPZ_OK;
    }
    cudaError_t error = hspz_gqf_clear_tally(w);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_sample(keys, count, w->tally, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(&twins, &w->tally->twins, sizeof(twins), cudaMemcpyDeviceToHost,
                                w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(w->stream);
    }
    *skewed = twins > TWINS_MOST;
    return hspz_gqf_check(w, error, err);
}

/* All keys of a call dealt to parts; *done, unless they are not for that. */
static enum hspz_status
try_parts(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
          const struct hspz_gqf_needs *needs, cudaStream_t stream, bool *done,
          struct hspz_cuda_quotient_tally *tally, struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    struct hspz_gqf_work w;
    bool skewed = false;
    *done = false;
    if (!hspz_gqf_is_for_parts(&q, needs, call->op) || call->count > hspz_gqf_parts_most(f)) {
        return HSPZ_OK;
    }
    enum hspz_status status = hspz_gqf_parts_open(&w, f, needs, call->count, stream, err);
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        return HSPZ_OK;
    }
    if (status == HSPZ_OK) {
        status = are_skewed(&w, call->keys, call->count, &skewed, err);
    }
    if (status != HSPZ_OK || skewed) {
        return status;
    }
    status = hspz_gqf_parts_begin(&w, err);
    if (status == HSPZ_OK) {
        status = hspz_gqf_parts_deal_keys(&w, call, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_gqf_parts_merge(&w, call->op, tally, err);
    }
    *done = status == HSPZ_OK && tally->fits;
    return status;
}

/* The same, with what it answers. */
static enum hspz_status
change_parts(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
             const struct hspz_gqf_needs *needs, cudaStream_t stream, bool *done,
             struct hspz_error *err)
{
    const struct hspz_gqf_work w = {.f = f, .stream = stream};
    const bool insert = call->op == HSPZ_FILTER_INSERT;
    struct hspz_cuda_quotient_tally tally;
    const enum hspz_status status = try_parts(f, call, needs, stream, done, &tally, err);
    if (status != HSPZ_OK || !*done) {
        return status;
    }
    cudaError_t error = hspz_gqf_clear_answers(&w, call, insert ? call->count : 0);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_result(call->result,
                                                 insert ? call->count : tally.yes_count, 0, stream);
    }
    return hspz_gqf_check(&w, error, err);
}

enum hspz_status
hspz_gqf_change(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
                cudaStream_t stream, struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const struct hspz_gqf_needs needs = needs_of(&q, call);
    struct hspz_gqf_work w;
    uint64_t done = 0, all_yes = 0;
    bool full = false, parts = false;
    enum hspz_status status = change_parts(f, call, &needs, stream, &parts, err);
    if (status != HSPZ_OK || parts) {
        return status;
    }
    status = hspz_gqf_work_open(&w, f, &f->plan, &needs, call->count, stream, err);
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
        status = full ? hspz_gqf_check(&w, hspz_gqf_clear_answers(&w, &part, 0), err)
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

enum hspz_status
hspz_gqf_change_whole(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
                      cudaStream_t stream, bool *fits, struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const struct hspz_gqf_needs needs = needs_of(&q, call);
    struct hspz_cuda_quotient_tally tally;
    struct hspz_gqf_work w;
    enum hspz_status status = try_parts(f, call, &needs, stream, fits, &tally, err);
    if (status != HSPZ_OK || *fits) {
        return status;
    }
    status = hspz_gqf_work_open(&w, f, &f->plan, &needs, call->count, stream, err);
    if (status == HSPZ_OK && w.capacity == call->count) {
        status = try_keys(&w, call, &needs, call->count, true, &tally, err);
        *fits = status == HSPZ_OK && tally.fits;
    }
    return *fits ? hspz_gqf_take_over(&w, &tally, err) : status;
}
