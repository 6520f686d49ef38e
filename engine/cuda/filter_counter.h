/* Exact counters on a device, within. Keys that came once are in a front, others in a table
 * (engine/counter_shape.h, engine/cuda/kernels/counter.h): the first and the second array of a
 * filter. */
#pragma once

#include "engine/cuda/filter_p.h"
#include "engine/cuda/kernels/counter.h"

extern const struct hspz_cuda_filter_kind *const hspz_cuda_filter_counter_kind;

struct hspz_cuda_counter hspz_counter_view(const struct hspz_filter *f);
HSPZ_MUST_USE enum hspz_status hspz_counter_check(const struct hspz_filter *f, cudaError_t error,
                                                  struct hspz_error *err);
/* What the tally says when the stream is there; waits. */
HSPZ_MUST_USE enum hspz_status hspz_counter_read_tally(const struct hspz_filter *f,
                                                       const struct hspz_cuda_counter_tally *tally,
                                                       cudaStream_t stream,
                                                       struct hspz_cuda_counter_tally *out,
                                                       struct hspz_error *err);
static inline uint64_t
hspz_counter_sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* ---- memory: engine/cuda/filter_counter_memory.c ---- */

/* Without keys, with a front for so many. */
HSPZ_MUST_USE enum hspz_status hspz_counter_make(const struct hspz_filter_plan *plan, uint64_t keys,
                                                 uint64_t limit_bytes, struct hspz_filter **out,
                                                 struct hspz_error *err);
/* Room for so many more pairs, or for as many as there is memory for; *room: for how many now. */
HSPZ_MUST_USE enum hspz_status hspz_counter_reserve_pairs(struct hspz_filter *f, uint64_t more,
                                                          cudaStream_t stream, uint64_t *room,
                                                          struct hspz_error *err);
/* The same for singles: a front for all, or as large a one as there is memory for. */
HSPZ_MUST_USE enum hspz_status hspz_counter_reserve_singles(struct hspz_filter *f, uint64_t more,
                                                            cudaStream_t stream,
                                                            struct hspz_error *err);
/* Counts what there is, when that is unsure. */
HSPZ_MUST_USE enum hspz_status hspz_counter_settle(struct hspz_filter *f, cudaStream_t stream,
                                                   struct hspz_error *err);

/* ---- inserts: engine/cuda/filter_counter.c ---- */

/* An insert under way, in a filter's scratch. */
struct hspz_counter_work {
    struct hspz_filter *f;
    cudaStream_t stream;
    uint64_t capacity; /* keys there is room for, a multiple of 32 */
    uint64_t *x[2], *counts[2], *fates;
    uint32_t *counted;
    struct hspz_cuda_counter_tally *tally;
    void *temp;
    size_t temp_bytes;
};
/* For `count` keys at a time, or as many as there is memory for. */
HSPZ_MUST_USE enum hspz_status hspz_counter_open(struct hspz_counter_work *w, struct hspz_filter *f,
                                                 uint64_t count, bool with_counts,
                                                 cudaStream_t stream, struct hspz_error *err);
/* Adds what the items say; `strict`: only if all are new, else nothing but *out tells. What did not
 * fit is told by *out and by the fates. The tally is clear, or has what an unpacking has told.
 * Waits. */
HSPZ_MUST_USE enum hspz_status
hspz_counter_add_items(struct hspz_counter_work *w, const struct hspz_cuda_counter_items *items,
                       bool strict, struct hspz_cuda_counter_tally *out, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_clear_tally(const struct hspz_counter_work *w,
                                                        struct hspz_error *err);

/* ---- all at once: engine/cuda/filter_counter_content.c; as in hspz_filter_ops ---- */

uint64_t hspz_counter_device_image_bytes(const struct hspz_filter *f);
HSPZ_MUST_USE enum hspz_status hspz_counter_device_enumerate(const struct hspz_filter *f,
                                                             uint64_t *cursor,
                                                             struct hspz_filter_entry *out,
                                                             size_t capacity, size_t *count,
                                                             struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_device_merge(struct hspz_filter *f,
                                                         const struct hspz_filter *from,
                                                         const struct hspz_filter_stop *stop,
                                                         bool *full, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_device_copy(const struct hspz_filter *f,
                                                        struct hspz_filter **out,
                                                        struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_device_save(const struct hspz_filter *f,
                                                        const struct hspz_filter_stop *stop,
                                                        struct hspz_filter_image *out,
                                                        struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_device_load(const struct hspz_filter_plan *plan,
                                                        const struct hspz_filter_image *image,
                                                        const struct hspz_filter_stop *stop,
                                                        struct hspz_filter **out,
                                                        struct hspz_error *err);
