#include "daemon/catalog.h"

#include "daemon/catalog_entry.h"
#include "protocol/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum hspz_status
hspz_catalog_create(struct hspz_service *service, struct hspz_catalog **out)
{
    struct hspz_catalog *catalog = calloc(1, sizeof(*catalog));
    if (catalog == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    catalog->service = service;
    catalog->loads.last = &catalog->loads.first;
    catalog->builds.last = &catalog->builds.first;
    *out = catalog;
    return HSPZ_OK;
}

void
hspz_catalog_destroy(struct hspz_catalog **catalog)
{
    if (*catalog != NULL) {
        HSPZ_REQUIRE((*catalog)->list == NULL && hspz_catalog_idle(*catalog));
        free(*catalog);
        *catalog = NULL;
    }
}

static struct hspz_served *
find(const struct hspz_catalog *catalog, const char *name, size_t len)
{
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (strlen(s->name) == len && memcmp(s->name, name, len) == 0 && !s->unwanted) {
            return s;
        }
    }
    return NULL;
}

struct hspz_served *
hspz_served_share(struct hspz_served *served)
{
    served->uses++;
    return served;
}

void
hspz_served_release(struct hspz_served **served)
{
    struct hspz_served *s = *served;
    *served = NULL;
    if (s != NULL) {
        s->used_ns = uv_hrtime();
    }
    if (s != NULL && --s->uses == 0) {
        const bool going = s->state == HSPZ_SERVED_DROPPING;
        s->state = HSPZ_SERVED_LEAVING;
        if (!going) {
            s->op = HSPZ_OP_UNLOAD;
            hspz_served_enqueue(s, &s->catalog->loads);
        }
    }
}

void
hspz_served_unhold(struct hspz_served *served)
{
    HSPZ_REQUIRE(served->holds > 0);
    served->used_ns = uv_hrtime();
    if (--served->holds > 0 || served->state != HSPZ_SERVED_READY) {
        return;
    }
    if (served->gone && served->uses > 1) {
        hspz_served_begin_drop(served, "unloaded, and its jobs wait behind others");
    } else if (!served->gone && !served->pinned) {
        hspz_catalog_feed(served->catalog);
    }
}

void
hspz_served_tell_gone(struct hspz_served *served)
{
    if (served->gone && served->state == HSPZ_SERVED_DROPPED && served->why_not.status == HSPZ_OK) {
        hspz_error_set(&served->why_not,
                       atomic_load(&served->catalog->stop) ? HSPZ_E_SHUTTING_DOWN
                                                           : HSPZ_E_UNKNOWN_INDEX,
                       "index \"%s\" was unloaded before the job's turn", served->name);
    }
}

void
hspz_served_remove(struct hspz_served *served)
{
    served->gone = true;
    hspz_served_tell_gone(served);
    if (served->state == HSPZ_SERVED_READY && served->uses > 1 && served->holds == 0) {
        hspz_served_begin_drop(served, "unloaded, and its jobs wait behind others");
    }
    hspz_served_unlist(served);
    hspz_served_release(&served);
}

void
hspz_catalog_clear(struct hspz_catalog *catalog)
{
    for (struct hspz_served *s = catalog->list, *next; s != NULL; s = next) {
        next = s->next;
        if (s->state == HSPZ_SERVED_READY || s->state == HSPZ_SERVED_DROPPED) {
            hspz_served_remove(s);
        }
    }
}

bool
hspz_catalog_idle(const struct hspz_catalog *catalog)
{
    return catalog->loads.running == NULL && catalog->loads.first == NULL &&
           catalog->builds.running == NULL && catalog->builds.first == NULL;
}

void
hspz_catalog_forget(struct hspz_catalog *catalog, struct hspz_waiter *waiter)
{
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        for (struct hspz_waiter **link = &s->waiters; *link != NULL; link = &(*link)->next) {
            if (*link == waiter) {
                *link = waiter->next;
                return;
            }
        }
    }
}

