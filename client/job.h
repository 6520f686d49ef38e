/* Inside libhspz: what calls about jobs share. */
#pragma once

#include "client/call.h"

/* One attempt at a job. */
typedef enum hspz_status (*hspz_attempt_fn)(struct hspz_client *client, void *user,
                                            struct hspz_error *err);

/* Attempts until the server has room for the job, as long as `wait_ms` allows. */
HSPZ_MUST_USE enum hspz_status hspz_job_attempt(struct hspz_client *client, hspz_attempt_fn once,
                                                void *user, struct hspz_error *err);

/* After a stop: cancels the job of the call and reads on to its end, so that the connection can be
 * used again. */
void hspz_job_cancel(struct hspz_client *client, const struct hspz_call *stopped);
