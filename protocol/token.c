#include "protocol/token.h"

#include <inttypes.h>

enum token_kind { TOKEN_SCALAR, TOKEN_BYTES, TOKEN_BIN, TOKEN_ARRAY, TOKEN_MAP, TOKEN_BAD };

struct token_form {
    enum token_kind kind;
    uint8_t length_bytes; /* big-endian length after the first byte */
    uint8_t extra;        /* body bytes beside those the length counts */
    uint8_t fixed;        /* the length when length_bytes is 0 */
};

/* First bytes 0xc0 to 0xdf. */
static const struct token_form forms[32] = {
    {TOKEN_SCALAR, 0, 0, 0},                                                   /* c0 nil */
    {TOKEN_BAD, 0, 0, 0},                                                      /* c1 never used */
    {TOKEN_SCALAR, 0, 0, 0},                                                   /* c2 false */
    {TOKEN_SCALAR, 0, 0, 0},                                                   /* c3 true */
    {TOKEN_BIN, 1, 0, 0},                                                      /* c4 bin */
    {TOKEN_BIN, 2, 0, 0},    {TOKEN_BIN, 4, 0, 0},    {TOKEN_BYTES, 1, 1, 0},  /* c7 ext */
    {TOKEN_BYTES, 2, 1, 0},  {TOKEN_BYTES, 4, 1, 0},  {TOKEN_SCALAR, 0, 0, 4}, /* ca float */
    {TOKEN_SCALAR, 0, 0, 8}, {TOKEN_SCALAR, 0, 0, 1},                          /* cc uint */
    {TOKEN_SCALAR, 0, 0, 2}, {TOKEN_SCALAR, 0, 0, 4}, {TOKEN_SCALAR, 0, 0, 8},
    {TOKEN_SCALAR, 0, 0, 1}, /* d0 int */
    {TOKEN_SCALAR, 0, 0, 2}, {TOKEN_SCALAR, 0, 0, 4}, {TOKEN_SCALAR, 0, 0, 8},
    {TOKEN_BYTES, 0, 1, 1}, /* d4 fixext */
    {TOKEN_BYTES, 0, 1, 2},  {TOKEN_BYTES, 0, 1, 4},  {TOKEN_BYTES, 0, 1, 8},
    {TOKEN_BYTES, 0, 1, 16}, {TOKEN_BYTES, 1, 0, 0},                          /* d9 str */
    {TOKEN_BYTES, 2, 0, 0},  {TOKEN_BYTES, 4, 0, 0},  {TOKEN_ARRAY, 2, 0, 0}, /* dc array */
    {TOKEN_ARRAY, 4, 0, 0},  {TOKEN_MAP, 2, 0, 0},                            /* de map */
    {TOKEN_MAP, 4, 0, 0},
};

static struct token_form
form_of(uint8_t first)
{
    if (first >= 0xc0 && first <= 0xdf) {
        return forms[first - 0xc0];
    }
    if (first >= 0x80 && first <= 0x8f) {
        return (struct token_form){TOKEN_MAP, 0, 0, first & 0x0f};
    }
    if (first >= 0x90 && first <= 0x9f) {
        return (struct token_form){TOKEN_ARRAY, 0, 0, first & 0x0f};
    }
    if (first >= 0xa0 && first <= 0xbf) {
        return (struct token_form){TOKEN_BYTES, 0, 0, first & 0x1f};
    }
    return (struct token_form){TOKEN_SCALAR, 0, 0, 0};
}

void
hspz_token_walk_init(struct hspz_token_walk *walk, uint64_t max_message)
{
    *walk = (struct hspz_token_walk){.max_message = max_message, .values = 1};
}

static enum hspz_status
account(struct hspz_token_walk *walk, uint64_t bytes, bool large, struct hspz_error *err)
{
    /* Neither sum wraps: a length has at most 32 bits and each total is checked as it grows. */
    if (bytes > walk->max_message || walk->total_bytes > walk->max_message - bytes) {
        hspz_error_set(err, HSPZ_E_TOO_LARGE, "the message would be larger than %" PRIu64 " bytes",
                       walk->max_message);
        return hspz_error_limit(err, HSPZ_E_TOO_LARGE, walk->max_message);
    }
    if (!large && walk->header_bytes + bytes > HSPZ_FRAME_HEADER_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "the message has more than %u bytes outside its large bins",
                              HSPZ_FRAME_HEADER_LIMIT);
    }
    walk->total_bytes += bytes;
    walk->header_bytes += large ? 0 : bytes;
    return HSPZ_OK;
}

static enum hspz_status
enter(struct hspz_token_walk *walk, const char *what, uint64_t values, struct hspz_error *err)
{
    if (walk->open == HSPZ_FRAME_DEPTH_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "arrays and maps nest deeper than %u levels",
                              HSPZ_FRAME_DEPTH_LIMIT);
    }
    if (values > HSPZ_FRAME_ITEMS_LIMIT - walk->values) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s of %" PRIu64 " values takes the message over %u values", what,
                              values, HSPZ_FRAME_ITEMS_LIMIT);
    }
    if (values > 0) {
        walk->values += (uint32_t)values;
        walk->left[walk->open++] = (uint32_t)values;
        walk->entered = true;
    }
    return HSPZ_OK;
}

static enum hspz_status
header_complete(struct hspz_token_walk *walk, struct token_form form, struct hspz_error *err)
{
    uint64_t length = form.fixed;
    for (size_t i = 1; i < walk->header_len; i++) {
        length = length << 8 | walk->header[i];
    }
    switch (form.kind) {
    case TOKEN_ARRAY:
        return enter(walk, "an array", length, err);
    case TOKEN_MAP:
        return enter(walk, "a map", 2 * length, err);
    case TOKEN_BIN:
        walk->large = length > HSPZ_FRAME_INLINE_BIN;
        break;
    case TOKEN_SCALAR:
    case TOKEN_BYTES:
    case TOKEN_BAD:
        break;
    }
    walk->body_bytes = length + form.extra;
    return account(walk, walk->body_bytes, walk->large, err);
}

enum hspz_status
hspz_token_walk_byte(struct hspz_token_walk *walk, uint8_t byte, bool *complete,
                     struct hspz_error *err)
{
    const enum hspz_status status = account(walk, 1, false, err);
    if (status != HSPZ_OK) {
        return status;
    }
    walk->header[walk->header_len++] = byte;
    const struct token_form form = form_of(walk->header[0]);
    if (form.kind == TOKEN_BAD) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "byte %" PRIu64 " of the message is 0x%02x, which is not MessagePack",
                              walk->total_bytes - 1, (unsigned)byte);
    }
    *complete = walk->header_len == 1 + form.length_bytes;
    return *complete ? header_complete(walk, form, err) : HSPZ_OK;
}

bool
hspz_token_walk_next(struct hspz_token_walk *walk)
{
    walk->header_len = 0;
    walk->body_bytes = 0;
    walk->large = false;
    if (walk->entered) {
        walk->entered = false;
        return false;
    }
    while (walk->open > 0) {
        if (--walk->left[walk->open - 1] > 0) {
            return false;
        }
        walk->open--;
    }
    return true;
}
