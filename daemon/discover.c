#include "daemon/discover_p.h"

#include "daemon/conn_shm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct hspz_discover *
of_job(struct hspz_conn_job *job)
{
    return (struct hspz_discover *)(void *)((char *)job - offsetof(struct hspz_discover, base));
}

struct hspz_discover *
hspz_discover_of_task(struct hspz_task *task)
{
    return of_job(hspz_conn_job_of_task(task));
}

static struct hspz_discover *
of_scratch(struct hspz_scratch_user *user)
{
    return (struct hspz_discover *)(void *)((char *)user - offsetof(struct hspz_discover, scratch));
}

struct hspz_service *
hspz_discover_service(const struct hspz_discover *d)
{
    return d->service;
}

static void
log_end(const struct hspz_discover *d, uint64_t now_ns)
{
    const enum hspz_status status = d->err.status;
    HSPZ_LOG(hspz_discover_service(d)->log, HSPZ_LOG_INFO,
             status == HSPZ_OK ? "job done" : "job ended", hspz_kv_uint("conn", d->base.conn->id),
             hspz_kv_uint("job", d->base.id),
             hspz_kv("tenant", d->base.conn->tenant->settings.name),
             hspz_kv("index", hspz_served_name(d->served)),
             hspz_kv_uint("seeds", d->totals.strand[0].seeds + d->totals.strand[1].seeds),
             hspz_kv_uint("hits", d->totals.strand[0].hits + d->totals.strand[1].hits),
             hspz_kv_uint("anchors", d->anchors), hspz_kv_uint("hsps", d->hsps),
             hspz_kv_uint("ms", (now_ns - d->base.arrived_ns) / 1000000),
             hspz_kv_uint("engine_ms", d->engine_ns / 1000000),
             hspz_kv("status", hspz_status_name(status)),
             hspz_kv("why", status == HSPZ_OK ? "" : d->err.text));
}

static void
reply_done(struct hspz_discover *d, uint64_t now_ns)
{
    struct hspz_discover_result result = {
        .totals = {d->totals.strand[0], d->totals.strand[1]},
        .anchors = d->anchors,
        .hsps = d->hsps,
        .chunks = d->totals.strand[0].chunks + d->totals.strand[1].chunks,
        .max_hits = d->spec.max_hits,
        .has_digest = d->digest != NULL,
        .timings = {.queued_ns = d->first_step_ns - d->base.arrived_ns,
                    .engine_ns = d->engine_ns,
                    .total_ns = now_ns - d->base.arrived_ns},
    };
    snprintf(result.index_digest, sizeof(result.index_digest), "%s",
             hspz_index_digest(hspz_served_index(d->served)));
    if (d->digest != NULL) {
        snprintf(result.digest, sizeof(result.digest), "%016" PRIx64,
                 (uint64_t)XXH64_digest(d->digest));
    }
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_discover_result_encode(&w, d->base.id, &result);
    hspz_conn_reply(d->base.conn, &w);
}

static void
count_end(const struct hspz_discover *d, uint64_t now_ns)
{
    struct hspz_service *service = hspz_discover_service(d);
    const uint64_t first_ns = d->first_step_ns != 0 ? d->first_step_ns : now_ns;
    const struct hspz_used used = {
        .status = d->err.status,
        .seeds = d->totals.strand[0].seeds + d->totals.strand[1].seeds,
        .hits = d->totals.strand[0].hits + d->totals.strand[1].hits,
        .records = d->anchors + d->hsps,
        .bytes_in = d->frame_len,
        .bytes_out = d->payload_bytes,
        .latency_ns = now_ns - d->base.arrived_ns,
        .queued_ns = first_ns - d->base.arrived_ns,
    };
    service->stats.seeds += used.seeds;
    service->stats.hits += used.hits;
    hspz_conn_job_count(&d->base, &used, now_ns);
}

/* Accounts for what the job holds now. When it keeps less, jobs that lack memory try again. */
static void
settle_scratch(struct hspz_discover *d)
{
    struct hspz_service *service = hspz_discover_service(d);
    const uint64_t kept = d->scratch.kept;
    hspz_scratch_settle(&service->scratch, &d->scratch, d->bytes.now, d->bytes.kept, d->bytes.most);
    if (d->bytes.kept < kept) {
        hspz_conn_job_wake(service);
    }
}

