/* The method `drain`: an operator asks for the end of the daemon, and follows how it goes.
 *
 * The first call begins it, as a signal would; each is answered at once, or once everything is done
 * or its time is over. At most one call of a connection waits.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/conn.h"
#include "protocol/message.h"

/* Writes the answer, or sets *later when it comes later. HSPZ_E_BAD_REQUEST: one waits already. */
HSPZ_MUST_USE enum hspz_status hspz_drain_ask(struct hspz_conn *conn,
                                              const struct hspz_message *message,
                                              struct hspz_writer *w, bool *later,
                                              struct hspz_error *err);
/* Answers the call that waits, if its time is over by `now_ms` or `drained` says that all is done;
 * may close the connection. */
void hspz_drain_tell(struct hspz_conn *conn, uint64_t now_ms, bool drained);
/* Whether the peer is about to ask how it went on: the end waits a little for that. */
bool hspz_drain_expected(const struct hspz_conn *conn, uint64_t now_ms);
/* Answers it with `err`; it is still to be forgotten. */
void hspz_drain_refuse(struct hspz_conn *conn, const struct hspz_error *err);
void hspz_drain_forget(struct hspz_conn *conn);
