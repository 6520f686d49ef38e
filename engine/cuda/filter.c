#include "engine/cuda/filter.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"

#include <string.h>

/* Keys of a host call that are on the device at a time; a multiple of 32. */
#define PIECE ((uint64_t)1 << 23)

const struct hspz_filter_ops *
hspz_cuda_filter(enum hspz_filter_kind kind)
{
    switch (kind) {
    case HSPZ_FILTER_TCF:
        return &hspz_cuda_filter_tcf;
    case HSPZ_FILTER_BLOOM:
    case HSPZ_FILTER_BLOCKED:
        return &hspz_cuda_filter_bloom;
    case HSPZ_FILTER_GQF:
    case HSPZ_FILTER_SQF:
    case HSPZ_FILTER_RSQF:
        return &hspz_cuda_filter_gqf;
    default:
        return NULL;
    }
}

/* ---- creation ---- */

void
hspz_cuda_filter_destroy(struct hspz_filter **filter)
{
    struct hspz_filter *f = *filter;
    if (f == NULL) {
        return;
    }
    (void)cudaSetDevice(f->device->ordinal);
    if (f->stream != NULL) {
        (void)cudaStreamSynchronize(f->stream);
        (void)cudaStreamDestroy(f->stream);
    }
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        hspz_cuda_buffer_free(f->device, &f->arrays[i]);
    }
    for (int i = 0; i < HSPZ_CUDA_FILTER_STAGED; i++) {
        hspz_cuda_buffer_free(f->device, &f->staging[i]);
    }
    hspz_cuda_buffer_free(f->device, &f->counts);
    hspz_cuda_buffer_free(f->device, &f->scratch);
    hspz_cuda_buffer_free(f->device, &f->extra);
    pthread_mutex_destroy(&f->mutex);
    free(f);
    *filter = NULL;
}

enum hspz_status
hspz_cuda_filter_zeroed(struct hspz_filter *f, struct hspz_cuda_buffer *buffer, uint64_t bytes,
                        cudaStream_t stream, struct hspz_error *err)
{
    if (buffer->data != NULL && bytes <= buffer->bytes) {
        return HSPZ_OK;
    }
    enum hspz_status status =
        hspz_cuda_buffer_reserve(f->device, buffer, bytes > 0 ? bytes : 1, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_check(cudaMemsetAsync(buffer->data, 0, buffer->bytes, stream),
                                 f->device->label, "clearing a filter", err);
        if (status != HSPZ_OK) { /* or it would pass for cleared */
            hspz_cuda_buffer_free(f->device, buffer);
        }
    }
    return status;
}

enum hspz_status
hspz_cuda_filter_make(const struct hspz_filter_plan *plan, const struct hspz_cuda_filter_kind *kind,
                      struct hspz_filter **out, struct hspz_error *err)
{
    HSPZ_REQUIRE(plan->device != NULL);
    struct hspz_filter *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return hspz_filter_no_memory(plan, err);
    }
    f->plan = *plan;
    f->kind = kind;
    f->device = plan->device;
    f->salt = hspz_filter_salt(plan->spec.seed);
    pthread_mutex_init(&f->mutex, NULL);
    kind->sizes(plan, f->bytes);
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_check(cudaStreamCreateWithFlags(&f->stream, cudaStreamNonBlocking),
                                 f->device->label, "creating a stream", err);
    }
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        /* Kernels read in words of up to 64 bits. */
        status = hspz_cuda_filter_zeroed(f, &f->arrays[i], f->bytes[i] + sizeof(uint64_t),
                                         f->stream, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_zeroed(f, &f->counts, sizeof(struct hspz_cuda_filter_counts),
                                         f->stream, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_wait(f, "clearing a filter", err);
    }
    if (status != HSPZ_OK) {
        hspz_cuda_filter_destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}

const struct hspz_filter_plan *
hspz_cuda_filter_plan_of(const struct hspz_filter *f)
{
    return &f->plan;
}

enum hspz_status
hspz_cuda_filter_wait(const struct hspz_filter *f, const char *what, struct hspz_error *err)
{
    return hspz_cuda_check(cudaStreamSynchronize(f->stream), f->device->label, what, err);
}

enum hspz_status
hspz_cuda_filter_locks(struct hspz_filter *f, uint64_t count, cudaStream_t stream,
                       struct hspz_error *err)
{
    return hspz_cuda_filter_zeroed(f, &f->extra, count * sizeof(uint32_t), stream, err);
}

enum hspz_status
hspz_cuda_filter_locks_now(struct hspz_filter *f, uint64_t count, struct hspz_error *err)
{
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_locks(f, count, f->stream, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_wait(f, "clearing locks", err);
    }
    return status;
}

/* ---- numbers ---- */

enum hspz_status
hspz_cuda_filter_counts_get(const struct hspz_filter *f, struct hspz_cuda_filter_counts *out,
                            struct hspz_error *err)
{
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_check(
            cudaMemcpyAsync(out, f->counts.data, sizeof(*out), cudaMemcpyDeviceToHost, f->stream),
            f->device->label, "reading a filter's numbers", err);
    }
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "reading a filter's numbers", err) : status;
}

