#include "client/plot_hits.h"

#include "client/plot_draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define SIZE HSPZ_PLOT_FONT
#define HEAD 96.0
#define FOOT 64.0
#define LEFT 66.0  /* of a panel: its labels */
#define RIGHT 24.0 /* of a panel */
#define POINTS_MOST 2048u
#define STEPS 64u

struct panel {
    double left, top, wide, high;
};

double
hspz_plot_hits_height(double width, double height)
{
    return fmax(height > 0 ? height : width * 0.45, 300);
}

/* Shares up the left side, with a line across for each. */
static void
draw_shares(struct hspz_canvas *canvas, const struct panel *p, const char *title)
{
    for (unsigned percent = 0; percent <= 100; percent += 20) {
        char text[16];
        const double y = floor(p->top + p->high * (1 - percent / 100.0)) + 0.5;
        snprintf(text, sizeof(text), "%u %%", percent);
        hspz_canvas_line(canvas, HSPZ_COLOUR_LINE, 1, p->left, y, p->left + p->wide, y);
        hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_RIGHT, false, p->left - 8,
                         y, text);
    }
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, true, HSPZ_SIDE_LEFT, false, p->left,
                     p->top - 18, title);
}

static void
draw_foot(struct hspz_canvas *canvas, const struct panel *p, const char *text)
{
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, true, HSPZ_SIDE_MIDDLE, false,
                     p->left + p->wide / 2, p->top + p->high + 44, text);
}

static void
print_share(char text[16], double share)
{
    const double percent = 100 * share;
    snprintf(text, 16,
             percent == 0     ? "0"
             : percent < 0.01 ? "<0.01"
             : percent < 1    ? "%.2f"
             : percent < 10   ? "%.1f"
                              : "%.0f",
             percent);
}

static void
draw_bar(struct hspz_canvas *canvas, const struct panel *p, double x, double wide, uint32_t colour,
         double share)
{
    char text[16];
    const double high = share * p->high;
    print_share(text, share);
    hspz_canvas_fill(canvas, colour, x, p->top + p->high - high, wide, high);
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE - 1, false, HSPZ_SIDE_MIDDLE, false,
                     x + wide / 2, p->top + p->high - high - 9, text);
}

static void
draw_classes(struct hspz_canvas *canvas, const struct panel *p, const struct hspz_hit_stats *stats)
{
    struct hspz_hit_class classes[HSPZ_HIT_CLASSES];
    const double slot = p->wide / HSPZ_HIT_CLASSES;
    const double bar = slot * 0.4;
    hspz_hit_stats_classes(stats, classes);
    draw_shares(canvas, p, "Share of seeds and of hits");
    for (size_t c = 0; c < HSPZ_HIT_CLASSES; c++) {
        const double x = p->left + slot * (double)c;
        draw_bar(canvas, p, x + slot / 2 - bar, bar, HSPZ_COLOUR_PLUS,
                 stats->seeds > 0 ? (double)classes[c].seeds / (double)stats->seeds : 0);
        draw_bar(canvas, p, x + slot / 2, bar, HSPZ_COLOUR_MINUS,
                 stats->hits > 0 ? (double)classes[c].hits / (double)stats->hits : 0);
        hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_MIDDLE, false,
                         x + slot / 2, p->top + p->high + 16, classes[c].name);
    }
    draw_foot(canvas, p, "hits of a seed");
}

/* Seeds from the one with the most hits on, as far as they have any; from left to right by powers
 * of ten of all seeds. */
