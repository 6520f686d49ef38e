/* TLS handshakes in line: each costs a signature, and when many come at once the requests of others
 * are answered between them.
 *
 * A connection stands in line once, when something of its handshake came. Each round of the loop
 * takes from the line for HSPZ_SHAKES_NS, one connection at the least.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/handle.h"

#include <stdbool.h>
#include <uv.h>

#define HSPZ_SHAKES_NS UINT64_C(1000000)

/* Embedded in its owner. */
struct hspz_shaker {
    struct hspz_shaker *prev, *next; /* NULL when not in line */
};

struct hspz_shakes {
    uv_idle_t idle;
    struct hspz_shaker line; /* sentinel of a ring */
    void (*step)(struct hspz_shaker *shaker);
};

/* `step` goes on with a handshake that has left the line. */
HSPZ_MUST_USE enum hspz_status hspz_shakes_init(struct hspz_shakes *shakes, uv_loop_t *loop,
                                                struct hspz_handles *handles,
                                                void (*step)(struct hspz_shaker *shaker),
                                                struct hspz_error *err);
void hspz_shakes_close(struct hspz_shakes *shakes);

/* Does nothing for one that is in line. False: there is no line, it is to be done at once. */
HSPZ_MUST_USE bool hspz_shakes_push(struct hspz_shakes *shakes, struct hspz_shaker *shaker);
/* Does nothing for one that is not in line. */
void hspz_shakes_remove(struct hspz_shaker *shaker);
