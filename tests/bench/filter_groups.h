/* A two-choice filter worked on by groups of threads, as kernels of a user's do it
 * (engine/cuda/kernels/filter_tcf_group.cuh). */
#pragma once

#include "engine/cuda/kernels/filter_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A group of `lanes` (1, 2, 4, 8, 16 or 32) threads a key; adds to *yes how many it says yes to.
 * INSERT, QUERY or DELETE. Tags of 8 or 16 bits in blocks of 16, 32 or 64, and of 32 in 16. */
cudaError_t filter_groups_run(const struct hspz_cuda_tcf *tcf, unsigned slot_bits,
                              unsigned block_slots, unsigned lanes, enum hspz_filter_op op,
                              const uint64_t *keys, uint64_t count, unsigned long long *yes,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif
