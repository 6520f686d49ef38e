#include "client/hsp_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 1024u
#define PAIR_NAME_BYTES 256u

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to keep HSPs");
}

enum hspz_status
hspz_hsp_store_init(struct hspz_hsp_store *store, size_t ref_blocks, struct hspz_error *err)
{
    *store = (struct hspz_hsp_store){
        .lists = calloc(2 * ref_blocks + 1, sizeof(*store->lists)),
        .ref_blocks = ref_blocks,
    };
    return store->lists != NULL ? HSPZ_OK : no_memory(err);
}

void
hspz_hsp_store_fini(struct hspz_hsp_store *store)
{
    for (size_t i = 0; store->lists != NULL && i < 2 * store->ref_blocks; i++) {
        free(store->lists[i].hsps);
    }
    free(store->lists);
    *store = (struct hspz_hsp_store){0};
}

void
hspz_hsp_store_clear(struct hspz_hsp_store *store)
{
    for (size_t i = 0; i < 2 * store->ref_blocks; i++) {
        store->lists[i].count = 0;
    }
}

static struct hspz_hsp_list *
list_of(struct hspz_hsp_store *store, size_t ref_block, enum hspz_strand strand)
{
    return &store->lists[2 * ref_block + (size_t)strand];
}

enum hspz_status
hspz_hsp_store_add(struct hspz_hsp_store *store, const struct hspz_part_id *id,
                   const struct hspz_hsp *hsps, size_t count, struct hspz_error *err)
{
    if (id->ref_block >= store->ref_blocks) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "HSPs of ref_block %" PRIu32 ": there are %zu",
                              id->ref_block, store->ref_blocks);
    }
    struct hspz_hsp_list *list = list_of(store, id->ref_block, id->strand);
    if (list->capacity - list->count < count) {
        const size_t want = 2 * (list->count + count) + FIRST_ROOM;
        struct hspz_hsp *grown = realloc(list->hsps, want * sizeof(*grown));
        if (grown == NULL) {
            return no_memory(err);
        }
        list->hsps = grown;
        list->capacity = want;
    }
    memcpy(list->hsps + list->count, hsps, count * sizeof(*hsps));
    list->count += count;
    return HSPZ_OK;
}

/* The final order of HSPs: query start, ref start, length, score descending. */
static int
compare(const void *left, const void *right)
{
    const struct hspz_hsp *a = left, *b = right;
    if (a->query_start != b->query_start) {
        return a->query_start < b->query_start ? -1 : 1;
    }
    if (a->ref_start != b->ref_start) {
        return a->ref_start < b->ref_start ? -1 : 1;
    }
    if (a->length != b->length) {
        return a->length < b->length ? -1 : 1;
    }
    return a->score > b->score ? -1 : a->score < b->score;
}

static void
sort(struct hspz_hsp_list *list)
{
    bool sorted = true;
    for (size_t i = 1; i < list->count && sorted; i++) {
        sorted = compare(&list->hsps[i - 1], &list->hsps[i]) <= 0;
    }
    if (!sorted) {
        qsort(list->hsps, list->count, sizeof(*list->hsps), compare);
    }
    list->at = 0;
}

/* The HSPs of a list that are next and begin inside `query`: count of them, which end at list->at
 * from the front (plus) or the back (minus). */
static const struct hspz_hsp *
next_of_query(struct hspz_hsp_list *list, enum hspz_strand strand, uint64_t query_len,
              const struct hspz_place *query, size_t *count)
{
    const size_t first = list->at;
    while (list->at < list->count) {
        const bool minus = strand == HSPZ_STRAND_MINUS;
        const struct hspz_hsp *hsp = &list->hsps[minus ? list->count - 1 - list->at : list->at];
        const uint64_t end = (uint64_t)hsp->query_start + hsp->length;
        const uint64_t plus_begin = !minus             ? hsp->query_start
                                    : end <= query_len ? query_len - end
                                                       : 0;
        if (plus_begin >= query->end) {
            break;
        }
        list->at++;
    }
    *count = list->at - first;
    return &list->hsps[strand == HSPZ_STRAND_MINUS ? list->count - list->at : first];
}

