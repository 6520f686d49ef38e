/* Sequences and parameters for the tests of the index. */
#pragma once

#include "engine/index.h"
#include "tests/support/test.h"

struct hspz_index_params index_case_params(const char *pattern, uint32_t step, bool unmask,
                                           bool all_positions);

/* One sequence; fails the test when it cannot. */
void index_case_add(struct hspz_sequences *seqs, const char *name, const uint8_t *bases,
                    size_t len);

/* `count` sequences of up to `most` bases: upper case, stretches of lower case and N, other
 * letters, repeats; some empty, some very short. */
struct hspz_sequences *index_case_random(uint64_t *random, size_t count, size_t most,
                                         uint64_t block_size);

/* The sequences of a FASTA file, gzip or not, by a reader of its own. */
struct hspz_sequences *index_case_fasta(const char *path);

/* Builds and takes *seqs; fails the test when that fails. */
struct hspz_index *index_case_build(struct hspz_sequences **seqs,
                                    const struct hspz_index_params *params, unsigned threads);

/* A small index of some sequences and blocks. */
struct hspz_index *index_case_small(uint64_t seed, const char *pattern, uint32_t step);
