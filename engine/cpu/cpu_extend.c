#include "engine/cpu/cpu_extend.h"

#include "engine/cpu/diagonals.h"
#include "engine/cpu/gate.h"
#include "engine/extend.h"
#include "engine/score.h"

#include <stdlib.h>

/* Anchors of a slice: what a task extends at once; and slices that are under way side by side. */
#define SLICE_ANCHORS 8192u
#define SLICES_LIMIT 64u
/* Diagonals that a slice may come to remember, and all of them: 51 MB, and 206 MB. */
#define DIAGONALS_LIMIT (1u << 20)
#define ALL_DIAGONALS ((size_t)1 << 22)
/* Fewer than these are not worth a thread. */
#define SHARE_ANCHORS 256u
/* How far ahead of the one at hand an anchor's bases are asked for. */
#define AHEAD 12u

/* What one task has of its own. */
struct slice {
    struct hspz_hsp *found; /* SLICE_ANCHORS */
    struct hspz_diagonals *diagonals;
    size_t begin, end; /* of the call's anchors */
    size_t done;       /* where it stopped */
    size_t found_count;
    uint64_t work; /* bases looked at */
};

struct hspz_cpu_extender {
    struct hspz_diagonals_spec spec;
    struct hspz_gate gate;
    const uint64_t *anchors; /* of the call */
    size_t slice_anchors;    /* fewer where anchors are long */
    bool whole;              /* the set has all that the last call found */
    size_t slice_count;
    struct slice slices[SLICES_LIMIT];
};

enum hspz_status
hspz_cpu_extender_create(const struct hspz_cpu_extend_spec *spec, struct hspz_cpu_extender **out,
                         struct hspz_error *err)
{
    const bool minus = spec->strand == HSPZ_STRAND_MINUS;
    struct hspz_cpu_extender *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to extend hits");
    }
    e->slice_anchors = SLICE_ANCHORS;
    e->spec = (struct hspz_diagonals_spec){
        .ref = {.bases = spec->ref.bytes,
                .classes = hspz_base_classes(spec->ref_unmask, false),
                .len = (uint32_t)spec->ref.len},
        .query = {.bases = spec->query.bytes,
                  .classes = hspz_base_classes(spec->query_unmask, minus),
                  .len = (uint32_t)spec->query.len,
                  .backwards = minus},
        .scoring = spec->scoring,
        .gate = &e->gate,
    };
    hspz_gate_init(&e->gate, &(struct hspz_gate_spec){.ref = e->spec.ref,
                                                      .query = e->spec.query,
                                                      .ref_unmask = spec->ref_unmask,
                                                      .query_unmask = spec->query_unmask,
                                                      .scoring = spec->scoring});
    *out = e;
    return HSPZ_OK;
}

void
hspz_cpu_extender_destroy(struct hspz_cpu_extender **extender)
{
    struct hspz_cpu_extender *e = *extender;
    if (e != NULL) {
        for (size_t i = 0; i < e->slice_count; i++) {
            free(e->slices[i].found);
            hspz_diagonals_destroy(&e->slices[i].diagonals);
        }
        free(e);
        *extender = NULL;
    }
}

static size_t
slices_for(size_t threads)
{
    return threads < SLICES_LIMIT ? threads : SLICES_LIMIT;
}

static const uint64_t found_bytes = SLICE_ANCHORS * sizeof(struct hspz_hsp);

uint64_t
hspz_cpu_extender_bytes(const struct hspz_cpu_extender *extender)
{
    uint64_t bytes = sizeof(*extender);
    for (size_t i = 0; i < extender->slice_count; i++) {
        bytes += found_bytes + hspz_diagonals_bytes(extender->slices[i].diagonals);
    }
    return bytes;
}

uint64_t
hspz_cpu_extender_most_bytes(const struct hspz_cpu_extender *extender, unsigned threads)
{
    uint64_t bytes = sizeof(*extender);
    for (size_t i = 0; i < slices_for(threads); i++) {
        bytes += found_bytes;
        bytes += extender != NULL && i < extender->slice_count
                     ? hspz_diagonals_most_bytes(extender->slices[i].diagonals)
                     : hspz_diagonals_least_bytes();
    }
    return bytes;
}

