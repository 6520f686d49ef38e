#include "daemon/filters.h"

#include "daemon/catalog.h"
#include "daemon/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys of a step on a lane: at most a turn's, of a processor and of a GPU. */
#define CPU_KEYS ((size_t)1 << 11)
#define CUDA_KEYS ((size_t)1 << 18)
/* Into a counter: a processor's shares them out to threads, and goes through its memory once for
 * all of them, a tenth of a second for one thread; a GPU's sorts them. */
#define COUNTER_KEYS ((size_t)1 << 20)
#define CUDA_COUNTER_KEYS ((size_t)1 << 21)
/* Less is not worth having for a while. */
#define BORROWED_LEAST (UINT64_C(1) << 16)
/* Where a step goes over all of the filter: more keys, as it is larger. */
#define WHOLE_SHARE 16u
#define WHOLE_KEYS_LEAST ((size_t)1 << 13)
#define WHOLE_KEYS_MOST ((size_t)1 << 20)

struct hspz_filters {
    struct hspz_service *service;
    struct hspz_aside aside;
    struct hspz_named_filter *list; /* coming and listed */
    uint64_t count, bytes;          /* bytes: leaving ones and borrowed ones included */
    unsigned next_device;
};

enum hspz_status
hspz_filters_create(struct hspz_service *service, struct hspz_filters **out)
{
    struct hspz_filters *filters = calloc(1, sizeof(*filters));
    if (filters == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    filters->service = service;
    hspz_aside_init(&filters->aside, service->loop);
    *out = filters;
    return HSPZ_OK;
}

void
hspz_filters_destroy(struct hspz_filters **filters)
{
    if (*filters != NULL) {
        HSPZ_REQUIRE((*filters)->list == NULL && hspz_filters_idle(*filters));
        free(*filters);
        *filters = NULL;
    }
}

bool
hspz_filters_idle(const struct hspz_filters *filters)
{
    return hspz_aside_idle(&filters->aside);
}

struct hspz_aside *
hspz_filters_aside(struct hspz_filters *filters)
{
    return &filters->aside;
}

/* ---- names ---- */

static bool
is_name(const char *bytes, size_t len, size_t limit)
{
    bool good = len > 0 && len <= limit && bytes[0] != '.';
    for (size_t i = 0; i < len && good; i++) {
        const char c = bytes[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    }
    return good;
}

enum hspz_status
hspz_filter_ref_parse(const struct hspz_tenant *tenant, struct hspz_text text,
                      struct hspz_filter_ref *out, struct hspz_error *err)
{
    const char *const slash = text.len > 0 ? memchr(text.bytes, '/', text.len) : NULL;
    const size_t owner_len = slash != NULL ? (size_t)(slash - text.bytes) : 0;
    const char *const name = slash != NULL ? slash + 1 : text.bytes;
    const size_t len = text.len - (slash != NULL ? owner_len + 1 : 0);
    struct hspz_filter_ref ref = {0};
    if (!is_name(name, len, HSPZ_FILTER_NAME_LIMIT) ||
        (slash != NULL && (owner_len == 0 || owner_len > HSPZ_TENANT_NAME_LIMIT))) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"%.*s\" is no filter's name (1 to %u letters, digits, dots, "
                              "hyphens, underscores, and no dot first; TENANT/NAME for another "
                              "tenant's)",
                              (int)text.len, text.bytes, HSPZ_FILTER_NAME_LIMIT);
    }
    snprintf(ref.name, sizeof(ref.name), "%.*s", (int)len, name);
    if (slash != NULL) {
        snprintf(ref.owner, sizeof(ref.owner), "%.*s", (int)owner_len, text.bytes);
    } else {
        snprintf(ref.owner, sizeof(ref.owner), "%s", tenant->settings.name);
    }
    ref.own = strcmp(ref.owner, tenant->settings.name) == 0;
    *out = ref;
    return HSPZ_OK;
}

static const char *
show(const char *owner, const char *name, bool own, char out[HSPZ_FILTER_SHOWN_BYTES])
{
    snprintf(out, HSPZ_FILTER_SHOWN_BYTES, "%s%s%s", own ? "" : owner, own ? "" : "/", name);
    return out;
}

