/* A job on the CPU engine: what engine/walk.h asks for, by the threads of a lane.
 *
 * Owns:    its scratch (a batch), which hspz_cpu_job_park gives back.
 * Errors:  as engine/engine.h says. */
#pragma once

#include "engine/cpu/buckets.h"
#include "engine/cpu/pool.h"
#include "engine/engine.h"

/* A resident index: one set of buckets per block. */
struct hspz_ref {
    struct hspz_index *index;
    bool *holds; /* [block][device]; NULL: all do */
    size_t block_count;
    struct hspz_buckets blocks[];
};

/* `threads` are those of the pools that its steps get. */
HSPZ_MUST_USE enum hspz_status hspz_cpu_job_begin(struct hspz_ref *ref,
                                                  const struct hspz_job_spec *spec,
                                                  unsigned threads, struct hspz_job **out,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cpu_job_step(struct hspz_pool *pool, struct hspz_job *job,
                                                 struct hspz_part *part, struct hspz_error *err);
void hspz_cpu_job_bytes(const struct hspz_job *job, struct hspz_job_bytes *out);
void hspz_cpu_job_park(struct hspz_job *job);
/* Whether one of so many devices holds what the next step is about. */
bool hspz_cpu_job_held(const struct hspz_job *job, unsigned device, unsigned devices);
size_t hspz_cpu_job_block(const struct hspz_job *job);
void hspz_cpu_job_totals(const struct hspz_job *job, struct hspz_job_totals *out);
void hspz_cpu_job_place(const struct hspz_job *job, struct hspz_job_place *out);
void hspz_cpu_job_end(struct hspz_job **job);
