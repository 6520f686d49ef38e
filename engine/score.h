/* Substitution scores of the ungapped filter (KegAlign's, base for base).
 *
 * Classes: A C G T; lower-case acgt; N and n; any other byte; the separator. Scores by default:
 * HOXD70 among ACGT (Chiaromonte, Yap and Miller 2002); lower case with ACGT or lower case -1000;
 * N with anything -1000; other with ACGT or other -100, with lower case or N -1000. The separator
 * ends every extension; its scores are never used.
 *
 * Order:   a score file first, then the ambiguous option, which overrides it.
 * Errors:  HSPZ_E_BAD_REQUEST names what and where (an option's part; a file's line), HSPZ_E_IO;
 *          *scoring is untouched on failure. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* 256 classes, by byte. With `unmask` acgt are ACGT; with `complement` they are those of the
 * complements, for a strand that is read backwards. A reference is unmasked as its index says, a
 * query as its job says: where words are made of lower case, it is scored. */
const uint8_t *hspz_base_classes(bool unmask, bool complement);

/* The default: HOXD70, xdrop 910, threshold 3000, entropy, HSPZ_SCOPE_JOB, no limit. */
void hspz_scoring_init(struct hspz_scoring *scoring);

/* LASTZ's --ambiguous: `n` or `iupac`, then nothing, `,PENALTY` or `,REWARD,PENALTY` (0 when
 * absent): N against itself scores REWARD, and minus PENALTY against ACGT and lower case; with
 * `iupac` all other bytes too, and against these and N. */
HSPZ_MUST_USE enum hspz_status hspz_scoring_ambiguous(struct hspz_scoring *scoring,
                                                      const char *option, struct hspz_error *err);

/* A LASTZ score file, with or without row labels: replaces the ACGT block; bad_score (-1000) is
 * what lower case and N get, fill_score (-100) any other byte with ACGT or its like. Rows and
 * columns of N and acgt are read and left alone, as KegAlign does; other labels are refused. Other
 * settings (gap_open_penalty, ...) are LASTZ's own and are left alone; unknown ones are refused.
 * `name` is for messages. */
HSPZ_MUST_USE enum hspz_status hspz_scoring_read(struct hspz_scoring *scoring, FILE *file,
                                                 const char *name, struct hspz_error *err);

/* HSPZ_E_BAD_REQUEST when a member is out of range: what comes over the wire. */
HSPZ_MUST_USE enum hspz_status hspz_scoring_check(const struct hspz_scoring *scoring,
                                                  struct hspz_error *err);
