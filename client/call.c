#include "client/call.h"

#include "client/shared.h"
#include "client/socket.h"

#include <stdlib.h>
#include <string.h>

struct hspz_text
hspz_text_of(const char *text)
{
    return (struct hspz_text){.bytes = text, .len = text == NULL ? 0 : strlen(text)};
}

void
hspz_reply_fini(struct hspz_reply *reply)
{
    hspz_doc_destroy(&reply->doc);
    hspz_frame_release(&reply->frame);
    *reply = (struct hspz_reply){0};
}

enum hspz_status
hspz_client_bad_answer(const struct hspz_client *client, const char *what,
                       const struct hspz_error *why, struct hspz_error *err)
{
    return hspz_error_set(err, why->status == HSPZ_E_OUT_OF_MEMORY ? why->status : HSPZ_E_BAD_PEER,
                          "%s: the answer to %s is not valid: %s", client->where, what, why->text);
}

enum hspz_status
hspz_client_stopped(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_STOPPED, "%s", hspz_status_text(HSPZ_E_STOPPED));
}

uint32_t
hspz_client_new_id(struct hspz_client *client)
{
    client->next_id = client->next_id == UINT32_MAX ? 1 : client->next_id + 1;
    return client->next_id;
}

void
hspz_client_break(struct hspz_client *client)
{
    hspz_channel_close(&client->channel);
    hspz_shared_close(&client->shared);
    client->asked_shared = false;
}

static enum hspz_status
bad_peer(const struct hspz_client *client, const char *why, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_PEER, "%s: the server breaks the protocol: %s",
                          client->where, why);
}

/* The response to the call: its error as a status, or *done. */
static enum hspz_status
take_response(const struct hspz_client *client, const struct hspz_message *message, bool *done,
              struct hspz_error *err)
{
    if (hspz_node_type(message->error) == HSPZ_NODE_NIL) {
        *done = true;
        return HSPZ_OK;
    }
    struct hspz_error told = {0};
    hspz_error_decode(message->error, &told);
    if (told.status == HSPZ_OK) {
        return bad_peer(client, "an error response without a code", err);
    }
    if (err != NULL) {
        *err = told;
    }
    return told.status;
}

static bool
let_pass(struct hspz_client *client, uint32_t id)
{
    uint32_t *const expected[] = {&client->probe_id, &client->cancel_id};
    for (size_t i = 0; i < 2; i++) {
        if (id != 0 && *expected[i] == id) {
            *expected[i] = 0;
            return true;
        }
    }
    return false;
}

/* One message. HSPZ_OK with *done false when it was not the response waited for; *broken when the
 * connection cannot go on. */
static enum hspz_status
take_frame(struct hspz_client *client, const struct hspz_call *call, struct hspz_reply *reply,
           bool *done, bool *broken, struct hspz_error *err)
{
    *broken = true;
    if (reply->frame.refused != HSPZ_OK) {
        return hspz_error_set(err, reply->frame.refused, "no memory for what the server sends");
    }
    struct hspz_error why = {0};
    enum hspz_status status =
        hspz_doc_parse(reply->frame.bytes, reply->frame.len, &reply->doc, &why);
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        return hspz_error_set(err, status, "no memory for an answer");
    }
    struct hspz_message message = {0};
    bool answerable = false;
    if (status == HSPZ_OK) {
        status = hspz_message_decode(reply->doc, &message, &answerable, &why);
    }
    if (status != HSPZ_OK) {
        return bad_peer(client, why.text, err);
    }
    if (message.kind == HSPZ_REQUEST) {
        return bad_peer(client, "it sends a request", err);
    }
    if (message.kind == HSPZ_NOTIFICATION) {
        if (call->notified != NULL) {
            status = call->notified(call->user, &message, err);
        }
        *broken = status != HSPZ_OK && status != HSPZ_E_STOPPED;
        return status;
    }
    if (message.id == 0 && hspz_node_type(message.error) != HSPZ_NODE_NIL) {
        /* Not of a request: why the server ends the connection. */
        return take_response(client, &message, done, err);
    }
    if (message.id != call->id && !let_pass(client, message.id)) {
        return bad_peer(client, "a response to nothing that was asked", err);
    }
    *broken = false;
    if (message.id != call->id) {
        return HSPZ_OK;
    }
    reply->result = message.result;
    return take_response(client, &message, done, err);
}

static enum hspz_status
no_answer(const struct hspz_client *client, const struct hspz_call *call, int64_t ms,
          struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_INCOMPLETE,
                          "%s: no answer to %s: nothing came for %lld.%03d seconds", client->where,
                          call->what, (long long)(ms / 1000), (int)(ms % 1000));
}

/* Nothing moved for a while: gives up, or asks whether the server lives. */
static enum hspz_status
when_silent(struct hspz_client *client, const struct hspz_call *call, struct hspz_await *await,
            struct hspz_error *err)
{
    const int64_t now = hspz_clock_ms();
    const int64_t moved_ms = hspz_channel_moved_ms(client->channel);
    const int64_t silent_ms = now - (moved_ms > await->since_ms ? moved_ms : await->since_ms);
    if (!call->long_call) {
        return no_answer(client, call, client->options.answer_timeout_ms, err);
    }
    if (silent_ms >= client->options.silence_timeout_ms) {
        return no_answer(client, call, client->options.silence_timeout_ms, err);
    }
    if (client->probe_id != 0 || await->probing || !hspz_outgoing_done(&call->out)) {
        return HSPZ_OK;
    }
    client->probe_id = hspz_client_new_id(client);
    hspz_writer_fini(&await->probe_writer);
    hspz_writer_init(&await->probe_writer);
    hspz_request_bare(&await->probe_writer, client->probe_id, hspz_method_name(HSPZ_METHOD_HEALTH));
    if (await->probe_writer.failed) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a request");
    }
    await->probe = (struct hspz_outgoing){
        .head = {.bytes = await->probe_writer.bytes, .len = await->probe_writer.len}};
    await->probing = true;
    return HSPZ_OK;
}