const char *
hspz_filter_ref_shown(const struct hspz_filter_ref *ref, char out[HSPZ_FILTER_SHOWN_BYTES])
{
    return show(ref->owner, ref->name, ref->own, out);
}

/* ---- the list ---- */

static struct hspz_named_filter *
find(const struct hspz_filters *filters, const struct hspz_filter_ref *ref)
{
    struct hspz_named_filter *f = filters->list;
    while (f != NULL && (strcmp(f->name, ref->name) != 0 || strcmp(f->owner, ref->owner) != 0)) {
        f = f->next;
    }
    return f;
}

enum hspz_status
hspz_filters_acquire(struct hspz_filters *filters, const struct hspz_filter_ref *ref,
                     enum hspz_filter_access access, struct hspz_named_filter **out,
                     struct hspz_error *err)
{
    struct hspz_named_filter *f = find(filters, ref);
    char shown[HSPZ_FILTER_SHOWN_BYTES];
    hspz_filter_ref_shown(ref, shown);
    if (f == NULL || f->coming || (!ref->own && !f->shared && access != HSPZ_FILTER_DROPS_ANY)) {
        return hspz_error_set(err, HSPZ_E_UNKNOWN_FILTER, "there is no filter \"%s\"", shown);
    }
    if (!ref->own && access != HSPZ_FILTER_READS && access != HSPZ_FILTER_DROPS_ANY) {
        return hspz_error_set(err, HSPZ_E_FORBIDDEN,
                              "filter \"%s\" is another tenant's: it may be read only", shown);
    }
    f->uses++;
    *out = f;
    return HSPZ_OK;
}

void
hspz_filters_of(const struct hspz_filters *filters, const char *owner, uint64_t *count,
                uint64_t *bytes)
{
    *count = *bytes = 0;
    for (const struct hspz_named_filter *f = filters->list; f != NULL; f = f->next) {
        if (strcmp(f->owner, owner) == 0) {
            ++*count;
            *bytes += f->bytes;
        }
    }
}

static enum hspz_status
too_many(struct hspz_error *err, uint64_t limit, const char *whose)
{
    hspz_error_set(err, HSPZ_E_QUOTA_EXCEEDED,
                   "%" PRIu64 " filters are the most that %s may have: drop one first", limit,
                   whose);
    return hspz_error_limit(err, HSPZ_E_QUOTA_EXCEEDED, limit);
}

enum hspz_status
hspz_filters_reserve(struct hspz_filters *filters, const struct hspz_filter_ref *ref,
                     const struct hspz_tenant *tenant, bool shared, struct hspz_named_filter **out,
                     struct hspz_error *err)
{
    uint64_t count, bytes;
    const uint64_t most = tenant->settings.max_filters;
    const struct hspz_config *config = filters->service->config;
    HSPZ_REQUIRE(ref->own);
    if (find(filters, ref) != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "there is a filter \"%s\" already: drop it first", ref->name);
    }
    hspz_filters_of(filters, ref->owner, &count, &bytes);
    if (most != 0 && count >= most) {
        return too_many(err, most, "this tenant");
    }
    if (filters->count >= config->max_filters) {
        return too_many(err, config->max_filters, "this server");
    }
    struct hspz_named_filter *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a filter");
    }
    memcpy(f->owner, ref->owner, sizeof(f->owner));
    memcpy(f->name, ref->name, sizeof(f->name));
    f->filters = filters;
    f->shared = shared;
    f->coming = true;
    f->device = HSPZ_ANY_DEVICE;
    f->uses = 2;
    f->last = &f->first;
    f->next = filters->list;
    filters->list = f;
    filters->count++;
    *out = f;
    return HSPZ_OK;
}

void
hspz_filters_list(struct hspz_named_filter *filter)
{
    HSPZ_REQUIRE(filter->filter != NULL);
    filter->coming = false;
}

