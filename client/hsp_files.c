#include "client/hsp_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Room for so many HSPs at first. */
#define FIRST_ROOM 1024u

struct hspz_hsp_file {
    struct hspz_segments_file *file;
    struct hspz_hsp_rows rows;
    struct hspz_hsp *hsps; /* waiting */
    size_t count, capacity;
    struct hspz_hsp_file *next_pending;
};

enum hspz_status
hspz_hsp_files_begin(struct hspz_hsp_files *files, size_t query_block, uint64_t query_bases,
                     struct hspz_error *err)
{
    hspz_hsp_files_end(files);
    files->query_block = query_block;
    files->query_bases = query_bases;
    files->intervals = hspz_file_plan_intervals(query_bases, files->span, files->interval);
    files->last = (struct hspz_part_id){0};
    const size_t blocks = files->refs->block_count;
    if (files->intervals > SIZE_MAX / 32 / (blocks + 1)) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE, "%" PRIu64 " intervals are too many",
                              files->intervals);
    }
    files->file_count = (size_t)files->intervals * blocks * 2;
    files->files = calloc(files->file_count + 1, sizeof(*files->files));
    return files->files != NULL ? HSPZ_OK
                                : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY,
                                                 "no memory for %zu files", files->file_count);
}

void
hspz_hsp_files_end(struct hspz_hsp_files *files)
{
    for (size_t i = 0; i < files->file_count && files->files != NULL; i++) {
        if (files->files[i] != NULL) {
            free(files->files[i]->hsps);
            free(files->files[i]);
        }
    }
    free(files->files);
    files->files = NULL;
    files->file_count = 0;
    files->pending = NULL;
}

static size_t
place_of(const struct hspz_hsp_files *files, uint64_t interval, size_t ref_block,
         enum hspz_strand strand)
{
    return (size_t)(interval - 1) * files->refs->block_count * 2 + ref_block * 2 + (size_t)strand;
}

bool
hspz_hsp_files_has(const struct hspz_hsp_files *files, uint64_t interval, size_t ref_block,
                   enum hspz_strand strand)
{
    return files->files[place_of(files, interval, ref_block, strand)] != NULL;
}

static enum hspz_status
open_file(struct hspz_hsp_files *files, uint64_t interval, const struct hspz_part_id *id,
          struct hspz_hsp_file **out, struct hspz_error *err)
{
    struct hspz_hsp_file **slot =
        &files->files[place_of(files, interval, id->ref_block, id->strand)];
    *out = *slot;
    if (*slot != NULL) {
        return HSPZ_OK;
    }
    char name[HSPZ_SEGMENTS_NAME_BYTES];
    struct hspz_hsp_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write HSPs");
    }
    hspz_file_plan_segments_name(name, interval, files->query_block,
                                 files->refs->blocks[id->ref_block].start, id->strand);
    file->rows = (struct hspz_hsp_rows){
        .format = HSPZ_HSP_SEGMENTS,
        .refs = files->ref_places,
        .queries = files->query_places,
        .query_len = files->query_bases,
        .strand = id->strand,
        .ref_block = id->ref_block,
    };
    const enum hspz_status status = hspz_segments_file(files->segments, name, &file->file, err);
    if (status != HSPZ_OK) {
        free(file);
        return status;
    }
    *slot = *out = file;
    return HSPZ_OK;
}

/* Keeps HSPs until all of their interval are there. */
static enum hspz_status
keep(struct hspz_hsp_files *files, struct hspz_hsp_file *file, const struct hspz_hsp *hsps,
     size_t count, struct hspz_error *err)
{
    if (file->capacity - file->count < count) {
        const size_t want = 2 * (file->count + count) + FIRST_ROOM;
        struct hspz_hsp *grown = realloc(file->hsps, want * sizeof(*grown));
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write HSPs");
        }
        file->hsps = grown;
        file->capacity = want;
    }
    if (file->count == 0) {
        file->next_pending = files->pending;
        files->pending = file;
    }
    memcpy(file->hsps + file->count, hsps, count * sizeof(*hsps));
    file->count += count;
    return HSPZ_OK;
}

enum hspz_status
hspz_hsp_files_flush(struct hspz_hsp_files *files, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    while (files->pending != NULL && status == HSPZ_OK) {
        struct hspz_hsp_file *file = files->pending;
        status = hspz_segments_add(files->segments, file->file, &file->rows, file->hsps,
                                   file->count, true, err);
        files->pending = file->next_pending;
        free(file->hsps);
        file->hsps = NULL;
        file->count = file->capacity = 0;
    }
    return status;
}

/* HSPs of one interval. */
static enum hspz_status
take_interval(struct hspz_hsp_files *files, uint64_t interval, const struct hspz_part_id *id,
              const struct hspz_hsp *hsps, size_t count, struct hspz_error *err)
{
    struct hspz_hsp_file *file = NULL;
    enum hspz_status status = open_file(files, interval, id, &file, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (id->strand == HSPZ_STRAND_PLUS) {
        return hspz_segments_add(files->segments, file->file, &file->rows, hsps, count, false, err);
    }
    /* Without intervals of the job those of a reference block come one after another. */
    if (!files->job_intervals && files->pending != NULL && files->pending != file) {
        status = hspz_hsp_files_flush(files, err);
    }
    return status == HSPZ_OK ? keep(files, file, hsps, count, err) : status;
}

enum hspz_status
hspz_hsp_files_take(struct hspz_hsp_files *files, const struct hspz_part_id *id,
                    const struct hspz_hsp *hsps, size_t count, struct hspz_error *err)
{
    if (id->ref_block >= files->refs->block_count || id->interval >= files->intervals) {
        return hspz_error_set(
            err, HSPZ_E_BAD_PEER,
            "HSPs of interval %" PRIu32 " and ref_block %" PRIu32 ": there are %" PRIu64 " and %zu",
            id->interval, id->ref_block, files->intervals, files->refs->block_count);
    }
    enum hspz_status status = HSPZ_OK;
    if (id->interval != files->last.interval || id->strand != files->last.strand) {
        status = hspz_hsp_files_flush(files, err);
    }
    files->last = *id;
    if (files->job_intervals) {
        return status == HSPZ_OK ? take_interval(files, id->interval + 1, id, hsps, count, err)
                                 : status;
    }
    for (size_t i = 0, end; i < count && status == HSPZ_OK; i = end) {
        const uint64_t interval = hspz_file_plan_interval_of(
            files->query_bases, files->span, files->interval, id->strand, hsps[i].query_start);
        for (end = i + 1; end < count; end++) {
            if (hspz_file_plan_interval_of(files->query_bases, files->span, files->interval,
                                           id->strand, hsps[end].query_start) != interval) {
                break;
            }
        }
        status = take_interval(files, interval, id, hsps + i, end - i, err);
    }
    return status;
}
