/* All HSPs of a query block, to be written query sequence by query sequence: plus before minus,
 * ascending on the plus strand, as LASTZ wants them in one file.
 *
 * Owns:    the HSPs.
 * Errors:  HSPZ_E_OUT_OF_MEMORY, HSPZ_E_BAD_PEER (an HSP outside every sequence), HSPZ_E_IO. */
#pragma once

#include "client/segments.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stddef.h>

struct hspz_hsp_list {
    struct hspz_hsp *hsps;
    size_t count, capacity;
    size_t at; /* while they are written */
};

struct hspz_hsp_store {
    struct hspz_hsp_list *lists; /* by reference block and strand */
    size_t ref_blocks;
};

HSPZ_MUST_USE enum hspz_status hspz_hsp_store_init(struct hspz_hsp_store *store, size_t ref_blocks,
                                                   struct hspz_error *err);
void hspz_hsp_store_fini(struct hspz_hsp_store *store);
void hspz_hsp_store_clear(struct hspz_hsp_store *store); /* keeps the memory */

/* In block coordinates, in any order. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_store_add(struct hspz_hsp_store *store,
                                                  const struct hspz_part_id *id,
                                                  const struct hspz_hsp *hsps, size_t count,
                                                  struct hspz_error *err);

/* All of them into one file. `rows` without strand and reference block. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_store_write(struct hspz_hsp_store *store,
                                                    struct hspz_segments *segments,
                                                    struct hspz_segments_file *file,
                                                    const struct hspz_hsp_rows *rows,
                                                    struct hspz_error *err);
/* Each pair of sequences into a file of its own, REF=QUERY.segments.gz, where bytes of names that
 * have no place in a file's name stand as %XX, and names too long as numbers (%r12=%q3). */
HSPZ_MUST_USE enum hspz_status hspz_hsp_store_write_pairs(struct hspz_hsp_store *store,
                                                          struct hspz_segments *segments,
                                                          const struct hspz_hsp_rows *rows,
                                                          size_t first_query,
                                                          struct hspz_error *err);
