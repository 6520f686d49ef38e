/* Extends anchors of one query strand in one block, and remembers by diagonal what it found: many
 * anchors come to one HSP.
 *
 * Let F(x) be the sum of scores of a diagonal's bases before x. The right side of an anchor a ends
 * at the first place e >= a where F is highest before it has dropped; its left side begins at the
 * last place b <= a where F is lowest before it has, towards the left, risen. For anchors a < c:
 *
 *   right   If e(a) >= c, then e(c) = e(a). The highest F so far is no higher for c than for a, so
 *           c does not stop before e(a); from there on, where both have just set their highest,
 *           both go on alike.
 *   left    If c, on its way to the left, comes to a without a stop, and F(a) is below all F before
 *           it on that way, then b(c) = b(a): from there on both go on alike.
 *
 * If both hold, both anchors come to the same bases, and so to the same score. The right side alone
 * is worth having too: best right of c = best right of a - (F(c) - F(a)).
 *
 * Owns:    HSPZ_DIAGONALS entries or more, one for all diagonals that are equal modulo their
 * number: the last HSP found on one of them, and which of the last 64 places before its last anchor
 * are anchors of it. Where more diagonals are visited in turn, as in repeats, so that what is
 * forgotten is found again and again, there are more entries after the next hspz_diagonals_grow.
 * Results depend on none of this. Threads: one at a time. Errors:  HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "engine/cpu/gate.h"
#include "engine/extend.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

#define HSPZ_DIAGONALS_BITS 15u
#define HSPZ_DIAGONALS (1u << HSPZ_DIAGONALS_BITS)

struct hspz_diagonals;

struct hspz_diagonals_spec {
    struct hspz_extend_seq ref, query;
    const struct hspz_scoring *scoring;
    const struct hspz_gate *gate; /* NULL: none */
    uint64_t call;                /* 1 or more, and never less than before */
};

/* With HSPZ_DIAGONALS entries, and never more than `limit`. */
HSPZ_MUST_USE enum hspz_status hspz_diagonals_create(uint32_t limit, struct hspz_diagonals **out);
void hspz_diagonals_destroy(struct hspz_diagonals **diagonals);

/* Twice as many entries when it was worth it since the last call, and when there is memory. */
void hspz_diagonals_grow(struct hspz_diagonals *diagonals);

/* Memory of a new one; of this one; and the most while it grows next. */
uint64_t hspz_diagonals_least_bytes(void);
uint64_t hspz_diagonals_bytes(const struct hspz_diagonals *diagonals);
uint64_t hspz_diagonals_most_bytes(const struct hspz_diagonals *diagonals);

/* Extends (r, q) of always the same sequences with the same scoring. True with the HSP when it
 * passes, unless it was given in this call already. *work grows by the bases looked at. */
bool hspz_diagonals_extend(struct hspz_diagonals *diagonals, const struct hspz_diagonals_spec *spec,
                           uint32_t r, uint32_t q, struct hspz_hsp *out, uint64_t *work);
