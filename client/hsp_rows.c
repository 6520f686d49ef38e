#include "client/hsp_rows.h"

#include "client/rows.h"
#include "engine/alphabet.h"

#include <inttypes.h>
#include <string.h>

/* Everything of a line but the names. */
#define LINE_EXTRA_BYTES 256u

size_t
hspz_hsp_rows_line_most(const struct hspz_hsp_rows *rows)
{
    return (size_t)rows->refs->longest + rows->queries->longest + LINE_EXTRA_BYTES;
}

const struct hspz_place *
hspz_hsp_rows_query(const struct hspz_hsp_rows *rows, const struct hspz_hsp *hsp, bool plus,
                    size_t *hint, uint64_t *begin)
{
    const uint64_t end = (uint64_t)hsp->query_start + hsp->length;
    if (end > rows->query_len) {
        return NULL;
    }
    const bool minus = rows->strand == HSPZ_STRAND_MINUS;
    const uint64_t at = minus ? rows->query_len - end : hsp->query_start;
    const struct hspz_place *place = hspz_places_find(rows->queries, 0, at, at + hsp->length, hint);
    if (place != NULL) {
        *begin = minus && !plus ? place->end - at - hsp->length : at - place->begin;
    }
    return place;
}

static char *
put(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

#define PUT(to, literal) put(to, literal, sizeof(literal) - 1)

static char *
put_tab(char *to, uint64_t value)
{
    *to++ = '\t';
    return hspz_rows_number(to, value);
}

static char *
put_score(char *to, int32_t score)
{
    if (score < 0) {
        *to++ = '-';
    }
    return hspz_rows_number(to, score < 0 ? (uint64_t) - (int64_t)score : (uint64_t)score);
}

/* One HSP in the coordinates of its sequences: 0-based, half-open. */
struct line {
    const char *ref, *query;
    size_t ref_len, query_len; /* of the names */
    uint64_t ref_bases, query_bases;
    uint64_t ref_begin, query_begin;
    uint64_t length, matches;
    int32_t score;
    char strand;
    bool counted; /* matches are known */
};

static char *
put_columns(char *to, const struct line *line, uint64_t first)
{
    to = put(to, line->ref, line->ref_len);
    to = put_tab(to, line->ref_begin + first);
    to = put_tab(to, line->ref_begin + line->length);
    *to++ = '\t';
    to = put(to, line->query, line->query_len);
    to = put_tab(to, line->query_begin + first);
    to = put_tab(to, line->query_begin + line->length);
    *to++ = '\t';
    *to++ = line->strand;
    *to++ = '\t';
    to = put_score(to, line->score);
    *to++ = '\n';
    return to;
}

static char *
put_json(char *to, const struct line *line)
{
    to = PUT(to, "{\"ref\":\"");
    to = put(to, line->ref, line->ref_len);
    to = PUT(to, "\",\"ref_start\":");
    to = hspz_rows_number(to, line->ref_begin);
    to = PUT(to, ",\"ref_end\":");
    to = hspz_rows_number(to, line->ref_begin + line->length);
    to = PUT(to, ",\"query\":\"");
    to = put(to, line->query, line->query_len);
    to = PUT(to, "\",\"query_start\":");
    to = hspz_rows_number(to, line->query_begin);
    to = PUT(to, ",\"query_end\":");
    to = hspz_rows_number(to, line->query_begin + line->length);
    to = PUT(to, ",\"strand\":\"");
    *to++ = line->strand;
    to = PUT(to, "\",\"score\":");
    to = put_score(to, line->score);
    return PUT(to, "}\n");
}

static char *
put_paf(char *to, const struct line *line)
{
    to = put(to, line->query, line->query_len);
    to = put_tab(to, line->query_bases);
    to = put_tab(to, line->query_begin);
    to = put_tab(to, line->query_begin + line->length);
    *to++ = '\t';
    *to++ = line->strand;
    *to++ = '\t';
    to = put(to, line->ref, line->ref_len);
    to = put_tab(to, line->ref_bases);
    to = put_tab(to, line->ref_begin);
    to = put_tab(to, line->ref_begin + line->length);
    to = put_tab(to, line->matches);
    to = put_tab(to, line->length);
    to = PUT(to, "\t255\tAS:i:");
    to = put_score(to, line->score);
    if (line->counted) {
        to = PUT(to, "\tNM:i:");
        to = hspz_rows_number(to, line->length - line->matches);
    }
    to = PUT(to, "\tcg:Z:");
    to = hspz_rows_number(to, line->length);
    return PUT(to, "M\n");
}

static char *
put_line(char *to, enum hspz_hsp_format format, const struct line *line)
{
    switch (format) {
    case HSPZ_HSP_SEGMENTS:
        return put_columns(to, line, 1);
    case HSPZ_HSP_TSV:
        return put_columns(to, line, 0);
    case HSPZ_HSP_JSONL:
        return put_json(to, line);
    case HSPZ_HSP_PAF:
        return put_paf(to, line);
    case HSPZ_HSP_PACKED:
        break;
    }
    HSPZ_REQUIRE(false);
    return to;
}

/* Bases of an HSP that are the same ACGT on both sides. `query` is where it begins on the plus
 * strand, in the block. */
static uint64_t
count_matches(const struct hspz_hsp_bases *bases, size_t ref_place, uint64_t ref_begin,
              uint64_t query, uint64_t length, bool minus)
{
    const uint8_t *codes = hspz_base_codes(true);
    const uint8_t *r = bases->refs[ref_place] + ref_begin, *q = bases->query + query;
    uint64_t matches = 0;
    for (uint64_t i = 0; i < length; i++) {
        const unsigned a = codes[r[i]], b = codes[q[minus ? length - 1 - i : i]];
        matches += a < HSPZ_BASE_INVALID && b < HSPZ_BASE_INVALID && a == (minus ? 3u - b : b);
    }
    return matches;
}

static enum hspz_status
bad_hsp(const struct hspz_hsp_rows *rows, const struct hspz_hsp *hsp, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_PEER,
                          "an HSP is not inside one sequence: ref_block %" PRIu32
                          ", %s strand, reference %" PRIu32 ", query %" PRIu32 ", length %" PRIu32,
                          rows->ref_block, rows->strand == HSPZ_STRAND_PLUS ? "plus" : "minus",
                          hsp->ref_start, hsp->query_start, hsp->length);
}

