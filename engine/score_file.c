#include "engine/score.h"
#include "engine/score_p.h"
#include "engine/shown_path.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* As long as LASTZ's. */
#define LINE_BYTES 6401u
#define LABELS_LIMIT 9u /* ACGT, acgt, N */

/* Settings come first, then the column labels, then the rows. */
struct score_file {
    FILE *file;
    struct hspz_shown_path shown;
    uint64_t line;
    char text[LINE_BYTES]; /* of the line, without comment and outer blanks */
    uint32_t settings;     /* bits of those seen */
    int32_t bad, fill;
    uint8_t columns[LABELS_LIMIT];
    size_t column_count, row_count;
    bool row_seen[256];
    bool labelled; /* rows have labels */
    int32_t acgt[16];
};

enum setting {
    SETTING_BAD,
    SETTING_FILL,
    SETTING_GAP_OPEN,
    SETTING_GAP_EXTEND,
    SETTING_HSP_THRESHOLD,
    SETTING_GAPPED_THRESHOLD,
    SETTING_X_DROP,
    SETTING_Y_DROP,
    SETTING_STEP,
    SETTING_BALL,
    SETTING_SEED,
};

static const struct {
    const char *name;
    enum setting setting;
} settings[] = {
    {"bad", SETTING_BAD},
    {"bad_score", SETTING_BAD},
    {"fill", SETTING_FILL},
    {"fill_score", SETTING_FILL},
    {"O", SETTING_GAP_OPEN},
    {"open", SETTING_GAP_OPEN},
    {"gap_open", SETTING_GAP_OPEN},
    {"gap_open_penalty", SETTING_GAP_OPEN},
    {"E", SETTING_GAP_EXTEND},
    {"extend", SETTING_GAP_EXTEND},
    {"gap_extend", SETTING_GAP_EXTEND},
    {"gap_extend_penalty", SETTING_GAP_EXTEND},
    {"K", SETTING_HSP_THRESHOLD},
    {"hsp_thresh", SETTING_HSP_THRESHOLD},
    {"hsp_threshold", SETTING_HSP_THRESHOLD},
    {"L", SETTING_GAPPED_THRESHOLD},
    {"gapped_thresh", SETTING_GAPPED_THRESHOLD},
    {"gapped_threshold", SETTING_GAPPED_THRESHOLD},
    {"X", SETTING_X_DROP},
    {"x_drop", SETTING_X_DROP},
    {"Y", SETTING_Y_DROP},
    {"y_drop", SETTING_Y_DROP},
    {"Z", SETTING_STEP},
    {"step", SETTING_STEP},
    {"ball", SETTING_BALL},
    {"T", SETTING_SEED},
    {"seed", SETTING_SEED},
};

static enum hspz_status
fail(const struct score_file *f, struct hspz_error *err, const char *what, const char *value)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: line %" PRIu64 ": %s%s%.40s%s",
                          f->shown.text, f->line, what, value == NULL ? "" : ": '",
                          value == NULL ? "" : value,
                          value == NULL        ? ""
                          : strlen(value) > 40 ? "...'"
                                               : "'");
}

static enum hspz_status
fail_file(const struct score_file *f, struct hspz_error *err, const char *what)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: %s", f->shown.text, what);
}

/* Cuts off blanks at both ends; returns where the rest begins. */
static char *
trim(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        text[--len] = '\0';
    }
    while (isspace((unsigned char)*text)) {
        text++;
    }
    return text;
}

