#include "client/align_blocks.h"

#include <inttypes.h>
#include <string.h>

struct field {
    const char *text;
    size_t len;
};

/* Words of a line, up to `most`, the last being all that is left. */
static size_t
split(const char *text, size_t len, char between, size_t most, struct field *fields)
{
    size_t count = 0;
    for (size_t at = 0; at < len;) {
        if (text[at] == between) {
            at++;
            continue;
        }
        const size_t begin = at;
        while (at < len && (text[at] != between || count + 1 == most)) {
            at++;
        }
        fields[count++] = (struct field){.text = text + begin, .len = at - begin};
    }
    return count;
}

static bool
put(struct hspz_output *output, const char *text, size_t len)
{
    return hspz_output_write(output, text, len);
}

static bool
put_text(struct hspz_output *output, const char *text)
{
    return put(output, text, strlen(text));
}

/* A line up to its end, and what comes after it. */
static struct field
take_line(struct field *rest)
{
    const char *end = memchr(rest->text, '\n', rest->len);
    const struct field line = {.text = rest->text,
                               .len = end != NULL ? (size_t)(end - rest->text) : rest->len};
    const size_t used = end != NULL ? line.len + 1 : line.len;
    *rest = (struct field){.text = rest->text + used, .len = rest->len - used};
    return line;
}

/* Names are padded to the longer of the two; what follows them is as LASTZ printed it. */
static bool
print_maf(struct field text, const char *const names[2], struct hspz_output *output)
{
    const struct field head = take_line(&text);
    struct field lines[2], f[2][3];
    for (size_t i = 0; i < 2; i++) {
        lines[i] = take_line(&text);
        if (split(lines[i].text, lines[i].len, ' ', 3, f[i]) != 3) {
            return false;
        }
    }
    const size_t was = f[f[0][1].len < f[1][1].len][1].len; /* wide, in the file */
    const size_t lens[2] = {strlen(names[0]), strlen(names[1])};
    const size_t wide = lens[0] > lens[1] ? lens[0] : lens[1];
    bool good = put(output, head.text, head.len) && put(output, "\n", 1);
    for (size_t i = 0; i < 2; i++) {
        good = good && put(output, "s ", 2) && put(output, names[i], lens[i]);
        for (size_t pad = lens[i]; pad < wide; pad++) {
            good = good && put(output, " ", 1);
        }
        /* LASTZ pads both alike. Else, what follows the name is whole all the same. */
        const size_t before = (size_t)(f[i][2].text - lines[i].text) - 1;
        const size_t from = before < was + 2 ? before : was + 2;
        good =
            good && put(output, lines[i].text + from, lines[i].len - from) && put(output, "\n", 1);
    }
    return good && put(output, "\n", 1);
}

static bool
print_axt(struct field text, const char *const names[2], uint64_t number,
          struct hspz_output *output)
{
    const struct field head = take_line(&text);
    struct field f[9];
    char digits[32];
    if (split(head.text, head.len, ' ', 9, f) != 9) {
        return false;
    }
    snprintf(digits, sizeof(digits), "%" PRIu64, number);
    bool good = put_text(output, digits);
    for (size_t i = 1; i < 9; i++) {
        good = good && put(output, " ", 1) &&
               (i == 1   ? put_text(output, names[0])
                : i == 4 ? put_text(output, names[1])
                         : put(output, f[i].text, f[i].len));
    }
    return good && put(output, "\n", 1) && put(output, text.text, text.len) && put(output, "\n", 1);
}

static bool
print_paf(struct field text, const char *const names[2], struct hspz_output *output)
{
    struct field f[7];
    if (split(text.text, text.len, '\t', 7, f) != 7) {
        return false;
    }
    bool good = put_text(output, names[1]);
    for (size_t i = 1; i < 7; i++) {
        good = good && put(output, "\t", 1) &&
               (i == 5 ? put_text(output, names[0]) : put(output, f[i].text, f[i].len));
    }
    return good;
}

enum hspz_status
hspz_alignment_print(enum hspz_align_format format, const char *text, size_t len,
                     const char *target, const char *query, uint64_t number,
                     struct hspz_output *output, struct hspz_error *err)
{
    const struct field all = {.text = text, .len = len};
    const char *const names[2] = {target, query};
    const bool good = format == HSPZ_ALIGN_MAF   ? print_maf(all, names, output)
                      : format == HSPZ_ALIGN_AXT ? print_axt(all, names, number, output)
                                                 : print_paf(all, names, output);
    bool quiet = false;
    const enum hspz_status status = hspz_output_error(output, &quiet, err);
    if (status != HSPZ_OK || good) {
        return status;
    }
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "an alignment changed while it was copied");
}
