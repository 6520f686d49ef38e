/* An align command: segments to alignments, by LASTZ processes. The steps:
 *
 *   have a server find HSPs, or take segments made before
 *   read segments, then the sequences they name; write those for LASTZ into the work folder
 *   cut the segments into pieces (client/align_plan.h)
 *   run LASTZ on every piece that is not done, the most work first
 *   read what was printed; do again what turned out to belong together, until nothing does
 *   print all alignments in one order into the output, and remove the work folder
 *
 * When anything fails the work folder stays, and the same command goes on from there. */
#pragma once

#include "client/align_blocks.h"
#include "client/align_plan.h"
#include "client/cli.h"
#include "client/hsps_run.h"

struct hspz_align_request {
    struct hspz_cli *cli;
    const char *target, *query;
    const char *const *segments; /* files and folders */
    size_t segment_count;
    const struct hspz_hsps_run *discovery; /* how to find HSPs instead; NULL: segments are given */
    const char *output;
    const char *work; /* folder; NULL: beside the output */
    const char *lastz;
    const char *scores; /* LASTZ score file, or NULL */
    enum hspz_align_format format;
    uint64_t processes; /* 0: as many as there are processors */
    struct hspz_align_cut cut;
    const char *const *options; /* of LASTZ */
    size_t option_count;
};

/* The exit status. */
int hspz_align_run(const struct hspz_align_request *request);
