/* Tells most chance hits without extending them exactly.
 *
 * Bases are looked up by threes: what they add, and how high the sum comes on the way. The drop is
 * looked for after every eight, so a side may run on past it, and comes to no less than it should:
 * both sides together are an upper bound of a hit's total. What stays below the threshold fails;
 * the rest is for the plain extension to decide.
 *
 * Owns:    nothing; sequences and scoring are borrowed.
 * Threads: immutable once made. */
#pragma once

#include "engine/extend.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_gate {
    struct hspz_extend_seq ref, query;
    const struct hspz_scoring *scoring;
    uint64_t ref_fold, query_fold; /* take eight lower-case letters to upper case, or nothing */
    int32_t xdrop, enough;
    bool open; /* such scores have no gate: nothing is rejected */
    /* Of three and of two pairs by their codes: the sum in the low half, the highest of the sums on
     * the way, or 0, in the high one. A pair has 4 bits, the first the lowest: the reference's code
     * above the query's. */
    uint32_t threes[4096], twos[256];
};

struct hspz_gate_spec {
    struct hspz_extend_seq ref, query;
    bool ref_unmask, query_unmask;
    const struct hspz_scoring *scoring;
};

void hspz_gate_init(struct hspz_gate *gate, const struct hspz_gate_spec *spec);

/* True: (r, q) does not pass. *work grows by the bases looked at. */
bool hspz_gate_rejects(const struct hspz_gate *gate, uint32_t r, uint32_t q, uint64_t *work);
