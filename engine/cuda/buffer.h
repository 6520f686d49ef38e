/* Memory that only grows: on a device, counted against its budget, and pinned on the host.
 *
 * Contents do not survive growth. An empty struct is an empty buffer.
 * Threads: a buffer from one thread at a time. The device is current.
 * Errors:  HSPZ_E_OUT_OF_MEMORY with the bytes asked for, the bytes in use and the budget. */
#pragma once

#include "engine/cuda/device.h"

struct hspz_cuda_buffer {
    void *data;
    size_t bytes;
};

HSPZ_MUST_USE enum hspz_status hspz_cuda_buffer_reserve(struct hspz_cuda_device *device,
                                                        struct hspz_cuda_buffer *buffer,
                                                        uint64_t bytes, struct hspz_error *err);
/* The device's mutex is held. */
void hspz_cuda_buffer_free_locked(struct hspz_cuda_device *device, struct hspz_cuda_buffer *buffer);
void hspz_cuda_buffer_free(struct hspz_cuda_device *device, struct hspz_cuda_buffer *buffer);

HSPZ_MUST_USE enum hspz_status hspz_cuda_pinned_reserve(const struct hspz_cuda_device *device,
                                                        struct hspz_cuda_buffer *buffer,
                                                        uint64_t bytes, struct hspz_error *err);
void hspz_cuda_pinned_free(struct hspz_cuda_buffer *buffer);
