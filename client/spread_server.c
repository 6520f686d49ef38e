#include "client/socket.h"
#include "client/spread_p.h"
#include "protocol/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A server's thread: connect, check that the index is the one, then unit after unit. The mutex is
 * held but for calls. */

#define UNIT_MS 1000.0
#define UNIT_RESULT_BYTES (64u << 20)
#define UNIT_POSITIONS_MOST (UINT64_C(64) << 20)
/* Units that may be begun past the first that is not done, and bytes that may wait. */
#define UNITS_AHEAD 256u
#define HELD_MOST (UINT64_C(2) << 30)
/* Pauses after failures double from one to the other. */
#define PAUSE_LEAST_MS 100
#define PAUSE_MOST_MS 2000
/* A unit gets company when another server is so much slower with it. */
#define SLOWER 4.0
#define SLOW_LEAST_MS 2000
/* A unit's failures that are one too many: so many, and two for each server. */
#define UNIT_FAILURES 8u

void
hspz_spread_interrupt(const struct hspz_spread_server *server)
{
    (void)eventfd_write(server->stop_fd, 1);
}

static void
forget_interrupts(const struct hspz_spread_server *server)
{
    eventfd_t count;
    (void)eventfd_read(server->stop_fd, &count);
}

/* The first failure that ends the job stays. */
static void
fail_job(struct hspz_spread *spread, const struct hspz_error *why)
{
    if (spread->failure.status == HSPZ_OK) {
        spread->failure = *why;
    }
    hspz_spread_wake(spread);
}

static void
fail_job_at(const struct hspz_spread_server *server, const struct hspz_error *why)
{
    struct hspz_error all = *why;
    snprintf(all.text, sizeof(all.text), "server %.200s: %.300s", server->where,
             hspz_spread_reason(server, why));
    fail_job(server->spread, &all);
}

/* Is wrong wherever it is tried. */
static bool
is_of_request(enum hspz_status status)
{
    return status == HSPZ_E_BAD_REQUEST || status == HSPZ_E_TOO_LARGE ||
           status == HSPZ_E_HITS_OVERFLOW || status == HSPZ_E_DEADLINE_EXCEEDED;
}

/* May be for what was asked: tried again, but not for ever. */
static bool
is_of_unit(enum hspz_status status)
{
    return status == HSPZ_E_INTERNAL || status == HSPZ_E_DEVICE_ERROR ||
           status == HSPZ_E_OUT_OF_MEMORY || status == HSPZ_E_INCOMPLETE ||
           status == HSPZ_E_BAD_PEER || status == HSPZ_E_CANCELLED;
}

static void
note_failure(struct hspz_spread_server *server, const struct hspz_error *why)
{
    int64_t pause = PAUSE_LEAST_MS;
    for (unsigned i = 1; i < server->failures && pause < PAUSE_MOST_MS; i++) {
        pause *= 2;
    }
    if (why->has_retry && (int64_t)why->retry_ms > pause) {
        pause = (int64_t)why->retry_ms;
    }
    const bool first = server->failures == 0 && server->answered;
    server->failures++;
    server->failed++;
    server->failure = *why;
    server->state = first ? HSPZ_SERVER_FALTER : HSPZ_SERVER_FAILED;
    server->again_ms = hspz_clock_ms() + (first                   ? 0
                                          : pause < PAUSE_MOST_MS ? pause
                                                                  : PAUSE_MOST_MS);
    hspz_spread_wake(server->spread);
    pthread_cond_broadcast(&server->spread->changed);
}

/* Whether its thread is to end. */
static bool
is_over(const struct hspz_spread_server *server)
{
    const struct hspz_spread *spread = server->spread;
    return spread->over || !server->wanted || spread->failure.status != HSPZ_OK ||
           (spread->cut_all && spread->first == NULL &&
            (server->state != HSPZ_SERVER_NEW || server->rank > 0));
}

static bool
note_digest(void *user, const struct hspz_index_info *info)
{
    char *digest = user;
    snprintf(digest, 17, "%s", info->digest);
    return true;
}

