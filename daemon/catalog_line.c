/* The catalog's two lines of work, and what follows when a piece of it is done. */
#include "daemon/catalog_entry.h"
#include "daemon/conn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pump(struct hspz_catalog *catalog, struct hspz_work_line *line);

void
hspz_served_destroy(struct hspz_served *served)
{
    free(served->name);
    free(served->path);
    free(served->source);
    hspz_placing_fini(&served->placing);
    free(served);
}

void
hspz_served_unlist(struct hspz_served *served)
{
    struct hspz_served **link = &served->catalog->list;
    while (*link != served) {
        link = &(*link)->next;
    }
    *link = served->next;
    served->next = NULL;
}

static bool
is_listed(const struct hspz_served *served)
{
    const struct hspz_served *s = served->catalog->list;
    while (s != NULL && s != served) {
        s = s->next;
    }
    return s != NULL;
}

static void
tell_waiters(struct hspz_served *served, struct hspz_served *result, const struct hspz_error *err)
{
    while (served->waiters != NULL) {
        struct hspz_waiter *waiter = served->waiters;
        served->waiters = waiter->next;
        waiter->done(waiter, result, err);
    }
}

void
hspz_catalog_count_loading(struct hspz_catalog *catalog, bool begin)
{
    if (begin) {
        catalog->batch = catalog->loading == 0 ? 1 : catalog->batch + 1;
        catalog->batch_done = catalog->loading == 0 ? 0 : catalog->batch_done;
        catalog->loading++;
    } else {
        catalog->loading--;
        catalog->batch_done++;
    }
    atomic_fetch_add(&catalog->progress, 1);
}

/* Those who hold a use and waited, on every connection. They get no turn here: this may be within
 * the end of a job. */
static void
wake_jobs(struct hspz_service *service)
{
    for (struct hspz_conn *c = service->conns; c != NULL; c = c->next) {
        hspz_conn_update(c);
    }
}

/* After an operation whose entry stays. */
static void
settle(struct hspz_served *served)
{
    served->on_demand = false;
    if (atomic_load(&served->catalog->stop)) {
        hspz_served_remove(served);
    }
}

static void
load_failed(struct hspz_served *served)
{
    struct hspz_catalog *catalog = served->catalog;
    struct hspz_service *service = catalog->service;
    if (served->err.status == HSPZ_E_STOPPED) {
        hspz_error_set(&served->err, HSPZ_E_SHUTTING_DOWN, "stopped: the server is shutting down");
    }
    HSPZ_LOG(service->log, HSPZ_LOG_ERROR,
             served->op == HSPZ_OP_BUILD ? "index not built" : "index not loaded",
             hspz_kv("index", served->name), hspz_kv("file", served->path),
             hspz_kv("code", hspz_status_name(served->err.status)),
             hspz_kv("why", served->err.text));
    hspz_index_release(&served->index);
    hspz_catalog_count_loading(catalog, false);
    /* In the list while they are told: one that goes away meanwhile takes its waiters along. */
    tell_waiters(served, NULL, &served->err);
    served->state = HSPZ_SERVED_DROPPED;
    served->why_not = served->err;
    if (served->known) {
        settle(served);
    } else {
        hspz_served_unlist(served);
        if (--served->uses == 0) {
            hspz_served_destroy(served);
        }
    }
    wake_jobs(service);
}

/* The one before it in the list goes. */
static void
take_place(struct hspz_served *served)
{
    const struct hspz_served *s = served->catalog->list;
    while (s->next != NULL && s->next != served) {
        s = s->next;
    }
    served->coming = false;
    if (s->next == served && strcmp(s->name, served->name) == 0) {
        hspz_catalog_retire(served->catalog, served->name);
    }
}

static void
load_done(struct hspz_served *served)
{
    struct hspz_catalog *catalog = served->catalog;
    served->state = HSPZ_SERVED_READY;
    served->bytes = hspz_index_bytes(served->index);
    served->known = true;
    snprintf(served->digest, sizeof(served->digest), "%s", hspz_index_digest(served->index));
    served->used_ns = uv_hrtime();
    catalog->bytes += served->bytes;
    hspz_catalog_count_loading(catalog, false);
    HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "index ready", hspz_kv("index", served->name),
             hspz_kv("file", served->path), hspz_kv_uint("bytes", served->bytes),
             hspz_kv("digest", hspz_index_digest(served->index)),
             hspz_kv("shape", hspz_index_get_params(served->index)->shape.pattern),
             hspz_kv_uint("step", hspz_index_get_params(served->index)->step));
    const bool unwanted = served->unwanted;
    if (served->coming && !unwanted) {
        take_place(served);
    }
    tell_waiters(served, served, NULL);
    /* Who was told may have taken it out of the list. */
    if (served->state == HSPZ_SERVED_READY && is_listed(served)) {
        if (unwanted) {
            hspz_served_remove(served);
        } else {
            settle(served);
        }
    }
    wake_jobs(catalog->service);
}

