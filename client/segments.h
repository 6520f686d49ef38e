/* HSPs on their way to files or a stream, formatted by several threads, order kept.
 *
 *   folder   plain or gzipped files
 *   archive  files in one tar.gz of fixed times and owners
 *   output   one after another into a stream, without names
 *
 *   file     opens a file (nothing exists until something is added)
 *   add      HSPs of it, in order
 *   text     a small file from given bytes
 *   commit   all files so far get their final names, or their place in the archive
 *   finish   the archive gets its name
 *
 * Until commit, files stand in a folder beside their place, which goes with close; an existing file
 * of the same name is replaced by commit. The content of an archive is the same whatever the number
 * of threads, calls and machines.
 *
 * Owns:    threads, folder. `rows` of a file and what it points to are borrowed until commit.
 * Threads: one at a time.
 * Errors:  HSPZ_E_IO naming the file, HSPZ_E_BAD_PEER (hsp_rows.h), HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/hsp_rows.h"
#include "client/output.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_segments;
struct hspz_segments_file;

/* One of the first three. */
struct hspz_segments_target {
    const char *folder; /* exists */
    const char *archive;
    struct hspz_output *output; /* borrowed */
    bool gzip;                  /* of folder: each file gzipped */
    unsigned threads;           /* 0: all, at most 16 */
};

HSPZ_MUST_USE enum hspz_status hspz_segments_open(const struct hspz_segments_target *target,
                                                  struct hspz_segments **out,
                                                  struct hspz_error *err);
void hspz_segments_close(struct hspz_segments **segments);

/* *out lives until commit. `name` is copied; without a folder or archive it may be NULL. */
HSPZ_MUST_USE enum hspz_status hspz_segments_file(struct hspz_segments *segments, const char *name,
                                                  struct hspz_segments_file **out,
                                                  struct hspz_error *err);
/* `reversed`: the last of these first. The HSPs are copied, *rows too. */
HSPZ_MUST_USE enum hspz_status hspz_segments_add(struct hspz_segments *segments,
                                                 struct hspz_segments_file *file,
                                                 const struct hspz_hsp_rows *rows,
                                                 const struct hspz_hsp *hsps, size_t count,
                                                 bool reversed, struct hspz_error *err);
/* Nothing more comes to this file: what waits is written now. Not needed before commit. */
HSPZ_MUST_USE enum hspz_status hspz_segments_end(struct hspz_segments *segments,
                                                 struct hspz_segments_file *file,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_segments_text(struct hspz_segments *segments, const char *name,
                                                  const void *bytes, size_t len,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_segments_commit(struct hspz_segments *segments,
                                                    struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_segments_finish(struct hspz_segments *segments,
                                                    struct hspz_error *err);
