#include "daemon/config.h"

#include "daemon/config_options.h"
#include "engine/cpu/simulated.h"
#include "protocol/limits.h"
#include "protocol/types.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM_SOCKET "/run/hspz/hspz.sock"

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory reading the configuration");
}

void
hspz_config_fini(struct hspz_config *config)
{
    free(config->config_path);
    free(config->socket_path);
    for (size_t i = 0; i < config->listen_count; i++) {
        free(config->listen[i]);
    }
    free(config->listen);
    for (size_t i = 0; i < config->index_count; i++) {
        free(config->indexes[i].name);
        free(config->indexes[i].path);
    }
    free(config->indexes);
    for (size_t i = 0; i < config->device_count; i++) {
        free(config->devices[i]);
    }
    free(config->devices);
    for (size_t i = 0; i < config->tenant_count; i++) {
        hspz_tenant_settings_fini(&config->tenants[i]);
    }
    free(config->tenants);
    free(config->socket_mode);
    free(config->socket_group);
    free(config->tls_certificate);
    free(config->tls_key);
    free(config->tls_client_ca);
    free(config->simulate_devices);
    hspz_config_groups_fini(config);
    free(config->address_file);
    free(config->metrics);
    free(config->index_dir);
    free(config->data_dir);
    free(config->filter_dir);
    *config = (struct hspz_config){0};
}

bool
hspz_index_name_allowed(const char *name, size_t len)
{
    if (len == 0 || len > HSPZ_NAME_BYTES_LIMIT) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f || c == '/' || c == '=') {
            return false;
        }
    }
    return true;
}

bool
hspz_config_parse_number(const char *text, bool suffix, uint64_t *out)
{
    uint64_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (c == text) {
        return false;
    }
    if (suffix && *c != '\0') {
        const unsigned shift = *c == 'K' ? 10 : *c == 'M' ? 20 : *c == 'G' ? 30 : 0;
        if (shift == 0 || value > UINT64_MAX >> shift) {
            return false;
        }
        value <<= shift;
        c++;
    }
    if (*c != '\0') {
        return false;
    }
    *out = value;
    return true;
}

enum hspz_status
hspz_listen_parse(const char *text, char host[HSPZ_LISTEN_HOST_BYTES], uint16_t *port,
                  struct hspz_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *begin = text;
    const char *end = colon;
    uint64_t number = 0;
    bool good = colon != NULL && hspz_config_parse_number(colon + 1, false, &number) &&
                number <= 65535 && strlen(colon + 1) <= 5;
    if (good && *text == '[') {
        good = colon > text + 2 && colon[-1] == ']';
        begin = text + 1;
        end = colon - 1;
    } else if (good) {
        good = colon > text && memchr(text, ':', (size_t)(colon - text)) == NULL;
    }
    if (!good || (size_t)(end - begin) >= HSPZ_LISTEN_HOST_BYTES) {
        return hspz_error_set(
            err, HSPZ_E_BAD_REQUEST,
            "\"%s\" is not HOST:PORT (port 0 to 65535, an IPv6 address in brackets)", text);
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = (uint16_t)number;
    return HSPZ_OK;
}

enum hspz_status
hspz_config_set_text(char **slot, const char *value, struct hspz_error *err)
{
    char *copy = strdup(value);
    if (copy == NULL) {
        return no_memory(err);
    }
    free(*slot);
    *slot = copy;
    return HSPZ_OK;
}

enum hspz_status
hspz_config_set_number(const struct hspz_option *o, void *record,
                       const struct hspz_config_source *from, bool valid, uint64_t number,
                       const char *shown, struct hspz_error *err)
{
    if (!valid || number < o->min || number > o->max) {
        return hspz_error_set(err, from->status,
                              "%s: %s is not a whole number from %" PRIu64 " to %" PRIu64 "%s",
                              from->text, shown, o->min, o->max,
                              o->kind == HSPZ_OPTION_BYTES ? "; K, M or G may follow it" : "");
    }
    *(uint64_t *)(void *)((char *)record + o->offset) = number;
    return HSPZ_OK;
}

enum hspz_status
hspz_config_set_choice(const struct hspz_option *o, void *record,
                       const struct hspz_config_source *from, const char *value,
                       struct hspz_error *err)
{
    for (unsigned i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(o->choices[i], value) == 0) {
            *(unsigned *)(void *)((char *)record + o->offset) = i;
            return HSPZ_OK;
        }
    }
    return hspz_error_set(err, from->status, "%s: \"%s\" is not one of %s", from->text, value,
                          o->value);
}

