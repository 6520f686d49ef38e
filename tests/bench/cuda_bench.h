/* What those that measure on a card share. */
#pragma once

#include "tests/bench/bench.h"

#include <cuda_runtime_api.h>

static inline void
must_cuda(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}