/* Mutex not held. */
static enum hspz_status
connect_and_check(struct hspz_spread_server *server, bool *differs, struct hspz_error *err)
{
    const struct hspz_spread *spread = server->spread;
    char digest[17] = "";
    struct hspz_client *client = NULL;
    enum hspz_status status =
        hspz_cli_connect_to(spread->cli, &server->address, server->stop_fd, &client, err);
    if (status == HSPZ_OK) {
        status = hspz_client_index_describe(client, spread->index, note_digest, NULL, digest, err);
    }
    *differs = status == HSPZ_OK && strcmp(digest, spread->digest) != 0;
    if (*differs) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "server %.150s has another index %.80s (digest %s) than server "
                                "%.150s (digest %s)",
                                server->where, spread->index, digest, spread->described_by,
                                spread->digest);
    }
    if (status != HSPZ_OK) {
        hspz_client_close(&client);
    }
    server->client = client;
    return status;
}

static void
get_ready(struct hspz_spread_server *server)
{
    struct hspz_spread *spread = server->spread;
    struct hspz_error why = {0};
    bool differs = false;
    pthread_mutex_unlock(&spread->mutex);
    const enum hspz_status status = connect_and_check(server, &differs, &why);
    pthread_mutex_lock(&spread->mutex);
    if (differs) {
        fail_job(spread, &why);
    } else if (status == HSPZ_OK) {
        server->state = server->failures == 0 ? HSPZ_SERVER_GOOD : server->state;
        server->answered = true;
        hspz_spread_wake(spread);
    } else if (status != HSPZ_E_STOPPED) {
        note_failure(server, &why);
    }
}

static uint64_t
wanted_positions(const struct hspz_spread_server *server)
{
    double want = server->rate * UNIT_MS / 1000.0;
    if (server->weight * want > UNIT_RESULT_BYTES) {
        want = UNIT_RESULT_BYTES / server->weight;
    }
    return want < HSPZ_BATCH_POSITIONS          ? HSPZ_BATCH_POSITIONS
           : want < (double)UNIT_POSITIONS_MOST ? (uint64_t)want
                                                : UNIT_POSITIONS_MOST;
}

/* A unit that no server had yet; NULL: there is none, or too much waits. */
static struct hspz_spread_unit *
new_unit(struct hspz_spread_server *server)
{
    struct hspz_spread *spread = server->spread;
    if (spread->cut_all || spread->unit_count >= UNITS_AHEAD ||
        (spread->unit_count > 0 && hspz_held_bytes(spread->held) > HELD_MOST)) {
        return NULL;
    }
    struct hspz_spread_unit *unit = calloc(1, sizeof(*unit));
    if (unit == NULL) {
        struct hspz_error why = {0};
        hspz_error_set(&why, HSPZ_E_OUT_OF_MEMORY, "no memory for a unit of work");
        fail_job(spread, &why);
        return NULL;
    }
    if (!hspz_cutter_next(&spread->cutter, wanted_positions(server), &unit->cut)) {
        free(unit);
        spread->cut_all = true;
        hspz_spread_wake(spread);
        pthread_cond_broadcast(&spread->changed);
        return NULL;
    }
    if (spread->last != NULL) {
        spread->last->next = unit;
    } else {
        spread->first = unit;
    }
    spread->last = unit;
    spread->unit_count++;
    return unit;
}

/* Whether the unit's server is much slower with it than this one would be. */
static bool
needs_company(const struct hspz_spread_server *server, const struct hspz_spread_unit *unit)
{
    const struct hspz_spread *spread = server->spread;
    if (unit->done || unit->runners != 1 || server->rate <= 0) {
        return false;
    }
    for (size_t i = 0; i < spread->server_count; i++) {
        const struct hspz_spread_server *other = spread->servers[i];
        if (other->unit == unit) {
            const double ms = (double)(hspz_clock_ms() - other->begun_ms);
            const double mine = 1000.0 * (double)unit->cut.positions / server->rate;
            return ms > SLOW_LEAST_MS && ms > SLOWER * mine;
        }
    }
    return false;
}

