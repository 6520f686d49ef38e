/* The `tenants` of the configuration file. */
#include "daemon/config_file_p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (UINT64_C(1) << 62)
#define AT(member) offsetof(struct hspz_tenant_settings, member)

static const char *const role_names[] = {"user", "operator", NULL};

static const struct hspz_option fields[] = {
    {.key = "role",
     .kind = HSPZ_OPTION_CHOICE,
     .offset = AT(role),
     .choices = role_names,
     .value = "user|operator"},
    {.key = "weight",
     .kind = HSPZ_OPTION_COUNT,
     .offset = AT(weight),
     .min = 1,
     .max = HSPZ_TENANT_WEIGHT_LIMIT},
    {.key = "max_jobs", .kind = HSPZ_OPTION_COUNT, .offset = AT(max_jobs), .max = 1000000},
    {.key = "max_queued_bytes",
     .kind = HSPZ_OPTION_BYTES,
     .offset = AT(max_queued_bytes),
     .max = BYTES_MAX},
    {.key = "max_resident_bytes",
     .kind = HSPZ_OPTION_BYTES,
     .offset = AT(max_resident_bytes),
     .max = BYTES_MAX},
    {.key = "max_shm_bytes",
     .kind = HSPZ_OPTION_BYTES,
     .offset = AT(max_shm_bytes),
     .max = BYTES_MAX},
    {.key = "max_filters", .kind = HSPZ_OPTION_COUNT, .offset = AT(max_filters), .max = 1000000},
    {.key = "device_share",
     .kind = HSPZ_OPTION_COUNT,
     .offset = AT(device_share),
     .min = 1,
     .max = 100},
};

static const struct {
    const char *key;
    enum hspz_credential_kind kind;
} credential_keys[] = {
    {"uids", HSPZ_CREDENTIAL_UID},
    {"gids", HSPZ_CREDENTIAL_GID},
    {"token_sha256", HSPZ_CREDENTIAL_TOKEN},
    {"certificate_sha256", HSPZ_CREDENTIAL_CERTIFICATE},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory reading the configuration");
}

static enum hspz_status
set_name(struct hspz_config *config, struct hspz_tenant_settings *tenant,
         const struct hspz_config_source *from, const json_t *value, struct hspz_error *err)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *name = json_string_value(value);
    const size_t len = name != NULL ? strlen(name) : 0;
    if (len == 0 || len > HSPZ_TENANT_NAME_LIMIT || strspn(name, allowed) != len) {
        return hspz_config_wrong_type(
            from, value, "a name (1 to 64 letters, digits, dots, hyphens, underscores)", err);
    }
    for (size_t i = 0; i < config->tenant_count; i++) {
        if (config->tenants[i].name != NULL && strcmp(config->tenants[i].name, name) == 0) {
            return hspz_error_set(err, from->status, "%s: tenant \"%s\" is named twice", from->text,
                                  name);
        }
    }
    return hspz_config_set_text(&tenant->name, name, err);
}

