/* Masking by k-mers: a base is masked when one of the k-mers that hold it comes often enough in the
 * genome. A k-mer and its reverse complement are one; lower case counts as upper; windows with
 * another letter are no k-mers. Counts are exact.
 *
 * Errors: HSPZ_E_OUT_OF_MEMORY, HSPZ_E_BAD_REQUEST (k). */
#pragma once

#include "client/self_cover.h"
#include "engine/sequences.h"
#include "protocol/status.h"

#include <stdint.h>

struct hspz_mask_kmers {
    const struct hspz_sequences *seqs;
    const uint64_t *starts; /* numbers of the sequences' first bases */
    unsigned k;             /* 1 to 32 */
    uint64_t least;         /* times */
    unsigned threads;       /* 0: one */
};

/* Marks the windows of k-mers that come so often once in `cover`. */
HSPZ_MUST_USE enum hspz_status hspz_mask_count_kmers(const struct hspz_mask_kmers *how,
                                                     struct hspz_self_cover *cover,
                                                     struct hspz_error *err);
