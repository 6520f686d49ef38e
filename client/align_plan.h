/* How segments are dealt out to LASTZ processes, so that together they give what one process would.
 *
 * LASTZ extends the segments of a pair of sequences and a strand by falling score. One that lies in
 * an alignment made before is passed over, and an alignment ends where it meets another; nothing
 * else ties them together. So segments that are near each other (client/hsp_cells.h) stay in one
 * piece, and pieces are filled with such components in order of their first segment. Whether
 * alignments of different pieces came near each other after all, is looked at when they are there:
 * then the components they belong to are done again in one new piece.
 *
 * A piece has one group of target sequences, one of query sequences and one strand. What a piece
 * is, depends on the segments, the groups and the two sizes only.
 *
 * Owns:   a copy of the segments, sorted; equal ones once.
 * Errors: HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/align_input.h"
#include "client/hsp_cells.h"
#include "client/segment_file.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_ALIGN_NO_PIECE UINT32_MAX

struct hspz_align_piece {
    uint32_t target_group, query_group;
    bool minus;
    uint64_t cost;   /* about 4 microseconds each */
    size_t segments; /* how many */
    bool over;       /* its segments all belong to newer pieces */
};

struct hspz_align_plan {
    const struct hspz_align_side *target, *query;
    struct hspz_segment *segments; /* by pieces' groups and strand, query, target, target start */
    uint32_t *cell, *piece;        /* of each segment */
    size_t count;
    struct hspz_cells cells;
    struct hspz_align_piece *pieces;
    size_t piece_count, piece_capacity;
};

struct hspz_align_cut {
    uint64_t reach;      /* bases: the side of a cell; 0 keeps all segments of a strand together */
    uint64_t piece_cost; /* a piece is full when it costs so much; 0: by the size of its groups */
    bool by_number;      /* each segment costs 1 */
};

/* The segments' target and query are places in the sides' sequences. */
HSPZ_MUST_USE enum hspz_status
hspz_align_plan_make(const struct hspz_align_side *target, const struct hspz_align_side *query,
                     const struct hspz_segment_list *segments, struct hspz_align_cut cut,
                     struct hspz_align_plan *out, struct hspz_error *err);
void hspz_align_plan_fini(struct hspz_align_plan *plan);

/* After alignments have occupied cells: components that are in more than one piece now become a new
 * piece each. *pieces of them come behind those there were. */
HSPZ_MUST_USE enum hspz_status hspz_align_plan_mend(struct hspz_align_plan *plan, size_t *pieces,
                                                    struct hspz_error *err);

/* The piece whose segments are in the component of a cell; HSPZ_ALIGN_NO_PIECE when none are. */
HSPZ_MUST_USE enum hspz_status hspz_align_plan_owners(struct hspz_align_plan *plan,
                                                      uint32_t **piece_of_component,
                                                      struct hspz_error *err);
