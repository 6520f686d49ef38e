/* CUDA's errors as ours: the one place where cudaError_t is translated.
 *
 * Memory that was not to be had is HSPZ_E_OUT_OF_MEMORY, and CUDA forgets about it; anything else
 * is HSPZ_E_DEVICE_ERROR. */
#pragma once

#include "protocol/status.h"

#include <cuda_runtime_api.h>

/* HSPZ_OK for cudaSuccess; else fills *err: device, what failed, CUDA's words. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_check(cudaError_t error, const char *device,
                                               const char *what, struct hspz_error *err);

/* Why no device answers, as one line: no driver, an old one, no device. */
enum hspz_status hspz_cuda_refuse_open(cudaError_t error, struct hspz_error *err);
