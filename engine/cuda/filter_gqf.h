/* Quotient filters on a device, within: gqf, sqf and rsqf (engine/cuda/filter_gqf.c).
 *
 * A filter's first array holds symbols, marks and offsets (engine/cuda/kernels/quotient.h); `extra`
 * the same of the slots that a change writes, which then take its place; both stay. */
#pragma once

#include "engine/cuda/filter_p.h"
#include "engine/cuda/kernels/quotient.h"

#define HSPZ_GQF_POINT_TRIES 100000u /* for locks of a key */

/* Where things are behind the symbols. */
struct hspz_gqf_layout {
    uint64_t marks, offsets, bytes;
};
struct hspz_gqf_layout hspz_gqf_lay_out(const struct hspz_filter_plan *plan);
/* A filter of this plan in such memory; NULL: an empty one. */
struct hspz_cuda_quotient hspz_gqf_view_of(const struct hspz_filter_plan *plan, uint64_t salt,
                                           void *memory);
static inline struct hspz_cuda_quotient
hspz_gqf_view(const struct hspz_filter *f)
{
    return hspz_gqf_view_of(&f->plan, f->salt, f->arrays[0].data);
}
static inline bool
hspz_gqf_is_wide(const struct hspz_cuda_quotient *q)
{
    return q->fingerprint_bits + q->value_bits > 64;
}

__extension__ typedef unsigned __int128 hspz_gqf_total;
struct hspz_gqf_numbers {
    uint64_t entries, used;
    hspz_gqf_total total;
};
HSPZ_MUST_USE enum hspz_status hspz_gqf_numbers_get(const struct hspz_filter *f,
                                                    struct hspz_gqf_numbers *out,
                                                    struct hspz_error *err);

/* What a change needs beside the keys. */
struct hspz_gqf_needs {
    bool wide, indices, counts;
    unsigned key_bits;
    const struct hspz_cuda_quotient_rooms *rooms; /* their sizes; NULL: items are sorted */
};

/* What came of items that parts had no room for. */
struct hspz_gqf_spill {
    struct hspz_cuda_filter_counts counts;
    unsigned long long refused;
};

/* A change under way, in a filter's scratch. */
struct hspz_gqf_work {
    struct hspz_filter *f;
    cudaStream_t stream;
    struct hspz_cuda_quotient old, made;
    struct hspz_gqf_numbers numbers; /* of the old slots */
    uint64_t full_slots, made_bytes;
    uint64_t tiles, capacity; /* items there is room for */
    bool wide;
    void *keys[2];
    uint32_t *indices[2];
    uint64_t *counts[2];
    uint32_t *counted;
    uint64_t *bounds;
    struct hspz_cuda_quotient_state *states, *before;
    struct hspz_cuda_quotient_tally *tally;
    uint64_t tally_bytes; /* with words, counts of parts, and spill */
    uint64_t *words;      /* of parts */
    struct hspz_gqf_spill *spill;
    struct hspz_cuda_quotient_rooms rooms;
    void *temp;
    size_t temp_bytes;
};
/* Takes room for slots of the plan `made`, and for `count` items or as many as there is memory
 * for. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_work_open(struct hspz_gqf_work *w, struct hspz_filter *f,
                                                  const struct hspz_filter_plan *made,
                                                  const struct hspz_gqf_needs *needs,
                                                  uint64_t count, cudaStream_t stream,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_check(const struct hspz_gqf_work *w, cudaError_t error,
                                              struct hspz_error *err);
/* Measures what the items make of the old slots and, if `write` and it fits, writes it; the tally
 * was cleared. Waits. */
HSPZ_MUST_USE enum hspz_status
hspz_gqf_merge_items(struct hspz_gqf_work *w, const struct hspz_cuda_quotient_items *items,
                     bool write, struct hspz_cuda_quotient_tally *out, struct hspz_error *err);