/* A path that a peer named: under `dir`, or absolute. */
static enum hspz_status
resolve(const char *dir, const char *option, struct hspz_text file, char **out,
        struct hspz_error *err)
{
    if (file.len == 0 || file.len > HSPZ_PATH_BYTES_LIMIT ||
        memchr(file.bytes, '\0', file.len) != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "a file name has 1 to %u bytes and no zero byte",
                              HSPZ_PATH_BYTES_LIMIT);
    }
    char *path = NULL;
    if (file.bytes[0] == '/') {
        path = strndup(file.bytes, file.len);
    } else if (dir == NULL) {
        return hspz_error_set(err, HSPZ_E_FORBIDDEN,
                              "\"%.*s\" is no absolute path, and no %s is configured: give an "
                              "absolute path, or start hspzd with --%s",
                              (int)file.len, file.bytes, option,
                              strcmp(option, "index_dir") == 0 ? "index-dir" : "data-dir");
    } else {
        for (size_t at = 0; at <= file.len;) {
            const char *slash = memchr(file.bytes + at, '/', file.len - at);
            const size_t end = slash != NULL ? (size_t)(slash - file.bytes) : file.len;
            if (end - at == 2 && memcmp(file.bytes + at, "..", 2) == 0) {
                return hspz_error_set(err, HSPZ_E_FORBIDDEN, "\"%.*s\" leads out of %s",
                                      (int)file.len, file.bytes, option);
            }
            at = end + 1;
        }
        if (asprintf(&path, "%s/%.*s", dir, (int)file.len, file.bytes) < 0) {
            path = NULL;
        }
    }
    if (path == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a file name");
    }
    *out = path;
    return HSPZ_OK;
}

static enum hspz_status
create(struct hspz_catalog *catalog, const char *name, size_t name_len, const char *path,
       struct hspz_served **out, struct hspz_error *err)
{
    struct hspz_served *served = calloc(1, sizeof(*served));
    if (served != NULL) {
        served->name = strndup(name, name_len);
        served->path = strdup(path);
    }
    if (served == NULL || served->name == NULL || served->path == NULL) {
        if (served != NULL) {
            hspz_served_destroy(served);
        }
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    served->catalog = catalog;
    served->uses = 1;
    *out = served;
    return HSPZ_OK;
}

static void
list(struct hspz_served *served, struct hspz_waiter *waiter)
{
    struct hspz_served **place = &served->catalog->list;
    while (*place != NULL && strcmp((*place)->name, served->name) <= 0) {
        place = &(*place)->next;
    }
    served->next = *place;
    *place = served;
    if (waiter != NULL) {
        waiter->next = NULL;
        served->waiters = waiter;
    }
}

/* Has a dropped one loaded. */
static void
demand(struct hspz_served *served)
{
    if (served->state == HSPZ_SERVED_DROPPED) {
        served->on_demand = true;
        hspz_served_begin_load(served);
    } else if (served->state == HSPZ_SERVED_DROPPING) {
        served->wanted = true;
    }
}

void
hspz_served_hold(struct hspz_served *served)
{
    served->holds++;
    if (!hspz_served_settled(served)) {
        demand(served);
    }
}

/* Whether the file of a ready one is still what was loaded; one that is gone was not replaced. */
static enum hspz_status
check_unchanged(const struct hspz_served *served, struct hspz_error *err)
{
    const struct hspz_index_want want = {.digest = served->digest};
    struct hspz_error why = {0};
    const enum hspz_status status = hspz_index_file_check(served->path, &want, &why);
    if (status != HSPZ_E_BAD_FILE) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "\"%s\" is served already, and its file has changed since; unload it "
                          "first (%s)",
                          served->name, why.text);
}

/* A load of a name that is in the list. */
static enum hspz_status
load_again(struct hspz_served *served, const char *path, const struct hspz_text *digest,
           struct hspz_waiter *waiter, struct hspz_error *err)
{
    const char *have = served->known             ? served->digest
                       : served->want_digest_set ? served->want_digest
                                                 : "";
    const bool same_digest = digest != NULL && digest->len > 0 && digest->len == strlen(have) &&
                             memcmp(digest->bytes, have, digest->len) == 0;
    const bool no_digest = digest == NULL || digest->len == 0;
    if (!same_digest && !(no_digest && strcmp(served->path, path) == 0)) {
        return hspz_error_set(
            err, HSPZ_E_BAD_REQUEST, "\"%s\" is served already, from %s%s%s; unload it first",
            served->name, served->path, *have != '\0' ? " with digest " : "", have);
    }
    if (served->state == HSPZ_SERVED_READY) {
        const enum hspz_status status = no_digest ? check_unchanged(served, err) : HSPZ_OK;
        if (status == HSPZ_OK) {
            waiter->done(waiter, served, NULL);
        }
        return status;
    }
    waiter->next = served->waiters;
    served->waiters = waiter;
    demand(served);
    return HSPZ_OK;
}

