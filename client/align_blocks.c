#include "client/align_blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FIELDS 32u

/* Lines of a file, and the alignment that is being read. */
struct reader {
    const struct hspz_align_reading *reading;
    FILE *file;
    size_t name_count;
    char *lines[3]; /* an alignment's */
    size_t capacity[3];
    size_t len[3];
    uint64_t line; /* of the line read last */
};

struct field {
    char *text;
    size_t len;
};

static enum hspz_status
strange(const struct reader *r, const char *what, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "%.200s: line %" PRIu64 ": %s, in what lastz wrote",
                          r->reading->path, r->line, what);
}

/* The next line into lines[slot], without its line end; *more is false at the end. */
static enum hspz_status
next_line(struct reader *r, size_t slot, bool *more, struct hspz_error *err)
{
    errno = 0;
    const ssize_t got = getline(&r->lines[slot], &r->capacity[slot], r->file);
    if (got < 0) {
        *more = false;
        return feof(r->file)
                   ? HSPZ_OK
                   : hspz_error_errno(err, errno == ENOMEM ? HSPZ_E_OUT_OF_MEMORY : HSPZ_E_IO,
                                      errno, "%.200s: cannot read", r->reading->path);
    }
    r->line++;
    r->len[slot] = (size_t)got;
    if (r->lines[slot][got - 1] == '\n') {
        r->lines[slot][--r->len[slot]] = '\0';
    }
    *more = true;
    return HSPZ_OK;
}

static size_t
split(char *text, size_t len, char between, struct field *fields)
{
    size_t count = 0;
    for (size_t at = 0; at < len && count < MOST_FIELDS;) {
        if (text[at] == between) {
            at++;
            continue;
        }
        const size_t begin = at;
        while (at < len && text[at] != between) {
            at++;
        }
        fields[count++] = (struct field){.text = text + begin, .len = at - begin};
    }
    return count;
}

static bool
number_of(const struct field *field, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < field->len; i++) {
        if (field->text[i] < '0' || field->text[i] > '9' || value > UINT64_MAX / 16) {
            return false;
        }
        value = 10 * value + (uint64_t)(field->text[i] - '0');
    }
    *out = value;
    return field->len > 0;
}

/* The place of a sequence from its name in the file: "s" and the number of its name. */
static bool
place_of(const struct reader *r, const struct hspz_align_side *side, const struct field *field,
         uint32_t *out)
{
    const struct field digits = {.text = field->text + 1, .len = field->len - 1};
    uint64_t name = 0;
    if (field->len < 2 || field->text[0] != 's' || !number_of(&digits, &name) ||
        name >= r->name_count || side->by_name[name] == HSPZ_ALIGN_ABSENT) {
        return false;
    }
    *out = side->by_name[name];
    return true;
}

static struct hspz_plane
plane_of(const struct hspz_alignment *a)
{
    return (struct hspz_plane){.target = a->target, .query = a->query, .minus = a->minus};
}

/* Occupies a run along a diagonal, and ties it to the run before. */
static enum hspz_status
occupy_run(const struct reader *r, struct hspz_alignment *a, uint64_t t, uint64_t q, uint64_t len,
           bool first)
{
    struct hspz_cells *cells = r->reading->cells;
    uint32_t begin = 0, end = 0;
    enum hspz_status status = hspz_cells_occupy(cells, plane_of(a), t, q, 1, &begin);
    if (status == HSPZ_OK) {
        status = hspz_cells_occupy(cells, plane_of(a), t, q, len, &end);
    }
    if (status == HSPZ_OK) {
        hspz_cells_unite(cells, begin, end);
        if (!first) {
            hspz_cells_unite(cells, a->cell, begin);
        }
        a->cell = begin;
    }
    return status;
}

static bool
inside(const struct reader *r, const struct hspz_alignment *a)
{
    return a->target_start <= a->target_end && a->query_start <= a->query_end &&
           a->target_end <= r->reading->target->sequences[a->target].len &&
           a->query_end <= r->reading->query->sequences[a->query].len;
}

