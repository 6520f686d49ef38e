/* Handles embedded in an owner, counted, and closed by one callback; and libuv's errors as
 * statuses.
 *
 * A handle's `data` is the counter of its owner. When the last handle of a counter is closed,
 * `all_closed` runs (the owner may free itself there); the order of closing never matters.
 *
 * Threads: the loop thread only. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <uv.h>

struct hspz_handles {
    void *owner;
    unsigned open; /* initialised and not yet reported closed */
    void (*all_closed)(void *owner);
};

void hspz_handles_init(struct hspz_handles *handles, void *owner, void (*all_closed)(void *owner));
/* After a successful uv_*_init. */
void hspz_handles_add(struct hspz_handles *handles, uv_handle_t *handle);
void *hspz_handle_owner(const uv_handle_t *handle);
/* A handle that was added; closing twice is fine. */
void hspz_handle_close(uv_handle_t *handle);

/* The status of a negative libuv result. */
enum hspz_status hspz_uv_status(int result);
/* Fills *err with "what: libuv's text" and returns the status. */
enum hspz_status hspz_uv_error(struct hspz_error *err, int result, const char *what);