enum hspz_status
hspz_config_add_listen(struct hspz_config *config, const struct hspz_config_source *from,
                       const char *value, struct hspz_error *err)
{
    char host[HSPZ_LISTEN_HOST_BYTES];
    uint16_t port;
    struct hspz_error why;
    if (hspz_listen_parse(value, host, &port, &why) != HSPZ_OK) {
        return hspz_error_set(err, from->status, "%s: %s", from->text, why.text);
    }
    char **grown = realloc(config->listen, (config->listen_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return no_memory(err);
    }
    config->listen = grown;
    config->listen[config->listen_count] = NULL;
    const enum hspz_status status =
        hspz_config_set_text(&config->listen[config->listen_count], value, err);
    config->listen_count += status == HSPZ_OK;
    return status;
}

static enum hspz_status
add_device(struct hspz_config *config, const struct hspz_config_source *from, const char *name,
           size_t len, struct hspz_error *err)
{
    bool digits = len > 0 && len < 6;
    for (size_t i = 0; i < len; i++) {
        digits = digits && name[i] >= '0' && name[i] <= '9';
    }
    const bool uuid = len > 4 && (memcmp(name, "GPU-", 4) == 0 || memcmp(name, "MIG-", 4) == 0);
    if (!digits && !uuid) {
        return hspz_error_set(err, from->status,
                              "%s: \"%.*s\" is no device (a number from 0, GPU-... or MIG-...)",
                              from->text, (int)len, name);
    }
    for (size_t i = 0; i < config->device_count; i++) {
        if (strlen(config->devices[i]) == len && memcmp(config->devices[i], name, len) == 0) {
            return hspz_error_set(err, from->status, "%s: device %.*s is named twice", from->text,
                                  (int)len, name);
        }
    }
    char **grown = realloc(config->devices, (config->device_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return no_memory(err);
    }
    config->devices = grown;
    grown[config->device_count] = strndup(name, len);
    if (grown[config->device_count] == NULL) {
        return no_memory(err);
    }
    config->device_count++;
    return HSPZ_OK;
}

enum hspz_status
hspz_config_add_devices(struct hspz_config *config, const struct hspz_config_source *from,
                        const char *value, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (const char *at = value; status == HSPZ_OK && at != NULL;) {
        const char *comma = strchr(at, ',');
        status =
            add_device(config, from, at, comma != NULL ? (size_t)(comma - at) : strlen(at), err);
        at = comma != NULL ? comma + 1 : NULL;
    }
    return status;
}

enum hspz_status
hspz_config_add_index(struct hspz_config *config, const struct hspz_config_source *from,
                      const char *name, size_t name_len, const char *path, struct hspz_error *err)
{
    if (!hspz_index_name_allowed(name, name_len)) {
        return hspz_error_set(err, from->status,
                              "%s: \"%.*s\" is no index name (1 to %u bytes, no '=' or '/')",
                              from->text, (int)name_len, name, HSPZ_NAME_BYTES_LIMIT);
    }
    if (*path == '\0') {
        return hspz_error_set(err, from->status, "%s: index \"%.*s\" has no file", from->text,
                              (int)name_len, name);
    }
    for (size_t i = 0; i < config->index_count; i++) {
        const char *other = config->indexes[i].name;
        if (strlen(other) == name_len && memcmp(other, name, name_len) == 0) {
            return hspz_error_set(err, from->status, "%s: index \"%s\" is named twice", from->text,
                                  other);
        }
    }
    struct hspz_config_index *grown =
        realloc(config->indexes, (config->index_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return no_memory(err);
    }
    config->indexes = grown;
    struct hspz_config_index *entry = &grown[config->index_count];
    *entry = (struct hspz_config_index){.name = strndup(name, name_len), .path = strdup(path)};
    if (entry->name == NULL || entry->path == NULL) {
        free(entry->name);
        free(entry->path);
        return no_memory(err);
    }
    config->index_count++;
    return HSPZ_OK;
}

static enum hspz_status
set_flag(struct hspz_config *config, const struct hspz_option *o, const char *value,
         struct hspz_error *err)
{
    struct hspz_config_source from = {.status = HSPZ_E_BAD_REQUEST};
    snprintf(from.text, sizeof(from.text), "--%s", o->flag);
    uint64_t number = 0;
    switch (o->kind) {
    case HSPZ_OPTION_COUNT:
    case HSPZ_OPTION_BYTES: {
        char shown[128];
        snprintf(shown, sizeof(shown), "\"%.100s\"", value);
        const bool valid = hspz_config_parse_number(value, o->kind == HSPZ_OPTION_BYTES, &number);
        return hspz_config_set_number(o, config, &from, valid, number, shown, err);
    }
    case HSPZ_OPTION_TEXT:
        return hspz_config_set_text((char **)(void *)((char *)config + o->offset), value, err);
    case HSPZ_OPTION_CHOICE:
        return hspz_config_set_choice(o, config, &from, value, err);
    case HSPZ_OPTION_LISTEN:
        return hspz_config_add_listen(config, &from, value, err);
    case HSPZ_OPTION_DEVICES:
        return hspz_config_add_devices(config, &from, value, err);
    case HSPZ_OPTION_INDEXES: {
        const char *equals = strchr(value, '=');
        if (equals == NULL) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--index: \"%s\" is not NAME=FILE",
                                  value);
        }
        return hspz_config_add_index(config, &from, value, (size_t)(equals - value), equals + 1,
                                     err);
    }
    case HSPZ_OPTION_GROUPS:
    case HSPZ_OPTION_TENANTS:
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--%s: %s stand in the file that --config names", o->flag, o->flag);
    }
    return hspz_error_set(err, HSPZ_E_INTERNAL, "--%s: no such kind of option", o->flag);
}

/* One flag: its option (NULL for those outside the table), its name's length and its value. */
struct flag {
    const char *name;
    size_t len;
    const char *value; /* after '=', else NULL */
};

static bool
flag_is(const struct flag *flag, const char *name)
{
    return strlen(name) == flag->len && memcmp(name, flag->name, flag->len) == 0;
}

static enum hspz_status
switch_flag(struct hspz_config *config, const struct flag *flag, bool *found,
            struct hspz_error *err)
{
    bool *const slot = flag_is(flag, "help")              ? &config->help
                       : flag_is(flag, "version")         ? &config->version
                       : flag_is(flag, "check-config")    ? &config->check_only
                       : flag_is(flag, "die-with-parent") ? &config->die_with_parent
                                                          : NULL;
    *found = slot != NULL;
    if (slot == &config->help && flag->value != NULL && strcmp(flag->value, "all") == 0) {
        config->help = config->help_all = true;
        return HSPZ_OK;
    }
    if (slot != NULL && flag->value != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--%.*s takes no value", (int)flag->len,
                              flag->name);
    }
    if (slot != NULL) {
        *slot = true;
    }
    return HSPZ_OK;
}

