/* The sequence of a host call on its way to the device: pieces of windows, copied by a stream of
 * their own ahead of the filter's, which takes them one after the other.
 *
 *   start, then for each piece: take, what the filter's stream does with it, next; stop
 *
 * Owns:    a stream, events and a ring of buffers, which stay for the next call.
 * Threads: one call of a filter at a time. The sequence is in use until stop; when it is pinned,
 * its copies go beside the kernels. */
#pragma once

#include "engine/cuda/buffer.h"
#include "engine/cuda/kernels/kmer.h"
#include "engine/filter.h"

#define HSPZ_CUDA_FEED_RING 4u

struct hspz_cuda_feed {
    cudaStream_t stream;
    cudaEvent_t copied[HSPZ_CUDA_FEED_RING], used[HSPZ_CUDA_FEED_RING];
    struct hspz_cuda_buffer memory[HSPZ_CUDA_FEED_RING];
    struct hspz_cuda_kmers kmers[HSPZ_CUDA_FEED_RING];
    /* Of the call. */
    const struct hspz_filter_call *call;
    uint64_t at, end, piece, least; /* in windows; `at`: of the next piece */
    uint64_t sent, taken;           /* pieces */
};

/* Windows begin .. end, up to `piece` at a time; at the end in pieces of half of what is left each,
 * down to `least`. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_feed_start(struct hspz_filter *f,
                                                    const struct hspz_filter_call *call,
                                                    uint64_t begin, uint64_t end, uint64_t piece,
                                                    uint64_t least, struct hspz_error *err);
/* Whether there is a piece that was not taken. */
bool hspz_cuda_feed_has_more(const struct hspz_filter *f);
/* The piece that is next, for what is put on the filter's stream from now on. */
HSPZ_MUST_USE enum hspz_status
hspz_cuda_feed_take(struct hspz_filter *f, struct hspz_cuda_kmers *out, struct hspz_error *err);
/* Everything that reads it is on the filter's stream. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_feed_next(struct hspz_filter *f, struct hspz_error *err);
/* Waits for copies, also after a failure. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_feed_stop(struct hspz_filter *f, struct hspz_error *err);
void hspz_cuda_feed_fini(struct hspz_filter *f);
