/* Which HSPs and alignments lie near each other: the plane of a pair of sequences and a strand is
 * cut into square cells, and occupied cells that touch, be it at a corner, are one component. So
 * what lies in different components is at least a cell apart in one of the sequences, and what is
 * at most a cell apart in both is in one component.
 *
 * Errors: HSPZ_E_OUT_OF_MEMORY; then only fini. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_cell {
    uint32_t target, query; /* 2 * query + strand */
    uint32_t x, y;
    uint32_t parent;
};

struct hspz_cells {
    uint64_t side; /* bases of a cell */
    struct hspz_cell *cells;
    size_t count, capacity;
    uint32_t *slots;
    size_t slot_count;
};

/* A plane: the strand of a query against a target. */
struct hspz_plane {
    uint32_t target, query;
    bool minus;
};

void hspz_cells_init(struct hspz_cells *cells, uint64_t side);
void hspz_cells_fini(struct hspz_cells *cells);

/* Occupies the cells of `len` bases along a diagonal (at least those of its ends, and one every
 * quarter of a cell between); *cell is one of them. */
HSPZ_MUST_USE enum hspz_status hspz_cells_occupy(struct hspz_cells *cells, struct hspz_plane plane,
                                                 uint64_t target_start, uint64_t query_start,
                                                 uint64_t len, uint32_t *cell);
void hspz_cells_unite(struct hspz_cells *cells, uint32_t a, uint32_t b);
/* The component of a cell, by the number of one of its cells. */
uint32_t hspz_cells_find(struct hspz_cells *cells, uint32_t cell);
