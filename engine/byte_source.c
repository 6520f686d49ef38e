#include "engine/byte_source.h"

#include "engine/shown_path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum coding {
    CODING_UNKNOWN, /* nothing was read yet */
    CODING_PLAIN,
    CODING_GZIP_MEMBER,  /* inside one */
    CODING_GZIP_BETWEEN, /* after one: another, padding or the end */
};

struct hspz_byte_source {
    int fd;
    bool owns_fd;
    bool may_wait; /* no regular file */
    int wake_fd;   /* -1: none */
    struct hspz_shown_path shown;
    hspz_progress_fn progress;
    void *user;
    uint64_t consumed, total; /* of the file; total 0: not known */
    bool at_end;              /* the descriptor has no more */
    enum coding coding;
    bool inflating; /* `gzip` is initialised */
    z_stream gzip;  /* next_in, avail_in: what of `raw` is not consumed */
    uint8_t raw[HSPZ_BYTE_SOURCE_CHUNK];
    uint8_t plain[HSPZ_BYTE_SOURCE_CHUNK];
};

enum hspz_status
hspz_byte_source_open(const char *path, hspz_progress_fn progress, void *user,
                      struct hspz_byte_source **out, struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(path);
    struct hspz_byte_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", shown.text);
    }
    source->shown = shown;
    source->progress = progress;
    source->user = user;
    source->owns_fd = strcmp(path, "-") != 0;
    source->fd = source->owns_fd ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (source->fd < 0) {
        const int error = errno;
        free(source);
        return hspz_error_errno(err, HSPZ_E_IO, error, "%s", shown.text);
    }
    struct stat st;
    const bool regular = fstat(source->fd, &st) == 0 && S_ISREG(st.st_mode);
    source->total = regular && st.st_size > 0 ? (uint64_t)st.st_size : 0;
    source->may_wait = !regular;
    source->wake_fd = -1;
    *out = source;
    return HSPZ_OK;
}

void
hspz_byte_source_close(struct hspz_byte_source **source)
{
    struct hspz_byte_source *s = *source;
    if (s == NULL) {
        return;
    }
    if (s->inflating) {
        inflateEnd(&s->gzip);
    }
    if (s->owns_fd) {
        close(s->fd);
    }
    free(s);
    *source = NULL;
}

void
hspz_byte_source_plain(struct hspz_byte_source *source)
{
    source->coding = CODING_PLAIN;
}

void
hspz_byte_source_wake(struct hspz_byte_source *source, int fd)
{
    source->wake_fd = fd;
}

bool
hspz_byte_source_report(struct hspz_byte_source *source)
{
    return source->progress == NULL ||
           source->progress(source->user, source->consumed, source->total);
}

static enum hspz_status
stopped(const struct hspz_byte_source *source, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_STOPPED, "%s: stopped by the caller", source->shown.text);
}

/* Until there are bytes, or the end. False: woken first. */
static bool
wait_for_bytes(const struct hspz_byte_source *source)
{
    struct pollfd fds[2] = {{.fd = source->fd, .events = POLLIN},
                            {.fd = source->wake_fd, .events = POLLIN}};
    int n = 0;
    do {
        n = source->may_wait && source->wake_fd >= 0 ? poll(fds, 2, -1) : 0;
    } while (n < 0 && errno == EINTR); /* a read says what else is wrong */
    return fds[1].revents == 0;
}

/* Fills `raw` as far as the descriptor gives: fewer bytes than its size only at the end. */
static enum hspz_status
read_raw(struct hspz_byte_source *source, struct hspz_error *err)
{
    size_t len = 0;
    while (len < sizeof(source->raw) && !source->at_end) {
        if (!wait_for_bytes(source)) {
            return stopped(source, err);
        }
        const ssize_t got = read(source->fd, source->raw + len, sizeof(source->raw) - len);
        if (got < 0 && errno != EINTR) {
            return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: reading at byte %" PRIu64,
                                    source->shown.text, source->consumed + len);
        }
        /* A signal may mean that the caller has had enough, and no byte may ever come. */
        if (got < 0 && !hspz_byte_source_report(source)) {
            return stopped(source, err);
        }
        if (got == 0) {
            source->at_end = true;
        } else if (got > 0) {
            len += (size_t)got;
        }
    }
    source->consumed += len;
    source->gzip.next_in = source->raw;
    source->gzip.avail_in = (unsigned)len;
    return hspz_byte_source_report(source) ? HSPZ_OK : stopped(source, err);
}

