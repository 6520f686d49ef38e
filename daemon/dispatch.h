/* From a message to its handler and its one answer.
 *
 * Before `hello` everything else is a bad_request; hello with another protocol version is answered
 * and the connection ended. A request is answered exactly once: at once, or for jobs,
 * `index.load`, `index.build` and `drain` when they end. A response from a peer, or a message that
 * is none, ends the connection with an error to request 0; a notification is ignored.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/conn.h"
#include "protocol/status.h"
#include "protocol/stream.h"

/* Takes the frame over. */
void hspz_dispatch_frame(struct hspz_conn *conn, struct hspz_frame *frame);
/* The byte stream is not one of messages, or over a limit. */
void hspz_dispatch_broken(struct hspz_conn *conn, const struct hspz_error *err);
/* Drops the loads and builds, and the drain, that the connection waits for; they go on without it.
 */
void hspz_dispatch_forget(struct hspz_conn *conn);
/* Answers them with `err`; they are still to be forgotten. */
void hspz_dispatch_refuse(struct hspz_conn *conn, const struct hspz_error *err);
