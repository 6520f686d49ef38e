/* What stands beside the axes of a dot plot: ticks, and names of sequences without overlaps.
 *
 * Units:  pixels along the axis from where it begins.
 * Errors: HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/plot_axis.h"

/* Names longer than this are shortened in their middle. */
#define HSPZ_PLOT_NAME_CHARS 24u
#define HSPZ_PLOT_NAME_BYTES 96u
/* Sequences that are shown over at least so many pixels have ticks. */
#define HSPZ_PLOT_TICKS_PIXELS 150.0

struct hspz_plot_names {
    struct hspz_plot_name {
        uint32_t number;
        double at, wide; /* middle and length of the sequence's part */
    } * items;
    size_t count;
};

/* Those that have room, `apart` pixels for each, long sequences first. */
HSPZ_MUST_USE enum hspz_status hspz_plot_names_pick(const struct hspz_plot_axis *axis,
                                                    double pixels, double apart,
                                                    struct hspz_plot_names *out,
                                                    struct hspz_error *err);
void hspz_plot_names_fini(struct hspz_plot_names *names);
/* At most `chars` of it, which is at most 64. */
void hspz_plot_name_short(const char *name, size_t chars, char text[HSPZ_PLOT_NAME_BYTES]);

/* Sequences that are shown, at least in part. */
size_t hspz_plot_shown(const struct hspz_plot_axis *axis);
bool hspz_plot_has_ticks(const struct hspz_plot_axis *axis, double pixels);

/* Ticks of sequence `number`, at least `apart` pixels from each other: *at begins as 0. False at
 * the end. */
struct hspz_plot_tick {
    uint64_t base; /* in the sequence */
    double at;     /* pixels */
    char text[32];
};
bool hspz_plot_tick_next(const struct hspz_plot_axis *axis, uint32_t number, double pixels,
                         double apart, uint64_t *at, struct hspz_plot_tick *out);
/* "4.64 Mb" */
void hspz_plot_bases(uint64_t bases, char text[32]);
