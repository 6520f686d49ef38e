#include "client/key_file.h"

#include "client/number.h"
#include "engine/byte_source.h"
#include "engine/shown_path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are sent as they lie");

#define LINE_BYTES 256u
#define NUMBER_BYTES sizeof(uint64_t)

struct hspz_key_file {
    struct hspz_byte_source *source;
    struct hspz_shown_path shown;
    bool raw, at_end;
    bool comment; /* the line under way is one, its bytes are not kept */
    unsigned columns;
    uint64_t place;       /* text: lines that have ended; raw: records */
    const uint8_t *bytes; /* not yet looked at */
    size_t len;
    char line[LINE_BYTES]; /* the line or record under way */
    size_t line_len;
};

/* ---- batches ---- */

enum hspz_status
hspz_key_batch_init(struct hspz_key_batch *batch, unsigned columns, size_t capacity,
                    struct hspz_error *err)
{
    HSPZ_REQUIRE(columns >= 1 && columns <= HSPZ_KEY_COLUMNS);
    *batch = (struct hspz_key_batch){.capacity = capacity};
    batch->places = malloc(capacity * sizeof(*batch->places));
    bool good = batch->places != NULL;
    for (unsigned c = 0; c < columns; c++) {
        batch->columns[c] = malloc(capacity * NUMBER_BYTES);
        good = good && batch->columns[c] != NULL;
    }
    if (!good) {
        hspz_key_batch_fini(batch);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu keys", capacity);
    }
    return HSPZ_OK;
}

void
hspz_key_batch_fini(struct hspz_key_batch *batch)
{
    for (unsigned c = 0; c < HSPZ_KEY_COLUMNS; c++) {
        free(batch->columns[c]);
    }
    free(batch->places);
    *batch = (struct hspz_key_batch){0};
}

static void
add(struct hspz_key_batch *batch, const uint64_t numbers[HSPZ_KEY_COLUMNS], unsigned columns,
    uint64_t place)
{
    for (unsigned c = 0; c < columns; c++) {
        batch->columns[c][batch->count] = numbers[c];
    }
    batch->places[batch->count++] = place;
}

/* ---- files ---- */

enum hspz_status
hspz_key_file_open(const char *path, bool raw, unsigned columns, hspz_progress_fn progress,
                   void *user, struct hspz_key_file **out, struct hspz_error *err)
{
    struct hspz_key_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to read keys");
    }
    file->shown = hspz_shown_path_make(path);
    file->raw = raw;
    file->columns = columns;
    const enum hspz_status status = hspz_byte_source_open(path, progress, user, &file->source, err);
    if (status != HSPZ_OK) {
        free(file);
        return status;
    }
    if (raw) {
        hspz_byte_source_plain(file->source);
    }
    *out = file;
    return HSPZ_OK;
}

void
hspz_key_file_close(struct hspz_key_file **file)
{
    if (*file != NULL) {
        hspz_byte_source_close(&(*file)->source);
        free(*file);
        *file = NULL;
    }
}

