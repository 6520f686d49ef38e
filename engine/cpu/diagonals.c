#include "engine/cpu/diagonals.h"

#include <stdlib.h>

/* Places are those of the query. */
struct entry {
    uint64_t anchors;   /* bit i: the place `last` - i is an anchor that comes to `hsp`; 0: none */
    int64_t right_best; /* of the anchor `last` */
    uint64_t call;      /* in which the HSP was given last; 0: it does not pass */
    uint32_t last;
    uint32_t diagonal; /* reference - query */
    struct hspz_hsp hsp;
};

struct hspz_diagonals {
    unsigned bits; /* log2 of the entries */
    uint32_t limit;
    uint64_t anchors, lost; /* since it grew or was asked to */
    uint8_t *tags;          /* of diagonals; few enough to be at hand for chance hits */
    struct entry *entries;
};

/* Bases that were looked at where another diagonal's entry had to go, and those for each anchor,
 * that make it worth to remember more. */
#define LOST_BASES (UINT64_C(1) << 20)
#define LOST_SHARE 64u

static uint64_t
bytes_of(uint32_t entries)
{
    return (uint64_t)entries * (sizeof(struct entry) + 1);
}

/* Entries, and their tags behind them. */
static bool
make_entries(struct hspz_diagonals *d, unsigned bits)
{
    struct entry *entries = calloc(1, bytes_of(1u << bits));
    if (entries == NULL) {
        return false;
    }
    d->bits = bits;
    d->entries = entries;
    d->tags = (uint8_t *)(entries + (1u << bits));
    return true;
}

