/* The least a device can do: how a daemon finds out that it still does anything. */
#include "engine/cuda/kernels/launch.h"

static __global__ void
write_beat(uint32_t *beat, uint32_t value)
{
    *beat = value;
}

extern "C" cudaError_t
hspz_cuda_launch_beat(uint32_t *beat, uint32_t value, cudaStream_t stream)
{
    write_beat<<<1, 1, 0, stream>>>(beat, value);
    return cudaGetLastError();
}
