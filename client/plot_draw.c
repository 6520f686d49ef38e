#include "client/plot_draw.h"

#include "client/plot_labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE HSPZ_PLOT_FONT
#define SIDE 46.0       /* right of the plot: half a tick's label */
#define HEAD 62.0       /* title and legend */
#define AXIS_TITLE 30.0 /* what an axis is */
#define TICK_ROW 24.0   /* with the mark */
#define TICK_COLUMN 66.0
#define NAME_ROW 20.0
#define NAME_APART (SIZE + 3) /* from line to line */
#define TICKS_APART_X 85.0
#define TICKS_APART_Y 60.0
#define CHAR_PIXELS 7.4 /* of the widest usual ones */
#define TITLE_CHARS 56u /* of the one sequence of an axis */
#define LEAST_BORDER_PIXELS 7.0
#define LINE_PIXELS 1.8

/* Pixels of the longest name as it will stand. */
static double
longest_name(const struct hspz_plot_axis *axis)
{
    size_t longest = 0;
    uint64_t begin, end;
    for (uint32_t i = 0; i < axis->names.count; i++) {
        if (hspz_plot_axis_part(axis, i, &begin, &end)) {
            const size_t len = strlen(hspz_names_get(&axis->names, i));
            longest = len > longest ? len : longest;
        }
    }
    longest = longest < HSPZ_PLOT_NAME_CHARS ? longest : HSPZ_PLOT_NAME_CHARS;
    return ceil(CHAR_PIXELS * (double)longest) + 8; /* whole pixels, for sharp frames */
}

/* Whether each name of the sequences that have ticks' room fits under its own sequence. */
static bool
names_fit(const struct hspz_plot_axis *axis, double pixels)
{
    const double scale = pixels / (double)(axis->end - axis->begin);
    uint64_t begin, end;
    for (uint32_t i = 0; i < axis->names.count; i++) {
        const size_t len = strlen(hspz_names_get(&axis->names, i));
        if (hspz_plot_axis_part(axis, i, &begin, &end) &&
            scale * (double)(end - begin) <
                CHAR_PIXELS * (double)(len < HSPZ_PLOT_NAME_CHARS ? len : HSPZ_PLOT_NAME_CHARS)) {
            return false;
        }
    }
    return true;
}

static double
whole_cells(double pixels)
{
    const double cells = floor(pixels / HSPZ_PLOT_CELL_PIXELS);
    return (cells < 50 ? 50 : cells) * HSPZ_PLOT_CELL_PIXELS;
}

void
hspz_plot_layout_make(const struct hspz_plot_axis *ref, const struct hspz_plot_axis *query,
                      double width, double height, struct hspz_plot_layout *out)
{
    struct hspz_plot_layout l = {.top = HEAD};
    const double bases_wide = (double)(ref->end - ref->begin);
    const double bases_high = (double)(query->end - query->begin);
    const bool many = hspz_plot_shown(ref) > 1;
    l.query_names = hspz_plot_shown(query) > 1 ? longest_name(query) : 0;
    l.query_ticks = TICK_COLUMN;
    l.left = AXIS_TITLE + l.query_names + l.query_ticks;
    l.wide = whole_cells(width - l.left - SIDE);
    double ratio = bases_high / bases_wide;
    ratio = ratio < 0.4 ? 0.4 : ratio > 1.6 ? 1.6 : ratio;
    l.high = whole_cells(l.wide * ratio);
    l.ref_upright = many && !names_fit(ref, l.wide);
    l.ref_names = !many ? 0 : l.ref_upright ? longest_name(ref) : NAME_ROW;
    l.ref_ticks = hspz_plot_has_ticks(ref, l.wide) ? TICK_ROW : 6;
    const double below = l.ref_ticks + l.ref_names + AXIS_TITLE;
    if (height > 0) {
        l.high = whole_cells(height - HEAD - below);
    }
    if (!hspz_plot_has_ticks(query, l.high)) {
        l.query_ticks = 6;
        l.left = AXIS_TITLE + l.query_names + l.query_ticks;
        l.wide = whole_cells(width - l.left - SIDE);
    }
    l.columns = (size_t)l.wide / HSPZ_PLOT_CELL_PIXELS;
    l.rows = (size_t)l.high / HSPZ_PLOT_CELL_PIXELS;
    l.width = fmax(width, l.left + l.wide + SIDE);
    l.height = fmax(height, HEAD + l.high + below);
    *out = l;
}