void
hspz_filters_unlist(struct hspz_named_filter *filter)
{
    struct hspz_filters *filters = filter->filters;
    if (filter->gone) {
        return;
    }
    struct hspz_named_filter **link = &filters->list;
    while (*link != filter) {
        link = &(*link)->next;
    }
    *link = filter->next;
    filters->count--;
    filter->gone = true;
    hspz_named_filter_release(&filter);
}

void
hspz_filters_clear(struct hspz_filters *filters)
{
    for (struct hspz_named_filter *f = filters->list, *next; f != NULL; f = next) {
        next = f->next;
        hspz_filters_unlist(f);
    }
}

void
hspz_filters_reload(struct hspz_filters *filters)
{
    for (struct hspz_named_filter *f = filters->list, *next; f != NULL; f = next) {
        const struct hspz_tenant *t = filters->service->tenants.first;
        next = f->next;
        while (t != NULL && (t->gone || strcmp(t->settings.name, f->owner) != 0)) {
            t = t->next;
        }
        if (t == NULL) {
            HSPZ_LOG(filters->service->log, HSPZ_LOG_INFO, "filter dropped, its tenant is gone",
                     hspz_kv("tenant", f->owner), hspz_kv("filter", f->name));
            hspz_filters_unlist(f);
        }
    }
}

/* ---- its end ---- */

static void
run_end(struct hspz_aside_piece *piece)
{
    struct hspz_named_filter *f = piece->owner;
    f->ops->destroy(&f->filter);
}

static void
on_end(struct hspz_aside_piece *piece)
{
    struct hspz_named_filter *f = piece->owner;
    struct hspz_service *service = f->filters->service;
    f->filters->bytes -= f->bytes;
    free(f);
    service->changed(service);
}

void
hspz_named_filter_share(struct hspz_named_filter *filter)
{
    HSPZ_REQUIRE(filter->uses > 0);
    filter->uses++;
}

void
hspz_named_filter_release(struct hspz_named_filter **filter)
{
    struct hspz_named_filter *f = *filter;
    *filter = NULL;
    if (f == NULL || --f->uses > 0) {
        return;
    }
    HSPZ_REQUIRE(f->gone && f->readers == 0 && !f->writer);
    f->end = (struct hspz_aside_piece){.owner = f, .run = run_end, .done = on_end};
    if (f->filter == NULL) {
        on_end(&f->end);
    } else {
        hspz_aside_queue(&f->filters->aside, &f->end);
    }
}

/* ---- its memory ---- */

static bool
is_quotient(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_SQF || kind == HSPZ_FILTER_RSQF;
}

static bool
is_on_device(const struct hspz_named_filter *filter)
{
    return filter->device != HSPZ_ANY_DEVICE;
}

/* A device that works, if there is one, in turn. */
static unsigned
next_device(struct hspz_filters *filters)
{
    const struct hspz_service *service = filters->service;
    unsigned device = filters->next_device++ % service->device_count;
    for (unsigned i = 0;
         i < service->device_count && service->devices[device].state != HSPZ_DEVICE_READY; i++) {
        device = filters->next_device++ % service->device_count;
    }
    return device;
}

void
hspz_filters_place(struct hspz_named_filter *filter, struct hspz_filter_plan *plan)
{
    struct hspz_filters *filters = filter->filters;
    const struct hspz_service *service = filters->service;
    const enum hspz_filter_kind kind = plan->spec.kind;
    const struct hspz_filter_ops *ops =
        service->ops->filter != NULL ? service->ops->filter(kind) : NULL;
    if (ops != NULL && service->ops->filter_device != NULL) {
        for (unsigned p = 0; p < plan->spec.parts; p++) {
            const unsigned device = next_device(filters);
            filter->device = p == 0 ? device : filter->device;
            plan->part_devices[p] = service->ops->filter_device(service->engine, device);
        }
        plan->device = plan->part_devices[0];
    }
    filter->ops = hspz_filter_ops_of(plan, ops != NULL ? ops : hspz_cpu_filter(kind));
}

