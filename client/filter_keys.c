#include "client/job.h"
#include "client/shared.h"
#include "protocol/filter_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls that move keys and entries: the request goes out, answers come in, then the result, which
 * is held against what came. */

#define KEY_BYTES 8u

struct keys {
    struct hspz_client *client;
    const struct hspz_keys_request *request;
    hspz_answers_fn answers;
    void *user;
    struct hspz_keys_summary *summary;
    uint32_t job;
    enum hspz_filter_answer answer;
    uint64_t count, came, yes;
};

static bool
is_named(struct hspz_text text, const char *name)
{
    return text.len == strlen(name) && memcmp(text.bytes, name, text.len) == 0;
}

static enum hspz_status
bad_peer(const char *noun, const char *why, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_PEER, "a message of %s is not valid: %s", noun, why);
}

/* The bits of `count` keys; false when one behind them is set. */
static bool
count_bits(const uint8_t *bitmap, uint64_t count, uint64_t *yes)
{
    const size_t whole = (size_t)(count / 8);
    for (size_t i = 0; i < whole; i++) {
        *yes += (uint64_t)__builtin_popcount(bitmap[i]);
    }
    const unsigned rest = (unsigned)(count % 8);
    if (rest == 0) {
        return true;
    }
    *yes += (uint64_t)__builtin_popcount(bitmap[whole]);
    return bitmap[whole] >> rest == 0;
}

/* The caller is done with a payload that was placed at `offset`: its place goes back. */
static enum hspz_status
give_back(struct hspz_client *client, uint64_t offset, enum hspz_status status,
          struct hspz_error *err)
{
    const enum hspz_status freed = hspz_shared_free(client, offset, err);
    return freed != HSPZ_OK ? freed : status;
}

static enum hspz_status
check_answers(struct keys *k, const struct hspz_answers_head *head, struct hspz_span *payload,
              struct hspz_error *err)
{
    if (head->job != k->job || head->answer != k->answer) {
        return bad_peer("answers", "they are of something else", err);
    }
    if (head->first != k->came || head->count > k->count - k->came) {
        return bad_peer("answers", "they do not follow those before", err);
    }
    return head->placed ? hspz_shared_find(k->client->shared, head->offset, payload, err) : HSPZ_OK;
}

static enum hspz_status
take_answers(void *user, const struct hspz_message *message, struct hspz_error *err)
{
    struct keys *k = user;
    if (!is_named(message->method_name, "answers")) {
        return HSPZ_OK; /* of a later protocol */
    }
    struct hspz_answers_head head;
    struct hspz_span payload;
    struct hspz_error why = {0};
    if (hspz_answers_decode(message->params, &head, &payload, &why) != HSPZ_OK) {
        return bad_peer("answers", why.text, err);
    }
    enum hspz_status status = check_answers(k, &head, &payload, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const bool array = head.answer != HSPZ_ANSWER_BITMAP;
    const bool bitmap = head.answer != HSPZ_ANSWER_ARRAY;
    const uint8_t *bits = payload.bytes + (array ? head.count * KEY_BYTES : 0);
    if (bitmap && !count_bits(bits, head.count, &k->yes)) {
        return bad_peer("answers", "bits behind the last key are set", err);
    }
    k->came += head.count;
    status = k->answers == NULL || k->answers(k->user, head.first, (size_t)head.count,
                                              bitmap ? bits : NULL, array ? payload.bytes : NULL)
                 ? HSPZ_OK
                 : hspz_client_stopped(err);
    return head.placed ? give_back(k->client, head.offset, status, err) : status;
}

/* After a stop. */
static enum hspz_status
drop_answers(void *user, const struct hspz_message *message, struct hspz_error *err)
{
    const struct keys *k = user;
    struct hspz_answers_head head;
    struct hspz_span payload;
    return is_named(message->method_name, "answers") &&
                   hspz_answers_decode(message->params, &head, &payload, NULL) == HSPZ_OK &&
                   head.placed
               ? hspz_shared_free(k->client, head.offset, err)
               : HSPZ_OK;
}

static enum hspz_filter_answer
answer_of(const struct hspz_keys_request *request)
{
    return request->bitmap  ? request->array ? HSPZ_ANSWER_BOTH : HSPZ_ANSWER_BITMAP
           : request->array ? HSPZ_ANSWER_ARRAY
                            : HSPZ_ANSWER_NONE;
}

static enum hspz_method
method_of(enum hspz_keys_operation operation)
{
    static const enum hspz_method methods[] = {
        [HSPZ_KEYS_INSERT] = HSPZ_METHOD_FILTER_INSERT,
        [HSPZ_KEYS_INSERT_IF_ABSENT] = HSPZ_METHOD_FILTER_INSERT_IF_ABSENT,
        [HSPZ_KEYS_QUERY] = HSPZ_METHOD_FILTER_QUERY,
        [HSPZ_KEYS_COUNT] = HSPZ_METHOD_FILTER_COUNT,
        [HSPZ_KEYS_DELETE] = HSPZ_METHOD_FILTER_DELETE,
        [HSPZ_KEYS_DECREMENT] = HSPZ_METHOD_FILTER_DECREMENT,
    };
    return methods[operation];
}

static size_t
key_count(const struct hspz_keys_request *request)
{
    return request->sequence ? request->keys.len : request->keys.len / KEY_BYTES;
}

static enum hspz_status
check_request(const struct hspz_client *client, const struct hspz_keys_request *request,
              struct hspz_error *err)
{
    const struct hspz_span *more[] = {&request->values, &request->counts};
    if (!request->sequence && request->keys.len % KEY_BYTES != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%zu bytes are not whole keys of 8 bytes",
                              request->keys.len);
    }
    for (size_t i = 0; i < 2; i++) {
        if (more[i]->bytes != NULL && more[i]->len != request->keys.len) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "%zu bytes of %s go with %zu bytes of keys", more[i]->len,
                                  i == 0 ? "values" : "counts", request->keys.len);
        }
    }
    if (key_count(request) > client->server.max_keys) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE,
                              "%zu keys in a call, and the server takes %" PRIu64,
                              key_count(request), client->server.max_keys);
    }
    return HSPZ_OK;
}