/* ---- text ---- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum hspz_status
bad_number(const struct hspz_key_file *file, const char *text, size_t len, struct hspz_error *err)
{
    char shown[41];
    const size_t most = len < sizeof(shown) - 1 ? len : sizeof(shown) - 1;
    for (size_t i = 0; i < most; i++) {
        shown[i] = '?';
        if (text[i] > ' ' && text[i] <= '~') {
            shown[i] = text[i];
        }
    }
    shown[most] = '\0';
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "%s, line %" PRIu64 ": \"%s\"%s: a number from 0 to 2^64 - 1, decimal or "
                          "0x hexadecimal, is needed",
                          file->shown.text, file->place, shown, most < len ? "..." : "");
}

/* The line under way, whole now. */
static enum hspz_status
take_line(struct hspz_key_file *file, struct hspz_key_batch *batch, struct hspz_error *err)
{
    uint64_t numbers[HSPZ_KEY_COLUMNS];
    unsigned columns = 0;
    const char *at = file->line, *end = file->line + file->line_len;
    file->place++;
    file->line_len = 0;
    if (file->comment) {
        file->comment = false;
        return HSPZ_OK;
    }
    while (end > at && (end[-1] == '\r' || is_blank(end[-1]))) {
        end--;
    }
    while (at < end) {
        while (is_blank(*at)) {
            at++;
        }
        const char *word = at;
        while (at < end && !is_blank(*at)) {
            at++;
        }
        uint64_t number;
        if (!hspz_key_parse(word, (size_t)(at - word), &number)) {
            return bad_number(file, word, (size_t)(at - word), err);
        }
        if (columns < file->columns) {
            numbers[columns] = number;
        }
        columns++;
    }
    if (columns != 0 && columns != file->columns) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s, line %" PRIu64 ": %u number%s, where %u %s wanted",
                              file->shown.text, file->place, columns, columns == 1 ? "" : "s",
                              file->columns, file->columns == 1 ? "is" : "are");
    }
    if (columns != 0) {
        add(batch, numbers, columns, file->place);
    }
    return HSPZ_OK;
}

/* Bytes up to a line end, or all there are. */
static enum hspz_status
take_text(struct hspz_key_file *file, struct hspz_key_batch *batch, struct hspz_error *err)
{
    const uint8_t *newline = memchr(file->bytes, '\n', file->len);
    const size_t len = newline != NULL ? (size_t)(newline - file->bytes) : file->len;
    file->comment = file->comment || (file->line_len == 0 && len > 0 && file->bytes[0] == '#');
    if (!file->comment) {
        if (len >= sizeof(file->line) - file->line_len) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "%s, line %" PRIu64 ": longer than %u bytes, so no keys in text "
                                  "(--raw takes binary ones)",
                                  file->shown.text, file->place + 1, LINE_BYTES - 1);
        }
        memcpy(file->line + file->line_len, file->bytes, len);
        file->line_len += len;
    }
    file->bytes += len + (newline != NULL);
    file->len -= len + (newline != NULL);
    return newline != NULL ? take_line(file, batch, err) : HSPZ_OK;
}

/* ---- raw ---- */

/* Bytes up to the end of a record, or all there are. */
static void
take_raw(struct hspz_key_file *file, struct hspz_key_batch *batch)
{
    const size_t record = file->columns * NUMBER_BYTES;
    const size_t left = record - file->line_len;
    const size_t len = file->len < left ? file->len : left;
    memcpy(file->line + file->line_len, file->bytes, len);
    file->line_len += len;
    file->bytes += len;
    file->len -= len;
    if (file->line_len == record) {
        uint64_t numbers[HSPZ_KEY_COLUMNS];
        memcpy(numbers, file->line, record);
        add(batch, numbers, file->columns, ++file->place);
        file->line_len = 0;
    }
}

static enum hspz_status
finish(struct hspz_key_file *file, struct hspz_key_batch *batch, struct hspz_error *err)
{
    file->at_end = true;
    if (!file->raw) {
        return file->line_len > 0 ? take_line(file, batch, err) : HSPZ_OK;
    }
    return file->line_len == 0
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_BAD_FILE,
                                "%s: %zu bytes at its end are no whole record of %zu bytes",
                                file->shown.text, file->line_len, file->columns * NUMBER_BYTES);
}

enum hspz_status
hspz_key_file_next(struct hspz_key_file *file, struct hspz_key_batch *batch, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    batch->count = 0;
    while (status == HSPZ_OK && batch->count < batch->capacity && !file->at_end) {
        if (file->len == 0) {
            status = hspz_byte_source_next(file->source, &file->bytes, &file->len, err);
            if (status == HSPZ_OK && file->len == 0) {
                status = finish(file, batch, err);
            }
        } else if (file->raw) {
            take_raw(file, batch);
        } else {
            status = take_text(file, batch, err);
        }
    }
    return status;
}
