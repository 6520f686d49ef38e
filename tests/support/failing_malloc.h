/* Makes one allocation fail. A test that uses it lists support/failing_malloc.c among its sources
 * and links with wrap_malloc (tests/meson.build).
 *
 * Threads: the count is atomic; arm and disarm from one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The n-th allocation from now on (1 is the next; 0: none) fails, and only that one. */
void failing_malloc_arm(long n);
/* Back to normal; true when the failure happened. */
bool failing_malloc_disarm(void);
/* Bytes of the largest allocation asked for since the last arm. */
size_t failing_malloc_largest(void);
