/* Sequences of a reference or a query by their place, to turn positions in a block into sequence
 * coordinates.
 *
 * Owns:    a copy of the names, in the form they are printed in (as they are, or escaped for JSON).
 * Threads: read-only once filled; `hint` is the caller's.
 * Units:   bases, 0-based, half-open. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_place {
    uint64_t begin, end; /* in the block */
    size_t text;         /* where its printed name begins */
    uint32_t text_len;
    uint32_t block;
};

struct hspz_places {
    bool json;
    struct hspz_place *items;
    size_t count, capacity;
    char *text;
    size_t text_len, text_capacity;
    uint32_t longest; /* printed name */
};

void hspz_places_init(struct hspz_places *places, bool json);
void hspz_places_fini(struct hspz_places *places);
/* In order of block and offset (HSPZ_E_BAD_REQUEST otherwise); HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_places_add(struct hspz_places *places, const char *name,
                                               size_t name_len, uint64_t len, uint64_t block,
                                               uint64_t offset);
/* The sequence that holds begin .. end of a block, NULL when none does. Looks at *hint first (start
 * it at 0), and leaves its find there. */
const struct hspz_place *hspz_places_find(const struct hspz_places *places, uint32_t block,
                                          uint64_t begin, uint64_t end, size_t *hint);