static int
hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* 64 hexadecimal digits; colons may stand between bytes, as openssl prints fingerprints. */
static bool
parse_sha256(const char *text, uint8_t out[HSPZ_SHA256_BYTES])
{
    for (size_t i = 0; i < HSPZ_SHA256_BYTES; i++) {
        text += i > 0 && *text == ':';
        const int high = hex_digit(text[0]);
        const int low = high >= 0 ? hex_digit(text[1]) : -1;
        if (low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    return *text == '\0';
}

static enum hspz_status
parse_id(struct hspz_credential *credential, const struct hspz_config_source *from,
         const json_t *value, struct hspz_error *err)
{
    const bool user = credential->kind == HSPZ_CREDENTIAL_UID;
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= (json_int_t)UINT32_MAX) {
        return hspz_config_wrong_type(from, value,
                                      user ? "a user's number (id -u NAME shows it)"
                                           : "a group's number (getent group NAME shows it)",
                                      err);
    }
    credential->id = (uint32_t)id;
    if (credential->id == (user ? hspz_overflow_uid() : hspz_overflow_gid())) {
        return hspz_error_set(err, from->status,
                              "%s: %" PRIu32 " is what the kernel shows for every %s it cannot "
                              "map, so it matches nobody",
                              from->text, credential->id, user ? "user" : "group");
    }
    return HSPZ_OK;
}

/* A credential that two tenants have would leave open whose it is. */
static enum hspz_status
check_new(const struct hspz_config *config, const struct hspz_credential *credential,
          const struct hspz_config_source *from, struct hspz_error *err)
{
    for (size_t i = 0; i < config->tenant_count; i++) {
        const struct hspz_tenant_settings *t = &config->tenants[i];
        for (size_t k = 0; k < t->credential_count; k++) {
            const struct hspz_credential *other = &t->credentials[k];
            if (other->kind == credential->kind && other->id == credential->id &&
                memcmp(other->sha256, credential->sha256, sizeof(other->sha256)) == 0) {
                return hspz_error_set(err, from->status,
                                      "%s: names what tenant \"%s\" is recognised by", from->text,
                                      t->name != NULL ? t->name : "?");
            }
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
add_credential(struct hspz_config *config, struct hspz_tenant_settings *tenant,
               enum hspz_credential_kind kind, const struct hspz_config_source *from,
               const json_t *value, struct hspz_error *err)
{
    struct hspz_credential credential = {.kind = kind};
    enum hspz_status status = HSPZ_OK;
    if (kind == HSPZ_CREDENTIAL_UID || kind == HSPZ_CREDENTIAL_GID) {
        status = parse_id(&credential, from, value, err);
    } else if (!json_is_string(value) ||
               !parse_sha256(json_string_value(value), credential.sha256)) {
        /* What was written may be the secret itself: it is not shown. */
        status = hspz_error_set(err, from->status, "%s: not a SHA-256 (64 hexadecimal digits)",
                                from->text);
    }
    if (status == HSPZ_OK) {
        status = check_new(config, &credential, from, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_credential *grown =
        realloc(tenant->credentials, (tenant->credential_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return no_memory(err);
    }
    tenant->credentials = grown;
    grown[tenant->credential_count++] = credential;
    return HSPZ_OK;
}

/* One value, or a list. */
static enum hspz_status
add_credentials(struct hspz_config *config, struct hspz_tenant_settings *tenant,
                enum hspz_credential_kind kind, const struct hspz_config_source *from,
                const json_t *value, struct hspz_error *err)
{
    if (!json_is_array(value)) {
        return add_credential(config, tenant, kind, from, value, err);
    }
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < json_array_size(value) && status == HSPZ_OK; i++) {
        status = add_credential(config, tenant, kind, from, json_array_get(value, i), err);
    }
    return status;
}

static enum hspz_status
set_field(struct hspz_config *config, void *record, const char *key,
          const struct hspz_config_source *from, const json_t *value, struct hspz_error *err)
{
    struct hspz_tenant_settings *const tenant = record;
    if (strcmp(key, "name") == 0) {
        return set_name(config, tenant, from, value, err);
    }
    for (size_t i = 0; i < COUNT_OF(credential_keys); i++) {
        if (strcmp(key, credential_keys[i].key) == 0) {
            return add_credentials(config, tenant, credential_keys[i].kind, from, value, err);
        }
    }
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (strcmp(key, fields[i].key) != 0) {
            continue;
        }
        if (fields[i].kind != HSPZ_OPTION_CHOICE) {
            return hspz_config_set_json_number(&fields[i], tenant, from, value, err);
        }
        return json_is_string(value)
                   ? hspz_config_set_choice(&fields[i], tenant, from, json_string_value(value), err)
                   : hspz_config_wrong_type(from, value, "a text", err);
    }
    return hspz_error_set(err, from->status,
                          "%s: there is no such key (name, role, weight, max_jobs, "
                          "max_queued_bytes, max_resident_bytes, max_shm_bytes, max_filters, "
                          "device_share, uids, gids, "
                          "token_sha256, certificate_sha256)",
                          from->text);
}

static enum hspz_status
finish(void *record, const char *path, unsigned line, struct hspz_error *err)
{
    struct hspz_tenant_settings *const tenant = record;
    tenant->weight += tenant->weight == 0; /* not given */
    if (tenant->name == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %u: tenants: one has no name", path,
                              line);
    }
    return tenant->credential_count > 0
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_BAD_FILE,
                                "%s: line %u: tenants: \"%s\" cannot be recognised: it has neither "
                                "uids, gids, token_sha256 nor certificate_sha256",
                                path, line, tenant->name);
}

enum hspz_status
hspz_config_set_tenants(struct hspz_config *config, const struct hspz_document *doc,
                        const struct hspz_config_source *from, json_t *value,
                        struct hspz_error *err)
{
    static const struct hspz_config_list list = {
        .key = "tenants",
        .want = "a list of at least one tenant",
        .want_item = "a tenant, an object with a name",
        .record_bytes = sizeof(struct hspz_tenant_settings),
        .set = set_field,
        .finish = finish,
    };
    config->has_tenants = true;
    config->tenants = calloc(json_array_size(value) + 1, sizeof(*config->tenants));
    if (config->tenants == NULL) {
        return no_memory(err);
    }
    return hspz_config_set_list(&list, config, config->tenants, &config->tenant_count, doc, from,
                                value, err);
}
