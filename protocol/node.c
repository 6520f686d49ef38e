#include "protocol/node.h"

#include "protocol/token.h"

#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

struct hspz_doc {
    msgpack_unpacked unpacked;
};

/* A node is msgpack-c's object under a name of our own. */
static const msgpack_object *
object_of(const struct hspz_node *node)
{
    return (const msgpack_object *)(const void *)node;
}

static const struct hspz_node *
node_of(const msgpack_object *object)
{
    return (const struct hspz_node *)(const void *)object;
}

static enum hspz_status
check_bytes(const uint8_t *bytes, size_t len, struct hspz_error *err)
{
    struct hspz_token_walk walk;
    hspz_token_walk_init(&walk, UINT64_MAX);
    bool done = false;
    for (size_t at = 0; at < len;) {
        if (done) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "%zu bytes follow the end of the message", len - at);
        }
        bool complete = false;
        const enum hspz_status status = hspz_token_walk_byte(&walk, bytes[at++], &complete, err);
        if (status != HSPZ_OK) {
            return status;
        }
        if (complete) {
            if (walk.body_bytes > len - at) {
                break;
            }
            at += (size_t)walk.body_bytes;
            done = hspz_token_walk_next(&walk);
        }
    }
    return done ? HSPZ_OK
                : hspz_error_set(err, HSPZ_E_BAD_REQUEST, "the message ends early, at byte %zu",
                                 len);
}

enum hspz_status
hspz_doc_parse(const uint8_t *bytes, size_t len, struct hspz_doc **out, struct hspz_error *err)
{
    const enum hspz_status status = check_bytes(bytes, len, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_doc *doc = malloc(sizeof(*doc));
    if (doc == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory for a message's tree");
    }
    msgpack_unpacked_init(&doc->unpacked);
    size_t at = 0;
    const msgpack_unpack_return got =
        msgpack_unpack_next(&doc->unpacked, (const char *)bytes, len, &at);
    if (got != MSGPACK_UNPACK_SUCCESS || at != len) {
        hspz_doc_destroy(&doc);
        return got == MSGPACK_UNPACK_NOMEM_ERROR
                   ? hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory for a message's tree")
                   : hspz_error_set(err, HSPZ_E_BAD_REQUEST, "the message is not MessagePack");
    }
    *out = doc;
    return HSPZ_OK;
}

void
hspz_doc_destroy(struct hspz_doc **doc)
{
    if (*doc != NULL) {
        msgpack_unpacked_destroy(&(*doc)->unpacked);
        free(*doc);
        *doc = NULL;
    }
}

const struct hspz_node *
hspz_doc_root(const struct hspz_doc *doc)
{
    return node_of(&doc->unpacked.data);
}

enum hspz_node_type
hspz_node_type(const struct hspz_node *node)
{
    if (node == NULL) {
        return HSPZ_NODE_NIL;
    }
    switch (object_of(node)->type) {
    case MSGPACK_OBJECT_NIL:
        return HSPZ_NODE_NIL;
    case MSGPACK_OBJECT_BOOLEAN:
        return HSPZ_NODE_BOOL;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return HSPZ_NODE_UINT;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return HSPZ_NODE_INT;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return HSPZ_NODE_FLOAT;
    case MSGPACK_OBJECT_STR:
        return HSPZ_NODE_STR;
    case MSGPACK_OBJECT_BIN:
        return HSPZ_NODE_BIN;
    case MSGPACK_OBJECT_ARRAY:
        return HSPZ_NODE_ARRAY;
    case MSGPACK_OBJECT_MAP:
        return HSPZ_NODE_MAP;
    case MSGPACK_OBJECT_EXT:
        return HSPZ_NODE_EXT;
    }
    return HSPZ_NODE_EXT;
}

static bool
is(const struct hspz_node *node, enum hspz_node_type type)
{
    return node != NULL && hspz_node_type(node) == type;
}

bool
hspz_node_bool(const struct hspz_node *node, bool *out)
{
    if (!is(node, HSPZ_NODE_BOOL)) {
        return false;
    }
    *out = object_of(node)->via.boolean;
    return true;
}

bool
hspz_node_uint(const struct hspz_node *node, uint64_t *out)
{
    if (!is(node, HSPZ_NODE_UINT)) {
        return false;
    }
    *out = object_of(node)->via.u64;
    return true;
}

bool
hspz_node_int(const struct hspz_node *node, int64_t *out)
{
    if (is(node, HSPZ_NODE_INT)) {
        *out = object_of(node)->via.i64;
        return true;
    }
    if (is(node, HSPZ_NODE_UINT) && object_of(node)->via.u64 <= INT64_MAX) {
        *out = (int64_t)object_of(node)->via.u64;
        return true;
    }
    return false;
}

bool
hspz_node_float(const struct hspz_node *node, double *out)
{
    if (!is(node, HSPZ_NODE_FLOAT)) {
        return false;
    }
    *out = object_of(node)->via.f64;
    return true;
}

bool
hspz_node_str(const struct hspz_node *node, struct hspz_span *out)
{
    if (!is(node, HSPZ_NODE_STR)) {
        return false;
    }
    const msgpack_object_str *str = &object_of(node)->via.str;
    *out = (struct hspz_span){(const uint8_t *)str->ptr, str->size};
    return true;
}

bool
hspz_node_bin(const struct hspz_node *node, struct hspz_span *out)
{
    if (!is(node, HSPZ_NODE_BIN)) {
        return false;
    }
    const msgpack_object_bin *bin = &object_of(node)->via.bin;
    *out = (struct hspz_span){(const uint8_t *)bin->ptr, bin->size};
    return true;
}

bool
hspz_node_text(const struct hspz_node *node, struct hspz_span *out)
{
    return hspz_node_str(node, out) || hspz_node_bin(node, out);
}

size_t
hspz_node_count(const struct hspz_node *node)
{
    if (is(node, HSPZ_NODE_ARRAY)) {
        return object_of(node)->via.array.size;
    }
    return is(node, HSPZ_NODE_MAP) ? object_of(node)->via.map.size : 0;
}

const struct hspz_node *
hspz_node_at(const struct hspz_node *array, size_t i)
{
    if (!is(array, HSPZ_NODE_ARRAY) || i >= hspz_node_count(array)) {
        return NULL;
    }
    return node_of(&object_of(array)->via.array.ptr[i]);
}

const struct hspz_node *
hspz_node_key_at(const struct hspz_node *map, size_t i)
{
    if (!is(map, HSPZ_NODE_MAP) || i >= hspz_node_count(map)) {
        return NULL;
    }
    return node_of(&object_of(map)->via.map.ptr[i].key);
}

const struct hspz_node *
hspz_node_value_at(const struct hspz_node *map, size_t i)
{
    if (!is(map, HSPZ_NODE_MAP) || i >= hspz_node_count(map)) {
        return NULL;
    }
    return node_of(&object_of(map)->via.map.ptr[i].val);
}

const struct hspz_node *
hspz_node_get(const struct hspz_node *map, const char *key)
{
    const size_t count = is(map, HSPZ_NODE_MAP) ? hspz_node_count(map) : 0;
    for (size_t i = 0; i < count; i++) {
        if (hspz_node_str_is(hspz_node_key_at(map, i), key)) {
            return hspz_node_value_at(map, i);
        }
    }
    return NULL;
}

bool
hspz_node_str_is(const struct hspz_node *node, const char *text)
{
    struct hspz_span span;
    return hspz_node_str(node, &span) && span.len == strlen(text) &&
           memcmp(span.bytes, text, span.len) == 0;
}