static struct hspz_spread_unit *
pick_unit(struct hspz_spread_server *server)
{
    struct hspz_spread *spread = server->spread;
    for (struct hspz_spread_unit *unit = spread->first; unit != NULL; unit = unit->next) {
        if (!unit->done && unit->runners == 0) {
            return unit;
        }
    }
    struct hspz_spread_unit *unit = new_unit(server);
    return unit != NULL                                                    ? unit
           : spread->first != NULL && needs_company(server, spread->first) ? spread->first
                                                                           : NULL;
}

/* A unit while its parts come. */
struct attempt {
    struct hspz_spread_server *server;
    const struct hspz_spread_unit *unit;
    struct hspz_held_list parts;
    uint8_t *shifted; /* a part with its query positions in the job's coordinates */
    size_t room;
    struct hspz_error failure; /* of ours */
};

static uint8_t *
make_room(struct attempt *attempt, size_t len)
{
    if (attempt->room < len) {
        free(attempt->shifted);
        attempt->room = 0;
        attempt->shifted = malloc(len);
        if (attempt->shifted == NULL) {
            hspz_error_set(&attempt->failure, HSPZ_E_OUT_OF_MEMORY, "no memory for a part");
            return NULL;
        }
        attempt->room = len;
    }
    return attempt->shifted;
}

/* Adds to `count` little-endian numbers, `stride` bytes apart. */
static void
shift_positions(uint8_t *first, size_t count, size_t stride, uint32_t shift)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *b = first + i * stride;
        const uint32_t position =
            ((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24) +
            shift;
        b[0] = (uint8_t)position;
        b[1] = (uint8_t)(position >> 8);
        b[2] = (uint8_t)(position >> 16);
        b[3] = (uint8_t)(position >> 24);
    }
}

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct attempt *attempt = user;
    struct hspz_spread *spread = attempt->server->spread;
    const struct hspz_unit_cut *cut = &attempt->unit->cut;
    const size_t record = hspz_record_bytes(spread->request->records);
    const size_t runs = part->columns.run_count;
    const size_t len = runs > 0 ? runs * HSPZ_RUN_BYTES + part->count * HSPZ_COLUMN_REF_BYTES
                                : part->count * record;
    uint8_t *bytes = make_room(attempt, len);
    if (bytes == NULL) {
        return false;
    }
    struct hspz_part_view shifted = *part;
    memcpy(bytes, part->records, len);
    shifted.records = bytes;
    shifted.id.batch += cut->batch_shift;
    if (cut->query_shift != 0 && runs > 0) {
        shift_positions(bytes, runs, HSPZ_RUN_BYTES, (uint32_t)cut->query_shift);
    } else if (cut->query_shift != 0) {
        /* The query's is the second number of an anchor, and of an HSP. */
        shift_positions(bytes + 4, part->count, record, (uint32_t)cut->query_shift);
    }
    return hspz_held_add(spread->held, &attempt->parts, &shifted, len, &attempt->failure) ==
           HSPZ_OK;
}

static void
note_done(struct hspz_spread_server *server, struct attempt *attempt,
          const struct hspz_discover_summary *summary)
{
    struct hspz_spread *spread = server->spread;
    struct hspz_spread_unit *unit = server->unit;
    const int64_t ms = hspz_clock_ms() - server->begun_ms;
    const double positions = (double)(unit->cut.positions > 0 ? unit->cut.positions : 1);
    const double rate = 1000.0 * positions / (double)(ms > 0 ? ms : 1);
    const double weight = (double)attempt->parts.bytes / positions;
    server->rate = server->rate > 0 ? (server->rate + rate) / 2 : rate;
    server->weight = server->units > 0 ? (server->weight + weight) / 2 : weight;
    server->units++;
    server->positions += unit->cut.positions;
    server->busy_ms += (uint64_t)ms;
    server->failures = 0;
    server->state = HSPZ_SERVER_GOOD;
    server->told = false;
    unit->done = true;
    unit->parts = attempt->parts;
    unit->summary = *summary;
    attempt->parts = (struct hspz_held_list){0};
    for (size_t i = 0; i < spread->server_count; i++) {
        if (spread->servers[i] != server && spread->servers[i]->unit == unit) {
            hspz_spread_interrupt(spread->servers[i]);
        }
    }
    hspz_spread_wake(spread);
    pthread_cond_broadcast(&spread->changed);
}

