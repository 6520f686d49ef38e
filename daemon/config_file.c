/* The configuration file. */
#include "daemon/config_file_p.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No configuration is longer. */
#define FILE_BYTES (4u << 20)

enum hspz_status
hspz_config_wrong_type(const struct hspz_config_source *from, const json_t *value, const char *want,
                       struct hspz_error *err)
{
    char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const enum hspz_status status = hspz_error_set(err, from->status, "%s: %.100s is not %s",
                                                   from->text, shown ? shown : "it", want);
    free(shown);
    return status;
}

static const char *
skip_string(const char *at)
{
    for (at++; *at != '\0' && *at != '"'; at++) {
        at += *at == '\\' && at[1] != '\0';
    }
    return *at == '"' ? at + 1 : at;
}

unsigned
hspz_config_line_of(const char *text, const char *key, size_t item, const char *inner,
                    struct hspz_config_mark *mark)
{
    const unsigned level = item == HSPZ_NO_ITEM ? 2 : 3;
    struct hspz_config_mark here = {.line = 1};
    if (mark != NULL && mark->line > 0) {
        here = *mark;
    }
    unsigned found = here.line;
    for (const char *at = text + here.at; *at != '\0';) {
        const bool mine = here.inside && (item == HSPZ_NO_ITEM || here.items == item + 1);
        if (*at == '"') {
            const char *end = skip_string(at);
            const size_t len = (size_t)(end - at) - 2;
            const bool is_key = end[strspn(end, " \t\r\n")] == ':';
            const char *want = here.depth == 1 ? key : here.depth == level && mine ? inner : NULL;
            if (is_key && here.depth == 1) {
                here.inside = strlen(key) == len && memcmp(key, at + 1, len) == 0;
            }
            if (is_key && want != NULL && strlen(want) == len && memcmp(want, at + 1, len) == 0) {
                found = here.line;
                if (here.depth == level || (inner == NULL && item == HSPZ_NO_ITEM)) {
                    return found;
                }
            }
            at = end;
            continue;
        }
        if (here.inside && here.depth == 2 && *at == '{' && item != HSPZ_NO_ITEM) {
            if (here.items == item) {
                found = here.line;
                here.at = (size_t)(at - text);
                if (mark != NULL) {
                    *mark = here;
                }
                if (inner == NULL) {
                    return found;
                }
            }
            here.items++;
        }
        here.depth += *at == '{' || *at == '[';
        here.depth -= (*at == '}' || *at == ']') && here.depth > 0;
        here.line += *at == '\n';
        at++;
    }
    return found;
}

/* The object at `item` of the list. */
static enum hspz_status
set_record(const struct hspz_config_list *list, struct hspz_config *config, void *record,
           const struct hspz_document *doc, size_t item, struct hspz_config_mark *mark,
           json_t *object, struct hspz_error *err)
{
    struct hspz_config_source from = {.status = HSPZ_E_BAD_FILE};
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        snprintf(from.text, sizeof(from.text), "%.250s: line %u: %s: %.60s", doc->path,
                 hspz_config_line_of(doc->text, list->key, item, key, mark), list->key, key);
        const enum hspz_status status = list->set(config, record, key, &from, value, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    const unsigned line = hspz_config_line_of(doc->text, list->key, item, NULL, mark);
    return list->finish(record, doc->path, line, err);
}

enum hspz_status
hspz_config_set_list(const struct hspz_config_list *list, struct hspz_config *config, void *records,
                     size_t *count, const struct hspz_document *doc,
                     const struct hspz_config_source *from, json_t *value, struct hspz_error *err)
{
    const size_t items = json_array_size(value);
    if (!json_is_array(value) || items == 0) {
        return hspz_config_wrong_type(from, value, list->want, err);
    }
    struct hspz_config_mark mark = {0};
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < items && status == HSPZ_OK; i++) {
        json_t *object = json_array_get(value, i);
        if (!json_is_object(object)) {
            return hspz_config_wrong_type(from, object, list->want_item, err);
        }
        *count = i + 1;
        status = set_record(list, config, (char *)records + i * list->record_bytes, doc, i, &mark,
                            object, err);
    }
    return status;
}

