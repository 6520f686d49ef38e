/* The HTTP listener of `metrics`: GET /metrics for Prometheus, GET /healthz for whoever starts
 * things anew (200 "ready", else 503 and the state).
 *
 * It has a thread of its own, which touches nothing of the loop's: for each request it asks the
 * loop for a page and waits, ANSWER_MS at most. A loop that does not answer is not healthy.
 *
 * Threads: the loop thread. */
#pragma once

#include "daemon/listener.h"
#include "daemon/service.h"
#include "protocol/status.h"

struct hspz_http;

/* Binds HOST:PORT (loopback, unless `insecure`), as hspz_listeners_bind. HSPZ_E_UNSUPPORTED in a
 * build without it. */
HSPZ_MUST_USE enum hspz_status hspz_http_bind(const struct hspz_config *config,
                                              struct hspz_log *log, struct hspz_http **out,
                                              struct hspz_error *err);
/* Begins to answer. */
HSPZ_MUST_USE enum hspz_status hspz_http_start(struct hspz_http *http, struct hspz_service *service,
                                               struct hspz_error *err);
/* Ends the thread; before the mailbox is drained for the last time. NULL is fine. */
void hspz_http_stop(struct hspz_http *http);
void hspz_http_destroy(struct hspz_http **http);
