/* A preloaded library that makes reading index files slow, as a slow disk does: each read of 64 KiB
 * or more of a file waits HSPZ_SLOW_READ_MS milliseconds first, and goes on waiting for as long as
 * there is a file HSPZ_SLOW_READ_WHILE. It stands in for the disk; nothing of hspz knows of it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define LARGE 65536u

static void
wait_for_disk(size_t bytes)
{
    const char *text = getenv("HSPZ_SLOW_READ_MS");
    const long ms = text == NULL ? 0 : strtol(text, NULL, 10);
    if (bytes < LARGE || ms <= 0) {
        return;
    }
    const char *gate = getenv("HSPZ_SLOW_READ_WHILE");
    struct stat found;
    do {
        struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        while (nanosleep(&left, &left) != 0) {
        }
    } while (gate != NULL && stat(gate, &found) == 0);
}

#define EXPORT __attribute__((visibility("default")))

EXPORT ssize_t read(int fd, void *bytes, size_t len);
EXPORT ssize_t pread(int fd, void *bytes, size_t len, off_t offset);
EXPORT ssize_t pread64(int fd, void *bytes, size_t len, off64_t offset);
EXPORT size_t fread(void *bytes, size_t size, size_t count, FILE *file);

ssize_t
read(int fd, void *bytes, size_t len)
{
    ssize_t (*next)(int, void *, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "read");
    struct stat what;
    if (fstat(fd, &what) == 0 && S_ISREG(what.st_mode)) {
        wait_for_disk(len);
    }
    return next(fd, bytes, len);
}

ssize_t
pread(int fd, void *bytes, size_t len, off_t offset)
{
    ssize_t (*next)(int, void *, size_t, off_t);
    *(void **)&next = dlsym(RTLD_NEXT, "pread");
    wait_for_disk(len);
    return next(fd, bytes, len, offset);
}

ssize_t
pread64(int fd, void *bytes, size_t len, off64_t offset)
{
    ssize_t (*next)(int, void *, size_t, off64_t);
    *(void **)&next = dlsym(RTLD_NEXT, "pread64");
    wait_for_disk(len);
    return next(fd, bytes, len, offset);
}

size_t
fread(void *bytes, size_t size, size_t count, FILE *file)
{
    size_t (*next)(void *, size_t, size_t, FILE *);
    *(void **)&next = dlsym(RTLD_NEXT, "fread");
    wait_for_disk(size * count);
    return next(bytes, size, count, file);
}
