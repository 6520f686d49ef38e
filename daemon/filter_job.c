#include "daemon/filter_job_p.h"

#include "daemon/access.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A file's content beside the filter that is made of it. */
#define IMAGE_SPARE_BYTES UINT64_C(65536)

struct hspz_filter_job *
hspz_filter_job_of(struct hspz_conn_job *job)
{
    return (struct hspz_filter_job *)(void *)((char *)job - offsetof(struct hspz_filter_job, base));
}

struct hspz_service *
hspz_filter_job_service(const struct hspz_filter_job *j)
{
    return j->base.conn->service;
}

void
hspz_filter_job_destroy(struct hspz_filter_job *j)
{
    free(j->frame.bytes);
    free(j->input);
    free(j->path);
    free(j->folder);
    free(j);
}

static bool
job_writes(const struct hspz_filter_job *j)
{
    const enum hspz_method method = j->base.method;
    return method == HSPZ_METHOD_FILTER_MERGE ||
           (hspz_filter_takes_keys(method) && method != HSPZ_METHOD_FILTER_QUERY &&
            method != HSPZ_METHOD_FILTER_COUNT);
}

/* What goes into part buffers. */
static bool
job_answers(const struct hspz_filter_job *j)
{
    return j->base.method == HSPZ_METHOD_FILTER_ENUMERATE ||
           (hspz_filter_takes_keys(j->base.method) && j->keys.answer != HSPZ_ANSWER_NONE);
}

/* Changes a filter that needs more memory the more it has. */
static bool
job_grows(const struct hspz_filter_job *j)
{
    return hspz_filter_takes_keys(j->base.method) && job_writes(j) && j->filter != NULL &&
           j->filter->ops->room != NULL;
}

static bool
is_making(const struct hspz_filter_job *j)
{
    return j->base.method == HSPZ_METHOD_FILTER_CREATE || j->base.method == HSPZ_METHOD_FILTER_LOAD;
}

static bool
is_aside(const struct hspz_filter_job *j)
{
    return hspz_filter_takes_keys(j->base.method) ? j->pace.aside
                                                  : j->base.method != HSPZ_METHOD_FILTER_STATS;
}

/* ---- its end ---- */

static void
log_end(const struct hspz_filter_job *j, uint64_t now_ns)
{
    const enum hspz_status status = j->err.status;
    HSPZ_LOG(hspz_filter_job_service(j)->log, HSPZ_LOG_INFO,
             status == HSPZ_OK ? "filter job done" : "filter job ended",
             hspz_kv_uint("conn", j->base.conn->id), hspz_kv_uint("job", j->base.id),
             hspz_kv("tenant", j->base.conn->tenant->settings.name),
             hspz_kv("method", hspz_method_name(j->base.method)), hspz_kv("filter", j->ref.name),
             hspz_kv_uint("keys", j->done), hspz_kv_uint("yes", j->yes),
             hspz_kv_uint("ms", (now_ns - j->base.arrived_ns) / 1000000),
             hspz_kv_uint("engine_ms", j->engine_ns / 1000000),
             hspz_kv("status", hspz_status_name(status)),
             hspz_kv("why", status == HSPZ_OK ? "" : j->err.text));
}

static void
encode_info(const struct hspz_filter_job *j, struct hspz_writer *w)
{
    char shown[HSPZ_FILTER_SHOWN_BYTES];
    hspz_filter_ref_shown(&j->ref, shown);
    struct hspz_filter_info info = {.filter = {shown, strlen(shown)}, .kind = {"", 0}};
    if (j->filter != NULL) {
        const struct hspz_filter_plan *plan = j->filter->ops->plan(j->filter->filter);
        const struct hspz_filter_spec *s = &plan->spec;
        const char *const kind = hspz_filter_kind_name(s->kind);
        info.kind = (struct hspz_text){kind, strlen(kind)};
        info.shared = j->filter->shared;
        info.capacity = s->capacity;
        info.slots = s->slots;
        info.slot_bits = s->slot_bits;
        info.block_slots = s->block_slots;
        info.hashes = s->hashes;
        info.value_bits = s->value_bits;
        info.seed = s->seed;
        info.k = s->k;
        info.canonical = s->canonical;
        info.parts = s->parts;
        info.full_slots = plan->full_slots;
        info.bytes = j->filter->ops->room != NULL ? j->stats.bytes : plan->bytes;
        info.expected_rate = plan->expected_rate;
        info.entries = j->stats.entries;
        info.total = j->stats.total;
        info.used = j->stats.used;
        info.load = j->stats.load;
        info.rate = j->stats.rate;
        info.filter_full = j->full;
    }
    hspz_filter_info_encode(w, j->base.id, &info);
}