static void
draw_cumulative(struct hspz_canvas *canvas, const struct panel *p, struct hspz_hit_stats *stats)
{
    draw_shares(canvas, p, "Cumulative share of hits");
    int decades = 1;
    while (decades < 12 && pow(10, decades) < (double)stats->seeds) {
        decades++;
    }
    decades = decades > 5 ? 5 : decades;
    for (int d = 0; d <= decades; d++) {
        char text[16];
        const double x = floor(p->left + p->wide * d / decades) + 0.5;
        snprintf(text, sizeof(text), "%.*f", decades - d > 2 ? decades - d - 2 : 0,
                 100 * pow(10, d - decades));
        hspz_canvas_line(canvas, HSPZ_COLOUR_LINE, 1, x, p->top, x, p->top + p->high);
        hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_MIDDLE, false, x,
                         p->top + p->high + 16, text);
    }
    draw_foot(canvas, p, "% of all seeds, from the seed with the most hits on");
    double points[2 * POINTS_MOST];
    size_t count = 0;
    uint64_t at = 0, hits = 0, seeds = 0, seeds_done = 0, hits_done = 0;
    double last_x = -1;
    while (stats->hits > 0 && hspz_hit_stats_next(stats, &at, &hits, &seeds) && hits > 0) {
        /* Along the seeds of this number the curve bends: their line is no line on this scale. */
        const double first = (double)(seeds_done > 0 ? seeds_done : 1) / (double)stats->seeds;
        const double last = (double)(seeds_done + seeds) / (double)stats->seeds;
        for (unsigned step = 1; step <= STEPS; step++) {
            const double s = first * pow(last / first, (double)step / STEPS);
            const double more = s * (double)stats->seeds - (double)seeds_done;
            const double h = ((double)hits_done + more * (double)hits) / (double)stats->hits;
            const double x = p->left + p->wide * fmax(0, 1 + log10(s) / decades);
            if (count == POINTS_MOST - 1 || (x - last_x < 1 && step < STEPS)) {
                continue;
            }
            last_x = x;
            points[2 * count] = x;
            points[2 * count + 1] = p->top + p->high * (1 - h);
            count++;
        }
        seeds_done += seeds;
        hits_done += seeds * hits;
    }
    if (count > 0) {
        points[2 * count] = p->left + p->wide;
        points[2 * count + 1] = p->top;
        hspz_canvas_path(canvas, HSPZ_COLOUR_MINUS, 2.5, points, count + 1);
    }
}

static void
draw_key(struct hspz_canvas *canvas, double x, uint32_t colour, const char *text)
{
    hspz_canvas_fill(canvas, colour, x, 46 - 5, 14, 10);
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_LEFT, false, x + 20, 46,
                     text);
}

void
hspz_plot_hits_draw(struct hspz_canvas *canvas, double width, double height,
                    struct hspz_hit_stats *stats, const char *title)
{
    char number[HSPZ_PLOT_NUMBER_BYTES], text[160];
    struct hspz_hit_summary all;
    const double half = width / 2;
    const struct panel left = {LEFT, HEAD, half - LEFT - RIGHT, height - HEAD - FOOT};
    const struct panel right = {half + LEFT, HEAD, half - LEFT - RIGHT, height - HEAD - FOOT};
    hspz_hit_stats_summary(stats, false, &all);
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE + 3, true, HSPZ_SIDE_LEFT, false, left.left, 20,
                     title);
    hspz_plot_number(stats->seeds, number);
    snprintf(text, sizeof(text), "%s seeds", number);
    draw_key(canvas, left.left, HSPZ_COLOUR_PLUS, text);
    const double next = left.left + 60 + hspz_canvas_text_width(canvas, SIZE, false, text);
    hspz_plot_number(stats->hits, number);
    snprintf(text, sizeof(text), "%s hits", number);
    draw_key(canvas, next, HSPZ_COLOUR_MINUS, text);
    snprintf(text, sizeof(text),
             "hits of a seed: mean %.3g, median %" PRIu64 ", 95 %%: %" PRIu64 ", 99 %%: %" PRIu64
             ", most %" PRIu64,
             all.mean, all.median, all.p95, all.p99, all.most);
    hspz_canvas_text(canvas, HSPZ_COLOUR_TEXT, SIZE, false, HSPZ_SIDE_LEFT, false, right.left, 46,
                     text);
    draw_classes(canvas, &left, stats);
    draw_cumulative(canvas, &right, stats);
}