/* What the file has to be, copied for the pool. */
static enum hspz_status
set_want(struct hspz_served *served, const struct hspz_load_params *params, struct hspz_error *err)
{
    if (params->want_shape.len > 0) {
        const enum hspz_status status = hspz_shape_parse(
            params->want_shape.bytes, params->want_shape.len, &served->want_shape, err);
        if (status != HSPZ_OK) {
            return status;
        }
        served->want.shape = &served->want_shape;
    }
    if (params->want_digest.len > 0) {
        if (params->want_digest.len != sizeof(served->want_digest) - 1) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a digest has 16 hex digits");
        }
        memcpy(served->want_digest, params->want_digest.bytes, params->want_digest.len);
        served->want_digest_set = true;
        served->want.digest = served->want_digest;
    }
    if (params->want_step > UINT32_MAX) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "no index has step %" PRIu64,
                              params->want_step);
    }
    served->want.step = (uint32_t)params->want_step;
    return HSPZ_OK;
}

static enum hspz_status
load(struct hspz_catalog *catalog, const struct hspz_load_params *params, const char *path,
     struct hspz_waiter *waiter, struct hspz_error *err)
{
    struct hspz_served *served = find(catalog, params->index.bytes, params->index.len);
    if (served != NULL) {
        return load_again(served, path, &params->want_digest, waiter, err);
    }
    enum hspz_status status =
        create(catalog, params->index.bytes, params->index.len, path, &served, err);
    if (status == HSPZ_OK) {
        status = set_want(served, params, err);
        if (status != HSPZ_OK) {
            hspz_served_destroy(served);
        }
    }
    if (status != HSPZ_OK) {
        return status;
    }
    list(served, waiter);
    hspz_served_begin_load(served);
    return HSPZ_OK;
}

/* What was to take the place of an index is no more wanted. */
static void
forget_coming(struct hspz_catalog *catalog, const char *name)
{
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        s->unwanted = s->unwanted || (s->coming && strcmp(s->name, name) == 0);
    }
}

static enum hspz_status
replace(struct hspz_catalog *catalog, const char *name, const char *path,
        struct hspz_waiter *waiter, struct hspz_error *err)
{
    struct hspz_served *served = NULL;
    const enum hspz_status status = create(catalog, name, strlen(name), path, &served, err);
    if (status == HSPZ_OK) {
        served->pinned = true;
        served->coming = true;
        list(served, waiter);
        hspz_served_begin_load(served);
    }
    return status;
}

enum hspz_status
hspz_catalog_load_path(struct hspz_catalog *catalog, const char *name, const char *path,
                       struct hspz_waiter *waiter, struct hspz_error *err)
{
    const struct hspz_load_params params = {.index = {.bytes = name, .len = strlen(name)}};
    const struct hspz_served *old = find(catalog, name, strlen(name));
    forget_coming(catalog, name);
    if (old != NULL && old->pinned && strcmp(old->path, path) != 0) {
        if (old->state == HSPZ_SERVED_READY) {
            return replace(catalog, name, path, waiter, err);
        }
        hspz_catalog_retire(catalog, name);
    }
    const enum hspz_status status = load(catalog, &params, path, waiter, err);
    struct hspz_served *served = status == HSPZ_OK ? find(catalog, name, strlen(name)) : NULL;
    if (served != NULL) {
        served->pinned = true;
    }
    return status;
}

enum hspz_status
hspz_catalog_load(struct hspz_catalog *catalog, const struct hspz_load_params *params,
                  struct hspz_waiter *waiter, struct hspz_error *err)
{
    char *path = NULL;
    enum hspz_status status =
        resolve(catalog->service->config->index_dir, "index_dir", params->file, &path, err);
    if (status == HSPZ_OK) {
        status = load(catalog, params, path, waiter, err);
    }
    free(path);
    return status;
}

static enum hspz_status
set_build(struct hspz_served *served, const struct hspz_build_params *params,
          struct hspz_error *err)
{
    const char *shape = params->shape.len > 0 ? params->shape.bytes : HSPZ_SHAPE_DEFAULT;
    const size_t shape_len = params->shape.len > 0 ? params->shape.len : strlen(shape);
    enum hspz_status status = hspz_shape_parse(shape, shape_len, &served->build_params.shape, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (params->step < 1 || params->step > UINT32_MAX) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a step is 1 to 4294967295, not %" PRIu64,
                              params->step);
    }
    served->build_params.step = (uint32_t)params->step;
    served->build_params.unmask = params->unmask;
    served->build_params.all_positions = params->all_positions;
    served->build_block_size =
        params->block_size != 0 ? params->block_size : HSPZ_BLOCK_BASES_DEFAULT;
    return resolve(served->catalog->service->config->data_dir, "data_dir", params->source,
                   &served->source, err);
}