static void
reply_done(struct hspz_filter_job *j, uint64_t now_ns)
{
    const uint64_t first_ns = j->first_step_ns != 0 ? j->first_step_ns : now_ns;
    const struct hspz_filter_job_result result = {
        .keys = j->done,
        .yes = j->yes,
        .filter_full = j->full,
        .timings = {.queued_ns = first_ns - j->base.arrived_ns,
                    .engine_ns = j->engine_ns,
                    .total_ns = now_ns - j->base.arrived_ns},
    };
    struct hspz_writer w;
    hspz_writer_init(&w);
    if (hspz_filter_takes_keys(j->base.method)) {
        hspz_filter_keys_result_encode(&w, j->base.id, &result);
    } else if (j->base.method == HSPZ_METHOD_FILTER_ENUMERATE) {
        hspz_filter_enumerate_result_encode(&w, j->base.id, &result);
    } else {
        encode_info(j, &w);
    }
    hspz_conn_reply(j->base.conn, &w);
}

static void
count_end(const struct hspz_filter_job *j, uint64_t now_ns)
{
    struct hspz_service *service = hspz_filter_job_service(j);
    const uint64_t first_ns = j->first_step_ns != 0 ? j->first_step_ns : now_ns;
    const struct hspz_used used = {
        .status = j->err.status,
        .keys = hspz_filter_takes_keys(j->base.method) ? j->done : 0,
        .bytes_in = j->frame.len,
        .bytes_out = j->payload_bytes,
        .latency_ns = now_ns - j->base.arrived_ns,
        .queued_ns = first_ns - j->base.arrived_ns,
    };
    service->stats.keys += used.keys;
    hspz_conn_job_count(&j->base, &used, now_ns);
}

static void
let_go(struct hspz_filter_job *j)
{
    if (j->filter != NULL) {
        hspz_named_filter_unwait(j->filter, &j->wait);
    }
    if (j->from != NULL) {
        hspz_named_filter_unwait(j->from, &j->from_wait);
    }
    if (j->filter != NULL && is_making(j) && j->err.status != HSPZ_OK) {
        hspz_filters_unlist(j->filter);
    }
    hspz_named_filter_release(&j->filter);
    hspz_named_filter_release(&j->from);
}

/* The one end of every job. The job is gone afterwards, and a closing connection may be. */
static void
finish(struct hspz_filter_job *j)
{
    struct hspz_conn *conn = j->base.conn;
    struct hspz_service *service = conn->service;
    const uint64_t now_ns = uv_hrtime();
    HSPZ_REQUIRE(!j->base.working && !j->locked && j->buffers == NULL && j->borrowed_bytes == 0);
    hspz_aside_remove(hspz_filters_aside(service->filters), &j->piece);
    hspz_conn_remove_job(conn, &j->base);
    count_end(j, now_ns);
    log_end(j, now_ns);
    hspz_conn_refund(conn, j->base.charged_bytes);
    if (!hspz_conn_state_serves(conn->state)) {
        /* Nobody is left to be answered. */
    } else if (j->err.status == HSPZ_OK) {
        reply_done(j, now_ns);
    } else {
        hspz_conn_reply_error(conn, j->base.id, &j->err);
    }
    if (j->base.worker != NULL) {
        hspz_worker_leave(j->base.worker);
    }
    let_go(j);
    hspz_filter_job_destroy(j);
    hspz_conn_update(conn);
    hspz_conn_settle(conn);
    service->changed(service);
}

static void
end(struct hspz_conn_job *job, enum hspz_status status)
{
    struct hspz_filter_job *j = hspz_filter_job_of(job);
    hspz_conn_job_fail(job, status, &j->err);
    finish(j);
}

/* ---- its filters ---- */

static enum hspz_status
find_drop(struct hspz_filter_job *j)
{
    struct hspz_conn *conn = j->base.conn;
    const bool any = hspz_access_role(conn) == HSPZ_ROLE_OPERATOR;
    const enum hspz_status status =
        hspz_filters_acquire(conn->service->filters, &j->ref,
                             any ? HSPZ_FILTER_DROPS_ANY : HSPZ_FILTER_DROPS, &j->filter, &j->err);
    if (status == HSPZ_OK) {
        hspz_filters_unlist(j->filter);
    } else if (status == HSPZ_E_UNKNOWN_FILTER && j->saved && (any || j->ref.own)) {
        j->err = (struct hspz_error){0};
        return HSPZ_OK;
    }
    return status;
}

