#include "engine/hsp_set.h"

#include "engine/hsp_sort.h"
#include "engine/refuse.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096u /* 64 KiB */

/* HSPs become sort keys where they stand, and HSPs again: both are 16 bytes. */
_Static_assert(sizeof(struct hspz_hsp_key) == sizeof(struct hspz_hsp), "keys replace HSPs");

static uint64_t
join(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* Scores from high to low as unsigned numbers from low to high, and back. */
static uint32_t
score_key(uint32_t score)
{
    return ~(score ^ UINT32_C(0x80000000));
}

static struct hspz_hsp_key *
keys_of(struct hspz_hsp_set *set)
{
    return (struct hspz_hsp_key *)(void *)set->hsps;
}

/* Keys of the order that de-duplication needs: diagonal, reference start, length, score. Which
 * diagonal comes first does not matter: they begin in the middle, to lie close together. */
static void
sort_by_diagonal(struct hspz_hsp_set *set)
{
    const uint32_t middle = UINT32_C(0x80000000);
    for (size_t i = 0; i < set->count; i++) {
        const struct hspz_hsp h = set->hsps[i];
        const struct hspz_hsp_key key = {{join(h.ref_start - h.query_start + middle, h.ref_start),
                                          join(h.length, score_key((uint32_t)h.score))}};
        memcpy(&set->hsps[i], &key, sizeof(key));
    }
    hspz_hsp_sort(keys_of(set), set->count, set->pool);
    for (size_t i = 0; i < set->count; i++) {
        struct hspz_hsp_key key;
        memcpy(&key, &set->hsps[i], sizeof(key));
        const uint32_t ref_start = (uint32_t)key.key[0];
        set->hsps[i] =
            (struct hspz_hsp){.ref_start = ref_start,
                              .query_start = ref_start - (uint32_t)(key.key[0] >> 32) + middle,
                              .length = (uint32_t)(key.key[1] >> 32),
                              .score = (int32_t)score_key((uint32_t)key.key[1])};
    }
}

static void
sort_finally(struct hspz_hsp_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct hspz_hsp h = set->hsps[i];
        const struct hspz_hsp_key key = {
            {join(h.query_start, h.ref_start), join(h.length, score_key((uint32_t)h.score))}};
        memcpy(&set->hsps[i], &key, sizeof(key));
    }
    hspz_hsp_sort(keys_of(set), set->count, set->pool);
    for (size_t i = 0; i < set->count; i++) {
        struct hspz_hsp_key key;
        memcpy(&key, &set->hsps[i], sizeof(key));
        set->hsps[i] = (struct hspz_hsp){.ref_start = (uint32_t)key.key[0],
                                         .query_start = (uint32_t)(key.key[0] >> 32),
                                         .length = (uint32_t)(key.key[1] >> 32),
                                         .score = (int32_t)score_key((uint32_t)key.key[1])};
    }
}

static bool
on_one_diagonal(const struct hspz_hsp *a, const struct hspz_hsp *b)
{
    return a->ref_start - a->query_start == b->ref_start - b->query_start;
}

static uint64_t
end_of(const struct hspz_hsp *h)
{
    return (uint64_t)h->ref_start + h->length;
}

static bool
contains(const struct hspz_hsp *outer, const struct hspz_hsp *inner)
{
    return on_one_diagonal(outer, inner) && outer->ref_start <= inner->ref_start &&
           end_of(inner) <= end_of(outer);
}

static void
drop_equal(struct hspz_hsp_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (kept == 0 || memcmp(&set->hsps[kept - 1], &set->hsps[i], sizeof(*set->hsps)) != 0) {
            set->hsps[kept++] = set->hsps[i];
        }
    }
    set->count = kept;
}

/* Drops what is nested with the one before, or in a job's scope with the last one kept. Both ends
 * of those kept then only ascend along a diagonal: no two of them are nested. */
static void
drop_nested(struct hspz_hsp_set *set)
{
    struct hspz_hsp before = {0};
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct hspz_hsp h = set->hsps[i];
        const bool keep = i == 0 || !(contains(&before, &h) || contains(&h, &before));
        if (keep) {
            set->hsps[kept++] = h;
        }
        if (keep || set->scope == HSPZ_SCOPE_CHUNK) {
            before = h;
        }
    }
    set->count = kept;
}

void
hspz_hsp_set_init(struct hspz_hsp_set *set, enum hspz_hsp_scope scope, uint64_t limit)
{
    *set = (struct hspz_hsp_set){.scope = scope, .limit = limit};
}

void
hspz_hsp_set_fini(struct hspz_hsp_set *set)
{
    free(set->hsps);
    set->hsps = NULL;
    set->count = set->capacity = 0;
}

enum hspz_status
hspz_hsp_set_fold(struct hspz_hsp_set *set, struct hspz_error *err)
{
    sort_by_diagonal(set);
    drop_equal(set);
    return set->count > set->limit ? hspz_refuse_job_hsps(set->count, set->limit, err) : HSPZ_OK;
}

/* A fold that frees less than half is paid for by doubling, up to what the limit can need. */
static enum hspz_status
make_room(struct hspz_hsp_set *set, struct hspz_error *err)
{
    const enum hspz_status status = hspz_hsp_set_fold(set, err);
    if (status != HSPZ_OK || (set->capacity != 0 && set->count < set->capacity / 2)) {
        return status;
    }
    uint64_t capacity = set->capacity == 0 ? FIRST_CAPACITY : set->capacity * UINT64_C(2);
    if (set->limit < capacity / 2) {
        capacity = set->limit * 2 < FIRST_CAPACITY ? FIRST_CAPACITY : set->limit * 2;
    }
    struct hspz_hsp *grown =
        capacity > SIZE_MAX / sizeof(*grown) ? NULL : realloc(set->hsps, capacity * sizeof(*grown));
    if (grown == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory for %zu HSPs",
                              (size_t)capacity);
    }
    set->hsps = grown;
    set->capacity = (size_t)capacity;
    return HSPZ_OK;
}

enum hspz_status
hspz_hsp_set_add(struct hspz_hsp_set *set, const struct hspz_hsp *hsps, size_t count,
                 struct hspz_error *err)
{
    while (count > 0) {
        if (set->count == set->capacity) {
            const enum hspz_status status = make_room(set, err);
            if (status != HSPZ_OK) {
                return status;
            }
        }
        const size_t room = set->capacity - set->count;
        const size_t some = count < room ? count : room;
        memcpy(set->hsps + set->count, hsps, some * sizeof(*hsps));
        set->count += some;
        hsps += some;
        count -= some;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_hsp_set_settle(struct hspz_hsp_set *set, struct hspz_error *err)
{
    const enum hspz_status status = hspz_hsp_set_fold(set, err);
    if (status == HSPZ_OK) {
        drop_nested(set);
        sort_finally(set);
    }
    return status;
}

void
hspz_hsp_set_clear(struct hspz_hsp_set *set)
{
    set->count = 0;
}

uint64_t
hspz_hsp_set_bytes(const struct hspz_hsp_set *set)
{
    return (uint64_t)set->capacity * sizeof(*set->hsps);
}
