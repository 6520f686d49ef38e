#include "client/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES (2u * HSPZ_OUTPUT_ROOM)
/* From here on a write of its own costs less than a copy. */
#define STRAIGHT_BYTES ((size_t)128 << 10)

struct hspz_output {
    int fd;
    int error;   /* errno of the first failed write */
    char *name;  /* for messages */
    char *final; /* NULL when written straight */
    char *beside;
    size_t len;
    char buffer[BUFFER_BYTES];
};

/* Opens a temporary file in the folder of output->final. */
static enum hspz_status
open_beside(struct hspz_output *output, struct hspz_error *err)
{
    const char *slash = strrchr(output->final, '/');
    const int folder_len = slash == NULL ? 0 : (int)(slash + 1 - output->final);
    const char *base = output->final + folder_len;
    if (asprintf(&output->beside, "%.*s.%.200s.XXXXXX", folder_len, output->final, base) < 0) {
        output->beside = NULL;
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to write it", output->name);
    }
    output->fd = mkostemp(output->beside, O_CLOEXEC);
    if (output->fd < 0) {
        const int error = errno;
        free(output->beside);
        output->beside = NULL;
        return hspz_error_errno(err, HSPZ_E_IO, error, "%s: cannot write beside it", output->name);
    }
    const mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(output->fd, 0666 & ~mask);
    return HSPZ_OK;
}

static enum hspz_status
open_target(struct hspz_output *output, const char *path, struct hspz_error *err)
{
    if (strcmp(path, "-") == 0) {
        output->fd = STDOUT_FILENO;
        return HSPZ_OK;
    }
    struct stat st, standard;
    const bool exists = stat(path, &st) == 0;
    /* /dev/stdout of a shell's `>> file`: what stands there stays. */
    if (exists && fstat(STDOUT_FILENO, &standard) == 0 && standard.st_dev == st.st_dev &&
        standard.st_ino == st.st_ino) {
        output->fd = STDOUT_FILENO;
        return HSPZ_OK;
    }
    if (exists && !S_ISREG(st.st_mode)) {
        output->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (output->fd < 0) {
            return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot write it", path);
        }
        return HSPZ_OK;
    }
    /* A symbolic link stays one: what it points to is replaced. */
    output->final = realpath(path, NULL);
    if (output->final == NULL) {
        output->final = strdup(path);
    }
    if (output->final == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to write it", path);
    }
    return open_beside(output, err);
}

enum hspz_status
hspz_output_open(const char *path, struct hspz_output **out, struct hspz_error *err)
{
    struct hspz_output *output = malloc(sizeof(*output));
    if (output == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to write it", path);
    }
    output->fd = -1;
    output->error = 0;
    output->final = NULL;
    output->beside = NULL;
    output->len = 0;
    output->name = strdup(strcmp(path, "-") == 0 ? "standard output" : path);
    enum hspz_status status = HSPZ_OK;
    if (output->name == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to write it", path);
    } else {
        status = open_target(output, path, err);
    }
    if (status != HSPZ_OK) {
        hspz_output_close(&output);
        return status;
    }
    *out = output;
    return HSPZ_OK;
}

static bool
write_all(struct hspz_output *output, const char *bytes, size_t len)
{
    while (len > 0 && output->error == 0) {
        const ssize_t n = write(output->fd, bytes, len);
        if (n >= 0) {
            bytes += n;
            len -= (size_t)n;
        } else {
            output->error = errno; /* EINTR too: only a signal that ends us interrupts */
        }
    }
    return output->error == 0;
}

static bool
flush(struct hspz_output *output)
{
    const size_t len = output->len;
    output->len = 0;
    return write_all(output, output->buffer, len);
}

void
hspz_output_flush(struct hspz_output *output)
{
    if (output->error == 0) {
        (void)flush(output);
    }
}

char *
hspz_output_room(struct hspz_output *output, size_t bytes)
{
    HSPZ_REQUIRE(bytes <= HSPZ_OUTPUT_ROOM);
    if (output->error != 0 || (BUFFER_BYTES - output->len < bytes && !flush(output))) {
        return NULL;
    }
    return output->buffer + output->len;
}

void
hspz_output_advance(struct hspz_output *output, size_t bytes)
{
    output->len += bytes;
}

bool
hspz_output_write(struct hspz_output *output, const void *bytes, size_t len)
{
    if (len >= STRAIGHT_BYTES) {
        return output->error == 0 && flush(output) && write_all(output, bytes, len);
    }
    char *to = hspz_output_room(output, len);
    if (to == NULL) {
        return false;
    }
    memcpy(to, bytes, len);
    output->len += len;
    return true;
}

enum hspz_status
hspz_output_error(const struct hspz_output *output, bool *quiet, struct hspz_error *err)
{
    *quiet = output->error == EPIPE;
    if (output->error == 0) {
        return HSPZ_OK;
    }
    return hspz_error_errno(err, HSPZ_E_IO, output->error, "%s: cannot write", output->name);
}

/* The new name itself reaches the disk with its folder. */
static void
sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash + 1 - path));
    const int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

enum hspz_status
hspz_output_commit(struct hspz_output *output, struct hspz_error *err)
{
    bool quiet;
    if (output->error != 0 || !flush(output)) {
        return hspz_output_error(output, &quiet, err);
    }
    if (output->final == NULL) {
        return HSPZ_OK;
    }
    if (fsync(output->fd) != 0 || rename(output->beside, output->final) != 0) {
        output->error = errno;
        return hspz_output_error(output, &quiet, err);
    }
    free(output->beside);
    output->beside = NULL;
    sync_folder(output->final);
    return HSPZ_OK;
}

void
hspz_output_close(struct hspz_output **output)
{
    struct hspz_output *o = *output;
    if (o == NULL) {
        return;
    }
    if (o->beside != NULL) {
        (void)unlink(o->beside);
        free(o->beside);
    }
    if (o->fd > STDERR_FILENO) {
        close(o->fd);
    }
    free(o->final);
    free(o->name);
    free(o);
    *output = NULL;
}