static enum hspz_status
check_alike(struct hspz_filter_job *j)
{
    const unsigned parts = j->filter->ops->plan(j->filter->filter)->spec.parts;
    const unsigned from_parts = j->from->ops->plan(j->from->filter)->spec.parts;
    if (parts != from_parts) {
        return hspz_error_set(&j->err, HSPZ_E_BAD_REQUEST,
                              "the two filters are in %u and in %u parts", parts, from_parts);
    }
    return j->filter->ops == j->from->ops
               ? HSPZ_OK
               : hspz_error_set(&j->err, HSPZ_E_BAD_REQUEST, "the two filters are of two kinds");
}

static enum hspz_status
find_merge(struct hspz_filter_job *j)
{
    struct hspz_filters *filters = hspz_filter_job_service(j)->filters;
    enum hspz_status status =
        hspz_filters_acquire(filters, &j->ref, HSPZ_FILTER_WRITES, &j->filter, &j->err);
    if (status == HSPZ_OK) {
        status = hspz_filters_acquire(filters, &j->from_ref, HSPZ_FILTER_READS, &j->from, &j->err);
    }
    if (status == HSPZ_OK && j->filter == j->from) {
        status = hspz_error_set(&j->err, HSPZ_E_BAD_REQUEST,
                                "\"filter\" and \"from\" are the same filter");
    }
    return status == HSPZ_OK ? check_alike(j) : status;
}

static enum hspz_status
find_filters(struct hspz_filter_job *j)
{
    struct hspz_conn *conn = j->base.conn;
    struct hspz_filters *filters = conn->service->filters;
    const bool writes = job_writes(j);
    switch (j->base.method) {
    case HSPZ_METHOD_FILTER_CREATE:
    case HSPZ_METHOD_FILTER_LOAD:
        return hspz_filters_reserve(filters, &j->ref, conn->tenant, j->shared, &j->filter, &j->err);
    case HSPZ_METHOD_FILTER_DROP:
        return find_drop(j);
    case HSPZ_METHOD_FILTER_MERGE:
        return find_merge(j);
    default:
        break;
    }
    const enum hspz_status status = hspz_filters_acquire(
        filters, &j->ref, writes ? HSPZ_FILTER_WRITES : HSPZ_FILTER_READS, &j->filter, &j->err);
    if (status == HSPZ_OK && hspz_filter_takes_keys(j->base.method)) {
        const struct hspz_filter_plan *plan = j->filter->ops->plan(j->filter->filter);
        j->pace = hspz_named_filter_pace(j->filter, plan, writes);
        if (j->keys.counts.bytes != NULL && plan->spec.kind != HSPZ_FILTER_GQF &&
            plan->spec.kind != HSPZ_FILTER_COUNTER) {
            return hspz_error_set(&j->err, HSPZ_E_BAD_REQUEST,
                                  "\"counts\" are for a gqf or a counter only");
        }
    }
    return status;
}

static void
lead(struct hspz_conn_job *job)
{
    struct hspz_filter_job *j = hspz_filter_job_of(job);
    if (find_filters(j) != HSPZ_OK) {
        finish(j);
    }
}

/* ---- its pieces ---- */

static bool
lock(struct hspz_filter_job *j)
{
    const bool writes = job_writes(j);
    if (j->filter == NULL || is_making(j)) {
        return true;
    }
    if (!hspz_named_filter_may_lock(j->filter, &j->wait, writes) ||
        (j->from != NULL && !hspz_named_filter_may_lock(j->from, &j->from_wait, false))) {
        j->base.lacking = true;
        return false;
    }
    hspz_named_filter_lock(j->filter, &j->wait, writes);
    if (j->from != NULL) {
        hspz_named_filter_lock(j->from, &j->from_wait, false);
    }
    j->locked = true;
    return true;
}

static void
unlock(struct hspz_filter_job *j)
{
    if (j->locked) {
        j->locked = false;
        hspz_named_filter_unlock(j->filter, job_writes(j));
        if (j->from != NULL) {
            hspz_named_filter_unlock(j->from, false);
        }
    }
}

