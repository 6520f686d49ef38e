/* Locks of the filters: a word each, zero when free. A thread takes one by trying again and again
 * in a loop of its own, and lets go of it in the same turn of the loop, so that threads of a warp
 * that want the same one come one after the other. */
#pragma once

#include "engine/cuda/kernels/filter_launch.h"
#include "engine/filter_hash.h"

static __device__ __forceinline__ bool
filter_lock(uint32_t *lock)
{
    const bool mine = atomicCAS(lock, 0u, 1u) == 0;
    if (mine) {
        __threadfence();
    }
    return mine;
}

static __device__ __forceinline__ void
filter_unlock(uint32_t *lock)
{
    __threadfence();
    atomicExch(lock, 0u);
}

/* That of keys which are equal to the filter, by a number that they share. */
static __device__ __forceinline__ uint32_t *
filter_lock_of(uint32_t *locks, uint64_t number)
{
    return locks + hspz_filter_scale(hspz_filter_mix(number), HSPZ_CUDA_FILTER_LOCKS);
}