/* Walks the flags once. In the first pass only those outside the table count, in the second only
 * those in it: the file, named by a flag, comes between. */
static enum hspz_status
walk_flags(struct hspz_config *config, int argc, char **argv, bool table, struct hspz_error *err)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "unexpected argument \"%s\" (see --help)", argv[i]);
        }
        const char *equals = strchr(argv[i], '=');
        struct flag flag = {.name = argv[i] + 2, .value = equals != NULL ? equals + 1 : NULL};
        flag.len = equals != NULL ? (size_t)(equals - flag.name) : strlen(flag.name);
        if (flag_is(&flag, "help") && i + 1 < argc && strcmp(argv[i + 1], "all") == 0) {
            flag.value = argv[++i];
        }
        bool found;
        enum hspz_status status = switch_flag(config, &flag, &found, err);
        if (status != HSPZ_OK) {
            return status;
        }
        if (found) {
            continue;
        }
        const struct hspz_option *option = NULL;
        for (size_t k = 0; k < hspz_option_count && option == NULL; k++) {
            option = flag_is(&flag, hspz_options[k].flag) ? &hspz_options[k] : NULL;
        }
        const bool is_config = flag_is(&flag, "config");
        if (option == NULL && !is_config) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "unknown option --%.*s (see --help)",
                                  (int)flag.len, flag.name);
        }
        if (flag.value == NULL && ++i < argc) {
            flag.value = argv[i];
        }
        if (flag.value == NULL) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--%.*s needs a value", (int)flag.len,
                                  flag.name);
        }
        if (is_config && !table) {
            status = hspz_config_set_text(&config->config_path, flag.value, err);
        } else if (!is_config && table) {
            status = set_flag(config, option, flag.value, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return HSPZ_OK;
}

/* The named ones are GPUs; simulated ones are the cpu engine's, so that is taken. */
static enum hspz_status
check_devices(struct hspz_config *config, struct hspz_error *err)
{
    struct hspz_simulated *devices = NULL;
    unsigned count;
    struct hspz_error why = {0};
    if (config->device_count > 0 && config->simulate_devices != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "devices: simulate_devices stands for them: only one of the two");
    }
    if (config->device_count > 0 && config->engine == HSPZ_ENGINE_CPU) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "devices: only the cuda engine has such, not cpu");
    }
    if (config->simulate_devices == NULL) {
        return HSPZ_OK;
    }
    if (config->engine == HSPZ_ENGINE_CUDA) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "simulate_devices: only the cpu engine has such, not cuda");
    }
    config->engine = HSPZ_ENGINE_CPU;
    const enum hspz_status status =
        hspz_simulated_parse(config->simulate_devices, &devices, &count, &why);
    free(devices);
    return status == HSPZ_OK ? HSPZ_OK
                             : hspz_error_set(err, status, "simulate_devices: %s", why.text);
}

