/* Runs jobs on an engine the way the daemon does, and holds what comes to the model. */
#pragma once

#include "engine/engine.h"
#include "tests/conformance/model.h"

/* An engine with one lane. */
struct runner {
    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
    struct hspz_lane *lane;
};

/* How a job is driven; none of it may change a result. */
struct run_options {
    size_t part_anchors; /* capacity of a part */
    unsigned park_every; /* park after every so many steps; 0: never */
    unsigned lose_every; /* the same: another job goes on for this one; for HSPs, each time after
                            twice as many */
    enum hspz_chunk_walk walk;
    enum hspz_encoding encoding; /* of anchors; with columns a part has room for 2 or more */
};

/* Engines to test: cpu, and cuda where a device answers; with HSPZ_REQUIRE=gpu one has to. */
#define RUNNER_ENGINES_MAX 2
size_t runner_engines(const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX]);

/* HSPZ_TEST_CUDA=MAPPING,WINDOW,WAIT,MEMORY sets the fields of struct hspz_cuda_tuning by those
 * names, so that a whole suite can be run on each variant of the cuda engine. */
struct hspz_cuda_tuning runner_cuda_tuning(void);

void runner_open(struct runner *r, const struct hspz_engine_ops *ops, unsigned threads);
void runner_close(struct runner *r);

/* All anchors or HSPs of a job, end to end, with the identities of their chunks or groups (hits of
 * the whole). */
struct run_result {
    uint64_t *anchors;
    size_t count;
    uint8_t *columns; /* payloads as they came, of a job by columns */
    size_t columns_bytes;
    struct hspz_hsp *hsps;
    size_t hsp_count;
    struct hspz_part_id *chunks;
    size_t chunk_count;
    struct hspz_job_totals totals;
    enum hspz_status status;
    struct hspz_error err;
};
struct run_result runner_run(struct runner *r, struct hspz_ref *ref,
                             const struct hspz_job_spec *spec, const struct run_options *options);
/* The part's anchors, packed, of a job by columns. */
void runner_unpack(const struct hspz_part *part, uint64_t *anchors);
void run_result_free(struct run_result *result);
/* Runs a job without an allocation of the test's own; counts its anchors or HSPs. */
enum hspz_status runner_run_bare(struct runner *r, struct hspz_ref *ref,
                                 const struct hspz_job_spec *spec, uint64_t *records);

/* Runs the model's job, packed and by columns, and fails the test on any
 * difference: chunks, order, anchors, totals. */
void runner_check(struct runner *r, struct hspz_ref *ref, const struct model_job *job,
                  const struct run_options *options);

/* The same for HSPs, with the model's scoring; returns how many there are. */
size_t runner_check_hsps(struct runner *r, struct hspz_ref *ref, const struct model_job *job,
                         const struct model_scoring *scoring, const struct run_options *options);

/* The engine's spec of a model's job, of anchors. */
struct hspz_job_spec runner_spec(const struct model_job *job);
