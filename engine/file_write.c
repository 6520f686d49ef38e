#include "engine/file_write.h"

#include "engine/shown_path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITE_BYTES_MAX ((size_t)1 << 30)
#define NAME_TRIES 16

int
hspz_write_all(int fd, const void *data, uint64_t bytes)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        const ssize_t wrote = write(fd, at, bytes < WRITE_BYTES_MAX ? bytes : WRITE_BYTES_MAX);
        if (wrote < 0) {
            if (errno == EINTR) {
                continue;
            }
            return errno;
        }
        if (wrote == 0) {
            return ENOSPC;
        }
        at += wrote;
        bytes -= (uint64_t)wrote;
    }
    return 0;
}

/* Makes the rename last through a crash. Some file systems cannot sync a directory; that is theirs.
 */
static int
sync_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    char *dir = slash == NULL ? strdup(".") : strndup(path, len > 0 ? len : 1);
    if (dir == NULL) {
        return ENOMEM;
    }
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (fd < 0) {
        return errno == EACCES ? 0 : errno;
    }
    const int error = fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
    close(fd);
    return error;
}

static uint64_t
random_number(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) == (ssize_t)sizeof(number)) {
        return number;
    }
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
}

/* Creates the temporary file beside `path`; *name is malloc'ed. */
static enum hspz_status
open_temporary(const char *path, const struct hspz_shown_path *shown, char **name, int *fd,
               struct hspz_error *err)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        char *tried = NULL;
        if (asprintf(&tried, "%s.tmp-%ld-%016" PRIx64, path, (long)getpid(), random_number()) < 0) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write %s", shown->text);
        }
        const int opened = open(tried, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (opened >= 0) {
            *name = tried;
            *fd = opened;
            return HSPZ_OK;
        }
        const int error = errno;
        free(tried);
        if (error != EEXIST) {
            return hspz_error_errno(err, HSPZ_E_IO, error, "cannot create a file beside %s",
                                    shown->text);
        }
    }
    return hspz_error_errno(err, HSPZ_E_IO, EEXIST, "cannot create a file beside %s", shown->text);
}

enum hspz_status
hspz_file_write(const char *path, const char *kind, uint64_t bytes, hspz_file_write_fn fn,
                void *user, struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(path);
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s exists and is no regular file: not replaced", shown.text);
    }
    char *name = NULL;
    int fd = -1;
    const enum hspz_status status = open_temporary(path, &shown, &name, &fd, err);
    if (status != HSPZ_OK) {
        return status;
    }
    int error = fn(user, fd);
    if (error == 0 && fsync(fd) != 0) {
        error = errno;
    }
    if (close(fd) != 0 && error == 0 && errno != EINTR) { /* synced, and closed all the same */
        error = errno;
    }
    if (error == 0 && rename(name, path) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlink(name);
    }
    free(name);
    if (error != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, error, "cannot write the %s %s (%" PRIu64 " bytes)",
                                kind, shown.text, bytes);
    }
    error = sync_directory_of(path);
    if (error != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, error,
                                "%s is written, but its directory cannot be synced", shown.text);
    }
    return HSPZ_OK;
}
