#include "protocol/fields.h"

#include "protocol/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *
hspz_node_describe(const struct hspz_node *node, char out[HSPZ_NODE_TEXT_BYTES])
{
    char quote[HSPZ_QUOTE_BYTES];
    struct hspz_span span;
    bool flag = false;
    uint64_t number = 0;
    int64_t negative = 0;
    double real = 0;
    switch (hspz_node_type(node)) {
    case HSPZ_NODE_NIL:
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "nil");
        break;
    case HSPZ_NODE_BOOL:
        hspz_node_bool(node, &flag);
        snprintf(out, HSPZ_NODE_TEXT_BYTES, flag ? "true" : "false");
        break;
    case HSPZ_NODE_UINT:
        hspz_node_uint(node, &number);
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "%" PRIu64, number);
        break;
    case HSPZ_NODE_INT:
        hspz_node_int(node, &negative);
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "%" PRId64, negative);
        break;
    case HSPZ_NODE_FLOAT:
        hspz_node_float(node, &real);
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "the float %.17g", real);
        break;
    case HSPZ_NODE_STR:
        hspz_node_str(node, &span);
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "the str %s", hspz_text_quote(span, quote));
        break;
    case HSPZ_NODE_BIN:
        hspz_node_bin(node, &span);
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "a bin of %zu bytes", span.len);
        break;
    case HSPZ_NODE_ARRAY:
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "an array of %zu", hspz_node_count(node));
        break;
    case HSPZ_NODE_MAP:
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "a map of %zu", hspz_node_count(node));
        break;
    case HSPZ_NODE_EXT:
        snprintf(out, HSPZ_NODE_TEXT_BYTES, "an ext");
        break;
    }
    return out;
}

static enum hspz_status
wrong(const struct hspz_field *field, const struct hspz_node *node, const char *wanted,
      struct hspz_error *err)
{
    char text[HSPZ_NODE_TEXT_BYTES];
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" is %s, wanted %s", field->key,
                          hspz_node_describe(node, text), wanted);
}

static enum hspz_status
number_decode(const struct hspz_field *field, const struct hspz_node *node, void *place,
              struct hspz_error *err)
{
    uint64_t value = 0;
    if (!hspz_node_uint(node, &value) || value < field->min || value > field->max) {
        char wanted[80];
        snprintf(wanted, sizeof(wanted), "a whole number from %" PRIu64 " to %" PRIu64, field->min,
                 field->max);
        return wrong(field, node, wanted, err);
    }
    if (field->type == HSPZ_FIELD_UINT32) {
        HSPZ_REQUIRE(field->max <= UINT32_MAX);
        *(uint32_t *)place = (uint32_t)value;
    } else {
        *(uint64_t *)place = value;
    }
    return HSPZ_OK;
}

static enum hspz_status
count_decode(const struct hspz_field *field, const struct hspz_node *node, uint32_t *place,
             struct hspz_error *err)
{
    bool flag = false;
    uint64_t value = 0;
    if (hspz_node_bool(node, &flag)) {
        value = flag;
    } else if (!hspz_node_uint(node, &value) || value < field->min || value > field->max) {
        char wanted[80];
        snprintf(wanted, sizeof(wanted),
                 "true, false or a whole number from %" PRIu64 " to %" PRIu64, field->min,
                 field->max);
        return wrong(field, node, wanted, err);
    }
    *place = (uint32_t)value;
    return HSPZ_OK;
}

/* Says nothing of the text itself, which may be a secret. */
enum hspz_status
hspz_field_text_check(const struct hspz_field *field, struct hspz_span text, struct hspz_error *err)
{
    if (text.len < field->min || text.len > field->max) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"%s\" has %zu bytes, wanted %" PRIu64 " to %" PRIu64, field->key,
                              text.len, field->min, field->max);
    }
    const size_t valid = hspz_utf8_prefix(text.bytes, text.len);
    if (valid < text.len) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" is not UTF-8 at byte %zu",
                              field->key, valid);
    }
    const size_t control = hspz_text_control(text.bytes, text.len);
    if (control < text.len) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"%s\" has a control character (0x%02x) at byte %zu", field->key,
                              (unsigned)text.bytes[control], control);
    }
    return HSPZ_OK;
}

