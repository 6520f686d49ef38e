/* The two passes over a block's index: hits per seed (SPEC C.1, C.2) and seeds to anchors (C.4,
 * C.5).
 *
 * Threads: pure functions over the caller's memory; ranges can run side by side.
 * Cost:    both are bound by random reads. Most words of a genome are in no bucket, and one bit a
 *          word (`present`, 4^weight / 8 bytes) tells without touching the table. */
#pragma once

#include "engine/index.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

struct hspz_buckets {
    struct hspz_index_block block;
    uint32_t words; /* 4^weight */
    uint32_t span;
    uint64_t *present; /* bit w: bucket w is not empty */
};

/* Borrows the block's arrays, owns `present`. */
HSPZ_MUST_USE enum hspz_status hspz_buckets_init(struct hspz_buckets *b,
                                                 const struct hspz_shape *shape,
                                                 struct hspz_index_block block);
void hspz_buckets_fini(struct hspz_buckets *b);

/* Seeds, and what counting found of them (see cpu_batch.h, which owns the memory). */
struct hspz_cpu_batch {
    uint64_t *seeds;
    uint32_t *sums;   /* inclusive prefix sums of hits, modulo 2^32 */
    uint32_t *begins; /* where a seed's bucket begins in pos; of seeds with hits only */
    uint64_t count, capacity;
    uint32_t
        per_run; /* seeds [k * per_run, (k + 1) * per_run) are of one window: a run of columns */
};

/* Counts seeds [begin, end): sums[i] = hits of seeds [begin, i], and begins[i]. Returns all their
 * hits in 64 bits. A bucket of more than max_word_count counts as empty. */
uint64_t hspz_buckets_count(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch,
                            uint64_t begin, uint64_t end, uint64_t max_word_count);

/* Writes hits [begin, end) of a batch to out[0 .. end - begin); its sums are those of all its
 * seeds. Seed i's hits are sums[i - 1] .. sums[i], written backwards: hit h is occurrence
 * sums[i] - 1 - h of its bucket. */
void hspz_buckets_expand(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch,
                         uint64_t begin, uint64_t end, uint64_t *out);

/* A window's anchors in a part by columns (protocol/columns.h). */
struct hspz_run {
    uint32_t query, count;
};

/* The same hits by columns: runs[0 .. hspz_buckets_runs), refs[0 .. end - begin). */
void hspz_buckets_columns(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch,
                          uint64_t begin, uint64_t end, struct hspz_run *runs, uint32_t *refs);
/* Windows that have some of the hits [begin, end). */
uint64_t hspz_buckets_runs(const struct hspz_cpu_batch *batch, uint64_t begin, uint64_t end);
/* First seed of the window that has this hit. */
uint64_t hspz_buckets_window(const struct hspz_cpu_batch *batch, uint64_t hit);
/* Up to where the hits from `begin` on fit `bytes` by columns, `end` at most, and with how many
 * runs. Past `begin` when there is room for a run and a position. */
uint64_t hspz_buckets_fit(const struct hspz_cpu_batch *batch, uint64_t begin, uint64_t end,
                          size_t bytes, uint64_t *runs);
