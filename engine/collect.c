#include "engine/collect.h"

#include "engine/refuse.h"

#include <stdlib.h>
#include <string.h>

/* On the wire an HSP is what it is in memory: as for seeds and anchors, machines are little-endian.
 */
_Static_assert(sizeof(struct hspz_hsp) == HSPZ_HSP_BYTES &&
                   HSPZ_HSP_BYTES == 2 * HSPZ_ANCHOR_BYTES &&
                   offsetof(struct hspz_hsp, score) == 12,
               "the layout of an HSP");

/* HSPs that a set may grow by before its memory is looked at again. */
#define GROWTH_HSPS (UINT64_C(1) << 19)

struct hspz_collect_set {
    struct hspz_hsp_set set;
    size_t folded; /* its HSPs when it was last folded for others */
};

enum hspz_status
hspz_collect_init(struct hspz_collect *collect, const struct hspz_scoring *scoring,
                  size_t block_count, struct hspz_error *err)
{
    const size_t set_count = scoring->scope == HSPZ_SCOPE_CHUNK ? 1 : 2 * block_count;
    struct hspz_collect_set *sets = calloc(set_count, sizeof(*sets));
    if (sets == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the HSPs of a job");
    }
    *collect = (struct hspz_collect){
        .limit = scoring->limit,
        .block_count = block_count,
        .set_count = set_count,
        .sets = sets,
    };
    for (size_t i = 0; i < set_count; i++) {
        hspz_hsp_set_init(&sets[i].set, scoring->scope, scoring->limit);
    }
    return HSPZ_OK;
}

void
hspz_collect_fini(struct hspz_collect *collect)
{
    for (size_t i = 0; i < collect->set_count; i++) {
        hspz_hsp_set_fini(&collect->sets[i].set);
    }
    free(collect->sets);
    *collect = (struct hspz_collect){0};
}

static struct hspz_collect_set *
set_of(const struct hspz_collect *collect, enum hspz_strand strand, size_t block)
{
    const size_t i = collect->set_count == 1 ? 0 : (size_t)strand * collect->block_count + block;
    return &collect->sets[i];
}

static uint64_t
held_beside(const struct hspz_collect *collect, const struct hspz_collect_set *own)
{
    uint64_t held = 0;
    for (size_t i = 0; i < collect->set_count; i++) {
        held += &collect->sets[i] != own ? collect->sets[i].set.count : 0;
    }
    return held;
}

/* Folds all sets but one that have grown since they were folded last. */
static enum hspz_status
fold_beside(struct hspz_collect *collect, const struct hspz_collect_set *own,
            struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < collect->set_count && status == HSPZ_OK; i++) {
        struct hspz_collect_set *other = &collect->sets[i];
        if (other != own && other->folded != other->set.count) {
            other->set.limit = collect->limit;
            other->set.pool = collect->pool;
            status = hspz_hsp_set_fold(&other->set, err);
            other->folded = other->set.count;
        }
    }
    return status;
}

static enum hspz_status
open_set(struct hspz_collect *collect, struct hspz_collect_set *own, struct hspz_error *err)
{
    uint64_t beside = held_beside(collect, own);
    if (own->set.count + beside > collect->limit) {
        const enum hspz_status status = fold_beside(collect, own, err);
        if (status != HSPZ_OK) {
            return status;
        }
        beside = held_beside(collect, own);
    }
    if (beside > collect->limit) {
        return hspz_refuse_job_hsps(beside, collect->limit, err);
    }
    own->set.limit = collect->limit - beside;
    own->set.pool = collect->pool;
    return HSPZ_OK;
}

enum hspz_status
hspz_collect_open(struct hspz_collect *collect, enum hspz_strand strand, size_t block,
                  struct hspz_hsp_set **out, struct hspz_error *err)
{
    struct hspz_collect_set *own = set_of(collect, strand, block);
    const enum hspz_status status = open_set(collect, own, err);
    if (status == HSPZ_OK) {
        *out = &own->set;
    }
    return status;
}

enum hspz_status
hspz_collect_refuse(const struct hspz_collect *collect, struct hspz_error *err)
{
    return hspz_refuse_job_hsps(held_beside(collect, NULL), collect->limit, err);
}

enum hspz_status
hspz_collect_settle(struct hspz_collect *collect, enum hspz_strand strand, size_t block,
                    struct hspz_error *err)
{
    struct hspz_collect_set *own = set_of(collect, strand, block);
    enum hspz_status status = open_set(collect, own, err);
    if (status == HSPZ_OK) {
        status = hspz_hsp_set_settle(&own->set, err);
    }
    if (status == HSPZ_E_TOO_LARGE) {
        return hspz_collect_refuse(collect, err);
    }
    if (status == HSPZ_OK) {
        collect->sending = own;
        collect->sent = 0;
        collect->part_number = 0;
    }
    return status;
}

/* A chunk's set is filled again soon; a job's never. */
static void
empty_sent(struct hspz_collect *collect)
{
    struct hspz_collect_set *sent = collect->sending;
    if (sent->set.scope == HSPZ_SCOPE_CHUNK) {
        hspz_hsp_set_clear(&sent->set);
    } else {
        hspz_hsp_set_fini(&sent->set);
    }
    sent->folded = 0;
    collect->sending = NULL;
}

bool
hspz_collect_send(struct hspz_collect *collect, const struct hspz_part_id *id,
                  struct hspz_part *part)
{
    const struct hspz_hsp_set *set = &collect->sending->set;
    const uint64_t rest = set->count - collect->sent;
    if (rest == 0) {
        empty_sent(collect);
        return false;
    }
    const size_t capacity = part->capacity / 2;
    part->kind = HSPZ_STEP_HSPS;
    part->count = rest < capacity ? (size_t)rest : capacity;
    memcpy(part->anchors, set->hsps + collect->sent, part->count * sizeof(*set->hsps));
    part->id = *id;
    part->id.part = collect->part_number++;
    part->id.hit_begin = collect->sent;
    part->id.hit_end = collect->sent + part->count;
    part->id.last_part = part->id.hit_end == set->count;
    collect->sent += part->count;
    return true;
}

void
hspz_collect_bytes(const struct hspz_collect *collect, uint64_t *now, uint64_t *most)
{
    uint64_t held = 0, largest = 0;
    for (size_t i = 0; i < collect->set_count; i++) {
        const uint64_t bytes = hspz_hsp_set_bytes(&collect->sets[i].set);
        held += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    const uint64_t growth = GROWTH_HSPS * HSPZ_HSP_BYTES;
    *now = held;
    /* A set that grows is there twice for a moment, the second time at double its size. */
    *most = collect->set_count == 0 ? 0 : held + 2 * (largest > growth ? largest : growth);
}
