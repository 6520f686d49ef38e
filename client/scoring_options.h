/* What HSP commands take about scores, and the request it makes. */
#pragma once

#include "client/hspz.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_scoring_options {
    uint64_t xdrop, threshold, limit;
    bool entropy;
    bool compat;           /* KegAlign's chunks */
    const char *ambiguous; /* LASTZ's option; NULL: none */
    const char *file;      /* of LASTZ scores; NULL: none */
};
#define HSPZ_SCORING_OPTIONS_DEFAULT                                                               \
    {                                                                                              \
        .xdrop = HSPZ_XDROP_DEFAULT, .threshold = HSPZ_THRESHOLD_DEFAULT, .limit = UINT64_MAX,     \
        .entropy = true                                                                            \
    }

/* Sets records, scoring and own_scores of *request. HSPZ_E_BAD_REQUEST and HSPZ_E_IO name the
 * option or the file and its line. */
HSPZ_MUST_USE enum hspz_status
hspz_scoring_options_apply(const struct hspz_scoring_options *options,
                           struct hspz_discover_request *request, struct hspz_error *err);