static enum hspz_status
text_decode(const struct hspz_field *field, const struct hspz_node *node, struct hspz_text *place,
            struct hspz_error *err)
{
    struct hspz_span span;
    if (field->type == HSPZ_FIELD_RAW) {
        if (!hspz_node_text(node, &span)) {
            return wrong(field, node, "a str or a bin", err);
        }
    } else if (!hspz_node_str(node, &span)) {
        return wrong(field, node, "a str", err);
    } else {
        const enum hspz_status status = hspz_field_text_check(field, span, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    *place = (struct hspz_text){(const char *)span.bytes, span.len};
    return HSPZ_OK;
}

static enum hspz_status
digest_decode(const struct hspz_field *field, const struct hspz_node *node, struct hspz_text *place,
              struct hspz_error *err)
{
    struct hspz_span span = {0};
    bool good = hspz_node_str(node, &span) && span.len == 16;
    for (size_t i = 0; good && i < span.len; i++) {
        const uint8_t c = span.bytes[i];
        good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    if (!good) {
        return wrong(field, node, "16 lower-case hexadecimal digits", err);
    }
    *place = (struct hspz_text){(const char *)span.bytes, span.len};
    return HSPZ_OK;
}

static enum hspz_status
payload_decode(const struct hspz_field *field, const struct hspz_node *node,
               struct hspz_payload *place, struct hspz_error *err)
{
    struct place {
        uint64_t offset, length;
    } map;
    static const struct hspz_field rows[] = {
        {"offset", HSPZ_FIELD_UINT, true, offsetof(struct place, offset), 0, UINT64_MAX},
        {"length", HSPZ_FIELD_UINT, true, offsetof(struct place, length), 0, SIZE_MAX},
    };
    const struct hspz_fields fields = {field->key, rows, 2, false};
    *place = (struct hspz_payload){0};
    if (hspz_node_bin(node, &place->span)) {
        return HSPZ_OK;
    }
    if (hspz_node_type(node) != HSPZ_NODE_MAP) {
        return wrong(field, node, "a bin, or a map of its offset and length", err);
    }
    uint32_t seen;
    const enum hspz_status status = hspz_fields_decode(&fields, node, &map, &seen, err);
    if (status == HSPZ_OK) {
        *place = (struct hspz_payload){
            .span.len = (size_t)map.length, .placed = true, .offset = map.offset};
    }
    return status;
}

enum hspz_status
hspz_field_decode(const struct hspz_field *field, const struct hspz_node *node, void *out,
                  struct hspz_error *err)
{
    void *place = (char *)out + field->offset;
    switch (field->type) {
    case HSPZ_FIELD_UINT:
    case HSPZ_FIELD_UINT32:
        return number_decode(field, node, place, err);
    case HSPZ_FIELD_FLOAT:
        return hspz_node_float(node, place) ? HSPZ_OK : wrong(field, node, "a float", err);
    case HSPZ_FIELD_BOOL:
        return hspz_node_bool(node, place) ? HSPZ_OK : wrong(field, node, "true or false", err);
    case HSPZ_FIELD_COUNT:
        return count_decode(field, node, place, err);
    case HSPZ_FIELD_TEXT:
    case HSPZ_FIELD_RAW:
        return text_decode(field, node, place, err);
    case HSPZ_FIELD_DIGEST:
        return digest_decode(field, node, place, err);
    case HSPZ_FIELD_BIN:
        return hspz_node_bin(node, place) ? HSPZ_OK : wrong(field, node, "a bin", err);
    case HSPZ_FIELD_BYTES:
        return payload_decode(field, node, place, err);
    case HSPZ_FIELD_MAP:
        if (hspz_node_type(node) != HSPZ_NODE_MAP) {
            return wrong(field, node, "a map", err);
        }
        break;
    case HSPZ_FIELD_ARRAY:
        if (hspz_node_type(node) != HSPZ_NODE_ARRAY || hspz_node_count(node) < field->min ||
            hspz_node_count(node) > field->max) {
            char wanted[80];
            snprintf(wanted, sizeof(wanted), "an array of %" PRIu64 " to %" PRIu64, field->min,
                     field->max);
            return wrong(field, node, wanted, err);
        }
        break;
    }
    *(const struct hspz_node **)place = node;
    return HSPZ_OK;
}

static const struct hspz_field *
find(const struct hspz_fields *fields, const struct hspz_node *key)
{
    for (size_t i = 0; i < fields->count; i++) {
        if (hspz_node_str_is(key, fields->rows[i].key)) {
            return &fields->rows[i];
        }
    }
    return NULL;
}

static enum hspz_status
pair_decode(const struct hspz_fields *fields, const struct hspz_node *key,
            const struct hspz_node *value, void *out, uint32_t *seen, struct hspz_error *err)
{
    char text[HSPZ_NODE_TEXT_BYTES];
    struct hspz_span name;
    if (!hspz_node_str(key, &name)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a key of %s is %s, wanted a str",
                              fields->what, hspz_node_describe(key, text));
    }
    const struct hspz_field *field = find(fields, key);
    if (field == NULL) {
        char quote[HSPZ_QUOTE_BYTES];
        return fields->open ? HSPZ_OK
                            : hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s is not a key of %s",
                                             hspz_text_quote(name, quote), fields->what);
    }
    const uint32_t bit = UINT32_C(1) << (field - fields->rows);
    if ((*seen & bit) != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" is given twice in %s", field->key,
                              fields->what);
    }
    *seen |= bit;
    return hspz_field_decode(field, value, out, err);
}

