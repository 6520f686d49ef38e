#include "client/plot_read.h"

#include "client/segment_file.h"
#include "engine/byte_source.h"
#include "engine/shown_path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MOST 13u /* what comes after stays in the last */

struct field {
    const char *text;
    size_t len;
};

/* Which field is what in a format; the names and the numbers of the reference and of the query. */
struct columns {
    const char *format;
    size_t ref, ref_begin, query, query_begin, strand; /* an end follows its begin */
    size_t ref_len, query_len;                         /* 0: none */
    uint32_t first;                                    /* number of the first base */
    bool from_end;                                     /* minus on the query's minus strand */
};
static const struct columns segments = {.format = "segments",
                                        .ref_begin = 1,
                                        .query = 3,
                                        .query_begin = 4,
                                        .strand = 6,
                                        .first = 1,
                                        .from_end = true};
static const struct columns tsv = {
    .format = "rows", .ref_begin = 1, .query = 3, .query_begin = 4, .strand = 6};
static const struct columns paf = {.format = "PAF",
                                   .ref = 5,
                                   .ref_begin = 7,
                                   .query_begin = 2,
                                   .strand = 4,
                                   .ref_len = 6,
                                   .query_len = 1};

enum hspz_status
hspz_plot_reader_init(struct hspz_plot_reader *reader, struct hspz_plot_axis *ref,
                      struct hspz_plot_axis *query, struct hspz_error *err)
{
    char *text = malloc(HSPZ_PLOT_LINE_BYTES);
    if (text == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to read matches");
    }
    *reader = (struct hspz_plot_reader){.ref = ref, .query = query, .text = text};
    return HSPZ_OK;
}

void
hspz_plot_reader_fini(struct hspz_plot_reader *reader)
{
    free(reader->records);
    free(reader->text);
    *reader = (struct hspz_plot_reader){0};
}

void
hspz_plot_reader_begin(struct hspz_plot_reader *reader, const char *path)
{
    reader->path = path;
    reader->tsv = false;
    reader->line = 0;
    reader->len = 0;
}

static enum hspz_status
bad_line(const struct hspz_plot_reader *reader, const char *what, const struct field *field,
         struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(reader->path);
    if (field == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %" PRIu64 ": %s", shown.text,
                              reader->line, what);
    }
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %" PRIu64 ": \"%.*s\": %s", shown.text,
                          reader->line, (int)(field->len < 60 ? field->len : 60), field->text,
                          what);
}

static size_t
split(const char *text, size_t len, struct field *fields)
{
    size_t count = 0;
    const char *const end = text + len;
    while (count < FIELDS_MOST) {
        while (text < end && (*text == ' ' || *text == '\t' || *text == '\r')) {
            text++;
        }
        if (text == end) {
            break;
        }
        const char *begin = text;
        while (text < end && *text != ' ' && *text != '\t' && *text != '\r') {
            text++;
        }
        fields[count++] = (struct field){.text = begin, .len = (size_t)(text - begin)};
    }
    return count;
}

static bool
parse_number(const struct field *field, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < field->len; i++) {
        const unsigned digit = (unsigned)(field->text[i] - '0');
        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
        if (value > UINT32_MAX) {
            return false;
        }
    }
    *out = value;
    return field->len > 0;
}

/* The interval at fields[at] and the next. */
static enum hspz_status
parse_interval(const struct hspz_plot_reader *reader, const struct field *fields, size_t at,
               uint32_t first, uint32_t *begin, uint32_t *end, struct hspz_error *err)
{
    uint64_t numbers[2];
    for (size_t i = 0; i < 2; i++) {
        if (!parse_number(&fields[at + i], &numbers[i])) {
            return bad_line(reader, "no position below 4294967296", &fields[at + i], err);
        }
    }
    if (numbers[0] < first || numbers[0] - first >= numbers[1]) {
        return bad_line(reader, "no interval begins there", &fields[at], err);
    }
    *begin = (uint32_t)numbers[0] - first;
    *end = (uint32_t)numbers[1];
    return HSPZ_OK;
}

/* A sequence that reaches to `end`, or is as long as field `len` says. */
static enum hspz_status
note_sequence(const struct hspz_plot_reader *reader, struct hspz_plot_axis *axis,
              const struct field *name, const struct field *len, uint64_t end, uint32_t *number,
              struct hspz_error *err)
{
    uint64_t bases = end;
    if (len != NULL && (!parse_number(len, &bases) || bases < end)) {
        return bad_line(reader, "no length of a sequence that has these positions", len, err);
    }
    if (!axis->fixed) {
        return hspz_plot_axis_add(axis, name->text, name->len, bases, number, err);
    }
    if (!hspz_names_find(&axis->names, name->text, name->len, number)) {
        return bad_line(reader, "no sequence of this name in the file given", name, err);
    }
    return end <= axis->lens[*number]
               ? HSPZ_OK
               : bad_line(reader, "the sequence of the file given is shorter", name, err);
}

static enum hspz_status
add_record(struct hspz_plot_reader *reader, const struct hspz_plot_record *record,
           struct hspz_error *err)
{
    if (reader->count == reader->capacity) {
        const size_t capacity = 2 * reader->capacity + 1024;
        struct hspz_plot_record *grown = realloc(reader->records, capacity * sizeof(*grown));
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu matches",
                                  reader->count + 1);
        }
        reader->records = grown;
        reader->capacity = capacity;
    }
    reader->records[reader->count++] = *record;
    reader->needs_lengths = reader->needs_lengths || record->from_end;
    return HSPZ_OK;
}

