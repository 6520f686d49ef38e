#include "tests/support/failing_malloc.h"

#include <stdatomic.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static atomic_long left;
static atomic_bool happened;
static atomic_size_t largest;

static bool
fails(size_t size)
{
    size_t seen = atomic_load(&largest);
    while (size > seen && !atomic_compare_exchange_weak(&largest, &seen, size)) {
    }
    if (atomic_load(&left) > 0 && atomic_fetch_sub(&left, 1) == 1) {
        atomic_store(&happened, true);
        return true;
    }
    return false;
}

void
failing_malloc_arm(long n)
{
    atomic_store(&happened, false);
    atomic_store(&largest, 0);
    atomic_store(&left, n);
}

bool
failing_malloc_disarm(void)
{
    atomic_store(&left, 0);
    return atomic_load(&happened);
}

size_t
failing_malloc_largest(void)
{
    return atomic_load(&largest);
}

void *
__wrap_malloc(size_t size)
{
    return fails(size) ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
    return fails(count * size) ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *memory, size_t size)
{
    return fails(size) ? NULL : __real_realloc(memory, size);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails(size) ? NULL : __real_aligned_alloc(alignment, size);
}
