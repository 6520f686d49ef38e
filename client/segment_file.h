/* HSPs in LASTZ's segment format, which KegAlign writes too: a line each of target name, start,
 * end, query name, start, end, strand and, if it has one, score, set apart by tabs or blanks.
 * Positions are 1-based with both ends in; the query's count on its strand. A line that begins
 * with # is a comment, and so is what follows the last field after a #.
 *
 * Errors: HSPZ_E_BAD_FILE names file, line and field; HSPZ_E_IO; HSPZ_E_STOPPED;
 *         HSPZ_E_OUT_OF_MEMORY. A list is as it was before a call that failed. */
#pragma once

#include "client/names.h"
#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_SEGMENT_LINE_BYTES 65536u

struct hspz_segment {
    uint64_t target_start, query_start; /* 0-based, the query's on its strand */
    uint64_t len;                       /* bases, at least 1 */
    uint64_t line;                      /* where it was read, 1-based */
    uint32_t target, query;             /* names */
    uint32_t file;                      /* as given when it was read */
    int32_t score;                      /* 0 when there is none */
    bool minus;
};

/* Owns its segments; `names` is borrowed and may be shared by several lists. */
struct hspz_segment_list {
    struct hspz_names *names;
    struct hspz_segment *segments;
    size_t count, capacity;
};

void hspz_segment_list_init(struct hspz_segment_list *list, struct hspz_names *names);
void hspz_segment_list_fini(struct hspz_segment_list *list);

/* Adds the segments of a file, gzip or not ("-": standard input). Names that come with it stay in
 * `names` also when the call fails. */
HSPZ_MUST_USE enum hspz_status hspz_segment_file_read(struct hspz_segment_list *list,
                                                      const char *path, uint32_t file,
                                                      hspz_progress_fn progress, void *user,
                                                      struct hspz_error *err);

/* The same, fed piece by piece; how the text is cut changes nothing. After an error only fini. */
struct hspz_segment_reader {
    struct hspz_segment_list *list;
    const char *path; /* for messages */
    uint32_t file;
    uint64_t line;
    size_t before; /* segments of the list when it began */
    char *text;    /* the line so far */
    size_t len;
};

HSPZ_MUST_USE enum hspz_status hspz_segment_reader_init(struct hspz_segment_reader *reader,
                                                        struct hspz_segment_list *list,
                                                        const char *path, uint32_t file,
                                                        struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_segment_reader_feed(struct hspz_segment_reader *reader,
                                                        const uint8_t *bytes, size_t len,
                                                        struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_segment_reader_finish(struct hspz_segment_reader *reader,
                                                          struct hspz_error *err);
void hspz_segment_reader_fini(struct hspz_segment_reader *reader);

/* Paths of segment files: of a folder those that end in .segments or .segments.gz, numbers in names
 * ordered as numbers; else `path` itself. HSPZ_E_BAD_FILE when a folder has none, unless it has
 * query_block0.name: then it is that of a run that found no HSPs. */
struct hspz_segment_paths {
    char **paths;
    size_t count, capacity;
};

HSPZ_MUST_USE enum hspz_status hspz_segment_paths_add(struct hspz_segment_paths *paths,
                                                      const char *path, struct hspz_error *err);
void hspz_segment_paths_fini(struct hspz_segment_paths *paths);

/* All of them into one list. */
HSPZ_MUST_USE enum hspz_status hspz_segment_paths_read(const struct hspz_segment_paths *paths,
                                                       struct hspz_segment_list *list,
                                                       hspz_progress_fn progress, void *user,
                                                       struct hspz_error *err);

/* A line of a segment file, with its line end; at most HSPZ_SEGMENT_TEXT_BYTES and the names. */
#define HSPZ_SEGMENT_TEXT_BYTES 128u
size_t hspz_segment_print(const struct hspz_segment *segment, const char *target, const char *query,
                          char *to, size_t room);
