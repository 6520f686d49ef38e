/* A batch's masked window starts on a device (engine/seed_mask.h): of a filter on the same device
 * they are made there, without a word from the host; else the host finds them and sends them.
 *
 * Errors:  HSPZ_E_OUT_OF_MEMORY, HSPZ_E_DEVICE_ERROR. */
#pragma once

#include "engine/cuda/batch.h"

/* Memory of the scratch that it takes for so many starts. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_mask_reserve(const struct hspz_cuda_run *run,
                                                      const struct hspz_seed_mask *mask,
                                                      uint64_t starts);

/* Puts on the lane's stream what writes the bits, where query->masked is to point. The query's
 * bases are on the stream, and reach as far as the k-mers of its starts do. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_mask_find(const struct hspz_cuda_run *run,
                                                   const struct hspz_cuda_stretch *stretch,
                                                   const struct hspz_cuda_query *query);