/* The payloads of the request: the keys as they lie, or with what follows them in memory of its own
 * (*joined). False: no memory. */
static bool
make_body(const struct hspz_keys_request *request, struct hspz_span *body, uint8_t **joined)
{
    *body = request->keys;
    if (request->values.bytes == NULL && request->counts.bytes == NULL) {
        return true;
    }
    struct hspz_writer values, counts;
    hspz_writer_init(&values);
    hspz_writer_init(&counts);
    if (request->values.bytes != NULL) {
        hspz_filter_more_encode(&values, "values", request->values.len);
    }
    if (request->counts.bytes != NULL) {
        hspz_filter_more_encode(&counts, "counts", request->counts.len);
    }
    const struct hspz_span pieces[] = {request->keys,
                                       {values.bytes, values.len},
                                       request->values,
                                       {counts.bytes, counts.len},
                                       request->counts};
    size_t len = 0;
    for (size_t i = 0; i < 5; i++) {
        len += pieces[i].bytes == NULL ? 0 : pieces[i].len;
    }
    *joined = values.failed || counts.failed ? NULL : malloc(len + 1);
    for (size_t i = 0, at = 0; i < 5 && *joined != NULL; i++) {
        if (pieces[i].bytes != NULL) {
            memcpy(*joined + at, pieces[i].bytes, pieces[i].len);
            at += pieces[i].len;
        }
    }
    hspz_writer_fini(&values);
    hspz_writer_fini(&counts);
    *body = (struct hspz_span){*joined, len};
    return *joined != NULL;
}

static enum hspz_status
take_result(const struct hspz_client *client, struct keys *k, const struct hspz_node *node,
            struct hspz_error *err)
{
    struct hspz_filter_job_result result;
    struct hspz_error why = {.status = HSPZ_E_BAD_PEER};
    const char *what = hspz_method_name(method_of(k->request->operation));
    if (hspz_filter_keys_result_decode(node, &result, &why) != HSPZ_OK) {
        return hspz_client_bad_answer(client, what, &why, err);
    }
    const bool told = k->answer != HSPZ_ANSWER_NONE;
    const bool bits = k->answer == HSPZ_ANSWER_BITMAP || k->answer == HSPZ_ANSWER_BOTH;
    if (result.keys != k->count || result.yes > k->count || (told && k->came != k->count) ||
        (bits && k->yes != result.yes)) {
        snprintf(why.text, sizeof(why.text),
                 "%" PRIu64 " keys, %" PRIu64 " of them yes, where %" PRIu64
                 " were sent and %" PRIu64 " answers came, %" PRIu64 " yes",
                 result.keys, result.yes, k->count, k->came, k->yes);
        return hspz_client_bad_answer(client, what, &why, err);
    }
    if (k->summary != NULL) {
        *k->summary = (struct hspz_keys_summary){.keys = result.keys,
                                                 .yes = result.yes,
                                                 .full = result.filter_full,
                                                 .queued_ns = result.timings.queued_ns,
                                                 .engine_ns = result.timings.engine_ns,
                                                 .total_ns = result.timings.total_ns};
    }
    return HSPZ_OK;
}