enum hspz_status
hspz_hsp_rows_put(const struct hspz_hsp_rows *rows, const struct hspz_hsp *hsps, size_t count,
                  char *to, size_t *len, struct hspz_error *err)
{
    const bool plus = rows->format != HSPZ_HSP_SEGMENTS;
    size_t ref_hint = 0, query_hint = 0;
    char *at = to;
    for (size_t i = 0; i < count; i++) {
        const struct hspz_hsp *hsp = &hsps[i];
        const uint64_t ref_end = (uint64_t)hsp->ref_start + hsp->length;
        uint64_t query_begin = 0;
        const struct hspz_place *ref =
            hspz_places_find(rows->refs, rows->ref_block, hsp->ref_start, ref_end, &ref_hint);
        const struct hspz_place *query =
            hspz_hsp_rows_query(rows, hsp, plus, &query_hint, &query_begin);
        if (ref == NULL || query == NULL || hsp->length == 0) {
            return bad_hsp(rows, hsp, err);
        }
        struct line line = {
            .ref = rows->refs->text + ref->text,
            .ref_len = ref->text_len,
            .ref_bases = ref->end - ref->begin,
            .ref_begin = hsp->ref_start - ref->begin,
            .query = rows->queries->text + query->text,
            .query_len = query->text_len,
            .query_bases = query->end - query->begin,
            .query_begin = query_begin,
            .length = hsp->length,
            .matches = hsp->length,
            .score = hsp->score,
            .strand = rows->strand == HSPZ_STRAND_PLUS ? '+' : '-',
            .counted = rows->bases != NULL,
        };
        if (line.counted) {
            line.matches = count_matches(rows->bases, (size_t)(ref - rows->refs->items),
                                         line.ref_begin, query->begin + query_begin, hsp->length,
                                         rows->strand == HSPZ_STRAND_MINUS);
        }
        at = put_line(at, rows->format, &line);
    }
    *len = (size_t)(at - to);
    return HSPZ_OK;
}
