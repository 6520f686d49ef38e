#include "daemon/tenant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OVERFLOW_DEFAULT 65534u

const char *
hspz_role_name(enum hspz_role role)
{
    return role == HSPZ_ROLE_OPERATOR ? "operator" : "user";
}

void
hspz_tenant_settings_fini(struct hspz_tenant_settings *settings)
{
    free(settings->name);
    free(settings->credentials);
    *settings = (struct hspz_tenant_settings){0};
}

static uint32_t
overflow_id(const char *path)
{
    unsigned long id = OVERFLOW_DEFAULT;
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        char text[32] = "";
        if (fgets(text, sizeof(text), file) != NULL) {
            id = strtoul(text, NULL, 10);
        }
        fclose(file);
    }
    return id <= UINT32_MAX ? (uint32_t)id : OVERFLOW_DEFAULT;
}

uint32_t
hspz_overflow_uid(void)
{
    return overflow_id("/proc/sys/kernel/overflowuid");
}

uint32_t
hspz_overflow_gid(void)
{
    return overflow_id("/proc/sys/kernel/overflowgid");
}

static void
destroy(struct hspz_tenant *tenant)
{
    HSPZ_REQUIRE(tenant->jobs == 0 && tenant->ingest_bytes == 0);
    hspz_share_fini(&tenant->share);
    hspz_tenant_settings_fini(&tenant->settings);
    free(tenant);
}

static struct hspz_tenant *
find_name(const struct hspz_tenants *tenants, const char *name)
{
    struct hspz_tenant *t = tenants->first;
    while (t != NULL && strcmp(t->settings.name, name) != 0) {
        t = t->next;
    }
    return t;
}

static void
unlink_tenant(struct hspz_tenants *tenants, struct hspz_tenant *tenant)
{
    struct hspz_tenant **link = &tenants->first;
    while (*link != tenant) {
        link = &(*link)->next;
    }
    *link = tenant->next;
}

/* One that is there already keeps its place in memory, and what it holds. */
static struct hspz_tenant *
adopt(struct hspz_tenants *tenants, struct hspz_tenant *fresh)
{
    struct hspz_tenant *old = find_name(tenants, fresh->settings.name);
    if (old == NULL) {
        return fresh;
    }
    unlink_tenant(tenants, old);
    hspz_tenant_settings_fini(&old->settings);
    old->settings = fresh->settings;
    old->gone = false;
    old->share.weight = old->settings.weight;
    old->share.cap_percent = old->settings.device_share;
    free(fresh);
    return old;
}

static void
apply(struct hspz_tenants *tenants, bool named, struct hspz_tenant *fresh)
{
    struct hspz_tenant *list = NULL, **last = &list;
    for (struct hspz_tenant *next; fresh != NULL; fresh = next) {
        next = fresh->next;
        *last = adopt(tenants, fresh);
        last = &(*last)->next;
        *last = NULL;
    }
    for (struct hspz_tenant *t = tenants->first, *next; t != NULL; t = next) {
        next = t->next;
        t->gone = true;
        if (t->uses == 0) {
            destroy(t);
        } else {
            *last = t;
            last = &t->next;
            *last = NULL;
        }
    }
    tenants->first = list;
    tenants->named = named;
    tenants->overflow_uid = hspz_overflow_uid();
    tenants->overflow_gid = hspz_overflow_gid();
}