/* A part buffer if it is to have one, then the lock. False: not now; or never, and *ended. */
static bool
take(struct hspz_filter_job *j, bool *ended)
{
    *ended = false;
    if (job_answers(j)) {
        const enum hspz_status status = hspz_conn_job_take_parts(&j->base, 1, &j->buffers);
        if (j->buffers == NULL) {
            if (j->filter != NULL) {
                hspz_named_filter_unwait(j->filter, &j->wait);
            }
            *ended = status != HSPZ_OK;
            if (*ended) {
                hspz_conn_job_fail(&j->base, status, &j->err);
            }
            return false;
        }
    }
    if (!lock(j)) {
        hspz_conn_job_give_parts(&j->base, &j->buffers);
        return false;
    }
    return true;
}

/* What a file's content takes while it is read or written, and what is moved between devices. */
static enum hspz_status
borrow(struct hspz_filter_job *j)
{
    uint64_t bytes = 0;
    if (job_grows(j)) {
        const uint64_t left = j->total - j->done;
        const uint64_t keys = left < j->pace.keys ? left : j->pace.keys;
        j->borrowed_bytes = hspz_filters_borrow_some(j->filter, j->base.conn->tenant,
                                                     j->filter->ops->room(j->filter->filter, keys));
        j->memory_bytes = j->filter->bytes + j->borrowed_bytes;
        return HSPZ_OK;
    }
    if (j->base.method == HSPZ_METHOD_FILTER_SAVE) {
        bytes = hspz_filter_job_image_bytes(j) + IMAGE_SPARE_BYTES;
    } else if (j->base.method == HSPZ_METHOD_FILTER_MERGE && j->filter->ops->room != NULL) {
        struct hspz_filter_stats stats;
        j->from->ops->stats(j->from->filter, &stats);
        bytes = j->filter->ops->room(j->filter->filter, stats.entries);
    } else if (j->base.method == HSPZ_METHOD_FILTER_LOAD && j->stage == HSPZ_FILTER_MAKES) {
        bytes = j->plan.bytes + IMAGE_SPARE_BYTES;
    } else if (j->from != NULL) {
        const struct hspz_filter_plan *plan = j->filter->ops->plan(j->filter->filter);
        const uint64_t from_bytes = j->from->ops->plan(j->from->filter)->bytes;
        bytes = hspz_filter_job_moves(j) ? 2 * from_bytes + IMAGE_SPARE_BYTES : 0;
        bytes += plan->spec.parts > 1 ? plan->bytes : 0; /* its parts go on in copies */
    }
    if (bytes == 0) {
        return HSPZ_OK;
    }
    const enum hspz_status status =
        hspz_filters_borrow(hspz_filter_job_service(j)->filters, bytes, &j->err);
    j->borrowed_bytes = status == HSPZ_OK ? bytes : 0;
    return status;
}

/* An enumeration goes on in the filter that it began in. */
static enum hspz_status
check_unchanged(struct hspz_filter_job *j)
{
    if (j->base.method != HSPZ_METHOD_FILTER_ENUMERATE) {
        return HSPZ_OK;
    }
    if (j->base.begun && j->filter->version != j->seen_version) {
        return hspz_error_set(&j->err, HSPZ_E_CANCELLED,
                              "filter \"%s\" was changed while it was enumerated", j->ref.name);
    }
    j->seen_version = j->filter->version;
    return HSPZ_OK;
}

/* What a piece has made goes out; what it did not use goes back. */
static void
send_part(struct hspz_filter_job *j)
{
    struct hspz_buffer *buffer = j->buffers;
    if (buffer == NULL) {
        return;
    }
    if (j->part_count == 0) {
        hspz_conn_job_give_parts(&j->base, &j->buffers);
        return;
    }
    j->buffers = NULL;
    j->payload_bytes += buffer->bytes;
    hspz_conn_send_part(j->base.conn, buffer);
}

/* Of create and load: the plan is there, and the filter is to be paid for. */
static enum hspz_status
go_on(struct hspz_filter_job *j)
{
    j->ended = false;
    j->stage = HSPZ_FILTER_MAKES;
    hspz_filters_place(j->filter, &j->plan);
    j->plan.threads = (unsigned)hspz_filter_job_service(j)->config->threads;
    return hspz_filters_charge(j->filter, j->base.conn->tenant,
                               hspz_named_filter_cost(j->filter, &j->plan), &j->err);
}

