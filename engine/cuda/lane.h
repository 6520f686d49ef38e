/* A stream of work on one device: a stream for kernels and uploads, one for downloads, and threads
 * that help its own where the host has to sort.
 *
 * Threads: one thread per lane. */
#pragma once

#include "engine/cpu/pool.h"
#include "engine/cuda/device.h"

#define HSPZ_CUDA_LANE_THREADS 8u /* that help where the host works */

struct hspz_lane {
    struct hspz_cuda_device *device;
    cudaStream_t work, copy;
    struct hspz_pool *pool;
    uint32_t *beat; /* pinned: what the last check's kernel wrote */
    uint32_t beats; /* checks so far */
};

HSPZ_MUST_USE enum hspz_status hspz_cuda_lane_open(struct hspz_cuda_device *device,
                                                   struct hspz_lane **out, struct hspz_error *err);
void hspz_cuda_lane_close(struct hspz_lane **lane);

/* Waits until everything on the stream is done. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_lane_wait(const struct hspz_lane *lane,
                                                   cudaStream_t stream, const char *what,
                                                   struct hspz_error *err);

/* Has the device write a word to the host; HSPZ_E_DEVICE_ERROR when that fails or takes seconds. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_lane_check(struct hspz_lane *lane, struct hspz_error *err);
