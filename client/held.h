/* Records that came and wait for their turn: up to a number of bytes in memory, what is more in a
 * file without a name under $TMPDIR or /tmp.
 *
 * Owns:    the records, the file.
 * Threads: any, but one at a time for each list.
 * Errors:  HSPZ_E_OUT_OF_MEMORY, HSPZ_E_IO naming the folder of the file. */
#pragma once

#include "client/hspz.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_held;

struct hspz_held_part {
    struct hspz_held_part *next;
    struct hspz_part_view view; /* without its records */
    size_t len;                 /* bytes of records */
    uint8_t *bytes;             /* NULL: in the file, */
    uint64_t offset;            /* there */
};

/* Zeroed at first. */
struct hspz_held_list {
    struct hspz_held_part *first, *last;
    uint64_t bytes;
};

/* `folder`: for the file, which is not made before it is needed; borrowed. */
HSPZ_MUST_USE enum hspz_status hspz_held_create(const char *folder, uint64_t memory_bytes,
                                                struct hspz_held **out, struct hspz_error *err);
void hspz_held_destroy(struct hspz_held **held); /* its lists are dropped before */

/* Copies a part of `len` bytes to the list's end. */
HSPZ_MUST_USE enum hspz_status hspz_held_add(struct hspz_held *held, struct hspz_held_list *list,
                                             const struct hspz_part_view *part, size_t len,
                                             struct hspz_error *err);
/* The part as it was, valid until it is dropped; out of the file by way of `buffer`, of at least
 * part->len bytes. */
HSPZ_MUST_USE enum hspz_status hspz_held_get(struct hspz_held *held,
                                             const struct hspz_held_part *part, uint8_t *buffer,
                                             struct hspz_part_view *view, struct hspz_error *err);
void hspz_held_drop_first(struct hspz_held *held, struct hspz_held_list *list);
void hspz_held_drop(struct hspz_held *held, struct hspz_held_list *list);
/* Of all lists, in memory and in the file. */
uint64_t hspz_held_bytes(struct hspz_held *held);