enum hspz_status
hspz_cuda_filter_counts_set(struct hspz_filter *f, const struct hspz_cuda_filter_counts *counts,
                            struct hspz_error *err)
{
    f->known.is = false;
    const enum hspz_status status = hspz_cuda_check(
        cudaMemcpyAsync(f->counts.data, counts, sizeof(*counts), cudaMemcpyHostToDevice, f->stream),
        f->device->label, "writing a filter's numbers", err);
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "writing a filter's numbers", err) : status;
}

/* ---- calls ---- */

enum hspz_status
hspz_cuda_filter_run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call,
                     cudaStream_t stream, struct hspz_error *err)
{
    if ((f->kind->ops >> call->op & 1) == 0) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    const enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status != HSPZ_OK || call->count == 0) {
        return status;
    }
    return f->kind->run(f, call, stream, err);
}

enum hspz_status
hspz_cuda_filter_clear(struct hspz_filter *f, cudaStream_t stream, struct hspz_error *err)
{
    const enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status != HSPZ_OK) {
        return status;
    }
    f->known = (struct hspz_cuda_filter_known){.is = true};
    cudaError_t error = cudaMemsetAsync(f->counts.data, 0, f->counts.bytes, stream);
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && error == cudaSuccess; i++) {
        error = cudaMemsetAsync(f->arrays[i].data, 0, f->arrays[i].bytes, stream);
    }
    return hspz_cuda_check(error, f->device->label, "clearing a filter", err);
}

/* What other calls leave in the caller's array stays there. */
static bool
has_found(const struct hspz_filter_call *call)
{
    return call->found != NULL && (call->op == HSPZ_FILTER_QUERY || call->op == HSPZ_FILTER_COUNT ||
                                   call->op == HSPZ_FILTER_INSERT_IF_ABSENT);
}

/* Device memory for the arrays of a piece that the call has. */
static enum hspz_status
stage(struct hspz_filter *f, const struct hspz_filter_call *call, struct hspz_error *err)
{
    const uint64_t count = call->count < PIECE ? call->count : PIECE;
    const struct {
        enum hspz_cuda_filter_staged at;
        bool wanted;
        uint64_t bytes;
    } needs[] = {
        {HSPZ_CUDA_FILTER_KEYS, true, count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_VALUES, call->values != NULL, count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_COUNTS, call->counts != NULL, count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_FOUND, has_found(call), count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_YES, call->yes != NULL, (count + 31) / 32 * sizeof(uint32_t)},
        {HSPZ_CUDA_FILTER_RESULT, true, sizeof(struct hspz_cuda_filter_result)},
    };
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]) && status == HSPZ_OK; i++) {
        if (needs[i].wanted) {
            status =
                hspz_cuda_buffer_reserve(f->device, &f->staging[needs[i].at], needs[i].bytes, err);
        }
    }
    return status;
}

static cudaError_t
upload(struct hspz_filter *f, enum hspz_cuda_filter_staged to, const uint64_t *from, uint64_t count)
{
    return from == NULL ? cudaSuccess
                        : cudaMemcpyAsync(f->staging[to].data, from, count * sizeof(*from),
                                          cudaMemcpyHostToDevice, f->stream);
}

