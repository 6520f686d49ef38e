#include "engine/fasta.h"

#include "engine/shown_path.h"
#include "protocol/limits.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum format { FORMAT_UNKNOWN, FORMAT_FASTA, FORMAT_FASTQ };

/* What the line at hand is, known from its first byte on. */
enum line_kind {
    LINE_NEW, /* nothing of it was seen */
    LINE_BLANK,
    LINE_HEADER,
    LINE_BASES,
    LINE_PLUS,
    LINE_QUALITY,
};

/* The line a FASTQ record needs next. */
enum fastq_need { NEED_HEADER, NEED_BASES, NEED_PLUS, NEED_QUALITY };

enum name_part { NAME_BEFORE, NAME_INSIDE, NAME_AFTER };

struct hspz_fasta {
    struct hspz_fasta_sink sink;
    struct hspz_shown_path shown;
    enum format format;
    uint64_t line;   /* number of the line at hand */
    uint64_t column; /* its bytes taken so far */
    enum line_kind kind;
    enum fastq_need need;
    bool after_cr; /* a line feed that comes next belongs to the line before */
    bool open;     /* a sequence is begun and not ended */
    int blank;     /* blank byte seen after the bases of this line, or -1 */
    uint64_t blank_column;
    uint64_t bases_len, quality_len; /* of the FASTQ record */
    enum name_part name_part;
    size_t name_len;
    char name[HSPZ_SEQUENCE_NAME_LIMIT + 1]; /* one more, so that a longer one is seen */
};

enum hspz_status
hspz_fasta_create_to(const struct hspz_fasta_sink *sink, const char *path, struct hspz_fasta **out,
                     struct hspz_error *err)
{
    struct hspz_fasta *fasta = calloc(1, sizeof(*fasta));
    if (fasta == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory while reading sequences");
    }
    fasta->sink = *sink;
    fasta->shown = hspz_shown_path_make(path);
    fasta->line = 1;
    fasta->blank = -1;
    *out = fasta;
    return HSPZ_OK;
}

static enum hspz_status
begin_in(void *user, const char *name, size_t name_len, uint64_t line, struct hspz_error *err)
{
    return hspz_sequences_begin(user, name, name_len, line, err);
}

static enum hspz_status
append_to(void *user, const uint8_t *bases, size_t len, size_t *bad, struct hspz_error *err)
{
    return hspz_sequences_append(user, bases, len, bad, err);
}

static enum hspz_status
end_in(void *user, struct hspz_error *err)
{
    return hspz_sequences_end(user, err);
}

enum hspz_status
hspz_fasta_create(struct hspz_sequences *seqs, const char *path, struct hspz_fasta **out,
                  struct hspz_error *err)
{
    const struct hspz_fasta_sink sink = {
        .begin = begin_in, .append = append_to, .end = end_in, .user = seqs};
    return hspz_fasta_create_to(&sink, path, out, err);
}

void
hspz_fasta_destroy(struct hspz_fasta **fasta)
{
    free(*fasta);
    *fasta = NULL;
}

static bool
is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static size_t
count_blanks(const uint8_t *bytes, size_t len)
{
    size_t n = 0;
    while (n < len && is_blank(bytes[n])) {
        n++;
    }
    return n;
}

/* "0x35 ('5')" */
struct shown_byte {
    char text[16];
};

static struct shown_byte
show_byte(unsigned byte)
{
    struct shown_byte shown;
    if (byte > 0x20 && byte < 0x7f) {
        snprintf(shown.text, sizeof(shown.text), "0x%02x ('%c')", byte & 0xff, (char)byte);
    } else {
        snprintf(shown.text, sizeof(shown.text), "0x%02x", byte & 0xff);
    }
    return shown;
}

/* Puts file and line before a text of a lower layer. */
static enum hspz_status
with_place(const struct hspz_fasta *fasta, const struct hspz_error *cause, struct hspz_error *err)
{
    return hspz_error_set(err, cause->status, "%s: line %" PRIu64 ": %s", fasta->shown.text,
                          fasta->line, cause->text);
}

