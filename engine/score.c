#include "engine/score.h"

#include "engine/score_p.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tables of 256 constant expressions: entry i is f(i). */
#define TABLE_4(f, i) f((i)), f((i) + 1), f((i) + 2), f((i) + 3)
#define TABLE_16(f, i)                                                                             \
    TABLE_4(f, (i)), TABLE_4(f, (i) + 4), TABLE_4(f, (i) + 8), TABLE_4(f, (i) + 12)
#define TABLE_64(f, i)                                                                             \
    TABLE_16(f, (i)), TABLE_16(f, (i) + 16), TABLE_16(f, (i) + 32), TABLE_16(f, (i) + 48)
#define TABLE_256(f) TABLE_64(f, 0), TABLE_64(f, 64), TABLE_64(f, 128), TABLE_64(f, 192)

#define IS_LOWER_ACGT(c) ((c) == 'a' || (c) == 'c' || (c) == 'g' || (c) == 't')
#define CLASS(c)                                                                                   \
    ((c) == 'A'                 ? HSPZ_CLASS_A                                                     \
     : (c) == 'C'               ? HSPZ_CLASS_C                                                     \
     : (c) == 'G'               ? HSPZ_CLASS_G                                                     \
     : (c) == 'T'               ? HSPZ_CLASS_T                                                     \
     : IS_LOWER_ACGT(c)         ? HSPZ_CLASS_LOWER                                                 \
     : (c) == 'N' || (c) == 'n' ? HSPZ_CLASS_N                                                     \
     : (c) == HSPZ_SEPARATOR    ? HSPZ_CLASS_SEPARATOR                                             \
                                : HSPZ_CLASS_OTHER)
#define CLASS_UNMASKED(c) CLASS(IS_LOWER_ACGT(c) ? (c)-32 : (c))
/* A C G T are 0 to 3, and the complement of i is 3 - i. */
#define COMPLEMENT(k) ((k) < 4 ? 3 - (k) : (k))
#define CLASS_COMPLEMENT(c) COMPLEMENT(CLASS(c))
#define CLASS_UNMASKED_COMPLEMENT(c) COMPLEMENT(CLASS_UNMASKED(c))

static const uint8_t classes[2][2][256] = {
    {{TABLE_256(CLASS)}, {TABLE_256(CLASS_COMPLEMENT)}},
    {{TABLE_256(CLASS_UNMASKED)}, {TABLE_256(CLASS_UNMASKED_COMPLEMENT)}},
};

static const int32_t hoxd70[16] = {
    91,   -114, -31,  -123, /* A */
    -114, 100,  -125, -31,  /* C */
    -31,  -125, 100,  -114, /* G */
    -123, -31,  -114, 91,   /* T */
};

#define XDROP_DEFAULT 910
#define THRESHOLD_DEFAULT 3000

const uint8_t *
hspz_base_classes(bool unmask, bool complement)
{
    return classes[unmask][complement];
}

static void
set_pair(int32_t *scores, int a, int b, int32_t score)
{
    scores[a * HSPZ_CLASSES + b] = score;
    scores[b * HSPZ_CLASSES + a] = score;
}

void
hspz_scores_fill(int32_t *scores, const int32_t *acgt, int32_t bad, int32_t fill)
{
    for (int a = 0; a < 4; a++) {
        memcpy(scores + a * HSPZ_CLASSES, acgt + a * 4, 4 * sizeof(*acgt));
        set_pair(scores, a, HSPZ_CLASS_LOWER, bad);
        set_pair(scores, a, HSPZ_CLASS_N, bad);
        set_pair(scores, a, HSPZ_CLASS_OTHER, fill);
    }
    for (int a = HSPZ_CLASS_LOWER; a <= HSPZ_CLASS_OTHER; a++) {
        set_pair(scores, a, HSPZ_CLASS_LOWER, bad);
        set_pair(scores, a, HSPZ_CLASS_N, bad);
    }
    set_pair(scores, HSPZ_CLASS_OTHER, HSPZ_CLASS_OTHER, fill);
}

