/* Anchors by columns: a part's payload in encoding "columnar".
 *
 * Layout:  a run for each window of the query (of given seeds, for each seed) that has anchors in
 *          the part: query position, number of anchors, both u32; then the anchors' reference
 *          positions, u32, in the order of the anchors. All little-endian, positions as in an
 *          anchor. So n anchors of s runs take 8 s + 4 n bytes.
 * Owns:    nothing: columns borrow the payload, at any alignment.
 * Errors:  HSPZ_E_BAD_REQUEST says what is wrong with a payload. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The payload of a part of `anchors` anchors: its size fits, no run is empty, and their numbers add
 * up. */
HSPZ_MUST_USE enum hspz_status hspz_columns_open(struct hspz_span payload, uint64_t anchors,
                                                 struct hspz_columns *out, struct hspz_error *err);

/* The next anchors from *place on, `most` at most, as little-endian u64 into `packed` (8 bytes
 * each); returns how many. A place begins as zeros. The columns are those of open, or made by us;
 * when they have changed since, what comes is not what they were, and may be less. */
size_t hspz_columns_read(const struct hspz_columns *columns, struct hspz_columns_place *place,
                         uint8_t *packed, size_t most);
