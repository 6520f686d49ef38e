#include "client/json.h"

#include "protocol/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t
hspz_json_escape(char *dst, const char *text, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    const bool utf8 = hspz_utf8_prefix((const uint8_t *)text, len) == len;
    char *to = dst;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            *to++ = '\\';
            *to++ = (char)c;
        } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
            memcpy(to, "\\u00", 4);
            to[4] = hex[c >> 4];
            to[5] = hex[c & 15];
            to += 6;
        } else {
            *to++ = (char)c;
        }
    }
    return (size_t)(to - dst);
}

struct text {
    char *bytes;
    size_t len, capacity;
    bool failed;
};

/* Room for `more` bytes; NULL once memory is out. */
static char *
grow(struct text *text, size_t more)
{
    if (text->failed || text->capacity - text->len >= more) {
        return text->failed ? NULL : text->bytes + text->len;
    }
    const size_t capacity = 2 * (text->len + more) + 256;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return NULL;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return bytes + text->len;
}

static void
put(struct text *text, const char *bytes)
{
    const size_t len = strlen(bytes);
    char *to = grow(text, len);
    if (to != NULL) {
        memcpy(to, bytes, len);
        text->len += len;
    }
}

static void
put_string(struct text *text, const struct hspz_node *node)
{
    struct hspz_span span = {0};
    (void)hspz_node_str(node, &span);
    char *to = grow(text, HSPZ_JSON_GROWTH * span.len + 2);
    if (to != NULL) {
        to[0] = '"';
        const size_t len = hspz_json_escape(to + 1, (const char *)span.bytes, span.len);
        to[len + 1] = '"';
        text->len += len + 2;
    }
}

static void
put_scalar(struct text *text, const struct hspz_node *node)
{
    char number[64] = "null";
    uint64_t u = 0;
    int64_t i = 0;
    double f = 0;
    bool b = false;
    if (hspz_node_bool(node, &b)) {
        snprintf(number, sizeof(number), "%s", b ? "true" : "false");
    } else if (hspz_node_uint(node, &u)) {
        snprintf(number, sizeof(number), "%" PRIu64, u);
    } else if (hspz_node_int(node, &i)) {
        snprintf(number, sizeof(number), "%" PRId64, i);
    } else if (hspz_node_float(node, &f) && isfinite(f)) {
        snprintf(number, sizeof(number), "%.15g", f);
        /* A library's caller may have set a locale with a decimal comma. */
        for (char *c = number; *c != '\0'; c++) {
            *c = *c == ',' ? '.' : *c;
        }
    }
    put(text, number);
}

/* Nesting is bounded by HSPZ_FRAME_DEPTH_LIMIT. */
static void
put_node(struct text *text, const struct hspz_node *node)
{
    const size_t count = hspz_node_count(node);
    switch (hspz_node_type(node)) {
    case HSPZ_NODE_STR:
        put_string(text, node);
        break;
    case HSPZ_NODE_ARRAY:
        put(text, "[");
        for (size_t i = 0; i < count; i++) {
            put(text, i > 0 ? ", " : "");
            put_node(text, hspz_node_at(node, i));
        }
        put(text, "]");
        break;
    case HSPZ_NODE_MAP:
        put(text, "{");
        bool first = true;
        for (size_t i = 0; i < count; i++) {
            const struct hspz_node *key = hspz_node_key_at(node, i);
            if (hspz_node_type(key) == HSPZ_NODE_STR) {
                put(text, first ? "" : ", ");
                put_string(text, key);
                put(text, ": ");
                put_node(text, hspz_node_value_at(node, i));
                first = false;
            }
        }
        put(text, "}");
        break;
    default:
        put_scalar(text, node);
        break;
    }
}

enum hspz_status
hspz_json_of_node(const struct hspz_node *node, char **out)
{
    struct text text = {0};
    put_node(&text, node);
    char *end = grow(&text, 1);
    if (end == NULL) {
        free(text.bytes);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    *end = '\0';
    *out = text.bytes;
    return HSPZ_OK;
}