/* Offset in the file of the first byte that is not consumed. */
static uint64_t
raw_offset(const struct hspz_byte_source *source)
{
    return source->consumed - source->gzip.avail_in;
}

static enum hspz_status
start(struct hspz_byte_source *source, struct hspz_error *err)
{
    const enum hspz_status status = read_raw(source, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (source->gzip.avail_in < 2 || source->raw[0] != 0x1f || source->raw[1] != 0x8b) {
        source->coding = CODING_PLAIN;
        return HSPZ_OK;
    }
    if (inflateInit2(&source->gzip, 16 + MAX_WBITS) != Z_OK) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", source->shown.text);
    }
    source->inflating = true;
    source->coding = CODING_GZIP_MEMBER;
    return HSPZ_OK;
}

/* After a member: zero bytes up to the end, or another member. */
static enum hspz_status
between_members(struct hspz_byte_source *source, struct hspz_error *err)
{
    z_stream *gzip = &source->gzip;
    if (*gzip->next_in == 0x1f) {
        inflateReset(gzip);
        source->coding = CODING_GZIP_MEMBER;
        return HSPZ_OK;
    }
    do {
        for (; gzip->avail_in > 0; gzip->next_in++, gzip->avail_in--) {
            if (*gzip->next_in != 0) {
                return hspz_error_set(err, HSPZ_E_BAD_FILE,
                                      "%s: byte 0x%02x at byte %" PRIu64 ", after the gzip data",
                                      source->shown.text, *gzip->next_in, raw_offset(source));
            }
        }
        const enum hspz_status status = read_raw(source, err);
        if (status != HSPZ_OK) {
            return status;
        }
    } while (gzip->avail_in > 0);
    return HSPZ_OK;
}

static enum hspz_status
inflate_some(struct hspz_byte_source *source, struct hspz_error *err)
{
    const int result = inflate(&source->gzip, Z_NO_FLUSH);
    switch (result) {
    case Z_OK:
    case Z_BUF_ERROR:
        return HSPZ_OK;
    case Z_STREAM_END:
        source->coding = CODING_GZIP_BETWEEN;
        return HSPZ_OK;
    case Z_MEM_ERROR:
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", source->shown.text);
    default:
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%s: damaged gzip data before byte %" PRIu64 ": %s",
                              source->shown.text, raw_offset(source),
                              source->gzip.msg != NULL ? source->gzip.msg : zError(result));
    }
}

/* Fills `plain`, with fewer bytes than its size only at the end. */
static enum hspz_status
gunzip(struct hspz_byte_source *source, size_t *len, struct hspz_error *err)
{
    z_stream *gzip = &source->gzip;
    gzip->next_out = source->plain;
    gzip->avail_out = sizeof(source->plain);
    enum hspz_status status = HSPZ_OK;
    while (status == HSPZ_OK && gzip->avail_out > 0) {
        if (gzip->avail_in == 0 && !source->at_end) {
            status = read_raw(source, err);
        }
        if (status == HSPZ_OK && gzip->avail_in == 0) {
            if (source->coding == CODING_GZIP_BETWEEN) {
                break;
            }
            status = hspz_error_set(err, HSPZ_E_BAD_FILE,
                                    "%s: cut short: the gzip data goes on after byte %" PRIu64,
                                    source->shown.text, source->consumed);
        }
        if (status == HSPZ_OK) {
            status = source->coding == CODING_GZIP_BETWEEN ? between_members(source, err)
                                                           : inflate_some(source, err);
        }
    }
    *len = sizeof(source->plain) - gzip->avail_out;
    return status;
}

enum hspz_status
hspz_byte_source_next(struct hspz_byte_source *source, const uint8_t **bytes, size_t *len,
                      struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    const bool first = source->coding == CODING_UNKNOWN;
    if (first) {
        status = start(source, err);
    }
    if (status == HSPZ_OK && source->coding != CODING_PLAIN) {
        *bytes = source->plain;
        return gunzip(source, len, err);
    }
    if (status == HSPZ_OK && !first) {
        source->gzip.avail_in = 0;
        status = source->at_end ? HSPZ_OK : read_raw(source, err);
    }
    *bytes = source->raw;
    *len = source->gzip.avail_in;
    return status;
}
