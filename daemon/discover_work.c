/* What of a job runs on the worker. */
#include "daemon/discover_p.h"

#include "protocol/columns.h"

#include <stdlib.h>

static void
end_engine_job(struct hspz_discover *d)
{
    const struct hspz_engine_ops *ops = hspz_discover_service(d)->ops;
    if (d->job != NULL) {
        ops->job_totals(d->job, &d->totals);
        ops->job_end(&d->job);
    }
    if (d->err.status != HSPZ_E_DEVICE_ERROR) {
        /* The request may be large, and freeing it slow: not on the loop. Its length stays for the
         * refund. */
        hspz_discover_bytes_release(&d->bytes_of);
    }
    d->bytes = (struct hspz_job_bytes){0};
    d->ended = true;
}

void
hspz_discover_fail(struct hspz_discover *d, enum hspz_status status)
{
    hspz_conn_job_fail(&d->base, status, &d->err);
}

/* The digest is of packed records, in whatever form they are sent. */
static void
add_to_digest(XXH64_state_t *digest, const struct hspz_part_head *head,
              const struct hspz_part *part)
{
    if (head->encoding == HSPZ_ENCODING_PACKED) {
        XXH64_update(digest, part->anchors, part->bytes);
        return;
    }
    const uint8_t *const payload = (const uint8_t *)part->anchors;
    const size_t refs_len = part->count * HSPZ_COLUMN_REF_BYTES;
    const struct hspz_columns columns = {
        .runs = payload,
        .run_count = (part->bytes - refs_len) / HSPZ_RUN_BYTES,
        .refs = payload + part->bytes - refs_len,
        .count = part->count,
    };
    struct hspz_columns_place place = {0};
    uint8_t packed[512 * HSPZ_ANCHOR_BYTES];
    size_t n;
    while ((n = hspz_columns_read(&columns, &place, packed, 512)) > 0) {
        XXH64_update(digest, packed, n * HSPZ_ANCHOR_BYTES);
    }
}

static void
write_head(struct hspz_writer *w, const struct hspz_buffer *buffer)
{
    struct hspz_part_head head = buffer->head.part;
    head.placed = buffer->ring != NULL;
    head.offset = buffer->offset;
    hspz_part_encode(w, &head, buffer->bytes);
}

static void
look_at_block(struct hspz_discover *d)
{
    const size_t block = hspz_discover_service(d)->ops->job_block(d->job);
    d->block = block != HSPZ_NO_BLOCK ? block : d->block;
}

/* One step into the first buffer of the turn. Returns false when the job ended. */
static bool
step(struct hspz_discover *d, struct hspz_worker *worker)
{
    struct hspz_buffer *buffer = d->buffers;
    struct hspz_part part = {
        .anchors = buffer->anchors,
        .capacity = hspz_buffers_part_bytes(hspz_discover_service(d)->buffers) / HSPZ_ANCHOR_BYTES,
    };
    struct hspz_error err = {0};
    int claim = HSPZ_CLAIM_ENGINE;
    d->turned.steps++;
    atomic_store(&d->claim, claim);
    hspz_worker_step_begin(worker);
    const enum hspz_status status =
        hspz_discover_service(d)->ops->job_step(hspz_worker_lane(worker), d->job, &part, &err);
    hspz_worker_step_end(worker);
    if (!atomic_compare_exchange_strong(&d->claim, &claim, HSPZ_CLAIM_WORKER)) {
        d->stray = err;
        d->stray.status = status;
        return false;
    }
    if (status != HSPZ_OK) {
        d->err = err;
        d->err.status = status;
        return false;
    }
    if (hspz_discover_service(d)->device_count > 1) {
        hspz_discover_service(d)->ops->job_place(d->job, &d->place);
        look_at_block(d);
    }
    if (part.kind == HSPZ_STEP_ANCHORS || part.kind == HSPZ_STEP_HSPS) {
        const bool hsps = part.kind == HSPZ_STEP_HSPS;
        struct hspz_stats *stats = &hspz_discover_service(d)->stats;
        d->buffers = buffer->next;
        buffer->next = NULL;
        buffer->count = part.count;
        buffer->bytes = part.bytes;
        buffer->head.part = (struct hspz_part_head){
            .records = hsps ? HSPZ_RECORDS_HSPS : HSPZ_RECORDS_ANCHORS,
            .encoding = d->spec.encoding,
            .job = d->base.id,
            .has_interval = d->spec.interval != 0,
            .id = part.id,
        };
        buffer->write_head = write_head;
        buffer->sent = hsps ? &stats->hsps : &stats->anchors;
        buffer->holder = d;
        buffer->event.fire = hspz_discover_on_part;
        *(hsps ? &d->hsps : &d->anchors) += part.count;
        d->payload_bytes += part.bytes;
        if (d->digest != NULL) {
            add_to_digest(d->digest, &buffer->head.part, &part);
        }
        d->turned.parts++;
        hspz_worker_post(worker, &buffer->event);
    }
    return part.kind != HSPZ_STEP_DONE;
}

