/* The sequences of an index from the file it was built from, place by place.
 *
 * Owns:    the sequences. Threads: read-only once read.
 * Errors:  HSPZ_E_BAD_REQUEST: they are others than the index has; those of sequence_file.h. */
#pragma once

#include "client/places.h"
#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

struct hspz_ref_bases {
    struct hspz_sequences *seqs;
    const uint8_t **bases; /* of each place; NULL for an empty one */
};

/* `prefix_len` bytes stand before each name in `places`; `digest` is the index's of its bases, as
 * hspz_sequences_digest; "" is not compared. */
HSPZ_MUST_USE enum hspz_status hspz_ref_bases_read(struct hspz_ref_bases *out, const char *path,
                                                   const struct hspz_places *places,
                                                   size_t prefix_len, const char *digest,
                                                   hspz_progress_fn progress, void *user,
                                                   struct hspz_error *err);
void hspz_ref_bases_fini(struct hspz_ref_bases *bases);
