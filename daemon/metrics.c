#include "daemon/metrics.h"

#include "daemon/catalog.h"
#include "daemon/filters.h"
#include "daemon/shm_pool.h"
#include "protocol/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e-9

/* What has a hspz_usage: a tenant, an index or a device. */
struct row {
    const char *label;
    const struct hspz_usage *usage;
};

struct rows {
    const char *scope; /* "tenant" */
    struct row *items;
    size_t count, room;
    bool failed;
};

static void
head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
single(FILE *out, const char *name, const char *type, const char *help, double value)
{
    head(out, name, type, help);
    fprintf(out, "%s %.17g\n", name, value);
}

/* A label's value: UTF-8, with what would end it escaped. */
static void
quote(FILE *out, const char *label, const char *text)
{
    fprintf(out, "%s=\"", label);
    for (const char *c = text; *c != '\0'; c++) {
        const size_t good =
            (unsigned char)*c < 0x80 ? 1 : hspz_utf8_prefix((const uint8_t *)c, strnlen(c, 4));
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c == '\n') {
            fputs("\\n", out);
        } else {
            fputc(good > 0 ? *c : '?', out);
        }
        /* The rest of a character that is good. */
        while (good > 0 && ((unsigned char)c[1] & 0xc0) == 0x80) {
            fputc(*++c, out);
        }
    }
    fputc('"', out);
}

static void
outcome(FILE *out, const char *name, const char *scope, const char *label, const char *which,
        uint64_t value)
{
    fprintf(out, "%s{", name);
    if (scope != NULL) {
        quote(out, scope, label);
        fputc(',', out);
    }
    fprintf(out, "outcome=\"%s\"} %" PRIu64 "\n", which, value);
}

static void
outcomes(FILE *out, const char *name, const char *scope, const char *label,
         const struct hspz_outcomes *o)
{
    outcome(out, name, scope, label, "ok", o->ok);
    outcome(out, name, scope, label, "refused", o->refused);
    outcome(out, name, scope, label, "cancelled", o->cancelled);
    outcome(out, name, scope, label, "failed", o->failed);
}

/* ---- the daemon ---- */

static void
daemon_state(FILE *out, const struct hspz_service *s)
{
    head(out, "hspz_build_info", "gauge", "What runs; always 1.");
    fputs("hspz_build_info{version=\"" HSPZ_VERSION "\",", out);
    quote(out, "engine", s->ops->name);
    fputs("} 1\n", out);
    head(out, "hspz_state", "gauge", "1 for the state that the server is in.");
    for (int i = HSPZ_SERVICE_LOADING; i <= HSPZ_SERVICE_STOPPING; i++) {
        fprintf(out, "hspz_state{state=\"%s\"} %d\n",
                hspz_service_state_name((enum hspz_service_state)i), (int)s->state == i);
    }
    single(out, "hspz_uptime_seconds", "gauge", "Since the start.",
           (double)(uv_hrtime() - s->started_ns) * NS);
    single(out, "hspz_devices", "gauge", "Devices of the engine.", (double)s->device_count);
    single(out, "hspz_devices_ready", "gauge", "Devices that work.",
           (double)hspz_device_count_ready(s));
}

static void
daemon_connections(FILE *out, const struct hspz_service *s)
{
    const struct hspz_stats *stats = &s->stats;
    single(out, "hspz_connections", "gauge", "Open connections.", (double)s->conn_count);
    single(out, "hspz_connections_limit", "gauge", "Most open connections.", (double)s->conn_limit);
    single(out, "hspz_connections_accepted_total", "counter", "Connections served.",
           (double)stats->connections_accepted);
    single(out, "hspz_connections_refused_total", "counter",
           "Connections over the limit or not let in.", (double)stats->connections_refused);
    single(out, "hspz_connections_timed_out_total", "counter", "Connections closed for silence.",
           (double)stats->timeouts);
    single(out, "hspz_accept_errors_total", "counter", "Connections that could not be taken.",
           (double)stats->accept_errors);
    single(out, "hspz_requests_received_total", "counter", "Requests of every method.",
           (double)stats->requests.received);
    head(out, "hspz_requests_total", "counter", "Requests that ended.");
    outcomes(out, "hspz_requests_total", NULL, NULL, &stats->requests);
}