/* The next line that holds something, or "" at the end of the file. */
static enum hspz_status
next_line(struct score_file *f, struct hspz_error *err)
{
    size_t len = 0;
    bool comment = false;
    f->line++;
    for (int c = getc(f->file);; c = getc(f->file)) {
        if (c == '\n' || c == EOF) {
            if (c == EOF && ferror(f->file)) {
                return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read", f->shown.text);
            }
            f->text[len] = '\0';
            const char *text = trim(f->text);
            memmove(f->text, text, strlen(text) + 1);
            if (f->text[0] != '\0' || c == EOF) {
                return HSPZ_OK;
            }
            f->line++;
            len = 0;
            comment = false;
            continue;
        }
        if (c == '\0') {
            return fail(f, err, "holds a NUL byte", NULL);
        }
        comment = comment || c == '#';
        if (len + 1 == sizeof(f->text)) {
            return fail(f, err, "is too long", NULL);
        }
        if (!comment) {
            f->text[len++] = (char)c;
        }
    }
}

/* A label: one character, or two hexadecimal digits. */
static bool
parse_label(const char *text, uint8_t *out)
{
    if (text[0] != '\0' && text[1] == '\0') {
        *out = (uint8_t)text[0];
        return true;
    }
    if (strlen(text) != 2 || !isxdigit((unsigned char)text[0]) ||
        !isxdigit((unsigned char)text[1])) {
        return false;
    }
    unsigned value = 0;
    for (int i = 0; i < 2; i++) {
        const int c = tolower((unsigned char)text[i]);
        value = value * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = (uint8_t)value;
    return true;
}

static bool
is_base_label(uint8_t label)
{
    return label != 0 && strchr("ACGTNacgt", label) != NULL;
}

/* [[column:]row:]score; which characters are bad beside lower case and N changes nothing here. */
static enum hspz_status
read_bad(struct score_file *f, char *value, struct hspz_error *err)
{
    char *score = value;
    for (int i = 0; i < 2; i++) {
        char *colon = strchr(score, ':');
        uint8_t label;
        if (colon == NULL) {
            break;
        }
        *colon = '\0';
        if (!parse_label(score, &label)) {
            return fail(f, err, "bad_score's character is none", score);
        }
        score = colon + 1;
    }
    return hspz_score_parse(score, &f->bad)
               ? HSPZ_OK
               : fail(f, err, "bad_score is no whole number in range", score);
}

static enum hspz_status
read_setting(struct score_file *f, char *equals, struct hspz_error *err)
{
    *equals = '\0';
    const char *name = trim(f->text);
    char *value = trim(equals + 1);
    size_t i = 0;
    while (i < sizeof(settings) / sizeof(*settings) && strcmp(settings[i].name, name) != 0) {
        i++;
    }
    if (i == sizeof(settings) / sizeof(*settings)) {
        return fail(f, err, "unknown setting", name);
    }
    const uint32_t bit = UINT32_C(1) << settings[i].setting;
    if ((f->settings & bit) != 0) {
        return fail(f, err, "the setting is there twice", name);
    }
    f->settings |= bit;
    if (settings[i].setting == SETTING_BAD) {
        return read_bad(f, value, err);
    }
    if (settings[i].setting == SETTING_FILL && !hspz_score_parse(value, &f->fill)) {
        return fail(f, err, "fill_score is no whole number in range", value);
    }
    return value[0] == '\0' ? fail(f, err, "the setting has no value", name) : HSPZ_OK;
}

/* The next field of a line, cut off; NULL at its end. */
static char *
next_field(char **at)
{
    char *field = *at + strspn(*at, " \t\r\v\f");
    const size_t len = strcspn(field, " \t\r\v\f");
    *at = field + len + (field[len] != '\0');
    field[len] = '\0';
    return len > 0 ? field : NULL;
}

static enum hspz_status
read_columns(struct score_file *f, struct hspz_error *err)
{
    char *at = f->text;
    for (char *field = next_field(&at); field != NULL; field = next_field(&at)) {
        uint8_t label;
        if (!parse_label(field, &label) || !is_base_label(label)) {
            return fail(f, err, "a column's label is not of A C G T N a c g t", field);
        }
        if (memchr(f->columns, label, f->column_count) != NULL) {
            return fail(f, err, "the column is there twice", field);
        }
        f->columns[f->column_count++] = label;
    }
    for (const char *base = "ACGT"; *base != '\0'; base++) {
        if (memchr(f->columns, *base, f->column_count) == NULL) {
            return fail(f, err, "there is no column", (const char[]){*base, '\0'});
        }
    }
    return HSPZ_OK;
}

/* The label a row begins with, or without labels that of the column of its number. */
static enum hspz_status
read_row_label(struct score_file *f, char **at, uint8_t *label, struct hspz_error *err)
{
    if (!f->labelled) {
        if (f->row_count >= f->column_count) {
            return fail(f, err, "there are more rows than columns", NULL);
        }
        *label = f->columns[f->row_count];
        return HSPZ_OK;
    }
    const char *field = next_field(at);
    if (!parse_label(field, label) || !is_base_label(*label)) {
        return fail(f, err, "a row's label is not of A C G T N a c g t", field);
    }
    return f->row_seen[*label] ? fail(f, err, "the row is there twice", field) : HSPZ_OK;
}

static size_t
count_fields(const char *text)
{
    size_t count = 0;
    for (text += strspn(text, " \t\r\v\f"); *text != '\0'; text += strspn(text, " \t\r\v\f")) {
        text += strcspn(text, " \t\r\v\f");
        count++;
    }
    return count;
}

static enum hspz_status
read_row(struct score_file *f, struct hspz_error *err)
{
    char *at = f->text;
    uint8_t label;
    const size_t fields = count_fields(f->text);
    if (f->row_count == 0) {
        f->labelled = fields == f->column_count + 1;
    }
    if (fields != f->column_count + f->labelled) {
        return fail(f, err, "a row has other columns than the labels say", f->text);
    }
    const enum hspz_status status = read_row_label(f, &at, &label, err);
    if (status != HSPZ_OK) {
        return status;
    }
    f->row_seen[label] = true;
    f->row_count++;
    const uint8_t *classes = hspz_base_classes(false, false);
    for (size_t i = 0; i < f->column_count; i++) {
        int32_t score;
        const char *field = next_field(&at);
        if (!hspz_score_parse(field, &score)) {
            return fail(f, err, "a score is no whole number in range", field);
        }
        if (classes[label] < 4 && classes[f->columns[i]] < 4) {
            f->acgt[classes[label] * 4 + classes[f->columns[i]]] = score;
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
read_all(struct score_file *f, struct hspz_error *err)
{
    enum hspz_status status = next_line(f, err);
    for (char *equals; status == HSPZ_OK && (equals = strchr(f->text, '=')) != NULL;) {
        status = read_setting(f, equals, err);
        if (status == HSPZ_OK) {
            status = next_line(f, err);
        }
    }
    if (status == HSPZ_OK && f->text[0] == '\0') {
        return fail_file(f, err, "holds no scores");
    }
    if (status == HSPZ_OK) {
        status = read_columns(f, err);
    }
    while (status == HSPZ_OK) {
        status = next_line(f, err);
        if (status == HSPZ_OK && f->text[0] == '\0') {
            break;
        }
        if (status == HSPZ_OK) {
            status = read_row(f, err);
        }
    }
    for (const char *base = "ACGT"; status == HSPZ_OK && *base != '\0'; base++) {
        if (!f->row_seen[(uint8_t)*base]) {
            status = fail(f, err, "it ends without a row", (const char[]){*base, '\0'});
        }
    }
    return status;
}

enum hspz_status
hspz_scoring_read(struct hspz_scoring *scoring, FILE *file, const char *name,
                  struct hspz_error *err)
{
    struct score_file f = {
        .file = file,
        .shown = hspz_shown_path_make(name),
        .bad = HSPZ_BAD_SCORE_DEFAULT,
        .fill = HSPZ_FILL_SCORE_DEFAULT,
    };
    const enum hspz_status status = read_all(&f, err);
    if (status == HSPZ_OK) {
        hspz_scores_fill(scoring->scores, f.acgt, f.bad, f.fill);
    }
    return status;
}
