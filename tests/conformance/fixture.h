/* One index under test on an engine, with the model's view of it, and random sequence. */
#pragma once

#include "tests/conformance/model.h"
#include "tests/conformance/runner.h"

struct fixture {
    struct runner runner;
    struct hspz_index_params params;
    struct hspz_ref *ref;
    struct model_index *blocks;
    char **bases; /* of the blocks */
    size_t block_count;
};

void fixture_open(struct fixture *f, const struct hspz_engine_ops *ops, unsigned threads,
                  const char *pattern);
/* Serves bases as one block, tables made by the model. */
void fixture_load(struct fixture *f, const char *bases);
/* Serves random sequences as several blocks, built by the index builder. */
void fixture_load_blocks(struct fixture *f, uint64_t *seed);
void fixture_unload(struct fixture *f);
void fixture_close(struct fixture *f);

/* Both strands of a query, transitions, no limits. */
struct model_job fixture_job(const struct fixture *f, const char *query);

/* Random sequence with repeats, N, lower case and separators. */
char *random_sequence(uint64_t *seed, size_t len);