static void
unlock_mask(struct hspz_discover *d)
{
    if (d->mask_locked) {
        d->mask_locked = false;
        hspz_named_filter_unlock(d->mask, false);
    }
}

static void
let_mask_go(struct hspz_discover *d)
{
    HSPZ_REQUIRE(!d->mask_locked);
    if (d->mask != NULL) {
        hspz_named_filter_unwait(d->mask, &d->mask_wait);
        hspz_named_filter_release(&d->mask);
    }
}

/* The one end of every job. The job is gone afterwards, and a closing connection may be. */
static void
finish(struct hspz_discover *d)
{
    struct hspz_conn *conn = d->base.conn;
    struct hspz_service *service = conn->service;
    const uint64_t now_ns = uv_hrtime();
    HSPZ_REQUIRE(!d->base.working && d->job == NULL && d->buffers == NULL);
    hspz_conn_remove_job(conn, &d->base);
    settle_scratch(d);
    count_end(d, now_ns);
    log_end(d, now_ns);
    hspz_conn_refund(conn, d->base.charged_bytes);
    if (!hspz_conn_state_serves(conn->state)) {
        /* Nobody is left to be answered. */
    } else if (d->err.status == HSPZ_OK) {
        reply_done(d, now_ns);
    } else {
        hspz_conn_reply_error(conn, d->base.id, &d->err);
    }
    hspz_discover_bytes_release(&d->bytes_of);
    XXH64_freeState(d->digest);
    let_mask_go(d);
    if (d->base.worker != NULL) {
        hspz_worker_leave(d->base.worker);
    }
    /* The next one first, so that an index that both use stays. */
    hspz_conn_update(conn);
    if (d->base.held) {
        hspz_served_unhold(d->served);
    }
    hspz_served_release(&d->served);
    free(d);
    hspz_conn_settle(conn);
    service->changed(service);
}

void
hspz_discover_on_part(struct hspz_event *event)
{
    struct hspz_buffer *buffer =
        (struct hspz_buffer *)(void *)((char *)event - offsetof(struct hspz_buffer, event));
    struct hspz_discover *d = buffer->holder;
    hspz_conn_send_part(d->base.conn, buffer);
}

static void
on_ended(struct hspz_event *event)
{
    struct hspz_discover *d = hspz_discover_of_task((struct hspz_task *)(void *)event);
    struct hspz_service *service = hspz_discover_service(d);
    d->base.working = false;
    finish(d);
    hspz_scheduler_pump(&service->scheduler);
}

/* Ends a job that no worker has. */
static void
end_now(struct hspz_discover *d)
{
    struct hspz_scratch_user *user = &d->scratch;
    if (d->job == NULL) {
        finish(d);
    } else {
        /* Out of the rest, so that it is not chosen to be parked meanwhile. */
        HSPZ_REQUIRE(
            hspz_scratch_reserve(&hspz_discover_service(d)->scratch, user, user->reserved));
        /* Not behind a step that may never come back. */
        hspz_conn_job_submit(&d->base, hspz_discover_run_end, on_ended,
                             hspz_device_working(d->service, d->base.worker), 0);
    }
}

/* After a worker returned the job: ends it if that was asked meanwhile. */
static bool
end_if_asked(struct hspz_discover *d)
{
    const int stop = atomic_load(&d->base.stop);
    if (stop == HSPZ_OK) {
        return false;
    }
    hspz_discover_fail(d, (enum hspz_status)stop);
    end_now(d);
    return true;
}

static void
on_parked(struct hspz_event *event)
{
    struct hspz_discover *d = hspz_discover_of_task((struct hspz_task *)(void *)event);
    struct hspz_service *service = hspz_discover_service(d);
    d->base.working = false;
    settle_scratch(d);
    if (!end_if_asked(d)) {
        hspz_conn_update(d->base.conn);
    }
    hspz_scheduler_pump(&service->scheduler);
}

/* The device is lost, with what the job had there: that is done again on another, or the job ends.
 */
static void
on_device_error(struct hspz_discover *d)
{
    struct hspz_conn *conn = d->base.conn;
    struct hspz_service *service = conn->service;
    const struct hspz_error why = d->err;
    const unsigned device = hspz_worker_device(d->base.worker);
    if (!hspz_device_lose(service, device, &why)) {
        finish(d);
        service->lost(service, device, &why);
        return;
    }
    service->devices[device].redone++;
    d->base.begun = d->ended = false;
    d->device = HSPZ_ANY_DEVICE;
    d->err = (struct hspz_error){0};
    if (!end_if_asked(d)) {
        hspz_conn_update(conn);
    }
}

