#include "daemon/reload.h"

#include "daemon/access.h"
#include "daemon/catalog.h"
#include "daemon/config_options.h"
#include "daemon/filters.h"
#include "daemon/tls_choice.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void
stays(struct hspz_service *service, const char *key)
{
    HSPZ_LOG(service->log, HSPZ_LOG_WARNING, "changed, but takes effect at the next start only",
             hspz_kv("key", key));
}

static bool
same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool
same_list(char *const *a, size_t a_count, char *const *b, size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; same && i < a_count; i++) {
        same = strcmp(a[i], b[i]) == 0;
    }
    return same;
}

/* One option's value; member by member, as other threads read some of the rest. */
static void
apply(struct hspz_service *service, const struct hspz_option *o, struct hspz_config *to,
      const struct hspz_config *from)
{
    void *const slot = (char *)to + o->offset;
    const void *const fresh = (const char *)from + o->offset;
    bool same = true;
    size_t bytes = 0;
    switch (o->kind) {
    case HSPZ_OPTION_COUNT:
    case HSPZ_OPTION_BYTES:
        bytes = sizeof(uint64_t);
        break;
    case HSPZ_OPTION_CHOICE:
        bytes = sizeof(unsigned);
        break;
    case HSPZ_OPTION_TEXT:
        same = same_text(*(char *const *)slot, *(char *const *)fresh);
        break;
    case HSPZ_OPTION_LISTEN:
        same = same_list(to->listen, to->listen_count, from->listen, from->listen_count);
        break;
    case HSPZ_OPTION_DEVICES:
        same = same_list(to->devices, to->device_count, from->devices, from->device_count);
        break;
    case HSPZ_OPTION_GROUPS:
        same = hspz_config_groups_same(to, from);
        break;
    case HSPZ_OPTION_INDEXES:
    case HSPZ_OPTION_TENANTS:
        break;
    }
    if (bytes > 0 && o->live) {
        memcpy(slot, fresh, bytes);
    } else if (!same || (bytes > 0 && memcmp(slot, fresh, bytes) != 0)) {
        stays(service, o->key);
    }
}

static struct hspz_config_index *
find_index(const struct hspz_config *config, const char *name)
{
    for (size_t i = 0; i < config->index_count; i++) {
        if (strcmp(config->indexes[i].name, name) == 0) {
            return &config->indexes[i];
        }
    }
    return NULL;
}

/* An index on its way, and what was served under its name until now, or nothing. */
struct coming {
    struct hspz_waiter waiter;
    struct hspz_service *service;
    struct hspz_config *config;
    char *name, *path, *old_path;
};

static void
destroy(struct coming *c)
{
    free(c->name);
    free(c->path);
    free(c->old_path);
    free(c);
}

/* The old one is what the configuration has, so that a later reload tries again. */
static void
put_back(struct coming *c, const struct hspz_error *why)
{
    struct hspz_config_index *index = find_index(c->config, c->name);
    HSPZ_LOG(c->service->log, HSPZ_LOG_ERROR,
             c->old_path != NULL ? "index not loaded, the old one stays" : "index not loaded",
             hspz_kv("index", c->name), hspz_kv("why", why->text));
    if (index != NULL && c->old_path != NULL && strcmp(index->path, c->path) == 0) {
        free(index->path);
        index->path = c->old_path;
        c->old_path = NULL;
    }
}

static void
on_loaded(struct hspz_waiter *waiter, struct hspz_served *served, const struct hspz_error *err)
{
    struct coming *c = waiter->user;
    if (served == NULL && c->old_path != NULL) {
        put_back(c, err); /* of others the catalog has logged how it went */
    }
    destroy(c);
}

static void
load(struct hspz_service *service, struct hspz_config *config,
     const struct hspz_config_index *index, const struct hspz_config_index *old)
{
    struct hspz_error err = {0};
    struct coming *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        HSPZ_LOG(service->log, HSPZ_LOG_ERROR, "index not loaded", hspz_kv("index", index->name),
                 hspz_kv("why", "out of memory"));
        return;
    }
    *c = (struct coming){
        .waiter = {.done = on_loaded, .user = c},
        .service = service,
        .config = config,
        .name = strdup(index->name),
        .path = strdup(index->path),
        .old_path = old != NULL ? strdup(old->path) : NULL,
    };
    enum hspz_status status =
        c->name != NULL && c->path != NULL && (old == NULL || c->old_path != NULL)
            ? HSPZ_OK
            : hspz_error_set(&err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    if (status == HSPZ_OK) {
        /* It may be told, and gone, before the return. */
        status =
            hspz_catalog_load_path(service->catalog, index->name, index->path, &c->waiter, &err);
    }
    if (status != HSPZ_OK) {
        if (c->name != NULL && c->path != NULL) {
            put_back(c, &err);
        }
        destroy(c);
    }
}

