#include "client/job.h"
#include "client/order.h"
#include "client/shared.h"
#include "protocol/columns.h"

#include <stdlib.h>
#include <string.h>

/* A discover call: its request goes out, parts come in (take_part, at which the call pauses), then
 * the final record. When the caller stops it, `cancel` is sent and the stream read to its final
 * record, so that the connection can be used again. */

struct hspz_discovery {
    struct hspz_client *client;
    bool digest, columns; /* as asked for */
    struct hspz_order *order;
    struct hspz_writer request;
    struct hspz_call call;
    struct hspz_await await;
    bool awaiting;           /* the response has not come */
    struct hspz_reply reply; /* the part's message, or the response */
    uint8_t *packed;         /* anchors that came by columns */
    size_t packed_len;
    struct hspz_part_head head; /* of the part that came last; */
    struct hspz_part_view part;
    bool has_part; /* and there is one: ahead of the caller, */
    bool ahead;    /* or what came first altogether is */
    bool held;     /* its place in shared memory is to be given back */
    struct hspz_discover_summary summary;
};

/* The anchors of columns, packed. */
static enum hspz_status
unpack(struct hspz_discovery *d, const struct hspz_columns *columns, struct hspz_error *err)
{
    const size_t len = columns->count * HSPZ_ANCHOR_BYTES;
    if (len > d->packed_len) {
        free(d->packed);
        d->packed_len = 0;
        d->packed = malloc(len);
        if (d->packed == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a part of %zu anchors",
                                  columns->count);
        }
        d->packed_len = len;
    }
    struct hspz_columns_place place = {0};
    if (hspz_columns_read(columns, &place, d->packed, columns->count) < columns->count) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "a message of anchors has changed meanwhile");
    }
    d->part.records = d->packed;
    return HSPZ_OK;
}

/* The part as the caller wants it. */
static enum hspz_status
view_part(struct hspz_discovery *d, struct hspz_span payload, struct hspz_error *err)
{
    d->part = (struct hspz_part_view){.id = d->head.id, .records = payload.bytes};
    if (d->head.encoding == HSPZ_ENCODING_PACKED) {
        const size_t record = hspz_record_bytes(d->head.records);
        d->part.count = payload.len / record;
        return payload.len % record == 0
                   ? HSPZ_OK
                   : hspz_error_set(err, HSPZ_E_BAD_PEER,
                                    "a part of %zu bytes is not whole records", payload.len);
    }
    struct hspz_columns columns;
    struct hspz_error why = {0};
    if (hspz_columns_open(payload, d->head.id.hit_end - d->head.id.hit_begin, &columns, &why) !=
        HSPZ_OK) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "a message of anchors is not valid: %s",
                              why.text);
    }
    d->part.count = columns.count;
    if (d->columns) {
        d->part.columns = columns;
        return HSPZ_OK;
    }
    return unpack(d, &columns, err);
}

static enum hspz_status
decode_part(const struct hspz_discovery *d, const struct hspz_message *message, bool *is_part,
            struct hspz_part_head *head, struct hspz_span *payload, struct hspz_error *err)
{
    enum hspz_records records;
    *is_part = hspz_part_method(message->method_name, &records);
    if (!*is_part) {
        return HSPZ_OK; /* of a later protocol */
    }
    const char *const noun = records == HSPZ_RECORDS_HSPS ? "hsps" : "anchors";
    struct hspz_error why = {0};
    if (hspz_part_decode(message->params, records, head, payload, &why) != HSPZ_OK) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "a message of %s is not valid: %s", noun,
                              why.text);
    }
    if (head->job != d->call.id) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "%s came of job %u, not of job %u", noun,
                              head->job, d->call.id);
    }
    return head->placed ? hspz_shared_find(d->client->shared, head->offset, payload, err) : HSPZ_OK;
}

static enum hspz_status
take_part(void *user, const struct hspz_message *message, struct hspz_error *err)
{
    struct hspz_discovery *d = user;
    bool is_part = false;
    struct hspz_span payload = {0};
    enum hspz_status status = decode_part(d, message, &is_part, &d->head, &payload, err);
    if (status != HSPZ_OK || !is_part) {
        return status;
    }
    d->held = d->head.placed;
    status = view_part(d, payload, err);
    if (status == HSPZ_OK) {
        status = hspz_order_part(d->order, &d->head, &d->part, err);
    }
    d->has_part = d->call.pause = status == HSPZ_OK;
    return status;
}

/* After a stop: only what it holds is of interest. */
static enum hspz_status
drop_part(void *user, const struct hspz_message *message, struct hspz_error *err)
{
    struct hspz_discovery *d = user;
    struct hspz_part_head head = {0};
    struct hspz_span payload = {0};
    bool is_part = false;
    const enum hspz_status status = decode_part(d, message, &is_part, &head, &payload, err);
    return status == HSPZ_OK && is_part && head.placed
               ? hspz_shared_free(d->client, head.offset, err)
               : status;
}

