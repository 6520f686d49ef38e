/* Maps to structs by a table of keys; private to protocol/.
 *
 * Errors:  HSPZ_E_BAD_REQUEST naming the key, what it is and what is wanted; keys given twice, and
 *          (unless `open`) keys that the table does not have, are refused by name. */
#pragma once

#include "protocol/message.h"
#include "protocol/node.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hspz_field_type {
    HSPZ_FIELD_UINT,   /* uint64_t from min to max */
    HSPZ_FIELD_UINT32, /* uint32_t from min to max */
    HSPZ_FIELD_FLOAT,  /* double */
    HSPZ_FIELD_BOOL,   /* bool */
    HSPZ_FIELD_COUNT,  /* uint32_t from min to max; false and true are 0 and 1 */
    HSPZ_FIELD_TEXT,   /* struct hspz_text: a str of min to max bytes without control characters */
    HSPZ_FIELD_DIGEST, /* struct hspz_text: 16 lower-case hex digits */
    HSPZ_FIELD_RAW,    /* struct hspz_text: a str or a bin of any bytes */
    HSPZ_FIELD_BIN,    /* struct hspz_span */
    HSPZ_FIELD_BYTES,  /* struct hspz_payload: a bin, or a map {offset, length} */
    HSPZ_FIELD_MAP,    /* const struct hspz_node * */
    HSPZ_FIELD_ARRAY,  /* const struct hspz_node *: of min to max elements */
};

/* Bytes, or where they are in shared memory: then span has a length only. */
struct hspz_payload {
    struct hspz_span span;
    bool placed;
    uint64_t offset;
};

struct hspz_field {
    const char *key;
    enum hspz_field_type type;
    bool required;
    size_t offset; /* of the member in the struct */
    uint64_t min, max;
};

struct hspz_fields {
    const char *what; /* "the parameters" */
    const struct hspz_field *rows;
    size_t count; /* at most 32 */
    bool open;    /* other keys are fine: a newer peer may say more */
};

/* *seen has a bit for each row that was given. A NULL map counts as an empty one. */
HSPZ_MUST_USE enum hspz_status hspz_fields_decode(const struct hspz_fields *fields,
                                                  const struct hspz_node *map, void *out,
                                                  uint32_t *seen, struct hspz_error *err);
/* The value of "timings" in a job's result. */
HSPZ_MUST_USE enum hspz_status
hspz_timings_decode(const struct hspz_node *node, struct hspz_timings *out, struct hspz_error *err);

/* One value by itself, as a row of a table says. */
HSPZ_MUST_USE enum hspz_status hspz_field_decode(const struct hspz_field *field,
                                                 const struct hspz_node *node, void *out,
                                                 struct hspz_error *err);

#define HSPZ_NODE_TEXT_BYTES 96
/* What a node is, for an error: `the str "abc"`, `-1`, `a map`. */
const char *hspz_node_describe(const struct hspz_node *node, char out[HSPZ_NODE_TEXT_BYTES]);

/* A text's length, UTF-8 and control characters, as a row of type HSPZ_FIELD_TEXT says. */
HSPZ_MUST_USE enum hspz_status hspz_field_text_check(const struct hspz_field *field,
                                                     struct hspz_span text, struct hspz_error *err);

/* Whether `seen` has a row. */
bool hspz_fields_has(uint32_t seen, unsigned row);
/* For texts that are one of a few words: whether it is that one; that it is none of them. */
bool hspz_text_is(struct hspz_text text, const char *word);
enum hspz_status hspz_field_not_one_of(const char *key, struct hspz_text text, const char *choices,
                                       struct hspz_error *err);
/* The value of "transport"; none given: the stream. */
HSPZ_MUST_USE enum hspz_status hspz_transport_decode(struct hspz_text text, bool *shm,
                                                     struct hspz_error *err);
/* `first` and `count` of a list; `most` is the default and the limit of count. */
HSPZ_MUST_USE enum hspz_status hspz_page_decode(const char *what, uint64_t most,
                                                const struct hspz_node *params,
                                                struct hspz_list_params *out,
                                                struct hspz_error *err);
