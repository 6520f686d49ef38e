/* The value of --mask-filter: NAME[:COUNT], a filter on the server, and how often it may have the
 * k-mer that a window begins with. */
#pragma once

#include "client/cli.h"
#include "client/hspz.h"
#include "protocol/limits.h"
#include "protocol/status.h"

struct hspz_mask_option {
    const char *text; /* NULL: not given */
    char name[HSPZ_NAME_BYTES_LIMIT + 1];
};

/* Sets mask_filter, which stands in *option, and mask_count of *request. HSPZ_E_BAD_REQUEST, also
 * where several servers are meant: a filter is one's. */
HSPZ_MUST_USE enum hspz_status hspz_mask_option_apply(struct hspz_mask_option *option,
                                                      const struct hspz_cli *cli,
                                                      struct hspz_discover_request *request,
                                                      struct hspz_error *err);