static void
encode(struct hspz_writer *w, uint32_t id, const struct hspz_discover_request *request, bool shm,
       bool placed)
{
    const struct hspz_discover_params params = {
        .index = hspz_text_of(request->index),
        .has_seeds = request->given_seeds,
        .seeds = request->seeds,
        .bases = request->bases,
        .strands = request->strands,
        .transitions = request->transitions,
        .unmask = request->unmask,
        .begin = request->begin,
        .end = request->end,
        .max_hits = request->max_hits,
        .hit_limit = request->hit_limit,
        .max_word_count = request->max_word_count,
        .keep_words = request->keep_words,
        .mask_filter = hspz_text_of(request->mask_filter),
        .mask_count = request->mask_count,
        .deadline_ms = request->deadline_ms,
        .priority = request->priority,
        .walk = request->walk,
        .digest = request->digest,
        .interval = request->interval,
        .encoding = request->encoding,
        .output = request->records,
        .scoring = request->scoring,
        .has_scores = request->own_scores,
        .want_digest = hspz_text_of(request->index_digest),
        .shm = shm,
        .placed = placed,
    };
    hspz_discover_encode(w, id, &params);
}

/* The final record, checked against what came. */
static enum hspz_status
take_summary(const struct hspz_client *client, struct hspz_order *order,
             const struct hspz_node *node, struct hspz_discover_result *result,
             struct hspz_error *err)
{
    struct hspz_error why = {0};
    enum hspz_status status = hspz_discover_result_decode(node, result, &why);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "%s: the final record is not valid: %s",
                              client->where, why.text);
    }
    return hspz_order_finish(order, result, err);
}

/* Says how much came, when the stream broke. */
static void
add_count(const struct hspz_order *order, enum hspz_status status, struct hspz_error *err)
{
    if (err != NULL && status == HSPZ_E_INCOMPLETE) {
        const struct hspz_error was = *err;
        (void)hspz_error_set(err, status, "%.400s; %llu %s came, and the final record is missing",
                             was.text, (unsigned long long)hspz_order_records(order),
                             hspz_order_noun(order));
    }
}

static void
fill_summary(const struct hspz_discover_result *result, bool digest,
             struct hspz_discover_summary *out)
{
    *out = (struct hspz_discover_summary){
        .totals = {result->totals[0], result->totals[1]},
        .anchors = result->anchors,
        .hsps = result->hsps,
        .chunks = result->chunks,
        .max_hits = result->max_hits,
        .queued_ns = result->timings.queued_ns,
        .engine_ns = result->timings.engine_ns,
        .total_ns = result->timings.total_ns,
    };
    memcpy(out->index_digest, result->index_digest, sizeof(out->index_digest));
    if (digest) {
        memcpy(out->digest, result->digest, sizeof(out->digest));
    }
}

static enum hspz_status
prepare(struct hspz_discovery *d, const struct hspz_discover_request *request,
        struct hspz_error *err)
{
    struct hspz_client *client = d->client;
    const struct hspz_span body = request->given_seeds ? request->seeds : request->bases;
    bool shm = false;
    if (request->columns && request->encoding != HSPZ_ENCODING_COLUMNAR) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "parts by columns are of the columnar encoding only");
    }
    enum hspz_status status = hspz_order_create(request, &d->order);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "no memory for a request");
    }
    status = hspz_shared_choose(client, request->transport, &shm, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const bool placed =
        shm && body.len > HSPZ_SHARED_LEAST && hspz_shared_put(client->shared, 0, body);
    d->call = (struct hspz_call){
        .id = hspz_client_new_id(client),
        .what = "discover",
        .long_call = true,
        .notified = take_part,
        .dropped = drop_part,
        .user = d,
    };
    encode(&d->request, d->call.id, request, shm, placed);
    if (d->request.failed) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a request");
    }
    d->call.out.head = (struct hspz_span){.bytes = d->request.bytes, .len = d->request.len};
    d->call.out.body = placed ? (struct hspz_span){0} : body;
    const size_t len = d->request.len + d->call.out.body.len;
    return len <= client->server.max_message
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_TOO_LARGE,
                                "a request of %zu bytes, and the server takes %llu", len,
                                (unsigned long long)client->server.max_message);
}

/* The call is over: a stop is carried out, and the connection is as it will be. */
static void
end_call(struct hspz_discovery *d, bool stopped)
{
    if (d->awaiting) {
        d->awaiting = false;
        hspz_await_end(d->client, &d->call, &d->await);
        if (stopped) {
            hspz_job_cancel(d->client, &d->call);
        }
    }
}