static void
daemon_work(FILE *out, const struct hspz_service *s)
{
    const struct hspz_stats *stats = &s->stats;
    single(out, "hspz_jobs", "gauge", "Jobs waiting or running.", (double)s->job_count);
    single(out, "hspz_jobs_limit", "gauge", "Most jobs waiting or running.",
           (double)s->config->max_all_jobs);
    head(out, "hspz_records_total", "counter", "Records sent.");
    fprintf(out, "hspz_records_total{kind=\"anchors\"} %" PRIu64 "\n", stats->anchors);
    fprintf(out, "hspz_records_total{kind=\"hsps\"} %" PRIu64 "\n", stats->hsps);
    fprintf(out, "hspz_records_total{kind=\"answers\"} %" PRIu64 "\n", stats->answers);
    fprintf(out, "hspz_records_total{kind=\"entries\"} %" PRIu64 "\n", stats->entries);
    single(out, "hspz_parts_total", "counter", "Parts of records sent.", (double)stats->parts);
    single(out, "hspz_received_bytes_total", "counter", "Bytes from peers.",
           (double)stats->bytes_in);
    single(out, "hspz_sent_bytes_total", "counter", "Bytes to peers.", (double)stats->bytes_out);
    single(out, "hspz_parks_total", "counter", "Times a job gave its scratch memory back.",
           (double)stats->parks);
}

static void
daemon_memory(FILE *out, const struct hspz_service *s)
{
    single(out, "hspz_memory_index_bytes", "gauge", "Memory of the indexes.",
           (double)hspz_catalog_bytes(s->catalog));
    single(out, "hspz_memory_index_budget_bytes", "gauge", "Budget of the indexes; 0: none.",
           (double)s->config->memory);
    single(out, "hspz_filters", "gauge", "Filters in memory.",
           (double)hspz_filters_count(s->filters));
    single(out, "hspz_filters_limit", "gauge", "Most filters in memory.",
           (double)s->config->max_filters);
    single(out, "hspz_memory_filter_bytes", "gauge", "Memory of the filters.",
           (double)hspz_filters_bytes(s->filters));
    single(out, "hspz_memory_filter_budget_bytes", "gauge", "Budget of the filters.",
           (double)s->config->filter_memory);
    single(out, "hspz_memory_scratch_bytes", "gauge", "Scratch memory of the jobs.",
           (double)s->scratch.reserved);
    single(out, "hspz_memory_scratch_budget_bytes", "gauge", "Budget of the scratch memory.",
           (double)s->config->job_memory);
    single(out, "hspz_memory_parts_bytes", "gauge", "Memory of parts in use.",
           (double)hspz_buffers_used_bytes(s->buffers));
    single(out, "hspz_memory_ingest_bytes", "gauge", "Requests held.", (double)s->ingest_bytes);
    single(out, "hspz_memory_ingest_budget_bytes", "gauge", "Budget of requests held.",
           (double)s->config->ingest_total);
}

static void
daemon_shm(FILE *out, const struct hspz_service *s)
{
    const struct hspz_shm_stats *shm = &s->stats.shm;
    single(out, "hspz_shm_rings", "gauge", "Rings of shared memory that clients have.",
           (double)hspz_shm_pool_used(s->shm_pool));
    single(out, "hspz_shm_rings_limit", "gauge", "Most rings of shared memory.",
           (double)hspz_shm_pool_most(s->shm_pool));
    single(out, "hspz_shm_opened_total", "counter", "Rings given to clients.", (double)shm->opened);
    single(out, "hspz_shm_refused_total", "counter",
           "Clients that were refused a ring and go on by the stream.", (double)shm->refused);
    single(out, "hspz_shm_parts_total", "counter", "Parts of records put into rings.",
           (double)shm->parts);
    single(out, "hspz_shm_sent_bytes_total", "counter", "Bytes of records put into rings.",
           (double)shm->bytes_out);
    single(out, "hspz_shm_received_bytes_total", "counter",
           "Bytes of requests taken from shared memory.", (double)shm->bytes_in);
    single(out, "hspz_shm_waits_total", "counter",
           "Times a job stood still because its client had all of its ring.", (double)shm->waits);
    single(out, "hspz_shm_wait_seconds_total", "counter",
           "Time that jobs stood still because their client had all of its ring.",
           (double)shm->waited_ns * NS);
}

