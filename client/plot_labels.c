#include "client/plot_labels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEXT_PIXELS 30.0

static double
pixels_per_base(const struct hspz_plot_axis *axis, double pixels)
{
    return pixels / (double)(axis->end - axis->begin);
}

/* Long ones first, then as they stand. */
static int
compare_names(const void *a, const void *b)
{
    const struct hspz_plot_name *x = a;
    const struct hspz_plot_name *y = b;
    return x->wide != y->wide ? (x->wide < y->wide) - (x->wide > y->wide)
                              : (x->at > y->at) - (x->at < y->at);
}

enum hspz_status
hspz_plot_names_pick(const struct hspz_plot_axis *axis, double pixels, double apart,
                     struct hspz_plot_names *out, struct hspz_error *err)
{
    const double scale = pixels_per_base(axis, pixels);
    struct hspz_plot_name *items = malloc((axis->names.count + 1) * sizeof(*items));
    if (items == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the names of sequences");
    }
    size_t shown = 0;
    for (uint32_t i = 0; i < axis->names.count; i++) {
        uint64_t begin, end;
        if (hspz_plot_axis_part(axis, i, &begin, &end)) {
            items[shown++] = (struct hspz_plot_name){
                .number = i,
                .at = scale * ((double)(begin - axis->begin) + (double)(end - begin) / 2),
                .wide = scale * (double)(end - begin)};
        }
    }
    qsort(items, shown, sizeof(*items), compare_names);
    size_t kept = 0;
    for (size_t i = 0; i < shown; i++) {
        bool room = true;
        for (size_t k = 0; room && k < kept; k++) {
            room = fabs(items[k].at - items[i].at) >= apart;
        }
        if (room) {
            items[kept++] = items[i];
        }
    }
    *out = (struct hspz_plot_names){.items = items, .count = kept};
    return HSPZ_OK;
}

void
hspz_plot_names_fini(struct hspz_plot_names *names)
{
    free(names->items);
    *names = (struct hspz_plot_names){0};
}

void
hspz_plot_name_short(const char *name, size_t chars, char text[HSPZ_PLOT_NAME_BYTES])
{
    static const char dots[] = "\xe2\x80\xa6"; /* an ellipsis */
    const size_t len = strlen(name);
    if (len <= chars) {
        memcpy(text, name, len + 1);
        return;
    }
    size_t head = chars / 2;
    size_t tail = len - (chars - head - 1);
    /* No character of several bytes is cut. */
    while (head > 0 && ((unsigned char)name[head] & 0xc0) == 0x80) {
        head--;
    }
    while (tail < len && ((unsigned char)name[tail] & 0xc0) == 0x80) {
        tail++;
    }
    snprintf(text, HSPZ_PLOT_NAME_BYTES, "%.*s%s%s", (int)head, name, dots, name + tail);
}

size_t
hspz_plot_shown(const struct hspz_plot_axis *axis)
{
    size_t shown = 0;
    uint64_t begin, end;
    for (uint32_t i = 0; i < axis->names.count; i++) {
        shown += hspz_plot_axis_part(axis, i, &begin, &end);
    }
    return shown;
}

bool
hspz_plot_has_ticks(const struct hspz_plot_axis *axis, double pixels)
{
    uint64_t begin, end;
    for (uint32_t i = 0; i < axis->names.count; i++) {
        if (hspz_plot_axis_part(axis, i, &begin, &end) &&
            pixels_per_base(axis, pixels) * (double)(end - begin) >= HSPZ_PLOT_TICKS_PIXELS) {
            return true;
        }
    }
    return false;
}

/* The least of 1, 2, 5, 10, 20, ... that is at least `least`. */
static uint64_t
round_step(double least)
{
    uint64_t power = 1;
    while ((double)power * 10 < least) {
        power *= 10;
    }
    return (double)power >= least         ? power
           : (double)(2 * power) >= least ? 2 * power
           : (double)(5 * power) >= least ? 5 * power
                                          : 10 * power;
}

bool
hspz_plot_tick_next(const struct hspz_plot_axis *axis, uint32_t number, double pixels, double apart,
                    uint64_t *at, struct hspz_plot_tick *out)
{
    const double scale = pixels_per_base(axis, pixels);
    uint64_t begin, end;
    if (!hspz_plot_axis_part(axis, number, &begin, &end) ||
        scale * (double)(end - begin) < HSPZ_PLOT_TICKS_PIXELS) {
        return false;
    }
    const uint64_t step = round_step(apart / scale);
    const uint64_t first = begin - axis->begins[number];
    const uint64_t base = ((first + step - 1) / step + *at) * step;
    const uint64_t last = end - axis->begins[number];
    /* One near the end would stand over the first of the next sequence. */
    if (base > last || (end < axis->end && scale * (double)(last - base) < NEXT_PIXELS)) {
        return false;
    }
    ++*at;
    out->base = base;
    out->at = scale * (double)(base + axis->begins[number] - axis->begin);
    const double unit = last >= 2000000 ? 1e6 : last >= 2000 ? 1e3 : 1;
    int decimals = 0;
    for (double s = (double)step / unit; decimals < 6 && s - floor(s) > 1e-9; s *= 10) {
        decimals++;
    }
    snprintf(out->text, sizeof(out->text), "%.*f%s", decimals, (double)base / unit,
             base == 0     ? ""
             : unit == 1e6 ? " Mb"
             : unit == 1e3 ? " kb"
                           : "");
    return true;
}

void
hspz_plot_bases(uint64_t bases, char text[32])
{
    const double value = (double)bases;
    if (bases >= 10000000) {
        snprintf(text, 32, "%.1f Mb", value / 1e6);
    } else if (bases >= 1000000) {
        snprintf(text, 32, "%.2f Mb", value / 1e6);
    } else if (bases >= 1000) {
        snprintf(text, 32, "%.1f kb", value / 1e3);
    } else {
        snprintf(text, 32, "%.0f bases", value);
    }
}
