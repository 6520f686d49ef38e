#include "client/socket.h"
#include "client/spread_p.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <xxhash.h>

/* A job, on the caller's thread: starts and joins servers' threads, hands units on in order, sees
 * whether a server is left. */

#define REFRESH_MS 250
/* So long a short job waits for servers that were not heard of yet. */
#define SETTLE_MS 1000

struct job {
    struct hspz_spread *spread;
    hspz_part_fn part;
    void *user;
    struct hspz_discover_summary sum;
    XXH64_state_t *hash; /* NULL: no digest */
    uint8_t *buffer;     /* for a part out of the file */
    size_t room;
    /* Units of a strand that are handed on reference block by reference block. */
    struct hspz_spread_unit *kept, *kept_last;
    int64_t lost_ms; /* since when no server is left; -1: there is one */
    int64_t looked_ms;
};

static enum hspz_status
start_server(struct hspz_spread_server *server, struct hspz_error *err)
{
    eventfd_t count;
    (void)eventfd_read(server->stop_fd, &count);
    server->ended = false;
    server->again_ms = 0;
    const int error = pthread_create(&server->thread, NULL, hspz_spread_serve, server);
    server->running = error == 0;
    return error == 0 ? HSPZ_OK
                      : hspz_error_errno(err, HSPZ_E_OUT_OF_MEMORY, error, "no thread for %s",
                                         server->where);
}

static void
join_server(struct hspz_spread_server *server)
{
    (void)pthread_join(server->thread, NULL);
    server->running = false;
}

