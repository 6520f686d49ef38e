/* Which devices hold which blocks of an index.
 *
 * Owns:    its arrays.
 * Threads: init and bytes on the loop; make on whatever thread loads the index; then read only. */
#pragma once

#include "daemon/config.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_placing {
    enum hspz_placement how;
    unsigned device_count, member_count;
    unsigned *members; /* devices that it may be on, the first one first */
    size_t block_count;
    bool *holds; /* [block][device]; NULL: every device holds every block */
};

/* For so many devices, of which it may be on those that are members; bytes[d]: what others have on
 * device d. *placing is all zero, or finished. HSPZ_E_DEVICE_ERROR: there is no member. */
HSPZ_MUST_USE enum hspz_status hspz_placing_init(struct hspz_placing *placing,
                                                 enum hspz_placement how, unsigned device_count,
                                                 const bool *members, const uint64_t *bytes,
                                                 struct hspz_error *err);
void hspz_placing_fini(struct hspz_placing *placing);
/* For an index of so many blocks. */
HSPZ_MUST_USE enum hspz_status hspz_placing_make(struct hspz_placing *placing, size_t blocks,
                                                 struct hspz_error *err);
/* Of each device whether it holds the block; NULL: all do. */
const bool *hspz_placing_holders(const struct hspz_placing *placing, size_t block);
/* What of an index of so many bytes is on the device. */
uint64_t hspz_placing_bytes(const struct hspz_placing *placing, unsigned device, uint64_t bytes);