struct hspz_filter_pace
hspz_named_filter_pace(const struct hspz_named_filter *filter, const struct hspz_filter_plan *plan,
                       bool writes)
{
    struct hspz_filter_pace pace = {.keys = is_on_device(filter) ? CUDA_KEYS : CPU_KEYS};
    if (writes && plan->spec.kind == HSPZ_FILTER_COUNTER) {
        pace.keys = is_on_device(filter) ? CUDA_COUNTER_KEYS : COUNTER_KEYS;
        pace.aside = true;
        return pace;
    }
    if (writes && is_quotient(plan->spec.kind)) {
        const size_t least = pace.keys > WHOLE_KEYS_LEAST ? pace.keys : WHOLE_KEYS_LEAST;
        const uint64_t share = plan->spec.slots / WHOLE_SHARE;
        pace.keys = share < least             ? least
                    : share > WHOLE_KEYS_MOST ? WHOLE_KEYS_MOST
                                              : (size_t)share;
        pace.aside = !is_on_device(filter);
    }
    return pace;
}

uint64_t
hspz_named_filter_cost(const struct hspz_named_filter *filter, const struct hspz_filter_plan *plan)
{
    const bool twice = !is_on_device(filter) && is_quotient(plan->spec.kind);
    return twice ? 2 * plan->bytes : plan->bytes;
}

static enum hspz_status
over_budget(const struct hspz_filters *filters, uint64_t bytes, struct hspz_error *err)
{
    const uint64_t budget = filters->service->config->filter_memory;
    const enum hspz_status status = bytes > budget ? HSPZ_E_TOO_LARGE : HSPZ_E_QUOTA_EXCEEDED;
    hspz_error_set(err, status,
                   "%" PRIu64 " bytes are needed, of the %" PRIu64
                   " of all filters (filter_memory) %" PRIu64 " are in use",
                   bytes, budget, filters->bytes);
    return hspz_error_limit(err, status, budget);
}

static bool
fits(const struct hspz_filters *filters, uint64_t bytes)
{
    const uint64_t budget = filters->service->config->filter_memory;
    return bytes <= budget && filters->bytes <= budget - bytes;
}

enum hspz_status
hspz_filters_charge(struct hspz_named_filter *filter, const struct hspz_tenant *tenant,
                    uint64_t bytes, struct hspz_error *err)
{
    struct hspz_filters *filters = filter->filters;
    HSPZ_REQUIRE(filter->coming && filter->bytes == 0);
    if (!fits(filters, bytes)) {
        return over_budget(filters, bytes, err);
    }
    const enum hspz_status status = hspz_catalog_make_room(filters->service->catalog, tenant,
                                                           "filter", filter->name, bytes, err);
    if (status == HSPZ_OK) {
        filter->bytes = bytes;
        filters->bytes += bytes;
    }
    return status;
}

enum hspz_status
hspz_filters_borrow(struct hspz_filters *filters, uint64_t bytes, struct hspz_error *err)
{
    if (!fits(filters, bytes)) {
        return over_budget(filters, bytes, err);
    }
    filters->bytes += bytes;
    return HSPZ_OK;
}

uint64_t
hspz_filters_borrow_some(struct hspz_named_filter *filter, const struct hspz_tenant *tenant,
                         uint64_t want)
{
    struct hspz_filters *filters = filter->filters;
    while (
        want >= BORROWED_LEAST &&
        (!fits(filters, want) || hspz_catalog_make_room(filters->service->catalog, tenant, "filter",
                                                        filter->name, want, NULL) != HSPZ_OK)) {
        want /= 2;
    }
    want = want >= BORROWED_LEAST ? want : 0;
    filters->bytes += want;
    return want;
}

void
hspz_named_filter_settle(struct hspz_named_filter *filter, uint64_t bytes)
{
    filter->filters->bytes += bytes - filter->bytes;
    filter->bytes = bytes;
}

void
hspz_filters_return(struct hspz_filters *filters, uint64_t bytes)
{
    HSPZ_REQUIRE(filters->bytes >= bytes);
    filters->bytes -= bytes;
}

uint64_t
hspz_filters_bytes(const struct hspz_filters *filters)
{
    return filters->bytes;
}

uint64_t
hspz_filters_count(const struct hspz_filters *filters)
{
    return filters->count;
}

