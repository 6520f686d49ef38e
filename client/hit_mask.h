/* Dynamic masking of hits, as LASTZ's --masking=N does it with raw seed hits.
 *
 * Each base of the reference is counted for every hit whose window holds it. A base that has come
 * to N is masked, and no further window that holds it is a hit: but only from the next strand of a
 * query sequence on, so that the result does not depend on the order of hits within one.
 *
 * Owns:    2 bytes and a bit for each base of the reference.
 * Threads: one caller.
 * Errors:  HSPZ_E_OUT_OF_MEMORY; HSPZ_E_BAD_PEER, an anchor outside the reference's blocks. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stddef.h>
#include <stdint.h>

#define HSPZ_MASKING_LIMIT 65535u

struct hspz_hit_mask_block {
    uint64_t bases;
    uint16_t *counts; /* of hits on each base */
    uint64_t *dead;   /* bit w: the window that begins at w holds a masked base */
};

struct hspz_hit_mask {
    uint32_t most; /* N, up to HSPZ_MASKING_LIMIT */
    uint32_t span;
    struct hspz_hit_mask_block *blocks;
    size_t block_count;
    /* Bases that came to N on this strand: place << 32 | block. */
    uint64_t *fresh;
    size_t fresh_count, fresh_capacity;
    uint64_t masked, dropped; /* bases, hits */
    uint8_t *kept;            /* of a part */
    size_t kept_capacity;
};

/* Sets all but most and span to nothing. */
void hspz_hit_mask_init(struct hspz_hit_mask *mask, uint32_t most, uint32_t span);
void hspz_hit_mask_fini(struct hspz_hit_mask *mask);

/* Makes block `block` at least so long; before the first hit. */
HSPZ_MUST_USE enum hspz_status hspz_hit_mask_grow(struct hspz_hit_mask *mask, size_t block,
                                                  uint64_t bases, struct hspz_error *err);
/* Counts the anchors of a part that are no masked windows. *kept are those, in order, until the
 * next call. */
HSPZ_MUST_USE enum hspz_status hspz_hit_mask_take(struct hspz_hit_mask *mask, uint32_t block,
                                                  const uint8_t *anchors, size_t count,
                                                  const uint8_t **kept, size_t *kept_count,
                                                  struct hspz_error *err);
/* A strand of a query sequence is through. */
void hspz_hit_mask_end_strand(struct hspz_hit_mask *mask);
