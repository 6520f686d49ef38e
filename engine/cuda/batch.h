/* One batch against one reference block, on a device: what a job does between its refusals.
 *
 *   given / query   the batch's seeds, uploaded or made from sequence
 *   count           hits per seed and their total; the only wait of the host for the device
 *   place           the seeds that have hits, packed
 *   find            where a chunk ends
 *   copy            any range of the batch's hits to the host
 *   columns         the same by columns, as much as fits
 *   small           all of it at once, for few seeds with few hits
 *
 * Hits are expanded in windows of a fixed size, in order, into two buffers on the device: while
 * copies come from one, the other is filled with the window that follows. A copied range may be of
 * any size up to a window's.
 *
 * Owns:    prefix (host memory); everything on the device is the scratch's, and a batch is void
 *          once the job has lost that.
 * Errors:  HSPZ_E_OUT_OF_MEMORY (after smaller windows were tried), HSPZ_E_DEVICE_ERROR. */
#pragma once

#include "engine/cuda/kernels/launch.h"
#include "engine/cuda/lane.h"
#include "engine/cuda/scratch.h"
#include "engine/cut.h"
#include "engine/seed_mask.h"
#include "engine/shape.h"
#include "protocol/types.h"

#include <stdbool.h>

/* A batch with its lane and scratch; made anew for each step. */
struct hspz_cuda_run {
    const struct hspz_lane *lane;
    struct hspz_cuda_scratch *scratch;
    const struct hspz_cuda_index *index;
    const struct hspz_cuda_tuning *tuning;
    struct hspz_cuda_batch *batch;
    struct hspz_error *err;
};

/* A part by columns that is on its way to its buffer; bytes 0: none is. */
struct hspz_cuda_ready {
    uint64_t begin, end, bytes;
};

struct hspz_cuda_batch {
    struct hspz_cuda_seeds seeds;
    struct hspz_cuda_counts counts;
    struct hspz_cuda_records records;
    uint64_t seed_count, hits;
    uint64_t most_block_hits;   /* of one scan block */
    bool fresh_windows;         /* the kernel that writes them was the last one launched */
    uint64_t bad;               /* first seed out of range, or HSPZ_CUDA_NO_BAD */
    uint64_t window_len;        /* hits in a window; 0: no buffers yet */
    uint64_t window_at[2];      /* number of the window in each buffer, or UINT64_MAX */
    struct hspz_cuda_runs runs; /* of this batch, once runs.runs is not NULL */
    uint64_t columns_bytes;     /* of a part by columns on the device; 0: no buffers yet */
    struct hspz_cuda_ready ready[2];
    uint64_t extend_hits; /* hits extended at once */
    uint64_t extend_hsps; /* room for HSPs */
    uint64_t fetched;     /* scan block in host_sums, or UINT64_MAX */
    uint32_t *prefix;     /* all prefix sums, for the full walk; NULL: not fetched */
};

/* A stretch of a query's windows, on one strand. */
struct hspz_cuda_stretch {
    const struct hspz_shape *shape;
    struct hspz_span query; /* all of it, plus strand */
    enum hspz_strand strand;
    uint32_t transitions;
    bool unmask;
    uint64_t begin, end;               /* window starts */
    const struct hspz_seed_mask *mask; /* NULL: none */
};

/* Room for `count` seeds; their bytes follow in pieces. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_given(const struct hspz_cuda_run *run,
                                                     uint64_t count);
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_upload(const struct hspz_cuda_run *run,
                                                      const uint8_t *bytes, uint64_t first,
                                                      uint64_t count);
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_query(const struct hspz_cuda_run *run,
                                                     const struct hspz_cuda_stretch *stretch);

/* Fills seed_count, hits (exact, whatever they are) and bad. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_count(const struct hspz_cuda_run *run,
                                                     uint64_t max_word_count);
/* Needs hits <= HSPZ_HITS_LIMIT. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_place(const struct hspz_cuda_run *run);

/* hspz_cut_find_fn over a struct hspz_cuda_run: fetches the one scan block that holds the boundary;
 * or all prefix sums. */
bool hspz_cuda_batch_find_blocks(void *run, uint64_t hits, uint64_t *b, uint64_t *before,
                                 uint64_t *at);
bool hspz_cuda_batch_find_full(void *run, uint64_t hits, uint64_t *b, uint64_t *before,
                               uint64_t *at);

/* Hits from `begin` on, at most up to `end` and at most a window, to out[]; *copied says how many.
 */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_copy(const struct hspz_cuda_run *run, uint64_t begin,
                                                    uint64_t end, uint64_t *out, uint64_t *copied);

/* By columns, into `bytes` bytes of out, 16 or more: *copied hits in *used bytes. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_columns(const struct hspz_cuda_run *run,
                                                       uint64_t begin, uint64_t end, void *out,
                                                       size_t bytes, uint64_t *copied,
                                                       size_t *used);

/* A whole batch of up to HSPZ_CUDA_SMALL_SEEDS seeds, which stand at hspz_cuda_batch_small_seeds.
 * seed_count, hits and bad are always set; *written tells whether out[] has the anchors, which it
 * has when there are at most `capacity` and no bad seed. out is aligned to 16 bytes. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_small_seeds(const struct hspz_cuda_run *run,
                                                           uint64_t **seeds);
HSPZ_MUST_USE enum hspz_status hspz_cuda_batch_small(const struct hspz_cuda_run *run,
                                                     uint64_t count, uint64_t max_word_count,
                                                     uint64_t *out, uint64_t capacity,
                                                     bool *written);

/* Forgets what is on the device; frees prefix. */
void hspz_cuda_batch_reset(struct hspz_cuda_batch *batch);

/* Pinned host memory that a batch of so many seeds takes. */
uint64_t hspz_cuda_batch_host_bytes(uint64_t seed_count);
