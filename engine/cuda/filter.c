#include "engine/cuda/filter.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"

#include <string.h>

#define MOVE_BYTES (UINT64_C(1) << 26) /* at a time, between the host and the device */

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
    case HSPZ_FILTER_COUNTER:
        return &hspz_cuda_filter_counter;
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
    hspz_cuda_feed_fini(f);
    hspz_cuda_buffer_free(f->device, &f->counts);
    hspz_cuda_buffer_free(f->device, &f->scratch);
    hspz_cuda_buffer_free(f->device, &f->extra);
    hspz_cuda_buffer_free(f->device, &f->split);
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
    f->segment = HSPZ_CUDA_FILTER_SEGMENT;
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
    f->counter.singles = f->counter.pairs = f->counter.total = 0;
    f->counter.unsure = false;
    cudaError_t error = cudaMemsetAsync(f->counts.data, 0, f->counts.bytes, stream);
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && error == cudaSuccess; i++) {
        error = cudaMemsetAsync(f->arrays[i].data, 0, f->arrays[i].bytes, stream);
    }
    return hspz_cuda_check(error, f->device->label, "clearing a filter", err);
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
hspz_cuda_filter_move(const struct hspz_filter *f, void *on_device, void *on_host, uint64_t bytes,
                      bool down, const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (uint64_t at = 0; at < bytes && status == HSPZ_OK; at += MOVE_BYTES) {
        const uint64_t piece = bytes - at < MOVE_BYTES ? bytes - at : MOVE_BYTES;
        char *const here = (char *)on_host + at, *const there = (char *)on_device + at;
        status = hspz_filter_stopped(stop, err);
        if (status == HSPZ_OK) {
            status = hspz_cuda_check(
                down ? cudaMemcpyAsync(here, there, piece, cudaMemcpyDeviceToHost, f->stream)
                     : cudaMemcpyAsync(there, here, piece, cudaMemcpyHostToDevice, f->stream),
                f->device->label, "moving a filter", err);
        }
        if (status == HSPZ_OK) {
            status = hspz_cuda_filter_wait(f, "moving a filter", err);
        }
    }
    return status;
}

enum hspz_status
hspz_cuda_filter_save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
                      struct hspz_filter_image *out, struct hspz_error *err)
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
        status = hspz_cuda_filter_move(f, f->arrays[i].data, image.arrays[i], f->bytes[i], true,
                                       stop, err);
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
fill(struct hspz_filter *f, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, const char **damage, struct hspz_error *err)
{
    const struct hspz_cuda_filter_counts counts = {.entries = image->entries,
                                                   .total = image->total};
    enum hspz_status status = HSPZ_OK;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        status = hspz_cuda_filter_move(f, f->arrays[i].data, image->arrays[i], f->bytes[i], false,
                                       stop, err);
    }
    const enum hspz_status waited =
        hspz_cuda_filter_counts_set(f, &counts, status == HSPZ_OK ? err : NULL);
    if (status != HSPZ_OK || waited != HSPZ_OK) {
        return status != HSPZ_OK ? status : waited;
    }
    return f->kind->check != NULL ? f->kind->check(f, damage, err) : HSPZ_OK;
}

enum hspz_status
hspz_cuda_filter_load(const struct hspz_filter_plan *plan, const struct hspz_cuda_filter_kind *kind,
                      const struct hspz_filter_image *image, const struct hspz_filter_stop *stop,
                      struct hspz_filter **out, struct hspz_error *err)
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
        status = fill(f, image, stop, &damage, err);
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
