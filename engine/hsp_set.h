/* HSPs of one reference block and strand, on their way from extensions to output.
 *
 *   add      in any order, equal ones as often as they come
 *   fold     drops equal ones; add does it by itself when room runs out
 *   settle   de-duplicates by the scope's rule and brings into final order
 *
 * Rules: on a diagonal (ref - query as u32), by ref start, length, score descending: an HSP is
 * dropped that is equal to, contained in, or contains, in HSPZ_SCOPE_CHUNK the one before it in
 * that order (whether that was dropped or not); in HSPZ_SCOPE_JOB the last one kept, so that no two
 * of what remains are nested. (Of those with one start the shortest is best: what is longer only by
 * more of a seed, with its mismatch, scores less.) Final order: query start, ref start, length,
 * score descending. When an HSP was folded changes no result.
 *
 * Owns:    the HSPs; at most the larger of 64 KiB and 2 * limit of them. Sorting takes no memory.
 * Threads: one at a time; the pool's inside a call.
 * Errors:  HSPZ_E_OUT_OF_MEMORY; HSPZ_E_TOO_LARGE when more than `limit` remain after a fold. The
 *          set then is still sound, of part of what was added. */
#pragma once

#include "engine/cpu/pool.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stddef.h>
#include <stdint.h>

struct hspz_hsp_set {
    enum hspz_hsp_scope scope;
    uint64_t limit;
    struct hspz_hsp *hsps;
    size_t count, capacity;
    struct hspz_pool *pool; /* whose threads help to sort; NULL, as after init: none do */
};

void hspz_hsp_set_init(struct hspz_hsp_set *set, enum hspz_hsp_scope scope, uint64_t limit);
void hspz_hsp_set_fini(struct hspz_hsp_set *set); /* leaves an empty one, without memory */

HSPZ_MUST_USE enum hspz_status hspz_hsp_set_add(struct hspz_hsp_set *set,
                                                const struct hspz_hsp *hsps, size_t count,
                                                struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_hsp_set_fold(struct hspz_hsp_set *set, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_hsp_set_settle(struct hspz_hsp_set *set,
                                                   struct hspz_error *err);
void hspz_hsp_set_clear(struct hspz_hsp_set *set); /* keeps the memory */
uint64_t hspz_hsp_set_bytes(const struct hspz_hsp_set *set);
