/* The dots of a dot plot: counts by cell and strand, in memory that does not grow with them; and as
 * long as they are few, the lines themselves.
 *
 * A match is a line: on the plus strand from (ref begin, query begin) to (ref end, query end), on
 * minus from (ref begin, query end) to (ref end, query begin). It counts once in each cell that it
 * goes through.
 *
 * Units:   places on the axes; x and y of lines are 0 to 1 of what is shown, y upwards.
 * Errors:  HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/plot_axis.h"
#include "protocol/types.h"

#define HSPZ_PLOT_LINES_MOST 20000u

struct hspz_plot_line {
    double x[2], y[2];
};

struct hspz_plot_lines {
    struct hspz_plot_line *items; /* room for HSPZ_PLOT_LINES_MOST */
    uint64_t count;               /* of matches that show: more than are kept, maybe */
};

struct hspz_plot_grid {
    uint64_t ref_begin, ref_end, query_begin, query_end; /* shown */
    size_t columns, rows;
    uint32_t *cells[2]; /* by strand; row 0 at the bottom */
    struct hspz_plot_lines lines[2];
    uint64_t matches; /* all that came */
};

struct hspz_plot_match {
    uint64_t ref_begin, ref_end, query_begin, query_end; /* places, plus strands */
    enum hspz_strand strand;
};

HSPZ_MUST_USE enum hspz_status hspz_plot_grid_init(struct hspz_plot_grid *grid,
                                                   const struct hspz_plot_axis *ref,
                                                   const struct hspz_plot_axis *query,
                                                   size_t columns, size_t rows,
                                                   struct hspz_error *err);
void hspz_plot_grid_fini(struct hspz_plot_grid *grid);
void hspz_plot_grid_add(struct hspz_plot_grid *grid, const struct hspz_plot_match *match);
/* Whether all lines are kept. */
bool hspz_plot_grid_has_lines(const struct hspz_plot_grid *grid);

/* Cells as they are to be seen: opacity 0 to 1 of each strand, `opacity[strand][cell]` of room for
 * all cells. What matches by chance spread evenly is taken as background: only cells above it
 * show, the fuller the more. *background and *most are counts: at no and at full opacity. */
HSPZ_MUST_USE enum hspz_status hspz_plot_grid_shade(const struct hspz_plot_grid *grid,
                                                    float *opacity[2], uint32_t *background,
                                                    uint32_t *most, struct hspz_error *err);
