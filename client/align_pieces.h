/* Runs LASTZ on pieces, several at a time, the most work first. A piece whose file is in the work
 * folder, and ends as LASTZ ends it, is done.
 *
 * Errors: HSPZ_E_IO when LASTZ cannot be run or a file not be written, HSPZ_E_BAD_FILE when LASTZ
 *         fails or prints less than all (its command and last words are printed to standard error),
 *         HSPZ_E_STOPPED, HSPZ_E_OUT_OF_MEMORY. No process is left running. */
#pragma once

#include "client/align_blocks.h"
#include "client/align_folder.h"
#include "client/align_plan.h"
#include "client/cli.h"
#include "client/progress.h"

#include <xxhash.h>

struct hspz_align_lastz {
    const char *program; /* with a slash only as an absolute path */
    char version[64];
    char build[256]; /* all it says of itself: one built with other numbers gives other results */
    enum hspz_align_format format;
    const char *const *options;
    size_t option_count;
    char scores[HSPZ_ALIGN_NAME_BYTES]; /* score file in the work folder; empty: none */
};

struct hspz_align_pieces {
    const struct hspz_cli *cli;
    const struct hspz_align_lastz *lastz;
    struct hspz_align_folder *folder;
    struct hspz_align_plan *plan;
    const struct hspz_names *names;
    struct hspz_progress *progress;
    uint64_t processes;
    size_t done, reused; /* pieces */
    uint64_t cut_alignments;
};

/* Asks LASTZ for its version; says how to get it when it is not there. */
HSPZ_MUST_USE enum hspz_status hspz_align_lastz_find(struct hspz_align_lastz *lastz, int stop_fd,
                                                     struct hspz_error *err);
/* Copies the score file, if there is one, into the work folder: LASTZ takes names of files apart at
 * signs that a path may hold. */
HSPZ_MUST_USE enum hspz_status hspz_align_scores_copy(const char *path,
                                                      struct hspz_align_folder *folder,
                                                      struct hspz_align_lastz *lastz,
                                                      struct hspz_error *err);
/* Runs pieces `first` and later; names[i] gets the file of piece first + i. */
HSPZ_MUST_USE enum hspz_status hspz_align_pieces_run(struct hspz_align_pieces *pieces, size_t first,
                                                     char (*names)[HSPZ_ALIGN_NAME_BYTES],
                                                     struct hspz_error *err);
