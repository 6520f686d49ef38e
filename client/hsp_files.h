/* The HSPs of a query block on their way into KegAlign's files: one for each interval, reference
 * block and strand that has any.
 *
 *   begin    a query block
 *   take     HSPs of a part, as it comes
 *   end      after the last part: the files are whole (hspz_segments_commit may follow)
 *
 * A job with intervals says which interval a part is of; else that follows from the query start of
 * each HSP. The minus list is reversed, so that it ascends on the plus strand.
 *
 * Owns:   what waits to be reversed: HSPs of one interval and strand. `refs`, `queries`, the plans
 *         and `segments` are borrowed until end.
 * Errors: of segments.h; HSPZ_E_BAD_PEER: a part of an interval or block that is not in the plan.
 */
#pragma once

#include "client/file_plan.h"
#include "client/segments.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_hsp_file; /* in hsp_files.c */

struct hspz_hsp_files {
    struct hspz_segments *segments;
    const struct hspz_file_plan *refs;
    const struct hspz_places *ref_places;
    const struct hspz_places *query_places; /* of the block */
    uint32_t span;
    uint64_t interval;  /* of the plan */
    bool job_intervals; /* parts name their interval */
    /* Of the block: */
    size_t query_block;
    uint64_t query_bases;
    uint64_t intervals;
    struct hspz_hsp_file **files; /* by interval, reference block, strand; NULL: nothing yet */
    size_t file_count;
    struct hspz_hsp_file *pending; /* those with HSPs that wait to be reversed */
    struct hspz_part_id last;      /* of the last part */
};

HSPZ_MUST_USE enum hspz_status hspz_hsp_files_begin(struct hspz_hsp_files *files,
                                                    size_t query_block, uint64_t query_bases,
                                                    struct hspz_error *err);
/* In coordinates of the query block on its strand. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_files_take(struct hspz_hsp_files *files,
                                                   const struct hspz_part_id *id,
                                                   const struct hspz_hsp *hsps, size_t count,
                                                   struct hspz_error *err);
/* Also between the pieces of a block. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_files_flush(struct hspz_hsp_files *files,
                                                    struct hspz_error *err);
/* Whether a file has anything. `interval` from 1. */
bool hspz_hsp_files_has(const struct hspz_hsp_files *files, uint64_t interval, size_t ref_block,
                        enum hspz_strand strand);
/* Forgets the block. */
void hspz_hsp_files_end(struct hspz_hsp_files *files);

/* Removes from a folder the files that an earlier run wrote, with the parts that they were cut
 * into, whatever it was asked. *count: how many. HSPZ_E_IO naming the one that stays. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_files_remove_old(const char *folder, size_t *count,
                                                         struct hspz_error *err);
