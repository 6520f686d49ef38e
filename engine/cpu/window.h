/* A window of anchors, and its extension on the host: what a job of HSPs has on the CPU engine, and
 * on others as long as they extend there.
 *
 * Owns:    the anchors and the extender, until hspz_window_release.
 * Errors:  as engine/cpu/cpu_extend.h says. */
#pragma once

#include "engine/cpu/cpu_extend.h"
#include "engine/walk.h"

/* Anchors of a window. */
#define HSPZ_WINDOW_ANCHORS (UINT64_C(1) << 16)

struct hspz_window {
    uint64_t *anchors;
    struct hspz_cpu_extender *extender;
    enum hspz_strand strand; /* the extender's */
    size_t block;
};

/* HSPZ_E_BAD_REQUEST when the job wants HSPs and the index was made without bases. */
HSPZ_MUST_USE enum hspz_status hspz_window_check(const struct hspz_index *index,
                                                 const struct hspz_job_spec *spec,
                                                 struct hspz_error *err);

/* Room for the anchors. */
HSPZ_MUST_USE enum hspz_status hspz_window_reserve(struct hspz_window *window,
                                                   struct hspz_error *err);
/* Extends the first `count` of them, of the walk's strand and block; *extended as hspz_cpu_extend.
 */
HSPZ_MUST_USE enum hspz_status
hspz_window_extend(struct hspz_window *window, const struct hspz_walk *walk,
                   const struct hspz_index *index, struct hspz_pool *pool, uint64_t count,
                   struct hspz_hsp_set *set, uint64_t *extended, struct hspz_error *err);
void hspz_window_release(struct hspz_window *window);

/* Memory that it holds, and the most it may for this walk and so many threads: 0 when that wants no
 * HSPs. */
void hspz_window_bytes(const struct hspz_window *window, const struct hspz_walk *walk,
                       unsigned threads, uint64_t *now, uint64_t *most);
