#include "client/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct hspz_stage {
    char *folder;
    char *path; /* its own */
    char *archive;
    int folder_fd, fd;
};

static enum hspz_status
open_folders(struct hspz_stage *stage, struct hspz_error *err)
{
    stage->folder_fd = open(stage->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stage->folder_fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot write there", stage->folder);
    }
    if (mkdtemp(stage->path) == NULL) {
        const int error = errno;
        free(stage->path);
        stage->path = NULL;
        return hspz_error_errno(err, HSPZ_E_IO, error, "%s: cannot write there", stage->folder);
    }
    stage->fd = open(stage->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return stage->fd >= 0
               ? HSPZ_OK
               : hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot write there", stage->folder);
}

enum hspz_status
hspz_stage_open(const char *folder, const char *archive, struct hspz_stage **out,
                struct hspz_error *err)
{
    struct hspz_stage *stage = malloc(sizeof(*stage));
    if (stage == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to write there", folder);
    }
    *stage = (struct hspz_stage){.folder = strdup(folder), .folder_fd = -1, .fd = -1};
    stage->archive = archive != NULL ? strdup(archive) : NULL;
    if (asprintf(&stage->path, "%s/.hspz.XXXXXX", folder) < 0) {
        stage->path = NULL;
    }
    enum hspz_status status;
    if (stage->folder == NULL || stage->path == NULL ||
        (archive != NULL && stage->archive == NULL)) {
        free(stage->path);
        stage->path = NULL; /* nothing there to remove */
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to write there", folder);
    } else {
        status = open_folders(stage, err);
    }
    if (status != HSPZ_OK) {
        hspz_stage_close(&stage);
        return status;
    }
    *out = stage;
    return HSPZ_OK;
}

/* Every file in it. Takes the descriptor over. */
static void
remove_files(int fd)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
}

void
hspz_stage_close(struct hspz_stage **stage)
{
    struct hspz_stage *s = *stage;
    if (s == NULL) {
        return;
    }
    if (s->fd >= 0) {
        remove_files(s->fd);
    }
    if (s->path != NULL) {
        (void)rmdir(s->path);
    }
    if (s->folder_fd >= 0) {
        close(s->folder_fd);
    }
    free(s->path);
    free(s->archive);
    free(s->folder);
    free(s);
    *stage = NULL;
}

static enum hspz_status
fail(const struct hspz_stage *stage, const char *name, int error, struct hspz_error *err)
{
    if (stage->archive != NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, error, "%s: cannot write", stage->archive);
    }
    return hspz_error_errno(err, HSPZ_E_IO, error, "%s/%s: cannot write", stage->folder, name);
}

enum hspz_status
hspz_stage_append(struct hspz_stage *stage, const char *name, const void *bytes, size_t len,
                  struct hspz_error *err)
{
    const int fd = openat(stage->fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        return fail(stage, name, errno, err);
    }
    const char *at = bytes;
    int error = 0;
    while (len > 0 && error == 0) {
        const ssize_t n = write(fd, at, len);
        if (n >= 0) {
            at += n;
            len -= (size_t)n;
        } else {
            error = errno; /* EINTR too: only a signal that ends us interrupts */
        }
    }
    if (close(fd) != 0 && error == 0) {
        error = errno;
    }
    return error == 0 ? HSPZ_OK : fail(stage, name, error, err);
}

enum hspz_status
hspz_stage_sync(struct hspz_stage *stage, struct hspz_error *err)
{
    return syncfs(stage->fd) == 0
               ? HSPZ_OK
               : hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot write there", stage->folder);
}

enum hspz_status
hspz_stage_move(struct hspz_stage *stage, const char *name, struct hspz_error *err)
{
    return renameat(stage->fd, name, stage->folder_fd, name) == 0 ? HSPZ_OK
                                                                  : fail(stage, name, errno, err);
}

enum hspz_status
hspz_stage_pour(struct hspz_stage *stage, const char *name, struct hspz_output *output,
                struct hspz_error *err)
{
    const int fd = openat(stage->fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(stage, name, errno, err);
    }
    enum hspz_status status = HSPZ_OK;
    for (;;) {
        char *to = hspz_output_room(output, HSPZ_OUTPUT_ROOM);
        bool quiet;
        if (to == NULL) {
            status = hspz_output_error(output, &quiet, err);
            break;
        }
        const ssize_t n = read(fd, to, HSPZ_OUTPUT_ROOM);
        if (n < 0) {
            status = fail(stage, name, errno, err);
        }
        if (n <= 0) {
            break;
        }
        hspz_output_advance(output, (size_t)n);
    }
    close(fd);
    (void)unlinkat(stage->fd, name, 0);
    return status;
}