/* ---- tenants, indexes, devices ---- */

static void
add_row(struct rows *rows, const char *label, const struct hspz_usage *usage)
{
    if (rows->count == rows->room && !rows->failed) {
        const size_t room = 2 * rows->room + 16;
        struct row *grown = realloc(rows->items, room * sizeof(*grown));
        rows->failed = grown == NULL;
        if (grown != NULL) {
            rows->items = grown;
            rows->room = room;
        }
    }
    if (!rows->failed) {
        rows->items[rows->count++] = (struct row){.label = label, .usage = usage};
    }
}

struct family {
    const char *name, *type, *help;
    double (*value)(const struct hspz_usage *usage, uint64_t now_ns);
};

#define VALUE(member)                                                                              \
    static double value_##member(const struct hspz_usage *u, uint64_t now_ns)                      \
    {                                                                                              \
        (void)now_ns;                                                                              \
        return (double)u->member;                                                                  \
    }
VALUE(running)
VALUE(waiting)
VALUE(seeds)
VALUE(hits)
VALUE(records)
VALUE(keys)
VALUE(bytes_in)
VALUE(bytes_out)
#undef VALUE

static double
value_oldest(const struct hspz_usage *u, uint64_t now_ns)
{
    return u->oldest_waiting_ns != 0 ? (double)(now_ns - u->oldest_waiting_ns) * NS : 0;
}

static double
value_device(const struct hspz_usage *u, uint64_t now_ns)
{
    (void)now_ns;
    return (double)u->device_ns * NS;
}

static const struct family families[] = {
    {"jobs_running", "gauge", "Jobs that have begun.", value_running},
    {"jobs_waiting", "gauge", "Jobs that have not begun.", value_waiting},
    {"oldest_waiting_seconds", "gauge", "Age of the oldest waiting job.", value_oldest},
    {"seeds_total", "counter", "Seeds of ended jobs.", value_seeds},
    {"hits_total", "counter", "Hits of ended jobs.", value_hits},
    {"records_total", "counter", "Records sent for ended jobs.", value_records},
    {"keys_total", "counter", "Keys of ended requests about filters.", value_keys},
    {"request_bytes_total", "counter", "Request bytes of ended jobs.", value_bytes_in},
    {"record_bytes_total", "counter", "Record bytes of ended jobs.", value_bytes_out},
    {"device_seconds_total", "counter", "Time of lanes.", value_device},
};

static void
histogram(FILE *out, const struct rows *rows, const char *name, const char *help, bool queued)
{
    char full[64];
    snprintf(full, sizeof(full), "hspz_%s_%s", rows->scope, name);
    head(out, full, "histogram", help);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->items[i];
        const struct hspz_latency *l = queued ? &row->usage->queued : &row->usage->latency;
        uint64_t sum = 0;
        for (unsigned b = 0; b < HSPZ_LATENCY_BUCKETS; b++) {
            sum += l->counts[b];
            fprintf(out, "%s_bucket{", full);
            quote(out, rows->scope, row->label);
            if (b < HSPZ_LATENCY_BUCKETS - 1) {
                fprintf(out, ",le=\"%.17g\"} %" PRIu64 "\n", (double)hspz_latency_ms[b] / 1e3, sum);
            } else {
                fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
            }
        }
        fprintf(out, "%s_sum{", full);
        quote(out, rows->scope, row->label);
        fprintf(out, "} %.17g\n%s_count{", (double)l->sum_ns * NS, full);
        quote(out, rows->scope, row->label);
        fprintf(out, "} %" PRIu64 "\n", sum);
    }
}

static void
write_rows(FILE *out, const struct rows *rows)
{
    const uint64_t now = uv_hrtime();
    char name[64];
    snprintf(name, sizeof(name), "hspz_%s_jobs_total", rows->scope);
    head(out, name, "counter", "Jobs that ended.");
    for (size_t i = 0; i < rows->count; i++) {
        outcomes(out, name, rows->scope, rows->items[i].label, &rows->items[i].usage->jobs);
    }
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        snprintf(name, sizeof(name), "hspz_%s_%s", rows->scope, families[f].name);
        head(out, name, families[f].type, families[f].help);
        for (size_t i = 0; i < rows->count; i++) {
            fprintf(out, "%s{", name);
            quote(out, rows->scope, rows->items[i].label);
            fprintf(out, "} %.17g\n", families[f].value(rows->items[i].usage, now));
        }
    }
    histogram(out, rows, "job_seconds", "From a job's arrival to its end.", false);
    histogram(out, rows, "job_wait_seconds", "From a job's arrival to its first turn.", true);
}

