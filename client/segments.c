#include "client/segments.h"

#include "client/gzip.h"
#include "client/ordered.h"
#include "client/stage.h"
#include "client/tar.h"

#include <stdlib.h>
#include <string.h>

/* HSPs formatted at a time. The members of an archive end where slices do: not to be derived from
 * anything that may differ between two runs. */
#define SLICE_HSPS 32768u
/* Room of a new slice: most files are small. */
#define SLICE_FIRST 256u

struct slice {
    struct hspz_segments_file *file;
    struct hspz_hsp_rows rows;
    struct hspz_hsp *hsps; /* or else bytes are given */
    size_t count, capacity;
    uint8_t *bytes; /* what is to be written */
    size_t len;
    uint64_t text_len; /* before it was compressed */
};

struct hspz_segments_file {
    struct hspz_segments_file *next;
    char *name;
    struct hspz_ordered_line own_line;
    struct hspz_ordered_line *line; /* own, or that of the stream */
    struct slice *pending;          /* not full yet */
    uint64_t text_len;              /* written */
};

struct hspz_segments {
    struct hspz_ordered *ordered;
    struct hspz_stage *stage;    /* of folder and archive */
    struct hspz_output *archive; /* owned */
    struct hspz_output *output;  /* the stream, borrowed */
    bool gzip, tar;
    struct hspz_ordered_line stream_line;
    struct hspz_segments_file *first, **last; /* since the last commit */
};

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write HSPs");
}

static void
free_slice(struct slice *slice)
{
    if (slice != NULL) {
        free(slice->hsps);
        free(slice->bytes);
        free(slice);
    }
}

static void
put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static void
pack(const struct slice *slice)
{
    for (size_t i = 0; i < slice->count; i++) {
        uint8_t *to = slice->bytes + i * HSPZ_HSP_BYTES;
        put_u32(to, slice->hsps[i].ref_start);
        put_u32(to + 4, slice->hsps[i].query_start);
        put_u32(to + 8, slice->hsps[i].length);
        put_u32(to + 12, (uint32_t)slice->hsps[i].score);
    }
}

static enum hspz_status
format(struct slice *slice, struct hspz_error *err)
{
    const bool packed = slice->rows.format == HSPZ_HSP_PACKED;
    const size_t line = packed ? HSPZ_HSP_BYTES : hspz_hsp_rows_line_most(&slice->rows);
    slice->bytes = malloc(slice->count * line);
    if (slice->bytes == NULL) {
        return no_memory(err);
    }
    slice->len = slice->count * line;
    if (packed) {
        pack(slice);
        return HSPZ_OK;
    }
    return hspz_hsp_rows_put(&slice->rows, slice->hsps, slice->count, (char *)slice->bytes,
                             &slice->len, err);
}

static enum hspz_status
work(void *user, void *job, struct hspz_error *err)
{
    const struct hspz_segments *segments = user;
    struct slice *slice = job;
    enum hspz_status status = slice->hsps != NULL ? format(slice, err) : HSPZ_OK;
    slice->text_len = slice->len;
    if (status == HSPZ_OK && segments->gzip) {
        uint8_t *member = NULL;
        size_t member_len = 0;
        status = hspz_gzip_member(slice->bytes, slice->len, &member, &member_len, err);
        if (status == HSPZ_OK) {
            free(slice->bytes);
            slice->bytes = member;
            slice->len = member_len;
        }
    }
    return status;
}

static enum hspz_status
finish(void *user, void *job, bool failed, struct hspz_error *err)
{
    const struct hspz_segments *segments = user;
    struct slice *slice = job;
    enum hspz_status status = HSPZ_OK;
    bool quiet;
    if (!failed && segments->stage != NULL) {
        status =
            hspz_stage_append(segments->stage, slice->file->name, slice->bytes, slice->len, err);
    } else if (!failed && !hspz_output_write(segments->output, slice->bytes, slice->len)) {
        status = hspz_output_error(segments->output, &quiet, err);
    }
    slice->file->text_len += slice->text_len;
    free_slice(slice);
    return status;
}

/* The folder an archive stands in, from malloc. */
static char *
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? strdup(".") : strndup(path, (size_t)(slash + 1 - path));
}