enum hspz_status
hspz_diagonals_create(uint32_t limit, struct hspz_diagonals **out)
{
    struct hspz_diagonals *d = calloc(1, sizeof(*d));
    if (d == NULL || !make_entries(d, HSPZ_DIAGONALS_BITS)) {
        free(d);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    d->limit = limit;
    *out = d;
    return HSPZ_OK;
}

void
hspz_diagonals_destroy(struct hspz_diagonals **diagonals)
{
    if (*diagonals != NULL) {
        free((*diagonals)->entries);
        free(*diagonals);
        *diagonals = NULL;
    }
}

uint64_t
hspz_diagonals_least_bytes(void)
{
    return sizeof(struct hspz_diagonals) + bytes_of(HSPZ_DIAGONALS);
}

uint64_t
hspz_diagonals_bytes(const struct hspz_diagonals *diagonals)
{
    return sizeof(*diagonals) + bytes_of(1u << diagonals->bits);
}

static bool
wants_to_grow(const struct hspz_diagonals *d)
{
    return 1u << d->bits < d->limit && d->lost >= LOST_BASES && d->lost / LOST_SHARE >= d->anchors;
}

uint64_t
hspz_diagonals_most_bytes(const struct hspz_diagonals *diagonals)
{
    /* Those before and after are there side by side for a moment. */
    const uint64_t more = wants_to_grow(diagonals) ? bytes_of(2u << diagonals->bits) : 0;
    return hspz_diagonals_bytes(diagonals) + more;
}

static uint32_t
slot_of(const struct hspz_diagonals *d, uint32_t diagonal)
{
    return diagonal & ((1u << d->bits) - 1);
}

static uint8_t
tag_of(const struct hspz_diagonals *d, uint32_t diagonal)
{
    return (uint8_t)(diagonal >> d->bits);
}

static void
put(struct hspz_diagonals *d, const struct entry *entry)
{
    const uint32_t slot = slot_of(d, entry->diagonal);
    d->tags[slot] = tag_of(d, entry->diagonal);
    d->entries[slot] = *entry;
}

void
hspz_diagonals_grow(struct hspz_diagonals *diagonals)
{
    struct hspz_diagonals *d = diagonals;
    struct entry *before = d->entries;
    const uint32_t count = 1u << d->bits;
    /* No memory for more is no failure: it goes on as it is. */
    if (wants_to_grow(d) && make_entries(d, d->bits + 1)) {
        for (uint32_t i = 0; i < count; i++) {
            if (before[i].anchors != 0) {
                put(d, &before[i]);
            }
        }
        free(before);
    }
    d->anchors = d->lost = 0;
}

static uint32_t
end_of(const struct entry *entry)
{
    return entry->hsp.query_start + entry->hsp.length;
}

/* The anchor may be one of the entry's HSP. */
static bool
ends_behind(const struct entry *entry, uint32_t diagonal, uint32_t q)
{
    return entry->diagonal == diagonal && entry->anchors != 0 && end_of(entry) >= q;
}

/* True with the HSP when it passes and was not given in this call. */
static bool
give(struct entry *entry, uint64_t call, struct hspz_hsp *out)
{
    if (entry->call == 0 || entry->call == call) {
        return false;
    }
    entry->call = call;
    *out = entry->hsp;
    return true;
}

/* Another anchor of the entry's HSP; those far from it, or behind it, are forgotten. */
static void
add_anchor(struct entry *entry, uint32_t q, int64_t right_best)
{
    const uint32_t by = q - entry->last;
    entry->anchors = (by < 64 ? entry->anchors << by : 0) | 1;
    entry->last = q;
    entry->right_best = right_best;
}

/* The left side of (r, q), where the entry's HSP ends no further left. True when it comes to an
 * anchor of the HSP as the rule wants it. *between is F(q) - F(last) once that is passed. */
static bool
scan_left(const struct hspz_diagonals_spec *spec, const struct entry *entry, uint32_t r, uint32_t q,
          struct hspz_extend_side *left, bool *passed, int64_t *between)
{
    bool open = true;
    while (open && r > 0 && q > 0) {
        const uint8_t a = hspz_extend_class(&spec->ref, --r);
        const uint8_t b = hspz_extend_class(&spec->query, --q);
        if (a == HSPZ_CLASS_SEPARATOR || b == HSPZ_CLASS_SEPARATOR) {
            break;
        }
        open = hspz_extend_add(left, spec->scoring->scores[a * HSPZ_CLASSES + b],
                               spec->scoring->xdrop);
        const uint32_t back = entry->last - q;
        if (back == 0) {
            *passed = true;
            *between = left->sum;
        }
        if (back < 64 && (entry->anchors >> back & 1) != 0 && left->best_bases == left->bases) {
            return true;
        }
    }
    return false;
}

/* Both sides, the left one first as it may tell all; true when the entry has the HSP already. */
static bool
extend_near(const struct hspz_diagonals_spec *spec, struct entry *entry, uint32_t r, uint32_t q,
            struct hspz_extend_side *right, struct hspz_extend_side *left, uint64_t *work)
{
    bool passed = false;
    int64_t between = 0;
    const bool same = scan_left(spec, entry, r, q, left, &passed, &between);
    *work += left->bases;
    if (passed) {
        right->best = entry->right_best - between;
        right->best_bases = end_of(entry) - q;
    } else {
        *right = hspz_extend_half(&spec->ref, r, &spec->query, q, true, spec->scoring);
        *work += right->bases;
    }
    return same;
}

/* What is not told by the entry's tag and the gate alone. */
static __attribute__((noinline)) bool
extend_known(struct hspz_diagonals *diagonals, const struct hspz_diagonals_spec *spec, uint32_t r,
             uint32_t q, struct hspz_hsp *out, uint64_t *work)
{
    const uint32_t diagonal = r - q;
    struct entry *entry = &diagonals->entries[slot_of(diagonals, diagonal)];
    struct hspz_extend_side right = {0};
    struct hspz_extend_side left = {0};
    const bool known = entry->diagonal == diagonal && entry->anchors != 0;
    if (ends_behind(entry, diagonal, q)) {
        if (extend_near(spec, entry, r, q, &right, &left, work)) {
            add_anchor(entry, q, right.best);
            return give(entry, spec->call, out);
        }
    } else {
        right = hspz_extend_half(&spec->ref, r, &spec->query, q, true, spec->scoring);
        left = hspz_extend_half(&spec->ref, r, &spec->query, q, false, spec->scoring);
        *work += right.bases + left.bases;
    }
    if (known && entry->hsp.query_start == q - left.best_bases &&
        end_of(entry) == q + right.best_bases) {
        add_anchor(entry, q, right.best);
        return give(entry, spec->call, out);
    }
    struct entry fresh = {.anchors = 1, .right_best = right.best, .last = q, .diagonal = diagonal};
    const bool passes =
        hspz_extend_judge(&spec->ref, r, &spec->query, q, &right, &left, spec->scoring, &fresh.hsp);
    fresh.call = passes ? spec->call : 0;
    *out = fresh.hsp;
    diagonals->lost += !known && entry->anchors != 0 ? right.bases + left.bases : 0;
    put(diagonals, &fresh);
    return passes;
}

bool
hspz_diagonals_extend(struct hspz_diagonals *diagonals, const struct hspz_diagonals_spec *spec,
                      uint32_t r, uint32_t q, struct hspz_hsp *out, uint64_t *work)
{
    const uint32_t diagonal = r - q;
    const uint32_t slot = slot_of(diagonals, diagonal);
    *work += 1;
    diagonals->anchors++;
    if (diagonals->tags[slot] != tag_of(diagonals, diagonal) ||
        !ends_behind(&diagonals->entries[slot], diagonal, q)) {
        if (spec->gate != NULL && hspz_gate_rejects(spec->gate, r, q, work)) {
            return false;
        }
    }
    return extend_known(diagonals, spec, r, q, out, work);
}
