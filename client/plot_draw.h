/* The picture of a dot plot: where what stands, and its drawing.
 *
 * Units:  pixels; see canvas.h.
 * Errors: of canvas.h and plot_grid.h. */
#pragma once

#include "client/canvas.h"
#include "client/plot_axis.h"
#include "client/plot_grid.h"

#define HSPZ_PLOT_CELL_PIXELS 2u
#define HSPZ_COLOUR_PLUS 0x0072b2u  /* blue and vermilion of Okabe and Ito, which also those */
#define HSPZ_COLOUR_MINUS 0xd55e00u /* can tell apart who see few colours, and printers */
#define HSPZ_COLOUR_TEXT 0x222222u
#define HSPZ_COLOUR_LINE 0xc8c8c8u
#define HSPZ_PLOT_FONT 13.0

struct hspz_plot_layout {
    double width, height;         /* of the picture */
    double left, top, wide, high; /* the plot in it: whole cells */
    size_t columns, rows;
    bool ref_upright;            /* names of the reference */
    double ref_names, ref_ticks; /* heights of their rows, 0: none */
    double query_names, query_ticks;
};

/* `height` 0: as many bases to a pixel on both axes, unless one is much longer. The axes show
 * something. */
void hspz_plot_layout_make(const struct hspz_plot_axis *ref, const struct hspz_plot_axis *query,
                           double width, double height, struct hspz_plot_layout *out);

struct hspz_plot_words {
    const char *title;
    const char *noun;        /* "HSPs", "anchors" */
    const char *ref, *query; /* what the axes are */
};

HSPZ_MUST_USE enum hspz_status
hspz_plot_draw(struct hspz_canvas *canvas, const struct hspz_plot_layout *layout,
               const struct hspz_plot_axis *ref, const struct hspz_plot_axis *query,
               const struct hspz_plot_grid *grid, const struct hspz_plot_words *words,
               struct hspz_error *err);

/* A number with its thousands set apart. */
#define HSPZ_PLOT_NUMBER_BYTES 32u
void hspz_plot_number(uint64_t value, char text[HSPZ_PLOT_NUMBER_BYTES]);
