#include "engine/cuda/buffer.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/scratch.h"

#include <inttypes.h>

#define QUANTUM UINT64_C(65536)     /* small buffers grow to powers of two of at least this */
#define COARSE (UINT64_C(64) << 20) /* large ones to multiples of this */

static uint64_t
rounded(uint64_t bytes)
{
    if (bytes > COARSE) {
        return (bytes + COARSE - 1) / COARSE * COARSE;
    }
    uint64_t size = QUANTUM;
    while (size < bytes) {
        size *= 2;
    }
    return size;
}

void
hspz_cuda_buffer_free_locked(struct hspz_cuda_device *device, struct hspz_cuda_buffer *buffer)
{
    if (buffer->data != NULL) {
        (void)cudaFree(buffer->data);
        device->used_bytes -= buffer->bytes;
        *buffer = (struct hspz_cuda_buffer){0};
    }
}

void
hspz_cuda_buffer_free(struct hspz_cuda_device *device, struct hspz_cuda_buffer *buffer)
{
    pthread_mutex_lock(&device->mutex);
    hspz_cuda_buffer_free_locked(device, buffer);
    pthread_mutex_unlock(&device->mutex);
}

/* Within the budget, giving other scratch back as long as there is any. */
static cudaError_t
allocate_locked(struct hspz_cuda_device *device, uint64_t bytes, void **out)
{
    for (;;) {
        cudaError_t error = cudaErrorMemoryAllocation;
        if (bytes <= device->budget_bytes && device->used_bytes <= device->budget_bytes - bytes) {
            error = cudaMalloc(out, bytes);
        }
        if (error != cudaErrorMemoryAllocation) {
            return error;
        }
        (void)cudaGetLastError();
        if (!hspz_cuda_scratch_reclaim_locked(device)) {
            return error;
        }
    }
}

enum hspz_status
hspz_cuda_buffer_reserve(struct hspz_cuda_device *device, struct hspz_cuda_buffer *buffer,
                         uint64_t bytes, struct hspz_error *err)
{
    if (bytes <= buffer->bytes && buffer->data != NULL) {
        return HSPZ_OK;
    }
    pthread_mutex_lock(&device->mutex);
    hspz_cuda_buffer_free_locked(device, buffer);
    uint64_t size = rounded(bytes);
    cudaError_t error = allocate_locked(device, size, &buffer->data);
    if (error == cudaErrorMemoryAllocation && bytes < size) {
        size = bytes;
        error = allocate_locked(device, size, &buffer->data);
    }
    const uint64_t used = device->used_bytes;
    if (error == cudaSuccess) {
        buffer->bytes = size;
        device->used_bytes += size;
    } else {
        buffer->data = NULL;
    }
    pthread_mutex_unlock(&device->mutex);
    if (error == cudaErrorMemoryAllocation) {
        size_t free_bytes = 0, all_bytes = 0;
        (void)cudaMemGetInfo(&free_bytes, &all_bytes);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY,
                              "%s: no memory for %" PRIu64 " bytes more; %" PRIu64
                              " of a budget of %" PRIu64 " are in use, %zu of %zu are free",
                              device->label, bytes, used, device->budget_bytes, free_bytes,
                              all_bytes);
    }
    return hspz_cuda_check(error, device->label, "allocating memory", err);
}

enum hspz_status
hspz_cuda_pinned_reserve(const struct hspz_cuda_device *device, struct hspz_cuda_buffer *buffer,
                         uint64_t bytes, struct hspz_error *err)
{
    if (bytes <= buffer->bytes && buffer->data != NULL) {
        return HSPZ_OK;
    }
    hspz_cuda_pinned_free(buffer);
    const uint64_t size = rounded(bytes);
    const enum hspz_status status = hspz_cuda_check(
        cudaHostAlloc(&buffer->data, size, cudaHostAllocPortable | cudaHostAllocMapped),
        device->label, "allocating pinned memory", err);
    if (status != HSPZ_OK) {
        buffer->data = NULL;
        return status;
    }
    buffer->bytes = size;
    return HSPZ_OK;
}

void
hspz_cuda_pinned_free(struct hspz_cuda_buffer *buffer)
{
    if (buffer->data != NULL) {
        (void)cudaFreeHost(buffer->data);
        *buffer = (struct hspz_cuda_buffer){0};
    }
}