/* Starts threads of those named, joins those that ended. Mutex held, given up to join. */
static enum hspz_status
tend_servers(struct hspz_spread *spread, struct hspz_error *err)
{
    sigset_t all, before;
    enum hspz_status status = HSPZ_OK;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < spread->server_count && status == HSPZ_OK; i++) {
        struct hspz_spread_server *server = spread->servers[i];
        if (server->running && server->ended) {
            pthread_mutex_unlock(&spread->mutex);
            join_server(server);
            pthread_mutex_lock(&spread->mutex);
        }
        if (!server->running && server->wanted && !(spread->cut_all && spread->first == NULL)) {
            status = start_server(server, err);
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static void
end_servers(struct hspz_spread *spread)
{
    pthread_mutex_lock(&spread->mutex);
    spread->over = true;
    pthread_cond_broadcast(&spread->changed);
    for (size_t i = 0; i < spread->server_count; i++) {
        if (spread->servers[i]->running && !spread->servers[i]->ended) {
            hspz_spread_interrupt(spread->servers[i]);
        }
    }
    pthread_mutex_unlock(&spread->mutex);
    for (size_t i = 0; i < spread->server_count; i++) {
        if (spread->servers[i]->running) {
            join_server(spread->servers[i]);
        }
    }
}

/* Of packed anchors, whatever they came as. */
static void
add_digest(const struct job *job, const struct hspz_part_view *part, size_t len)
{
    if (job->hash == NULL || part->columns.run_count == 0) {
        if (job->hash != NULL) {
            XXH64_update(job->hash, part->records, len);
        }
        return;
    }
    uint8_t packed[512 * HSPZ_ANCHOR_BYTES];
    struct hspz_columns_place place = {0};
    for (size_t count = 1; count > 0;) {
        count = hspz_columns_anchors(&part->columns, &place, packed, 512);
        XXH64_update(job->hash, packed, count * HSPZ_ANCHOR_BYTES);
    }
}

static enum hspz_status
hand_on_part(struct job *job, const struct hspz_held_part *part, struct hspz_error *err)
{
    if (part->bytes == NULL && job->room < part->len) {
        free(job->buffer);
        job->room = 0;
        job->buffer = malloc(part->len);
        if (job->buffer == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a part");
        }
        job->room = part->len;
    }
    struct hspz_part_view view;
    const enum hspz_status status = hspz_held_get(job->spread->held, part, job->buffer, &view, err);
    if (status != HSPZ_OK) {
        return status;
    }
    add_digest(job, &view, part->len);
    return job->part == NULL || job->part(job->user, &view)
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_STOPPED, "%s", hspz_status_text(HSPZ_E_STOPPED));
}

static void
add_summary(struct hspz_discover_summary *sum, const struct hspz_discover_summary *one)
{
    for (size_t s = 0; s < 2; s++) {
        sum->totals[s].batches += one->totals[s].batches;
        sum->totals[s].seeds += one->totals[s].seeds;
        sum->totals[s].hits += one->totals[s].hits;
        sum->totals[s].chunks += one->totals[s].chunks;
        sum->totals[s].hsps += one->totals[s].hsps;
    }
    sum->anchors += one->anchors;
    sum->hsps += one->hsps;
    sum->chunks += one->chunks;
    sum->max_hits = one->max_hits;
    sum->queued_ns += one->queued_ns;
    sum->engine_ns += one->engine_ns;
    sum->total_ns += one->total_ns;
    memcpy(sum->index_digest, one->index_digest, sizeof(sum->index_digest));
}

/* Its limit is of all units together. */
static enum hspz_status
check_hits(const struct job *job, struct hspz_error *err)
{
    const uint64_t limit = job->spread->request->hit_limit;
    const uint64_t hits = job->sum.totals[0].hits + job->sum.totals[1].hits;
    if (hits <= limit) {
        return HSPZ_OK;
    }
    hspz_error_set(err, HSPZ_E_TOO_LARGE, "the job has %" PRIu64 " hits; its hit_limit is %" PRIu64,
                   hits, limit);
    if (err != NULL) {
        err->has_hits = true;
        err->hits = hits;
    }
    return hspz_error_limit(err, HSPZ_E_TOO_LARGE, limit);
}

/* Mutex not held. */
static void
let_go(struct hspz_spread *spread, struct hspz_spread_unit *unit)
{
    hspz_held_drop(spread->held, &unit->parts);
    pthread_mutex_lock(&spread->mutex);
    unit->handed_on = true;
    const bool free_it = unit->runners == 0;
    pthread_mutex_unlock(&spread->mutex);
    if (free_it) {
        free(unit);
    }
}

static enum hspz_status
hand_on_unit(struct job *job, struct hspz_spread_unit *unit, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    while (unit->parts.first != NULL && status == HSPZ_OK) {
        status = hand_on_part(job, unit->parts.first, err);
        hspz_held_drop_first(job->spread->held, &unit->parts);
    }
    let_go(job->spread, unit);
    return status;
}

/* What was kept of a strand. */
static enum hspz_status
hand_on_kept(struct job *job, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (uint64_t block = 0; block < job->spread->ref_blocks && status == HSPZ_OK; block++) {
        for (struct hspz_spread_unit *unit = job->kept; unit != NULL && status == HSPZ_OK;
             unit = unit->next) {
            /* Blocks come in order in each unit. */
            while (unit->parts.first != NULL && unit->parts.first->view.id.ref_block <= block &&
                   status == HSPZ_OK) {
                status = hand_on_part(job, unit->parts.first, err);
                hspz_held_drop_first(job->spread->held, &unit->parts);
            }
        }
    }
    while (job->kept != NULL) {
        struct hspz_spread_unit *unit = job->kept;
        job->kept = unit->next;
        let_go(job->spread, unit);
    }
    job->kept_last = NULL;
    return status;
}

static enum hspz_status
take_unit(struct job *job, struct hspz_spread_unit *unit, struct hspz_error *err)
{
    const struct hspz_spread *spread = job->spread;
    enum hspz_status status = HSPZ_OK;
    if (job->kept != NULL && job->kept->cut.strands != unit->cut.strands) {
        status = hand_on_kept(job, err);
    }
    add_summary(&job->sum, &unit->summary);
    if (status == HSPZ_OK) {
        status = check_hits(job, err);
    }
    if (status != HSPZ_OK) {
        let_go(job->spread, unit);
        return status;
    }
    if (spread->cutter.by != HSPZ_CUT_SEQUENCES || spread->ref_blocks <= 1) {
        return hand_on_unit(job, unit, err);
    }
    unit->next = NULL;
    if (job->kept_last != NULL) {
        job->kept_last->next = unit;
    } else {
        job->kept = unit;
    }
    job->kept_last = unit;
    return HSPZ_OK;
}

/* The first unit, when it is done; mutex held. */
static struct hspz_spread_unit *
pop_done(struct hspz_spread *spread)
{
    struct hspz_spread_unit *unit = spread->first;
    if (unit == NULL || !unit->done) {
        return NULL;
    }
    spread->first = unit->next;
    if (spread->first == NULL) {
        spread->last = NULL;
    }
    spread->unit_count--;
    pthread_cond_broadcast(&spread->changed);
    return unit;
}

/* Says who failed since, and sees whether anybody is left; mutex held. */
static enum hspz_status
look_who_is_left(struct job *job, struct hspz_error *err)
{
    struct hspz_spread *spread = job->spread;
    const int64_t wait_ms = spread->cli->wait_ms;
    const int64_t now = hspz_clock_ms();
    size_t left = 0, named = 0;
    uint64_t retry_ms = UINT64_MAX;
    for (size_t i = 0; i < spread->server_count; i++) {
        struct hspz_spread_server *server = spread->servers[i];
        if (!server->wanted) {
            continue;
        }
        named++;
        left += server->state != HSPZ_SERVER_FAILED || server->unit != NULL;
        if (server->failure.has_retry && server->failure.retry_ms < retry_ms) {
            retry_ms = server->failure.retry_ms;
        }
        if (server->state == HSPZ_SERVER_FAILED && !server->told) {
            server->told = true;
            hspz_spread_note(spread, "server %s: %s", server->where,
                             hspz_spread_reason(server, &server->failure));
        }
    }
    if (left > 0) {
        job->lost_ms = -1;
        return HSPZ_OK;
    }
    job->lost_ms = job->lost_ms < 0 ? now : job->lost_ms;
    hspz_error_set(err, HSPZ_E_NO_SERVER, "no server is left of %zu", named);
    if (wait_ms < 0 || now - job->lost_ms < wait_ms) {
        hspz_cli_say_waiting((void *)(uintptr_t)spread->cli, err);
        return HSPZ_OK;
    }
    err->has_retry = retry_ms != UINT64_MAX;
    err->retry_ms = err->has_retry ? retry_ms : 0;
    return err->status;
}

/* Servers that were not asked yet, while their answers may be near: one with another index is told
 * even when the others had done everything before. Mutex held. */
static bool
some_are_new(const struct hspz_spread *spread)
{
    for (size_t i = 0; i < spread->server_count; i++) {
        if (spread->servers[i]->wanted && spread->servers[i]->rank == 0 &&
            spread->servers[i]->state == HSPZ_SERVER_NEW) {
            return true;
        }
    }
    return false;
}

/* Until a server says something. */
static enum hspz_status
wait_for_servers(struct job *job, struct hspz_error *err)
{
    struct hspz_spread *spread = job->spread;
    short got = 0;
    eventfd_t count;
    const enum hspz_status status =
        hspz_socket_wait(spread->wake_fd, POLLIN, spread->cli->stop_fd, REFRESH_MS, &got);
    (void)eventfd_read(spread->wake_fd, &count);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "%s", hspz_status_text(status));
    }
    if (hspz_clock_ms() - job->looked_ms < REFRESH_MS) {
        return HSPZ_OK;
    }
    job->looked_ms = hspz_clock_ms();
    return hspz_spread_refresh(spread, err);
}

