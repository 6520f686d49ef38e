/* Between discover.c, on the loop, and discover_work.c, on the worker. */
#pragma once

#include "daemon/discover.h"

extern const struct hspz_conn_job_ops hspz_discover_ops;

struct hspz_discover *hspz_discover_of_task(struct hspz_task *task);
struct hspz_service *hspz_discover_service(const struct hspz_discover *d);
/* One use less; NULLs it. */
void hspz_discover_bytes_release(struct hspz_discover_bytes **bytes);

/* On the worker: a turn (which begins the job if need be), a park, the end of a begun job. */
void hspz_discover_run_turn(struct hspz_task *task, struct hspz_worker *worker);
void hspz_discover_run_park(struct hspz_task *task, struct hspz_worker *worker);
void hspz_discover_run_end(struct hspz_task *task, struct hspz_worker *worker);
/* Fires on the loop for each part of a turn. */
void hspz_discover_on_part(struct hspz_event *event);
/* Before the first turn: whether its index is there, and the one it was made for. */
HSPZ_MUST_USE enum hspz_status hspz_discover_check(struct hspz_discover *d);
/* As the head: finds its mask, if it names one. HSPZ_E_UNKNOWN_FILTER, HSPZ_E_BAD_REQUEST,
 * HSPZ_E_UNSUPPORTED, in d->err too. */
HSPZ_MUST_USE enum hspz_status hspz_discover_find_mask(struct hspz_discover *d);
/* HSPZ_E_TOO_LARGE: it needs more scratch memory than all jobs together may have. */
HSPZ_MUST_USE enum hspz_status hspz_discover_check_bytes(const struct hspz_discover *d,
                                                         const struct hspz_job_bytes *bytes,
                                                         struct hspz_error *err);
/* Sets how the job ends; by whoever has it. */
void hspz_discover_fail(struct hspz_discover *d, enum hspz_status status);
