/* Filters on a CUDA device: calls on device memory, beside those of hspz_filter_ops on host memory
 * (engine/filter.h; hspz_cuda_filter has the tables). Calls from within kernels are in
 * engine/cuda/kernels/filter_*.cuh.
 *
 * Owns:    a filter owns device memory, counted against its device's budget; arrays of a call stay
 *          the caller's, and are used until the stream is there.
 * Threads: as engine/filter.h: one writer, or any number of readers. The caller orders calls on
 *          different streams, and waits for them before the next call of hspz_filter_ops.
 * Errors:  those of hspz_filter_ops. Inserts may need scratch, which the filter keeps; a filter
 *          that has none takes them another, slower way. What a kernel meets shows when the caller
 *          waits for the stream. */
#pragma once

#include "engine/cuda/device.h"
#include "engine/cuda/kernels/filter_launch.h"
#include "engine/cuda/kernels/quotient.h"
#include "engine/filter.h"

/* Returns when the work is on the stream; of gqf, sqf, rsqf and counter, what changes them when it
 * is done. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_run(struct hspz_filter *filter,
                                                    const struct hspz_cuda_filter_call *call,
                                                    cudaStream_t stream, struct hspz_error *err);

/* The same of a filter in parts, with what hspz_filter_split_parts (engine/filter_split.h) gives:
 * arrays are on the device of the first part, and its scratch serves one call at a time. Waits for
 * what the stream had to do, and for the parts. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_run_split(struct hspz_filter *const *parts,
                                                          unsigned count,
                                                          const struct hspz_cuda_filter_call *call,
                                                          cudaStream_t stream,
                                                          struct hspz_error *err);

/* As it was when it was new; as hspz_cuda_filter_run. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_clear(struct hspz_filter *filter,
                                                      cudaStream_t stream, struct hspz_error *err);

/* What device functions take (engine/cuda/kernels/filter_tcf.cuh, filter_tcf_group.cuh and
 * filter_bloom.cuh), for kernels of the caller's; valid while the filter is. Such a kernel adds
 * what it inserted or took away to counts->entries itself. HSPZ_E_BAD_REQUEST: of another kind. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_tcf_view(struct hspz_filter *filter,
                                                         struct hspz_cuda_tcf *out,
                                                         struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_bloom_view(struct hspz_filter *filter,
                                                           struct hspz_cuda_bloom *out,
                                                           struct hspz_error *err);

/* What device functions of gqf, sqf and rsqf take (engine/cuda/kernels/quotient_point.cuh), for
 * kernels of the caller's on that stream; valid until the next call that changes the filter.
 * HSPZ_E_BAD_REQUEST: of another kind. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_quotient_view(struct hspz_filter *filter,
                                                              cudaStream_t stream,
                                                              struct hspz_cuda_quotient_point *out,
                                                              struct hspz_error *err);