static enum hspz_status
run_job(struct job *job, struct hspz_error *err)
{
    struct hspz_spread *spread = job->spread;
    const int64_t begun_ms = hspz_clock_ms();
    enum hspz_status status = HSPZ_OK;
    while (status == HSPZ_OK) {
        pthread_mutex_lock(&spread->mutex);
        struct hspz_spread_unit *unit = pop_done(spread);
        const bool done = unit == NULL && spread->cut_all && spread->first == NULL;
        if (spread->failure.status != HSPZ_OK) {
            *err = spread->failure;
            status = err->status;
        } else if (done && (!some_are_new(spread) || hspz_clock_ms() - begun_ms > SETTLE_MS)) {
            pthread_mutex_unlock(&spread->mutex);
            return hand_on_kept(job, err);
        } else if (unit == NULL) {
            status = tend_servers(spread, err);
            status = status == HSPZ_OK ? look_who_is_left(job, err) : status;
        }
        pthread_mutex_unlock(&spread->mutex);
        if (unit != NULL && status == HSPZ_OK) {
            status = take_unit(job, unit, err);
        } else if (unit != NULL) {
            let_go(spread, unit);
        } else if (status == HSPZ_OK) {
            status = wait_for_servers(job, err);
        }
    }
    return status;
}

/* After the servers' threads ended. */
static void
drop_units(struct job *job)
{
    struct hspz_spread *spread = job->spread;
    struct hspz_spread_unit *const lists[] = {spread->first, job->kept};
    for (size_t i = 0; i < 2; i++) {
        for (struct hspz_spread_unit *unit = lists[i], *next; unit != NULL; unit = next) {
            next = unit->next;
            hspz_held_drop(spread->held, &unit->parts);
            free(unit);
        }
    }
    spread->first = spread->last = NULL;
    spread->unit_count = 0;
}

static enum hspz_status
discover_by_many(struct hspz_spread *spread, const struct hspz_discover_request *request,
                 hspz_part_fn part, void *user, struct hspz_discover_summary *summary,
                 struct hspz_error *err)
{
    struct job job = {.spread = spread, .part = part, .user = user, .lost_ms = -1};
    enum hspz_status status = HSPZ_OK;
    if (request->digest) {
        job.hash = XXH64_createState();
        if (job.hash == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a digest");
        }
        XXH64_reset(job.hash, 0);
    }
    spread->request = request;
    hspz_cutter_init(&spread->cutter, request, spread->span);
    spread->cut_all = spread->over = false;
    for (size_t i = 0; i < spread->server_count; i++) {
        struct hspz_spread_server *server = spread->servers[i];
        server->state = server->state == HSPZ_SERVER_FAILED ? HSPZ_SERVER_FALTER : server->state;
    }
    spread->failure = (struct hspz_error){0};
    status = run_job(&job, err);
    end_servers(spread);
    drop_units(&job);
    spread->request = NULL;
    if (status == HSPZ_OK && summary != NULL) {
        *summary = job.sum;
        if (job.hash != NULL) {
            snprintf(summary->digest, sizeof(summary->digest), "%016" PRIx64,
                     (uint64_t)XXH64_digest(job.hash));
        }
    }
    XXH64_freeState(job.hash);
    free(job.buffer);
    return status;
}

enum hspz_status
hspz_spread_discover(struct hspz_spread *spread, const struct hspz_discover_request *request,
                     hspz_part_fn part, void *user, struct hspz_discover_summary *summary,
                     struct hspz_error *err)
{
    struct hspz_error why = {0};
    const enum hspz_status status =
        spread->client != NULL
            ? hspz_client_discover(spread->client, request, part, user, summary, &why)
            : discover_by_many(spread, request, part, user, summary, &why);
    if (status != HSPZ_OK && err != NULL) {
        *err = why;
    }
    return status;
}
