/* Between config_file.c, config_groups.c and config_tenants.c. */
#pragma once

#include "daemon/config_options.h"

#include <jansson.h>

/* What is being read, for messages. */
struct hspz_document {
    const char *path, *text;
};

#define HSPZ_NO_ITEM SIZE_MAX

/* Where an item of a list begins, and what was known there. Zeroed before the first. */
struct hspz_config_mark {
    size_t at, items;
    unsigned depth, line;
    bool inside;
};

/* The line of a key of a valid document: `key` of the outermost object; `inner` of the object that
 * is its value; or, when its value is a list of objects, `inner` of the one at `item` (NULL: the
 * line where that begins). Keys written with escapes are not found: then it is the line before
 * them. `mark` (or NULL): items are asked for in their order, and the search goes on from there. */
unsigned hspz_config_line_of(const char *text, const char *key, size_t item, const char *inner,
                             struct hspz_config_mark *mark);
enum hspz_status hspz_config_wrong_type(const struct hspz_config_source *from, const json_t *value,
                                        const char *want, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_config_set_json_number(const struct hspz_option *o,
                                                           void *record,
                                                           const struct hspz_config_source *from,
                                                           const json_t *value,
                                                           struct hspz_error *err);
/* A key whose value is a list of objects, each of which becomes a record. */
struct hspz_config_list {
    const char *key;
    const char *want, *want_item; /* for messages: "a list of ...", "a group, ..." */
    size_t record_bytes;
    enum hspz_status (*set)(struct hspz_config *config, void *record, const char *key,
                            const struct hspz_config_source *from, const json_t *value,
                            struct hspz_error *err);
    /* Once all keys are set; `line` is where the object begins. */
    enum hspz_status (*finish)(void *record, const char *path, unsigned line,
                               struct hspz_error *err);
};

/* `records`, zeroed, has room for all of the array; *count goes up with each, before its keys are
 * set. */
HSPZ_MUST_USE enum hspz_status hspz_config_set_list(const struct hspz_config_list *list,
                                                    struct hspz_config *config, void *records,
                                                    size_t *count, const struct hspz_document *doc,
                                                    const struct hspz_config_source *from,
                                                    json_t *value, struct hspz_error *err);
/* config_groups.c */
HSPZ_MUST_USE enum hspz_status hspz_config_set_groups(struct hspz_config *config,
                                                      const struct hspz_document *doc,
                                                      const struct hspz_config_source *from,
                                                      json_t *value, struct hspz_error *err);
/* config_tenants.c */
HSPZ_MUST_USE enum hspz_status hspz_config_set_tenants(struct hspz_config *config,
                                                       const struct hspz_document *doc,
                                                       const struct hspz_config_source *from,
                                                       json_t *value, struct hspz_error *err);
