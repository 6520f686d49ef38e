/* Of the software card's runtime: makes a call fail, and says what was not given back.
 *
 * Threads: counts are atomic; arm and disarm from one thread. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th call that can fail from now on (1 is the next; 0: none) fails, and only that one; what
 * gives back cannot. A launch fails where its error is asked for. */
void soft_fail_arm(long n);
/* Back to normal; true when the failure happened. */
bool soft_fail_disarm(void);

/* Every call of the current device that can fail does from now on. */
void soft_break(void);

/* Allocations, streams and events that are there. */
long soft_live(void);

/* Whether a stream is of the current device; else the thread's next cudaGetLastError says so. */
bool soft_may_launch(cudaStream_t stream);

/* A call that has nothing else to do than to fail. */
cudaError_t soft_call(void);

#ifdef __cplusplus
}
#endif
