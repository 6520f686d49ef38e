#include "client/segment_file.h"

#include "engine/byte_source.h"
#include "engine/shown_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct field {
    const char *text;
    size_t len;
};

enum { TARGET, TARGET_START, TARGET_END, QUERY, QUERY_START, QUERY_END, STRAND, SCORE, FIELDS };

static const char *const field_names[FIELDS] = {"target name", "target start", "target end",
                                                "query name",  "query start",  "query end",
                                                "strand",      "score"};

void
hspz_segment_list_init(struct hspz_segment_list *list, struct hspz_names *names)
{
    *list = (struct hspz_segment_list){.names = names};
}

void
hspz_segment_list_fini(struct hspz_segment_list *list)
{
    free(list->segments);
    *list = (struct hspz_segment_list){0};
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Cuts a line into fields; more than FIELDS are counted only. */
static size_t
split(const char *text, size_t len, struct field *fields)
{
    size_t count = 0;
    for (size_t at = 0; at < len;) {
        if (is_blank(text[at])) {
            at++;
            continue;
        }
        const size_t begin = at;
        while (at < len && !is_blank(text[at])) {
            at++;
        }
        if (text[begin] == '#' && (count == 0 || count >= STRAND + 1)) {
            break;
        }
        if (count < FIELDS) {
            fields[count] = (struct field){.text = text + begin, .len = at - begin};
        }
        count++;
    }
    return count;
}

static enum hspz_status
bad_field(const struct hspz_segment_reader *reader, size_t place, const struct field *field,
          const char *why, struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(reader->path);
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %" PRIu64 ": %s \"%.*s\": %s", shown.text,
                          reader->line, field_names[place],
                          (int)(field->len < 80 ? field->len : 80), field->text, why);
}

static bool
read_digits(const char *text, size_t len, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || value > most / 10) {
            return false;
        }
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    *out = value;
    return len > 0 && value <= most;
}

static bool
read_score(const struct field *field, int32_t *out)
{
    const bool negative = field->text[0] == '-';
    const bool sign = negative || field->text[0] == '+';
    uint64_t value = 0;
    if (!read_digits(field->text + sign, field->len - sign, INT32_MAX, &value)) {
        return false;
    }
    *out = negative ? -(int32_t)value : (int32_t)value;
    return true;
}

/* The interval of two fields, as start and length. */
static enum hspz_status
read_interval(const struct hspz_segment_reader *reader, const struct field *fields, size_t first,
              uint64_t *start, uint64_t *len, struct hspz_error *err)
{
    uint64_t ends[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const struct field *field = &fields[first + i];
        if (!read_digits(field->text, field->len, INT64_MAX, &ends[i]) || ends[i] == 0) {
            return bad_field(reader, first + i, field, "a position from 1 is needed", err);
        }
    }
    if (ends[1] < ends[0]) {
        return bad_field(reader, first + 1, &fields[first + 1], "it is before the start", err);
    }
    *start = ends[0] - 1;
    *len = ends[1] - ends[0] + 1;
    return HSPZ_OK;
}

static enum hspz_status
parse_fields(const struct hspz_segment_reader *reader, const struct field *fields, size_t count,
             struct hspz_segment *out, struct hspz_error *err)
{
    uint64_t query_len = 0;
    enum hspz_status status =
        read_interval(reader, fields, TARGET_START, &out->target_start, &out->len, err);
    if (status == HSPZ_OK) {
        status = read_interval(reader, fields, QUERY_START, &out->query_start, &query_len, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (query_len != out->len) {
        const struct hspz_shown_path shown = hspz_shown_path_make(reader->path);
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%s: line %" PRIu64 ": %" PRIu64 " bases of the target and %" PRIu64
                              " of the query: a segment has no gaps",
                              shown.text, reader->line, out->len, query_len);
    }
    const struct field *strand = &fields[STRAND];
    if (strand->len != 1 || (strand->text[0] != '+' && strand->text[0] != '-')) {
        return bad_field(reader, STRAND, strand, "it is + or -", err);
    }
    out->minus = strand->text[0] == '-';
    if (count > SCORE && !read_score(&fields[SCORE], &out->score)) {
        return bad_field(reader, SCORE, &fields[SCORE],
                         "a whole number of at most 2147483647 is needed", err);
    }
    return HSPZ_OK;
}

static enum hspz_status
add(struct hspz_segment_list *list, const struct hspz_segment *segment, const struct field *fields)
{
    if (list->count == list->capacity) {
        const size_t want = 2 * list->capacity + 256;
        struct hspz_segment *grown = realloc(list->segments, want * sizeof(*grown));
        if (grown == NULL) {
            return HSPZ_E_OUT_OF_MEMORY;
        }
        list->segments = grown;
        list->capacity = want;
    }
    struct hspz_segment *to = &list->segments[list->count];
    *to = *segment;
    enum hspz_status status =
        hspz_names_add(list->names, fields[TARGET].text, fields[TARGET].len, &to->target);
    if (status == HSPZ_OK) {
        status = hspz_names_add(list->names, fields[QUERY].text, fields[QUERY].len, &to->query);
    }
    list->count += status == HSPZ_OK;
    return status;
}

/* One line, without its line end. */
static enum hspz_status
parse_line(struct hspz_segment_reader *reader, const char *text, size_t len, struct hspz_error *err)
{
    struct field fields[FIELDS];
    const struct hspz_shown_path shown = hspz_shown_path_make(reader->path);
    reader->line++;
    if (memchr(text, '\0', len) != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %" PRIu64 ": it holds a NUL byte",
                              shown.text, reader->line);
    }
    const size_t count = split(text, len, fields);
    if (count == 0) {
        return HSPZ_OK;
    }
    if (count < SCORE || count > FIELDS) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%s: line %" PRIu64 ": %zu field%s; a segment has 7 or 8: target "
                              "name, start, end, query name, start, end, strand, score",
                              shown.text, reader->line, count, count == 1 ? "" : "s");
    }
    struct hspz_segment segment = {.line = reader->line, .file = reader->file};
    enum hspz_status status = parse_fields(reader, fields, count, &segment, err);
    if (status == HSPZ_OK && add(reader->list, &segment, fields) != HSPZ_OK) {
        status =
            hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory for its segments", shown.text);
    }
    return status;
}