static enum hspz_status
finish(struct hspz_config *config, struct hspz_error *err)
{
    enum hspz_status status = hspz_config_check_access(config, err);
    if (status == HSPZ_OK) {
        status = check_devices(config, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (config->part_bytes % 8 != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "part_bytes: %" PRIu64 " is not a multiple of 8", config->part_bytes);
    }
    const char *walk = getenv("HSPZ_CHUNK_WALK");
    if (walk != NULL && strcmp(walk, "full") != 0 && strcmp(walk, "blocks") != 0 && *walk != '\0') {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "HSPZ_CHUNK_WALK: \"%s\" is not one of blocks, full", walk);
    }
    config->walk_full = walk != NULL && strcmp(walk, "full") == 0;
    if (config->socket_path == NULL) {
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        config->socket_is_default = true;
        if (runtime != NULL && *runtime == '/') {
            if (asprintf(&config->socket_path, "%s/hspz.sock", runtime) < 0) {
                config->socket_path = NULL;
                return no_memory(err);
            }
            return HSPZ_OK;
        }
        return hspz_config_set_text(&config->socket_path, SYSTEM_SOCKET, err);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_config_load(struct hspz_config *config, int argc, char **argv, struct hspz_error *err)
{
    config->argc = argc;
    config->argv = argv;
    enum hspz_status status = walk_flags(config, argc, argv, false, err);
    if (status != HSPZ_OK || config->help || config->version) {
        return status;
    }
    if (config->config_path != NULL) {
        status = hspz_config_load_file(config, config->config_path, err);
    }
    if (status == HSPZ_OK) {
        status = walk_flags(config, argc, argv, true, err);
    }
    return status == HSPZ_OK ? finish(config, err) : status;
}
