#include "client/order.h"

#include "protocol/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct hspz_order {
    XXH64_state_t *hash; /* NULL: no digest */
    enum hspz_records records;
    enum hspz_encoding encoding;
    enum hspz_hsp_scope scope; /* of HSPs */
    bool intervals;
    bool begun;
    struct hspz_part_id last;
    uint64_t count[2], chunks[2]; /* by strand; chunks that had a part */
};

enum hspz_status
hspz_order_create(const struct hspz_discover_request *request, struct hspz_order **out)
{
    struct hspz_order *order = calloc(1, sizeof(*order));
    if (order == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    if (request->digest) {
        order->hash = XXH64_createState();
        if (order->hash == NULL) {
            free(order);
            return HSPZ_E_OUT_OF_MEMORY;
        }
        XXH64_reset(order->hash, 0);
    }
    order->records = request->records;
    order->encoding = request->encoding;
    order->scope = request->scoring.scope;
    order->intervals = request->interval != 0;
    *out = order;
    return HSPZ_OK;
}

void
hspz_order_destroy(struct hspz_order **order)
{
    if (*order != NULL) {
        XXH64_freeState((*order)->hash);
        free(*order);
        *order = NULL;
    }
}

uint64_t
hspz_order_records(const struct hspz_order *order)
{
    return order->count[0] + order->count[1];
}

const char *
hspz_order_noun(const struct hspz_order *order)
{
    return order->records == HSPZ_RECORDS_HSPS ? "hsps" : "anchors";
}

static bool
same_batch(const struct hspz_part_id *a, const struct hspz_part_id *b)
{
    return a->interval == b->interval && a->strand == b->strand && a->batch == b->batch &&
           a->ref_block == b->ref_block;
}

/* (interval, strand, batch, ref_block) of b comes after that of a. */
static bool
later_batch(const struct hspz_part_id *a, const struct hspz_part_id *b)
{
    if (a->interval != b->interval) {
        return b->interval > a->interval;
    }
    if (a->strand != b->strand) {
        return b->strand > a->strand;
    }
    if (a->batch != b->batch) {
        return b->batch > a->batch;
    }
    return b->ref_block > a->ref_block;
}

/* The next part of the same chunk, or group of HSPs. */
static const char *
wrong_in_chunk(const struct hspz_part_id *last, const struct hspz_part_id *next)
{
    if (!same_batch(last, next) || next->chunk != last->chunk) {
        return "the chunk before it is not finished";
    }
    if (next->part != last->part + 1) {
        return "a part is missing or repeated";
    }
    if (next->seed_begin != last->seed_begin || next->seed_end != last->seed_end) {
        return "its chunk's seeds changed";
    }
    return next->hit_begin != last->hit_end ? "records are missing or repeated" : NULL;
}

/* The first chunk of a batch and block, or the one after `last` (NULL: none came before). */
static const char *
wrong_chunk(const struct hspz_part_id *last, const struct hspz_part_id *next)
{
    if (last != NULL && same_batch(last, next)) {
        return next->chunk != last->chunk + 1     ? "a chunk is missing or repeated"
               : next->hit_begin != last->hit_end ? "records are missing or repeated"
                                                  : NULL;
    }
    return next->chunk != 0       ? "its batch's first chunk is missing"
           : next->hit_begin != 0 ? "records are missing"
                                  : NULL;
}

/* A group of HSPs: those before it may be left out, as they may have none. */
static const char *
wrong_group(const struct hspz_order *order, const struct hspz_part_id *last,
            const struct hspz_part_id *next)
{
    if (order->scope == HSPZ_SCOPE_JOB && (next->interval | next->batch | next->chunk) != 0) {
        return "it is of a chunk, and the job's HSPs are of all chunks";
    }
    if (last != NULL && same_batch(last, next) && next->chunk <= last->chunk) {
        return "it is out of order";
    }
    return next->hit_begin != 0 ? "records are missing" : NULL;
}

/* Why the part cannot follow those before it; NULL when it can. */
static const char *
what_is_wrong(const struct hspz_order *order, const struct hspz_part_head *head)
{
    const struct hspz_part_id *last = order->begun ? &order->last : NULL;
    const struct hspz_part_id *next = &head->id;
    const bool hsps = order->records == HSPZ_RECORDS_HSPS;
    const bool seedless = hsps && order->scope == HSPZ_SCOPE_JOB;
    if (head->records != order->records) {
        return "it has other records than were asked for";
    }
    if (head->encoding != order->encoding) {
        return "it has another encoding than was asked for";
    }
    if (head->has_interval != order->intervals) {
        return order->intervals ? "its interval is missing" : "the job has no intervals";
    }
    if (next->hit_end <= next->hit_begin || (next->seed_end <= next->seed_begin) != seedless) {
        return "its ranges are empty";
    }
    if (last != NULL && !last->last_part) {
        return wrong_in_chunk(last, next);
    }
    if (next->part != 0) {
        return "its chunk's first part is missing";
    }
    if (last != NULL && !same_batch(last, next) && !later_batch(last, next)) {
        return "it is out of order";
    }
    if (last != NULL && same_batch(last, next) && next->seed_begin < last->seed_end) {
        return "its seeds overlap the chunk before";
    }
    return hsps ? wrong_group(order, last, next) : wrong_chunk(last, next);
}

/* Anchors that are made of columns at a time, for the digest alone. */
#define HASHED_ANCHORS 2048u

/* The digest is of packed records. False: columns have changed meanwhile. */
static bool
add_to_digest(struct hspz_order *order, const struct hspz_part_view *part)
{
    const struct hspz_columns *const columns = &part->columns;
    if (columns->runs == NULL) {
        XXH64_update(order->hash, part->records, part->count * hspz_record_bytes(order->records));
        return true;
    }
    struct hspz_columns_place place = {0};
    uint8_t packed[HASHED_ANCHORS * HSPZ_ANCHOR_BYTES];
    size_t n;
    while ((n = hspz_columns_read(columns, &place, packed, HASHED_ANCHORS)) > 0) {
        XXH64_update(order->hash, packed, n * HSPZ_ANCHOR_BYTES);
    }
    return place.anchor == columns->count;
}

enum hspz_status
hspz_order_part(struct hspz_order *order, const struct hspz_part_head *head,
                const struct hspz_part_view *part, struct hspz_error *err)
{
    const struct hspz_part_id *id = &head->id;
    const char *wrong = what_is_wrong(order, head);
    if (wrong == NULL && part->count != id->hit_end - id->hit_begin) {
        wrong = "it does not hold the records it says";
    }
    if (wrong == NULL && order->hash != NULL && !add_to_digest(order, part)) {
        wrong = "its columns have changed meanwhile";
    }
    if (wrong != NULL) {
        char interval[32] = "";
        if (head->has_interval) {
            snprintf(interval, sizeof(interval), "interval %" PRIu32 " ", id->interval);
        }
        return hspz_error_set(err, HSPZ_E_BAD_PEER,
                              "%sstrand %c batch %" PRIu32 " ref_block %" PRIu32 " chunk %" PRIu32
                              " part %" PRIu32 ": %s (%" PRIu64 " %s came before it)",
                              interval, id->strand == HSPZ_STRAND_PLUS ? '+' : '-', id->batch,
                              id->ref_block, id->chunk, id->part, wrong, hspz_order_records(order),
                              hspz_order_noun(order));
    }
    order->count[id->strand] += id->hit_end - id->hit_begin;
    order->chunks[id->strand] += id->part == 0;
    order->last = *id;
    order->begun = true;
    return HSPZ_OK;
}

/* Counts of records and chunks. */
static enum hspz_status
check_totals(const struct hspz_order *order, const struct hspz_discover_result *result,
             struct hspz_error *err)
{
    const bool hsps = order->records == HSPZ_RECORDS_HSPS;
    uint64_t chunks = 0;
    for (size_t s = 0; s < 2; s++) {
        const struct hspz_strand_totals *totals = &result->totals[s];
        const uint64_t count = hsps ? totals->hsps : totals->hits;
        /* Chunks without HSPs do not show. */
        const bool enough =
            hsps ? order->scope == HSPZ_SCOPE_JOB || order->chunks[s] <= totals->chunks
                 : order->chunks[s] == totals->chunks;
        if (order->count[s] != count || !enough) {
            return hspz_error_set(err, HSPZ_E_BAD_PEER,
                                  "%s strand: %" PRIu64 " %s in %" PRIu64
                                  " chunks came, the final record says %" PRIu64 " in %" PRIu64,
                                  s == 0 ? "plus" : "minus", order->count[s],
                                  hspz_order_noun(order), order->chunks[s], count, totals->chunks);
        }
        chunks += totals->chunks;
    }
    if (chunks != result->chunks) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER,
                              "%" PRIu64 " chunks came, the final record says %" PRIu64, chunks,
                              result->chunks);
    }
    const uint64_t others = hsps ? result->anchors : result->hsps;
    if (others != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER,
                              "the final record has %" PRIu64 " %s in a job of %s", others,
                              hsps ? "anchors" : "hsps", hspz_order_noun(order));
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_order_finish(struct hspz_order *order, const struct hspz_discover_result *result,
                  struct hspz_error *err)
{
    const char *const noun = hspz_order_noun(order);
    const uint64_t came = hspz_order_records(order);
    const uint64_t want = order->records == HSPZ_RECORDS_HSPS ? result->hsps : result->anchors;
    if (came != want) {
        return hspz_error_set(err, HSPZ_E_INCOMPLETE, "%" PRIu64 " of %" PRIu64 " %s came", came,
                              want, noun);
    }
    if (order->begun && !order->last.last_part) {
        return hspz_error_set(err, HSPZ_E_INCOMPLETE,
                              "all %" PRIu64 " %s came, but the last chunk is not finished", came,
                              noun);
    }
    const enum hspz_status status = check_totals(order, result, err);
    if (status != HSPZ_OK || order->hash == NULL) {
        return status;
    }
    char digest[17];
    snprintf(digest, sizeof(digest), "%016" PRIx64, (uint64_t)XXH64_digest(order->hash));
    if (!result->has_digest || strcmp(digest, result->digest) != 0) {
        return hspz_error_set(
            err, HSPZ_E_BAD_PEER,
            "%" PRIu64 " of %" PRIu64 " %s came, but their digest is %s and the server's is %s",
            came, want, noun, digest, result->has_digest ? result->digest : "missing");
    }
    return HSPZ_OK;
}
