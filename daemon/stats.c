#include "daemon/stats.h"

#include "daemon/access.h"
#include "daemon/catalog.h"
#include "daemon/conn.h"
#include "daemon/filters.h"
#include "daemon/job.h"
#include "daemon/service.h"
#include "daemon/shm_pool.h"

#include <string.h>

const char *
hspz_service_state_name(enum hspz_service_state state)
{
    static const char *const names[] = {"loading", "ready", "draining", "failed", "stopping"};
    return names[state];
}

/* The list entries of one answer: it is one message, which has to stay within its limits. */
#define PAGE_ENTRIES 24u

static void
look_at(struct hspz_usage *usage, const struct hspz_conn_job *job, bool waits)
{
    usage->running += !waits;
    usage->waiting += waits;
    if (waits && (usage->oldest_waiting_ns == 0 || job->arrived_ns < usage->oldest_waiting_ns)) {
        usage->oldest_waiting_ns = job->arrived_ns;
    }
}

static void
forget(struct hspz_usage *usage)
{
    usage->running = usage->waiting = usage->oldest_waiting_ns = 0;
}

static void
forget_index(void *user, const struct hspz_served_view *view)
{
    const struct hspz_service *service = user;
    forget(view->usage);
    for (struct hspz_tenant *t = service->tenants.first; t != NULL && view->owner != NULL;
         t = t->next) {
        t->resident_bytes += strcmp(t->settings.name, view->owner) == 0 ? view->bytes : 0;
    }
}

void
hspz_stats_look(struct hspz_service *service)
{
    for (struct hspz_tenant *t = service->tenants.first; t != NULL; t = t->next) {
        forget(&t->usage);
        hspz_filters_of(service->filters, t->settings.name, &t->filters, &t->filter_bytes);
        t->resident_bytes = 0;
    }
    for (unsigned i = 0; i < service->device_count; i++) {
        forget(&service->devices[i].usage);
    }
    hspz_catalog_each(service->catalog, forget_index, service);
    for (struct hspz_conn *c = service->conns; c != NULL; c = c->next) {
        for (struct hspz_conn_job *job = c->jobs; job != NULL; job = job->next) {
            const bool waits = !job->begun && !job->working;
            struct hspz_usage *usage = job->ops->usage != NULL ? job->ops->usage(job) : NULL;
            look_at(&c->tenant->usage, job, waits);
            if (usage != NULL) {
                look_at(usage, job, waits);
            }
            if (job->worker != NULL) {
                look_at(&service->devices[hspz_worker_device(job->worker)].usage, job, waits);
            }
        }
    }
}

static void
encode_jobs(struct hspz_writer *w, const struct hspz_service *service, uint64_t now)
{
    uint64_t waiting = 0, oldest = now;
    for (const struct hspz_tenant *t = service->tenants.first; t != NULL; t = t->next) {
        waiting += t->usage.waiting;
        if (t->usage.oldest_waiting_ns != 0 && t->usage.oldest_waiting_ns < oldest) {
            oldest = t->usage.oldest_waiting_ns;
        }
    }
    hspz_write_str(w, "jobs");
    hspz_write_map(w, 9);
    hspz_outcomes_encode(w, &service->stats.jobs);
    hspz_write_key_uint(w, "running", service->job_count - waiting);
    hspz_write_key_uint(w, "waiting", waiting);
    hspz_write_key_uint(w, "oldest_waiting_ms", (now - oldest) / 1000000);
}

static void
encode_connections(struct hspz_writer *w, const struct hspz_service *service)
{
    hspz_write_str(w, "connections");
    hspz_write_map(w, 6);
    hspz_write_key_uint(w, "open", service->conn_count);
    hspz_write_key_uint(w, "limit", service->conn_limit);
    hspz_write_key_uint(w, "accepted", service->stats.connections_accepted);
    hspz_write_key_uint(w, "refused", service->stats.connections_refused);
    hspz_write_key_uint(w, "timed_out", service->stats.timeouts);
    hspz_write_key_uint(w, "accept_errors", service->stats.accept_errors);
}

static void
encode_memory(struct hspz_writer *w, const struct hspz_service *service)
{
    const struct hspz_config *config = service->config;
    hspz_write_str(w, "memory");
    hspz_write_map(w, 11);
    hspz_write_key_uint(w, "index_bytes", hspz_catalog_bytes(service->catalog));
    hspz_write_key_uint(w, "index_budget", config->memory);
    hspz_write_key_uint(w, "filter_bytes", hspz_filters_bytes(service->filters));
    hspz_write_key_uint(w, "filter_budget", config->filter_memory);
    hspz_write_key_uint(w, "scratch_bytes", service->scratch.reserved);
    hspz_write_key_uint(w, "scratch_budget", config->job_memory);
    hspz_write_key_uint(w, "parts_bytes", hspz_buffers_used_bytes(service->buffers));
    hspz_write_key_uint(w, "parts_kept_bytes", hspz_buffers_held_bytes(service->buffers));
    hspz_write_key_uint(w, "parts_shared_budget", config->buffer_memory);
    hspz_write_key_uint(w, "ingest_bytes", service->ingest_bytes);
    hspz_write_key_uint(w, "ingest_budget", config->ingest_total);
}

