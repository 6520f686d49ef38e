/* One batch of seeds on the CPU engine: made, counted against a block, expanded.
 *
 * Each pass is shared among a pool's threads in slices: making and counting by seeds, expanding by
 * output; the result is the same for any number of threads.
 * Owns:    seeds, sums and begins, from reserve to release.
 * Threads: one caller; the pool's threads inside a call. */
#pragma once

#include "engine/cpu/buckets.h"
#include "engine/cpu/pool.h"
#include "engine/cpu/seeder.h"

/* Bytes that a batch of `seeds` holds. */
uint64_t hspz_cpu_batch_bytes(uint64_t seeds);

/* Room for `capacity` seeds; does nothing when it is there. HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_cpu_batch_reserve(struct hspz_cpu_batch *batch,
                                                      uint64_t capacity);
/* Leaves an empty batch without memory. */
void hspz_cpu_batch_release(struct hspz_cpu_batch *batch);

/* The seeds of the windows that start in [begin, end). */
void hspz_cpu_batch_make(struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                         const struct hspz_seeder *seeder, uint64_t begin, uint64_t end);

/* First of the seeds [begin, end) that no index of this shape can hold, or UINT64_MAX. */
uint64_t hspz_cpu_batch_find_bad(const struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                                 const struct hspz_shape *shape, uint64_t begin, uint64_t end);

/* Counts seeds [begin, end) in a block, those before having `hits`; returns the hits with them. */
uint64_t hspz_cpu_batch_count(struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                              const struct hspz_buckets *block, uint64_t begin, uint64_t end,
                              uint64_t hits, uint64_t max_word_count);

/* Writes hits [begin, end) of a batch counted whole to out[0 .. end - begin). */
void hspz_cpu_batch_expand(const struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                           const struct hspz_buckets *block, uint64_t begin, uint64_t end,
                           uint64_t *out);

/* Writes hits [begin, *end) by columns to `out`, of `bytes` bytes (16 or more); *end becomes what
 * fits, past begin. Returns the bytes used. */
size_t hspz_cpu_batch_columns(const struct hspz_cpu_batch *batch, struct hspz_pool *pool,
                              const struct hspz_buckets *block, uint64_t begin, uint64_t *end,
                              void *out, size_t bytes);