enum hspz_status
hspz_catalog_build(struct hspz_catalog *catalog, const struct hspz_build_params *params,
                   struct hspz_waiter *waiter, struct hspz_error *err)
{
    struct hspz_served *served = find(catalog, params->index.bytes, params->index.len);
    char *path = NULL;
    if (served != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"%s\" is served already, from %s; unload it first", served->name,
                              served->path);
    }
    enum hspz_status status =
        resolve(catalog->service->config->index_dir, "index_dir", params->file, &path, err);
    if (status == HSPZ_OK) {
        status = create(catalog, params->index.bytes, params->index.len, path, &served, err);
    }
    free(path);
    if (status == HSPZ_OK) {
        status = set_build(served, params, err);
        if (status != HSPZ_OK) {
            hspz_served_destroy(served);
        }
    }
    if (status != HSPZ_OK) {
        return status;
    }
    served->state = HSPZ_SERVED_BUILDING;
    served->op = HSPZ_OP_BUILD;
    HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "building index", hspz_kv("index", served->name),
             hspz_kv("source", served->source), hspz_kv("file", served->path));
    list(served, waiter);
    hspz_catalog_count_loading(catalog, true);
    hspz_served_enqueue(served, &catalog->builds);
    return HSPZ_OK;
}

/* An entry for NAME.hspz in index_dir; NULL, with nothing said, when there is none. */
static enum hspz_status
find_file(struct hspz_catalog *catalog, struct hspz_text name, struct hspz_served **out,
          struct hspz_error *err)
{
    const char *dir = catalog->service->config->index_dir;
    if (dir == NULL || !hspz_index_name_allowed(name.bytes, name.len) || name.bytes[0] == '.' ||
        atomic_load(&catalog->stop)) {
        return HSPZ_OK;
    }
    char *path = NULL;
    if (asprintf(&path, "%s/%.*s.hspz", dir, (int)name.len, name.bytes) < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a file name");
    }
    enum hspz_status status = HSPZ_OK;
    if (access(path, F_OK) == 0) {
        status = create(catalog, name.bytes, name.len, path, out, err);
    }
    if (status == HSPZ_OK && *out != NULL) {
        (*out)->state = HSPZ_SERVED_DROPPED;
        list(*out, NULL);
    }
    free(path);
    return status;
}

