/* The plan of a comparison: query blocks, intervals, files (KegAlign's).
 *
 *   block      whole sequences in input order, joined by one separator, closed once it exceeds the
 *              block size; or `balanced`: as many blocks, filled longest sequence first, always the
 *              shortest block, so that they come out alike
 *   interval   with E = bases - span: [a, b) with a = 0, size, ... while a < E, b = min(E, a +
 *              size), numbered from 1; on the minus strand [E - b, E - a) of its own coordinates
 *   file       tmp<interval>.block<query block>.r<start of the reference block>.<strand>.segments;
 *              the start counts the bases of all reference blocks before it, separators included
 *
 * Owns:   its arrays. Threads: read-only once made.
 * Units:  bases, 0-based, half-open.
 * Errors: HSPZ_E_OUT_OF_MEMORY, HSPZ_E_TOO_LARGE (a block over HSPZ_BLOCK_BASES_LIMIT). */
#pragma once

#include "client/places.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HSPZ_INTERVAL_DEFAULT UINT64_C(10000000)
#define HSPZ_SEGMENTS_NAME_BYTES 128u

struct hspz_file_plan_block {
    uint64_t bases;      /* separators included */
    uint64_t start;      /* bases of the blocks before it */
    size_t first, count; /* its sequences: order[first .. first + count) */
};

struct hspz_file_plan {
    struct hspz_file_plan_block *blocks;
    size_t block_count;
    size_t *order;     /* sequences, by their place in the input, block after block */
    uint64_t *offsets; /* of order[i] in its block */
    size_t sequence_count;
};

/* Query blocks for sequences of these lengths. */
HSPZ_MUST_USE enum hspz_status hspz_file_plan_queries(struct hspz_file_plan *plan,
                                                      const uint64_t *lens, size_t count,
                                                      uint64_t block_size, bool balanced,
                                                      struct hspz_error *err);
/* Reference blocks, as an index has them. */
HSPZ_MUST_USE enum hspz_status hspz_file_plan_refs(struct hspz_file_plan *plan,
                                                   const struct hspz_places *refs,
                                                   struct hspz_error *err);
void hspz_file_plan_fini(struct hspz_file_plan *plan);

/* Intervals of a block of so many bases: at least one where a window fits, and none else. */
uint64_t hspz_file_plan_intervals(uint64_t bases, uint32_t span, uint64_t size);
/* Its window starts on the plus strand. */
void hspz_file_plan_interval(uint64_t bases, uint32_t span, uint64_t size, uint64_t number,
                             uint64_t *begin, uint64_t *end);
/* The interval an HSP belongs to by its query start on its strand: what begins behind the last
 * window belongs to the interval next to it. */
uint64_t hspz_file_plan_interval_of(uint64_t bases, uint32_t span, uint64_t size,
                                    enum hspz_strand strand, uint64_t query_start);

void hspz_file_plan_segments_name(char name[HSPZ_SEGMENTS_NAME_BYTES], uint64_t interval,
                                  size_t query_block, uint64_t ref_start, enum hspz_strand strand);

/* One line for each job, interval and strand; the header line begins with '#'. */
struct hspz_file_plan_settings {
    uint32_t span;
    uint64_t interval;
    enum hspz_strands strands;
};
void hspz_file_plan_print(const struct hspz_file_plan *refs, const struct hspz_file_plan *queries,
                          const struct hspz_file_plan_settings *settings, FILE *to);
