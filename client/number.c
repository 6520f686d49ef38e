#include "client/number.h"

#include "protocol/types.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MOST 2000000u

/* Digits up to `end`; false when there are none, something else, or too many. */
static bool
read_digits(const char *text, const char *end, uint64_t *out)
{
    uint64_t value = 0;
    if (text == end) {
        return false;
    }
    for (; text < end; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        const uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *out = value;
    return true;
}

enum hspz_status
hspz_number_parse(const char *option, const char *text, uint64_t least, uint64_t most,
                  uint64_t *out, struct hspz_error *err)
{
    uint64_t value = 0;
    if (!read_digits(text, text + strlen(text), &value) || value < least || value > most) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s \"%.100s\": a whole number from %" PRIu64 " to %" PRIu64
                              " is needed",
                              option, text, least, most);
    }
    *out = value;
    return HSPZ_OK;
}

enum hspz_status
hspz_seconds_parse(const char *option, const char *text, bool forever, int64_t *out_ms,
                   struct hspz_error *err)
{
    if (forever && strcmp(text, "-1") == 0) {
        *out_ms = -1;
        return HSPZ_OK;
    }
    const char *end = text + strlen(text);
    const char *dot = strchr(text, '.');
    uint64_t seconds = 0;
    uint64_t fraction = 0;
    bool good = read_digits(text, dot != NULL ? dot : end, &seconds) && seconds <= SECONDS_MOST;
    if (good && dot != NULL) {
        good = end - dot >= 2 && end - dot <= 4 && read_digits(dot + 1, end, &fraction);
        for (int64_t places = end - dot - 1; places < 3; places++) {
            fraction *= 10;
        }
    }
    if (!good) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s \"%.100s\": seconds from 0 to %u are needed, with at most three "
                              "decimals%s",
                              option, text, SECONDS_MOST, forever ? ", or -1 for ever" : "");
    }
    *out_ms = (int64_t)(seconds * 1000 + fraction);
    return HSPZ_OK;
}

static const char *
skip_digits(const char *at)
{
    return at + strspn(at, "0123456789");
}

enum hspz_status
hspz_fraction_parse(const char *option, const char *text, double *out, struct hspz_error *err)
{
    const char *at = skip_digits(text);
    bool good = at > text;
    if (*at == '.') {
        const char *fraction = at + 1;
        at = skip_digits(fraction);
        good = good && at > fraction;
    }
    if (*at == 'e' || *at == 'E') {
        const char *exponent = at + 1 + (at[1] == '-' || at[1] == '+');
        at = skip_digits(exponent);
        good = good && at > exponent;
    }
    const double value = good && *at == '\0' ? strtod(text, NULL) : -1;
    if (!(value >= 0) || !isfinite(value)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s \"%.100s\": a number such as 0.001 or 1e-3 is needed", option,
                              text);
    }
    *out = value;
    return HSPZ_OK;
}

static unsigned
hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                  : 16;
}

bool
hspz_key_parse(const char *text, size_t len, uint64_t *out)
{
    if (len < 2 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) {
        return read_digits(text, text + len, out);
    }
    uint64_t value = 0;
    for (size_t i = 2; i < len; i++) {
        const unsigned digit = hex_digit(text[i]);
        if (digit == 16 || value >> 60 != 0) {
            return false;
        }
        value = value << 4 | digit;
    }
    *out = value;
    return len > 2;
}

#define KEGALIGN_HITS_PER_GIB UINT64_C(4194304)
#define GIB_MOST 1048576u

enum hspz_status
hspz_max_hits_parse(const char *text, uint64_t *out, struct hspz_error *err)
{
    static const char prefix[] = "kegalign:";
    if (strncmp(text, prefix, sizeof(prefix) - 1) != 0) {
        return hspz_number_parse("--max-hits", text, 1, UINT64_MAX, out, err);
    }
    uint64_t gib = 0;
    const enum hspz_status status = hspz_number_parse(
        "--max-hits kegalign:GIB", text + sizeof(prefix) - 1, 1, GIB_MOST, &gib, err);
    if (status == HSPZ_OK) {
        *out = gib * KEGALIGN_HITS_PER_GIB;
    }
    return status;
}

/* Digits before and behind a point as a number of ten-thousandths; false if it is none. */
static bool
percent_parse(const char *text, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    size_t decimals = 0, digits = 0;
    bool point = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.' && !point && digits > 0) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || digits == 7 || decimals == 4) {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
        digits++;
        decimals += point;
    }
    for (; decimals < 4; decimals++) {
        value *= 10;
    }
    *out = value;
    return digits > 0 && text[len - 1] != '.';
}

enum hspz_status
hspz_word_count_parse(const char *text, uint64_t *count, uint64_t *keep, struct hspz_error *err)
{
    const size_t len = strlen(text);
    if (len == 0 || text[len - 1] != '%') {
        return hspz_number_parse("--max-word-count", text, 0, UINT64_MAX, count, err);
    }
    uint64_t value = 0;
    if (!percent_parse(text, len - 1, &value) || value < 1 || value > HSPZ_KEEP_ALL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--max-word-count \"%.100s\": a percentage is above 0 and up to "
                              "100%%, with four decimals at most",
                              text);
    }
    *keep = value;
    return HSPZ_OK;
}