enum hspz_status
hspz_fields_decode(const struct hspz_fields *fields, const struct hspz_node *map, void *out,
                   uint32_t *seen, struct hspz_error *err)
{
    HSPZ_REQUIRE(fields->count <= 32);
    *seen = 0;
    if (map != NULL && hspz_node_type(map) != HSPZ_NODE_MAP) {
        char text[HSPZ_NODE_TEXT_BYTES];
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: wanted a map, this is %s", fields->what,
                              hspz_node_describe(map, text));
    }
    for (size_t i = 0; i < hspz_node_count(map); i++) {
        const enum hspz_status status = pair_decode(fields, hspz_node_key_at(map, i),
                                                    hspz_node_value_at(map, i), out, seen, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->rows[i].required && (*seen & UINT32_C(1) << i) == 0) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" is missing in %s",
                                  fields->rows[i].key, fields->what);
        }
    }
    return HSPZ_OK;
}

bool
hspz_fields_has(uint32_t seen, unsigned row)
{
    return (seen & UINT32_C(1) << row) != 0;
}

bool
hspz_text_is(struct hspz_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.bytes, word, text.len) == 0;
}

enum hspz_status
hspz_field_not_one_of(const char *key, struct hspz_text text, const char *choices,
                      struct hspz_error *err)
{
    char quote[HSPZ_QUOTE_BYTES];
    const struct hspz_span span = {(const uint8_t *)text.bytes, text.len};
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" is %s, wanted %s", key,
                          hspz_text_quote(span, quote), choices);
}

enum hspz_status
hspz_transport_decode(struct hspz_text text, bool *shm, struct hspz_error *err)
{
    *shm = hspz_text_is(text, "shm");
    return *shm || text.len == 0 || hspz_text_is(text, "stream")
               ? HSPZ_OK
               : hspz_field_not_one_of("transport", text, "\"stream\" or \"shm\"", err);
}
