/* What every engine refuses, in the same words.
 *
 * Each fills *err (NULL is fine) and returns its status. */
#pragma once

#include "engine/shape.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stddef.h>
#include <stdint.h>

/* The batch a refusal is about. */
struct hspz_refused_batch {
    uint64_t interval; /* UINT64_MAX: the job has none */
    uint64_t batch;
    enum hspz_strand strand;
    size_t block;
};

/* HSPZ_E_BAD_REQUEST for the first byte of bases[begin .. end) that is no base; HSPZ_OK if none. */
HSPZ_MUST_USE enum hspz_status hspz_refuse_bases(struct hspz_span bases, uint64_t begin,
                                                 uint64_t end, struct hspz_error *err);

/* HSPZ_E_BAD_REQUEST: a query of more than HSPZ_BLOCK_BASES_LIMIT bases. */
enum hspz_status hspz_refuse_query(uint64_t bases, struct hspz_error *err);

/* HSPZ_E_BAD_REQUEST: seed `i`, out of range for the shape. */
enum hspz_status hspz_refuse_seed(const struct hspz_shape *shape, uint64_t i, uint64_t seed,
                                  struct hspz_error *err);

/* HSPZ_E_HITS_OVERFLOW: err->hits and err->limit are those of the batch. */
enum hspz_status hspz_refuse_batch_hits(struct hspz_refused_batch batch, uint64_t hits,
                                        struct hspz_error *err);

/* HSPZ_E_TOO_LARGE: `hits` of the job up to and with this batch exceed its hit_limit. */
enum hspz_status hspz_refuse_job_hits(struct hspz_refused_batch batch, uint64_t hits,
                                      uint64_t hit_limit, struct hspz_error *err);

/* HSPZ_E_TOO_LARGE: the job holds `hsps`, more than its scoring.limit. */
enum hspz_status hspz_refuse_job_hsps(uint64_t hsps, uint64_t limit, struct hspz_error *err);