/* All that the worker of one that was given up does not touch. */
static void
copy_own(struct hspz_discover *to, const struct hspz_discover *from)
{
    const size_t task = offsetof(struct hspz_discover, base.task);
    const size_t after = task + sizeof(from->base.task);
    memcpy(to, from, task);
    memcpy((char *)to + after, (const char *)from + after,
           offsetof(struct hspz_discover, claim) - after);
}

/* What another job goes on with for this one; the rest of it is a stray from here on. */
static void
hand_over(struct hspz_discover *d, struct hspz_discover *next)
{
    struct hspz_conn *conn = d->base.conn;
    struct hspz_buffer *rest = d->buffers->next;
    d->buffers->next = NULL;
    hspz_conn_job_give_parts(&d->base, &rest);
    conn->parts_held--;
    d->bytes = (struct hspz_job_bytes){0};
    settle_scratch(d);
    hspz_conn_job_end_turn(&d->base, &(struct hspz_turned){
                                         .ns = hspz_worker_step_ns(d->base.worker, uv_hrtime()),
                                         .parts = d->turned.parts,
                                     });
    copy_own(next, d);
    next->base.begun = false;
    next->scratch = (struct hspz_scratch_user){0};
    next->turned = (struct hspz_turned){0};
    next->buffers = NULL;
    next->device = HSPZ_ANY_DEVICE;
    if (d->mask != NULL) {
        hspz_named_filter_share(d->mask);
        next->mask_wait = (struct hspz_filter_wait){0};
        next->mask_locked = false;
    }
    hspz_conn_replace_job(conn, &d->base, &next->base);
    atomic_fetch_add(&d->bytes_of->uses, 1);
    d->digest = NULL;
    d->served = hspz_served_share(d->served);
    hspz_served_hold(d->served);
    conn->strays++;
}

static bool
give_up(struct hspz_task *task)
{
    struct hspz_discover *d = hspz_discover_of_task(task);
    struct hspz_conn *conn = d->base.conn;
    struct hspz_discover *next = calloc(1, sizeof(*next));
    int claim = HSPZ_CLAIM_ENGINE;
    if (next == NULL || !atomic_compare_exchange_strong(&d->claim, &claim, HSPZ_CLAIM_GIVEN_UP)) {
        free(next); /* no memory: the next look tries again */
        return false;
    }
    HSPZ_LOG(d->service->log, HSPZ_LOG_WARNING, "step given up", hspz_kv_uint("conn", conn->id),
             hspz_kv_uint("job", d->base.id),
             hspz_kv_uint("device", hspz_worker_device(d->base.worker)));
    hand_over(d, next);
    if (!end_if_asked(next)) {
        hspz_conn_update(conn);
    }
    return true;
}

/* The step is back: what it made is thrown away. */
static void
end_stray(struct hspz_discover *d)
{
    struct hspz_conn *conn = d->base.conn;
    struct hspz_service *service = d->service;
    const struct hspz_error why = d->stray;
    const unsigned device = hspz_worker_device(d->base.worker);
    hspz_conn_return_part(conn, d->buffers);
    hspz_discover_bytes_release(&d->bytes_of);
    hspz_served_unhold(d->served);
    hspz_served_release(&d->served);
    unlock_mask(d);
    let_mask_go(d);
    free(d);
    conn->strays--;
    hspz_conn_settle(conn);
    hspz_device_back(service, device, &why);
    service->changed(service);
    hspz_scheduler_pump(&service->scheduler);
}