/* What is still there belongs to no sequence. */
static enum hspz_status
check_all_written(const struct hspz_hsp_store *store, struct hspz_error *err)
{
    for (size_t i = 0; i < 2 * store->ref_blocks; i++) {
        if (store->lists[i].at < store->lists[i].count) {
            return hspz_error_set(err, HSPZ_E_BAD_PEER, "HSPs lie behind the end of the query");
        }
    }
    return HSPZ_OK;
}

static void
sort_all(struct hspz_hsp_store *store)
{
    for (size_t i = 0; i < 2 * store->ref_blocks; i++) {
        sort(&store->lists[i]);
    }
}

/* One HSP of a query sequence; ref is the place of its reference sequence. */
struct of_query {
    size_t ref, number;
    struct hspz_hsp hsp;
    enum hspz_strand strand;
};

/* What is done with the HSPs of one query sequence, strand and reference block. */
struct receiver {
    struct hspz_segments *segments;
    struct hspz_segments_file *file; /* one for all, or: */
    struct of_query *items;
    size_t count, capacity;
    const struct hspz_hsp_rows *rows;
};

static enum hspz_status
collect(struct receiver *to, const struct hspz_hsp_rows *rows, const struct hspz_hsp *hsps,
        size_t count, struct hspz_error *err)
{
    if (to->capacity - to->count < count) {
        const size_t want = 2 * (to->count + count) + FIRST_ROOM;
        struct of_query *grown = realloc(to->items, want * sizeof(*grown));
        if (grown == NULL) {
            return no_memory(err);
        }
        to->items = grown;
        to->capacity = want;
    }
    size_t hint = 0;
    const bool minus = rows->strand == HSPZ_STRAND_MINUS;
    for (size_t i = 0; i < count; i++) {
        const struct hspz_hsp *hsp = &hsps[minus ? count - 1 - i : i];
        const struct hspz_place *ref =
            hspz_places_find(rows->refs, rows->ref_block, hsp->ref_start,
                             (uint64_t)hsp->ref_start + hsp->length, &hint);
        if (ref == NULL) {
            return hspz_error_set(err, HSPZ_E_BAD_PEER,
                                  "an HSP is not inside one sequence: ref_block %" PRIu32
                                  ", reference %" PRIu32 ", length %" PRIu32,
                                  rows->ref_block, hsp->ref_start, hsp->length);
        }
        to->items[to->count] = (struct of_query){
            .ref = (size_t)(ref - rows->refs->items),
            .number = to->count,
            .hsp = *hsp,
            .strand = rows->strand,
        };
        to->count++;
    }
    return HSPZ_OK;
}

/* All HSPs of a query sequence: plus, then minus. */
static enum hspz_status
pass_query(struct hspz_hsp_store *store, const struct hspz_place *query, struct receiver *to,
           struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (int strand = HSPZ_STRAND_PLUS; strand <= HSPZ_STRAND_MINUS; strand++) {
        for (size_t r = 0; r < store->ref_blocks && status == HSPZ_OK; r++) {
            struct hspz_hsp_rows rows = *to->rows;
            size_t count;
            rows.strand = (enum hspz_strand)strand;
            rows.ref_block = (uint32_t)r;
            const struct hspz_hsp *hsps = next_of_query(list_of(store, r, rows.strand), rows.strand,
                                                        rows.query_len, query, &count);
            if (count > 0 && to->file == NULL) {
                status = collect(to, &rows, hsps, count, err);
            } else if (count > 0) {
                status = hspz_segments_add(to->segments, to->file, &rows, hsps, count,
                                           rows.strand == HSPZ_STRAND_MINUS, err);
            }
        }
    }
    return status;
}