static enum hspz_status
refuse_byte(const struct hspz_fasta *fasta, uint8_t byte, uint64_t column, const char *what,
            struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "%s: line %" PRIu64 ": byte %s in column %" PRIu64 " %s",
                          fasta->shown.text, fasta->line, show_byte(byte).text, column, what);
}

static enum hspz_status
cut_short(const struct hspz_fasta *fasta, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_FILE,
                          "%s: cut short: it ends in line %" PRIu64 ", inside a FASTQ record",
                          fasta->shown.text, fasta->line);
}

/* Begins the sequence whose name is complete. */
static enum hspz_status
end_name(struct hspz_fasta *fasta, struct hspz_error *err)
{
    struct hspz_error cause;
    fasta->name_part = NAME_AFTER;
    if (fasta->sink.begin(fasta->sink.user, fasta->name, fasta->name_len, fasta->line, &cause) !=
        HSPZ_OK) {
        return with_place(fasta, &cause, err);
    }
    fasta->open = true;
    fasta->bases_len = 0;
    fasta->quality_len = 0;
    return HSPZ_OK;
}

static enum hspz_status
end_sequence(struct hspz_fasta *fasta, struct hspz_error *err)
{
    if (!fasta->open) {
        return HSPZ_OK;
    }
    fasta->open = false;
    return fasta->sink.end(fasta->sink.user, err);
}

static enum hspz_status
take_header(struct hspz_fasta *fasta, const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    size_t at = 0;
    if (fasta->name_part == NAME_BEFORE) {
        at = count_blanks(bytes, len);
        fasta->name_part = at < len ? NAME_INSIDE : NAME_BEFORE;
    }
    if (fasta->name_part != NAME_INSIDE) {
        return HSPZ_OK;
    }
    size_t end = at;
    while (end < len && !is_blank(bytes[end])) {
        end++;
    }
    const size_t room = sizeof(fasta->name) - fasta->name_len;
    const size_t taken = end - at < room ? end - at : room;
    memcpy(fasta->name + fasta->name_len, bytes + at, taken);
    fasta->name_len += taken;
    const bool over = fasta->name_len == sizeof(fasta->name);
    return end < len || over ? end_name(fasta, err) : HSPZ_OK;
}

/* After the first blank of a line only blanks may come. */
static enum hspz_status
take_blanks(struct hspz_fasta *fasta, const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    if (count_blanks(bytes, len) == len) {
        return HSPZ_OK;
    }
    return refuse_byte(fasta, (uint8_t)fasta->blank, fasta->blank_column,
                       fasta->kind == LINE_QUALITY ? "is no quality" : "is no base", err);
}

static void
note_blank(struct hspz_fasta *fasta, uint8_t byte, uint64_t column)
{
    fasta->blank = byte;
    fasta->blank_column = column;
}

static enum hspz_status
take_bases(struct hspz_fasta *fasta, const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    if (fasta->blank >= 0) {
        return take_blanks(fasta, bytes, len, err);
    }
    struct hspz_error cause;
    size_t bad = len;
    enum hspz_status status = fasta->sink.append(fasta->sink.user, bytes, len, &bad, &cause);
    if (status == HSPZ_OK) {
        fasta->bases_len += len;
        return HSPZ_OK;
    }
    if (bad == len) {
        return with_place(fasta, &cause, err);
    }
    const uint64_t column = fasta->column + bad + 1;
    if (!is_blank(bytes[bad])) {
        return refuse_byte(fasta, bytes[bad], column, "is no base", err);
    }
    status = fasta->sink.append(fasta->sink.user, bytes, bad, &(size_t){0}, &cause);
    if (status != HSPZ_OK) {
        return with_place(fasta, &cause, err);
    }
    fasta->bases_len += bad;
    note_blank(fasta, bytes[bad], column);
    return take_blanks(fasta, bytes + bad, len - bad, err);
}

/* Without a branch, which a compiler turns into vectors. */
static inline bool
is_quality(uint8_t byte)
{
    return (uint8_t)(byte - 0x21) <= 0x7e - 0x21;
}