static void
on_turn(struct hspz_event *event)
{
    struct hspz_discover *d = hspz_discover_of_task((struct hspz_task *)(void *)event);
    struct hspz_conn *conn = d->base.conn;
    struct hspz_service *service = conn->service;
    if (atomic_load(&d->claim) == HSPZ_CLAIM_GIVEN_UP) {
        end_stray(d);
        return;
    }
    hspz_conn_job_end_turn(&d->base, &d->turned);
    unlock_mask(d);
    while (d->buffers != NULL) {
        struct hspz_buffer *buffer = d->buffers;
        d->buffers = buffer->next;
        hspz_conn_give_part(conn, buffer);
    }
    if (!d->base.begun && d->job != NULL) {
        d->base.begun = true;
        HSPZ_LOG(service->log, HSPZ_LOG_DEBUG, "job begun", hspz_kv_uint("conn", conn->id),
                 hspz_kv_uint("job", d->base.id),
                 hspz_kv_uint("device", hspz_worker_device(d->base.worker)));
    }
    settle_scratch(d);
    if (d->ended && d->err.status == HSPZ_E_DEVICE_ERROR) {
        on_device_error(d);
    } else if (d->ended) {
        finish(d);
    } else if (hspz_discover_check_bytes(d, &d->bytes, &d->err) != HSPZ_OK) {
        end_now(d);
    } else if (!end_if_asked(d)) {
        hspz_conn_update(conn);
    }
    hspz_scheduler_pump(&service->scheduler);
}

/* Jobs at rest keep so much that `d` cannot go on, and none of them can be told when it will. */
static void
refuse_room(struct hspz_discover *d)
{
    const struct hspz_scratch *scratch = &hspz_discover_service(d)->scratch;
    hspz_error_set(&d->err, HSPZ_E_QUOTA_EXCEEDED,
                   "the job needs up to %" PRIu64
                   " bytes of scratch memory, and others keep %" PRIu64 " of %" PRIu64
                   " (job_memory)",
                   d->bytes.most, scratch->reserved - d->scratch.reserved, scratch->budget);
    (void)hspz_error_limit(&d->err, HSPZ_E_QUOTA_EXCEEDED, scratch->budget);
    /* Some of what was sent would come again. */
    d->err.has_retry = d->anchors + d->hsps == 0;
    d->err.retry_ms = hspz_pace_guess_ms(&hspz_discover_service(d)->pace, uv_hrtime());
}

/* Makes the scratch memory that `d` may come to need, parking others on its worker ahead of it.
 * False: not now; when d->base.lacking, not before others keep less; when d->err says so, never. */
static bool
make_room(struct hspz_discover *d)
{
    struct hspz_service *service = hspz_discover_service(d);
    struct hspz_scratch *scratch = &service->scratch;
    if (!d->base.begun) {
        /* What it needs is known once it is begun: until then it gets what is left. */
        d->scratch_limit = hspz_scratch_left(scratch) / service->worker_count;
        return hspz_scratch_reserve(scratch, &d->scratch, d->scratch_limit);
    }
    d->scratch_limit = d->bytes.most;
    while (!hspz_scratch_reserve(scratch, &d->scratch, d->bytes.most)) {
        struct hspz_scratch_user *user = hspz_scratch_victim(scratch, &d->scratch);
        if (user == NULL) {
            const bool moves = hspz_scratch_moves(scratch, &d->scratch);
            d->base.lacking = !moves && hspz_scratch_other_fits(scratch, &d->scratch);
            if (!moves && !d->base.lacking) {
                refuse_room(d);
            }
            return false;
        }
        struct hspz_discover *victim = of_scratch(user);
        HSPZ_REQUIRE(hspz_scratch_reserve(scratch, user, user->kept));
        service->stats.parks++;
        hspz_conn_job_submit(&victim->base, hspz_discover_run_park, on_parked, d->base.worker, 0);
    }
    return true;
}

/* False: somebody changes it. The job then has a place in the line, which it must take up or leave.
 */
static bool
may_lock_mask(struct hspz_discover *d)
{
    if (d->mask == NULL || hspz_named_filter_may_lock(d->mask, &d->mask_wait, false)) {
        return true;
    }
    d->base.lacking = true;
    return false;
}

static void
leave_mask_line(struct hspz_discover *d)
{
    if (d->mask != NULL) {
        hspz_named_filter_unwait(d->mask, &d->mask_wait);
    }
}

/* A batch that is made again must come to what it was. */
static enum hspz_status
lock_mask(struct hspz_discover *d)
{
    char shown[HSPZ_FILTER_SHOWN_BYTES];
    if (d->mask == NULL) {
        return HSPZ_OK;
    }
    if (d->mask_seen && d->mask->version != d->mask_version) {
        return hspz_error_set(&d->err, HSPZ_E_CANCELLED,
                              "filter \"%s\" was changed while it masked the query",
                              hspz_filter_ref_shown(&d->mask_ref, shown));
    }
    d->mask_seen = true;
    d->mask_version = d->mask->version;
    hspz_named_filter_lock(d->mask, &d->mask_wait, false);
    d->mask_locked = true;
    return HSPZ_OK;
}

