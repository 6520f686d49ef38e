/* Where the HSPs of a command go: a stream of one format, KegAlign's files in a folder or an
 * archive, or a file for each pair of sequences; with the LASTZ commands for KegAlign's files.
 *
 *   begin    a query block: its places are set by then
 *   take     a part's HSPs, in coordinates of the block on its strand
 *   flush    after each job of a block
 *   end      the block is whole: its files get their names, its commands are printed
 *   finish   after the last block: the stream or archive gets its name
 *
 * Owns:    what it opened. Plans and places are borrowed.
 * Errors:  of segments.h, hsp_files.h and hsp_store.h. */
#pragma once

#include "client/file_plan.h"
#include "client/hsp_rows.h"
#include "client/lastz_command.h"
#include "client/places.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_hsp_sink;

struct hspz_hsp_target {
    /* One of these: */
    const char *output;  /* a stream of `format` */
    const char *folder;  /* KegAlign's files; those of an earlier run go, which is said */
    const char *archive; /* the same in a tar.gz */
    const char *pairs;   /* a folder of one file for each pair of sequences */
    enum hspz_hsp_format format;
    const struct hspz_lastz *lastz; /* commands to standard output, with an archive also into it as
                                       lastz-commands.txt; NULL: none */
    uint64_t segment_size;          /* of folder: files of more HSPs are cut with their commands
                                       (segment_split.h); 0: they stay whole */
    uint64_t reach;                 /* of that */
};

struct hspz_hsp_sink_plan {
    const struct hspz_file_plan *refs, *queries;
    const struct hspz_places *ref_places;
    const struct hspz_places *query_places; /* of the block under way */
    uint32_t span;
    uint64_t interval;
    bool job_intervals;                 /* parts name their interval */
    const struct hspz_hsp_bases *bases; /* of PAF; NULL: not known */
    bool quiet;                         /* no notes */
};

HSPZ_MUST_USE enum hspz_status hspz_hsp_sink_open(const struct hspz_hsp_target *target,
                                                  const struct hspz_hsp_sink_plan *plan,
                                                  struct hspz_hsp_sink **out,
                                                  struct hspz_error *err);
void hspz_hsp_sink_close(struct hspz_hsp_sink **sink);

HSPZ_MUST_USE enum hspz_status hspz_hsp_sink_begin(struct hspz_hsp_sink *sink, size_t query_block,
                                                   struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_hsp_sink_take(struct hspz_hsp_sink *sink,
                                                  const struct hspz_part_id *id,
                                                  const struct hspz_hsp *hsps, size_t count,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_hsp_sink_flush(struct hspz_hsp_sink *sink,
                                                   struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_hsp_sink_end(struct hspz_hsp_sink *sink,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_hsp_sink_finish(struct hspz_hsp_sink *sink,
                                                    struct hspz_error *err);
/* True when the reader of the stream went away: not an error to speak of. */
bool hspz_hsp_sink_unread(const struct hspz_hsp_sink *sink);