void
hspz_served_begin_load(struct hspz_served *served)
{
    HSPZ_LOG(served->catalog->service->log, HSPZ_LOG_INFO, "loading index",
             hspz_kv("index", served->name), hspz_kv("file", served->path));
    served->state = HSPZ_SERVED_LOADING;
    served->op = HSPZ_OP_LOAD;
    if (served->known) {
        served->want.digest = served->digest;
    }
    atomic_store(&served->done, 0);
    atomic_store(&served->total, 0);
    hspz_catalog_count_loading(served->catalog, true);
    hspz_served_enqueue(served, &served->catalog->loads);
}

void
hspz_served_begin_drop(struct hspz_served *served, const char *why)
{
    HSPZ_LOG(served->catalog->service->log, HSPZ_LOG_INFO, "dropping index",
             hspz_kv("index", served->name), hspz_kv("why", why));
    HSPZ_REQUIRE(served->state == HSPZ_SERVED_READY && served->holds == 0);
    served->state = HSPZ_SERVED_DROPPING;
    served->wanted = false;
    served->why_not = (struct hspz_error){0};
    served->op = HSPZ_OP_UNLOAD;
    hspz_served_enqueue(served, &served->catalog->loads);
}

static void
unload_done(struct hspz_served *served)
{
    struct hspz_catalog *catalog = served->catalog;
    HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "index unloaded", hspz_kv("index", served->name),
             hspz_kv_uint("bytes", served->bytes));
    catalog->bytes -= served->bytes;
    served->bytes = 0;
    if (served->state != HSPZ_SERVED_DROPPING) {
        hspz_served_destroy(served);
        hspz_catalog_feed(catalog);
        return;
    }
    served->state = HSPZ_SERVED_DROPPED;
    hspz_served_tell_gone(served);
    hspz_catalog_feed(catalog);
    /* Who was told of a failure there may have asked for it, or taken it out of the list. */
    if (served->state != HSPZ_SERVED_DROPPED || !is_listed(served)) {
        wake_jobs(catalog->service);
    } else if (served->wanted) {
        served->on_demand = true;
        hspz_served_begin_load(served);
    } else {
        settle(served);
    }
}

/* The least recently used one that may be dropped; NULL: none. */
static struct hspz_served *
find_victim(const struct hspz_catalog *catalog)
{
    struct hspz_served *victim = NULL;
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (s->state == HSPZ_SERVED_READY && !s->pinned && s->holds == 0 &&
            (victim == NULL || s->used_ns < victim->used_ns)) {
            victim = s;
        }
    }
    return victim;
}

enum room { ROOM_NONE, ROOM_LATER, ROOM_SOON };

/* Makes room for `need` bytes within the budget by dropping idle indexes, unless that is not
 * enough: then nothing is dropped, and it is ROOM_LATER if it were enough without those in use. */
static enum room
drop_for_budget(struct hspz_catalog *catalog, uint64_t need)
{
    const uint64_t budget = catalog->service->config->memory;
    uint64_t going = 0, idle = 0, pinned = 0;
    for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        going += s->state == HSPZ_SERVED_DROPPING ? s->bytes : 0;
        idle += s->state == HSPZ_SERVED_READY && !s->pinned && s->holds == 0 ? s->bytes : 0;
        pinned += s->state == HSPZ_SERVED_READY && s->pinned ? s->bytes : 0;
    }
    if (need == 0 || need > budget || pinned > budget - need) {
        return ROOM_NONE;
    }
    if (catalog->bytes - going - idle > budget - need) {
        return ROOM_LATER;
    }
    while (catalog->bytes - going > budget - need) {
        struct hspz_served *victim = find_victim(catalog);
        going += victim->bytes;
        hspz_served_begin_drop(victim, "least recently used, memory is needed");
    }
    return ROOM_SOON;
}

