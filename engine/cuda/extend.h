/* Hits of a batch to HSPs, on the device.
 *
 * Hits are expanded window by window (engine/cuda/batch.h). Most anchors end in the gate; what is
 * left is extended, and what passes is collected on the device until there is enough of it, sorted,
 * rid of equal ones and added to a set on the host: nothing is kept on the device between two
 * calls that could not be lost. A call is as long as its HSPs fit the device's buffer.
 *
 * Errors:  HSPZ_E_OUT_OF_MEMORY (after smaller windows were tried), HSPZ_E_DEVICE_ERROR, and what
 *          hspz_hsp_set_add says. */
#pragma once

#include "engine/cuda/batch.h"
#include "engine/hsp_set.h"

/* Most HSPs that a call adds. */
#define HSPZ_CUDA_EXTEND_HSPS (UINT64_C(1) << 19)

/* What a job extends, and how. */
struct hspz_cuda_extend {
    const struct hspz_shape *shape;
    struct hspz_span query; /* all of it, plus strand */
    enum hspz_strand strand;
    uint32_t transitions;
    bool query_unmask;
    const struct hspz_scoring *scoring;
    bool all_hits;        /* no bucket's hits are left out, and no window's */
    uint32_t first_query; /* least window start that is seeded */
    uint64_t first_seed;  /* of the chunk */
};

/* Extends hits from `begin` on, up to `end`, of one chunk: *count of them, 1 or more. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_extend(const struct hspz_cuda_run *run,
                                                      const struct hspz_cuda_extend *how,
                                                      uint64_t begin, uint64_t end,
                                                      struct hspz_hsp_set *set, uint64_t *count);

/* Its two preparations, also for whoever times the kernels: windows, memory behind them and the
 * packed query, unless they are there; and what the kernels get. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_extend_open(const struct hspz_cuda_run *run,
                                                     const struct hspz_cuda_extend *how);
struct hspz_cuda_extension hspz_cuda_extension_of(const struct hspz_cuda_run *run,
                                                  const struct hspz_cuda_extend *how);

/* Pinned host memory that it takes. */
uint64_t hspz_cuda_extend_host_bytes(void);
