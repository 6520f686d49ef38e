/* Inside libhspz: a client, and one call on it.
 *
 * A call sends a request and waits for the response with its id. What else arrives meanwhile goes
 * to `notified`. While a long call is silent the server is asked for its health: it answers control
 * calls at once whatever its jobs do, so only a dead server stays silent (HSPZ_E_INCOMPLETE). */
#pragma once

#include "client/channel.h"
#include "client/hspz.h"
#include "protocol/message.h"
#include "protocol/node.h"
#include "protocol/writer.h"

struct hspz_shared;

struct hspz_client {
    struct hspz_channel *channel;       /* NULL once the connection is no longer good */
    struct hspz_client_options options; /* strings not kept */
    char where[HSPZ_ADDRESS_TEXT_BYTES];
    bool tcp;
    uint32_t next_id;
    /* Requests whose responses are let pass whenever they come; 0: none. */
    uint32_t probe_id, cancel_id;
    struct hspz_shared *shared; /* NULL: none, */
    bool asked_shared;          /* and there will be none */
    struct hspz_server_info server;
    char *text; /* what `server` points to */
};

struct hspz_reply {
    struct hspz_frame frame;
    struct hspz_doc *doc;
    const struct hspz_node *result;
};

typedef enum hspz_status (*hspz_notified_fn)(void *user, const struct hspz_message *message,
                                             struct hspz_error *err);

struct hspz_call {
    uint32_t id;
    const char *what; /* for messages */
    bool long_call;
    bool unstoppable; /* does not look at stop_fd */
    struct hspz_outgoing out;
    hspz_notified_fn notified; /* may be NULL: ignored */
    hspz_notified_fn dropped;  /* told of those that come after a stop; may be NULL */
    bool pause;                /* set by `notified`: a step ends here, and the message is kept */
    void *user;
};

/* Waits for the response to call->id, sending what is left of call->out. An error response becomes
 * its status. HSPZ_E_STOPPED leaves the connection good; other failures of the connection close it.
 * *reply is the caller's on success (hspz_reply_fini). */
HSPZ_MUST_USE enum hspz_status hspz_client_await(struct hspz_client *client, struct hspz_call *call,
                                                 struct hspz_reply *reply, struct hspz_error *err);

/* The same step by step. */
struct hspz_await {
    int64_t idle_ms, deadline_ms;
    int64_t since_ms; /* what came before is taken care of: the server's turn began */
    struct hspz_writer probe_writer;
    struct hspz_outgoing probe;
    bool probing; /* `probe` is on its way out */
};
HSPZ_MUST_USE enum hspz_status hspz_await_begin(struct hspz_client *client,
                                                const struct hspz_call *call,
                                                struct hspz_await *await, struct hspz_error *err);
/* To the next message at which the call pauses, or to the response (*done). Either is in *reply,
 * the caller's, who finishes it before the next step. After a failure only the end follows. */
HSPZ_MUST_USE enum hspz_status hspz_await_step(struct hspz_client *client, struct hspz_call *call,
                                               struct hspz_await *await, struct hspz_reply *reply,
                                               bool *done, struct hspz_error *err);
void hspz_await_end(struct hspz_client *client, const struct hspz_call *call,
                    struct hspz_await *await);

/* The request written in *w (finished here, whatever happens), then its response. */
HSPZ_MUST_USE enum hspz_status hspz_client_call(struct hspz_client *client, uint32_t id,
                                                const char *what, bool long_call,
                                                struct hspz_writer *w, struct hspz_reply *reply,
                                                struct hspz_error *err);
/* A request without parameters. */
HSPZ_MUST_USE enum hspz_status hspz_client_ask(struct hspz_client *client, enum hspz_method method,
                                               struct hspz_reply *reply, struct hspz_error *err);
uint32_t hspz_client_new_id(struct hspz_client *client);
/* Closes a connection whose place in the stream is lost. */
void hspz_client_break(struct hspz_client *client);

void hspz_reply_fini(struct hspz_reply *reply);
/* The answer to `what` could not be read, for this reason. */
enum hspz_status hspz_client_bad_answer(const struct hspz_client *client, const char *what,
                                        const struct hspz_error *why, struct hspz_error *err);
/* A callback stopped the call. */
enum hspz_status hspz_client_stopped(struct hspz_error *err);

/* `text` is borrowed; NULL is absent. */
struct hspz_text hspz_text_of(const char *text);