void
hspz_plot_number(uint64_t value, char text[HSPZ_PLOT_NUMBER_BYTES])
{
    char digits[24];
    const int len = snprintf(digits, sizeof(digits), "%" PRIu64, value);
    size_t used = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
}

/* One channel of a cell's colour: white seen through both strands' colours. */
static uint32_t
channel(uint32_t plus, uint32_t minus, float plus_opacity, float minus_opacity, unsigned shift)
{
    const double p = 1 - (double)plus_opacity * (1 - (double)(plus >> shift & 255) / 255);
    const double m = 1 - (double)minus_opacity * (1 - (double)(minus >> shift & 255) / 255);
    return (uint32_t)(255 * p * m + 0.5) << shift;
}

static uint32_t
blend(float plus_opacity, float minus_opacity)
{
    uint32_t colour = 0;
    for (unsigned shift = 0; shift < 24; shift += 8) {
        colour |= channel(HSPZ_COLOUR_PLUS, HSPZ_COLOUR_MINUS, plus_opacity, minus_opacity, shift);
    }
    return colour;
}

static enum hspz_status
draw_cells(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
           const struct hspz_plot_grid *grid, uint32_t *background, uint32_t *most,
           struct hspz_error *err)
{
    const size_t count = grid->columns * grid->rows;
    float *opacity[2] = {malloc(count * sizeof(float)), malloc(count * sizeof(float))};
    uint32_t *cells = malloc(count * sizeof(*cells));
    enum hspz_status status = HSPZ_E_OUT_OF_MEMORY;
    if (opacity[0] != NULL && opacity[1] != NULL && cells != NULL) {
        status = hspz_plot_grid_shade(grid, opacity, background, most, err);
    } else {
        hspz_error_set(err, status, "no memory for the picture");
    }
    if (status == HSPZ_OK) {
        for (size_t row = 0; row < grid->rows; row++) {
            for (size_t column = 0; column < grid->columns; column++) {
                const size_t from = row * grid->columns + column;
                cells[(grid->rows - 1 - row) * grid->columns + column] =
                    blend(opacity[0][from], opacity[1][from]);
            }
        }
        hspz_canvas_image(canvas, cells, grid->columns, grid->rows, l->left, l->top, l->wide,
                          l->high);
    }
    free(opacity[0]);
    free(opacity[1]);
    free(cells);
    return status;
}

static enum hspz_status
draw_lines(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
           const struct hspz_plot_lines *lines, uint32_t colour, struct hspz_error *err)
{
    double *ends = malloc((lines->count + 1) * 4 * sizeof(*ends));
    if (ends == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the picture");
    }
    for (size_t i = 0; i < lines->count; i++) {
        const struct hspz_plot_line *line = &lines->items[i];
        for (size_t e = 0; e < 2; e++) {
            ends[4 * i + 2 * e] = l->left + line->x[e] * l->wide;
            ends[4 * i + 2 * e + 1] = l->top + (1 - line->y[e]) * l->high;
        }
    }
    if (lines->count > 0) {
        hspz_canvas_lines(canvas, colour, 1, LINE_PIXELS, ends, (size_t)lines->count);
    }
    free(ends);
    return HSPZ_OK;
}

/* Borders between sequences, where they are not too near each other to tell anything. */
static void
draw_borders(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
             const struct hspz_plot_axis *axis, bool is_ref)
{
    const double pixels = is_ref ? l->wide : l->high;
    const double scale = pixels / (double)(axis->end - axis->begin);
    if (pixels / (double)hspz_plot_shown(axis) < LEAST_BORDER_PIXELS) {
        return;
    }
    for (size_t i = 1; i < axis->names.count; i++) {
        if (axis->begins[i] <= axis->begin || axis->begins[i] >= axis->end) {
            continue;
        }
        const double at = scale * (double)(axis->begins[i] - axis->begin);
        const double x = floor(l->left + at) + 0.5;
        const double y = floor(l->top + l->high - at) + 0.5;
        if (is_ref) {
            hspz_canvas_line(canvas, HSPZ_COLOUR_LINE, 1, x, l->top, x, l->top + l->high);
        } else {
            hspz_canvas_line(canvas, HSPZ_COLOUR_LINE, 1, l->left, y, l->left + l->wide, y);
        }
    }
}