/* The entry of that name that is ready, or is or can be loaded on demand. */
static enum hspz_status
find_usable(struct hspz_catalog *catalog, struct hspz_text name, struct hspz_served **out,
            struct hspz_error *err)
{
    struct hspz_served *served = find(catalog, name.bytes, name.len);
    if (served == NULL) {
        const enum hspz_status status = find_file(catalog, name, &served, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    if (served == NULL) {
        return hspz_error_set(err, HSPZ_E_UNKNOWN_INDEX, "there is no index \"%.*s\"",
                              (int)name.len, name.bytes);
    }
    if (served->state < HSPZ_SERVED_READY && !served->on_demand) {
        const uint64_t total = atomic_load(&served->total), done = atomic_load(&served->done);
        return hspz_error_set(err, HSPZ_E_NOT_READY, "index \"%s\" is still %s, %.0f percent",
                              served->name,
                              served->state == HSPZ_SERVED_BUILDING ? "being built" : "loading",
                              total > 0 ? 100.0 * (double)done / (double)total : 0.0);
    }
    *out = served;
    return HSPZ_OK;
}

enum hspz_status
hspz_catalog_demand(struct hspz_catalog *catalog, struct hspz_text name,
                    const struct hspz_tenant *tenant, struct hspz_waiter *waiter,
                    struct hspz_error *err)
{
    struct hspz_served *served = NULL;
    enum hspz_status status = find_usable(catalog, name, &served, err);
    if (status == HSPZ_OK) {
        status = hspz_served_admit(served, tenant, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    HSPZ_REQUIRE(served->state != HSPZ_SERVED_READY);
    waiter->next = served->waiters;
    served->waiters = waiter;
    demand(served);
    return HSPZ_OK;
}

enum hspz_status
hspz_catalog_acquire(struct hspz_catalog *catalog, struct hspz_text name,
                     const struct hspz_tenant *tenant, struct hspz_served **out,
                     struct hspz_error *err)
{
    struct hspz_served *served = NULL;
    enum hspz_status status = find_usable(catalog, name, &served, err);
    if (status == HSPZ_OK) {
        status = hspz_served_admit(served, tenant, err);
    }
    if (status == HSPZ_OK) {
        served->uses++;
        served->used_ns = uv_hrtime();
        demand(served);
        *out = served;
    }
    return status;
}

enum hspz_status
hspz_catalog_unload(struct hspz_catalog *catalog, struct hspz_text name, uint32_t id,
                    struct hspz_writer *w, struct hspz_error *err)
{
    struct hspz_served *served = find(catalog, name.bytes, name.len);
    if (served == NULL) {
        return hspz_error_set(err, HSPZ_E_UNKNOWN_INDEX, "there is no index \"%.*s\"",
                              (int)name.len, name.bytes);
    }
    if (served->state != HSPZ_SERVED_READY && served->state != HSPZ_SERVED_DROPPED) {
        return hspz_error_set(err, HSPZ_E_NOT_READY, "index \"%s\" is on its way", served->name);
    }
    HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "unloading index",
             hspz_kv("index", served->name), hspz_kv_uint("jobs", served->uses - 1));
    hspz_served_encode(w, id, served);
    hspz_served_remove(served);
    return HSPZ_OK;
}

void
hspz_catalog_retire(struct hspz_catalog *catalog, const char *name)
{
    struct hspz_served *served = find(catalog, name, strlen(name));
    forget_coming(catalog, name);
    if (served != NULL && served->pinned &&
        (served->state == HSPZ_SERVED_READY || served->state == HSPZ_SERVED_DROPPED)) {
        HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "unloading index", hspz_kv("index", name),
                 hspz_kv_uint("jobs", served->uses - 1));
        hspz_served_remove(served);
    } else if (served != NULL && served->pinned && served->state == HSPZ_SERVED_LOADING) {
        HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "unloading index once it is loaded",
                 hspz_kv("index", name));
        served->unwanted = true;
    }
}

void
hspz_catalog_tick(struct hspz_catalog *catalog)
{
    const uint64_t idle_ns = catalog->service->config->idle_unload_s * UINT64_C(1000000000);
    const uint64_t now = uv_hrtime();
    for (struct hspz_served *s = catalog->list; idle_ns > 0 && s != NULL; s = s->next) {
        if (s->state == HSPZ_SERVED_READY && !s->pinned && s->uses == 1 &&
            now - s->used_ns >= idle_ns) {
            hspz_served_begin_drop(s, "idle");
        }
    }
}

bool
hspz_served_settled(const struct hspz_served *served)
{
    return served->state != HSPZ_SERVED_LOADING && served->state != HSPZ_SERVED_DROPPING &&
           !(served->state == HSPZ_SERVED_DROPPED && served->why_not.status == HSPZ_OK);
}

bool
hspz_served_failed(const struct hspz_served *served, struct hspz_error *err)
{
    if (served->state == HSPZ_SERVED_DROPPED) {
        *err = served->why_not;
        return true;
    }
    return false;
}

const struct hspz_index *
hspz_served_index(const struct hspz_served *served)
{
    /* While it is loaded its members are the pool's. */
    return served->state == HSPZ_SERVED_READY ? served->index : NULL;
}

struct hspz_ref *
hspz_served_ref(const struct hspz_served *served)
{
    return served->ref;
}

const bool *
hspz_served_holders(const struct hspz_served *served, size_t block)
{
    return hspz_placing_holders(&served->placing, block);
}

const char *
hspz_served_name(const struct hspz_served *served)
{
    return served->name;
}

struct hspz_usage *
hspz_served_usage(struct hspz_served *served)
{
    return &served->usage;
}

double
hspz_catalog_percent(const struct hspz_catalog *catalog)
{
    if (catalog->loading == 0) {
        return 100;
    }
    double sum = catalog->batch_done;
    for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        const uint64_t total = atomic_load(&s->total), done = atomic_load(&s->done);
        if (s->state < HSPZ_SERVED_READY && total > 0) {
            sum += done < total ? (double)done / (double)total : 1;
        }
    }
    return 100 * sum / catalog->batch;
}

uint64_t
hspz_catalog_progress(const struct hspz_catalog *catalog)
{
    return atomic_load(&catalog->progress);
}

unsigned
hspz_catalog_loading(const struct hspz_catalog *catalog)
{
    return catalog->loading;
}

uint64_t
hspz_catalog_bytes(const struct hspz_catalog *catalog)
{
    return catalog->bytes;
}
