/* Walking over the wanted windows of a block, many at a time; index_build.c alone uses it.
 *
 * Threads: one scan, one thread; many scans of one block at a time. */
#pragma once

#include "engine/index.h"

#define HSPZ_INDEX_BATCH 512u

/* Valid windows in ascending order: their words, and where they start. */
struct hspz_index_batch {
    size_t count;
    uint32_t words[HSPZ_INDEX_BATCH];
    uint32_t starts[HSPZ_INDEX_BATCH];
};

struct hspz_index_scan {
    const struct hspz_shape *shape;
    const uint8_t *codes, *bases;
    uint64_t at, end;          /* bases */
    uint64_t next_start, step; /* of the windows that are wanted */
    hspz_window window;
    uint32_t valid; /* bases since the last invalid one */
};

/* Over the `count` windows first, first + step, ... which all end inside the block. */
struct hspz_index_scan hspz_index_scan_start(const struct hspz_index_params *params,
                                             const uint8_t *bases, uint64_t first, uint64_t count);

/* False at the end; a batch may hold nothing before that. */
bool hspz_index_scan_next(struct hspz_index_scan *scan, struct hspz_index_batch *batch);
