#include "client/plot_grid.h"

#include <math.h>
#include <stdlib.h>

/* Opacity of the emptiest cell that shows. */
#define LEAST_OPACITY 0.3
/* Cells fuller than so many of those that show are at full opacity. */
#define FULL_SHARE 0.99
#define COUNTS 65536u

enum hspz_status
hspz_plot_grid_init(struct hspz_plot_grid *grid, const struct hspz_plot_axis *ref,
                    const struct hspz_plot_axis *query, size_t columns, size_t rows,
                    struct hspz_error *err)
{
    *grid = (struct hspz_plot_grid){.ref_begin = ref->begin,
                                    .ref_end = ref->end,
                                    .query_begin = query->begin,
                                    .query_end = query->end,
                                    .columns = columns,
                                    .rows = rows};
    for (int s = 0; s < 2; s++) {
        grid->cells[s] = calloc(columns * rows, sizeof(*grid->cells[s]));
        grid->lines[s].items = malloc(HSPZ_PLOT_LINES_MOST * sizeof(*grid->lines[s].items));
        if (grid->cells[s] == NULL || grid->lines[s].items == NULL) {
            hspz_plot_grid_fini(grid);
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the picture");
        }
    }
    return HSPZ_OK;
}

void
hspz_plot_grid_fini(struct hspz_plot_grid *grid)
{
    for (int s = 0; s < 2; s++) {
        free(grid->cells[s]);
        free(grid->lines[s].items);
    }
    *grid = (struct hspz_plot_grid){0};
}

/* Cuts the line to 0 .. 1 on one axis: `a` by which it is cut, `b` follows. False when nothing is
 * left. */
static bool
clip(double a[2], double b[2])
{
    if ((a[0] <= 0 && a[1] <= 0) || (a[0] >= 1 && a[1] >= 1)) {
        return false;
    }
    const double a0 = a[0], a1 = a[1], b0 = b[0], b1 = b[1];
    for (int i = 0; i < 2; i++) {
        const double want = a[i] < 0 ? 0 : a[i] > 1 ? 1 : a[i];
        if (want != a[i] && a0 != a1) {
            a[i] = want;
            b[i] = b0 + (b1 - b0) * (want - a0) / (a1 - a0);
        }
    }
    return true;
}

static size_t
cell_of(double at, size_t count)
{
    const double cell = floor(at * (double)count);
    return cell <= 0 ? 0 : cell >= (double)count ? count - 1 : (size_t)cell;
}

static void
count_cell(struct hspz_plot_grid *grid, int strand, size_t column, size_t row)
{
    uint32_t *cell = &grid->cells[strand][row * grid->columns + column];
    *cell += *cell < UINT32_MAX;
}

/* Each cell along the line's longer side, with the middle of the line in it. */
static void
count_line(struct hspz_plot_grid *grid, int strand, const struct hspz_plot_line *line)
{
    const size_t x[2] = {cell_of(line->x[0], grid->columns), cell_of(line->x[1], grid->columns)};
    const size_t y[2] = {cell_of(line->y[0], grid->rows), cell_of(line->y[1], grid->rows)};
    const size_t wide = x[1] - x[0];
    const size_t high = y[1] > y[0] ? y[1] - y[0] : y[0] - y[1];
    const double dx = line->x[1] - line->x[0];
    const double dy = line->y[1] - line->y[0];
    if (wide == 0 && high == 0) {
        count_cell(grid, strand, x[0], y[0]);
    } else if (wide >= high) {
        for (size_t c = x[0]; c <= x[1]; c++) {
            double at = ((double)c + 0.5) / (double)grid->columns;
            at = at < line->x[0] ? line->x[0] : at > line->x[1] ? line->x[1] : at;
            const double part = dx > 0 ? (at - line->x[0]) / dx : 0;
            count_cell(grid, strand, c, cell_of(line->y[0] + part * dy, grid->rows));
        }
    } else {
        const size_t low = y[0] < y[1] ? y[0] : y[1];
        for (size_t r = low; r <= low + high; r++) {
            double part = (((double)r + 0.5) / (double)grid->rows - line->y[0]) / dy;
            part = part < 0 ? 0 : part > 1 ? 1 : part;
            count_cell(grid, strand, cell_of(line->x[0] + part * dx, grid->columns), r);
        }
    }
}

void
hspz_plot_grid_add(struct hspz_plot_grid *grid, const struct hspz_plot_match *match)
{
    const double wide = (double)(grid->ref_end - grid->ref_begin);
    const double high = (double)(grid->query_end - grid->query_begin);
    const int strand = match->strand == HSPZ_STRAND_MINUS;
    const double low = ((double)match->query_begin - (double)grid->query_begin) / high;
    const double top = ((double)match->query_end - (double)grid->query_begin) / high;
    struct hspz_plot_line line = {
        .x = {((double)match->ref_begin - (double)grid->ref_begin) / wide,
              ((double)match->ref_end - (double)grid->ref_begin) / wide},
        .y = {strand ? top : low, strand ? low : top},
    };
    grid->matches++;
    if (!clip(line.x, line.y) || !clip(line.y, line.x)) {
        return;
    }
    struct hspz_plot_lines *lines = &grid->lines[strand];
    if (lines->count < HSPZ_PLOT_LINES_MOST) {
        lines->items[lines->count] = line;
    }
    lines->count++;
    count_line(grid, strand, &line);
}

bool
hspz_plot_grid_has_lines(const struct hspz_plot_grid *grid)
{
    return grid->lines[0].count <= HSPZ_PLOT_LINES_MOST &&
           grid->lines[1].count <= HSPZ_PLOT_LINES_MOST;
}

/* Cells by their count, both strands; the last stands for all that are fuller. */
static void
count_cells(const struct hspz_plot_grid *grid, uint32_t *with)
{
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < grid->columns * grid->rows; i++) {
            const uint32_t count = grid->cells[s][i];
            with[count < COUNTS ? count : COUNTS - 1]++;
        }
    }
}

/* The least count that `share` of the cells with at least `least` do not exceed. */
static uint32_t
level(const uint32_t *with, uint32_t least, double share)
{
    uint64_t all = 0, seen = 0;
    for (uint32_t c = least; c < COUNTS; c++) {
        all += with[c];
    }
    for (uint32_t c = least; c < COUNTS; c++) {
        seen += with[c];
        if (seen > 0 && (double)seen >= share * (double)all) {
            return c;
        }
    }
    return least;
}

enum hspz_status
hspz_plot_grid_shade(const struct hspz_plot_grid *grid, float *opacity[2], uint32_t *background,
                     uint32_t *most, struct hspz_error *err)
{
    uint32_t *with = calloc(COUNTS, sizeof(*with));
    if (with == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the picture");
    }
    count_cells(grid, with);
    /* What is spread evenly has about as many in most cells, a Poisson's width around the middle.
     */
    const uint32_t middle = level(with, 0, 0.5);
    *background = middle == 0 ? 0 : (uint32_t)(middle + 4 * sqrt((double)middle));
    *most = level(with, *background + 1, FULL_SHARE);
    free(with);
    const double low = log((double)*background + 1);
    const double high = log((double)(*most > *background + 1 ? *most : *background + 2));
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < grid->columns * grid->rows; i++) {
            const uint32_t count = grid->cells[s][i];
            double shade = 0;
            if (count > *background) {
                shade =
                    LEAST_OPACITY + (1 - LEAST_OPACITY) * (log((double)count) - low) / (high - low);
            }
            opacity[s][i] = (float)(shade > 1 ? 1 : shade);
        }
    }
    return HSPZ_OK;
}
