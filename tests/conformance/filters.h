/* The filters of every engine, for the tests that hold them to exact sets and counts. */
#pragma once

#include "tests/conformance/runner.h"

/* An engine that answers, open. */
struct filters_engine {
    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
};
size_t filters_open(struct filters_engine engines[RUNNER_ENGINES_MAX]);
void filters_close(struct filters_engine engines[], size_t count);
/* False: this engine has none such. */
bool filters_has(const struct filters_engine *engine, enum hspz_filter_kind kind);

/* HSPZ_FILTER_OPERATIONS: operations that a test of many may do, all kinds together. */
uint64_t filters_operations(void);

/* A filter under test; a failed call fails the test. */
struct filters_subject {
    const struct hspz_filter_ops *ops;
    struct hspz_filter *filter;
    struct hspz_filter_plan plan;
};
void filters_create(struct filters_subject *f, const struct filters_engine *engine,
                    const struct hspz_filter_spec *spec);
void filters_destroy(struct filters_subject *f);
struct hspz_filter_call filters_run(struct filters_subject *f, struct hspz_filter_call call);
struct hspz_filter_stats filters_stats(const struct filters_subject *f);
/* Of all the keys; the number that is there. */
uint64_t filters_query(struct filters_subject *f, const uint64_t *keys, size_t count);

/* The key whose hash this is. */
uint64_t filters_key(const struct filters_subject *f, uint64_t hash);

/* How much more often than `expected` a thing that happens by chance may have been seen: 1.2 times,
 * and what a small number of cases spreads. */
double filters_most(double expected);

/* All n keys, in a few calls (each writes a quotient filter anew on the CPU); `counts` NULL: once
 * each. */
void filters_insert(struct filters_subject *f, const uint64_t *keys, const uint64_t *counts,
                    size_t n);
/* n different keys, all there are, with their counts: never under the truth, and above it no more
 * often than fingerprints collide; with all 64 bits kept never. */
void filters_check_counts(struct filters_subject *f, const uint64_t *keys, const uint64_t *want,
                          size_t n);