static void
encode_shm(struct hspz_writer *w, const struct hspz_service *service)
{
    const struct hspz_shm_stats *shm = &service->stats.shm;
    hspz_write_str(w, "shm");
    hspz_write_map(w, 9);
    hspz_write_key_uint(w, "rings", hspz_shm_pool_used(service->shm_pool));
    hspz_write_key_uint(w, "limit", hspz_shm_pool_most(service->shm_pool));
    hspz_write_key_uint(w, "opened", shm->opened);
    hspz_write_key_uint(w, "refused", shm->refused);
    hspz_write_key_uint(w, "parts", shm->parts);
    hspz_write_key_uint(w, "bytes_out", shm->bytes_out);
    hspz_write_key_uint(w, "bytes_in", shm->bytes_in);
    hspz_write_key_uint(w, "waits", shm->waits);
    hspz_write_key_uint(w, "waited_ms", shm->waited_ns / 1000000);
}

static uint32_t
page_of(const struct hspz_list_params *page, uint64_t count)
{
    const uint64_t most = page->count < PAGE_ENTRIES ? page->count : PAGE_ENTRIES;
    const uint64_t left = count > page->first ? count - page->first : 0;
    return (uint32_t)(left < most ? left : most);
}

static void
encode_tenant(struct hspz_writer *w, const struct hspz_tenant *t, uint64_t now)
{
    hspz_write_map(w, 7 + HSPZ_USAGE_PAIRS);
    hspz_write_key_str(w, "tenant", t->settings.name);
    hspz_write_key_uint(w, "weight", t->settings.weight);
    hspz_write_key_uint(w, "connections", t->uses);
    hspz_write_key_uint(w, "ingest_bytes", t->ingest_bytes);
    hspz_write_key_uint(w, "resident_bytes", t->resident_bytes);
    hspz_write_key_uint(w, "filters", t->filters);
    hspz_write_key_uint(w, "filter_bytes", t->filter_bytes);
    hspz_usage_encode(w, &t->usage, now);
}

static void
encode_tenants(struct hspz_writer *w, const struct hspz_service *service,
               const struct hspz_list_params *page, uint64_t now)
{
    uint64_t count = 0, at = 0;
    for (const struct hspz_tenant *t = service->tenants.first; t != NULL; t = t->next) {
        count++;
    }
    uint32_t here = page_of(page, count);
    hspz_write_key_uint(w, "tenant_count", count);
    hspz_write_str(w, "tenants");
    hspz_write_array(w, here);
    for (const struct hspz_tenant *t = service->tenants.first; here > 0; t = t->next) {
        if (at++ >= page->first) {
            encode_tenant(w, t, now);
            here--;
        }
    }
}

/* The entries of a page of indexes, counted and then written. */
struct index_page {
    struct hspz_writer *w;
    uint64_t first, at, now;
    uint32_t left;
};

static void
count_index(void *user, const struct hspz_served_view *view)
{
    (void)view;
    (*(uint64_t *)user)++;
}

static void
encode_index(void *user, const struct hspz_served_view *view)
{
    struct index_page *page = user;
    if (page->at++ < page->first || page->left == 0) {
        return;
    }
    page->left--;
    hspz_write_map(page->w, 3 + HSPZ_USAGE_PAIRS);
    hspz_write_str(page->w, "index");
    hspz_write_text(page->w, view->name, strlen(view->name));
    hspz_write_key_str(page->w, "state", view->state);
    hspz_write_key_uint(page->w, "bytes", view->bytes);
    hspz_usage_encode(page->w, view->usage, page->now);
}

static void
encode_indexes(struct hspz_writer *w, const struct hspz_service *service,
               const struct hspz_list_params *params, uint64_t now)
{
    uint64_t count = 0;
    hspz_catalog_each(service->catalog, count_index, &count);
    struct index_page page = {
        .w = w, .first = params->first, .now = now, .left = page_of(params, count)};
    hspz_write_key_uint(w, "index_count", count);
    hspz_write_str(w, "indexes");
    hspz_write_array(w, page.left);
    hspz_catalog_each(service->catalog, encode_index, &page);
}

