/* Names by number: each different name once, numbered from 0 in the order of first appearance.
 *
 * Owns:    copies of the names, terminated; they hold no NUL.
 * Threads: read-only once filled.
 * Errors:  HSPZ_E_OUT_OF_MEMORY, nothing added. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_names {
    size_t *at; /* of each name in `text` */
    size_t count, capacity;
    char *text;
    size_t text_len, text_capacity;
    uint32_t *slots; /* number + 1, 0 when free; a power of two of them */
    size_t slot_count;
};

void hspz_names_init(struct hspz_names *names);
void hspz_names_fini(struct hspz_names *names);

/* The number of a name, which is added when it is new. */
HSPZ_MUST_USE enum hspz_status hspz_names_add(struct hspz_names *names, const char *name,
                                              size_t len, uint32_t *number);
/* False when it is not there. */
bool hspz_names_find(const struct hspz_names *names, const char *name, size_t len,
                     uint32_t *number);
const char *hspz_names_get(const struct hspz_names *names, uint32_t number);
