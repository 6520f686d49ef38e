/* Hits per seed: how many seeds have how many, what share of the hits they bring, and how busy the
 * lanes of a GPU are when hits are expanded.
 *
 * Hits of a seed are those in the whole index. Lane use counts slots of warps of 32 lanes as the
 * two mappings of SPEC C.4 take them, launch by launch (a chunk of a reference block): with a
 * thread per seed a warp takes 32 neighbouring seeds and as many turns as the largest bucket of
 * them has hits; with a warp per seed each bucket takes turns of 32 hits.
 *
 * Owns:    counts of counts: exact, of 512 kB and 8 bytes for each seed of 65536 hits or more.
 * Units:   seeds, hits; shares are 0 to 1.
 * Errors:  HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { HSPZ_HIT_CLASSES = 6 }; /* 0, 1, 2-4, 5-32, 33-256, more */
#define HSPZ_HITS_DENSE 65536u

struct hspz_hit_stats {
    uint64_t seeds, hits;
    uint64_t *seeds_with; /* [HSPZ_HITS_DENSE]: seeds of so many hits */
    uint64_t *large;      /* hits of each of the others */
    size_t large_count, large_capacity;
    bool sorted;             /* large is, ascending */
    uint64_t expanded;       /* hits that went through lanes */
    uint64_t thread_slots;   /* with a thread per seed */
    uint64_t warp_slots;     /* with a warp per seed */
    uint64_t adaptive_slots; /* with what a launch takes: a warp from 16 hits per seed on */
};

struct hspz_hit_class {
    const char *name;
    uint64_t seeds, hits;
};

struct hspz_hit_summary {
    double mean;
    uint64_t median, p95, p99; /* nearest rank: the least that so many seeds do not exceed */
    uint64_t most;
};

HSPZ_MUST_USE enum hspz_status hspz_hit_stats_init(struct hspz_hit_stats *stats,
                                                   struct hspz_error *err);
void hspz_hit_stats_fini(struct hspz_hit_stats *stats);

/* Seeds and their hits. */
HSPZ_MUST_USE enum hspz_status hspz_hit_stats_add(struct hspz_hit_stats *stats,
                                                  const uint64_t *hits, size_t count,
                                                  struct hspz_error *err);
/* A launch: its seeds in order, and their hits in it. */
void hspz_hit_stats_launch(struct hspz_hit_stats *stats, const uint32_t *hits, size_t count);

void hspz_hit_stats_classes(const struct hspz_hit_stats *stats,
                            struct hspz_hit_class classes[HSPZ_HIT_CLASSES]);
/* Of all seeds, or of those that have hits; zeros when there are none. */
void hspz_hit_stats_summary(struct hspz_hit_stats *stats, bool with_hits,
                            struct hspz_hit_summary *out);
/* Each number of hits that seeds have, from the largest down, with how many seeds have it. *at
 * begins as 0; false at the end. */
bool hspz_hit_stats_next(struct hspz_hit_stats *stats, uint64_t *at, uint64_t *hits,
                         uint64_t *seeds);

/* The table, for people or as a line of JSON with all that people see, and the distribution. */
void hspz_hit_stats_print(struct hspz_hit_stats *stats, bool json, FILE *to);