static enum hspz_status
open_target(struct hspz_segments *segments, const struct hspz_segments_target *target,
            struct hspz_error *err)
{
    segments->output = target->output;
    segments->tar = target->archive != NULL;
    segments->gzip = target->gzip || segments->tar;
    enum hspz_status status = HSPZ_OK;
    if (target->archive != NULL) {
        status = hspz_output_open(target->archive, &segments->archive, err);
    }
    if (status == HSPZ_OK && target->output == NULL) {
        char *folder =
            target->archive != NULL ? folder_of(target->archive) : strdup(target->folder);
        status = folder != NULL ? hspz_stage_open(folder, target->archive, &segments->stage, err)
                                : no_memory(err);
        free(folder);
    }
    return status;
}

enum hspz_status
hspz_segments_open(const struct hspz_segments_target *target, struct hspz_segments **out,
                   struct hspz_error *err)
{
    struct hspz_segments *segments = calloc(1, sizeof(*segments));
    if (segments == NULL) {
        return no_memory(err);
    }
    segments->last = &segments->first;
    const struct hspz_ordered_ops ops = {.work = work, .finish = finish, .user = segments};
    enum hspz_status status = open_target(segments, target, err);
    if (status == HSPZ_OK) {
        status = hspz_ordered_create(&ops, target->threads, &segments->ordered, err);
    }
    if (status != HSPZ_OK) {
        hspz_segments_close(&segments);
        return status;
    }
    *out = segments;
    return HSPZ_OK;
}

static void
forget_files(struct hspz_segments *segments)
{
    while (segments->first != NULL) {
        struct hspz_segments_file *file = segments->first;
        segments->first = file->next;
        free_slice(file->pending);
        free(file->name);
        free(file);
    }
    segments->last = &segments->first;
}

void
hspz_segments_close(struct hspz_segments **segments)
{
    struct hspz_segments *s = *segments;
    if (s == NULL) {
        return;
    }
    hspz_ordered_destroy(&s->ordered);
    forget_files(s);
    hspz_stage_close(&s->stage);
    hspz_output_close(&s->archive);
    free(s);
    *segments = NULL;
}

enum hspz_status
hspz_segments_file(struct hspz_segments *segments, const char *name,
                   struct hspz_segments_file **out, struct hspz_error *err)
{
    struct hspz_segments_file *file = calloc(1, sizeof(*file));
    if (file == NULL || (name != NULL && (file->name = strdup(name)) == NULL)) {
        free(file);
        return no_memory(err);
    }
    HSPZ_REQUIRE(name != NULL || segments->stage == NULL);
    file->line = segments->stage != NULL ? &file->own_line : &segments->stream_line;
    *segments->last = file;
    segments->last = &file->next;
    *out = file;
    return HSPZ_OK;
}

/* Hands the file's slice to the threads. */
static enum hspz_status
hand_over(struct hspz_segments *segments, struct hspz_segments_file *file, struct hspz_error *err)
{
    struct slice *slice = file->pending;
    file->pending = NULL;
    return hspz_ordered_give(segments->ordered, file->line, slice, err);
}

static enum hspz_status
new_slice(struct hspz_segments_file *file, struct hspz_error *err)
{
    struct slice *slice = calloc(1, sizeof(*slice));
    if (slice == NULL) {
        return no_memory(err);
    }
    slice->file = file;
    file->pending = slice;
    return HSPZ_OK;
}

/* Room for `more`, or for what a slice may still take of them. */
static enum hspz_status
make_room(struct slice *slice, size_t more, struct hspz_error *err)
{
    const size_t need = more < SLICE_HSPS - slice->count ? slice->count + more : SLICE_HSPS;
    if (slice->capacity >= need) {
        return HSPZ_OK;
    }
    size_t want = slice->capacity == 0 ? SLICE_FIRST : 2 * slice->capacity;
    want = want < need ? need : want;
    want = want < SLICE_HSPS ? want : SLICE_HSPS;
    struct hspz_hsp *grown = realloc(slice->hsps, want * sizeof(*grown));
    if (grown == NULL) {
        return no_memory(err);
    }
    slice->hsps = grown;
    slice->capacity = want;
    return HSPZ_OK;
}

static bool
same_rows(const struct hspz_hsp_rows *a, const struct hspz_hsp_rows *b)
{
    return a->format == b->format && a->refs == b->refs && a->queries == b->queries &&
           a->query_len == b->query_len && a->strand == b->strand && a->ref_block == b->ref_block &&
           a->bases == b->bases;
}

