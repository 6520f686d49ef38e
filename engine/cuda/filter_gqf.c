/* Quotient filters on a device: counting, standard, rank and select. A change sorts its keys, or
 * deals them to parts, and merges them with what is there into slots beside the old ones, which
 * then take their place (engine/cuda/kernels/quotient.h).
 *
 * Changes return when they are done: whether the keys fit shows at the end. Of keys that do not, as
 * many as fit from the first on are found by halving, as the CPU does it. */
#include "engine/cuda/filter_gqf.h"
#include "engine/cuda/cuda_status.h"

#include <stddef.h>

#define FEW_TRIES 1000u /* for locks of a key, when there is another way */
#define FEW_SHARE 16u   /* slots for one of them */
#define FEW_GROWTH 4u   /* slots that an insert of one takes, at most */

static enum hspz_status run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
                            cudaStream_t stream, struct hspz_error *err);

/* ---- a thread a key ---- */

enum hspz_status
hspz_cuda_filter_quotient_view(struct hspz_filter *f, cudaStream_t stream,
                               struct hspz_cuda_quotient_point *out, struct hspz_error *err)
{
    if (f->kind->run != run) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "not a quotient filter");
    }
    uint32_t *locks = NULL;
    f->known.is = false;
    const enum hspz_status status = hspz_gqf_locks(f, stream, &locks, err);
    if (status == HSPZ_OK) {
        *out = (struct hspz_cuda_quotient_point){
            .q = hspz_gqf_view(f), .locks = locks, .counts = f->counts.data};
    }
    return status;
}

/* What is left of an insert of points, in no order; not if it does not fit. */
static enum hspz_status
insert_left(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
            const struct hspz_cuda_quotient_insert *insert, uint64_t count, cudaStream_t stream,
            bool *fits, struct hspz_error *err)
{
    struct hspz_cuda_buffer memory = {0};
    enum hspz_status status =
        hspz_cuda_buffer_reserve(f->device, &memory, (3 * count + 1) * sizeof(uint64_t), err);
    *fits = false;
    if (status != HSPZ_OK) {
        return status == HSPZ_E_OUT_OF_MEMORY ? HSPZ_OK : status;
    }
    uint64_t *const keys = memory.data;
    unsigned long long *const sum = (unsigned long long *)(keys + 3 * count);
    cudaError_t error = cudaMemsetAsync(sum, 0, sizeof(*sum), stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_left(insert, keys, keys + count, keys + 2 * count, sum,
                                               stream);
    }
    status = hspz_cuda_check(error, f->device->label, "working on a quotient filter", err);
    const struct hspz_cuda_filter_call rest = {.op = call->op,
                                               .keys = keys,
                                               .count = count,
                                               .values = call->values != NULL ? keys + count : NULL,
                                               .counts =
                                                   call->counts != NULL ? keys + 2 * count : NULL,
                                               .result = call->result};
    if (status == HSPZ_OK) {
        status = hspz_gqf_change_whole(f, &rest, stream, fits, err);
    }
    hspz_cuda_buffer_free(f->device, &memory);
    return status;
}

/* Whether keys are so few, and there is so much room, that most find their place nearby and all
 * fit. */
static bool
are_few(const struct hspz_filter *f, const struct hspz_cuda_filter_call *call)
{
    const uint64_t slots = f->plan.spec.slots, used = f->known.used;
    return call->counts == NULL && f->known.is && f->known.entries > 0 && used <= slots / 5 * 4 &&
           call->count <= slots / FEW_SHARE &&
           used + FEW_GROWTH * call->count <= f->plan.full_slots;
}

