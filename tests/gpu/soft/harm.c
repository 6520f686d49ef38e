#include "tests/gpu/harm.h"

#include "tests/gpu/soft/runtime.h"

#include <time.h>

cudaError_t
harm_lose(void)
{
    soft_break();
    return cudaSuccess;
}

/* A launch is over when it returns: so here it is the caller who waits. */
cudaError_t
harm_occupy(uint64_t ms)
{
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000},
        NULL);
    return cudaSuccess;
}