static cudaError_t
download(struct hspz_filter *f, enum hspz_cuda_filter_staged from, void *to, uint64_t bytes)
{
    return cudaMemcpyAsync(to, f->staging[from].data, bytes, cudaMemcpyDeviceToHost, f->stream);
}

static enum hspz_status
run_piece(struct hspz_filter *f, const struct hspz_filter_call *call, uint64_t begin,
          uint64_t count, struct hspz_error *err)
{
    const uint64_t *values = call->values != NULL ? call->values + begin : NULL;
    const uint64_t *counts = call->counts != NULL ? call->counts + begin : NULL;
    cudaError_t error = upload(f, HSPZ_CUDA_FILTER_KEYS, call->keys + begin, count);
    if (error == cudaSuccess) {
        error = upload(f, HSPZ_CUDA_FILTER_VALUES, values, count);
    }
    if (error == cudaSuccess) {
        error = upload(f, HSPZ_CUDA_FILTER_COUNTS, counts, count);
    }
    enum hspz_status status = hspz_cuda_check(error, f->device->label, "uploading keys", err);
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_buffer *staged = f->staging;
    const struct hspz_cuda_filter_call on_device = {
        .op = call->op,
        .keys = staged[HSPZ_CUDA_FILTER_KEYS].data,
        .count = count,
        .values = values != NULL ? staged[HSPZ_CUDA_FILTER_VALUES].data : NULL,
        .counts = counts != NULL ? staged[HSPZ_CUDA_FILTER_COUNTS].data : NULL,
        .yes = call->yes != NULL ? staged[HSPZ_CUDA_FILTER_YES].data : NULL,
        .found = has_found(call) ? staged[HSPZ_CUDA_FILTER_FOUND].data : NULL,
        .result = staged[HSPZ_CUDA_FILTER_RESULT].data,
    };
    status = f->kind->run(f, &on_device, f->stream, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (call->yes != NULL) {
        error = download(f, HSPZ_CUDA_FILTER_YES, call->yes + begin / 8, (count + 7) / 8);
    }
    if (has_found(call) && error == cudaSuccess) {
        error = download(f, HSPZ_CUDA_FILTER_FOUND, call->found + begin, count * sizeof(uint64_t));
    }
    return hspz_cuda_check(error, f->device->label, "downloading answers", err);
}

static enum hspz_status
get_result(struct hspz_filter *f, struct hspz_cuda_filter_result *out, struct hspz_error *err)
{
    const enum hspz_status status =
        hspz_cuda_check(download(f, HSPZ_CUDA_FILTER_RESULT, out, sizeof(*out)), f->device->label,
                        "downloading a result", err);
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "working on a filter", err) : status;
}

