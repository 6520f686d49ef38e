#include "client/rows.h"

#include "client/hspz.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Everything of a line but the names: keys, numbers, line end, and STEP_BYTES to spare. */
#define LINE_EXTRA_BYTES 192u
/* What a line is made of is copied in steps of so many bytes: past the end, where there is room. */
#define STEP_BYTES 16u

static const char pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343"
    "53637383940414243444546474849505152535455565758596061626364656667686970"
    "71727374757677787980818283848586878889909192939495969798"
    "99";

static unsigned
count_digits(uint64_t value)
{
    unsigned count = 1;
    for (; value >= 10000; value /= 10000) {
        count += 4;
    }
    return count + (value >= 10) + (value >= 100) + (value >= 1000);
}

char *
hspz_rows_number(char *to, uint64_t value)
{
    char *const end = to + count_digits(value);
    char *at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        memcpy(at - 2, pairs + 2 * value, 2);
    } else {
        at[-1] = (char)('0' + value);
    }
    return end;
}

static char *
put(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

#define PUT(to, literal) put(to, literal, sizeof(literal) - 1)

/* The query half of a line, with its end: the same for all hits of a query position. */
static char *
put_query(char *to, enum hspz_format format, const char *name, size_t name_len, uint64_t begin,
          uint64_t end, enum hspz_strand strand)
{
    const bool json = format == HSPZ_FORMAT_JSONL;
    to = json ? PUT(to, ",\"query\":\"") : PUT(to, "\t");
    to = put(to, name, name_len);
    to = json ? PUT(to, "\",\"query_start\":") : PUT(to, "\t");
    to = hspz_rows_number(to, begin);
    to = json ? PUT(to, ",\"query_end\":") : PUT(to, "\t");
    to = hspz_rows_number(to, end);
    to = json ? PUT(to, ",\"strand\":\"") : PUT(to, "\t");
    *to++ = strand == HSPZ_STRAND_PLUS ? '+' : '-';
    return json ? PUT(to, "\"}\n") : PUT(to, "\n");
}

/* The reference half up to its first number: the same for all hits in a sequence. */
static char *
put_ref(char *to, enum hspz_format format, const char *name, size_t name_len)
{
    const bool json = format == HSPZ_FORMAT_JSONL;
    to = json ? PUT(to, "{\"ref\":\"") : to;
    to = put(to, name, name_len);
    return json ? PUT(to, "\",\"ref_start\":") : PUT(to, "\t");
}

/* Where lines of one part stand: the last places, and what was made last of either half. */
struct cursor {
    size_t ref_hint, query_hint;
    const struct hspz_place *ref; /* NULL: none yet */
    uint32_t query_position;
    size_t head_len, tail_len; /* 0: none yet */
    char *head, *tail;         /* with STEP_BYTES to spare */
};

/* Copies whole steps: both sides have room for them. */
static char *
put_steps(char *to, const char *text, size_t len)
{
    for (size_t at = 0; at < len; at += STEP_BYTES) {
        memcpy(to + at, text + at, STEP_BYTES);
    }
    return to + len;
}

static enum hspz_status
make_head(const struct hspz_rows *rows, const struct hspz_part_id *id, uint64_t begin, uint64_t end,
          struct cursor *cursor)
{
    const struct hspz_place *place =
        hspz_places_find(rows->refs, id->ref_block, begin, end, &cursor->ref_hint);
    if (place == NULL) {
        return HSPZ_E_BAD_PEER;
    }
    const char *head_end =
        put_ref(cursor->head, rows->format, rows->refs->text + place->text, place->text_len);
    cursor->head_len = (size_t)(head_end - cursor->head);
    cursor->ref = place;
    return HSPZ_OK;
}

static enum hspz_status
make_tail(const struct hspz_rows *rows, const struct hspz_part_id *id, uint32_t position,
          struct cursor *cursor)
{
    const uint64_t span = rows->span;
    if (position < span || (rows->queries != NULL && position > rows->query_len)) {
        return HSPZ_E_BAD_PEER;
    }
    uint64_t begin = position - span;
    const char *name = "*";
    size_t name_len = 1;
    if (rows->queries != NULL) {
        begin = id->strand == HSPZ_STRAND_MINUS ? rows->query_len - position : begin;
        const struct hspz_place *place =
            hspz_places_find(rows->queries, 0, begin, begin + span, &cursor->query_hint);
        if (place == NULL) {
            return HSPZ_E_BAD_PEER;
        }
        begin -= place->begin;
        name = rows->queries->text + place->text;
        name_len = place->text_len;
    }
    const char *end =
        put_query(cursor->tail, rows->format, name, name_len, begin, begin + span, id->strand);
    cursor->tail_len = (size_t)(end - cursor->tail);
    cursor->query_position = position;
    return HSPZ_OK;
}

static enum hspz_status
bad_anchor(const struct hspz_rows *rows, const struct hspz_part_id *id, uint64_t anchor,
           struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_PEER,
                          "an anchor is outside every sequence: ref_block %" PRIu32
                          ", reference %" PRIu32 ", query %" PRIu32 ", span %" PRIu32,
                          id->ref_block, HSPZ_ANCHOR_REF(anchor), HSPZ_ANCHOR_QUERY(anchor),
                          rows->span);
}