/* One turn of the channel, and what it brought. */
static enum hspz_status
await_turn(struct hspz_client *client, struct hspz_call *call, struct hspz_await *await,
           struct hspz_reply *reply, bool *done, bool *broken, struct hspz_error *err)
{
    *broken = true;
    if (await->probing && hspz_outgoing_done(&await->probe)) {
        await->probing = false;
    }
    bool ready = false;
    /* A message in mid-air is finished before another begins. */
    struct hspz_outgoing *out = await->probing ? &await->probe : &call->out;
    enum hspz_status status =
        hspz_channel_turn(client->channel, out, call->unstoppable ? 0 : client->options.stop_fd,
                          await->idle_ms, await->deadline_ms, &ready, &reply->frame, err);
    if (status == HSPZ_OK && ready) {
        status = take_frame(client, call, reply, done, broken, err);
        await->since_ms = hspz_clock_ms();
    } else if (status == HSPZ_OK) {
        status = when_silent(client, call, await, err);
    } else if (status == HSPZ_E_STOPPED) {
        *broken = false;
    }
    return status;
}

enum hspz_status
hspz_await_begin(struct hspz_client *client, const struct hspz_call *call, struct hspz_await *await,
                 struct hspz_error *err)
{
    if (client->channel == NULL) {
        return hspz_error_set(err, HSPZ_E_NO_SERVER, "%s: the connection has ended", client->where);
    }
    const int64_t now = hspz_clock_ms();
    *await = (struct hspz_await){
        .idle_ms = client->options.answer_timeout_ms,
        .deadline_ms = now + client->options.answer_timeout_ms,
        .since_ms = now,
    };
    if (call->long_call) {
        await->idle_ms = client->options.silence_timeout_ms / 3 + 1;
        await->deadline_ms = INT64_MAX;
    }
    hspz_writer_init(&await->probe_writer);
    return HSPZ_OK;
}

enum hspz_status
hspz_await_step(struct hspz_client *client, struct hspz_call *call, struct hspz_await *await,
                struct hspz_reply *reply, bool *done, struct hspz_error *err)
{
    *reply = (struct hspz_reply){0};
    *done = false;
    call->pause = false;
    if (client->channel == NULL) {
        return hspz_error_set(err, HSPZ_E_INCOMPLETE, "%s: the connection has ended",
                              client->where);
    }
    await->since_ms = hspz_clock_ms();
    while (!*done && !call->pause) {
        bool broken = false;
        hspz_reply_fini(reply);
        const enum hspz_status status = await_turn(client, call, await, reply, done, &broken, err);
        if (status != HSPZ_OK) {
            hspz_reply_fini(reply);
            if (broken) {
                hspz_client_break(client);
            }
            return status;
        }
    }
    return HSPZ_OK;
}

void
hspz_await_end(struct hspz_client *client, const struct hspz_call *call, struct hspz_await *await)
{
    /* Answered before all of it was sent: the rest would be taken for a message of its own. */
    const bool half_sent = (call->out.sent > 0 && !hspz_outgoing_done(&call->out)) ||
                           (await->probing && !hspz_outgoing_done(&await->probe));
    hspz_writer_fini(&await->probe_writer);
    if (half_sent) {
        hspz_client_break(client);
    }
}

enum hspz_status
hspz_client_await(struct hspz_client *client, struct hspz_call *call, struct hspz_reply *reply,
                  struct hspz_error *err)
{
    struct hspz_await await;
    bool done = false;
    *reply = (struct hspz_reply){0};
    enum hspz_status status = hspz_await_begin(client, call, &await, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_await_step(client, call, &await, reply, &done, err);
    HSPZ_REQUIRE(status != HSPZ_OK || done);
    hspz_await_end(client, call, &await);
    return status;
}

enum hspz_status
hspz_client_call(struct hspz_client *client, uint32_t id, const char *what, bool long_call,
                 struct hspz_writer *w, struct hspz_reply *reply, struct hspz_error *err)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum hspz_status status = hspz_writer_take(w, &bytes, &len);
    hspz_writer_fini(w);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "no memory for a request");
    }
    struct hspz_call call = {
        .id = id,
        .what = what,
        .long_call = long_call,
        .out = {.head = {.bytes = bytes, .len = len}},
    };
    status = hspz_client_await(client, &call, reply, err);
    if (status == HSPZ_E_STOPPED) {
        /* Its response may still come, and nobody waits for it. */
        hspz_client_break(client);
    }
    free(bytes);
    return status;
}

enum hspz_status
hspz_client_ask(struct hspz_client *client, enum hspz_method method, struct hspz_reply *reply,
                struct hspz_error *err)
{
    const char *name = hspz_method_name(method);
    struct hspz_writer w;
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    hspz_request_bare(&w, id, name);
    return hspz_client_call(client, id, name, false, &w, reply, err);
}
