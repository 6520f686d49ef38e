/* Keys of a filter sorted by region, for inserts of many at once. */
#pragma once

#include "engine/cuda/filter_p.h"

/* Most keys, or places of bits, that are sorted together. */
#define HSPZ_CUDA_FILTER_SORT_MAX ((uint64_t)1 << 26)

/* For hashes onto `blocks` blocks: shift, end_bit and regions, which get so many blocks at most. */
void hspz_cuda_filter_regions(struct hspz_cuda_filter_sorted *sorted, uint64_t blocks,
                              uint64_t most_blocks);

/* Lays out the filter's scratch for sorted->count of what is sorted; HSPZ_E_OUT_OF_MEMORY: keys can
 * still go in each by itself. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_sorted_init(struct hspz_filter *f,
                                                            struct hspz_cuda_filter_sorted *sorted);

/* The call's keys from `begin` on, `count` of them. */
struct hspz_cuda_filter_call hspz_cuda_filter_cut(const struct hspz_cuda_filter_call *call,
                                                  uint64_t begin, uint64_t count);
