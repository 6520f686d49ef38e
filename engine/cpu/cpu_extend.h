/* X-drop extension of anchors by the threads of a lane: HSPs of one reference block and one strand
 * of a query into a set. The result is that of engine/extend.h for every anchor, for any number of
 * threads and however the anchors are cut into calls.
 *
 * Scope:   after a call the set has, once or more, the HSP of every anchor extended by it that
 *          passes. With HSPZ_SCOPE_CHUNK that is so whatever calls before it found: a call gets
 *          anchors of one chunk, and a chunk its own settle. With HSPZ_SCOPE_JOB all calls of an
 *          extender are given one set, which nobody empties before the last.
 * Cost:    making an extender costs nothing that grows with the sequences: a job makes one for each
 *          batch and block. A call ends after about HSPZ_EXTEND_WORK bases looked at for each
 *          thread, and then what the anchor under way takes: at most what the two sequences hold,
 *          a second for 500 million bases.
 * Owns:    what it keeps to be fast; it may be destroyed and made again between any two calls, and
 *          results do not change. The sequences and the scoring are borrowed.
 * Threads: one caller; the pool's threads inside a call.
 * Errors:  HSPZ_E_OUT_OF_MEMORY, and what hspz_hsp_set_add says. */
#pragma once

#include "engine/cpu/pool.h"
#include "engine/hsp_set.h"
#include "protocol/types.h"

#include <stdbool.h>

#define HSPZ_EXTEND_WORK (UINT64_C(1) << 26)

struct hspz_cpu_extender;

struct hspz_cpu_extend_spec {
    struct hspz_span ref;    /* the block, with separators */
    bool ref_unmask;         /* its lower case is scored as upper case */
    struct hspz_span query;  /* all of it, plus strand */
    enum hspz_strand strand; /* that anchors count on */
    bool query_unmask;
    const struct hspz_scoring *scoring;
};

HSPZ_MUST_USE enum hspz_status hspz_cpu_extender_create(const struct hspz_cpu_extend_spec *spec,
                                                        struct hspz_cpu_extender **out,
                                                        struct hspz_error *err);
void hspz_cpu_extender_destroy(struct hspz_cpu_extender **extender);

/* Memory that an extender holds now, and the most it may come to hold in a call with a pool of so
 * many threads; NULL: a new one. */
uint64_t hspz_cpu_extender_bytes(const struct hspz_cpu_extender *extender);
uint64_t hspz_cpu_extender_most_bytes(const struct hspz_cpu_extender *extender, unsigned threads);

/* Extends anchors[0 .. *extended), 1 or more unless there are none, and adds the HSPs. */
HSPZ_MUST_USE enum hspz_status hspz_cpu_extend(struct hspz_cpu_extender *extender,
                                               struct hspz_pool *pool, const uint64_t *anchors,
                                               size_t count, struct hspz_hsp_set *set,
                                               size_t *extended, struct hspz_error *err);
