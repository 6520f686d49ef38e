/* The sequence files that LASTZ commands name: the user's own where LASTZ can read them (plain
 * FASTA or 2bit, under the names the segments have), else a FASTA copy.
 *
 * Errors: HSPZ_E_IO, HSPZ_E_BAD_FILE, HSPZ_E_BAD_REQUEST, HSPZ_E_OUT_OF_MEMORY, HSPZ_E_STOPPED. */
#pragma once

#include "client/cli.h"
#include "protocol/status.h"

#include <stdbool.h>

/* Whether a path means nothing else to LASTZ than a file. */
bool hspz_lastz_takes_name(const char *path);
/* Whether LASTZ reads this file as it is. */
bool hspz_lastz_reads(const char *path);
/* A FASTA copy of `source` at `path`, with names behind `prefix` (or NULL); appears when whole. */
HSPZ_MUST_USE enum hspz_status hspz_lastz_copy(const struct hspz_cli *cli, const char *source,
                                               const char *prefix, const char *path,
                                               struct hspz_error *err);