enum hspz_status
hspz_tenants_apply(struct hspz_tenants *tenants, bool named, struct hspz_tenant_settings *settings,
                   size_t count)
{
    struct hspz_tenant_settings nameless = {.weight = 1};
    if (!named) {
        nameless.name = strdup("");
        settings = &nameless;
        count = nameless.name != NULL ? 1 : 0;
    }
    struct hspz_tenant *fresh = NULL;
    bool enough = named || count > 0;
    for (size_t i = 0; i < count && enough; i++) {
        struct hspz_tenant *t = calloc(1, sizeof(*t));
        enough = t != NULL;
        if (enough) {
            t->next = fresh;
            fresh = t;
        }
    }
    if (!enough) {
        for (struct hspz_tenant *next; fresh != NULL; fresh = next) {
            next = fresh->next;
            free(fresh);
        }
        free(nameless.name);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    size_t i = 0;
    for (struct hspz_tenant *t = fresh; t != NULL; t = t->next) {
        t->settings = settings[i];
        hspz_share_init(&t->share, t->settings.weight);
        t->share.cap_percent = t->settings.device_share;
        settings[i++] = (struct hspz_tenant_settings){0};
    }
    apply(tenants, named, fresh);
    return HSPZ_OK;
}

void
hspz_tenants_fini(struct hspz_tenants *tenants)
{
    for (struct hspz_tenant *t = tenants->first, *next; t != NULL; t = next) {
        next = t->next;
        HSPZ_REQUIRE(t->uses == 0);
        destroy(t);
    }
    *tenants = (struct hspz_tenants){0};
}

/* Whether all bytes are the same, in the same time wherever they differ. */
static bool
same_secret(const uint8_t *a, const uint8_t *b, size_t len)
{
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < len; i++) {
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    }
    return differ == 0;
}

static bool
matches(const struct hspz_credential *a, const struct hspz_credential *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    const bool by_id = a->kind == HSPZ_CREDENTIAL_UID || a->kind == HSPZ_CREDENTIAL_GID;
    return by_id ? a->id == b->id : same_secret(a->sha256, b->sha256, sizeof(a->sha256));
}

struct hspz_tenant *
hspz_tenants_find(const struct hspz_tenants *tenants, const struct hspz_credential *credential)
{
    if (!tenants->named) {
        return credential->kind == HSPZ_CREDENTIAL_NONE ? tenants->first : NULL;
    }
    if ((credential->kind == HSPZ_CREDENTIAL_UID && credential->id == tenants->overflow_uid) ||
        (credential->kind == HSPZ_CREDENTIAL_GID && credential->id == tenants->overflow_gid)) {
        return NULL;
    }
    struct hspz_tenant *found = NULL;
    for (struct hspz_tenant *t = tenants->first; t != NULL; t = t->next) {
        for (size_t i = 0; i < t->settings.credential_count && !t->gone; i++) {
            if (matches(&t->settings.credentials[i], credential)) {
                found = t; /* only one has it; looking goes on, so that time tells nothing */
            }
        }
    }
    return found;
}

static uint64_t
held(const struct hspz_tenant *t, enum hspz_held what)
{
    return what == HSPZ_HELD_CONNECTIONS ? t->uses
           : what == HSPZ_HELD_JOBS      ? t->jobs
                                         : t->ingest_bytes;
}

static uint64_t
count_there(const struct hspz_tenants *tenants)
{
    uint64_t count = 0;
    for (const struct hspz_tenant *t = tenants->first; t != NULL; t = t->next) {
        count += !t->gone;
    }
    return count;
}

uint64_t
hspz_tenants_most(const struct hspz_tenants *tenants, uint64_t limit)
{
    const uint64_t count = count_there(tenants);
    return count > 1 ? limit - limit / 4 / count * (count - 1) : limit;
}

bool
hspz_tenant_has_room(const struct hspz_tenants *tenants, const struct hspz_tenant *tenant,
                     enum hspz_held what, uint64_t more, uint64_t limit)
{
    const uint64_t count = count_there(tenants), part = count > 0 ? limit / 4 / count : 0;
    const bool few = !tenant->gone && held(tenant, what) + more <= part;
    uint64_t taken = more;
    for (const struct hspz_tenant *t = tenants->first; t != NULL; t = t->next) {
        const uint64_t its = held(t, what);
        taken += its < part && t != tenant && !t->gone && !few ? part : its;
    }
    return taken <= limit;
}

void
hspz_tenant_hold(struct hspz_tenant *tenant)
{
    tenant->uses++;
}

void
hspz_tenant_release(struct hspz_tenants *tenants, struct hspz_tenant **tenant)
{
    struct hspz_tenant *t = *tenant;
    *tenant = NULL;
    if (t == NULL) {
        return;
    }
    HSPZ_REQUIRE(t->uses > 0);
    if (--t->uses == 0 && t->gone) {
        unlink_tenant(tenants, t);
        destroy(t);
    }
}
