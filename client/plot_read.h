/* Matches from files: what `discover` and `hsps` write as TSV, LASTZ's segments, and PAF; gzip or
 * not. Which of them a line is, its fields tell: TSV has a header that begins with `#ref`, PAF
 * twelve fields or more, segments seven or eight. Other lines that begin with # are comments.
 *
 * Owns:    the matches. The axes are borrowed; sequences that come are added to them, or have to
 *          be there where an axis is fixed.
 * Units:   0-based, half-open, as soon as they are read; a segment's minus coordinates count from
 *          the end of its query, whose length is known when all is read.
 * Errors:  HSPZ_E_BAD_FILE names file, line and what is wrong; HSPZ_E_IO; HSPZ_E_STOPPED;
 *          HSPZ_E_OUT_OF_MEMORY. After an error only fini. */
#pragma once

#include "client/plot_axis.h"
#include "client/plot_grid.h"
#include "engine/sequence_file.h"

#define HSPZ_PLOT_LINE_BYTES 262144u

struct hspz_plot_record {
    uint32_t ref, query; /* numbers on the axes */
    uint32_t ref_begin, ref_end, query_begin, query_end;
    bool minus, from_end;
};

struct hspz_plot_reader {
    struct hspz_plot_axis *ref, *query;
    struct hspz_plot_record *records;
    size_t count, capacity;
    bool needs_lengths; /* some count from the end of their query */
    const char *path;   /* for messages */
    bool tsv;           /* the file's header was seen */
    uint64_t line;
    char *text; /* the line so far */
    size_t len;
};

HSPZ_MUST_USE enum hspz_status hspz_plot_reader_init(struct hspz_plot_reader *reader,
                                                     struct hspz_plot_axis *ref,
                                                     struct hspz_plot_axis *query,
                                                     struct hspz_error *err);
void hspz_plot_reader_fini(struct hspz_plot_reader *reader);

/* A file, fed piece by piece; how it is cut changes nothing. */
void hspz_plot_reader_begin(struct hspz_plot_reader *reader, const char *path);
HSPZ_MUST_USE enum hspz_status hspz_plot_reader_feed(struct hspz_plot_reader *reader,
                                                     const uint8_t *bytes, size_t len,
                                                     struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_plot_reader_end(struct hspz_plot_reader *reader,
                                                    struct hspz_error *err);
/* The file at `path`, or each file of segments in that folder. */
HSPZ_MUST_USE enum hspz_status hspz_plot_reader_read(struct hspz_plot_reader *reader,
                                                     const char *path, hspz_progress_fn progress,
                                                     void *user, struct hspz_error *err);

/* A record's place; the axes are settled. */
void hspz_plot_reader_place(const struct hspz_plot_reader *reader,
                            const struct hspz_plot_record *record, struct hspz_plot_match *out);