/* Gone ones first, as their memory may be needed. */
static void
apply_indexes(struct hspz_service *service, struct hspz_config *to, struct hspz_config *from)
{
    struct hspz_config_index *const indexes = to->indexes;
    const size_t count = to->index_count;
    to->indexes = from->indexes;
    to->index_count = from->index_count;
    from->indexes = indexes;
    from->index_count = count;
    for (size_t i = 0; i < from->index_count; i++) {
        if (find_index(to, from->indexes[i].name) == NULL) {
            hspz_catalog_retire(service->catalog, from->indexes[i].name);
        }
    }
    for (size_t i = 0; i < to->index_count; i++) {
        const struct hspz_config_index *old = find_index(from, to->indexes[i].name);
        if (old == NULL || strcmp(old->path, to->indexes[i].path) != 0) {
            load(service, to, &to->indexes[i], old);
        }
    }
}

static void
apply_tenants(struct hspz_service *service, struct hspz_config *from)
{
    if (from->has_tenants != service->tenants.named) {
        stays(service, "tenants"); /* the listeners were chosen by it */
        return;
    }
    if (hspz_tenants_apply(&service->tenants, from->has_tenants, from->tenants,
                           from->tenant_count) != HSPZ_OK) {
        HSPZ_LOG(service->log, HSPZ_LOG_ERROR, "tenants not reloaded",
                 hspz_kv("why", "out of memory"));
        return;
    }
    hspz_access_reload(service);
    hspz_filters_reload(service->filters);
}

/* A certificate that cannot be used changes nothing, nor do other files, which wait for the next
 * start. */
static void
apply_certificate(struct hspz_service *service, const struct hspz_config *from)
{
    const struct hspz_config *config = service->config;
    struct hspz_tls_context *fresh = NULL;
    struct hspz_error err = {0};
    if (service->tls == NULL || !same_text(config->tls_certificate, from->tls_certificate) ||
        !same_text(config->tls_key, from->tls_key) ||
        !same_text(config->tls_client_ca, from->tls_client_ca)) {
        return;
    }
    if (hspz_tls_configure(service->config, service->log, &fresh, &err) != HSPZ_OK) {
        HSPZ_LOG(service->log, HSPZ_LOG_ERROR, "certificate not reloaded",
                 hspz_kv("why", err.text));
        return;
    }
    hspz_tls_context_destroy(&service->tls);
    service->tls = fresh;
}

/* Which there will be at the next start: those of now, or as many as are named; others are not
 * known before. */
static unsigned
devices_of(const struct hspz_service *service, const struct hspz_config *fresh)
{
    const struct hspz_config *now = service->config;
    if (fresh->engine == now->engine && same_text(fresh->simulate_devices, now->simulate_devices) &&
        same_list(fresh->devices, fresh->device_count, now->devices, now->device_count)) {
        return service->device_count;
    }
    return fresh->device_count > 0 ? (unsigned)fresh->device_count : UINT_MAX;
}

/* All that would be found at the start. */
static enum hspz_status
load_fresh(const struct hspz_service *service, const struct hspz_config *config,
           struct hspz_config *fresh, struct hspz_error *err)
{
    const enum hspz_status status = hspz_config_load(fresh, config->argc, config->argv, err);
    return status == HSPZ_OK ? hspz_config_groups_check(fresh, devices_of(service, fresh), err)
                             : status;
}

void
hspz_reload(struct hspz_service *service, struct hspz_config *config)
{
    struct hspz_config fresh;
    struct hspz_error err = {0};
    hspz_config_init(&fresh);
    if (load_fresh(service, config, &fresh, &err) != HSPZ_OK) {
        HSPZ_LOG(service->log, HSPZ_LOG_ERROR, "not reloaded", hspz_kv("why", err.text));
    } else {
        for (size_t i = 0; i < hspz_option_count; i++) {
            apply(service, &hspz_options[i], config, &fresh);
        }
        service->log->level = (enum hspz_log_level)config->log_level;
        service->log->format = (enum hspz_log_format)config->log_format;
        apply_indexes(service, config, &fresh);
        apply_tenants(service, &fresh);
        apply_certificate(service, &fresh);
        HSPZ_LOG(service->log, HSPZ_LOG_INFO, "reloaded");
    }
    hspz_config_fini(&fresh);
}