/* Length of the longest prefix of qualities. */
static size_t
count_qualities(const uint8_t *bytes, size_t len)
{
    uint8_t other = 0;
    for (size_t i = 0; i < len; i++) {
        other |= !is_quality(bytes[i]);
    }
    size_t n = other == 0 ? len : 0;
    while (n < len && is_quality(bytes[n])) {
        n++;
    }
    return n;
}

static enum hspz_status
take_quality(struct hspz_fasta *fasta, const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    if (fasta->blank >= 0) {
        return take_blanks(fasta, bytes, len, err);
    }
    const size_t n = count_qualities(bytes, len);
    fasta->quality_len += n;
    if (n == len) {
        return HSPZ_OK;
    }
    const uint64_t column = fasta->column + n + 1;
    if (!is_blank(bytes[n])) {
        return refuse_byte(fasta, bytes[n], column, "is no quality", err);
    }
    note_blank(fasta, bytes[n], column);
    return take_blanks(fasta, bytes + n, len - n, err);
}

static enum hspz_status
start_header(struct hspz_fasta *fasta, struct hspz_error *err)
{
    fasta->kind = LINE_HEADER;
    fasta->name_part = NAME_BEFORE;
    fasta->name_len = 0;
    return end_sequence(fasta, err);
}

/* Tells what a line is by its first byte. */
static enum hspz_status
start_line(struct hspz_fasta *fasta, uint8_t byte, struct hspz_error *err)
{
    if (fasta->format == FORMAT_UNKNOWN && !is_blank(byte)) {
        if (byte != '>' && byte != '@') {
            return hspz_error_set(err, HSPZ_E_BAD_FILE,
                                  "%s: not a FASTA, FASTQ or 2bit file: line %" PRIu64
                                  " begins with byte %s",
                                  fasta->shown.text, fasta->line, show_byte(byte).text);
        }
        fasta->format = byte == '>' ? FORMAT_FASTA : FORMAT_FASTQ;
    }
    if (fasta->format == FORMAT_FASTA && fasta->open && byte != '>') {
        fasta->kind = LINE_BASES;
        return HSPZ_OK;
    }
    if (fasta->format == FORMAT_FASTA && byte == '>') {
        return start_header(fasta, err);
    }
    switch (fasta->need) {
    case NEED_HEADER:
        if (is_blank(byte)) {
            fasta->kind = LINE_BLANK;
            note_blank(fasta, byte, 1);
            return HSPZ_OK;
        }
        return byte == '@' ? start_header(fasta, err)
                           : refuse_byte(fasta, byte, 1, "where a record begins with '@'", err);
    case NEED_BASES:
        fasta->kind = LINE_BASES;
        return HSPZ_OK;
    case NEED_PLUS:
        fasta->kind = LINE_PLUS;
        return byte == '+' ? HSPZ_OK
                           : refuse_byte(fasta, byte, 1,
                                         "where the third line of a record begins with '+'", err);
    case NEED_QUALITY:
        break;
    }
    fasta->kind = LINE_QUALITY;
    return HSPZ_OK;
}

/* A piece of a line, 1 byte or more and no line end among them. */
static enum hspz_status
take_piece(struct hspz_fasta *fasta, const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (fasta->kind == LINE_NEW) {
        status = start_line(fasta, bytes[0], err);
        if (status != HSPZ_OK) {
            return status;
        }
        if (fasta->kind == LINE_HEADER) {
            status = take_header(fasta, bytes + 1, len - 1, err);
            fasta->column += len;
            return status;
        }
    }
    switch (fasta->kind) {
    case LINE_NEW:
    case LINE_PLUS:
        break;
    case LINE_BLANK:
        status = take_blanks(fasta, bytes, len, err);
        break;
    case LINE_HEADER:
        status = take_header(fasta, bytes, len, err);
        break;
    case LINE_BASES:
        status = take_bases(fasta, bytes, len, err);
        break;
    case LINE_QUALITY:
        status = take_quality(fasta, bytes, len, err);
        break;
    }
    fasta->column += len;
    return status;
}

