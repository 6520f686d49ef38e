#include "engine/cpu/quotient.h"

#include "engine/cpu/filter_p.h"

#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64u
#define DIGITS_MAX 10 /* of a count in base 2^8 - 1, a zero before it */

/* ---- memory ---- */

static uint64_t
words_of(const struct hspz_quotient *q)
{
    return (q->slots + WORD_BITS - 1) / WORD_BITS;
}

uint64_t
hspz_quotient_symbol_bytes(const struct hspz_quotient *q)
{
    return q->slots * (q->plan->spec.slot_bits / 8);
}

uint64_t
hspz_quotient_mark_bytes(const struct hspz_quotient *q)
{
    return words_of(q) * sizeof(uint64_t);
}

void
hspz_quotient_fini(struct hspz_quotient *q)
{
    free(q->symbols);
    free(q->occupied);
    free(q->runend);
    free(q->offset);
    *q = (struct hspz_quotient){0};
}

void
hspz_quotient_init(struct hspz_quotient *q, const struct hspz_filter_plan *plan)
{
    *q = (struct hspz_quotient){.plan = plan, .slots = plan->spec.slots + plan->spare_slots};
    q->symbols = calloc(1, hspz_quotient_symbol_bytes(q));
    q->occupied = calloc(1, hspz_quotient_mark_bytes(q));
    q->runend = calloc(1, hspz_quotient_mark_bytes(q));
    q->offset = calloc(words_of(q) + 1, sizeof(*q->offset));
    if (q->symbols == NULL || q->occupied == NULL || q->runend == NULL || q->offset == NULL) {
        hspz_quotient_fini(q);
    }
}

/* ---- symbols and marks ---- */

static uint64_t
symbol_at(const struct hspz_quotient *q, uint64_t slot)
{
    const unsigned bytes = q->plan->spec.slot_bits / 8;
    uint64_t symbol = 0;
    memcpy(&symbol, q->symbols + slot * bytes, bytes); /* little-endian */
    return symbol;
}

static void
set_symbol(struct hspz_quotient *q, uint64_t slot, uint64_t symbol)
{
    const unsigned bytes = q->plan->spec.slot_bits / 8;
    memcpy(q->symbols + slot * bytes, &symbol, bytes);
}

static bool
is_marked(const uint64_t *marks, uint64_t at)
{
    return (marks[at / WORD_BITS] >> at % WORD_BITS & 1) != 0;
}

static void
mark(uint64_t *marks, uint64_t at)
{
    marks[at / WORD_BITS] |= UINT64_C(1) << at % WORD_BITS;
}

/* The first mark at or behind `at`; `limit` when there is none. */
static uint64_t
next_mark(const uint64_t *marks, uint64_t at, uint64_t limit)
{
    for (uint64_t w = at / WORD_BITS; at < limit; w++, at = w * WORD_BITS) {
        const uint64_t rest = marks[w] >> at % WORD_BITS;
        if (rest != 0) {
            const uint64_t found = at + (uint64_t)__builtin_ctzll(rest);
            return found < limit ? found : limit;
        }
    }
    return limit;
}

static uint64_t
later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- reading ---- */

static void
open_run(struct hspz_quotient_reader *r, uint64_t quotient, uint64_t at)
{
    r->quotient = quotient;
    r->at = at;
    r->end = next_mark(r->q->runend, at, r->q->slots) + 1;
    r->end = r->end < r->q->slots ? r->end : r->q->slots;
}

void
hspz_quotient_read_begin(struct hspz_quotient_reader *r, const struct hspz_quotient *q)
{
    *r = (struct hspz_quotient_reader){.q = q};
    const uint64_t first = next_mark(q->occupied, 0, q->plan->spec.slots);
    r->quotient = first;
    if (first < q->plan->spec.slots) {
        open_run(r, first, first);
    }
}

