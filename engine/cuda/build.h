/* An index built on a device: what hspz_index_build makes, byte for byte.
 *
 * The device is the one with the most room. Host memory is held to the budget as
 * hspz_index_build does with one thread, device memory to the device's.
 *
 * Threads: any, beside jobs.
 * Errors:  those of hspz_index_build, and HSPZ_E_DEVICE_ERROR. HSPZ_E_OUT_OF_MEMORY also when table
 *          and positions of a block do not fit the device. */
#pragma once

#include "engine/cuda/device.h"
#include "engine/index.h"

HSPZ_MUST_USE enum hspz_status hspz_cuda_build(struct hspz_cuda_device *devices,
                                               unsigned device_count, struct hspz_sequences **seqs,
                                               const struct hspz_index_params *params,
                                               uint64_t budget_bytes, hspz_progress_fn progress,
                                               void *user, struct hspz_index **out,
                                               struct hspz_error *err);