static enum hspz_status
run_pieces(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    struct hspz_cuda_filter_result result = {0};
    bool closed = false; /* nothing more goes in */
    enum hspz_status status = stage(f, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_cuda_check(
        cudaMemsetAsync(f->staging[HSPZ_CUDA_FILTER_RESULT].data, 0, sizeof(result), f->stream),
        f->device->label, "clearing a result", err);
    for (uint64_t at = 0; at < call->count && status == HSPZ_OK && !closed; at += PIECE) {
        status = run_piece(f, call, at, call->count - at < PIECE ? call->count - at : PIECE, err);
        if (status == HSPZ_OK && f->kind->in_order) {
            status = get_result(f, &result, err);
            closed = result.refused > 0;
        }
    }
    if (status == HSPZ_OK) {
        status = get_result(f, &result, err);
    }
    /* Whatever happened, the caller's arrays are no longer in use. */
    const enum hspz_status waited =
        status == HSPZ_OK ? HSPZ_OK : hspz_cuda_filter_wait(f, "working on a filter", NULL);
    if (status == HSPZ_OK && waited == HSPZ_OK) {
        call->yes_count = result.yes;
        call->full = result.refused > 0;
    }
    return status != HSPZ_OK ? status : waited;
}

enum hspz_status
hspz_cuda_filter_run_host(struct hspz_filter *f, struct hspz_filter_call *call,
                          struct hspz_error *err)
{
    if ((f->kind->ops >> call->op & 1) == 0) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    enum hspz_status status = hspz_filter_check_values(&f->plan, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_filter_call_begin(call);
    status = hspz_cuda_device_use(f->device, err);
    if (status != HSPZ_OK || call->count == 0) {
        return status;
    }
    pthread_mutex_lock(&f->mutex);
    status = run_pieces(f, call, err);
    pthread_mutex_unlock(&f->mutex);
    return status;
}

/* ---- copy, save, load ---- */

enum hspz_status
hspz_cuda_filter_copy(const struct hspz_filter *f, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *made = NULL;
    enum hspz_status status = hspz_cuda_filter_make(&f->plan, f->kind, &made, err);
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && error == cudaSuccess; i++) {
        error = cudaMemcpyAsync(made->arrays[i].data, f->arrays[i].data, f->bytes[i],
                                cudaMemcpyDeviceToDevice, made->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(made->counts.data, f->counts.data,
                                sizeof(struct hspz_cuda_filter_counts), cudaMemcpyDeviceToDevice,
                                made->stream);
    }
    status = hspz_cuda_check(error, f->device->label, "copying a filter", err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_wait(made, "copying a filter", err);
    }
    if (status != HSPZ_OK) {
        hspz_cuda_filter_destroy(&made);
        return status;
    }
    *out = made;
    return HSPZ_OK;
}

enum hspz_status
hspz_cuda_filter_save(const struct hspz_filter *f, struct hspz_filter_image *out,
                      struct hspz_error *err)
{
    struct hspz_filter_image image = {0};
    struct hspz_cuda_filter_counts counts;
    enum hspz_status status = hspz_cuda_filter_counts_get(f, &counts, err);
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        if (f->bytes[i] == 0) {
            continue;
        }
        image.arrays[i] = malloc(f->bytes[i]);
        if (image.arrays[i] == NULL) {
            status = hspz_filter_no_memory(&f->plan, err);
            break;
        }
        image.bytes[i] = f->bytes[i];
        status = hspz_cuda_check(cudaMemcpyAsync(image.arrays[i], f->arrays[i].data, f->bytes[i],
                                                 cudaMemcpyDeviceToHost, f->stream),
                                 f->device->label, "downloading a filter", err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_filter_wait(f, "downloading a filter", err);
    }
    if (status != HSPZ_OK) {
        (void)cudaStreamSynchronize(f->stream);
        hspz_filter_image_fini(&image);
        return status;
    }
    image.entries = counts.entries;
    image.total = f->plan.spec.kind == HSPZ_FILTER_GQF ? counts.total : counts.entries;
    *out = image;
    return HSPZ_OK;
}

static enum hspz_status
fill(struct hspz_filter *f, const struct hspz_filter_image *image, const char **damage,
     struct hspz_error *err)
{
    const struct hspz_cuda_filter_counts counts = {.entries = image->entries,
                                                   .total = image->total};
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && error == cudaSuccess; i++) {
        if (f->bytes[i] > 0) {
            error = cudaMemcpyAsync(f->arrays[i].data, image->arrays[i], f->bytes[i],
                                    cudaMemcpyHostToDevice, f->stream);
        }
    }
    const enum hspz_status status =
        hspz_cuda_check(error, f->device->label, "uploading a filter", err);
    const enum hspz_status waited =
        hspz_cuda_filter_counts_set(f, &counts, status == HSPZ_OK ? err : NULL);
    if (status != HSPZ_OK || waited != HSPZ_OK) {
        return status != HSPZ_OK ? status : waited;
    }
    return f->kind->check != NULL ? f->kind->check(f, damage, err) : HSPZ_OK;
}

enum hspz_status
hspz_cuda_filter_load(const struct hspz_filter_plan *plan, const struct hspz_cuda_filter_kind *kind,
                      const struct hspz_filter_image *image, struct hspz_filter **out,
                      struct hspz_error *err)
{
    struct hspz_filter *f = NULL;
    enum hspz_status status = hspz_cuda_filter_make(plan, kind, &f, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const char *damage = NULL;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        if (image->bytes[i] != f->bytes[i]) {
            damage = "its arrays are of other lengths";
        }
    }
    if (damage == NULL) {
        status = fill(f, image, &damage, err);
    }
    if (status == HSPZ_OK && damage != NULL) {
        status = hspz_filter_bad_image(plan, damage, err);
    }
    if (status != HSPZ_OK) {
        hspz_cuda_filter_destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}
