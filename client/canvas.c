#include "client/canvas.h"

#include <cairo/cairo-svg.h>
#include <cairo/cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONT "sans-serif"
#define TEXT_BYTES 1024u

struct hspz_canvas {
    enum hspz_picture kind;
    struct hspz_output *output;
    cairo_surface_t *surface;
    cairo_t *cairo;
};

static cairo_status_t
write_bytes(void *user, const unsigned char *bytes, unsigned int len)
{
    struct hspz_canvas *canvas = user;
    return hspz_output_write(canvas->output, bytes, len) ? CAIRO_STATUS_SUCCESS
                                                         : CAIRO_STATUS_WRITE_ERROR;
}

static enum hspz_status
say(const struct hspz_canvas *canvas, cairo_status_t problem, struct hspz_error *err)
{
    bool quiet;
    const enum hspz_status status = hspz_output_error(canvas->output, &quiet, err);
    if (status != HSPZ_OK || problem == CAIRO_STATUS_SUCCESS) {
        return status;
    }
    return hspz_error_set(
        err, problem == CAIRO_STATUS_NO_MEMORY ? HSPZ_E_OUT_OF_MEMORY : HSPZ_E_INTERNAL,
        "the picture: %s", cairo_status_to_string(problem));
}

enum hspz_status
hspz_canvas_create(enum hspz_picture kind, double width, double height, struct hspz_output *output,
                   struct hspz_canvas **out, struct hspz_error *err)
{
    struct hspz_canvas *canvas = malloc(sizeof(*canvas));
    if (canvas == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the picture");
    }
    *canvas = (struct hspz_canvas){.kind = kind, .output = output};
    canvas->surface =
        kind == HSPZ_PICTURE_SVG
            ? cairo_svg_surface_create_for_stream(write_bytes, canvas, width, height)
            : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width), (int)ceil(height));
    canvas->cairo = cairo_create(canvas->surface);
    const cairo_status_t problem = cairo_status(canvas->cairo);
    if (problem != CAIRO_STATUS_SUCCESS) {
        const enum hspz_status status = say(canvas, problem, err);
        hspz_canvas_destroy(&canvas);
        return status;
    }
    hspz_canvas_fill(canvas, 0xffffff, 0, 0, ceil(width), ceil(height));
    *out = canvas;
    return HSPZ_OK;
}

void
hspz_canvas_destroy(struct hspz_canvas **canvas)
{
    if (*canvas != NULL) {
        cairo_destroy((*canvas)->cairo);
        cairo_surface_destroy((*canvas)->surface); /* an SVG may still be written here */
        free(*canvas);
        *canvas = NULL;
    }
}

static void
set_colour(cairo_t *cairo, uint32_t colour, double opacity)
{
    cairo_set_source_rgba(cairo, (double)(colour >> 16 & 255) / 255,
                          (double)(colour >> 8 & 255) / 255, (double)(colour & 255) / 255, opacity);
}

void
hspz_canvas_fill(struct hspz_canvas *canvas, uint32_t colour, double x, double y, double width,
                 double height)
{
    set_colour(canvas->cairo, colour, 1);
    cairo_rectangle(canvas->cairo, x, y, width, height);
    cairo_fill(canvas->cairo);
}

static void
stroke(cairo_t *cairo, uint32_t colour, double opacity, double width)
{
    set_colour(cairo, colour, opacity);
    cairo_set_line_width(cairo, width);
    cairo_stroke(cairo);
}

void
hspz_canvas_lines(struct hspz_canvas *canvas, uint32_t colour, double opacity, double width,
                  const double *ends, size_t count)
{
    cairo_set_line_cap(canvas->cairo, CAIRO_LINE_CAP_ROUND); /* a short line is a dot */
    for (size_t i = 0; i < count; i++) {
        cairo_move_to(canvas->cairo, ends[4 * i], ends[4 * i + 1]);
        cairo_line_to(canvas->cairo, ends[4 * i + 2], ends[4 * i + 3]);
    }
    stroke(canvas->cairo, colour, opacity, width);
    cairo_set_line_cap(canvas->cairo, CAIRO_LINE_CAP_BUTT);
}

void
hspz_canvas_line(struct hspz_canvas *canvas, uint32_t colour, double width, double x0, double y0,
                 double x1, double y1)
{
    cairo_move_to(canvas->cairo, x0, y0);
    cairo_line_to(canvas->cairo, x1, y1);
    stroke(canvas->cairo, colour, 1, width);
}