/* Lines for anchors begin .. end, for which the output has room at `to`. */
static enum hspz_status
put_lines(const struct hspz_rows *rows, const struct hspz_part_id *id, const uint8_t *anchors,
          size_t begin, size_t end, struct cursor *cursor, char **to, struct hspz_error *err)
{
    const uint64_t span = rows->span;
    const bool json = rows->format == HSPZ_FORMAT_JSONL;
    char *at = *to;
    for (size_t i = begin; i < end; i++) {
        const uint64_t anchor = hspz_anchor_at(anchors, i);
        const uint64_t ref_end = HSPZ_ANCHOR_REF(anchor);
        const uint64_t ref_begin = ref_end - span;
        const uint32_t query = HSPZ_ANCHOR_QUERY(anchor);
        if (ref_end < span) {
            return bad_anchor(rows, id, anchor, err);
        }
        if ((cursor->ref == NULL || ref_begin < cursor->ref->begin || ref_end > cursor->ref->end) &&
            make_head(rows, id, ref_begin, ref_end, cursor) != HSPZ_OK) {
            return bad_anchor(rows, id, anchor, err);
        }
        if ((query != cursor->query_position || cursor->tail_len == 0) &&
            make_tail(rows, id, query, cursor) != HSPZ_OK) {
            return bad_anchor(rows, id, anchor, err);
        }
        at = put_steps(at, cursor->head, cursor->head_len);
        at = hspz_rows_number(at, ref_begin - cursor->ref->begin);
        at = json ? PUT(at, ",\"ref_end\":") : PUT(at, "\t");
        at = hspz_rows_number(at, ref_end - cursor->ref->begin);
        at = put_steps(at, cursor->tail, cursor->tail_len);
    }
    *to = at;
    return HSPZ_OK;
}

enum hspz_status
hspz_rows_write(const struct hspz_rows *rows, const struct hspz_part_id *id, const uint8_t *anchors,
                size_t count, struct hspz_error *err)
{
    const size_t query_longest = rows->queries != NULL ? rows->queries->longest : 1;
    const size_t line = rows->refs->longest + query_longest + LINE_EXTRA_BYTES;
    if (line > HSPZ_OUTPUT_ROOM) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE, "a sequence's name is too long to write");
    }
    /* Head and tail in one. */
    struct cursor cursor = {.head = malloc(line + LINE_EXTRA_BYTES)};
    if (cursor.head == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write lines");
    }
    cursor.tail = cursor.head + rows->refs->longest + LINE_EXTRA_BYTES;
    const size_t lines = HSPZ_OUTPUT_ROOM / line;
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < count && status == HSPZ_OK; i += lines) {
        const size_t end = count - i < lines ? count : i + lines;
        char *const room = hspz_output_room(rows->output, (end - i) * line);
        if (room == NULL) {
            bool quiet;
            status = hspz_output_error(rows->output, &quiet, err);
            break;
        }
        char *at = room;
        status = put_lines(rows, id, anchors, i, end, &cursor, &at, err);
        hspz_output_advance(rows->output, (size_t)(at - room));
    }
    free(cursor.head);
    return status;
}