void
hspz_scoring_init(struct hspz_scoring *scoring)
{
    *scoring = (struct hspz_scoring){
        .xdrop = XDROP_DEFAULT,
        .threshold = THRESHOLD_DEFAULT,
        .entropy = true,
        .scope = HSPZ_SCOPE_JOB,
        .limit = UINT64_MAX,
    };
    hspz_scores_fill(scoring->scores, hoxd70, HSPZ_BAD_SCORE_DEFAULT, HSPZ_FILL_SCORE_DEFAULT);
    for (int a = 0; a < HSPZ_CLASSES; a++) {
        set_pair(scoring->scores, a, HSPZ_CLASS_SEPARATOR, -10 * XDROP_DEFAULT);
    }
}

bool
hspz_score_parse(const char *text, int32_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    const size_t len = strlen(digits);
    if (len == 0 || len > 18 || strspn(digits, "0123456789") != len) {
        return false;
    }
    const long long value = strtoll(text, NULL, 10);
    if (value < -HSPZ_SCORE_LIMIT || value > HSPZ_SCORE_LIMIT) {
        return false;
    }
    *out = (int32_t)value;
    return true;
}

/* Cuts the text at its commas; returns how many parts there are, at most `limit`. */
static size_t
split(char *text, char **parts, size_t limit)
{
    size_t count = 0;
    for (char *part = text; part != NULL && count < limit;) {
        char *comma = strchr(part, ',');
        if (comma != NULL) {
            *comma++ = '\0';
        }
        parts[count++] = part;
        part = comma;
    }
    return count;
}

enum hspz_status
hspz_scoring_ambiguous(struct hspz_scoring *scoring, const char *option, struct hspz_error *err)
{
    char text[64];
    char *parts[4];
    int32_t values[2] = {0, 0}; /* reward, penalty */
    const size_t len = strlen(option);
    if (len < sizeof(text)) {
        memcpy(text, option, len + 1);
    }
    const size_t count = len < sizeof(text) ? split(text, parts, 4) : 0;
    const bool iupac = count > 0 && strcmp(parts[0], "iupac") == 0;
    if (count < 1 || count > 3 || !(iupac || strcmp(parts[0], "n") == 0)) {
        return hspz_error_set(
            err, HSPZ_E_BAD_REQUEST,
            "ambiguous '%.40s%s': it is n or iupac, then nothing, ,PENALTY or ,REWARD,PENALTY",
            option, len > 40 ? "..." : "");
    }
    for (size_t i = 1; i < count; i++) {
        if (!hspz_score_parse(parts[i], &values[2 - count + i])) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "ambiguous '%s': its %s '%s' is no whole number from %d to %d",
                                  option, i + 1 == count ? "penalty" : "reward", parts[i],
                                  -HSPZ_SCORE_LIMIT, HSPZ_SCORE_LIMIT);
        }
    }
    for (int n = HSPZ_CLASS_N; n <= (iupac ? HSPZ_CLASS_OTHER : HSPZ_CLASS_N); n++) {
        for (int a = 0; a < n; a++) {
            set_pair(scoring->scores, a, n, -values[1]);
        }
        set_pair(scoring->scores, n, n, values[0]);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_scoring_check(const struct hspz_scoring *scoring, struct hspz_error *err)
{
    for (int i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
        const int32_t score = scoring->scores[i];
        if (score < -HSPZ_SCORE_LIMIT || score > HSPZ_SCORE_LIMIT) {
            return hspz_error_set(
                err, HSPZ_E_BAD_REQUEST, "score %d (class %d with %d) is %" PRId32 ", not %d to %d",
                i, i / HSPZ_CLASSES, i % HSPZ_CLASSES, score, -HSPZ_SCORE_LIMIT, HSPZ_SCORE_LIMIT);
        }
    }
    if (scoring->xdrop < 0 || scoring->xdrop > HSPZ_XDROP_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "xdrop is %" PRId32 ", not 0 to %d",
                              scoring->xdrop, HSPZ_XDROP_LIMIT);
    }
    if (scoring->threshold < 1 || scoring->threshold > HSPZ_XDROP_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "the HSP threshold is %" PRId32 ", not 1 to %d", scoring->threshold,
                              HSPZ_XDROP_LIMIT);
    }
    if (scoring->scope != HSPZ_SCOPE_JOB && scoring->scope != HSPZ_SCOPE_CHUNK) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "there is no scope %d", (int)scoring->scope);
    }
    return HSPZ_OK;
}