static size_t
min3(size_t a, size_t b, size_t c)
{
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Letters to change, add or leave out to make one of the other; 99 for long ones. */
static size_t
distance(const char *a, const char *b)
{
    size_t row[33];
    const size_t width = strlen(b);
    if (width >= sizeof(row) / sizeof(row[0]) || strlen(a) > width + 8) {
        return 99;
    }
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= width; j++) {
            const size_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, corner + (a[i] != b[j - 1]));
            corner = above;
        }
    }
    return row[width];
}

static enum hspz_status
unknown_key(const char *path, unsigned line, const char *key, struct hspz_error *err)
{
    const char *near = NULL;
    size_t least = 3;
    for (size_t i = 0; i < hspz_option_count; i++) {
        const struct hspz_option *o = &hspz_options[i];
        const size_t by_key = distance(key, o->key), by_flag = distance(key, o->flag);
        const size_t d = by_key < by_flag ? by_key : by_flag;
        if (d < least) {
            least = d;
            near = o->key;
        }
    }
    return near == NULL
               ? hspz_error_set(err, HSPZ_E_BAD_FILE,
                                "%s: line %u: unknown key \"%s\" (hspzd --help all has them)", path,
                                line, key)
               : hspz_error_set(err, HSPZ_E_BAD_FILE,
                                "%s: line %u: unknown key \"%s\"; did you mean \"%s\"?", path, line,
                                key, near);
}

static enum hspz_status
set_json_texts(struct hspz_config *config, const struct hspz_option *o,
               const struct hspz_config_source *from, json_t *value, struct hspz_error *err)
{
    const bool devices = o->kind == HSPZ_OPTION_DEVICES;
    enum hspz_status status = HSPZ_OK;
    if (!json_is_array(value)) {
        return hspz_config_wrong_type(from, value,
                                      devices ? "a list of devices" : "a list of HOST:PORT", err);
    }
    for (size_t i = 0; i < json_array_size(value) && status == HSPZ_OK; i++) {
        const json_t *item = json_array_get(value, i);
        char number[32];
        const char *text = json_string_value(item);
        if (devices && json_is_integer(item)) {
            snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(item));
            text = number;
        }
        if (text == NULL) {
            status =
                hspz_config_wrong_type(from, item, devices ? "a device" : "a text HOST:PORT", err);
        } else {
            status = devices ? hspz_config_add_devices(config, from, text, err)
                             : hspz_config_add_listen(config, from, text, err);
        }
    }
    return status;
}