/* After a piece, which nobody has any more: its end, or what is next. */
static void
after(struct hspz_filter_job *j)
{
    struct hspz_conn *conn = j->base.conn;
    struct hspz_service *service = conn->service;
    const int stop = atomic_load(&j->base.stop);
    const bool lost = j->err.status == HSPZ_E_DEVICE_ERROR;
    const struct hspz_error why = j->err;
    const unsigned device = j->filter != NULL ? j->filter->device : HSPZ_ANY_DEVICE;
    j->base.begun = true;
    if (j->ended && j->err.status == HSPZ_OK && is_making(j)) {
        if (j->stage == HSPZ_FILTER_PLANS) {
            j->ended = go_on(j) != HSPZ_OK;
        } else {
            hspz_filters_list(j->filter);
        }
    }
    if (!j->ended && stop != HSPZ_OK) {
        hspz_conn_job_fail(&j->base, (enum hspz_status)stop, &j->err);
        j->ended = true;
    }
    if (j->ended) {
        finish(j);
    } else {
        hspz_conn_update(conn);
    }
    if (lost) {
        service->lost(service, device, &why);
    }
    hspz_scheduler_pump(&service->scheduler);
}

static bool
begin_piece(struct hspz_aside_piece *piece)
{
    struct hspz_filter_job *j = piece->owner;
    bool ended;
    if (!take(j, &ended)) {
        if (ended) {
            finish(j);
        }
        return false;
    }
    if (check_unchanged(j) != HSPZ_OK || borrow(j) != HSPZ_OK) {
        hspz_conn_job_give_parts(&j->base, &j->buffers);
        unlock(j);
        finish(j);
        return false;
    }
    j->base.working = true;
    return true;
}

static void
on_piece(struct hspz_aside_piece *piece)
{
    struct hspz_filter_job *j = piece->owner;
    struct hspz_service *service = hspz_filter_job_service(j);
    j->base.conn->tenant->usage.device_ns += j->turn_ns;
    hspz_filters_return(service->filters, j->borrowed_bytes);
    j->borrowed_bytes = 0;
    const bool writes = job_writes(j) || is_making(j);
    if (writes && j->stats.bytes != 0 && j->filter->ops->room != NULL) {
        hspz_named_filter_settle(j->filter, j->stats.bytes);
    }
    send_part(j);
    j->base.working = false;
    unlock(j);
    after(j);
}

static void
on_turn(struct hspz_event *event)
{
    struct hspz_filter_job *j =
        hspz_filter_job_of(hspz_conn_job_of_task((struct hspz_task *)(void *)event));
    send_part(j);
    hspz_conn_job_end_turn(&j->base, &(struct hspz_turned){.ns = j->turn_ns});
    unlock(j);
    after(j);
}

static enum hspz_give
give_turn(struct hspz_conn_job *job, const struct hspz_turn *turn)
{
    struct hspz_filter_job *j = hspz_filter_job_of(job);
    bool ended;
    if (!job->held || job->working || job->lacking || is_aside(j)) {
        return HSPZ_GAVE_NONE;
    }
    if (!hspz_conn_job_choose_worker(job, j->filter->device, NULL)) {
        hspz_conn_job_fail(job, HSPZ_E_DEVICE_ERROR, &j->err);
        finish(j);
        return HSPZ_GAVE_NONE;
    }
    if (!take(j, &ended)) {
        if (ended) {
            finish(j);
        }
        return HSPZ_GAVE_NONE;
    }
    hspz_conn_job_submit_turn(job, hspz_filter_job_run_turn, on_turn, turn);
    return HSPZ_GAVE;
}

static bool
ready(struct hspz_conn_job *job, bool credit)
{
    struct hspz_filter_job *j = hspz_filter_job_of(job);
    if (!job->held || job->working || job->lacking) {
        return false;
    }
    if (!credit && job_answers(j)) {
        return false;
    }
    if (!is_aside(j)) {
        return true;
    }
    j->piece.begin = begin_piece;
    j->piece.run = hspz_filter_job_run_piece;
    j->piece.done = on_piece;
    hspz_aside_queue(hspz_filters_aside(hspz_filter_job_service(j)->filters), &j->piece);
    return false;
}

const struct hspz_conn_job_ops hspz_filter_job_ops = {
    .lead = lead,
    .ready = ready,
    .give_turn = give_turn,
    .end = end,
};