/* Writes the payloads into shared memory, one after the other, if they are worth it and fit. */
static bool
place(const struct hspz_shared *shared, struct hspz_filter_keys_params *params)
{
    params->values_at = params->keys.len;
    params->counts_at = params->values_at + params->values.len;
    return params->keys.len > HSPZ_SHARED_LEAST && hspz_shared_put(shared, 0, params->keys) &&
           hspz_shared_put(shared, params->values_at, params->values) &&
           hspz_shared_put(shared, params->counts_at, params->counts);
}

static enum hspz_status
prepare(struct keys *k, struct hspz_filter_keys_params *params, struct hspz_error *err)
{
    const struct hspz_keys_request *request = k->request;
    const bool large = request->keys.len > HSPZ_SHARED_LEAST;
    const enum hspz_transport transport = request->transport == HSPZ_TRANSPORT_AUTO && !large
                                              ? HSPZ_TRANSPORT_STREAM
                                              : request->transport;
    *params = (struct hspz_filter_keys_params){
        .filter = hspz_text_of(request->filter),
        .answer = k->answer,
        .deadline_ms = request->deadline_ms,
        .priority = request->priority,
        .keys = request->keys,
        .sequence = request->sequence,
        .values = request->values,
        .counts = request->counts,
    };
    const enum hspz_status status = hspz_shared_choose(k->client, transport, &params->shm, err);
    params->placed = status == HSPZ_OK && params->shm && place(k->client->shared, params);
    return status;
}

static enum hspz_status
run_once(struct hspz_client *client, void *user, struct hspz_error *err)
{
    struct keys *k = user;
    const enum hspz_method method = method_of(k->request->operation);
    struct hspz_filter_keys_params params;
    struct hspz_span body = {0};
    uint8_t *joined = NULL;
    struct hspz_reply reply = {0};
    struct hspz_writer w;
    hspz_writer_init(&w);
    k->client = client;
    k->answer = answer_of(k->request);
    k->count = key_count(k->request);
    k->came = k->yes = 0;
    enum hspz_status status = prepare(k, &params, err);
    if (status != HSPZ_OK) {
        goto out;
    }
    k->job = hspz_client_new_id(client);
    hspz_filter_keys_encode(&w, k->job, method, &params);
    if ((!params.placed && !make_body(k->request, &body, &joined)) || w.failed) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a request");
        goto out;
    }
    struct hspz_call call = {
        .id = k->job,
        .what = hspz_method_name(method),
        .long_call = true,
        .out = {.head = {.bytes = w.bytes, .len = w.len}, .body = body},
        .notified = take_answers,
        .dropped = drop_answers,
        .user = k,
    };
    status = hspz_client_await(client, &call, &reply, err);
    if (status == HSPZ_E_STOPPED) {
        hspz_job_cancel(client, &call);
    }
    if (status == HSPZ_OK) {
        status = take_result(client, k, reply.result, err);
    }
out:
    hspz_reply_fini(&reply);
    hspz_writer_fini(&w);
    free(joined);
    return status;
}

