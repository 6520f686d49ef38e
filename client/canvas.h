/* A picture to draw on, as PNG or SVG.
 *
 * Owns:    the picture. Errors of drawing are kept until hspz_canvas_write says them.
 * Units:   pixels of a PNG, x rightwards, y downwards from the top left; colours are 0xRRGGBB.
 * Errors:  HSPZ_E_OUT_OF_MEMORY, HSPZ_E_IO. */
#pragma once

#include "client/output.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_canvas;

enum hspz_picture { HSPZ_PICTURE_PNG, HSPZ_PICTURE_SVG };
/* Where a text stands: its left end, middle or right end at the point, and that end's middle
 * height. */
enum hspz_anchor_side { HSPZ_SIDE_LEFT, HSPZ_SIDE_MIDDLE, HSPZ_SIDE_RIGHT };

HSPZ_MUST_USE enum hspz_status hspz_canvas_create(enum hspz_picture kind, double width,
                                                  double height, struct hspz_output *output,
                                                  struct hspz_canvas **out, struct hspz_error *err);
void hspz_canvas_destroy(struct hspz_canvas **canvas);

void hspz_canvas_fill(struct hspz_canvas *canvas, uint32_t colour, double x, double y, double width,
                      double height);
/* `count` lines, each x0 y0 x1 y1. */
void hspz_canvas_lines(struct hspz_canvas *canvas, uint32_t colour, double opacity, double width,
                       const double *ends, size_t count);
void hspz_canvas_line(struct hspz_canvas *canvas, uint32_t colour, double width, double x0,
                      double y0, double x1, double y1);
/* From point to point, x y each. */
void hspz_canvas_path(struct hspz_canvas *canvas, uint32_t colour, double width,
                      const double *points, size_t count);
void hspz_canvas_frame(struct hspz_canvas *canvas, uint32_t colour, double width, double x,
                       double y, double wide, double high);
/* What is drawn until hspz_canvas_unclip shows only inside. */
void hspz_canvas_clip(struct hspz_canvas *canvas, double x, double y, double width, double height);
void hspz_canvas_unclip(struct hspz_canvas *canvas);
/* Bytes that are no UTF-8 are taken as Latin-1. Upright: read from below. */
void hspz_canvas_text(struct hspz_canvas *canvas, uint32_t colour, double size, bool bold,
                      enum hspz_anchor_side side, bool upright, double x, double y,
                      const char *text);
double hspz_canvas_text_width(struct hspz_canvas *canvas, double size, bool bold, const char *text);
/* Cells of 0xRRGGBB, from the top row on, over this rectangle; their borders stay sharp. */
void hspz_canvas_image(struct hspz_canvas *canvas, const uint32_t *cells, size_t columns,
                       size_t rows, double x, double y, double width, double height);

/* All of it to the output, which is not committed. */
HSPZ_MUST_USE enum hspz_status hspz_canvas_write(struct hspz_canvas *canvas,
                                                 struct hspz_error *err);
