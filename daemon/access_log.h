/* The access log (option `access_log`): a line when a connection was accepted, one when it has said
 * who it is, one for each request that ended, one when it is closed. In them and in those of jobs,
 * `conn` and `id` (`job`) say what belongs together. A peer that is not let in, or broke the
 * protocol, is logged without the option too.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/conn.h"
#include "protocol/message.h"
#include "protocol/status.h"

#include <stdint.h>

void hspz_access_log_accept(const struct hspz_conn *conn);
/* It is answered for the last time, or not at all. */
void hspz_access_log_refuse(const struct hspz_conn *conn, const struct hspz_error *err);
void hspz_access_log_hello(const struct hspz_conn *conn, struct hspz_text client);
/* `method` as it was asked for; `begin_ns` when it came (uv_hrtime). */
void hspz_access_log_request(const struct hspz_conn *conn, uint32_t id, struct hspz_text method,
                             enum hspz_status status, uint64_t begin_ns);
void hspz_access_log_close(const struct hspz_conn *conn, const char *why);
