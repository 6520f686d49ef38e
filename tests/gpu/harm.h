/* What goes wrong with cards, brought about: harm.cu on real ones, soft/harm.c on the software
 * card.
 *
 * Threads: on the caller's current device. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel reads far outside all memory: every call about the device fails from then on. */
cudaError_t harm_lose(void);
/* All multiprocessors are taken for `ms` milliseconds or longer: no kernel begins in the meantime.
 */
cudaError_t harm_occupy(uint64_t ms);

#ifdef __cplusplus
}
#endif
