/* Discovery that also knows how many hits each seed has.
 *
 * Anchors name a position of the query, which has several seeds with transitions. So the seeds are
 * made here, in the order a server makes them, and sent batch by batch, strand by strand, with
 * their number in place of their position: what comes back tells the seed. Parts are handed on as
 * those of the same query, their records at the same places in the same order; digest and totals
 * are per call.
 *
 * Owns:    room for a batch.
 * Errors:  of hspz_client_discover; HSPZ_E_BAD_PEER for an anchor of no seed of its chunk. */
#pragma once

#include "client/hit_stats.h"
#include "client/hspz.h"
#include "engine/shape.h"

struct hspz_hit_run {
    struct hspz_client *client;
    struct hspz_shape shape;
    struct hspz_hit_stats *stats;
    uint64_t *seeds;     /* of the batch, as sent */
    uint32_t *positions; /* of their windows, each */
    uint32_t *launch;    /* hits in the chunk under way */
    uint64_t *totals;    /* hits of the batch */
    uint64_t *anchors;   /* a part */
    uint64_t calls;
    int64_t begun_ms; /* when the query began: deadlines count from there */
};

/* `shape` as the index describes it. */
HSPZ_MUST_USE enum hspz_status hspz_hit_run_init(struct hspz_hit_run *run,
                                                 struct hspz_client *client, const char *shape,
                                                 struct hspz_hit_stats *stats,
                                                 struct hspz_error *err);
void hspz_hit_run_fini(struct hspz_hit_run *run);

/* All hits of request->bases, as hspz_client_discover gives them; `part` may be NULL. *hit_limit is
 * what the request has left of it. */
HSPZ_MUST_USE enum hspz_status hspz_hit_run_query(struct hspz_hit_run *run,
                                                  const struct hspz_discover_request *request,
                                                  uint64_t *hit_limit, hspz_part_fn part,
                                                  void *user, struct hspz_error *err);
