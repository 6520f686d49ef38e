/* How two sets of HSPs differ. Each HSP of either set falls into the first class that fits:
 *
 *   equal      the other set has it too: names, strand, both intervals, score
 *   rescored   the same intervals with another score
 *   shifted    starts and ends all at most `tolerance` bases from those of one of the other set
 *   contained  on its diagonal, inside one of the other set
 *   only       none of these
 *
 * The first three pair an HSP with one of the other set, each used once; what stands twice in one
 * set and once in the other is equal once and contained once. Nothing depends on the order.
 *
 * Errors: HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/segment_file.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

enum hspz_hsp_class {
    HSPZ_HSP_EQUAL,
    HSPZ_HSP_RESCORED,
    HSPZ_HSP_SHIFTED,
    HSPZ_HSP_CONTAINED,
    HSPZ_HSP_ONLY,
    HSPZ_HSP_CLASSES
};

struct hspz_hsp_match {
    enum hspz_hsp_class of;
    size_t other; /* place in the other list; of no meaning for HSPZ_HSP_ONLY */
};

const char *hspz_hsp_class_name(enum hspz_hsp_class of);

/* Sorts both lists (which share their names); matches[i][j] is about segment j of list i. */
HSPZ_MUST_USE enum hspz_status hspz_hsp_compare(struct hspz_segment_list *const lists[2],
                                                uint64_t tolerance,
                                                struct hspz_hsp_match *matches[2],
                                                struct hspz_error *err);