/* The two rows of an alignment, one column at a time; checks that they are what the head says. */
static enum hspz_status
walk_rows(const struct reader *r, struct hspz_alignment *a, const struct field *target,
          const struct field *query, struct hspz_error *err)
{
    uint64_t t = a->target_start, q = a->query_start;
    enum hspz_status status = target->len == query->len && target->len > 0
                                  ? HSPZ_OK
                                  : strange(r, "two rows of different length", err);
    bool first = true;
    for (size_t i = 0, begin = 0; status == HSPZ_OK && i <= target->len; i++) {
        const bool paired = i < target->len && target->text[i] != '-' && query->text[i] != '-';
        if (!paired && i > begin) {
            status = occupy_run(r, a, t - (i - begin), q - (i - begin), i - begin, first);
            first = false;
        }
        if (i < target->len) {
            t += target->text[i] != '-';
            q += query->text[i] != '-';
        }
        begin = paired ? begin : i + 1;
    }
    if (status == HSPZ_OK && (first || t != a->target_end || q != a->query_end)) {
        status = strange(r, "rows that do not fit their positions", err);
    }
    return status;
}

static enum hspz_status
walk_cigar(const struct reader *r, struct hspz_alignment *a, const char *cigar,
           struct hspz_error *err)
{
    uint64_t t = a->target_start, q = a->query_start, len = 0;
    enum hspz_status status = HSPZ_OK;
    bool first = true;
    for (; status == HSPZ_OK && *cigar != '\0'; cigar++) {
        if (*cigar >= '0' && *cigar <= '9' && len < UINT32_MAX) {
            len = 10 * len + (uint64_t)(*cigar - '0');
            continue;
        }
        const bool paired = *cigar == 'M' || *cigar == '=' || *cigar == 'X';
        if (len == 0 || (!paired && *cigar != 'I' && *cigar != 'D')) {
            return strange(r, "a cg:Z that is none", err);
        }
        if (len > a->target_end + a->query_end) {
            break;
        }
        if (paired && t + len <= a->target_end && q + len <= a->query_end) {
            status = occupy_run(r, a, t, q, len, first);
            first = false;
        }
        t += *cigar != 'I' ? len : 0;
        q += *cigar != 'D' ? len : 0;
        len = 0;
    }
    if (status == HSPZ_OK && (first || t != a->target_end || q != a->query_end || len != 0)) {
        status = strange(r, "a cg:Z that does not fit its positions", err);
    }
    return status;
}

/* s NAME START LENGTH STRAND SIZE TEXT */
static enum hspz_status
parse_maf(const struct reader *r, struct hspz_alignment *a, struct hspz_error *err)
{
    struct field f[2][MOST_FIELDS];
    uint64_t len[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        if (split(r->lines[1 + i], r->len[1 + i], ' ', f[i]) != 7 || f[i][0].text[0] != 's' ||
            !number_of(&f[i][3], &len[i])) {
            return strange(r, "no s line of MAF", err);
        }
    }
    if (!place_of(r, r->reading->target, &f[0][1], &a->target) ||
        !place_of(r, r->reading->query, &f[1][1], &a->query) ||
        !number_of(&f[0][2], &a->target_start) || !number_of(&f[1][2], &a->query_start) ||
        f[0][4].text[0] != '+') {
        return strange(r, "an unknown name or position", err);
    }
    a->minus = f[1][4].text[0] == '-';
    a->target_end = a->target_start + len[0];
    a->query_end = a->query_start + len[1];
    if (!inside(r, a)) {
        return strange(r, "an alignment beyond its sequences", err);
    }
    return walk_rows(r, a, &f[0][6], &f[1][6], err);
}

/* NUMBER NAME START END NAME START END STRAND SCORE, 1-based, both ends in; then the rows */
static enum hspz_status
parse_axt(const struct reader *r, struct hspz_alignment *a, struct hspz_error *err)
{
    struct field f[MOST_FIELDS];
    if (split(r->lines[0], r->len[0], ' ', f) != 9 ||
        !place_of(r, r->reading->target, &f[1], &a->target) ||
        !place_of(r, r->reading->query, &f[4], &a->query) || !number_of(&f[2], &a->target_start) ||
        !number_of(&f[3], &a->target_end) || !number_of(&f[5], &a->query_start) ||
        !number_of(&f[6], &a->query_end) || a->target_start == 0 || a->query_start == 0) {
        return strange(r, "no head line of AXT", err);
    }
    a->target_start--;
    a->query_start--;
    a->minus = f[7].text[0] == '-';
    if (!inside(r, a)) {
        return strange(r, "an alignment beyond its sequences", err);
    }
    const struct field rows[2] = {{.text = r->lines[1], .len = r->len[1]},
                                  {.text = r->lines[2], .len = r->len[2]}};
    return walk_rows(r, a, &rows[0], &rows[1], err);
}