void
hspz_canvas_path(struct hspz_canvas *canvas, uint32_t colour, double width, const double *points,
                 size_t count)
{
    cairo_set_line_join(canvas->cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_new_path(canvas->cairo); /* not from where a text ended */
    for (size_t i = 0; i < count; i++) {
        cairo_line_to(canvas->cairo, points[2 * i], points[2 * i + 1]);
    }
    stroke(canvas->cairo, colour, 1, width);
}

void
hspz_canvas_frame(struct hspz_canvas *canvas, uint32_t colour, double width, double x, double y,
                  double wide, double high)
{
    cairo_rectangle(canvas->cairo, x, y, wide, high);
    stroke(canvas->cairo, colour, 1, width);
}

void
hspz_canvas_clip(struct hspz_canvas *canvas, double x, double y, double width, double height)
{
    cairo_save(canvas->cairo);
    cairo_rectangle(canvas->cairo, x, y, width, height);
    cairo_clip(canvas->cairo);
}

void
hspz_canvas_unclip(struct hspz_canvas *canvas)
{
    cairo_restore(canvas->cairo);
}

/* Length of the UTF-8 character at `text`, 0 when it is none (cut, overlong, surrogate, too large).
 */
static size_t
utf8_len(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t len = text[0] < 0x80   ? 1
                       : text[0] < 0xc2 ? 0
                       : text[0] < 0xe0 ? 2
                       : text[0] < 0xf0 ? 3
                       : text[0] < 0xf5 ? 4
                                        : 0;
    uint32_t code = len > 1 ? text[0] & (0x7fu >> len) : text[0];
    for (size_t i = 1; i < len; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3f);
    }
    return len > 0 && code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
               ? len
               : 0;
}

/* As cairo takes it: UTF-8 without control characters. */
static void
make_text(const char *text, char out[TEXT_BYTES])
{
    const unsigned char *from = (const unsigned char *)text;
    bool utf8 = true;
    for (size_t len, at = 0; utf8 && from[at] != 0; at += len) {
        len = utf8_len(from + at);
        utf8 = len > 0;
    }
    size_t used = 0;
    while (*from != 0 && used + 5 < TEXT_BYTES) {
        if (*from < 0x20 || *from == 0x7f) {
            out[used++] = '?';
            from++;
        } else if (utf8) {
            const size_t len = utf8_len(from);
            memcpy(out + used, from, len);
            used += len;
            from += len;
        } else if (*from < 0x80) {
            out[used++] = (char)*from++;
        } else {
            out[used++] = (char)(0xc0 | *from >> 6);
            out[used++] = (char)(0x80 | (*from++ & 0x3f));
        }
    }
    out[used] = '\0';
}

static void
set_font(cairo_t *cairo, double size, bool bold)
{
    cairo_select_font_face(cairo, FONT, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
}

double
hspz_canvas_text_width(struct hspz_canvas *canvas, double size, bool bold, const char *text)
{
    char clean[TEXT_BYTES];
    cairo_text_extents_t extents;
    make_text(text, clean);
    set_font(canvas->cairo, size, bold);
    cairo_text_extents(canvas->cairo, clean, &extents);
    return extents.x_advance;
}

void
hspz_canvas_text(struct hspz_canvas *canvas, uint32_t colour, double size, bool bold,
                 enum hspz_anchor_side side, bool upright, double x, double y, const char *text)
{
    char clean[TEXT_BYTES];
    const double width = hspz_canvas_text_width(canvas, size, bold, text);
    make_text(text, clean);
    cairo_save(canvas->cairo);
    cairo_translate(canvas->cairo, x, y);
    if (upright) {
        cairo_rotate(canvas->cairo, -acos(0));
    }
    /* Capitals are about 0.72 of a font's size high. */
    cairo_move_to(canvas->cairo,
                  side == HSPZ_SIDE_LEFT     ? 0
                  : side == HSPZ_SIDE_MIDDLE ? -width / 2
                                             : -width,
                  0.36 * size);
    set_colour(canvas->cairo, colour, 1);
    cairo_show_text(canvas->cairo, clean);
    cairo_restore(canvas->cairo);
}

void
hspz_canvas_image(struct hspz_canvas *canvas, const uint32_t *cells, size_t columns, size_t rows,
                  double x, double y, double width, double height)
{
    cairo_surface_t *image =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)columns, (int)rows);
    if (cairo_surface_status(image) == CAIRO_STATUS_SUCCESS) {
        cairo_surface_flush(image);
        unsigned char *to = cairo_image_surface_get_data(image);
        const size_t stride = (size_t)cairo_image_surface_get_stride(image);
        for (size_t row = 0; row < rows; row++) {
            memcpy(to + row * stride, cells + row * columns, columns * sizeof(*cells));
        }
        cairo_surface_mark_dirty(image);
    }
    cairo_save(canvas->cairo);
    cairo_translate(canvas->cairo, x, y);
    cairo_scale(canvas->cairo, width / (double)columns, height / (double)rows);
    cairo_set_source_surface(canvas->cairo, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(canvas->cairo), CAIRO_FILTER_NEAREST);
    cairo_rectangle(canvas->cairo, 0, 0, (double)columns, (double)rows);
    cairo_fill(canvas->cairo);
    cairo_restore(canvas->cairo);
    cairo_surface_destroy(image);
}

enum hspz_status
hspz_canvas_write(struct hspz_canvas *canvas, struct hspz_error *err)
{
    cairo_status_t problem = cairo_status(canvas->cairo);
    if (problem == CAIRO_STATUS_SUCCESS && canvas->kind == HSPZ_PICTURE_PNG) {
        problem = cairo_surface_write_to_png_stream(canvas->surface, write_bytes, canvas);
    } else if (canvas->kind == HSPZ_PICTURE_SVG) {
        cairo_surface_finish(canvas->surface);
        if (problem == CAIRO_STATUS_SUCCESS) {
            problem = cairo_surface_status(canvas->surface);
        }
    }
    return say(canvas, problem, err);
}
