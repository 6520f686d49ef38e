/* Calls that name k-mers by a sequence, for kinds that take keys alone. */
#include "engine/filter.h"
#include "engine/kmer.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_WINDOWS ((size_t)1 << 20)

/* Keys of a piece of the sequence, where each begins, and what is said of them. */
struct piece {
    uint64_t *keys, *found;
    uint32_t *from;
    uint8_t *yes;
};

static bool
piece_init(struct piece *p, const struct hspz_filter_call *call)
{
    const size_t n = call->count < PIECE_WINDOWS ? call->count : PIECE_WINDOWS;
    p->keys = malloc((n + 1) * sizeof(*p->keys));
    p->from = malloc((n + 1) * sizeof(*p->from));
    p->found = call->found != NULL ? malloc((n + 1) * sizeof(*p->found)) : NULL;
    p->yes = call->yes != NULL ? malloc(n / 8 + 1) : NULL;
    return p->keys != NULL && p->from != NULL && (p->found != NULL || call->found == NULL) &&
           (p->yes != NULL || call->yes == NULL);
}

static void
piece_fini(struct piece *p)
{
    free(p->keys);
    free(p->from);
    free(p->found);
    free(p->yes);
}

/* Answers of the piece's keys to the windows that they are of. */
static void
spread(const struct piece *p, struct hspz_filter_call *call, size_t first, size_t keys)
{
    for (size_t i = 0; i < keys; i++) {
        const size_t at = first + p->from[i];
        if (call->found != NULL) {
            call->found[at] = p->found[i];
        }
        if (call->yes != NULL && (p->yes[i / 8] >> i % 8 & 1) != 0) {
            call->yes[at / 8] |= (uint8_t)(1u << at % 8);
        }
    }
}

static enum hspz_status
run_pieces(const struct hspz_filter_ops *ops, struct hspz_filter *filter,
           struct hspz_filter_call *call, const struct piece *p, struct hspz_error *err)
{
    const struct hspz_filter_spec *spec = &ops->plan(filter)->spec;
    const struct hspz_kmers kmers = {.bases = call->sequence,
                                     .len = call->sequence_len,
                                     .k = spec->k,
                                     .canonical = spec->canonical};
    /* Of a quotient filter that is full, nothing behind the first key that did not fit goes in. */
    const bool in_order = spec->kind == HSPZ_FILTER_GQF || spec->kind == HSPZ_FILTER_SQF ||
                          spec->kind == HSPZ_FILTER_RSQF;
    call->yes_count = 0;
    call->full = false;
    if (call->yes != NULL) {
        memset(call->yes, 0, (call->count + 7) / 8);
    }
    if (call->found != NULL && call->count > 0) {
        memset(call->found, 0, call->count * sizeof(*call->found));
    }
    for (size_t first = 0; first < call->count; first += PIECE_WINDOWS) {
        const size_t end =
            call->count - first < PIECE_WINDOWS ? call->count : first + PIECE_WINDOWS;
        struct hspz_filter_call part = {.op = call->op,
                                        .keys = p->keys,
                                        .yes = p->yes,
                                        .found = p->found,
                                        .memory_bytes = call->memory_bytes};
        part.count = hspz_kmers_extract(&kmers, first, end, p->keys, p->from);
        if (p->found != NULL) {
            memset(p->found, 0, part.count * sizeof(*p->found)); /* some kinds have no values */
        }
        const enum hspz_status status = ops->run(filter, &part, err);
        if (status != HSPZ_OK) {
            return status;
        }
        spread(p, call, first, part.count);
        call->yes_count += part.yes_count;
        call->full = call->full || part.full;
        if (call->full && in_order) {
            break;
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_filter_run(const struct hspz_filter_ops *ops, struct hspz_filter *filter,
                struct hspz_filter_call *call, struct hspz_error *err)
{
    if (call->sequence == NULL) {
        return ops->run(filter, call, err);
    }
    if (ops->plan(filter)->spec.k == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "a sequence is for filters of k-mers, and this one has no k");
    }
    HSPZ_REQUIRE(call->sequence_len >= call->count && call->values == NULL && call->counts == NULL);
    if (ops->takes_sequence) {
        return ops->run(filter, call, err);
    }
    struct piece piece;
    enum hspz_status status;
    if (piece_init(&piece, call)) {
        status = run_pieces(ops, filter, call, &piece, err);
    } else {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for k-mers");
    }
    piece_fini(&piece);
    return status;
}
