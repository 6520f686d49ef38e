/* What a batch needs on a device between its seeds and its last anchor. Sets of it are shared by a
 * device's jobs: a job holds one from its first step on, until it parks or ends, or until another
 * job's step needs the memory.
 *
 * Threads: hold and drop from the thread that runs the job's step; release from the thread that
 *          parks or ends the job. A holder's pointer is written under the device's mutex. */
#pragma once

#include "engine/cuda/buffer.h"

#include <stdbool.h>

struct hspz_cuda_scratch {
    struct hspz_cuda_scratch *next;
    struct hspz_cuda_scratch **holder; /* a job's pointer to this; NULL: idle */
    bool running;                      /* a step of the holder runs */
    uint64_t used_at;                  /* device clock */

    /* Device memory */
    struct hspz_cuda_buffer bases, windows, window_counts;
    struct hspz_cuda_buffer masked, mask_keys, mask_answers;
    struct hspz_cuda_buffer sums, begins;
    struct hspz_cuda_buffer blocks; /* the tally, then a total or an offset a scan block */
    struct hspz_cuda_buffer ends, sources, starts;
    struct hspz_cuda_buffer anchors[2];
    struct hspz_cuda_buffer run_of, runs, sums_temp; /* by columns; parts are in `anchors` */
    struct hspz_cuda_buffer staging, query[2];       /* packed, a strand each */
    struct hspz_cuda_buffer left;                    /* anchors that the gate let pass */
    struct hspz_cuda_buffer hsps[2], hsps_temp, counters;
    bool query_packed[2];
    /* Host memory, pinned */
    struct hspz_cuda_buffer host_blocks; /* as `blocks` */
    struct hspz_cuda_buffer host_bases;  /* also a small batch's tally and seeds */
    struct hspz_cuda_buffer host_masked; /* as `masked` */
    struct hspz_cuda_buffer host_sums;   /* of one scan block */
    struct hspz_cuda_buffer host_hsps, host_counters;

    cudaEvent_t submitted;   /* all work given to the device so far is done */
    cudaEvent_t expanded[2]; /* anchors[i] is written */
    cudaEvent_t extended;    /* counters are written */
    cudaStream_t stream;     /* that work went to */
};

/* Marks *holder's scratch as running; when *holder is NULL it first gets some, *fresh, of unknown
 * contents. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_scratch_hold(struct hspz_cuda_device *device,
                                                      struct hspz_cuda_scratch **holder,
                                                      cudaStream_t stream, bool *fresh,
                                                      struct hspz_error *err);
/* The step is over; its work is all on `stream`. */
void hspz_cuda_scratch_drop(struct hspz_cuda_device *device, struct hspz_cuda_scratch *scratch);
/* Nulls *holder. */
void hspz_cuda_scratch_release(struct hspz_cuda_device *device, struct hspz_cuda_scratch **holder);
/* Gives *holder's memory back and nulls it, unless another job's step has done so. */
void hspz_cuda_scratch_discard(struct hspz_cuda_device *device, struct hspz_cuda_scratch **holder);

/* Gives one set back that is not running; false when there is none. The mutex is held. */
bool hspz_cuda_scratch_reclaim_locked(struct hspz_cuda_device *device);
void hspz_cuda_scratch_destroy_all(struct hspz_cuda_device *device);
