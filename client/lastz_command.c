#include "client/lastz_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_END ".segments"

static bool
is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-+=:,./@%[]", c) != NULL);
}

/* A word made of parts (the last one NULL), with a blank before it. */
static char *
put_word(char *to, const char *const *parts)
{
    bool plain = true;
    for (size_t i = 0; parts[i] != NULL; i++) {
        for (const char *c = parts[i]; *c != '\0'; c++) {
            plain = plain && is_plain(*c);
        }
    }
    to = stpcpy(to, plain ? " " : " '");
    for (size_t i = 0; parts[i] != NULL; i++) {
        for (const char *c = parts[i]; *c != '\0'; c++) {
            if (*c == '\'') {
                to = stpcpy(to, "'\\''");
            } else {
                *to++ = *c;
            }
        }
    }
    return stpcpy(to, plain ? "" : "'");
}

#define PUT_WORD(to, ...) put_word((to), (const char *const[]){__VA_ARGS__, NULL})

/* Everything of a line that is always there. */
#define LINE_BYTES 1024u
/* A quote becomes so many bytes. */
#define GROWTH 4u

static size_t
line_most(const struct hspz_lastz *lastz, const char *segments)
{
    const size_t ambiguous = lastz->ambiguous != NULL ? strlen(lastz->ambiguous) : 0;
    const size_t scoring = lastz->scoring != NULL ? strlen(lastz->scoring) : 0;
    return LINE_BYTES +
           GROWTH * (strlen(lastz->ref) + strlen(lastz->query) + 5 * strlen(lastz->folder) +
                     2 * strlen(lastz->format) + ambiguous + scoring + 3 * strlen(segments));
}

char *
hspz_lastz_line(const struct hspz_lastz *lastz, size_t ref_block, size_t query_block,
                enum hspz_strand strand, const char *segments)
{
    char ref_name[64], query_name[64], base[256];
    char *const line = malloc(line_most(lastz, segments));
    if (line == NULL) {
        return NULL;
    }
    const size_t base_len = strlen(segments) - (sizeof(SEGMENTS_END) - 1);
    snprintf(ref_name, sizeof(ref_name), "ref_block%zu.name]", ref_block);
    snprintf(query_name, sizeof(query_name), "query_block%zu.name]", query_block);
    snprintf(base, sizeof(base), "%.*s", (int)base_len, segments);
    char *to = stpcpy(line, "lastz");
    to = PUT_WORD(to, lastz->ref, "[nameparse=darkspace][multiple][subset=", lastz->folder,
                  ref_name);
    to = PUT_WORD(to, lastz->query, "[nameparse=darkspace][subset=", lastz->folder, query_name);
    to = PUT_WORD(to, "--format=", lastz->format);
    to +=
        snprintf(to, 160, " --ydrop=%" PRIu64 " --gappedthresh=%" PRIu64 " --strand=%s",
                 lastz->ydrop, lastz->gappedthresh, strand == HSPZ_STRAND_PLUS ? "plus" : "minus");
    if (lastz->inner >= 0) {
        to += snprintf(to, 64, " --inner=%" PRId64, lastz->inner);
    }
    if (lastz->ambiguous != NULL) {
        to = PUT_WORD(to, "--ambiguous=", lastz->ambiguous);
    }
    if (lastz->notrivial) {
        to = stpcpy(to, " --notrivial");
    }
    if (lastz->scoring != NULL) {
        to = PUT_WORD(to, "--scores=", lastz->scoring);
    }
    to = PUT_WORD(to, "--segments=", lastz->folder, segments);
    to = PUT_WORD(to, "--output=", lastz->folder, base, ".", lastz->format);
    to = stpcpy(to, " 2>");
    to = PUT_WORD(to, lastz->folder, base, ".err");
    (void)stpcpy(to, "\n");
    return line;
}