static enum hspz_status
end_quality(struct hspz_fasta *fasta, struct hspz_error *err)
{
    if (fasta->quality_len != fasta->bases_len) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: line %" PRIu64 ": %" PRIu64 " qualities for %" PRIu64 " bases",
                              fasta->shown.text, fasta->line, fasta->quality_len, fasta->bases_len);
    }
    return end_sequence(fasta, err);
}

/* What the end of a line means to a FASTQ record. */
static enum hspz_status
end_fastq_line(struct hspz_fasta *fasta, struct hspz_error *err)
{
    if (fasta->kind == LINE_BLANK || (fasta->kind == LINE_NEW && fasta->need == NEED_HEADER)) {
        return HSPZ_OK;
    }
    switch (fasta->need) {
    case NEED_HEADER:
        fasta->need = NEED_BASES;
        return HSPZ_OK;
    case NEED_BASES:
        fasta->need = NEED_PLUS;
        return HSPZ_OK;
    case NEED_PLUS:
        if (fasta->kind == LINE_NEW) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "%s: line %" PRIu64
                                  ": blank, where the third line of a record begins with '+'",
                                  fasta->shown.text, fasta->line);
        }
        fasta->need = NEED_QUALITY;
        return HSPZ_OK;
    case NEED_QUALITY:
        break;
    }
    fasta->need = NEED_HEADER;
    return end_quality(fasta, err);
}

static enum hspz_status
end_line(struct hspz_fasta *fasta, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (fasta->kind == LINE_HEADER && fasta->name_part != NAME_AFTER) {
        status = end_name(fasta, err);
    }
    if (status == HSPZ_OK && fasta->format == FORMAT_FASTQ) {
        status = end_fastq_line(fasta, err);
    }
    fasta->kind = LINE_NEW;
    fasta->column = 0;
    fasta->blank = -1;
    fasta->line++;
    return status;
}

static const uint8_t *
find(const uint8_t *at, const uint8_t *end, int byte)
{
    const uint8_t *found = memchr(at, byte, (size_t)(end - at));
    return found != NULL ? found : end;
}

enum hspz_status
hspz_fasta_feed(struct hspz_fasta *fasta, const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    if (len == 0) {
        return HSPZ_OK;
    }
    const uint8_t *at = bytes;
    const uint8_t *end = bytes + len;
    if (fasta->after_cr && *at == '\n') {
        at++;
    }
    fasta->after_cr = false;
    const uint8_t *lf = find(at, end, '\n');
    const uint8_t *cr = find(at, end, '\r');
    enum hspz_status status = HSPZ_OK;
    while (status == HSPZ_OK && at < end) {
        const uint8_t *stop = lf < cr ? lf : cr;
        if (stop > at) {
            status = take_piece(fasta, at, (size_t)(stop - at), err);
        }
        if (status != HSPZ_OK || stop == end) {
            break;
        }
        status = end_line(fasta, err);
        at = stop + 1;
        if (stop == cr) {
            fasta->after_cr = at == end;
            at += at < end && *at == '\n';
        }
        lf = lf < at ? find(at, end, '\n') : lf;
        cr = cr < at ? find(at, end, '\r') : cr;
    }
    return status;
}

enum hspz_status
hspz_fasta_finish(struct hspz_fasta *fasta, struct hspz_error *err)
{
    const bool fastq = fasta->format == FORMAT_FASTQ;
    if (fastq && fasta->kind == LINE_QUALITY && fasta->quality_len < fasta->bases_len) {
        return cut_short(fasta, err);
    }
    enum hspz_status status = HSPZ_OK;
    if (fasta->kind != LINE_NEW) {
        status = end_line(fasta, err);
    }
    if (status == HSPZ_OK && fasta->need == NEED_QUALITY && fasta->bases_len == 0) {
        status = end_line(fasta, err);
    }
    if (status == HSPZ_OK && fasta->need != NEED_HEADER) {
        return cut_short(fasta, err);
    }
    if (status == HSPZ_OK) {
        status = end_sequence(fasta, err);
    }
    if (status == HSPZ_OK && fasta->format == FORMAT_UNKNOWN) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: holds no sequence: %s", fasta->shown.text,
                              fasta->line == 1 ? "it is empty" : "it is blank");
    }
    return status;
}
