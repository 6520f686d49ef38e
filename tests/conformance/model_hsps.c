#include "tests/conformance/model.h"

#include "tests/support/test.h"

#include <math.h>

enum { LOWER = 4, N = 5, OTHER = 6, SEPARATOR = 7 };

static int
class_of(char base)
{
    static const char bases[] = "ACGTacgtNn&";
    static const int classes[] = {0, 1, 2, 3, LOWER, LOWER, LOWER, LOWER, N, N, SEPARATOR};
    const char *at = strchr(bases, base);
    return at == NULL ? OTHER : classes[at - bases];
}

static int
score_of(int a, int b)
{
    static const int hoxd70[4][4] = {{91, -114, -31, -123},
                                     {-114, 100, -125, -31},
                                     {-31, -125, 100, -114},
                                     {-123, -31, -114, 91}};
    if (a < 4 && b < 4) {
        return hoxd70[a][b];
    }
    const bool other = a == OTHER || b == OTHER;
    return other && a != N && b != N && a != LOWER && b != LOWER ? -100 : -1000;
}

/* An end of the extension: how far from the anchor the best sum is, and that sum. */
struct end {
    long at, best;
};

static struct end
extend(const char *ref, long r, const char *query, long q, int step, int xdrop)
{
    const long ref_len = (long)strlen(ref), query_len = (long)strlen(query);
    struct end end = {step > 0 ? -1 : 0, 0};
    long sum = 0;
    for (long i = step > 0 ? 0 : 1;; i++) {
        const long ri = r + step * i, qi = q + step * i;
        if (ri < 0 || qi < 0 || ri >= ref_len || qi >= query_len) {
            break;
        }
        const int a = class_of(ref[ri]), b = class_of(query[qi]);
        if (a == SEPARATOR || b == SEPARATOR) {
            break;
        }
        sum += score_of(a, b);
        if (sum > end.best) {
            end = (struct end){i, sum};
        }
        if (end.best - sum > xdrop) {
            break;
        }
    }
    return end;
}

static double
entropy_of(const char *ref, const char *query, long bases)
{
    double sum = 0;
    long matches[4] = {0}, all = 0;
    for (long i = 0; i < bases; i++) {
        const int a = class_of(ref[i]);
        if (a < 4 && ref[i] == query[i]) {
            matches[a]++;
            all++;
        }
    }
    if (all < 20) {
        return 1;
    }
    for (int base = 0; base < 4; base++) {
        const double p = (double)matches[base] / (double)bases;
        sum -= p > 0 ? p * log(p) : 0;
    }
    return sum / (double)logf(4.0f);
}

static bool
filter(const struct model_scoring *scoring, const char *ref, const char *query, uint64_t anchor,
       struct hspz_hsp *out)
{
    const long r = (long)HSPZ_ANCHOR_REF(anchor), q = (long)HSPZ_ANCHOR_QUERY(anchor);
    const struct end right = extend(ref, r, query, q, 1, scoring->xdrop);
    const struct end left = extend(ref, r, query, q, -1, scoring->xdrop);
    const long total = right.best + left.best;
    const long bases = right.at + left.at + 1;
    double entropy = 1;
    if (scoring->entropy && scoring->threshold <= total && total <= 3L * scoring->threshold) {
        entropy = entropy_of(ref + (r - left.at), query + (q - left.at), bases);
    }
    *out = (struct hspz_hsp){(uint32_t)(r - left.at), (uint32_t)(q - left.at), (uint32_t)bases,
                             (int32_t)((double)total * entropy)};
    return (int)((double)(float)total * entropy) >= scoring->threshold;
}

/* ---- de-duplication ---- */

static int
compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
by_place(const struct hspz_hsp *a, const struct hspz_hsp *b)
{
    int order = compare(a->ref_start, b->ref_start);
    order = order != 0 ? order : compare(a->length, b->length);
    return order != 0 ? order : a->score < b->score ? 1 : a->score > b->score ? -1 : 0;
}

static uint32_t
diagonal(const struct hspz_hsp *h)
{
    return h->ref_start - h->query_start;
}