/* What the job made on another device is made again on this one. */
static void
move(struct hspz_discover *d, unsigned device)
{
    if (d->job != NULL && d->device != HSPZ_ANY_DEVICE && d->device != device) {
        hspz_discover_service(d)->ops->job_park(d->job);
    }
    d->device = device;
}

/* Whether the worker's device holds what the next step is about. */
static bool
is_here(const struct hspz_discover *d, const struct hspz_worker *worker)
{
    const bool *const among = hspz_served_holders(d->served, d->block);
    return among == NULL || among[hspz_worker_device(worker)];
}

void
hspz_discover_run_turn(struct hspz_task *task, struct hspz_worker *worker)
{
    struct hspz_discover *d = hspz_discover_of_task(task);
    const struct hspz_engine_ops *ops = hspz_discover_service(d)->ops;
    const uint64_t start = uv_hrtime();
    bool going = !hspz_conn_job_must_stop(&d->base, &d->err);
    d->turned = (struct hspz_turned){0};
    if (d->first_step_ns == 0) {
        d->first_step_ns = start;
    }
    if (going && d->job == NULL) {
        struct hspz_error err = {0};
        struct hspz_job_spec spec = d->spec;
        spec.from = &d->place;
        const enum hspz_status status = ops->job_begin(
            hspz_discover_service(d)->engine, hspz_served_ref(d->served), &spec, &d->job, &err);
        going = status == HSPZ_OK;
        if (!going) {
            d->err = err;
            d->err.status = status;
        } else {
            ops->job_bytes(d->job, &d->bytes);
            look_at_block(d);
        }
    }
    move(d, hspz_worker_device(worker));
    bool again = going && is_here(d, worker) && d->bytes.most <= d->scratch_limit;
    while (again) {
        going = step(d, worker) && !hspz_conn_job_must_stop(&d->base, &d->err);
        if (going) {
            ops->job_bytes(d->job, &d->bytes);
        }
        again = going && is_here(d, worker) && d->buffers != NULL &&
                d->bytes.most <= d->scratch_limit && !hspz_conn_job_turn_over(worker, start);
    }
    if (atomic_load(&d->claim) == HSPZ_CLAIM_GIVEN_UP) {
        ops->job_end(&d->job);
        return;
    }
    if (!going) {
        end_engine_job(d);
    }
    d->turned.ns = uv_hrtime() - start;
    d->engine_ns += d->turned.ns;
}

void
hspz_discover_run_park(struct hspz_task *task, struct hspz_worker *worker)
{
    (void)worker;
    struct hspz_discover *d = hspz_discover_of_task(task);
    hspz_discover_service(d)->ops->job_park(d->job);
    hspz_discover_service(d)->ops->job_bytes(d->job, &d->bytes);
}

void
hspz_discover_run_end(struct hspz_task *task, struct hspz_worker *worker)
{
    (void)worker;
    end_engine_job(hspz_discover_of_task(task));
}
