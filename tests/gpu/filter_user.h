/* Kernels as a user of the filters' device functions writes them. */
#pragma once

#include "engine/cuda/kernels/filter_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads beside each other insert, look up, insert if absent and take away, in a filter of 16-bit
 * tags in blocks of 16. Of `keys`, the first third is in the filter and stays; the second is in it
 * and is taken away; the third is not and goes in. wrong[] counts: keys that stay and were not
 * found [0], keys not found after their insert [1], that could not be taken away [2], and how many
 * of a key that several bring went in [3]. The filter has 128 blocks at least. */
cudaError_t user_launch_mixed(const struct hspz_cuda_tcf *tcf, const uint64_t *keys, uint32_t third,
                              const uint64_t *shared, uint32_t shared_count,
                              unsigned long long *wrong, cudaStream_t stream);

enum user_group_op { USER_INSERT, USER_FIND, USER_ERASE };

/* A group of `lanes` (1, 4, 8 or 32) threads a key; yes[i]: the answer, as all of them had it, else
 * 2. values[i] goes in, or comes out. Tags of 16 bits in blocks of 16 or 32, of 8 in 64, of 32
 * in 16.
 */
cudaError_t user_launch_group(const struct hspz_cuda_tcf *tcf, enum user_group_op op,
                              unsigned lanes, const uint64_t *keys, uint32_t count,
                              uint64_t *values, uint8_t *yes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
