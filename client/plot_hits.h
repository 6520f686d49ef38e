/* The picture of hits per seed: on the left what share of seeds and of hits each class of
 * hit_stats.h has, on the right what share of all hits the seeds with the most hits bring.
 *
 * Units:  pixels; see canvas.h. */
#pragma once

#include "client/canvas.h"
#include "client/hit_stats.h"

/* Height 0: fits the width. */
double hspz_plot_hits_height(double width, double height);
void hspz_plot_hits_draw(struct hspz_canvas *canvas, double width, double height,
                         struct hspz_hit_stats *stats, const char *title);
