/* A query block of a plan with its bases, and cut into pieces a server takes: whole sequences, in
 * order.
 *
 * Owns:    a copy of the bases where the block's sequences do not stand together.
 * Errors:  HSPZ_E_OUT_OF_MEMORY; HSPZ_E_TOO_LARGE, naming the sequence, when one alone does not
 *          fit. */
#pragma once

#include "client/file_plan.h"
#include "engine/sequences.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_query_block {
    const struct hspz_sequences *seqs;
    const struct hspz_file_plan *plan;
    size_t first, count; /* in plan->order */
    const uint8_t *text;
    uint8_t *copy;
    uint64_t bases;
};

struct hspz_query_block_piece {
    struct hspz_span bases;
    uint64_t offset;    /* in the block */
    size_t next, count; /* sequences: where the next piece begins, how many this one has */
};

/* `apart`: the plan put sequences in another order than they were read in. Closes what was open. */
HSPZ_MUST_USE enum hspz_status hspz_query_block_open(struct hspz_query_block *block,
                                                     const struct hspz_sequences *seqs,
                                                     const struct hspz_file_plan *plan, size_t b,
                                                     bool apart, struct hspz_error *err);
void hspz_query_block_close(struct hspz_query_block *block);

/* The piece after *piece, which is zeroed at first; its count is 0 when nothing is left. */
HSPZ_MUST_USE enum hspz_status hspz_query_block_next(const struct hspz_query_block *block,
                                                     uint64_t most_bases,
                                                     struct hspz_query_block_piece *piece,
                                                     struct hspz_error *err);
