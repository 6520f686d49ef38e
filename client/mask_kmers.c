#include "client/mask_kmers.h"

#include "engine/filter.h"

#include <stdlib.h>

/* Windows of one call. */
#define PIECE_WINDOWS (UINT64_C(1) << 20)

struct kmers {
    const struct hspz_mask_kmers *how;
    const struct hspz_filter_ops *ops;
    struct hspz_filter *counter;
    uint64_t *found; /* of a piece's windows */
};

static enum hspz_status
open_counter(struct kmers *m, struct hspz_error *err)
{
    const struct hspz_filter_spec spec = {
        .kind = HSPZ_FILTER_COUNTER,
        .capacity = hspz_sequences_bases(m->how->seqs) + 1,
        .k = m->how->k,
        .canonical = true,
    };
    struct hspz_filter_plan plan;
    m->ops = hspz_cpu_filter(HSPZ_FILTER_COUNTER);
    HSPZ_REQUIRE(m->ops->takes_sequence);
    enum hspz_status status = hspz_filter_plan(&spec, UINT64_MAX, &plan, err);
    if (status == HSPZ_OK) {
        plan.threads = m->how->threads;
        status = m->ops->create(&plan, &m->counter, err);
    }
    m->found = malloc(PIECE_WINDOWS * sizeof(*m->found));
    if (status == HSPZ_OK && m->found == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count k-mers");
    }
    return status;
}

/* One call on the windows of block `b` that begin at `at`, `count` of them. */
static enum hspz_status
call_on(const struct kmers *m, const struct hspz_block *block, uint64_t at, uint64_t count,
        enum hspz_filter_op op, struct hspz_error *err)
{
    const uint64_t reach = count + m->how->k - 1;
    const uint64_t rest = block->len - at;
    struct hspz_filter_call call = {
        .op = op,
        .sequence = block->bases + at,
        .count = (size_t)count,
        .sequence_len = (size_t)(reach < rest ? reach : rest),
        .found = op == HSPZ_FILTER_COUNT ? m->found : NULL,
    };
    const enum hspz_status status = m->ops->run(m->counter, &call, err);
    return status == HSPZ_OK && call.full
               ? hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count k-mers")
               : status;
}

static enum hspz_status
do_block(const struct kmers *m, size_t b, enum hspz_filter_op op, struct hspz_self_cover *cover,
         struct hspz_error *err)
{
    const struct hspz_block block = hspz_sequences_block(m->how->seqs, b);
    const uint64_t start = m->how->starts[block.first_sequence];
    enum hspz_status status = HSPZ_OK;
    for (uint64_t at = 0; at < block.len && status == HSPZ_OK; at += PIECE_WINDOWS) {
        const uint64_t rest = block.len - at;
        const uint64_t count = rest < PIECE_WINDOWS ? rest : PIECE_WINDOWS;
        status = call_on(m, &block, at, count, op, err);
        for (uint64_t i = 0; i < count && op == HSPZ_FILTER_COUNT && status == HSPZ_OK; i++) {
            if (m->found[i] >= m->how->least) {
                status = hspz_self_cover_mark(cover, start + at + i, m->how->k, err);
            }
        }
    }
    return status;
}

enum hspz_status
hspz_mask_count_kmers(const struct hspz_mask_kmers *how, struct hspz_self_cover *cover,
                      struct hspz_error *err)
{
    static const enum hspz_filter_op ops[] = {HSPZ_FILTER_INSERT, HSPZ_FILTER_COUNT};
    struct kmers m = {.how = how};
    HSPZ_REQUIRE(how->least >= 1);
    enum hspz_status status = open_counter(&m, err);
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t b = 0; b < hspz_sequences_block_count(how->seqs) && status == HSPZ_OK; b++) {
            status = do_block(&m, b, ops[pass], cover, err);
        }
    }
    if (m.counter != NULL) {
        m.ops->destroy(&m.counter);
    }
    free(m.found);
    return status;
}