bool
hspz_quotient_read_run(struct hspz_quotient_reader *r, const struct hspz_quotient *q,
                       uint64_t quotient)
{
    *r = (struct hspz_quotient_reader){.q = q, .quotient = quotient};
    if (!is_marked(q->occupied, quotient)) {
        return false;
    }
    const uint64_t base = quotient / WORD_BITS * WORD_BITS;
    uint64_t at = base + q->offset[base / WORD_BITS];
    for (uint64_t other = next_mark(q->occupied, base, quotient); other < quotient;
         other = next_mark(q->occupied, other + 1, quotient)) {
        at = next_mark(q->runend, later(at, other), q->slots) + 1;
    }
    open_run(r, quotient, later(at, quotient));
    return true;
}

/* The digits of a count from slot `at` on, up to symbol x; the slot behind that. */
static uint64_t
read_digits(const struct hspz_quotient_reader *r, uint64_t at, uint64_t x, uint64_t *count)
{
    const unsigned bits = r->q->plan->spec.slot_bits;
    const uint64_t base = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t value = 0;
    for (; at < r->end && symbol_at(r->q, at) != x; at++) {
        const uint64_t symbol = symbol_at(r->q, at);
        value = value * base + (symbol < x ? symbol : symbol - 1);
    }
    *count = value + 3 < value ? UINT64_MAX : value + 3;
    return at + 1;
}

static uint64_t
read_count(const struct hspz_quotient_reader *r, uint64_t x, uint64_t *count)
{
    const uint64_t at = r->at + 1;
    *count = 1;
    if (at >= r->end || symbol_at(r->q, at) > x) {
        return at;
    }
    if (x == 0) {
        if (at + 1 >= r->end || symbol_at(r->q, at + 1) != 0) {
            *count = 2;
            return at + 1;
        }
        return read_digits(r, at + 2, x, count);
    }
    if (symbol_at(r->q, at) == x) {
        *count = 2;
        return at + 1;
    }
    return read_digits(r, at, x, count);
}

bool
hspz_quotient_read(struct hspz_quotient_reader *r, struct hspz_filter_entry *out)
{
    const struct hspz_filter_plan *plan = r->q->plan;
    if (r->at >= r->end) {
        const uint64_t next = next_mark(r->q->occupied, r->quotient + 1, plan->spec.slots);
        if (r->quotient >= plan->spec.slots || next >= plan->spec.slots) {
            r->quotient = plan->spec.slots;
            return false;
        }
        open_run(r, next, later(r->end, next));
    }
    if (r->at >= r->end) {
        return false; /* a damaged one */
    }
    const uint64_t x = symbol_at(r->q, r->at);
    const unsigned v = plan->spec.value_bits;
    out->fingerprint = r->quotient << plan->remainder_bits | x >> v;
    out->value = v == 0 ? 0 : x & ((UINT64_C(1) << v) - 1);
    r->at = read_count(r, x, &out->count);
    return true;
}

/* ---- writing ---- */

void
hspz_quotient_write_begin(struct hspz_quotient_writer *w, struct hspz_quotient *q)
{
    *w = (struct hspz_quotient_writer){.q = q, .quotient = UINT64_MAX};
}

static void
close_run(struct hspz_quotient_writer *w)
{
    if (w->quotient != UINT64_MAX) {
        mark(w->q->runend, w->at - 1);
    }
}

/* The symbols of an entry; their number. */
static unsigned
encode(const struct hspz_filter_plan *plan, uint64_t x, uint64_t count,
       uint64_t symbols[DIGITS_MAX + 5])
{
    const unsigned bits = plan->spec.slot_bits;
    const uint64_t base = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    unsigned n = 0;
    symbols[n++] = x;
    if (count >= 2) {
        symbols[n++] = x;
    }
    if (count <= 2) {
        return n;
    }
    n = x == 0 ? 2 : 1;
    if (x == 0) {
        symbols[n++] = 0;
    }
    uint64_t digits[DIGITS_MAX];
    unsigned d = 0;
    uint64_t rest = count - 3;
    do {
        digits[d++] = rest % base;
        rest /= base;
    } while (rest != 0);
    if (x > 0 && digits[d - 1] >= x) {
        digits[d++] = 0;
    }
    while (d-- > 0) {
        symbols[n++] = digits[d] < x ? digits[d] : digits[d] + 1;
    }
    symbols[n++] = x;
    return n;
}