static void
draw_ticks(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
           const struct hspz_plot_axis *axis, bool is_ref)
{
    const double bottom = l->top + l->high;
    for (uint32_t i = 0; i < axis->names.count; i++) {
        struct hspz_plot_tick tick;
        uint64_t at = 0;
        while (hspz_plot_tick_next(axis, i, is_ref ? l->wide : l->high,
                                   is_ref ? TICKS_APART_X : TICKS_APART_Y, &at, &tick)) {
            if (is_ref) {
                const double x = l->left + tick.at;
                hspz_canvas_line(canvas, HSPZ_COLOUR_TEXT, 1, x, bottom, x, bottom + 5);
                hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_MIDDLE, false, x,
                                 bottom + 14, tick.text);
            } else {
                const double y = bottom - tick.at;
                hspz_canvas_line(canvas, HSPZ_COLOUR_TEXT, 1, l->left - 5, y, l->left, y);
                hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_RIGHT, false,
                                 l->left - 8, y, tick.text);
            }
        }
    }
}

static enum hspz_status
draw_names(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
           const struct hspz_plot_axis *axis, bool is_ref, size_t *named, struct hspz_error *err)
{
    struct hspz_plot_names names;
    const enum hspz_status status =
        hspz_plot_names_pick(axis, is_ref ? l->wide : l->high, NAME_APART, &names, err);
    if (status != HSPZ_OK) {
        return status;
    }
    for (size_t i = 0; i < names.count; i++) {
        char text[HSPZ_PLOT_NAME_BYTES];
        hspz_plot_name_short(hspz_names_get(&axis->names, names.items[i].number),
                             HSPZ_PLOT_NAME_CHARS, text);
        const double x = is_ref ? l->left + names.items[i].at : l->left - l->query_ticks - 2;
        const double y = is_ref ? l->top + l->high + l->ref_ticks + (l->ref_upright ? 0 : 8)
                                : l->top + l->high - names.items[i].at;
        hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false,
                         is_ref && !l->ref_upright ? HSPZ_SIDE_MIDDLE : HSPZ_SIDE_RIGHT,
                         is_ref && l->ref_upright, x, y, text);
    }
    *named = names.count;
    hspz_plot_names_fini(&names);
    return HSPZ_OK;
}

/* As much of a text as fits into `room` pixels; nothing when that is not much. */
static void
draw_fitted(struct hspz_canvas *canvas, double size, bool bold, enum hspz_anchor_side side,
            bool upright, double x, double y, double room, const char *text)
{
    static const char dots[] = "\xe2\x80\xa6"; /* an ellipsis */
    char cut[256];
    size_t len =
        strlen(text) < sizeof(cut) - sizeof(dots) ? strlen(text) : sizeof(cut) - sizeof(dots);
    snprintf(cut, sizeof(cut), "%.*s", (int)len, text);
    while (len > 0 && hspz_canvas_text_width(canvas, size, bold, cut) > room) {
        len--;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
            len--; /* no character of several bytes is cut */
        }
        snprintf(cut, sizeof(cut), "%.*s%s", (int)len, text, dots);
    }
    if (len >= 4 || len == strlen(text)) {
        hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, size, bold, side, upright, x, y, cut);
    }
}

