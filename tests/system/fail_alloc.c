/* A preloaded library that fails one allocation: the HSPZ_FAIL_ALLOC-th of the process (from 1)
 * returns NULL, every other one succeeds. It counts from the call of main: what libraries do before
 * (the CUDA runtime among them) is not ours. At exit the number of allocations seen is written to
 * the file HSPZ_ALLOC_COUNT names. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

typedef int main_fn(int, char **, char **);
typedef int start_fn(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void),
                     void *);

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *old, size_t size);
EXPORT start_fn __libc_start_main;

static atomic_ulong seen;
static unsigned long failing;

static main_fn *real_main;

static int
counted_main(int argc, char **argv, char **env)
{
    const char *text = getenv("HSPZ_FAIL_ALLOC");
    failing = text == NULL ? 0 : strtoul(text, NULL, 10);
    atomic_store(&seen, 0);
    return real_main(argc, argv, env);
}

int
__libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*rtld_fini)(void), void *stack_end)
{
    start_fn *next;
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

__attribute__((destructor)) static void
stop(void)
{
    const char *path = getenv("HSPZ_ALLOC_COUNT");
    const unsigned long count = atomic_load(&seen);
    failing = 0;
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "%lu\n", count);
        fclose(file);
    }
}

static int
fails(void)
{
    if (atomic_fetch_add(&seen, 1) + 1 != failing) {
        return 0;
    }
    errno = ENOMEM;
    return 1;
}

void *
malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *
realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