static enum hspz_status
parse_fields(struct hspz_plot_reader *reader, const struct field *fields,
             const struct columns *columns, struct hspz_error *err)
{
    struct hspz_plot_record record = {0};
    const struct field *strand = &fields[columns->strand];
    if (strand->len != 1 || (*strand->text != '+' && *strand->text != '-')) {
        return bad_line(reader, "no strand, + or -", strand, err);
    }
    record.minus = *strand->text == '-';
    record.from_end = record.minus && columns->from_end;
    enum hspz_status status = parse_interval(reader, fields, columns->ref_begin, columns->first,
                                             &record.ref_begin, &record.ref_end, err);
    if (status == HSPZ_OK) {
        status = parse_interval(reader, fields, columns->query_begin, columns->first,
                                &record.query_begin, &record.query_end, err);
    }
    if (status == HSPZ_OK) {
        status = note_sequence(reader, reader->ref, &fields[columns->ref],
                               columns->ref_len > 0 ? &fields[columns->ref_len] : NULL,
                               record.ref_end, &record.ref, err);
    }
    if (status == HSPZ_OK) {
        status = note_sequence(reader, reader->query, &fields[columns->query],
                               columns->query_len > 0 ? &fields[columns->query_len] : NULL,
                               record.query_end, &record.query, err);
    }
    return status == HSPZ_OK ? add_record(reader, &record, err) : status;
}

/* One line, without its line end. */
static enum hspz_status
parse_line(struct hspz_plot_reader *reader, const char *text, size_t len, struct hspz_error *err)
{
    static const char header[] = "#ref\tref_start\t";
    struct field fields[FIELDS_MOST];
    reader->line++;
    if (len > 0 && text[0] == '#') {
        reader->tsv = reader->tsv ||
                      (len >= sizeof(header) - 1 && memcmp(text, header, sizeof(header) - 1) == 0);
        return HSPZ_OK;
    }
    if (memchr(text, '\0', len) != NULL) {
        return bad_line(reader, "it holds a NUL byte (packed files have no names to plot by)", NULL,
                        err);
    }
    const size_t count = split(text, len, fields);
    if (count == 0) {
        return HSPZ_OK;
    }
    if (count >= 12) {
        return parse_fields(reader, fields, &paf, err);
    }
    if (count != 7 && count != 8) {
        return bad_line(reader,
                        "neither TSV of discover or hsps, nor segments, nor PAF: 7, 8, or 12 and "
                        "more fields",
                        NULL, err);
    }
    return parse_fields(reader, fields, reader->tsv ? &tsv : &segments, err);
}

enum hspz_status
hspz_plot_reader_feed(struct hspz_plot_reader *reader, const uint8_t *bytes, size_t len,
                      struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    while (status == HSPZ_OK && len > 0) {
        const uint8_t *end = memchr(bytes, '\n', len);
        const size_t part = end != NULL ? (size_t)(end - bytes) : len;
        if (part > HSPZ_PLOT_LINE_BYTES - reader->len) {
            reader->line++;
            return bad_line(reader, "too long for a match", NULL, err);
        }
        memcpy(reader->text + reader->len, bytes, part);
        reader->len += part;
        if (end != NULL) {
            status = parse_line(reader, reader->text, reader->len, err);
            reader->len = 0;
        }
        bytes += part + (end != NULL);
        len -= part + (end != NULL);
    }
    return status;
}

enum hspz_status
hspz_plot_reader_end(struct hspz_plot_reader *reader, struct hspz_error *err)
{
    const size_t len = reader->len;
    reader->len = 0;
    return len > 0 ? parse_line(reader, reader->text, len, err) : HSPZ_OK;
}

static enum hspz_status
read_file(struct hspz_plot_reader *reader, const char *path, hspz_progress_fn progress, void *user,
          struct hspz_error *err)
{
    struct hspz_byte_source *source = NULL;
    hspz_plot_reader_begin(reader, path);
    enum hspz_status status = hspz_byte_source_open(path, progress, user, &source, err);
    for (size_t len = 1; status == HSPZ_OK && len > 0;) {
        const uint8_t *bytes = NULL;
        status = hspz_byte_source_next(source, &bytes, &len, err);
        if (status == HSPZ_OK) {
            status = len > 0 ? hspz_plot_reader_feed(reader, bytes, len, err)
                             : hspz_plot_reader_end(reader, err);
        }
    }
    hspz_byte_source_close(&source);
    return status;
}

enum hspz_status
hspz_plot_reader_read(struct hspz_plot_reader *reader, const char *path, hspz_progress_fn progress,
                      void *user, struct hspz_error *err)
{
    struct hspz_segment_paths paths = {0};
    enum hspz_status status = hspz_segment_paths_add(&paths, path, err);
    for (size_t i = 0; status == HSPZ_OK && i < paths.count; i++) {
        status = read_file(reader, paths.paths[i], progress, user, err);
    }
    hspz_segment_paths_fini(&paths);
    return status;
}

void
hspz_plot_reader_place(const struct hspz_plot_reader *reader, const struct hspz_plot_record *record,
                       struct hspz_plot_match *out)
{
    const uint64_t ref = reader->ref->begins[record->ref];
    const uint64_t query = reader->query->begins[record->query];
    const uint64_t len = reader->query->lens[record->query];
    *out = (struct hspz_plot_match){
        .ref_begin = ref + record->ref_begin,
        .ref_end = ref + record->ref_end,
        .query_begin = query + (record->from_end ? len - record->query_end : record->query_begin),
        .query_end = query + (record->from_end ? len - record->query_begin : record->query_end),
        .strand = record->minus ? HSPZ_STRAND_MINUS : HSPZ_STRAND_PLUS,
    };
}
