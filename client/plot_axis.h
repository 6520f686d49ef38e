/* An axis of a dot plot: sequences one after the other, and which part of them is shown.
 *
 * Owns:    its names.
 * Units:   bases; a place on the axis is counted from the first sequence's first base.
 * Errors:  HSPZ_E_BAD_REQUEST (a range that is not there), HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/names.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_plot_axis {
    struct hspz_names names;
    uint64_t *lens;   /* of each name */
    uint64_t *begins; /* once settled */
    size_t capacity;
    bool fixed; /* what comes must lie inside these sequences */
    uint64_t all;
    uint64_t begin, end; /* shown */
};

void hspz_plot_axis_init(struct hspz_plot_axis *axis);
void hspz_plot_axis_fini(struct hspz_plot_axis *axis);

/* A sequence that is at least `len` long, known before or not. */
HSPZ_MUST_USE enum hspz_status hspz_plot_axis_add(struct hspz_plot_axis *axis, const char *name,
                                                  size_t name_len, uint64_t len, uint32_t *number,
                                                  struct hspz_error *err);
/* Places are known from now on; all of it is shown. */
HSPZ_MUST_USE enum hspz_status hspz_plot_axis_settle(struct hspz_plot_axis *axis,
                                                     struct hspz_error *err);
/* Shows NAME or NAME:BEGIN-END, 0-based, half-open; `option` is for messages. A whole name goes
 * before a name with a range. */
HSPZ_MUST_USE enum hspz_status hspz_plot_axis_show(struct hspz_plot_axis *axis, const char *option,
                                                   const char *range, struct hspz_error *err);
/* The part of sequence `number` that is shown, in places; false when none is. */
bool hspz_plot_axis_part(const struct hspz_plot_axis *axis, uint32_t number, uint64_t *begin,
                         uint64_t *end);
