/* Checks that the parts of a discover stream are all there: in order (interval, strand, batch,
 * reference block, chunk, part), no chunk or part left out, hit ranges joined without a gap, and at
 * the end the totals and the digest of the final record. Of HSPs, chunks may be left out, as they
 * may have none.
 *
 * What no part can show (a whole batch missing) the totals do.
 *
 * Owns:    the digest's state.
 * Errors:  HSPZ_E_BAD_PEER (a part that does not follow the last, a digest or totals that differ),
 *          HSPZ_E_INCOMPLETE (fewer records than the final record says), HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/hspz.h"
#include "protocol/message.h"

struct hspz_order;

/* Takes of the request what says how its parts come. */
HSPZ_MUST_USE enum hspz_status hspz_order_create(const struct hspz_discover_request *request,
                                                 struct hspz_order **out);
void hspz_order_destroy(struct hspz_order **order);

/* The records of `part` are packed, or by columns. */
HSPZ_MUST_USE enum hspz_status hspz_order_part(struct hspz_order *order,
                                               const struct hspz_part_head *head,
                                               const struct hspz_part_view *part,
                                               struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_order_finish(struct hspz_order *order,
                                                 const struct hspz_discover_result *result,
                                                 struct hspz_error *err);
/* Records so far, and what they are called. */
uint64_t hspz_order_records(const struct hspz_order *order);
const char *hspz_order_noun(const struct hspz_order *order);
