#include "client/job.h"

#include "client/socket.h"

/* However long the server says that it may take. */
#define RETRY_MOST_MS 60000

void
hspz_job_cancel(struct hspz_client *client, const struct hspz_call *stopped)
{
    if (client->channel == NULL) {
        return;
    }
    /* Half a request cannot be taken back, nor can two cancels be told apart. */
    if (client->options.stop_closes || !hspz_outgoing_done(&stopped->out) ||
        client->cancel_id != 0) {
        hspz_client_break(client);
        return;
    }
    struct hspz_writer w;
    hspz_writer_init(&w);
    client->cancel_id = hspz_client_new_id(client);
    hspz_cancel_encode(&w, client->cancel_id, &(struct hspz_cancel_params){.job = stopped->id});
    if (w.failed) {
        hspz_client_break(client);
    } else {
        struct hspz_call drain = {
            .id = stopped->id,
            .what = "cancel",
            .unstoppable = true,
            .notified = stopped->dropped,
            .user = stopped->user,
            .out = {.head = {.bytes = w.bytes, .len = w.len}},
        };
        /* Whether the job was cancelled or had just finished is all the same. */
        struct hspz_reply reply;
        if (hspz_client_await(client, &drain, &reply, NULL) == HSPZ_OK) {
            hspz_reply_fini(&reply);
        }
        if (drain.out.sent == 0) {
            client->cancel_id = 0; /* the job's end was here already */
        }
    }
    hspz_writer_fini(&w);
}

/* Sleeps until the server may have room, as it said, or until the time is over. */
static enum hspz_status
wait_for_room(const struct hspz_client *client, const struct hspz_error *why, int64_t left_ms,
              struct hspz_error *err)
{
    const struct hspz_client_options *options = &client->options;
    const int64_t pause = why->retry_ms < RETRY_MOST_MS ? (int64_t)why->retry_ms : RETRY_MOST_MS;
    if (options->waiting != NULL) {
        options->waiting(options->user, why);
    }
    short got;
    const enum hspz_status status = hspz_socket_wait(
        -1, 0, options->stop_fd, pause < left_ms ? (pause > 0 ? pause : 1) : left_ms, &got);
    return status == HSPZ_OK
               ? HSPZ_OK
               : hspz_error_set(err, status, "%s: %s", client->where, hspz_status_text(status));
}

enum hspz_status
hspz_job_attempt(struct hspz_client *client, hspz_attempt_fn once, void *user,
                 struct hspz_error *err)
{
    const int64_t wait_ms = client->options.wait_ms;
    const int64_t until = wait_ms < 0 ? INT64_MAX : hspz_clock_ms() + wait_ms;
    for (;;) {
        struct hspz_error why = {0};
        enum hspz_status status = once(client, user, &why);
        const int64_t left = until - hspz_clock_ms();
        /* Refused before anything of it was done. */
        const bool again = (status == HSPZ_E_QUEUE_FULL || status == HSPZ_E_QUOTA_EXCEEDED) &&
                           why.has_retry && client->channel != NULL;
        if (!again || wait_ms == 0 || left <= 0) {
            if (status != HSPZ_OK && err != NULL) {
                *err = why;
            }
            return status;
        }
        status = wait_for_room(client, &why, left, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
}
