/* How many HSPs of a genome with itself lie on each base, and what that masks: the rule of
 * SegAlign's repeat masker, with whole counts.
 *
 * Bases are numbered through all sequences, one separator between two. An HSP counts once on each
 * base of its query side, on the plus strand whatever its own. Of each two places that align, one
 * is the query's once and the other the next time, so both are counted. Not counted are the HSPs of
 * a base with itself (plus strand, both sides the same), and those between places too far apart:
 *
 * with n intervals of `interval` bases, a query interval has k = ceil(neighbors * n) intervals
 * around itself, ceil((k - 1) / 2) of them before it; at an end of the genome the same number,
 * shifted. An HSP counts when its reference side begins in one of those of the interval where its
 * query side begins.
 *
 * Owns:    4 bytes for each base.
 * Threads: one caller.
 * Errors:  HSPZ_E_OUT_OF_MEMORY; HSPZ_E_BAD_PEER: an HSP out of range. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_self_cover {
    uint64_t bases, interval;
    uint64_t before, around; /* intervals: before its own; in all */
    uint32_t *steps;         /* by how much the count goes up at each base, modulo 2^32 */
    uint64_t counted, trivial, far;
    bool summed; /* steps are counts by now */
};

/* `neighbors` above 0, up to 1. */
HSPZ_MUST_USE enum hspz_status hspz_self_cover_init(struct hspz_self_cover *cover, uint64_t bases,
                                                    uint64_t interval, double neighbors,
                                                    struct hspz_error *err);
void hspz_self_cover_fini(struct hspz_self_cover *cover);

/* An HSP's sides by the numbers of their first bases; the query's on the plus strand. */
HSPZ_MUST_USE enum hspz_status hspz_self_cover_add(struct hspz_self_cover *cover, uint64_t ref,
                                                   uint64_t query, uint32_t len, bool minus,
                                                   struct hspz_error *err);
/* Counts once on `len` bases, whatever they align with. */
HSPZ_MUST_USE enum hspz_status hspz_self_cover_mark(struct hspz_self_cover *cover, uint64_t begin,
                                                    uint32_t len, struct hspz_error *err);
/* The first run of bases with `least` HSPs or more at or after *at and before `end`: *at becomes
 * its begin, *run_end its end; false when there is none. After the last HSP was added. */
bool hspz_self_cover_next(struct hspz_self_cover *cover, uint64_t *at, uint64_t end, uint32_t least,
                          uint64_t *run_end);
