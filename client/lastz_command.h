/* The command line that has LASTZ align along a file of segments, as KegAlign prints it.
 *
 * Words with anything a shell takes for more than itself are quoted; brackets are not, as KegAlign
 * leaves them. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_lastz {
    const char *ref, *query; /* sequence files */
    const char *folder;      /* of segments and names, with its '/', or "" */
    const char *format;      /* of LASTZ, also the end of the output's name */
    uint64_t ydrop, gappedthresh;
    int64_t inner;         /* -1: none */
    const char *ambiguous; /* NULL: none */
    bool notrivial;
    const char *scoring; /* NULL: none */
};
#define HSPZ_LASTZ_DEFAULT                                                                         \
    {                                                                                              \
        .folder = "", .format = "maf-", .ydrop = 9430, .gappedthresh = 3000, .inner = -1           \
    }

/* One line with its end, from malloc; NULL without memory. `segments` is a name of
 * hspz_file_plan_segments_name. */
char *hspz_lastz_line(const struct hspz_lastz *lastz, size_t ref_block, size_t query_block,
                      enum hspz_strand strand, const char *segments);