static enum hspz_status
set_json_indexes(struct hspz_config *config, const struct hspz_document *doc,
                 const struct hspz_option *o, const struct hspz_config_source *from, json_t *value,
                 struct hspz_error *err)
{
    if (!json_is_object(value)) {
        return hspz_config_wrong_type(from, value, "an object {name: file}", err);
    }
    const char *name;
    json_t *item;
    json_object_foreach(value, name, item)
    {
        struct hspz_config_source inner = {.status = from->status};
        snprintf(inner.text, sizeof(inner.text), "%.250s: line %u: %s.%.200s", doc->path,
                 hspz_config_line_of(doc->text, o->key, HSPZ_NO_ITEM, name, NULL), o->key, name);
        const enum hspz_status status =
            json_is_string(item) ? hspz_config_add_index(config, &inner, name, strlen(name),
                                                         json_string_value(item), err)
                                 : hspz_config_wrong_type(&inner, item, "a file name", err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_config_set_json_number(const struct hspz_option *o, void *record,
                            const struct hspz_config_source *from, const json_t *value,
                            struct hspz_error *err)
{
    char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    char cut[128];
    snprintf(cut, sizeof(cut), "%.100s", shown ? shown : "it");
    free(shown);
    uint64_t number = 0;
    bool valid = json_is_integer(value) && json_integer_value(value) >= 0;
    if (valid) {
        number = (uint64_t)json_integer_value(value);
    } else if (o->kind == HSPZ_OPTION_BYTES && json_is_string(value)) {
        valid = hspz_config_parse_number(json_string_value(value), true, &number);
    }
    return hspz_config_set_number(o, record, from, valid, number, cut, err);
}

static enum hspz_status
set_json(struct hspz_config *config, const struct hspz_document *doc, const struct hspz_option *o,
         json_t *value, struct hspz_error *err)
{
    struct hspz_config_source from = {.status = HSPZ_E_BAD_FILE};
    snprintf(from.text, sizeof(from.text), "%.300s: line %u: %s", doc->path,
             hspz_config_line_of(doc->text, o->key, HSPZ_NO_ITEM, NULL, NULL), o->key);
    const bool text = json_is_string(value);
    switch (o->kind) {
    case HSPZ_OPTION_COUNT:
    case HSPZ_OPTION_BYTES:
        return hspz_config_set_json_number(o, config, &from, value, err);
    case HSPZ_OPTION_TEXT:
        return text ? hspz_config_set_text((char **)(void *)((char *)config + o->offset),
                                           json_string_value(value), err)
                    : hspz_config_wrong_type(&from, value, "a text", err);
    case HSPZ_OPTION_CHOICE:
        if (json_is_boolean(value)) {
            return hspz_config_set_choice(o, config, &from, json_is_true(value) ? "yes" : "no",
                                          err);
        }
        return text ? hspz_config_set_choice(o, config, &from, json_string_value(value), err)
                    : hspz_config_wrong_type(&from, value, "a text", err);
    case HSPZ_OPTION_LISTEN:
    case HSPZ_OPTION_DEVICES:
        return set_json_texts(config, o, &from, value, err);
    case HSPZ_OPTION_INDEXES:
        return set_json_indexes(config, doc, o, &from, value, err);
    case HSPZ_OPTION_GROUPS:
        return hspz_config_set_groups(config, doc, &from, value, err);
    case HSPZ_OPTION_TENANTS:
        return hspz_config_set_tenants(config, doc, &from, value, err);
    }
    return hspz_error_set(err, HSPZ_E_INTERNAL, "%s: no such kind of option", o->key);
}

static enum hspz_status
read_text(const char *path, char **out, struct hspz_error *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s", path);
    }
    enum hspz_status status = HSPZ_OK;
    char *text = malloc(FILE_BYTES + 1);
    const size_t len = text != NULL ? fread(text, 1, FILE_BYTES + 1, file) : 0;
    if (text == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", path);
    } else if (ferror(file)) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s", path);
    } else if (len > FILE_BYTES) {
        status = hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: longer than %u bytes", path, FILE_BYTES);
    } else if (memchr(text, '\0', len) != NULL) {
        status = hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line 1: holds a zero byte", path);
    }
    fclose(file);
    if (status != HSPZ_OK) {
        free(text);
        return status;
    }
    text[len] = '\0';
    *out = text;
    return HSPZ_OK;
}

static enum hspz_status
set_all(struct hspz_config *config, const struct hspz_document *doc, json_t *root,
        struct hspz_error *err)
{
    if (!json_is_object(root)) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line 1: not a JSON object", doc->path);
    }
    enum hspz_status status = HSPZ_OK;
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        const struct hspz_option *found = NULL;
        for (size_t i = 0; i < hspz_option_count && found == NULL; i++) {
            found = strcmp(hspz_options[i].key, key) == 0 ? &hspz_options[i] : NULL;
        }
        status = found != NULL
                     ? set_json(config, doc, found, value, err)
                     : unknown_key(doc->path,
                                   hspz_config_line_of(doc->text, key, HSPZ_NO_ITEM, NULL, NULL),
                                   key, err);
        if (status != HSPZ_OK) {
            break;
        }
    }
    return status;
}

enum hspz_status
hspz_config_load_file(struct hspz_config *config, const char *path, struct hspz_error *err)
{
    struct hspz_document doc = {.path = path};
    char *text = NULL;
    enum hspz_status status = read_text(path, &text, err);
    if (status != HSPZ_OK) {
        return status;
    }
    doc.text = text;
    json_error_t why;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        status = hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %d: %s", path,
                                why.line > 0 ? why.line : 1, why.text);
    } else {
        status = set_all(config, &doc, root, err);
    }
    json_decref(root);
    free(text);
    return status;
}
