/* A plot command: reads matches, or has a server find them, and draws them.
 *
 * Errors: nothing is drawn of what did not come whole. */
#pragma once

#include "client/canvas.h"
#include "client/cli.h"

struct hspz_plot_run {
    struct hspz_cli *cli;
    const char *input; /* file or folder of matches; or */
    const char *index; /* of the server, and */
    const char *query; /* a sequence file, which also goes with a file of matches, as does */
    const char *ref;   /* a sequence file: names and lengths; NULL: as the matches have them */
    const char *output, *title; /* title NULL: what is plotted */
    enum hspz_picture kind;
    const char *ref_range, *query_range;  /* what to show; NULL: all */
    uint64_t width, height;               /* of the picture; height 0: as the bases want it */
    bool anchors;                         /* of the server: anchors, not HSPs */
    bool hits;                            /* the hits of seeds instead */
    struct hspz_discover_request request; /* without bases */
};

/* The exit status. */
int hspz_plot_run(const struct hspz_plot_run *run);