/* The same for an engine that had no memory: nobody knows how much is enough. */
static enum room
drop_for_engine(struct hspz_catalog *catalog)
{
    struct hspz_served *victim = find_victim(catalog);
    if (victim != NULL) {
        hspz_served_begin_drop(victim, "least recently used, device memory is needed");
        return ROOM_SOON;
    }
    bool busy = false;
    for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        busy = busy || s->state == HSPZ_SERVED_DROPPING ||
               (s->state == HSPZ_SERVED_READY && !s->pinned);
    }
    return busy ? ROOM_LATER : ROOM_NONE;
}

/* Whether a load that found no room is to be tried again, which it is at once or once there is
 * some. */
static bool
try_again(struct hspz_served *served, enum hspz_status why)
{
    struct hspz_catalog *catalog = served->catalog;
    const bool loads = served->op == HSPZ_OP_LOAD || served->op == HSPZ_OP_ADOPT;
    enum room room = ROOM_NONE;
    if (!loads || atomic_load(&catalog->stop)) {
        return false;
    }
    if (served->no_room) {
        room = drop_for_engine(catalog);
        served->op = HSPZ_OP_ADOPT;
    } else if (why == HSPZ_E_TOO_LARGE) {
        room = drop_for_budget(catalog, served->need);
    }
    if (room == ROOM_SOON) {
        hspz_served_enqueue(served, &catalog->loads);
    } else if (room == ROOM_LATER) {
        HSPZ_LOG(catalog->service->log, HSPZ_LOG_INFO, "index waits for memory",
                 hspz_kv("index", served->name), hspz_kv_uint("bytes", served->need));
        served->starved = true;
    }
    return room != ROOM_NONE;
}

static struct hspz_served *
find_fed(const struct hspz_catalog *catalog)
{
    struct hspz_served *s = catalog->list;
    while (s != NULL && !s->fed) {
        s = s->next;
    }
    return s;
}

void
hspz_catalog_feed(struct hspz_catalog *catalog)
{
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        s->fed = s->fed || s->starved;
        s->starved = false;
    }
    /* Each may fail at once, and change the list, or starve again. */
    for (struct hspz_served *s; (s = find_fed(catalog)) != NULL;) {
        s->fed = false;
        hspz_served_enqueue(s, &catalog->loads);
    }
}

/* What did not fit into the rest of the budget is told the whole of it. */
static void
add_budget(struct hspz_served *served)
{
    const struct hspz_catalog *catalog = served->catalog;
    const uint64_t budget = catalog->service->config->memory;
    if (served->result == HSPZ_E_TOO_LARGE && budget > 0) {
        const struct hspz_error why = served->err;
        hspz_error_set(&served->err, HSPZ_E_TOO_LARGE,
                       "%s; of %" PRIu64 " bytes (memory) %" PRIu64 " are used", why.text, budget,
                       catalog->bytes);
        (void)hspz_error_limit(&served->err, HSPZ_E_TOO_LARGE, budget);
    }
}

static void
on_worked(uv_work_t *work, int result)
{
    struct hspz_served *served = work->data;
    struct hspz_catalog *catalog = served->catalog;
    struct hspz_service *service = catalog->service;
    const bool built = served->op == HSPZ_OP_BUILD;
    struct hspz_work_line *line = built ? &catalog->builds : &catalog->loads;
    HSPZ_REQUIRE(result == 0 && line->running == served);
    line->running = NULL;
    if (served->op == HSPZ_OP_UNLOAD) {
        unload_done(served);
    } else if (served->result != HSPZ_OK) {
        const enum hspz_status why = served->result;
        struct hspz_error err = served->err;
        err.status = why;
        served->err.status = why;
        if (!try_again(served, why)) {
            add_budget(served);
            load_failed(served);
        }
        if (why == HSPZ_E_DEVICE_ERROR) {
            service->lost(service, HSPZ_ANY_DEVICE, &err);
        }
    } else if (built) {
        served->op = HSPZ_OP_ADOPT;
        served->state = HSPZ_SERVED_LOADING;
        *catalog->loads.last = served;
        catalog->loads.last = &served->work_next;
        served->work_next = NULL;
        pump(catalog, &catalog->loads);
    } else {
        load_done(served);
    }
    pump(catalog, line);
    hspz_scheduler_pump(&service->scheduler);
    service->changed(service);
}

/* Where an index goes: to those of its devices that work, and first to the one of them with the
 * fewest bytes of indexes. */
