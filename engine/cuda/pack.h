/* Sequence from host memory to packed sequence on a device (engine/packed.h).
 *
 * Memory:  *out and *staging grow to what is needed.
 *          The bases and *staging are free again when the stream is done.
 * Errors:  HSPZ_E_OUT_OF_MEMORY, HSPZ_E_DEVICE_ERROR. */
#pragma once

#include "engine/cuda/buffer.h"
#include "protocol/types.h"

#include <stdbool.h>

struct hspz_cuda_pack {
    struct hspz_span bases; /* plus strand */
    bool minus;             /* packs the other one */
    bool unmask;
};

HSPZ_MUST_USE enum hspz_status hspz_cuda_pack(struct hspz_cuda_device *device, cudaStream_t stream,
                                              const struct hspz_cuda_pack *what,
                                              struct hspz_cuda_buffer *staging,
                                              struct hspz_cuda_buffer *out, struct hspz_error *err);