static void
add_index(void *user, const struct hspz_served_view *view)
{
    add_row(user, view->name, view->usage);
}

static void
write_index_bytes(void *user, const struct hspz_served_view *view)
{
    FILE *out = user;
    fputs("hspz_index_bytes{", out);
    quote(out, "index", view->name);
    fprintf(out, "} %" PRIu64 "\n", view->bytes);
}

static void
tenant_filters(FILE *out, const struct hspz_service *s)
{
    head(out, "hspz_tenant_filters", "gauge", "Filters of the tenant.");
    for (const struct hspz_tenant *t = s->tenants.first; t != NULL; t = t->next) {
        fputs("hspz_tenant_filters{", out);
        quote(out, "tenant", t->settings.name);
        fprintf(out, "} %" PRIu64 "\n", t->filters);
    }
    head(out, "hspz_tenant_filter_bytes", "gauge", "Memory of the tenant's filters.");
    for (const struct hspz_tenant *t = s->tenants.first; t != NULL; t = t->next) {
        fputs("hspz_tenant_filter_bytes{", out);
        quote(out, "tenant", t->settings.name);
        fprintf(out, "} %" PRIu64 "\n", t->filter_bytes);
    }
}

/* Beside their use. */
static void
device_parts(FILE *out, const struct hspz_service *s)
{
    head(out, "hspz_device_parts_total", "counter", "Parts that the device made.");
    for (unsigned i = 0; i < s->device_count; i++) {
        fprintf(out, "hspz_device_parts_total{device=\"%u\"} %" PRIu64 "\n", i,
                s->devices[i].parts);
    }
    head(out, "hspz_device_redone_total", "counter",
         "Turns lost with it, and done again elsewhere.");
    for (unsigned i = 0; i < s->device_count; i++) {
        fprintf(out, "hspz_device_redone_total{device=\"%u\"} %" PRIu64 "\n", i,
                s->devices[i].redone);
    }
}

static bool
scopes(FILE *out, struct hspz_service *s)
{
    struct rows tenants = {.scope = "tenant"}, indexes = {.scope = "index"},
                devices = {.scope = "device"};
    char(*numbers)[12] = calloc(s->device_count + 1, sizeof(*numbers));
    for (const struct hspz_tenant *t = s->tenants.first; t != NULL; t = t->next) {
        add_row(&tenants, t->settings.name, &t->usage);
    }
    hspz_catalog_each(s->catalog, add_index, &indexes);
    for (unsigned i = 0; numbers != NULL && i < s->device_count; i++) {
        snprintf(numbers[i], sizeof(numbers[i]), "%u", i);
        add_row(&devices, numbers[i], &s->devices[i].usage);
    }
    const bool good = numbers != NULL && !tenants.failed && !indexes.failed && !devices.failed;
    if (good) {
        write_rows(out, &tenants);
        tenant_filters(out, s);
        write_rows(out, &indexes);
        write_rows(out, &devices);
        device_parts(out, s);
        head(out, "hspz_index_bytes", "gauge", "Memory of the index.");
        hspz_catalog_each(s->catalog, write_index_bytes, out);
    }
    free(tenants.items);
    free(indexes.items);
    free(devices.items);
    free(numbers);
    return good;
}

enum hspz_status
hspz_metrics_render(struct hspz_service *service, char **text, size_t *len)
{
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    if (out == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    hspz_stats_look(service);
    daemon_state(out, service);
    daemon_connections(out, service);
    daemon_work(out, service);
    daemon_memory(out, service);
    daemon_shm(out, service);
    bool good = scopes(out, service);
    good = ferror(out) == 0 && good;
    good = fclose(out) == 0 && good;
    if (!good) {
        free(page);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    *text = page;
    *len = size;
    return HSPZ_OK;
}
