/* What a mask command writes: BED lines (name, begin, end; 0-based, half-open, in the genome's
 * order) and the genome as FASTA with masked bases in lower case; bases that are in lower case
 * already stay so, and all others are as they were read.
 *
 * Errors: HSPZ_E_IO, HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/self_cover.h"
#include "engine/sequences.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The last line of a BED with markend: SegAlign's, which those wait for who ask for it. */
#define HSPZ_MASK_END "# segalign_repeat_masker end-of-file\n"

struct hspz_mask_output {
    const struct hspz_sequences *seqs;
    const uint64_t *starts; /* numbers of the sequences' first bases */
    uint32_t least;
    bool markend;
};

HSPZ_MUST_USE enum hspz_status hspz_mask_write_bed(const struct hspz_mask_output *how,
                                                   struct hspz_self_cover *cover, const char *path,
                                                   struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_mask_write_fasta(const struct hspz_mask_output *how,
                                                     struct hspz_self_cover *cover,
                                                     const char *path, struct hspz_error *err);