bool
hspz_quotient_write(struct hspz_quotient_writer *w, const struct hspz_filter_entry *entry)
{
    struct hspz_quotient *q = w->q;
    const struct hspz_filter_plan *plan = q->plan;
    const uint64_t quotient = entry->fingerprint >> plan->remainder_bits;
    const uint64_t remainder = entry->fingerprint & ((UINT64_C(1) << plan->remainder_bits) - 1);
    uint64_t symbols[DIGITS_MAX + 5];
    const unsigned n =
        encode(plan, remainder << plan->spec.value_bits | entry->value, entry->count, symbols);
    if (quotient != w->quotient) {
        close_run(w);
        /* Runs before the blocks from the last one up to this one reach up to here. */
        const uint64_t from = w->quotient == UINT64_MAX ? 0 : w->quotient / WORD_BITS + 1;
        for (uint64_t b = from; b <= quotient / WORD_BITS; b++) {
            q->offset[b] = w->at > b * WORD_BITS ? (uint32_t)(w->at - b * WORD_BITS) : 0;
        }
        w->quotient = quotient;
        w->at = later(w->at, quotient);
        mark(q->occupied, quotient);
    }
    if (n > q->slots - w->at) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        set_symbol(q, w->at++, symbols[i]);
    }
    q->used += n;
    q->entries++;
    q->total = q->total + entry->count < q->total ? UINT64_MAX : q->total + entry->count;
    return true;
}

void
hspz_quotient_write_end(struct hspz_quotient_writer *w)
{
    close_run(w);
}

/* ---- from elsewhere ---- */

/* Whether reading gives ascending entries, all of which the writer takes. */
static enum hspz_status
rewrite(const struct hspz_quotient *q, const struct hspz_filter_stop *stop,
        struct hspz_quotient *again, bool *good, struct hspz_error *err)
{
    const unsigned v = q->plan->spec.value_bits;
    struct hspz_quotient_reader r;
    struct hspz_quotient_writer w;
    hspz_quotient_write_begin(&w, again);
    hspz_quotient_read_begin(&r, q);
    struct hspz_filter_entry entry, last = {0};
    *good = false;
    for (uint64_t n = 0; hspz_quotient_read(&r, &entry); n++) {
        const enum hspz_status status =
            n % HSPZ_FILTER_STOP_SLOTS == 0 ? hspz_filter_stopped(stop, err) : HSPZ_OK;
        if (status != HSPZ_OK) {
            return status;
        }
        const bool ascends = again->entries == 0 || entry.fingerprint > last.fingerprint ||
                             (entry.fingerprint == last.fingerprint && entry.value > last.value);
        const uint64_t remainder = entry.fingerprint - (r.quotient << q->plan->remainder_bits);
        if (!ascends || entry.value >> v != 0 || remainder >> q->plan->remainder_bits != 0 ||
            r.at > r.end || !hspz_quotient_write(&w, &entry)) {
            return HSPZ_OK;
        }
        last = entry;
    }
    hspz_quotient_write_end(&w);
    *good = true;
    return HSPZ_OK;
}

enum hspz_status
hspz_quotient_adopt(struct hspz_quotient *q, const struct hspz_filter_stop *stop,
                    struct hspz_error *err)
{
    struct hspz_quotient again;
    hspz_quotient_init(&again, q->plan);
    if (again.symbols == NULL) {
        return hspz_filter_no_memory(q->plan, err);
    }
    bool good;
    enum hspz_status status = rewrite(q, stop, &again, &good, err);
    if (status != HSPZ_OK) {
        hspz_quotient_fini(&again);
        return status;
    }
    if (!good || memcmp(again.symbols, q->symbols, hspz_quotient_symbol_bytes(q)) != 0 ||
        memcmp(again.occupied, q->occupied, hspz_quotient_mark_bytes(q)) != 0 ||
        memcmp(again.runend, q->runend, hspz_quotient_mark_bytes(q)) != 0) {
        status = hspz_filter_bad_image(q->plan, "its slots are not as its entries ask", err);
    } else {
        const struct hspz_quotient old = *q;
        *q = again;
        again = old;
    }
    hspz_quotient_fini(&again);
    return status;
}
