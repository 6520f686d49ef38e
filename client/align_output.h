/* All alignments, from the pieces' files into one output, in the order they are sorted in. */
#pragma once

#include "client/align_pieces.h"

struct hspz_align_printing {
    const struct hspz_cli *cli;
    const char *path; /* of the output */
    const struct hspz_align_lastz *lastz;
    const struct hspz_align_folder *folder;
    const char (*files)[HSPZ_ALIGN_NAME_BYTES]; /* of pieces */
    const struct hspz_names *names;
    const struct hspz_align_side *target, *query;
    const struct hspz_alignments *alignments;
};

/* HSPZ_E_IO, HSPZ_E_STOPPED, HSPZ_E_OUT_OF_MEMORY; the output then has not changed. */
HSPZ_MUST_USE enum hspz_status hspz_align_print(const struct hspz_align_printing *printing,
                                                struct hspz_error *err);
