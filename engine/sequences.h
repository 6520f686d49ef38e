/* Sequences joined into blocks: what an index is built from and a query is cut from.
 *
 * A block is whole sequences in input order, joined by one HSPZ_SEPARATOR byte. It is closed once
 * it exceeds the block size, and never holds more than HSPZ_BLOCK_BASES_LIMIT bytes: a sequence
 * that would take it past that opens the next block. An empty sequence keeps its place.
 *
 * Owns:    names and bases (case, N and IUPAC codes as read).
 * Threads: one writer while being filled; read-only and shareable afterwards.
 * Errors:  HSPZ_E_BAD_REQUEST (a byte that is no base; a name that is empty, over
 *          HSPZ_SEQUENCE_NAME_LIMIT or with a NUL, blank, tab or line end; a sequence over the
 *          limit), HSPZ_E_OUT_OF_MEMORY. Nothing is added on failure. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_BLOCK_BASES_DEFAULT UINT64_C(500000000)

struct hspz_sequence {
    const char *name; /* first word of the header, terminated; holds no NUL */
    uint64_t len;     /* bases */
    uint32_t block;
    uint32_t offset; /* of its first base in the block */
    uint64_t line;   /* of its header in the input, 1-based; 0 when there are no lines */
};

struct hspz_block {
    const uint8_t *bases; /* with separators */
    uint32_t len;
    size_t first_sequence, sequence_count;
};

struct hspz_sequences;

HSPZ_MUST_USE enum hspz_status hspz_sequences_create(uint64_t block_size,
                                                     struct hspz_sequences **out);
void hspz_sequences_destroy(struct hspz_sequences **seqs);

/* A reader's calls: begin a sequence, append its bases piece by piece, end it. The bytes of
 * `append` must satisfy hspz_base_allowed (checked; on failure *bad is the index of the first that
 * does not). */
HSPZ_MUST_USE enum hspz_status hspz_sequences_begin(struct hspz_sequences *seqs, const char *name,
                                                    size_t name_len, uint64_t line,
                                                    struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_sequences_append(struct hspz_sequences *seqs,
                                                     const uint8_t *bases, size_t len, size_t *bad,
                                                     struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_sequences_end(struct hspz_sequences *seqs,
                                                  struct hspz_error *err);

size_t hspz_sequences_count(const struct hspz_sequences *seqs);
size_t hspz_sequences_block_count(const struct hspz_sequences *seqs);
const struct hspz_sequence *hspz_sequences_get(const struct hspz_sequences *seqs, size_t i);
struct hspz_block hspz_sequences_block(const struct hspz_sequences *seqs, size_t b);
uint64_t hspz_sequences_bases(const struct hspz_sequences *seqs);  /* separators not counted */
uint64_t hspz_sequences_masked(const struct hspz_sequences *seqs); /* lower case among them */

/* XXH64 of the bases of all sequences, one after the other, lower case as upper: the same for any
 * block size, names and masking. */
uint64_t hspz_sequences_digest(const struct hspz_sequences *seqs);

/* The sequence that holds block offset `offset` (a base of it, or for an offset on a separator or
 * the end of a block, the sequence that ends there). Binary search. */
const struct hspz_sequence *hspz_sequences_locate(const struct hspz_sequences *seqs, size_t block,
                                                  uint32_t offset);

/* Refuses two sequences of one name: HSPZ_E_BAD_REQUEST with the name and both lines. */
HSPZ_MUST_USE enum hspz_status hspz_sequences_check_unique(const struct hspz_sequences *seqs,
                                                           const char *path,
                                                           struct hspz_error *err);
