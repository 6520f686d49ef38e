/* The sets of HSPZ_SHARED/oracle: what KegAlign computed, with its inputs opened. */
#pragma once

#include "engine/engine.h"

struct oracle_set {
    const char *name;
    const char *shape;
    bool transitions;
    uint32_t step;
    uint64_t max_hits;
    int32_t threshold;
    bool entropy;
    uint64_t hits, hsps;        /* oracle/README.md; mini8cap: 0 HSPs, KegAlign aborted */
    const char *target, *query; /* under data/; with a folder: a genome of a Debian package */
};

#define ORACLE_INTERVAL 10000000u
#define ORACLE_SETS 8u
extern const struct oracle_set oracle_sets[ORACLE_SETS];
extern const struct oracle_set oracle_mini8cap;

/* A set opened: its index and query. */
struct oracle {
    const struct oracle_set *set;
    char *dir;
    char *target_path, *query_path;
    char *sums; /* SHA256SUMS */
    struct hspz_index *index;
    struct hspz_sequences *query;
    struct hspz_span bases;
};

/* Skips the test when the set or its genomes are not there, or too large under a sanitizer. */
void oracle_open(struct oracle *o, const struct oracle_set *set);
void oracle_close(struct oracle *o);
/* The whole query, both strands, without intervals. */
struct hspz_job_spec oracle_spec(const struct oracle *o);