/* The call of a unit failed. */
static void
note_undone(struct hspz_spread_server *server, const struct attempt *attempt,
            enum hspz_status status, const struct hspz_error *why)
{
    if (status == HSPZ_E_STOPPED && attempt->failure.status != HSPZ_OK) {
        fail_job(server->spread, &attempt->failure);
    } else if (is_of_request(status) ||
               (is_of_unit(status) &&
                ++server->unit->failures > UNIT_FAILURES + 2 * server->spread->server_count)) {
        fail_job_at(server, why);
    } else if (status != HSPZ_E_STOPPED) {
        note_failure(server, why);
    }
    pthread_cond_broadcast(&server->spread->changed);
}

static void
do_unit(struct hspz_spread_server *server, struct hspz_spread_unit *unit)
{
    struct hspz_spread *spread = server->spread;
    struct attempt attempt = {.server = server, .unit = unit};
    struct hspz_discover_request request = *spread->request;
    struct hspz_discover_summary summary;
    struct hspz_error why = {0};
    if (request.given_seeds) {
        request.seeds = unit->cut.bases;
    } else {
        request.bases = unit->cut.bases;
    }
    request.strands = unit->cut.strands;
    unit->runners++;
    server->unit = unit;
    server->begun_ms = hspz_clock_ms();
    pthread_mutex_unlock(&spread->mutex);
    const enum hspz_status status =
        hspz_client_discover(server->client, &request, take_part, &attempt, &summary, &why);
    if (status != HSPZ_OK && status != HSPZ_E_QUEUE_FULL && status != HSPZ_E_QUOTA_EXCEEDED) {
        hspz_client_close(&server->client);
    }
    pthread_mutex_lock(&spread->mutex);
    if (!unit->done && status == HSPZ_OK) {
        note_done(server, &attempt, &summary);
    } else if (!unit->done) {
        note_undone(server, &attempt, status, &why);
    }
    server->unit = NULL;
    if (--unit->runners == 0 && unit->handed_on) {
        free(unit);
    }
    forget_interrupts(server);
    pthread_mutex_unlock(&spread->mutex);
    hspz_held_drop(spread->held, &attempt.parts);
    free(attempt.shifted);
    pthread_mutex_lock(&spread->mutex);
}

/* Whether one of lower rank is left, so that this one is not asked. */
static bool
is_in_reserve(const struct hspz_spread_server *server)
{
    const struct hspz_spread *spread = server->spread;
    for (size_t i = 0; i < spread->server_count; i++) {
        const struct hspz_spread_server *other = spread->servers[i];
        if (other->wanted && other->rank < server->rank &&
            (other->state != HSPZ_SERVER_FAILED || other->unit != NULL)) {
            return true;
        }
    }
    return false;
}

/* Until something changed, or the time came. */
static void
wait_for_change(struct hspz_spread_server *server, int64_t most_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += most_ms / 1000;
    until.tv_nsec += most_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&server->spread->changed, &server->spread->mutex, &until);
}

void *
hspz_spread_serve(void *user)
{
    struct hspz_spread_server *server = user;
    struct hspz_spread *spread = server->spread;
    pthread_mutex_lock(&spread->mutex);
    while (!is_over(server)) {
        const int64_t pause = server->again_ms - hspz_clock_ms();
        if (pause > 0) {
            wait_for_change(server, pause);
        } else if (is_in_reserve(server)) {
            wait_for_change(server, SLOW_LEAST_MS / 4);
        } else if (server->client == NULL) {
            get_ready(server);
        } else {
            struct hspz_spread_unit *unit = pick_unit(server);
            if (unit != NULL) {
                do_unit(server, unit);
            } else {
                wait_for_change(server, SLOW_LEAST_MS / 4);
            }
        }
    }
    server->ended = true;
    hspz_spread_wake(spread);
    pthread_mutex_unlock(&spread->mutex);
    return NULL;
}