/* What the threads have done, and the filter's numbers; waits. */
static enum hspz_status
settle_points(struct hspz_filter *f, const struct hspz_cuda_quotient_insert *insert,
              cudaStream_t stream, unsigned long long *refused, struct hspz_error *err)
{
    struct hspz_cuda_filter_counts counts;
    const size_t bytes = offsetof(struct hspz_cuda_filter_counts, damaged);
    cudaError_t error =
        cudaMemcpyAsync(refused, insert->refused, sizeof(*refused), cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(&counts, f->counts.data, bytes, cudaMemcpyDeviceToHost, stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(stream);
    }
    if (error == cudaSuccess) {
        f->known = (struct hspz_cuda_filter_known){.is = true,
                                                   .entries = counts.entries,
                                                   .used = counts.used,
                                                   .total = counts.total,
                                                   .total_high = counts.total_high};
    }
    return hspz_cuda_check(error, f->device->label, "working on a quotient filter", err);
}

/* What does not go in this way goes in afterwards. */
static enum hspz_status
run_points(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, uint32_t tries,
           cudaStream_t stream, struct hspz_error *err)
{
    struct hspz_cuda_quotient_point point;
    struct hspz_cuda_buffer *const left = &f->staging[HSPZ_CUDA_FILTER_LEFT];
    unsigned long long refused = 0;
    struct hspz_cuda_quotient_insert insert = {.keys = call->keys,
                                               .values = call->values,
                                               .counts = call->counts,
                                               .count = call->count,
                                               .tries = tries};
    bool fits = true;
    enum hspz_status status = hspz_cuda_filter_quotient_view(f, stream, &point, err);
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_buffer_reserve(f->device, left, (call->count + 1) * sizeof(uint64_t), err);
    }
    if (status == HSPZ_OK) {
        insert.left = left->data;
        insert.refused = (unsigned long long *)(insert.left + call->count);
        cudaError_t error = cudaMemsetAsync(insert.refused, 0, sizeof(refused), stream);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_quotient_points(&point, &insert, stream);
        }
        status = hspz_cuda_check(error, f->device->label, "working on a quotient filter", err);
    }
    if (status == HSPZ_OK) {
        status = settle_points(f, &insert, stream, &refused, err);
    }
    if (status == HSPZ_OK && refused > 0) {
        status = insert_left(f, call, &insert, refused, stream, &fits, err);
    }
    if (status == HSPZ_OK && !fits) {
        struct hspz_cuda_filter_call rest = *call;
        rest.counts = point.q.set ? call->counts : left->data;
        status = hspz_gqf_change(f, &rest, stream, err);
    } else if (status == HSPZ_OK) {
        const struct hspz_gqf_work w = {.f = f, .stream = stream};
        cudaError_t error = hspz_gqf_clear_answers(&w, call, call->count);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_quotient_result(call->result, call->count, 0, stream);
        }
        status = hspz_gqf_check(&w, error, err);
    }
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
        return run_points(f, call, HSPZ_GQF_POINT_TRIES, stream, err);
    }
    if (call->op == HSPZ_FILTER_INSERT && call->way == HSPZ_CUDA_FILTER_AUTO && are_few(f, call)) {
        return run_points(f, call, FEW_TRIES, stream, err);
    }
    if (call->op != HSPZ_FILTER_QUERY && call->op != HSPZ_FILTER_COUNT) {
        return hspz_gqf_change(f, call, stream, err);
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
                         .run = run,
                         .insert_sequence = hspz_gqf_insert_sequence},
    [HSPZ_FILTER_SQF] = {.ops = OPS_OF_SETS | 1u << HSPZ_FILTER_DELETE,
                         .in_order = true,
                         .sizes = sizes,
                         .run = run,
                         .insert_sequence = hspz_gqf_insert_sequence},
    [HSPZ_FILTER_RSQF] = {.ops = OPS_OF_SETS,
                          .in_order = true,
                          .sizes = sizes,
                          .run = run,
                          .insert_sequence = hspz_gqf_insert_sequence},
};

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_make(plan, &kinds[plan->spec.kind], out, err);
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_gqf_load(plan, &kinds[plan->spec.kind], image, stop, out, err);
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
    .takes_sequence = true,
    .run_parts = hspz_cuda_filter_run_parts,
    .stats = stats,
    .enumerate = hspz_gqf_enumerate,
    .merge = hspz_gqf_merge,
    .grow = hspz_gqf_grow,
    .copy = hspz_cuda_filter_copy,
    .save = hspz_gqf_save,
    .load = load,
};