enum hspz_status
hspz_segments_add(struct hspz_segments *segments, struct hspz_segments_file *file,
                  const struct hspz_hsp_rows *rows, const struct hspz_hsp *hsps, size_t count,
                  bool reversed, struct hspz_error *err)
{
    size_t done = 0;
    while (done < count) {
        enum hspz_status status = HSPZ_OK;
        if (file->pending != NULL &&
            (file->pending->count == SLICE_HSPS || !same_rows(&file->pending->rows, rows))) {
            status = hand_over(segments, file, err);
        }
        if (status == HSPZ_OK && file->pending == NULL) {
            status = new_slice(file, err);
        }
        if (status == HSPZ_OK) {
            status = make_room(file->pending, count - done, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        struct slice *slice = file->pending;
        slice->rows = *rows;
        const size_t room = SLICE_HSPS - slice->count;
        const size_t take = count - done < room ? count - done : room;
        struct hspz_hsp *to = slice->hsps + slice->count;
        for (size_t i = 0; i < take; i++) {
            to[i] = hsps[reversed ? count - 1 - done - i : done + i];
        }
        slice->count += take;
        done += take;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_segments_end(struct hspz_segments *segments, struct hspz_segments_file *file,
                  struct hspz_error *err)
{
    return file->pending != NULL ? hand_over(segments, file, err) : HSPZ_OK;
}

enum hspz_status
hspz_segments_text(struct hspz_segments *segments, const char *name, const void *bytes, size_t len,
                   struct hspz_error *err)
{
    struct hspz_segments_file *file = NULL;
    enum hspz_status status = hspz_segments_file(segments, name, &file, err);
    if (status == HSPZ_OK) {
        status = new_slice(file, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    file->pending->bytes = malloc(len + 1);
    if (file->pending->bytes == NULL) {
        return no_memory(err);
    }
    if (len > 0) {
        memcpy(file->pending->bytes, bytes, len);
    }
    file->pending->len = len;
    return hand_over(segments, file, err);
}

/* Bytes into the archive, as a gzip member. */
static enum hspz_status
write_member(struct hspz_segments *segments, const void *bytes, size_t len, struct hspz_error *err)
{
    uint8_t *member = NULL;
    size_t member_len = 0;
    bool quiet;
    enum hspz_status status = hspz_gzip_member(bytes, len, &member, &member_len, err);
    if (status == HSPZ_OK && !hspz_output_write(segments->archive, member, member_len)) {
        status = hspz_output_error(segments->archive, &quiet, err);
    }
    free(member);
    return status;
}

static enum hspz_status
archive_file(struct hspz_segments *segments, const struct hspz_segments_file *file,
             struct hspz_error *err)
{
    static const uint8_t zeros[HSPZ_TAR_BLOCK] = {0};
    uint8_t header[HSPZ_TAR_BLOCK];
    hspz_tar_header(header, file->name, file->text_len);
    enum hspz_status status = write_member(segments, header, sizeof(header), err);
    if (status == HSPZ_OK) {
        status = hspz_stage_pour(segments->stage, file->name, segments->archive, err);
    }
    const uint32_t padding = hspz_tar_padding(file->text_len);
    if (status == HSPZ_OK && padding > 0) {
        status = write_member(segments, zeros, padding, err);
    }
    return status;
}

static enum hspz_status
place_files(struct hspz_segments *segments, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (!segments->tar) {
        status = hspz_stage_sync(segments->stage, err);
    }
    for (const struct hspz_segments_file *file = segments->first; file != NULL && status == HSPZ_OK;
         file = file->next) {
        if (file->own_line.given > 0) {
            status = segments->tar ? archive_file(segments, file, err)
                                   : hspz_stage_move(segments->stage, file->name, err);
        }
    }
    return status;
}

enum hspz_status
hspz_segments_commit(struct hspz_segments *segments, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (struct hspz_segments_file *file = segments->first; file != NULL && status == HSPZ_OK;
         file = file->next) {
        status = hspz_segments_end(segments, file, err);
    }
    const enum hspz_status drained = hspz_ordered_drain(segments->ordered, err);
    status = status == HSPZ_OK ? drained : status;
    if (status == HSPZ_OK && segments->stage != NULL) {
        status = place_files(segments, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    forget_files(segments);
    return HSPZ_OK;
}

enum hspz_status
hspz_segments_finish(struct hspz_segments *segments, struct hspz_error *err)
{
    static const uint8_t zeros[HSPZ_TAR_END_BYTES] = {0};
    if (segments->archive == NULL) {
        return HSPZ_OK;
    }
    const enum hspz_status status = write_member(segments, zeros, sizeof(zeros), err);
    return status == HSPZ_OK ? hspz_output_commit(segments->archive, err) : status;
}
