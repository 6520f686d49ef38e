/* The HSPs of a job on their way out: sets that fill while anchors are extended, and parts of them
 * once they are settled (struct hspz_part_id says what a part belongs to).
 *
 * Owns:    the sets: one for HSPZ_SCOPE_CHUNK, one of each strand and reference block for
 *          HSPZ_SCOPE_JOB.
 * Threads: one at a time.
 * Errors:  HSPZ_E_OUT_OF_MEMORY; HSPZ_E_TOO_LARGE when all sets together hold more HSPs than
 *          scoring.limit. */
#pragma once

#include "engine/engine.h"
#include "engine/hsp_set.h"

struct hspz_collect_set;

struct hspz_collect {
    struct hspz_pool *pool; /* of this step, to sort with; NULL: none */
    uint64_t limit;
    size_t block_count;
    size_t set_count;
    struct hspz_collect_set *sets;
    struct hspz_collect_set *sending; /* settled; NULL: none */
    uint64_t sent;                    /* HSPs of it */
    uint32_t part_number;
};

HSPZ_MUST_USE enum hspz_status hspz_collect_init(struct hspz_collect *collect,
                                                 const struct hspz_scoring *scoring,
                                                 size_t block_count, struct hspz_error *err);
void hspz_collect_fini(struct hspz_collect *collect);

/* Where HSPs of a strand and block go now, its limit set to what the others leave. */
HSPZ_MUST_USE enum hspz_status hspz_collect_open(struct hspz_collect *collect,
                                                 enum hspz_strand strand, size_t block,
                                                 struct hspz_hsp_set **out, struct hspz_error *err);

/* HSPZ_E_TOO_LARGE in the job's numbers, after a set of it was found too large. */
enum hspz_status hspz_collect_refuse(const struct hspz_collect *collect, struct hspz_error *err);

/* Settles the set of a strand and block; its parts come next. */
HSPZ_MUST_USE enum hspz_status hspz_collect_settle(struct hspz_collect *collect,
                                                   enum hspz_strand strand, size_t block,
                                                   struct hspz_error *err);
/* Writes the next part of what is settled, with what `id` says of its group. False, and the set is
 * empty again, when there is none left. */
bool hspz_collect_send(struct hspz_collect *collect, const struct hspz_part_id *id,
                       struct hspz_part *part);

/* Memory of the sets, and the most it may be after more steps of the kind that is usual. */
void hspz_collect_bytes(const struct hspz_collect *collect, uint64_t *now, uint64_t *most);
