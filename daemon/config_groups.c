/* The `groups` of the configuration file: which devices hold which indexes. */
#include "daemon/config_file_p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory reading the configuration");
}

static enum hspz_status
set_devices(struct hspz_config_group *group, const struct hspz_config_source *from,
            const json_t *value, struct hspz_error *err)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0) {
        return hspz_config_wrong_type(from, value, "a list of at least one device", err);
    }
    group->devices = calloc(count, sizeof(*group->devices));
    if (group->devices == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        const json_int_t number = json_is_integer(item) ? json_integer_value(item) : -1;
        if (number < 0 || number >= (json_int_t)UINT32_MAX) {
            return hspz_config_wrong_type(
                from, item, "a device by its place among those of the server, from 0", err);
        }
        for (size_t before = 0; before < i; before++) {
            if (group->devices[before] == (unsigned)number) {
                return hspz_error_set(err, from->status, "%s: device %u is named twice", from->text,
                                      group->devices[before]);
            }
        }
        group->devices[group->device_count++] = (unsigned)number;
    }
    return HSPZ_OK;
}

static enum hspz_status
set_indexes(struct hspz_config *config, struct hspz_config_group *group,
            const struct hspz_config_source *from, const json_t *value, struct hspz_error *err)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0) {
        return hspz_config_wrong_type(from, value, "a list of at least one index", err);
    }
    group->indexes = calloc(count, sizeof(*group->indexes));
    if (group->indexes == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(item);
        if (name == NULL || !hspz_index_name_allowed(name, strlen(name))) {
            return hspz_config_wrong_type(from, item, "the name of an index", err);
        }
        if (hspz_config_group_of(config, name) != NULL) {
            return hspz_error_set(err, from->status, "%s: index \"%s\" is named twice", from->text,
                                  name);
        }
        const enum hspz_status status =
            hspz_config_set_text(&group->indexes[group->index_count], name, err);
        if (status != HSPZ_OK) {
            return status;
        }
        group->index_count++;
    }
    return HSPZ_OK;
}

static enum hspz_status
set_field(struct hspz_config *config, void *record, const char *key,
          const struct hspz_config_source *from, const json_t *value, struct hspz_error *err)
{
    struct hspz_config_group *const group = record;
    static const struct hspz_option placement = {
        .kind = HSPZ_OPTION_CHOICE,
        .offset = offsetof(struct hspz_config_group, placement),
        .choices = hspz_placement_names,
        .value = HSPZ_PLACEMENTS,
    };
    if (strcmp(key, "devices") == 0) {
        return set_devices(group, from, value, err);
    }
    if (strcmp(key, "indexes") == 0) {
        return set_indexes(config, group, from, value, err);
    }
    if (strcmp(key, "placement") == 0) {
        return json_is_string(value)
                   ? hspz_config_set_choice(&placement, group, from, json_string_value(value), err)
                   : hspz_config_wrong_type(from, value, "a text", err);
    }
    return hspz_error_set(err, from->status,
                          "%s: there is no such key (devices, indexes, placement)", from->text);
}

static enum hspz_status
finish(void *record, const char *path, unsigned line, struct hspz_error *err)
{
    struct hspz_config_group *const group = record;
    group->line = line;
    return group->devices != NULL && group->indexes != NULL
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %u: groups: one has no %s", path,
                                line, group->devices == NULL ? "devices" : "indexes");
}

enum hspz_status
hspz_config_set_groups(struct hspz_config *config, const struct hspz_document *doc,
                       const struct hspz_config_source *from, json_t *value, struct hspz_error *err)
{
    static const struct hspz_config_list list = {
        .key = "groups",
        .want = "a list of at least one group",
        .want_item = "a group, an object with devices and indexes",
        .record_bytes = sizeof(struct hspz_config_group),
        .set = set_field,
        .finish = finish,
    };
    config->groups = calloc(json_array_size(value) + 1, sizeof(*config->groups));
    if (config->groups == NULL) {
        return no_memory(err);
    }
    return hspz_config_set_list(&list, config, config->groups, &config->group_count, doc, from,
                                value, err);
}

void
hspz_config_groups_fini(struct hspz_config *config)
{
    for (size_t g = 0; g < config->group_count; g++) {
        for (size_t i = 0; i < config->groups[g].index_count; i++) {
            free(config->groups[g].indexes[i]);
        }
        free(config->groups[g].indexes);
        free(config->groups[g].devices);
    }
    free(config->groups);
    config->groups = NULL;
    config->group_count = 0;
}

const struct hspz_config_group *
hspz_config_group_of(const struct hspz_config *config, const char *index)
{
    for (size_t g = 0; g < config->group_count; g++) {
        for (size_t i = 0; i < config->groups[g].index_count; i++) {
            if (strcmp(config->groups[g].indexes[i], index) == 0) {
                return &config->groups[g];
            }
        }
    }
    return NULL;
}

static bool
same_group(const struct hspz_config_group *a, const struct hspz_config_group *b)
{
    bool same = a->placement == b->placement && a->device_count == b->device_count &&
                a->index_count == b->index_count &&
                memcmp(a->devices, b->devices, a->device_count * sizeof(*a->devices)) == 0;
    for (size_t i = 0; same && i < a->index_count; i++) {
        same = strcmp(a->indexes[i], b->indexes[i]) == 0;
    }
    return same;
}

bool
hspz_config_groups_same(const struct hspz_config *a, const struct hspz_config *b)
{
    bool same = a->group_count == b->group_count;
    for (size_t g = 0; same && g < a->group_count; g++) {
        same = same_group(&a->groups[g], &b->groups[g]);
    }
    return same;
}

enum hspz_status
hspz_config_groups_check(const struct hspz_config *config, unsigned devices, struct hspz_error *err)
{
    for (size_t g = 0; g < config->group_count; g++) {
        for (size_t i = 0; i < config->groups[g].device_count; i++) {
            const unsigned device = config->groups[g].devices[i];
            if (device >= devices) {
                return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                      "%s: line %u: groups: the one of index \"%s\" has device "
                                      "%u, and there are %u, from 0",
                                      config->config_path, config->groups[g].line,
                                      config->groups[g].indexes[0], device, devices);
            }
        }
    }
    return HSPZ_OK;
}
