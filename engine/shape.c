#include "engine/shape.h"

#include <string.h>

#define SHOWN_BYTES 80 /* of a pattern, in an error */

static const struct {
    const char *name;
    const char *pattern;
} known[] = {
    {"12of19", "1110100110010101111"},
    {"14of22", "1110101100110010101111"},
};

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits, "of", digits: meant as a name, never a pattern. */
static bool
looks_like_name(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && is_digit(text[i])) {
        i++;
    }
    if (i == 0 || len - i < 3 || text[i] != 'o' || text[i + 1] != 'f') {
        return false;
    }
    for (i += 2; i < len; i++) {
        if (!is_digit(text[i])) {
            return false;
        }
    }
    return true;
}

static enum hspz_status
refuse(const char *text, size_t len, const char *reason, size_t weight, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "seed pattern '%.*s%s' has weight %zu and span %zu: %s",
                          (int)(len < SHOWN_BYTES ? len : SHOWN_BYTES), text,
                          len > SHOWN_BYTES ? "..." : "", weight, len, reason);
}

/* Weight of a pattern of `1`, `T` and `0`; any other byte is refused with its place. */
static enum hspz_status
weigh(const char *text, size_t len, size_t *weight, struct hspz_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '1' || text[i] == 'T') {
            count++;
        } else if (text[i] != '0') {
            return hspz_error_set(
                err, HSPZ_E_BAD_REQUEST,
                "seed pattern '%.*s%s' has byte 0x%02x at position %zu (weight so far %zu, span "
                "%zu): a pattern is made of 1, T and 0, or is 12of19 or 14of22",
                (int)(len < SHOWN_BYTES ? len : SHOWN_BYTES), text, len > SHOWN_BYTES ? "..." : "",
                (unsigned)(unsigned char)text[i], i + 1, count, len);
        }
    }
    *weight = count;
    return HSPZ_OK;
}

static void
fill_runs(struct hspz_shape *shape)
{
    uint32_t left = shape->weight; /* care positions from here on */
    bool in_run = false;
    for (uint32_t p = 0; p < shape->span; p++) {
        if (shape->pattern[p] == '0') {
            in_run = false;
            continue;
        }
        if (!in_run) {
            shape->run_shift[shape->runs] = 2 * (shape->span - p - left);
            shape->runs++;
            in_run = true;
        }
        left--;
        shape->run_mask[shape->runs - 1] |= UINT32_C(3) << (2 * left);
    }
}

enum hspz_status
hspz_shape_parse(const char *text, size_t len, struct hspz_shape *out, struct hspz_error *err)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) == len && memcmp(known[i].name, text, len) == 0) {
            text = known[i].pattern;
            len = strlen(text);
            break;
        }
    }
    if (looks_like_name(text, len)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "no seed is called '%.*s': the names are 12of19 and 14of22",
                              (int)(len < SHOWN_BYTES ? len : SHOWN_BYTES), text);
    }
    size_t weight = 0;
    const enum hspz_status status = weigh(text, len, &weight, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (weight < HSPZ_SHAPE_WEIGHT_MIN || weight > HSPZ_SHAPE_WEIGHT_MAX) {
        return refuse(text, len, "the weight must be 4 to 15", weight, err);
    }
    if (len > HSPZ_SHAPE_SPAN_MAX) {
        return refuse(text, len, "the span must be at most 64", weight, err);
    }
    struct hspz_shape shape = {.span = (uint32_t)len, .weight = (uint32_t)weight};
    for (size_t i = 0; i < len; i++) {
        shape.pattern[i] = text[i] == '0' ? '0' : '1';
    }
    fill_runs(&shape);
    *out = shape;
    return HSPZ_OK;
}

bool
hspz_shape_equal(const struct hspz_shape *a, const struct hspz_shape *b)
{
    return strcmp(a->pattern, b->pattern) == 0;
}
