/* Work that any thread may do, in steps that are finished in the order they were given.
 *
 *   give      a job on a line; waits while many are queued
 *   work      on any thread, at the same time as others (the caller's function)
 *   finish    on any thread, one job of a line at a time, in the order of its gives
 *   drain     waits until nothing is left
 *
 * Owns:    its threads. A job is the caller's again (in `finish`, which is called for each exactly
 *          once, also after a failure, then with failed = true, to free it).
 * Threads: give and drain from one thread.
 * Errors:  the first failure of work or finish is kept, and what give and drain return from then
 *          on; later jobs are not worked on. HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_ordered;

/* Jobs of one line are finished in order; those of different lines at the same time. Zeroed at
 * first, alive until drained. */
struct hspz_ordered_line {
    uint64_t given, done;
};

struct hspz_ordered_ops {
    enum hspz_status (*work)(void *user, void *job, struct hspz_error *err);
    enum hspz_status (*finish)(void *user, void *job, bool failed, struct hspz_error *err);
    void *user;
};

/* `threads` 0: as many as this process may use, at most 16. */
HSPZ_MUST_USE enum hspz_status hspz_ordered_create(const struct hspz_ordered_ops *ops,
                                                   unsigned threads, struct hspz_ordered **out,
                                                   struct hspz_error *err);
/* Takes the job over, whatever is returned. */
HSPZ_MUST_USE enum hspz_status hspz_ordered_give(struct hspz_ordered *ordered,
                                                 struct hspz_ordered_line *line, void *job,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_ordered_drain(struct hspz_ordered *ordered,
                                                  struct hspz_error *err);
/* Drains too. */
void hspz_ordered_destroy(struct hspz_ordered **ordered);
