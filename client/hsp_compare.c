#include "client/hsp_compare.h"

#include <stdlib.h>
#include <string.h>

/* Places of segments that are in no pair yet, by pair of sequences and strand, then target start.
 */
struct waiting {
    const struct hspz_segment **items;
    size_t count;
};

const char *
hspz_hsp_class_name(enum hspz_hsp_class of)
{
    static const char *const names[HSPZ_HSP_CLASSES] = {"equal", "rescored", "shifted", "contained",
                                                        "only"};
    return names[of];
}

static int
by(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int
by_strand(const struct hspz_segment *x, const struct hspz_segment *y)
{
    const int order = x->target != y->target ? by(x->target, y->target) : by(x->query, y->query);
    return order != 0 ? order : by(x->minus, y->minus);
}

static uint64_t
diagonal(const struct hspz_segment *s)
{
    return s->target_start - s->query_start;
}

static int
by_diagonal(const struct hspz_segment *x, const struct hspz_segment *y)
{
    const int order = by_strand(x, y);
    return order != 0 ? order : by(diagonal(x), diagonal(y));
}

/* The same bases? Along a diagonal, of those with one start the longest first. */
static int
by_place(const struct hspz_segment *x, const struct hspz_segment *y)
{
    const int order = by_diagonal(x, y);
    if (order != 0 || x->target_start != y->target_start) {
        return order != 0 ? order : by(x->target_start, y->target_start);
    }
    return by(y->len, x->len);
}

static int
compare_all(const void *a, const void *b)
{
    const struct hspz_segment *x = a, *y = b;
    const int order = by_place(x, y);
    return order != 0 ? order : (x->score > y->score) - (x->score < y->score);
}

static int
compare_waiting(const void *a, const void *b)
{
    const struct hspz_segment *const *x = a, *const *y = b;
    int order = by_strand(*x, *y);
    if (order == 0) {
        order = by((*x)->target_start, (*y)->target_start);
    }
    return order != 0 ? order : compare_all(*x, *y);
}

static void
pair(struct hspz_hsp_match *const matches[2], size_t i, size_t j, enum hspz_hsp_class of)
{
    matches[0][i] = (struct hspz_hsp_match){.of = of, .other = j};
    matches[1][j] = (struct hspz_hsp_match){.of = of, .other = i};
}

static void
find_equal(struct hspz_segment_list *const lists[2], struct hspz_hsp_match *const matches[2])
{
    for (size_t i = 0, j = 0; i < lists[0]->count && j < lists[1]->count;) {
        const int order = compare_all(&lists[0]->segments[i], &lists[1]->segments[j]);
        if (order == 0) {
            pair(matches, i, j, HSPZ_HSP_EQUAL);
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* Of those that are not equal: the same place. */
static void
find_rescored(struct hspz_segment_list *const lists[2], struct hspz_hsp_match *const matches[2])
{
    for (size_t i = 0, j = 0; i < lists[0]->count && j < lists[1]->count;) {
        if (matches[0][i].of != HSPZ_HSP_ONLY) {
            i++;
        } else if (matches[1][j].of != HSPZ_HSP_ONLY) {
            j++;
        } else {
            const int order = by_place(&lists[0]->segments[i], &lists[1]->segments[j]);
            if (order == 0) {
                pair(matches, i, j, HSPZ_HSP_RESCORED);
            }
            i += order <= 0;
            j += order >= 0;
        }
    }
}

static enum hspz_status
collect(const struct hspz_segment_list *list, const struct hspz_hsp_match *matches,
        struct waiting *out)
{
    out->items = malloc((list->count + 1) * sizeof(*out->items));
    out->count = 0;
    if (out->items == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (matches[i].of == HSPZ_HSP_ONLY) {
            out->items[out->count++] = &list->segments[i];
        }
    }
    qsort(out->items, out->count, sizeof(*out->items), compare_waiting);
    return HSPZ_OK;
}

static uint64_t
distance(uint64_t x, uint64_t y)
{
    return x > y ? x - y : y - x;
}

/* The largest distance of starts and ends. */
static uint64_t
shift_of(const struct hspz_segment *x, const struct hspz_segment *y)
{
    const uint64_t distances[4] = {
        distance(x->target_start, y->target_start),
        distance(x->query_start, y->query_start),
        distance(x->target_start + x->len, y->target_start + y->len),
        distance(x->query_start + x->len, y->query_start + y->len),
    };
    uint64_t most = 0;
    for (size_t i = 0; i < 4; i++) {
        most = distances[i] > most ? distances[i] : most;
    }
    return most;
}

static void
pair_shifted(struct hspz_segment_list *const lists[2], const struct waiting waiting[2],
             uint64_t tolerance, struct hspz_hsp_match *const matches[2])
{
    size_t first = 0; /* before it all lie too far back for this and later ones */
    for (size_t i = 0; i < waiting[0].count; i++) {
        const struct hspz_segment *s = waiting[0].items[i];
        const struct hspz_segment *nearest = NULL;
        for (size_t j = first; j < waiting[1].count; j++) {
            const struct hspz_segment *t = waiting[1].items[j];
            const int order = by_strand(t, s);
            if (order < 0 || (order == 0 && t->target_start + tolerance < s->target_start)) {
                first += j == first;
                continue;
            }
            if (order > 0 || t->target_start > s->target_start + tolerance) {
                break;
            }
            if (matches[1][t - lists[1]->segments].of == HSPZ_HSP_ONLY &&
                shift_of(s, t) <= tolerance &&
                (nearest == NULL || shift_of(s, t) < shift_of(s, nearest))) {
                nearest = t;
            }
        }
        if (nearest != NULL) {
            pair(matches, (size_t)(s - lists[0]->segments), (size_t)(nearest - lists[1]->segments),
                 HSPZ_HSP_SHIFTED);
        }
    }
}

static enum hspz_status
find_shifted(struct hspz_segment_list *const lists[2], uint64_t tolerance,
             struct hspz_hsp_match *const matches[2])
{
    struct waiting waiting[2] = {{0}, {0}};
    enum hspz_status status = collect(lists[0], matches[0], &waiting[0]);
    if (status == HSPZ_OK) {
        status = collect(lists[1], matches[1], &waiting[1]);
    }
    if (status == HSPZ_OK) {
        pair_shifted(lists, waiting, tolerance, matches);
    }
    free(waiting[0].items);
    free(waiting[1].items);
    return status;
}

/* Of list `a` those that lie inside one of list `b`: along a diagonal, the one of `b` that reaches
 * farthest of those that start no later decides. */
static void
find_contained(const struct hspz_segment_list *a, struct hspz_hsp_match *matches,
               const struct hspz_segment_list *b)
{
    const struct hspz_segment *farthest = NULL;
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        const struct hspz_segment *s = &a->segments[i];
        for (; j < b->count; j++) {
            const struct hspz_segment *t = &b->segments[j];
            const int order = by_diagonal(t, s);
            if (order > 0 || (order == 0 && t->target_start > s->target_start)) {
                break;
            }
            if (farthest == NULL || by_diagonal(farthest, t) != 0 ||
                t->target_start + t->len > farthest->target_start + farthest->len) {
                farthest = t;
            }
        }
        if (matches[i].of == HSPZ_HSP_ONLY && farthest != NULL && by_diagonal(farthest, s) == 0 &&
            s->target_start + s->len <= farthest->target_start + farthest->len) {
            matches[i] = (struct hspz_hsp_match){.of = HSPZ_HSP_CONTAINED,
                                                 .other = (size_t)(farthest - b->segments)};
        }
    }
}

enum hspz_status
hspz_hsp_compare(struct hspz_segment_list *const lists[2], uint64_t tolerance,
                 struct hspz_hsp_match *matches[2], struct hspz_error *err)
{
    struct hspz_hsp_match *found[2] = {NULL, NULL};
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < 2; i++) {
        if (lists[i]->count > 0) {
            qsort(lists[i]->segments, lists[i]->count, sizeof(*lists[i]->segments), compare_all);
        }
        found[i] = malloc((lists[i]->count + 1) * sizeof(*found[i]));
        if (found[i] == NULL) {
            status = HSPZ_E_OUT_OF_MEMORY;
            continue;
        }
        for (size_t j = 0; j < lists[i]->count; j++) {
            found[i][j] = (struct hspz_hsp_match){.of = HSPZ_HSP_ONLY};
        }
    }
    if (status == HSPZ_OK) {
        find_equal(lists, found);
        find_rescored(lists, found);
        status = tolerance > 0 ? find_shifted(lists, tolerance, found) : HSPZ_OK;
    }
    if (status != HSPZ_OK) {
        free(found[0]);
        free(found[1]);
        return hspz_error_set(err, status, "no memory to compare");
    }
    find_contained(lists[0], found[0], lists[1]);
    find_contained(lists[1], found[1], lists[0]);
    matches[0] = found[0];
    matches[1] = found[1];
    return HSPZ_OK;
}