static void
encode_devices(struct hspz_writer *w, const struct hspz_service *service,
               const struct hspz_list_params *page, uint64_t now)
{
    const uint32_t here = page_of(page, service->device_count);
    hspz_write_key_uint(w, "device_count", service->device_count);
    hspz_write_str(w, "devices");
    hspz_write_array(w, here);
    for (uint64_t i = page->first; i < page->first + here; i++) {
        const struct hspz_device *device = &service->devices[i];
        hspz_write_map(w, 9 + HSPZ_USAGE_PAIRS);
        hspz_write_key_uint(w, "device", i);
        hspz_write_key_str(w, "name", device->name);
        hspz_write_key_str(w, "state", hspz_device_state_name(device->state));
        hspz_write_key_uint(w, "lanes", hspz_device_lanes(service));
        hspz_write_key_uint(w, "turns", hspz_device_turns(service, (unsigned)i));
        hspz_write_key_uint(w, "queued", hspz_device_queued(service, (unsigned)i));
        hspz_write_key_uint(w, "parts", device->parts);
        hspz_write_key_uint(w, "redone", device->redone);
        hspz_write_key_uint(w, "step_ns", device->step_ns);
        hspz_usage_encode(w, &device->usage, now);
    }
}

static void
encode_latency_bounds(struct hspz_writer *w)
{
    hspz_write_str(w, "latency_ms");
    hspz_write_array(w, HSPZ_LATENCY_BUCKETS - 1);
    for (unsigned i = 0; i < HSPZ_LATENCY_BUCKETS - 1; i++) {
        hspz_write_uint(w, hspz_latency_ms[i]);
    }
}

static void
encode_head(struct hspz_writer *w, const struct hspz_service *service)
{
    hspz_write_key_str(w, "version", HSPZ_VERSION);
    hspz_write_key_str(w, "engine", service->ops->name);
    hspz_write_key_str(w, "state", hspz_service_state_name(service->state));
    hspz_write_key_uint(w, "uptime_ms", (uv_hrtime() - service->started_ns) / 1000000);
}

static void
encode_totals(struct hspz_writer *w, const struct hspz_service *service, uint64_t now)
{
    const struct hspz_stats *stats = &service->stats;
    encode_connections(w, service);
    hspz_write_str(w, "requests");
    hspz_write_map(w, 6);
    hspz_outcomes_encode(w, &stats->requests);
    encode_jobs(w, service, now);
    hspz_write_key_uint(w, "anchors", stats->anchors);
    hspz_write_key_uint(w, "hsps", stats->hsps);
    hspz_write_key_uint(w, "answers", stats->answers);
    hspz_write_key_uint(w, "entries", stats->entries);
    hspz_write_key_uint(w, "parts", stats->parts);
    hspz_write_key_uint(w, "bytes_in", stats->bytes_in);
    hspz_write_key_uint(w, "bytes_out", stats->bytes_out);
    hspz_write_key_uint(w, "seeds", stats->seeds);
    hspz_write_key_uint(w, "hits", stats->hits);
    hspz_write_key_uint(w, "keys", stats->keys);
    hspz_write_key_uint(w, "parks", stats->parks);
    hspz_write_key_uint(w, "notifications_ignored", stats->notifications_ignored);
    encode_memory(w, service);
    encode_shm(w, service);
    hspz_write_key_uint(w, "filter_count", hspz_filters_count(service->filters));
}

void
hspz_stats_encode(struct hspz_writer *w, const struct hspz_conn *conn,
                  const struct hspz_list_params *page)
{
    struct hspz_service *service = conn->service;
    const uint64_t now = uv_hrtime();
    hspz_stats_look(service);
    if (service->tenants.named && hspz_access_role(conn) != HSPZ_ROLE_OPERATOR) {
        hspz_write_map(w, 7);
        encode_head(w, service);
        encode_latency_bounds(w);
        hspz_write_key_uint(w, "tenant_count", 1);
        hspz_write_str(w, "tenants");
        hspz_write_array(w, 1);
        encode_tenant(w, conn->tenant, now);
        return;
    }
    hspz_write_map(w, 29);
    encode_head(w, service);
    encode_totals(w, service, now);
    encode_latency_bounds(w);
    encode_tenants(w, service, page, now);
    encode_indexes(w, service, page, now);
    encode_devices(w, service, page, now);
}

void
hspz_health_encode(struct hspz_writer *w, const struct hspz_service *service)
{
    hspz_write_map(w, 8);
    hspz_write_key_str(w, "state", hspz_service_state_name(service->state));
    hspz_write_key_float(
        w, "percent",
        service->state == HSPZ_SERVICE_LOADING ? hspz_catalog_percent(service->catalog) : 100.0);
    hspz_write_key_uint(w, "loading", hspz_catalog_loading(service->catalog));
    hspz_write_key_uint(w, "jobs", service->job_count);
    hspz_write_key_uint(w, "devices", service->device_count);
    hspz_write_key_uint(w, "devices_ready", hspz_device_count_ready(service));
    hspz_write_key_uint(w, "uptime_ms", (uv_hrtime() - service->started_ns) / 1000000);
    hspz_write_key_str(w, "version", HSPZ_VERSION);
}
