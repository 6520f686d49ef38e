/* 2bit files, versions 0 and 1 (64-bit offsets), either byte order, whole in memory.
 *
 * Bases inside N blocks are read as N, those inside mask blocks as lower case. Blocks must stand in
 * ascending order and may not overlap, records neither: no input makes more bases than four times
 * its bytes.
 * Errors: HSPZ_E_BAD_FILE (damaged or cut short, with the offset; another version; no record),
 *         HSPZ_E_BAD_REQUEST (no name; a sequence over the limit), HSPZ_E_STOPPED,
 *         HSPZ_E_OUT_OF_MEMORY; `seqs` then holds part of the records. */
#pragma once

#include "engine/sequences.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>

/* Whether a file that begins with these bytes is a 2bit file. */
bool hspz_twobit_recognise(struct hspz_span bytes);

/* Asked before each record; false stops with HSPZ_E_STOPPED. */
typedef bool (*hspz_twobit_go_on_fn)(void *user);

HSPZ_MUST_USE enum hspz_status hspz_twobit_read(struct hspz_span bytes, const char *path,
                                                hspz_twobit_go_on_fn go_on, void *user,
                                                struct hspz_sequences *seqs,
                                                struct hspz_error *err);
