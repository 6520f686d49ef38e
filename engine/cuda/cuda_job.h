/* A job on a GPU: what engine/walk.h asks for, by the stream of a lane.
 *
 * A small batch (few seeds, few hits, one chunk, one reference block) goes from seeds to its only
 * part in one step. A job is on the device of the lane that ran its first step, until it is parked.
 * Owns:    host memory for the full walk; its scratch belongs to the device, which may take it back
 *          between steps: the batch is then made again, with the same result.
 * Errors:  as engine/engine.h says. */
#pragma once

#include "engine/cuda/lane.h"
#include "engine/cuda/resident.h"
#include "engine/engine.h"

HSPZ_MUST_USE enum hspz_status hspz_cuda_job_begin(const struct hspz_cuda_tuning *tuning,
                                                   struct hspz_ref *ref,
                                                   const struct hspz_job_spec *spec,
                                                   struct hspz_job **out, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cuda_job_step(struct hspz_lane *lane, struct hspz_job *job,
                                                  struct hspz_part *part, struct hspz_error *err);
void hspz_cuda_job_bytes(const struct hspz_job *job, struct hspz_job_bytes *out);
void hspz_cuda_job_park(struct hspz_job *job);
size_t hspz_cuda_job_block(const struct hspz_job *job);
void hspz_cuda_job_totals(const struct hspz_job *job, struct hspz_job_totals *out);
void hspz_cuda_job_place(const struct hspz_job *job, struct hspz_job_place *out);
void hspz_cuda_job_end(struct hspz_job **job);
