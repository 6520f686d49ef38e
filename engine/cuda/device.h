/* One GPU: what it is, its memory budget, and the scratch that jobs share on it.
 *
 * Device memory is counted against the budget. When an allocation does not fit, or CUDA has none
 * left, scratch that nobody uses right now is given back first: idle scratch, then that of jobs
 * between two steps, longest unused first (such a job makes it again).
 *
 * Threads: everything here may be called from any thread; `mutex` guards what is marked so. */
#pragma once

#include "engine/engine.h"
#include "protocol/status.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_cuda_scratch;

struct hspz_cuda_device {
    int ordinal;
    unsigned multiprocessors;
    bool overlaps; /* a kernel may begin while the one before it ends */
    uint64_t memory_bytes, budget_bytes;
    char name[128];
    char label[160]; /* "device 0 (NVIDIA H200)", for errors */
    pthread_mutex_t mutex;
    uint64_t used_bytes;               /* guarded */
    uint64_t clock;                    /* guarded: counts steps */
    struct hspz_cuda_scratch *scratch; /* guarded: all of it */
};

/* `wanted`: an ordinal among the visible devices or a UUID (GPU-... or MIG-..., a prefix will do),
 * NULL for ordinal 0. budget_bytes 0: most of what is free now. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_device_init(struct hspz_cuda_device *device,
                                                     const char *wanted, int visible,
                                                     uint64_t budget_bytes, struct hspz_error *err);
void hspz_cuda_device_fini(struct hspz_cuda_device *device);

/* Makes it the calling thread's current device. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_device_use(const struct hspz_cuda_device *device,
                                                    struct hspz_error *err);
