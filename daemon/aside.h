/* Slow work beside the lanes, in pieces: on libuv's pool, few at a time, so that it neither keeps a
 * lane from jobs nor the pool from indexes. Tenants take turns, and one has but one piece under way
 * at a time; where tenants have no names, as many as there may be.
 *
 * Threads: the loop thread, but for run functions. */
#pragma once

#include "daemon/tenant.h"

#include <stdbool.h>
#include <uv.h>

#define HSPZ_ASIDE_PIECES 2u

/* Embedded in its owner. */
struct hspz_aside_piece {
    struct hspz_aside_piece *next; /* in line */
    void *owner;
    bool in_line;
    struct hspz_tenant *tenant; /* NULL: for nobody, and not in anybody's way */
    /* On the loop, when it is its turn; false: not now, it will be queued again. May be NULL. */
    bool (*begin)(struct hspz_aside_piece *piece);
    void (*run)(struct hspz_aside_piece *piece);  /* on the pool */
    void (*done)(struct hspz_aside_piece *piece); /* on the loop; may queue it again, or free it */
    uv_work_t work;
    struct hspz_aside *aside;
};

struct hspz_aside {
    uv_loop_t *loop;
    struct hspz_aside_piece *first, **last;
    unsigned running; /* of tenants */
    unsigned others;  /* running for nobody */
    bool looking;
    uint64_t turns;
};

void hspz_aside_init(struct hspz_aside *aside, uv_loop_t *loop);
/* Nothing is in line or running. */
bool hspz_aside_idle(const struct hspz_aside *aside);
/* Puts one that is not running in line, if it is not there; `begin` and `run` may follow at once.
 */
void hspz_aside_queue(struct hspz_aside *aside, struct hspz_aside_piece *piece);
/* Takes it out of the line, if it is there. */
void hspz_aside_remove(struct hspz_aside *aside, struct hspz_aside_piece *piece);
