/* Pairs of sequences with anchors, made to be hard to extend, and what comes of them plainly. */
#pragma once

#include "engine/extend.h"

#include <stddef.h>

#define SCENE_BASES 2000
#define SCENE_ANCHORS 20000

struct scene {
    uint8_t ref[SCENE_BASES], query[SCENE_BASES];
    uint32_t ref_len, query_len;
    bool minus, unmask[2];
    struct hspz_scoring scoring;
    struct hspz_extend_seq plain_ref, plain_query;
    uint64_t anchors[SCENE_ANCHORS];
    size_t count;
};

/* A query of changed pieces of the reference; anchors on many diagonals or few, dense or sparse, in
 * the order of batches (by query, references backwards) or in none. */
void scene_draw(uint64_t *state, struct scene *scene);

/* The HSPs of anchors[begin .. end), each once, in memcmp's order. Returns how many. */
size_t scene_extend(const struct scene *scene, size_t begin, size_t end, struct hspz_hsp *out);
size_t scene_sort(struct hspz_hsp *hsps, size_t count);