static enum hspz_status
add_slice(struct hspz_cpu_extender *e, size_t most)
{
    const size_t share = ALL_DIAGONALS / most;
    const uint32_t limit = share < DIAGONALS_LIMIT ? (uint32_t)share : DIAGONALS_LIMIT;
    struct slice slice = {.found = malloc(found_bytes)};
    if (slice.found == NULL || hspz_diagonals_create(limit, &slice.diagonals) != HSPZ_OK) {
        free(slice.found);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    e->slices[e->slice_count++] = slice;
    return HSPZ_OK;
}

/* Memory for as many slices as threads can work on, and anchors fill; more for those that remember
 * too little. */
static enum hspz_status
make_slices(struct hspz_cpu_extender *e, const struct hspz_pool *pool, size_t count,
            struct hspz_error *err)
{
    const size_t most = slices_for(hspz_pool_threads(pool));
    const size_t wanted = count / SHARE_ANCHORS + 1 < most ? count / SHARE_ANCHORS + 1 : most;
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < e->slice_count; i++) {
        hspz_diagonals_grow(e->slices[i].diagonals);
    }
    while (status == HSPZ_OK && e->slice_count < wanted) {
        status = add_slice(e, most);
    }
    return status == HSPZ_OK ? HSPZ_OK : hspz_error_set(err, status, "no memory to extend hits");
}

static void
ask_for(const struct hspz_cpu_extender *e, uint64_t anchor)
{
    const struct hspz_extend_seq *ref = &e->spec.ref;
    const uint32_t r = HSPZ_ANCHOR_REF(anchor);
    __builtin_prefetch(ref->bases + (r > 32 ? r - 32 : 0));
    __builtin_prefetch(ref->bases + (r + 32 < ref->len ? r + 32 : r));
}

static void
extend_slice(void *user, size_t task)
{
    struct hspz_cpu_extender *e = user;
    struct slice *s = &e->slices[task];
    s->found_count = 0;
    s->work = 0;
    for (s->done = s->begin; s->done < s->end && s->work < HSPZ_EXTEND_WORK; s->done++) {
        const uint64_t anchor = e->anchors[s->done];
        if (s->end - s->done > AHEAD) {
            ask_for(e, e->anchors[s->done + AHEAD]);
        }
        s->found_count +=
            hspz_diagonals_extend(s->diagonals, &e->spec, HSPZ_ANCHOR_REF(anchor),
                                  HSPZ_ANCHOR_QUERY(anchor), &s->found[s->found_count], &s->work);
    }
}

/* Shares anchors[begin .. end) among the slices. */
static size_t
share(struct hspz_cpu_extender *e, size_t begin, size_t end)
{
    size_t each = (end - begin + e->slice_count - 1) / e->slice_count;
    size_t used = 0;
    each = each > SHARE_ANCHORS ? each : SHARE_ANCHORS;
    each = each < e->slice_anchors ? each : e->slice_anchors;
    while (begin < end && used < e->slice_count) {
        struct slice *s = &e->slices[used++];
        s->begin = begin;
        s->end = end - begin < each ? end : begin + each;
        begin = s->end;
    }
    return used;
}

/* Takes over what the slices found, up to and with the first that had to stop; moves *extended
 * there. What those behind it found is found again. */
static enum hspz_status
gather(const struct hspz_cpu_extender *e, size_t slices, struct hspz_hsp_set *set, size_t *extended,
       uint64_t *work, struct hspz_error *err)
{
    uint64_t most = 0;
    bool stopped = false;
    for (size_t i = 0; i < slices; i++) {
        most = e->slices[i].work > most ? e->slices[i].work : most;
    }
    *work += most;
    for (size_t i = 0; i < slices && !stopped; i++) {
        const struct slice *s = &e->slices[i];
        const enum hspz_status status = hspz_hsp_set_add(set, s->found, s->found_count, err);
        if (status != HSPZ_OK) {
            return status;
        }
        *extended = s->done;
        stopped = s->done < s->end;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_cpu_extend(struct hspz_cpu_extender *extender, struct hspz_pool *pool, const uint64_t *anchors,
                size_t count, struct hspz_hsp_set *set, size_t *extended, struct hspz_error *err)
{
    uint64_t work = 0;
    enum hspz_status status = make_slices(extender, pool, count, err);
    extender->anchors = anchors;
    /* A set of a job has what calls before found; that needs not come again. */
    extender->spec.call += set->scope == HSPZ_SCOPE_CHUNK || !extender->whole;
    extender->whole = true;
    *extended = 0;
    while (status == HSPZ_OK && *extended < count && work < HSPZ_EXTEND_WORK) {
        const size_t slices = share(extender, *extended, count);
        const size_t wanted = extender->slices[slices - 1].end;
        hspz_pool_run(pool, extend_slice, extender, slices);
        status = gather(extender, slices, set, extended, &work, err);
        /* Slices so short that none has to stop waste nothing. */
        if (status == HSPZ_OK && *extended < wanted) {
            extender->slice_anchors = (extender->slice_anchors + 7) / 8;
        } else if (extender->slice_anchors < SLICE_ANCHORS) {
            extender->slice_anchors *= 2;
        }
        extender->whole = extender->whole && status == HSPZ_OK && *extended == wanted;
    }
    return status;
}
