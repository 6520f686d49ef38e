#include "client/align_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "hspz-";
static const char part_prefix[] = "hspz-part-";
static const char lock_name[] = "hspz-lock";

/* Removes files of ours: all, or only unfinished ones. */
static void
sweep(const struct hspz_align_folder *folder, bool all)
{
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    const char *wanted = all ? prefix : part_prefix;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strncmp(entry->d_name, wanted, strlen(wanted)) == 0) {
            (void)unlinkat(folder->fd, entry->d_name, 0);
        }
    }
    closedir(dir);
}

static enum hspz_status
open_and_lock(const char *path, struct hspz_align_folder *folder, struct hspz_error *err)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot make the work folder", path);
    }
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot use it as work folder",
                                path);
    }
    folder->lock = openat(folder->fd, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (folder->lock < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot write in the work folder",
                                path);
    }
    /* Where a file system has no locks, none is held. */
    if (flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return hspz_error_set(err, HSPZ_E_IO,
                              "%.200s: another hspz-client works in this folder now", path);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_align_folder_open(const char *path, struct hspz_align_folder *out, struct hspz_error *err)
{
    struct hspz_align_folder folder = {.path = strdup(path), .fd = -1, .lock = -1};
    if (folder.path == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%.200s: no memory", path);
    }
    const enum hspz_status status = open_and_lock(path, &folder, err);
    if (status != HSPZ_OK) {
        hspz_align_folder_close(&folder);
        return status;
    }
    sweep(&folder, false);
    *out = folder;
    return HSPZ_OK;
}

void
hspz_align_folder_close(struct hspz_align_folder *folder)
{
    if (folder->path == NULL) {
        return;
    }
    if (folder->lock >= 0) {
        close(folder->lock);
    }
    if (folder->fd >= 0) {
        close(folder->fd);
    }
    free(folder->path);
    *folder = (struct hspz_align_folder){.fd = -1, .lock = -1};
}

void
hspz_align_folder_remove(struct hspz_align_folder *folder)
{
    sweep(folder, true);
    (void)rmdir(folder->path);
    hspz_align_folder_close(folder);
}

bool
hspz_align_folder_has(const struct hspz_align_folder *folder, const char *name)
{
    struct stat st;
    return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

const char *
hspz_align_folder_path(const struct hspz_align_folder *folder, const char *name, char *to,
                       size_t room)
{
    snprintf(to, room, "%s/%s", folder->path, name);
    return to;
}

enum hspz_status
hspz_align_file_create(struct hspz_align_folder *folder, const char *name,
                       struct hspz_align_file *out, struct hspz_error *err)
{
    struct hspz_align_file file = {.fd = -1};
    HSPZ_REQUIRE(strlen(name) < sizeof(file.name) && strncmp(name, prefix, strlen(prefix)) == 0);
    memcpy(file.name, name, strlen(name) + 1);
    snprintf(file.part, sizeof(file.part), "%s%s", part_prefix, name + strlen(prefix));
    /* A LASTZ that outlived its client may still have the old one open: it is not written over. */
    (void)unlinkat(folder->fd, file.part, 0);
    file.fd = openat(folder->fd, file.part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s/%s: cannot write", folder->path,
                                name);
    }
    *out = file;
    return HSPZ_OK;
}

void
hspz_align_file_drop(struct hspz_align_folder *folder, struct hspz_align_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
        (void)unlinkat(folder->fd, file->part, 0);
    }
}

enum hspz_status
hspz_align_file_finish(struct hspz_align_folder *folder, struct hspz_align_file *file,
                       struct hspz_error *err)
{
    if (fsync(file->fd) != 0 || renameat(folder->fd, file->part, folder->fd, file->name) != 0) {
        const int error = errno;
        hspz_align_file_drop(folder, file);
        return hspz_error_errno(err, HSPZ_E_IO, error, "%.200s/%s: cannot write", folder->path,
                                file->name);
    }
    close(file->fd);
    file->fd = -1;
    return HSPZ_OK;
}

static int
write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

enum hspz_status
hspz_align_file_put(struct hspz_align_folder *folder, const char *name, const void *bytes,
                    size_t len, struct hspz_error *err)
{
    struct hspz_align_file file = {.fd = -1};
    const enum hspz_status status = hspz_align_file_create(folder, name, &file, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const int error = write_all(file.fd, bytes, len);
    if (error != 0) {
        hspz_align_file_drop(folder, &file);
        return hspz_error_errno(err, HSPZ_E_IO, error, "%.200s/%s: cannot write", folder->path,
                                name);
    }
    return hspz_align_file_finish(folder, &file, err);
}