static enum hspz_status
choose_devices(struct hspz_served *served)
{
    const struct hspz_catalog *catalog = served->catalog;
    const struct hspz_service *service = catalog->service;
    const unsigned count = service->device_count;
    const struct hspz_config_group *const group =
        hspz_config_group_of(service->config, served->name);
    bool *const members = malloc(count * sizeof(*members));
    uint64_t *const bytes = calloc(count, sizeof(*bytes));
    if (members == NULL || bytes == NULL) {
        free(members);
        free(bytes);
        return hspz_error_set(&served->err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    for (unsigned d = 0; d < count; d++) {
        members[d] = group == NULL;
        for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
            /* Of what is loading, the placing is the pool's. */
            bytes[d] += s->bytes > 0 ? hspz_placing_bytes(&s->placing, d, s->bytes) : 0;
        }
    }
    for (size_t i = 0; group != NULL && i < group->device_count; i++) {
        members[group->devices[i]] = true;
    }
    for (unsigned d = 0; d < count; d++) {
        members[d] = members[d] && service->devices[d].state == HSPZ_DEVICE_READY;
    }
    const unsigned how = group != NULL ? group->placement : service->config->placement;
    hspz_placing_fini(&served->placing);
    const enum hspz_status status = hspz_placing_init(&served->placing, (enum hspz_placement)how,
                                                      count, members, bytes, &served->err);
    free(members);
    free(bytes);
    return status;
}

/* Why the next operation of a line cannot start; HSPZ_OK when it can, with its budget. */
static enum hspz_status
check_start(struct hspz_served *served)
{
    struct hspz_catalog *catalog = served->catalog;
    if (served->op == HSPZ_OP_UNLOAD) {
        return HSPZ_OK;
    }
    if (atomic_load(&catalog->stop)) {
        return hspz_error_set(&served->err, HSPZ_E_SHUTTING_DOWN, "the server is shutting down");
    }
    const enum hspz_status status = choose_devices(served);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t budget = catalog->service->config->memory;
    /* With nothing left a byte is tried, to be told what is needed. */
    served->budget = budget == 0 ? 0 : budget > catalog->bytes ? budget - catalog->bytes : 1;
    if (served->op == HSPZ_OP_ADOPT && budget > 0 &&
        hspz_index_bytes(served->index) > served->budget) {
        served->no_room = false;
        served->need = hspz_index_bytes(served->index);
        hspz_error_set(&served->err, HSPZ_E_TOO_LARGE,
                       "the index needs %" PRIu64 " bytes; %" PRIu64 " of the %" PRIu64
                       " of the budget (memory) are used",
                       served->need, catalog->bytes, budget);
        return hspz_error_limit(&served->err, HSPZ_E_TOO_LARGE, budget);
    }
    return HSPZ_OK;
}

static void
pump(struct hspz_catalog *catalog, struct hspz_work_line *line)
{
    while (line->running == NULL && line->first != NULL) {
        struct hspz_served *served = line->first;
        line->first = served->work_next;
        if (line->first == NULL) {
            line->last = &line->first;
        }
        enum hspz_status status = check_start(served);
        if (status == HSPZ_OK) {
            served->work.data = served;
            const int result =
                uv_queue_work(catalog->service->loop, &served->work, hspz_served_run, on_worked);
            if (result == 0) {
                line->running = served;
                continue;
            }
            if (served->op == HSPZ_OP_UNLOAD) {
                /* Which must not fail: then here. */
                HSPZ_LOG(catalog->service->log, HSPZ_LOG_WARNING, "index unloaded on the loop",
                         hspz_kv("index", served->name), hspz_kv("why", uv_err_name(result)));
                hspz_served_run(&served->work);
                unload_done(served);
                continue;
            }
            status = hspz_uv_error(&served->err, result, "a thread for the index");
        }
        if (!try_again(served, status)) {
            load_failed(served);
        }
    }
}

void
hspz_served_enqueue(struct hspz_served *served, struct hspz_work_line *line)
{
    served->work_next = NULL;
    *line->last = served;
    line->last = &served->work_next;
    pump(served->catalog, line);
}

void
hspz_catalog_stop(struct hspz_catalog *catalog)
{
    atomic_store(&catalog->stop, true);
    hspz_catalog_feed(catalog);
    pump(catalog, &catalog->loads);
    pump(catalog, &catalog->builds);
}
