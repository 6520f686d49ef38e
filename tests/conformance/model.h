/* A slow model of SPEC sections 1 and 2, written from the text alone, that the engines are held to:
 * strings and plain loops, no code of the engine. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_seed_mask;

/* One block's index. */
struct model_index {
    uint32_t *table, *pos;
    uint32_t words, pos_count;
};

/* first, first + step, ... while a whole window fits. */
struct model_index model_index_make(const char *pattern, const char *bases, size_t len,
                                    size_t first, size_t step);
void model_index_free(struct model_index *index);

struct model_job {
    const char *pattern;
    const struct model_index *blocks;
    const char *const *bases; /* of the blocks; for HSPs */
    size_t block_count;
    /* Seeds given, or a query. */
    const uint64_t *seeds;
    size_t seed_count;
    const char *query;
    enum hspz_strands strands;
    unsigned transitions; /* care positions that may hold one */
    bool unmask;
    uint64_t begin, end; /* window starts */
    uint64_t interval;   /* 0: none; else KegAlign's plan (HSPZ_SHARED/oracle/README.md) */
    uint64_t max_hits, max_word_count;
    uint64_t keep_words; /* millionths of a block's positions */
    /* Not NULL: how often a filter has a k-mer, given in upper case; window starts with a k-mer
     * that it has more than mask_above times yield no word. */
    uint64_t (*mask_count)(const void *user, const char *kmer);
    const void *mask_user;
    size_t mask_k;
    uint64_t mask_above;
    const struct hspz_seed_mask *mask; /* what an engine is given for all that */
};

/* A chunk: where it belongs (part members unused) and its anchors. */
struct model_chunk {
    struct hspz_part_id id;
    uint64_t *anchors;
    size_t count;
};

struct model_result {
    struct model_chunk *chunks;
    size_t count;
    struct hspz_strand_totals totals[2];
};

/* Every chunk in order. The caller keeps batches under 2^32 hits. */
struct model_result model_discover(const struct model_job *job);
void model_result_free(struct model_result *result);

/* Seeds of windows begin .. end - 1 of a strand. */
size_t model_seeds(const struct model_job *job, enum hspz_strand strand, uint64_t begin,
                   uint64_t end, uint64_t **out);

/* HSPs that belong together: of a chunk, or of a strand and block, as the parts that bring them. */
struct model_group {
    struct hspz_part_id id;
    struct hspz_hsp *hsps;
    size_t count;
};

struct model_hsps {
    struct model_group *groups; /* none is empty */
    size_t count;
    uint64_t totals[2]; /* by strand */
};

/* Every anchor of the job extended, base by base, and de-duplicated entry by entry: the rules as
 * loops. Its scores are the defaults, HOXD70. */
struct model_scoring {
    int xdrop, threshold;
    bool entropy;
    enum hspz_hsp_scope scope;
};
struct model_hsps model_hsps(const struct model_job *job, const struct model_scoring *scoring);
void model_hsps_free(struct model_hsps *hsps);

/* The query's bases on a strand, to be freed; folded to upper case when the job unmasks. */
char *model_strand(const struct model_job *job, enum hspz_strand strand);
