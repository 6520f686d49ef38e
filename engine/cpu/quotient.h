/* Slots of a quotient filter: what the counting, the standard and the rank-and-select kind share on
 * the CPU.
 *
 * A fingerprint's high bits, the quotient, say which slot it would like; the remainder, with the
 * value below it, is what the slot holds. Remainders of one quotient are a run, ascending; a run
 * begins at its quotient or where the run before it ends. occupied[q] says that quotient q has a
 * run, runend[s] that one ends in slot s. So the slots depend only on the entries.
 *
 * A symbol x that is there c times is written (after Pandey et al. 2017), with d the digits of c -
 * 3 in base 2^slot_bits - 1, highest first, skipping over the symbol x itself:
 *
 *     c = 1   x          x = 0:  0
 *     c = 2   x x                0 0
 *     c > 2   x d x              0 0 0 d 0
 *
 * where for x > 0 a first digit that is not below x gets a zero before it: a symbol below x behind
 * x can only be a digit. */
#pragma once

#include "engine/filter.h"

struct hspz_quotient {
    const struct hspz_filter_plan *plan;
    uint64_t slots; /* with the spare ones */
    uint8_t *symbols;
    uint64_t *occupied, *runend;
    uint32_t *offset; /* a 64-slot block: slots of it that runs of earlier blocks' quotients take;
                         from its first slot on, may be more than 64 */
    uint64_t used, entries, total;
};

/* Empty; symbols NULL when there is no memory. */
void hspz_quotient_init(struct hspz_quotient *q, const struct hspz_filter_plan *plan);
void hspz_quotient_fini(struct hspz_quotient *q);
uint64_t hspz_quotient_symbol_bytes(const struct hspz_quotient *q);
uint64_t hspz_quotient_mark_bytes(const struct hspz_quotient *q);

/* Reads entries in order of fingerprint, then value. */
struct hspz_quotient_reader {
    const struct hspz_quotient *q;
    uint64_t quotient; /* of the run under way, or the next to look at */
    uint64_t at, end;  /* slots of the run still to read */
};
void hspz_quotient_read_begin(struct hspz_quotient_reader *r, const struct hspz_quotient *q);
/* From the run of a quotient on, when that has one; false else. */
bool hspz_quotient_read_run(struct hspz_quotient_reader *r, const struct hspz_quotient *q,
                            uint64_t quotient);
/* False when there is none left. */
bool hspz_quotient_read(struct hspz_quotient_reader *r, struct hspz_filter_entry *out);

/* Writes entries, in that order, into an empty one. */
struct hspz_quotient_writer {
    struct hspz_quotient *q;
    uint64_t at;       /* the next slot that is free */
    uint64_t quotient; /* of the run under way; UINT64_MAX: none */
};
void hspz_quotient_write_begin(struct hspz_quotient_writer *w, struct hspz_quotient *q);
/* False when the slots are at their end. */
bool hspz_quotient_write(struct hspz_quotient_writer *w, const struct hspz_filter_entry *entry);
void hspz_quotient_write_end(struct hspz_quotient_writer *w);

/* After symbols and marks were filled from elsewhere: checks that they are what their entries ask
 * for (HSPZ_E_BAD_FILE), and makes the rest. */
HSPZ_MUST_USE enum hspz_status hspz_quotient_adopt(struct hspz_quotient *q,
                                                   const struct hspz_filter_stop *stop,
                                                   struct hspz_error *err);