/* Locks of a filter, in its second array, which is no content of these kinds. All are free between
 * calls. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_locks(struct hspz_filter *f, cudaStream_t stream,
                                              uint32_t **out, struct hspz_error *err);
/* All of the tally, and what else is cleared with it, becomes 0. */
HSPZ_MUST_USE cudaError_t hspz_gqf_clear_tally(const struct hspz_gqf_work *w);
/* What was written is the filter's. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_take_over(struct hspz_gqf_work *w,
                                                  const struct hspz_cuda_quotient_tally *tally,
                                                  struct hspz_error *err);

/* engine/cuda/filter_gqf_change.c. All calls but queries and counts; of keys that do not fit, as
 * many as do from the first on. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_change(struct hspz_filter *f,
                                               const struct hspz_cuda_filter_call *call,
                                               cudaStream_t stream, struct hspz_error *err);
/* The same, unless they do not all fit; then nothing changes. Answers nothing. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_change_whole(struct hspz_filter *f,
                                                     const struct hspz_cuda_filter_call *call,
                                                     cudaStream_t stream, bool *fits,
                                                     struct hspz_error *err);
/* Yes to the first `inside` keys, and nothing found. */
HSPZ_MUST_USE cudaError_t hspz_gqf_clear_answers(const struct hspz_gqf_work *w,
                                                 const struct hspz_cuda_filter_call *call,
                                                 uint64_t inside);

/* engine/cuda/filter_gqf_parts.c. Whether items can be dealt to parts, and how many at most, so
 * that parts have room for them if they are spread well. */
bool hspz_gqf_is_for_parts(const struct hspz_cuda_quotient *q, const struct hspz_gqf_needs *needs,
                           enum hspz_filter_op op);
uint64_t hspz_gqf_parts_most(const struct hspz_filter *f);
/* Takes room for so many; HSPZ_E_OUT_OF_MEMORY: they can still go in sorted, as many as there is
 * room for. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_parts_open(struct hspz_gqf_work *w, struct hspz_filter *f,
                                                   const struct hspz_gqf_needs *needs,
                                                   uint64_t count, cudaStream_t stream,
                                                   struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_parts_begin(struct hspz_gqf_work *w,
                                                    struct hspz_error *err);
/* Of a sequence, segment by segment; all keys of a call. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_parts_deal_kmers(struct hspz_gqf_work *w,
                                                         const struct hspz_cuda_kmers *kmers,
                                                         struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_parts_deal_keys(struct hspz_gqf_work *w,
                                                        const struct hspz_cuda_filter_call *call,
                                                        struct hspz_error *err);
/* What was dealt becomes the filter's, unless the tally says that it does not fit, or is not for
 * this way; then nothing changes. Waits. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_parts_merge(struct hspz_gqf_work *w, enum hspz_filter_op op,
                                                    struct hspz_cuda_quotient_tally *out,
                                                    struct hspz_error *err);

/* engine/cuda/filter_gqf_sequence.c; struct hspz_cuda_filter_kind has it. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_insert_sequence(struct hspz_filter *f,
                                                        const struct hspz_filter_call *call,
                                                        uint64_t *windows, uint64_t *keys,
                                                        struct hspz_error *err);

/* engine/cuda/filter_gqf_content.c; as in hspz_filter_ops. */
HSPZ_MUST_USE enum hspz_status hspz_gqf_enumerate(const struct hspz_filter *f, uint64_t *cursor,
                                                  struct hspz_filter_entry *out, size_t capacity,
                                                  size_t *count, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_merge(struct hspz_filter *f, const struct hspz_filter *from,
                                              const struct hspz_filter_stop *stop, bool *full,
                                              struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_grow(struct hspz_filter *f, uint64_t budget_bytes,
                                             struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_save(const struct hspz_filter *f,
                                             const struct hspz_filter_stop *stop,
                                             struct hspz_filter_image *out, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_gqf_load(const struct hspz_filter_plan *plan,
                                             const struct hspz_cuda_filter_kind *kind,
                                             const struct hspz_filter_image *image,
                                             const struct hspz_filter_stop *stop,
                                             struct hspz_filter **out, struct hspz_error *err);
