/* HSPs as lines of text, in sequence coordinates.
 *
 *   segments  LASTZ's --segments, as KegAlign writes it: ref, start, end, query, start, end,
 * strand, score; 1-based, both ends in; a minus HSP counts on its reverse-complemented query tsv
 * the same columns, 0-based, half-open, both on plus strands, with a header line jsonl     the same
 * as keys paf       query first, lengths, cg:Z; the tenth column (matches) is the eleventh (bases
 *             covered): which bases match is not known here
 *
 * Threads: read-only; any number may format at the same time.
 * Errors:  HSPZ_E_BAD_PEER: an HSP that is not inside one sequence on either side, with its
 * numbers.
 */
#pragma once

#include "client/places.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hspz_hsp_format {
    HSPZ_HSP_SEGMENTS,
    HSPZ_HSP_TSV,
    HSPZ_HSP_JSONL,
    HSPZ_HSP_PAF,
    HSPZ_HSP_PACKED, /* as they come on the wire: not text */
};

#define HSPZ_HSP_TSV_HEADER                                                                        \
    "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand\tscore\n"

/* Bases on both sides, to count matches. */
struct hspz_hsp_bases {
    const uint8_t *const *refs; /* of each place */
    const uint8_t *query;       /* of the block, plus strand */
};

/* Which HSPs: all of one strand and reference block. */
struct hspz_hsp_rows {
    enum hspz_hsp_format format;
    const struct hspz_places *refs;
    const struct hspz_places
        *queries;       /* of block 0, in plus coordinates; JSON as format wants it */
    uint64_t query_len; /* of that block */
    enum hspz_strand strand;
    uint32_t ref_block;
    const struct hspz_hsp_bases *bases; /* of PAF; NULL: not known */
};

/* Most bytes of a line. */
size_t hspz_hsp_rows_line_most(const struct hspz_hsp_rows *rows);

/* Lines of `count` HSPs at `to`, which has room for as many longest ones. *len is written on
 * success. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_rows_put(const struct hspz_hsp_rows *rows,
                                                 const struct hspz_hsp *hsps, size_t count,
                                                 char *to, size_t *len, struct hspz_error *err);

/* The query sequence of an HSP, and the first base's place in it, on its strand or (`plus`) on the
 * plus strand. NULL when it is not inside one sequence. */
const struct hspz_place *hspz_hsp_rows_query(const struct hspz_hsp_rows *rows,
                                             const struct hspz_hsp *hsp, bool plus, size_t *hint,
                                             uint64_t *begin);
