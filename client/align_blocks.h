/* What LASTZ printed: where each alignment stands in which file, and what it aligns. Sequences are
 * named there as client/align_input.h says; printing gives them their own names.
 *
 * Formats: MAF ("maf-"), AXT ("axt") and PAF ("paf", with cg:Z).
 * Errors:  HSPZ_E_BAD_FILE names file and line; HSPZ_E_IO; HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/align_input.h"
#include "client/hsp_cells.h"
#include "client/output.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum hspz_align_format { HSPZ_ALIGN_MAF, HSPZ_ALIGN_AXT, HSPZ_ALIGN_PAF };

struct hspz_alignment {
    uint64_t offset, len; /* its text in the file of the piece */
    uint64_t target_start, target_end, query_start, query_end; /* 0-based, half-open, on strands */
    uint32_t target, query;                                    /* places in the sides */
    uint32_t piece;
    uint32_t cell; /* one of those it occupies */
    bool minus;
};

struct hspz_alignments {
    struct hspz_alignment *items;
    size_t count, capacity;
};

struct hspz_align_reading {
    enum hspz_align_format format;
    const struct hspz_align_side *target, *query;
    struct hspz_cells *cells;
    const char *path; /* for messages */
    uint32_t piece;
};

/* Adds the alignments of a file and occupies their cells. */
HSPZ_MUST_USE enum hspz_status hspz_alignments_read(const struct hspz_align_reading *reading,
                                                    FILE *file, size_t name_count,
                                                    struct hspz_alignments *list,
                                                    struct hspz_error *err);
/* By target and place on it, then query, strand and place. Of those that cover the same bases on
 * both sides, which LASTZ adds to every piece when two sequences are identical, one is kept. */
void hspz_alignments_sort(struct hspz_alignments *list);
void hspz_alignments_fini(struct hspz_alignments *list);

/* Whether LASTZ reached its end: its mark is the last line of the file. */
bool hspz_alignments_whole(int fd);

/* Writes an alignment from its text as it stands in the file; `number` is for AXT. */
HSPZ_MUST_USE enum hspz_status hspz_alignment_print(enum hspz_align_format format, const char *text,
                                                    size_t len, const char *target,
                                                    const char *query, uint64_t number,
                                                    struct hspz_output *output,
                                                    struct hspz_error *err);