/* Where its mask is, if that is one of the devices that may have the turn, and works. */
static unsigned
wanted_device(const struct hspz_discover *d, const bool *among)
{
    const unsigned device = d->mask != NULL ? d->mask->device : HSPZ_ANY_DEVICE;
    const bool may = device != HSPZ_ANY_DEVICE && (among == NULL || among[device]) &&
                     hspz_discover_service(d)->devices[device].state == HSPZ_DEVICE_READY;
    return may ? device : HSPZ_ANY_DEVICE;
}

/* Whether a turn would be of use, part buffers apart. */
static bool
is_ready(const struct hspz_discover *d)
{
    return d->base.held && !d->base.working && !d->base.lacking && hspz_served_settled(d->served);
}

static enum hspz_give
give_turn(struct hspz_conn_job *job, const struct hspz_turn *turn)
{
    struct hspz_discover *d = of_job(job);
    if (!is_ready(d)) {
        return HSPZ_GAVE_NONE;
    }
    if (hspz_discover_check(d) != HSPZ_OK) {
        end_now(d);
        return HSPZ_GAVE_NONE;
    }
    if (!may_lock_mask(d)) {
        return HSPZ_GAVE_NONE;
    }
    const bool *const among = hspz_served_holders(d->served, d->block);
    if (!hspz_conn_job_choose_worker(&d->base, wanted_device(d, among), among)) {
        leave_mask_line(d);
        hspz_discover_fail(d, HSPZ_E_DEVICE_ERROR);
        end_now(d);
        return HSPZ_GAVE_NONE;
    }
    const enum hspz_status status = hspz_conn_job_take_parts(&d->base, turn->parts, &d->buffers);
    if (d->buffers == NULL) {
        leave_mask_line(d);
        if (status != HSPZ_OK) {
            hspz_discover_fail(d, status);
            end_now(d);
        }
        return HSPZ_GAVE_NONE;
    }
    if (!make_room(d)) {
        hspz_conn_job_give_parts(&d->base, &d->buffers);
        leave_mask_line(d);
        if (d->err.status != HSPZ_OK) {
            end_now(d);
            return HSPZ_GAVE_NONE;
        }
        return d->base.lacking ? HSPZ_GAVE_NONE : HSPZ_GIVE_WAIT;
    }
    if (lock_mask(d) != HSPZ_OK) {
        hspz_conn_job_give_parts(&d->base, &d->buffers);
        end_now(d);
        return HSPZ_GAVE_NONE;
    }
    d->turned = (struct hspz_turned){0};
    hspz_conn_job_submit_turn(&d->base, hspz_discover_run_turn, on_turn, turn);
    return HSPZ_GAVE;
}

static void
lead(struct hspz_conn_job *job)
{
    struct hspz_discover *d = of_job(job);
    hspz_served_hold(d->served);
    if (hspz_discover_find_mask(d) != HSPZ_OK) {
        finish(d);
    }
}

static bool
ready(struct hspz_conn_job *job, bool credit)
{
    struct hspz_discover *d = of_job(job);
    const bool stalls = !credit && !d->scratch.stalled && d->scratch.kept > 0;
    d->scratch.stalled = !credit;
    if (stalls) {
        hspz_conn_job_wake(hspz_discover_service(d));
    }
    return credit && is_ready(d);
}

static void
end(struct hspz_conn_job *job, enum hspz_status status)
{
    struct hspz_discover *d = of_job(job);
    hspz_discover_fail(d, status);
    end_now(d);
}

static struct hspz_usage *
usage(const struct hspz_conn_job *job)
{
    const struct hspz_discover *d =
        (const struct hspz_discover *)(const void *)((const char *)job -
                                                     offsetof(struct hspz_discover, base));
    return hspz_served_usage(d->served);
}

const struct hspz_conn_job_ops hspz_discover_ops = {
    .lead = lead,
    .ready = ready,
    .give_turn = give_turn,
    .give_up = give_up,
    .end = end,
    .usage = usage,
};
