#include "client/held.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hspz_held {
    pthread_mutex_t mutex;
    const char *folder;
    uint64_t most; /* bytes in memory */
    uint64_t in_memory, in_file;
    int fd;       /* -1: not made yet */
    uint64_t end; /* of the file */
};

enum hspz_status
hspz_held_create(const char *folder, uint64_t memory_bytes, struct hspz_held **out,
                 struct hspz_error *err)
{
    struct hspz_held *held = calloc(1, sizeof(*held));
    if (held == NULL || pthread_mutex_init(&held->mutex, NULL) != 0) {
        free(held);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for what waits");
    }
    held->folder = folder;
    held->most = memory_bytes;
    held->fd = -1;
    *out = held;
    return HSPZ_OK;
}

void
hspz_held_destroy(struct hspz_held **held)
{
    struct hspz_held *h = *held;
    if (h == NULL) {
        return;
    }
    HSPZ_REQUIRE(h->in_memory == 0 && h->in_file == 0);
    if (h->fd >= 0) {
        close(h->fd);
    }
    pthread_mutex_destroy(&h->mutex);
    free(h);
    *held = NULL;
}

static enum hspz_status
file_error(const struct hspz_held *held, const char *what, struct hspz_error *err)
{
    return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot %s a file of what waits",
                            held->folder, what);
}

/* Mutex held. */
static enum hspz_status
open_file(struct hspz_held *held, struct hspz_error *err)
{
    if (held->fd >= 0) {
        return HSPZ_OK;
    }
    held->fd = open(held->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (held->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        char *path = NULL;
        if (asprintf(&path, "%s/hspz-XXXXXX", held->folder) < 0) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a file's name");
        }
        held->fd = mkostemp(path, O_CLOEXEC);
        if (held->fd >= 0) {
            (void)unlink(path);
        }
        free(path);
    }
    return held->fd >= 0 ? HSPZ_OK : file_error(held, "make", err);
}

/* A place for `len` bytes: in memory, or (*in_file) in the file. */
static enum hspz_status
reserve(struct hspz_held *held, size_t len, bool *in_file, uint64_t *offset, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    pthread_mutex_lock(&held->mutex);
    *in_file = held->in_memory + len > held->most;
    if (*in_file) {
        status = open_file(held, err);
        *offset = held->end;
        held->end += status == HSPZ_OK ? len : 0;
        held->in_file += status == HSPZ_OK ? len : 0;
    } else {
        held->in_memory += len;
    }
    pthread_mutex_unlock(&held->mutex);
    return status;
}

/* The place is free again, of the file as well where that can be. */
static void
release(struct hspz_held *held, size_t len, bool in_file, uint64_t offset)
{
    pthread_mutex_lock(&held->mutex);
    if (!in_file) {
        held->in_memory -= len;
    } else {
        held->in_file -= len;
        if (held->in_file == 0 && ftruncate(held->fd, 0) == 0) {
            held->end = 0;
        } else {
            (void)fallocate(held->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                            (off_t)len);
        }
    }
    pthread_mutex_unlock(&held->mutex);
}

static enum hspz_status
write_at(const struct hspz_held *held, const uint8_t *bytes, size_t len, uint64_t offset,
         struct hspz_error *err)
{
    for (size_t done = 0; done < len;) {
        const ssize_t n = pwrite(held->fd, bytes + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno != EINTR) {
            return file_error(held, "write", err);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_held_add(struct hspz_held *held, struct hspz_held_list *list,
              const struct hspz_part_view *view, size_t len, struct hspz_error *err)
{
    bool in_file = false;
    uint64_t offset = 0;
    enum hspz_status status = reserve(held, len, &in_file, &offset, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_held_part *part = malloc(sizeof(*part));
    uint8_t *copy = in_file || part == NULL ? NULL : malloc(len);
    if (part == NULL || (!in_file && copy == NULL)) {
        status =
            hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu bytes that wait", len);
    } else if (in_file) {
        status = write_at(held, view->records, len, offset, err);
    } else {
        memcpy(copy, view->records, len);
    }
    if (status != HSPZ_OK) {
        release(held, len, in_file, offset);
        free(copy);
        free(part);
        return status;
    }
    *part = (struct hspz_held_part){.view = *view, .len = len, .bytes = copy, .offset = offset};
    part->view.records = NULL;
    if (list->last != NULL) {
        list->last->next = part;
    } else {
        list->first = part;
    }
    list->last = part;
    list->bytes += len;
    return HSPZ_OK;
}

static enum hspz_status
read_at(const struct hspz_held *held, uint8_t *bytes, size_t len, uint64_t offset,
        struct hspz_error *err)
{
    for (size_t done = 0; done < len;) {
        const ssize_t n = pread(held->fd, bytes + done, len - done, (off_t)(offset + done));
        if (n == 0) {
            errno = EIO;
        }
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return file_error(held, "read", err);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_held_get(struct hspz_held *held, const struct hspz_held_part *part, uint8_t *buffer,
              struct hspz_part_view *view, struct hspz_error *err)
{
    const uint8_t *const bytes = part->bytes != NULL ? part->bytes : buffer;
    const enum hspz_status status =
        part->bytes != NULL ? HSPZ_OK : read_at(held, buffer, part->len, part->offset, err);
    if (status == HSPZ_OK) {
        *view = part->view;
        view->records = bytes;
        if (view->columns.run_count > 0) {
            view->columns.runs = bytes;
            view->columns.refs = bytes + view->columns.run_count * HSPZ_RUN_BYTES;
        }
    }
    return status;
}

void
hspz_held_drop_first(struct hspz_held *held, struct hspz_held_list *list)
{
    struct hspz_held_part *part = list->first;
    list->first = part->next;
    if (list->first == NULL) {
        list->last = NULL;
    }
    list->bytes -= part->len;
    release(held, part->len, part->bytes == NULL, part->offset);
    free(part->bytes);
    free(part);
}

void
hspz_held_drop(struct hspz_held *held, struct hspz_held_list *list)
{
    while (list->first != NULL) {
        hspz_held_drop_first(held, list);
    }
}

uint64_t
hspz_held_bytes(struct hspz_held *held)
{
    pthread_mutex_lock(&held->mutex);
    const uint64_t bytes = held->in_memory + held->in_file;
    pthread_mutex_unlock(&held->mutex);
    return bytes;
}
