/* Anchors as lines of text: TSV or JSON lines, in sequence coordinates.
 *
 * TSV columns: ref, ref_start, ref_end, query, query_start, query_end, strand: the seed window,
 * 0-based, half-open, query coordinates on its plus strand whatever the strand. JSON lines hold the
 * same as keys.
 *
 * Owns:   its scratch; places and output are borrowed.
 * Errors: HSPZ_E_BAD_PEER (an anchor outside every sequence, with its numbers), HSPZ_E_IO (the
 * output failed; it knows why), HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/output.h"
#include "client/places.h"
#include "protocol/status.h"
#include "protocol/types.h"

enum hspz_format {
    HSPZ_FORMAT_TSV,
    HSPZ_FORMAT_JSONL,
    HSPZ_FORMAT_PACKED,
    HSPZ_FORMAT_COLUMNS /* of anchors only */
};

#define HSPZ_TSV_HEADER "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand\n"

struct hspz_rows {
    enum hspz_format format; /* TSV or JSONL */
    const struct hspz_places *refs;
    const struct hspz_places *queries; /* NULL: none known, the query is "*" */
    uint64_t query_len;                /* of the block, to turn minus into plus coordinates */
    uint32_t span;
    struct hspz_output *output;
};

HSPZ_MUST_USE enum hspz_status hspz_rows_write(const struct hspz_rows *rows,
                                               const struct hspz_part_id *id,
                                               const uint8_t *anchors, size_t count,
                                               struct hspz_error *err);

/* Decimal digits of a number; returns the place after them. */
char *hspz_rows_number(char *to, uint64_t value);
