/* A kernel that begins while the one before it in the stream ends: what it does before it waits
 * goes side by side with that. Both ends do nothing in code for older devices, where nothing
 * overlaps. */
#pragma once

#include <cuda_runtime_api.h>

/* The kernel behind may begin. */
static __device__ __forceinline__ void
overlap_let()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* All that kernels before this one wrote is there. Every thread comes here, so that those behind
 * this one wait for them too. */
static __device__ __forceinline__ void
overlap_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <typename... PARAMS, typename... ARGS>
static cudaError_t
overlap_launch(bool overlap, void (*kernel)(PARAMS...), unsigned grid, unsigned threads,
               cudaStream_t stream, ARGS... args)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(threads);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, PARAMS(args)...);
}