/* What an axis is: the one sequence, or how many, and what of it. */
static enum hspz_status
draw_axis(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
          const struct hspz_plot_axis *axis, const char *what, bool is_ref, struct hspz_error *err)
{
    const size_t shown = hspz_plot_shown(axis);
    size_t named = 0;
    draw_ticks(canvas, l, axis, is_ref);
    if (shown > 1) {
        const enum hspz_status status = draw_names(canvas, l, axis, is_ref, &named, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    char bases[32], text[256], some[32] = "";
    hspz_plot_bases(axis->end - axis->begin, bases);
    if (shown > 1) {
        if (named < shown) {
            snprintf(some, sizeof(some), ", %zu named", named);
        }
        snprintf(text, sizeof(text), "%.120s: %zu sequences%s, %s", what, shown, some, bases);
    } else {
        uint64_t begin = 0, end = 0;
        uint32_t one = 0;
        while (!hspz_plot_axis_part(axis, one, &begin, &end)) {
            one++;
        }
        char name[HSPZ_PLOT_NAME_BYTES];
        hspz_plot_name_short(hspz_names_get(&axis->names, one), TITLE_CHARS, name);
        snprintf(text, sizeof(text), "%.80s: %s, %s", what, name, bases);
    }
    const double x = is_ref ? l->left + l->wide / 2 : AXIS_TITLE / 2;
    const double y = is_ref ? l->top + l->high + l->ref_ticks + l->ref_names + AXIS_TITLE / 2
                            : l->top + l->high / 2;
    const double middle = is_ref ? x : y, all = is_ref ? l->width : l->height;
    const double room = 2 * (middle < all - middle ? middle : all - middle) - 8;
    draw_fitted(canvas, SIZE, true, HSPZ_SIDE_MIDDLE, !is_ref, x, y, room, text);
    return HSPZ_OK;
}

/* From the right: a swatch and its words. Returns where the next may end. */
static double
draw_key(struct hspz_canvas *canvas, double right, double y, uint32_t colour, const char *text)
{
    const double wide = hspz_canvas_text_width(canvas, SIZE, false, text);
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_LEFT, false, right - wide, y,
                     text);
    hspz_canvas_fill(canvas, colour, right - wide - 30, y - 3, 24, 6);
    return right - wide - 50;
}

/* Title, how many matches, colours, and for cells what shades stand for. */
static void
draw_head(struct hspz_canvas *canvas, const struct hspz_plot_layout *l,
          const struct hspz_plot_grid *grid, const struct hspz_plot_words *words, bool cells,
          uint32_t background, uint32_t most)
{
    char number[HSPZ_PLOT_NUMBER_BYTES], text[192];
    const uint64_t shown = grid->lines[0].count + grid->lines[1].count;
    draw_fitted(canvas, SIZE + 3, true, HSPZ_SIDE_LEFT, false, l->left, 20, l->width - l->left - 8,
                words->title);
    hspz_plot_number(grid->lines[1].count, number);
    snprintf(text, sizeof(text), "%s on minus", number);
    double right = draw_key(canvas, l->left + l->wide, 46, HSPZ_COLOUR_MINUS, text);
    hspz_plot_number(grid->lines[0].count, number);
    snprintf(text, sizeof(text), "%s on plus", number);
    right = draw_key(canvas, right, 46, HSPZ_COLOUR_PLUS, text);
    hspz_plot_number(grid->matches, number);
    size_t used = (size_t)snprintf(text, sizeof(text), "%s %s", number, words->noun);
    if (shown < grid->matches) {
        hspz_plot_number(shown, number);
        used += (size_t)snprintf(text + used, sizeof(text) - used, ", %s in this range", number);
    }
    if (cells) {
        snprintf(text + used, sizeof(text) - used,
                 "; shades: %" PRIu32 " to %" PRIu32 " in a %ux%u pixel cell%s", background + 1,
                 most, HSPZ_PLOT_CELL_PIXELS, HSPZ_PLOT_CELL_PIXELS,
                 background > 0 ? ", fewer are chance" : "");
    }
    draw_fitted(canvas, SIZE, false, HSPZ_SIDE_LEFT, false, l->left, 46, right - l->left, text);
}

enum hspz_status
hspz_plot_draw(struct hspz_canvas *canvas, const struct hspz_plot_layout *layout,
               const struct hspz_plot_axis *ref, const struct hspz_plot_axis *query,
               const struct hspz_plot_grid *grid, const struct hspz_plot_words *words,
               struct hspz_error *err)
{
    const struct hspz_plot_layout *l = layout;
    const bool lines = hspz_plot_grid_has_lines(grid);
    uint32_t background = 0, most = 0;
    enum hspz_status status = HSPZ_OK;
    if (!lines) {
        status = draw_cells(canvas, l, grid, &background, &most, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    draw_borders(canvas, l, ref, true);
    draw_borders(canvas, l, query, false);
    if (lines) {
        hspz_canvas_clip(canvas, l->left, l->top, l->wide, l->high);
        status = draw_lines(canvas, l, &grid->lines[0], HSPZ_COLOUR_PLUS, err);
        if (status == HSPZ_OK) {
            status = draw_lines(canvas, l, &grid->lines[1], HSPZ_COLOUR_MINUS, err);
        }
        hspz_canvas_unclip(canvas);
    }
    hspz_canvas_frame(canvas, HSPZ_COLOUR_TEXT, 1, l->left - 0.5, l->top - 0.5, l->wide + 1,
                      l->high + 1);
    draw_head(canvas, l, grid, words, !lines, background, most);
    if (status == HSPZ_OK) {
        status = draw_axis(canvas, l, ref, words->ref, true, err);
    }
    return status == HSPZ_OK ? draw_axis(canvas, l, query, words->query, false, err) : status;
}