/* ---- its lock ---- */

bool
hspz_named_filter_may_lock(struct hspz_named_filter *filter, struct hspz_filter_wait *wait,
                           bool writes)
{
    bool may = !filter->writer && (!writes || filter->readers == 0);
    for (const struct hspz_filter_wait *w = filter->first; may && w != NULL && w != wait;
         w = w->next) {
        may = !writes && !w->writes;
    }
    if (!may && !wait->in_line) {
        wait->next = NULL;
        wait->writes = writes;
        wait->in_line = true;
        *filter->last = wait;
        filter->last = &wait->next;
    }
    return may;
}

static bool
leave_line(struct hspz_named_filter *filter, struct hspz_filter_wait *wait)
{
    if (!wait->in_line) {
        return false;
    }
    struct hspz_filter_wait **link = &filter->first;
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    if (filter->last == &wait->next) {
        filter->last = link;
    }
    wait->in_line = false;
    return true;
}

void
hspz_named_filter_lock(struct hspz_named_filter *filter, struct hspz_filter_wait *wait, bool writes)
{
    HSPZ_REQUIRE(!filter->writer && (!writes || filter->readers == 0));
    leave_line(filter, wait);
    if (writes) {
        filter->writer = true;
        filter->version++;
    } else {
        filter->readers++;
    }
}

/* Those in line try again once nobody has the lock. */
static void
wake(struct hspz_named_filter *filter)
{
    if (filter->first != NULL && !filter->writer && filter->readers == 0) {
        hspz_conn_job_wake(filter->filters->service);
    }
}

void
hspz_named_filter_unlock(struct hspz_named_filter *filter, bool writes)
{
    HSPZ_REQUIRE(writes ? filter->writer : filter->readers > 0);
    if (writes) {
        filter->writer = false;
    } else {
        filter->readers--;
    }
    wake(filter);
}

void
hspz_named_filter_unwait(struct hspz_named_filter *filter, struct hspz_filter_wait *wait)
{
    if (leave_line(filter, wait)) {
        wake(filter);
    }
}

/* ---- filter.list ---- */

struct page {
    const struct hspz_tenant *tenant;
    uint64_t first, at;
    size_t count, room;
    struct hspz_filter_list_entry *entries;
    char (*names)[HSPZ_FILTER_SHOWN_BYTES];
};

static void
add_entry(struct page *page, const struct hspz_named_filter *f)
{
    if (page->at++ < page->first || page->count == page->room) {
        return;
    }
    struct hspz_filter_list_entry *entry = &page->entries[page->count];
    const bool own = strcmp(f->owner, page->tenant->settings.name) == 0;
    const char *const name = show(f->owner, f->name, own, page->names[page->count++]);
    const char *const kind = hspz_filter_kind_name(f->ops->plan(f->filter)->spec.kind);
    entry->filter = (struct hspz_text){name, strlen(name)};
    entry->kind = (struct hspz_text){kind, strlen(kind)};
    entry->shared = f->shared;
    entry->bytes = f->ops->room != NULL ? f->bytes : f->ops->plan(f->filter)->bytes;
}

enum hspz_status
hspz_filters_list_encode(struct hspz_writer *w, uint32_t id, const struct hspz_filters *filters,
                         const struct hspz_tenant *tenant, bool all,
                         const struct hspz_list_params *params, struct hspz_error *err)
{
    struct page page = {.tenant = tenant, .first = params->first, .room = (size_t)params->count};
    page.entries = calloc(page.room, sizeof(*page.entries));
    page.names = calloc(page.room, sizeof(*page.names));
    if (page.entries == NULL || page.names == NULL) {
        free(page.entries);
        free(page.names);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the list");
    }
    for (const struct hspz_named_filter *f = filters->list; f != NULL; f = f->next) {
        if (!f->coming && (all || f->shared || strcmp(f->owner, tenant->settings.name) == 0)) {
            add_entry(&page, f);
        }
    }
    hspz_filter_list_result_encode(w, id, page.at, params->first, page.entries, page.count);
    free(page.entries);
    free(page.names);
    return HSPZ_OK;
}
