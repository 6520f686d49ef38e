/* Method names and the envelope of a message. */
#include "protocol/message.h"

#include "protocol/fields.h"

#include <string.h>

static const char *const method_names[HSPZ_METHOD_COUNT] = {
#define HSPZ_METHOD_ROW(id, name) [id] = (name),
    HSPZ_METHOD_LIST(HSPZ_METHOD_ROW)
#undef HSPZ_METHOD_ROW
};

const char *
hspz_method_name(enum hspz_method method)
{
    HSPZ_REQUIRE((unsigned)method < HSPZ_METHOD_COUNT);
    return method_names[method];
}

size_t
hspz_record_bytes(enum hspz_records records)
{
    return records == HSPZ_RECORDS_HSPS ? HSPZ_HSP_BYTES : HSPZ_ANCHOR_BYTES;
}

bool
hspz_part_method(struct hspz_text name, enum hspz_records *out)
{
    const bool hsps = name.len == 4 && memcmp(name.bytes, "hsps", 4) == 0;
    if (!hsps && !(name.len == 7 && memcmp(name.bytes, "anchors", 7) == 0)) {
        return false;
    }
    *out = hsps ? HSPZ_RECORDS_HSPS : HSPZ_RECORDS_ANCHORS;
    return true;
}

static bool
as_text(const struct hspz_node *node, struct hspz_text *out)
{
    struct hspz_span span;
    if (!hspz_node_str(node, &span)) {
        return false;
    }
    *out = (struct hspz_text){(const char *)span.bytes, span.len};
    return true;
}

static bool
as_id(const struct hspz_node *node, uint32_t *out)
{
    uint64_t value;
    if (!hspz_node_uint(node, &value) || value > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static enum hspz_status
envelope_wrong(const char *what, const struct hspz_node *node, const char *wanted,
               struct hspz_error *err)
{
    char text[HSPZ_NODE_TEXT_BYTES];
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s is %s, wanted %s", what,
                          hspz_node_describe(node, text), wanted);
}

static enum hspz_status
request_decode(const struct hspz_node *root, struct hspz_message *out, struct hspz_error *err)
{
    if (hspz_node_count(root) != 4) {
        return envelope_wrong("the request", root, "[0, id, method, [params]]", err);
    }
    const struct hspz_node *method = hspz_node_at(root, 2);
    if (!as_text(method, &out->method_name)) {
        return envelope_wrong("the method", method, "a str", err);
    }
    for (unsigned i = 0; i < HSPZ_METHOD_COUNT; i++) {
        if (hspz_node_str_is(method, method_names[i])) {
            out->known = true;
            out->method = (enum hspz_method)i;
        }
    }
    if (!out->known) {
        return HSPZ_OK;
    }
    const struct hspz_node *params = hspz_node_at(root, 3);
    if (hspz_node_type(params) != HSPZ_NODE_ARRAY || hspz_node_count(params) > 1) {
        return envelope_wrong("params", params, "an array that holds one map or nothing", err);
    }
    const struct hspz_node *map = hspz_node_at(params, 0);
    if (map != NULL && hspz_node_type(map) != HSPZ_NODE_MAP) {
        return envelope_wrong("the element of params", map, "a map", err);
    }
    out->params = map;
    return HSPZ_OK;
}

static enum hspz_status
response_decode(const struct hspz_node *root, struct hspz_message *out, struct hspz_error *err)
{
    if (hspz_node_count(root) != 4 || !as_id(hspz_node_at(root, 1), &out->id)) {
        return envelope_wrong("the response", root, "[1, id, error, result]", err);
    }
    out->error = hspz_node_at(root, 2);
    out->result = hspz_node_at(root, 3);
    return HSPZ_OK;
}

static enum hspz_status
notification_decode(const struct hspz_node *root, struct hspz_message *out, struct hspz_error *err)
{
    if (hspz_node_count(root) != 3 || !as_text(hspz_node_at(root, 1), &out->method_name) ||
        hspz_node_type(hspz_node_at(root, 2)) != HSPZ_NODE_ARRAY) {
        return envelope_wrong("the notification", root, "[2, method, [params...]]", err);
    }
    out->params = hspz_node_at(root, 2);
    return HSPZ_OK;
}

enum hspz_status
hspz_message_decode(const struct hspz_doc *doc, struct hspz_message *out, bool *answerable,
                    struct hspz_error *err)
{
    const struct hspz_node *root = hspz_doc_root(doc);
    *out = (struct hspz_message){0};
    *answerable = false;
    uint64_t kind = 3;
    if (hspz_node_type(root) != HSPZ_NODE_ARRAY) {
        return envelope_wrong("the message", root, "an array", err);
    }
    if (!hspz_node_uint(hspz_node_at(root, 0), &kind) || kind > HSPZ_NOTIFICATION) {
        return envelope_wrong("the message's kind", hspz_node_at(root, 0), "0, 1 or 2", err);
    }
    out->kind = (enum hspz_message_kind)kind;
    if (out->kind == HSPZ_RESPONSE) {
        return response_decode(root, out, err);
    }
    if (out->kind == HSPZ_NOTIFICATION) {
        return notification_decode(root, out, err);
    }
    if (!as_id(hspz_node_at(root, 1), &out->id)) {
        return envelope_wrong("the request's id", hspz_node_at(root, 1),
                              "a whole number from 0 to 4294967295", err);
    }
    *answerable = true;
    return request_decode(root, out, err);
}
