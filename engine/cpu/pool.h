/* A lane's helper threads: one call runs a set of tasks on all of them and the caller.
 *
 * Tasks are handed out one by one, so uneven ones balance. With one thread, or one task, everything
 * runs on the caller.
 * Threads: hspz_pool_run from one thread at a time.
 * Errors:  a thread that cannot be started is done without; only memory can fail. */
#pragma once

#include "protocol/status.h"

#include <stddef.h>

struct hspz_pool;

typedef void (*hspz_pool_fn)(void *user, size_t task);

HSPZ_MUST_USE enum hspz_status hspz_pool_create(unsigned threads, struct hspz_pool **out);
void hspz_pool_destroy(struct hspz_pool **pool);

/* Threads that take part, the caller included. */
unsigned hspz_pool_threads(const struct hspz_pool *pool);

/* Returns when fn(user, 0 .. tasks - 1) have all returned. */
void hspz_pool_run(struct hspz_pool *pool, hspz_pool_fn fn, void *user, size_t tasks);

/* Processors this process may use, at least 1. */
unsigned hspz_pool_processors(void);