enum hspz_status
hspz_hsp_store_write(struct hspz_hsp_store *store, struct hspz_segments *segments,
                     struct hspz_segments_file *file, const struct hspz_hsp_rows *rows,
                     struct hspz_error *err)
{
    struct receiver to = {.segments = segments, .file = file, .rows = rows};
    enum hspz_status status = HSPZ_OK;
    sort_all(store);
    for (size_t i = 0; i < rows->queries->count && status == HSPZ_OK; i++) {
        status = pass_query(store, &rows->queries->items[i], &to, err);
    }
    return status == HSPZ_OK ? check_all_written(store, err) : status;
}

static int
by_ref(const void *left, const void *right)
{
    const struct of_query *a = left, *b = right;
    if (a->ref != b->ref) {
        return a->ref < b->ref ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

/* A name as part of a file's name; false when there is no room. */
static bool
encode(char *to, size_t room, const char *name, size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)name[i];
        const bool plain = c > ' ' && c < 0x7f && strchr("/%=\\\"'*?<>|&;$`!#(){}[]~", c) == NULL &&
                           !(c == '.' && i == 0);
        if (at + 4 > room) {
            return false;
        }
        at += (size_t)snprintf(to + at, room - at, plain ? "%c" : "%%%02X", c);
    }
    return true;
}

static void
pair_name(char name[PAIR_NAME_BYTES], const struct hspz_hsp_rows *rows, size_t ref, size_t query,
          size_t first_query)
{
    const struct hspz_place *r = &rows->refs->items[ref], *q = &rows->queries->items[query];
    char ref_text[112] = "", query_text[112] = "";
    if (!encode(ref_text, sizeof(ref_text), rows->refs->text + r->text, r->text_len)) {
        snprintf(ref_text, sizeof(ref_text), "%%r%zu", ref);
    }
    if (!encode(query_text, sizeof(query_text), rows->queries->text + q->text, q->text_len)) {
        snprintf(query_text, sizeof(query_text), "%%q%zu", first_query + query);
    }
    snprintf(name, PAIR_NAME_BYTES, "%s=%s.segments.gz", ref_text, query_text);
}

/* The collected HSPs of one query sequence, a file for each reference sequence. */
static enum hspz_status
write_pairs_of(struct receiver *to, size_t query, size_t first_query, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    qsort(to->items, to->count, sizeof(*to->items), by_ref);
    struct hspz_segments_file *file = NULL;
    for (size_t i = 0; i < to->count && status == HSPZ_OK; i++) {
        const struct of_query *item = &to->items[i];
        if (i == 0 || item->ref != item[-1].ref) {
            char name[PAIR_NAME_BYTES];
            pair_name(name, to->rows, item->ref, query, first_query);
            status = file != NULL ? hspz_segments_end(to->segments, file, err) : HSPZ_OK;
            if (status == HSPZ_OK) {
                status = hspz_segments_file(to->segments, name, &file, err);
            }
        }
        struct hspz_hsp_rows rows = *to->rows;
        rows.strand = item->strand;
        rows.ref_block = to->rows->refs->items[item->ref].block;
        if (status == HSPZ_OK) {
            status = hspz_segments_add(to->segments, file, &rows, &item->hsp, 1, false, err);
        }
    }
    if (status == HSPZ_OK && file != NULL) {
        status = hspz_segments_end(to->segments, file, err);
    }
    to->count = 0;
    return status;
}

enum hspz_status
hspz_hsp_store_write_pairs(struct hspz_hsp_store *store, struct hspz_segments *segments,
                           const struct hspz_hsp_rows *rows, size_t first_query,
                           struct hspz_error *err)
{
    struct receiver to = {.segments = segments, .rows = rows};
    enum hspz_status status = HSPZ_OK;
    sort_all(store);
    for (size_t i = 0; i < rows->queries->count && status == HSPZ_OK; i++) {
        status = pass_query(store, &rows->queries->items[i], &to, err);
        if (status == HSPZ_OK) {
            status = write_pairs_of(&to, i, first_query, err);
        }
    }
    free(to.items);
    return status == HSPZ_OK ? check_all_written(store, err) : status;
}