static int
by_diagonal(const void *x, const void *y)
{
    const struct hspz_hsp *a = x, *b = y;
    const int order = compare(diagonal(a), diagonal(b));
    return order != 0 ? order : by_place(a, b);
}

static int
by_query(const void *x, const void *y)
{
    const struct hspz_hsp *a = x, *b = y;
    const int order = compare(a->query_start, b->query_start);
    return order != 0 ? order : by_place(a, b);
}

static bool
is_inside(const struct hspz_hsp *in, const struct hspz_hsp *out)
{
    return diagonal(in) == diagonal(out) && in->ref_start >= out->ref_start &&
           in->ref_start + in->length <= out->ref_start + out->length;
}

static void
deduplicate(struct model_group *group, enum hspz_hsp_scope scope)
{
    if (group->count == 0) {
        return;
    }
    qsort(group->hsps, group->count, sizeof(*group->hsps), by_diagonal);
    struct hspz_hsp *all = malloc(group->count * sizeof(*all));
    assert_non_null(all);
    memcpy(all, group->hsps, group->count * sizeof(*all));
    const struct hspz_hsp *last = NULL; /* kept */
    size_t kept = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct hspz_hsp *before = scope == HSPZ_SCOPE_JOB ? last : i > 0 ? &all[i - 1] : NULL;
        const bool drop =
            before != NULL && (is_inside(&all[i], before) || is_inside(before, &all[i]));
        if (!drop) {
            last = &all[i];
            group->hsps[kept++] = all[i];
        }
    }
    group->count = kept;
    qsort(group->hsps, kept, sizeof(*group->hsps), by_query);
    free(all);
}

/* ---- jobs ---- */

static void
fill(const struct model_job *job, const struct model_scoring *scoring,
     const struct model_chunk *chunk, const char *query, struct model_group *group)
{
    const char *ref = job->bases[chunk->id.ref_block];
    group->hsps = realloc(group->hsps, (group->count + chunk->count) * sizeof(*group->hsps));
    assert_non_null(group->hsps);
    for (size_t i = 0; i < chunk->count; i++) {
        group->count += filter(scoring, ref, query, chunk->anchors[i], &group->hsps[group->count]);
    }
}

static void
keep(struct model_hsps *all, struct model_group *group, enum hspz_hsp_scope scope)
{
    deduplicate(group, scope);
    if (group->count == 0) {
        free(group->hsps);
        return;
    }
    group->id.hit_begin = 0;
    group->id.hit_end = group->count;
    all->totals[group->id.strand] += group->count;
    all->groups = realloc(all->groups, (all->count + 1) * sizeof(*group));
    assert_non_null(all->groups);
    all->groups[all->count++] = *group;
}

struct model_hsps
model_hsps(const struct model_job *job, const struct model_scoring *scoring)
{
    struct model_hsps all = {0};
    struct model_result found = model_discover(job);
    char *strands[2] = {model_strand(job, HSPZ_STRAND_PLUS), model_strand(job, HSPZ_STRAND_MINUS)};
    for (size_t i = 0; scoring->scope == HSPZ_SCOPE_CHUNK && i < found.count; i++) {
        struct model_group group = {.id = found.chunks[i].id};
        fill(job, scoring, &found.chunks[i], strands[group.id.strand], &group);
        keep(&all, &group, scoring->scope);
    }
    for (int strand = 0; scoring->scope == HSPZ_SCOPE_JOB && strand < 2; strand++) {
        for (uint32_t b = 0; b < job->block_count; b++) {
            struct model_group group = {.id = {.strand = (enum hspz_strand)strand, .ref_block = b}};
            for (size_t i = 0; i < found.count; i++) {
                const struct hspz_part_id *id = &found.chunks[i].id;
                if (id->strand == group.id.strand && id->ref_block == b) {
                    fill(job, scoring, &found.chunks[i], strands[strand], &group);
                }
            }
            keep(&all, &group, scoring->scope);
        }
    }
    free(strands[0]);
    free(strands[1]);
    model_result_free(&found);
    return all;
}

void
model_hsps_free(struct model_hsps *hsps)
{
    for (size_t i = 0; i < hsps->count; i++) {
        free(hsps->groups[i].hsps);
    }
    free(hsps->groups);
    *hsps = (struct model_hsps){0};
}
