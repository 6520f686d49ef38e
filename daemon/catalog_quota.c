/* Memory of indexes by tenant: one that is loaded because a tenant named it is in memory for that
 * tenant, until it is dropped. */
#include "daemon/catalog_entry.h"
#include "daemon/filters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

/* What an index will take: about what its file does. */
static uint64_t
file_bytes(const struct hspz_served *served)
{
    struct stat st;
    return stat(served->path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

static bool
is_owned(const struct hspz_served *served, const struct hspz_tenant *tenant)
{
    return served->owned && strcmp(served->owner, tenant->settings.name) == 0;
}

static bool
is_idle(const struct hspz_served *served)
{
    return served->state == HSPZ_SERVED_READY && !served->pinned && served->holds == 0;
}

/* What is in memory for the tenant, or on its way there; and what of it may be dropped. */
static void
sum_up(const struct hspz_catalog *catalog, const struct hspz_served *except,
       const struct hspz_tenant *tenant, uint64_t *used, uint64_t *idle)
{
    uint64_t count;
    *idle = 0;
    hspz_filters_of(catalog->service->filters, tenant->settings.name, &count, used);
    for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (s != except && is_owned(s, tenant)) {
            *used += s->state == HSPZ_SERVED_READY     ? s->bytes
                     : s->state == HSPZ_SERVED_LOADING ? s->expected_bytes
                                                       : 0;
            *idle += is_idle(s) ? s->bytes : 0;
        }
    }
}

static void
drop_one(const struct hspz_catalog *catalog, const struct hspz_served *except,
         const struct hspz_tenant *tenant)
{
    struct hspz_served *victim = NULL;
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (s != except && is_owned(s, tenant) && is_idle(s) &&
            (victim == NULL || s->used_ns < victim->used_ns)) {
            victim = s;
        }
    }
    HSPZ_REQUIRE(victim != NULL);
    hspz_served_begin_drop(victim, "least recently used, its tenant's quota is needed");
}

/* Within the tenant's quota, if idle indexes are dropped. `except`, if any, is the one to come. */
static enum hspz_status
make_room(struct hspz_catalog *catalog, const struct hspz_served *except,
          const struct hspz_tenant *tenant, const char *what, const char *name, uint64_t need,
          struct hspz_error *err)
{
    const uint64_t most = tenant->settings.max_resident_bytes;
    uint64_t used, idle;
    if (most == 0) {
        return HSPZ_OK;
    }
    sum_up(catalog, except, tenant, &used, &idle);
    if (need <= most && used - idle <= most - need) {
        while (used > most - need) {
            drop_one(catalog, except, tenant);
            sum_up(catalog, except, tenant, &used, &idle);
        }
        return HSPZ_OK;
    }
    const enum hspz_status status = need > most ? HSPZ_E_TOO_LARGE : HSPZ_E_QUOTA_EXCEEDED;
    const char *const whose = tenant->settings.name;
    if (status == HSPZ_E_TOO_LARGE) {
        hspz_error_set(err, status,
                       "%s \"%s\" needs %" PRIu64
                       " bytes; tenant \"%s\" may have indexes and filters of %" PRIu64
                       " bytes in memory (max_resident_bytes)",
                       what, name, need, whose, most);
    } else {
        hspz_error_set(err, status,
                       "%s \"%s\" needs %" PRIu64
                       " bytes; tenant \"%s\" may have indexes and filters of %" PRIu64
                       " bytes in memory (max_resident_bytes), and uses %" PRIu64 " now",
                       what, name, need, whose, most, used - idle);
    }
    if (err != NULL) {
        err->has_retry = status == HSPZ_E_QUOTA_EXCEEDED;
        err->retry_ms = hspz_pace_guess_ms(&tenant->pace, uv_hrtime());
    }
    return hspz_error_limit(err, status, most);
}

enum hspz_status
hspz_catalog_make_room(struct hspz_catalog *catalog, const struct hspz_tenant *tenant,
                       const char *what, const char *name, uint64_t need, struct hspz_error *err)
{
    return make_room(catalog, NULL, tenant, what, name, need, err);
}

enum hspz_status
hspz_served_admit(struct hspz_served *served, const struct hspz_tenant *tenant,
                  struct hspz_error *err)
{
    if (served->state != HSPZ_SERVED_DROPPED && served->state != HSPZ_SERVED_DROPPING) {
        return HSPZ_OK; /* in memory, or on its way, for somebody */
    }
    const uint64_t need = file_bytes(served);
    const enum hspz_status status =
        make_room(served->catalog, served, tenant, "index", served->name, need, err);
    if (status != HSPZ_OK) {
        return status;
    }
    served->owned = true;
    served->expected_bytes = need;
    snprintf(served->owner, sizeof(served->owner), "%s", tenant->settings.name);
    return HSPZ_OK;
}
