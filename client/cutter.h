/* Cuts a discover job into units whose results, one after another, are the job's.
 *
 *   anchors   whole batches of a strand; a unit has their windows' bases and no others
 *   HSPs      whole sequences of a strand (an extension ends where its sequence does, and only HSPs
 *             of one sequence can be nested); the last sequences come first on the minus strand.
 *             Of several reference blocks, units' results go together block by block
 *   others    (seeds, a part of a query, KegAlign's chunks and intervals) are one unit
 *
 * Owns:    nothing; the request's bases stay as long as units do.
 * Threads: one at a time. */
#pragma once

#include "client/hspz.h"

struct hspz_unit_cut {
    struct hspz_span bases; /* of a job of seeds, these */
    enum hspz_strands strands;
    uint64_t positions;   /* its size */
    uint64_t query_shift; /* what is added to query positions, */
    uint32_t batch_shift; /* and to batches */
};

struct hspz_cutter {
    const struct hspz_discover_request *request;
    uint64_t span;
    enum { HSPZ_CUT_NOT, HSPZ_CUT_BATCHES, HSPZ_CUT_SEQUENCES } by;
    enum hspz_strand strand; /* of the next unit */
    uint64_t at;             /* its first window, or sequence, as far from the strand's begin */
    bool over;
};

void hspz_cutter_init(struct hspz_cutter *cutter, const struct hspz_discover_request *request,
                      uint32_t span);
/* The next unit, of about `want` positions; false: there is none left. */
bool hspz_cutter_next(struct hspz_cutter *cutter, uint64_t want, struct hspz_unit_cut *unit);