/* The caller is done with the part. */
static enum hspz_status
give_back(struct hspz_discovery *d, struct hspz_error *err)
{
    const bool held = d->held && d->client->channel != NULL;
    d->has_part = d->held = false;
    return held ? hspz_shared_free(d->client, d->head.offset, err) : HSPZ_OK;
}

/* To the next part, or to the summary. */
static enum hspz_status
advance(struct hspz_discovery *d, struct hspz_error *err)
{
    bool done = false;
    enum hspz_status status = give_back(d, err);
    hspz_reply_fini(&d->reply);
    if (status != HSPZ_OK) {
        hspz_client_break(d->client);
    } else {
        status = hspz_await_step(d->client, &d->call, &d->await, &d->reply, &done, err);
    }
    if (status != HSPZ_OK || done) {
        end_call(d, status == HSPZ_E_STOPPED);
    }
    add_count(d->order, status, err);
    if (status == HSPZ_OK && done) {
        struct hspz_discover_result result = {0};
        status = take_summary(d->client, d->order, d->reply.result, &result, err);
        fill_summary(&result, d->digest, &d->summary);
    }
    return status;
}

static void
destroy(struct hspz_discovery **discovery)
{
    struct hspz_discovery *d = *discovery;
    hspz_reply_fini(&d->reply);
    hspz_writer_fini(&d->request);
    hspz_order_destroy(&d->order);
    free(d->packed);
    free(d);
    *discovery = NULL;
}

struct attempt {
    const struct hspz_discover_request *request;
    struct hspz_discovery *discovery;
};

static enum hspz_status
attempt(struct hspz_client *client, void *user, struct hspz_error *err)
{
    struct attempt *a = user;
    struct hspz_discovery *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a request");
    }
    d->client = client;
    d->digest = a->request->digest;
    d->columns = a->request->columns;
    d->ahead = true;
    hspz_writer_init(&d->request);
    enum hspz_status status = prepare(d, a->request, err);
    if (status == HSPZ_OK) {
        status = hspz_await_begin(client, &d->call, &d->await, err);
        d->awaiting = status == HSPZ_OK;
    }
    if (status == HSPZ_OK) {
        status = advance(d, err);
    }
    if (status != HSPZ_OK) {
        destroy(&d);
        return status;
    }
    a->discovery = d;
    return HSPZ_OK;
}

enum hspz_status
hspz_client_discover_begin(struct hspz_client *client, const struct hspz_discover_request *request,
                           struct hspz_discovery **out, struct hspz_error *err)
{
    struct attempt a = {.request = request};
    const enum hspz_status status = hspz_job_attempt(client, attempt, &a, err);
    if (status == HSPZ_OK) {
        *out = a.discovery;
    }
    return status;
}

enum hspz_status
hspz_client_discover_next(struct hspz_discovery *discovery, struct hspz_part_view *part,
                          struct hspz_error *err)
{
    struct hspz_discovery *d = discovery;
    enum hspz_status status = HSPZ_OK;
    if (d->ahead) {
        d->ahead = false;
    } else if (d->awaiting) {
        status = advance(d, err);
    } else {
        d->has_part = false;
    }
    if (status == HSPZ_OK) {
        *part = d->has_part ? d->part : (struct hspz_part_view){.id = d->head.id};
    }
    return status;
}

void
hspz_client_discover_end(struct hspz_discovery **discovery, struct hspz_discover_summary *summary)
{
    struct hspz_discovery *d = *discovery;
    if (d == NULL) {
        return;
    }
    if (d->awaiting) {
        if (give_back(d, NULL) != HSPZ_OK) {
            hspz_client_break(d->client);
        }
        end_call(d, true);
    }
    if (summary != NULL) {
        *summary = d->summary;
    }
    destroy(discovery);
}

size_t
hspz_columns_anchors(const struct hspz_columns *columns, struct hspz_columns_place *place,
                     uint8_t *packed, size_t most)
{
    return hspz_columns_read(columns, place, packed, most);
}

enum hspz_status
hspz_client_discover(struct hspz_client *client, const struct hspz_discover_request *request,
                     hspz_part_fn part, void *user, struct hspz_discover_summary *summary,
                     struct hspz_error *err)
{
    struct hspz_discovery *discovery = NULL;
    struct hspz_part_view view;
    enum hspz_status status = hspz_client_discover_begin(client, request, &discovery, err);
    while (status == HSPZ_OK) {
        status = hspz_client_discover_next(discovery, &view, err);
        if (status != HSPZ_OK || view.records == NULL) {
            break;
        }
        if (part != NULL && !part(user, &view)) {
            status = hspz_client_stopped(err);
        }
    }
    hspz_client_discover_end(&discovery, status == HSPZ_OK ? summary : NULL);
    return status;
}