enum hspz_status
hspz_segment_reader_init(struct hspz_segment_reader *reader, struct hspz_segment_list *list,
                         const char *path, uint32_t file, struct hspz_error *err)
{
    char *text = malloc(HSPZ_SEGMENT_LINE_BYTES);
    if (text == NULL) {
        const struct hspz_shown_path shown = hspz_shown_path_make(path);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to read it", shown.text);
    }
    *reader = (struct hspz_segment_reader){
        .list = list, .path = path, .file = file, .before = list->count, .text = text};
    return HSPZ_OK;
}

void
hspz_segment_reader_fini(struct hspz_segment_reader *reader)
{
    free(reader->text);
    *reader = (struct hspz_segment_reader){0};
}

static enum hspz_status
take_back(struct hspz_segment_reader *reader, enum hspz_status status)
{
    if (status != HSPZ_OK) {
        reader->list->count = reader->before;
    }
    return status;
}

enum hspz_status
hspz_segment_reader_feed(struct hspz_segment_reader *reader, const uint8_t *bytes, size_t len,
                         struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    while (status == HSPZ_OK && len > 0) {
        const uint8_t *end = memchr(bytes, '\n', len);
        const size_t part = end != NULL ? (size_t)(end - bytes) : len;
        if (part > HSPZ_SEGMENT_LINE_BYTES - reader->len) {
            const struct hspz_shown_path shown = hspz_shown_path_make(reader->path);
            status = hspz_error_set(err, HSPZ_E_BAD_FILE,
                                    "%s: line %" PRIu64 ": longer than %u bytes: no segment file",
                                    shown.text, reader->line + 1, HSPZ_SEGMENT_LINE_BYTES);
            break;
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
    return take_back(reader, status);
}

enum hspz_status
hspz_segment_reader_finish(struct hspz_segment_reader *reader, struct hspz_error *err)
{
    if (reader->len == 0) {
        return HSPZ_OK;
    }
    const size_t len = reader->len;
    reader->len = 0;
    return take_back(reader, parse_line(reader, reader->text, len, err));
}

enum hspz_status
hspz_segment_file_read(struct hspz_segment_list *list, const char *path, uint32_t file,
                       hspz_progress_fn progress, void *user, struct hspz_error *err)
{
    struct hspz_byte_source *source = NULL;
    struct hspz_segment_reader reader = {.before = list->count, .list = list};
    enum hspz_status status = hspz_byte_source_open(path, progress, user, &source, err);
    if (status == HSPZ_OK) {
        status = hspz_segment_reader_init(&reader, list, path, file, err);
    }
    for (size_t len = 1; status == HSPZ_OK && len > 0;) {
        const uint8_t *bytes = NULL;
        status = hspz_byte_source_next(source, &bytes, &len, err);
        if (status == HSPZ_OK) {
            status = len > 0 ? hspz_segment_reader_feed(&reader, bytes, len, err)
                             : hspz_segment_reader_finish(&reader, err);
        }
    }
    status = take_back(&reader, status);
    hspz_segment_reader_fini(&reader);
    hspz_byte_source_close(&source);
    return status;
}

size_t
hspz_segment_print(const struct hspz_segment *s, const char *target, const char *query, char *to,
                   size_t room)
{
    const int len = snprintf(
        to, room, "%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%c\t%" PRId32 "\n",
        target, s->target_start + 1, s->target_start + s->len, query, s->query_start + 1,
        s->query_start + s->len, s->minus ? '-' : '+', s->score);
    HSPZ_REQUIRE(len > 0 && (size_t)len < room);
    return (size_t)len;
}