enum hspz_status
hspz_client_filter_keys(struct hspz_client *client, const struct hspz_keys_request *request,
                        hspz_answers_fn answers, void *user, struct hspz_keys_summary *summary,
                        struct hspz_error *err)
{
    const enum hspz_status status = check_request(client, request, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct keys keys = {.request = request, .answers = answers, .user = user, .summary = summary};
    return hspz_job_attempt(client, run_once, &keys, err);
}

/* ---- enumerate ---- */

struct enumerate {
    struct hspz_client *client;
    const char *name;
    uint64_t deadline_ms;
    hspz_entries_fn entries;
    void *user;
    struct hspz_keys_summary *summary;
    uint32_t job;
    uint64_t came;
};

static enum hspz_status
take_entries(void *user, const struct hspz_message *message, struct hspz_error *err)
{
    struct enumerate *e = user;
    if (!is_named(message->method_name, "entries")) {
        return HSPZ_OK; /* of a later protocol */
    }
    struct hspz_entries_head head;
    struct hspz_span payload;
    struct hspz_error why = {0};
    if (hspz_entries_decode(message->params, &head, &payload, &why) != HSPZ_OK) {
        return bad_peer("entries", why.text, err);
    }
    if (head.job != e->job || head.first != e->came) {
        return bad_peer("entries", "they do not follow those before", err);
    }
    enum hspz_status status =
        head.placed ? hspz_shared_find(e->client->shared, head.offset, &payload, err) : HSPZ_OK;
    if (status != HSPZ_OK) {
        return status;
    }
    e->came += head.count;
    status = e->entries == NULL || e->entries(e->user, payload.bytes, (size_t)head.count)
                 ? HSPZ_OK
                 : hspz_client_stopped(err);
    return head.placed ? give_back(e->client, head.offset, status, err) : status;
}

static enum hspz_status
drop_entries(void *user, const struct hspz_message *message, struct hspz_error *err)
{
    const struct enumerate *e = user;
    struct hspz_entries_head head;
    struct hspz_span payload;
    return is_named(message->method_name, "entries") &&
                   hspz_entries_decode(message->params, &head, &payload, NULL) == HSPZ_OK &&
                   head.placed
               ? hspz_shared_free(e->client, head.offset, err)
               : HSPZ_OK;
}

static enum hspz_status
enumerate_once(struct hspz_client *client, void *user, struct hspz_error *err)
{
    struct enumerate *e = user;
    struct hspz_reply reply = {0};
    struct hspz_writer w;
    struct hspz_filter_enumerate_params params = {.filter = hspz_text_of(e->name),
                                                  .deadline_ms = e->deadline_ms,
                                                  .priority = HSPZ_PRIORITY_DEFAULT};
    enum hspz_status status = hspz_shared_choose(client, HSPZ_TRANSPORT_AUTO, &params.shm, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_writer_init(&w);
    e->client = client;
    e->job = hspz_client_new_id(client);
    e->came = 0;
    hspz_filter_enumerate_encode(&w, e->job, &params);
    struct hspz_call call = {
        .id = e->job,
        .what = "filter.enumerate",
        .long_call = true,
        .out = {.head = {.bytes = w.bytes, .len = w.len}},
        .notified = take_entries,
        .dropped = drop_entries,
        .user = e,
    };
    status = w.failed ? hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a request")
                      : hspz_client_await(client, &call, &reply, err);
    if (status == HSPZ_E_STOPPED) {
        hspz_job_cancel(client, &call);
    }
    struct hspz_filter_job_result result = {0};
    struct hspz_error why = {.status = HSPZ_E_BAD_PEER, .text = "another number of entries came"};
    if (status == HSPZ_OK &&
        (hspz_filter_enumerate_result_decode(reply.result, &result, &why) != HSPZ_OK ||
         result.keys != e->came)) {
        status = hspz_client_bad_answer(client, call.what, &why, err);
    }
    if (status == HSPZ_OK && e->summary != NULL) {
        *e->summary = (struct hspz_keys_summary){.keys = result.keys,
                                                 .yes = result.keys,
                                                 .queued_ns = result.timings.queued_ns,
                                                 .engine_ns = result.timings.engine_ns,
                                                 .total_ns = result.timings.total_ns};
    }
    hspz_reply_fini(&reply);
    hspz_writer_fini(&w);
    return status;
}

enum hspz_status
hspz_client_filter_enumerate(struct hspz_client *client, const char *name, uint64_t deadline_ms,
                             hspz_entries_fn entries, void *user, struct hspz_keys_summary *summary,
                             struct hspz_error *err)
{
    struct enumerate e = {.name = name,
                          .deadline_ms = deadline_ms,
                          .entries = entries,
                          .user = user,
                          .summary = summary};
    return hspz_job_attempt(client, enumerate_once, &e, err);
}