static enum hspz_status
parse_paf(const struct reader *r, struct hspz_alignment *a, struct hspz_error *err)
{
    struct field f[MOST_FIELDS];
    uint64_t size = 0;
    const size_t count = split(r->lines[0], r->len[0], '\t', f);
    if (count < 12 || !place_of(r, r->reading->query, &f[0], &a->query) ||
        !place_of(r, r->reading->target, &f[5], &a->target) || !number_of(&f[1], &size) ||
        !number_of(&f[2], &a->query_start) || !number_of(&f[3], &a->query_end) ||
        !number_of(&f[7], &a->target_start) || !number_of(&f[8], &a->target_end) ||
        a->query_end > size) {
        return strange(r, "no line of PAF", err);
    }
    a->minus = f[4].text[0] == '-';
    if (a->minus) {
        const uint64_t start = a->query_start;
        a->query_start = size - a->query_end;
        a->query_end = size - start;
    }
    if (!inside(r, a)) {
        return strange(r, "an alignment beyond its sequences", err);
    }
    for (size_t i = 12; i < count; i++) {
        if (strncmp(f[i].text, "cg:Z:", 5) == 0) {
            f[i].text[f[i].len] = '\0';
            return walk_cigar(r, a, f[i].text + 5, err);
        }
    }
    return strange(r, "a line of PAF without cg:Z (an older LASTZ?)", err);
}

static enum hspz_status
add(struct hspz_alignments *list, const struct hspz_alignment *a)
{
    if (list->count == list->capacity) {
        const size_t want = 2 * list->capacity + 256;
        struct hspz_alignment *grown = realloc(list->items, want * sizeof(*grown));
        if (grown == NULL) {
            return HSPZ_E_OUT_OF_MEMORY;
        }
        list->items = grown;
        list->capacity = want;
    }
    list->items[list->count++] = *a;
    return HSPZ_OK;
}

/* An alignment whose first line was read: the lines that belong to it, and what they say. */
static enum hspz_status
read_one(struct reader *r, uint64_t offset, struct hspz_alignments *list, struct hspz_error *err)
{
    struct hspz_alignment a = {.offset = offset, .piece = r->reading->piece};
    const enum hspz_align_format format = r->reading->format;
    uint64_t len = r->len[0] + 1;
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 1; status == HSPZ_OK && format != HSPZ_ALIGN_PAF && i < 3; i++) {
        bool more = false;
        status = next_line(r, i, &more, err);
        if (status == HSPZ_OK && !more) {
            status = strange(r, "an alignment cut short", err);
        }
        len += r->len[i] + 1;
    }
    a.len = len;
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_error why = {0};
    status = format == HSPZ_ALIGN_MAF   ? parse_maf(r, &a, &why)
             : format == HSPZ_ALIGN_AXT ? parse_axt(r, &a, &why)
                                        : parse_paf(r, &a, &why);
    if (status == HSPZ_OK) {
        status = add(list, &a);
    }
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        return hspz_error_set(err, status, "%.200s: no memory for its alignments",
                              r->reading->path);
    }
    return status == HSPZ_OK ? HSPZ_OK : hspz_error_set(err, status, "%s", why.text);
}

enum hspz_status
hspz_alignments_read(const struct hspz_align_reading *reading, FILE *file, size_t name_count,
                     struct hspz_alignments *list, struct hspz_error *err)
{
    struct reader r = {.reading = reading, .file = file, .name_count = name_count};
    enum hspz_status status = HSPZ_OK;
    for (bool more = true; status == HSPZ_OK && more;) {
        const off_t offset = ftello(file);
        status = next_line(&r, 0, &more, err);
        if (status != HSPZ_OK || !more || r.len[0] == 0 || r.lines[0][0] == '#') {
            continue;
        }
        if (reading->format == HSPZ_ALIGN_MAF && r.lines[0][0] != 'a') {
            status = strange(&r, "no a line of MAF", err);
            continue;
        }
        status = read_one(&r, (uint64_t)offset, list, err);
    }
    for (size_t i = 0; i < 3; i++) {
        free(r.lines[i]);
    }
    return status;
}
