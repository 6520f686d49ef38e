/* Reading a message: a tree over the bytes of one frame. Strings and bins point into the frame, so
 * the frame must outlive the document; the tree itself is the document's.
 *
 * Threads: a document is read-only once parsed.
 * Errors:  HSPZ_E_BAD_REQUEST (not exactly one MessagePack value, or over the limits of
 *          protocol/limits.h, which are checked here again), HSPZ_E_OUT_OF_MEMORY.
 * The getters return false, and leave *out alone, for a NULL node or another type; a float that is
 * a whole number is not an integer; negative numbers are not uints. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_doc;
struct hspz_node; /* opaque: one value in a document */

enum hspz_node_type {
    HSPZ_NODE_NIL,
    HSPZ_NODE_BOOL,
    HSPZ_NODE_UINT,
    HSPZ_NODE_INT, /* negative */
    HSPZ_NODE_FLOAT,
    HSPZ_NODE_STR,
    HSPZ_NODE_BIN,
    HSPZ_NODE_ARRAY,
    HSPZ_NODE_MAP,
    HSPZ_NODE_EXT,
};

HSPZ_MUST_USE enum hspz_status hspz_doc_parse(const uint8_t *bytes, size_t len,
                                              struct hspz_doc **out, struct hspz_error *err);
void hspz_doc_destroy(struct hspz_doc **doc);
const struct hspz_node *hspz_doc_root(const struct hspz_doc *doc);

enum hspz_node_type hspz_node_type(const struct hspz_node *node); /* NIL for NULL */
bool hspz_node_bool(const struct hspz_node *node, bool *out);
bool hspz_node_uint(const struct hspz_node *node, uint64_t *out);
bool hspz_node_int(const struct hspz_node *node, int64_t *out); /* of INT and of UINT that fits */
bool hspz_node_float(const struct hspz_node *node, double *out);
bool hspz_node_str(const struct hspz_node *node, struct hspz_span *out); /* not terminated */
bool hspz_node_bin(const struct hspz_node *node, struct hspz_span *out);
bool hspz_node_text(const struct hspz_node *node, struct hspz_span *out); /* a str or a bin */

/* Elements of an array, pairs of a map; 0 for anything else. */
size_t hspz_node_count(const struct hspz_node *node);
const struct hspz_node *hspz_node_at(const struct hspz_node *array, size_t i);
const struct hspz_node *hspz_node_key_at(const struct hspz_node *map, size_t i);
const struct hspz_node *hspz_node_value_at(const struct hspz_node *map, size_t i);
/* The value of a string key; NULL when absent. */
const struct hspz_node *hspz_node_get(const struct hspz_node *map, const char *key);
bool hspz_node_str_is(const struct hspz_node *node, const char *text);
