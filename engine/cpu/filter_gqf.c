/* The quotient filters on the CPU (engine/filter.h): counting, standard, rank and select. A call
 * that changes the filter sorts its keys and writes the slots anew, entry by entry. */
#include "engine/cpu/filter_p.h"
#include "engine/cpu/quotient.h"

#include <string.h>

#define CURSOR_SHIFT 37u /* a quotient, and above it entries of its run */

struct hspz_filter {
    struct hspz_filter_plan plan;
    uint64_t salt;
    struct hspz_quotient slots;
};

static void
destroy(struct hspz_filter **filter)
{
    if (*filter != NULL) {
        hspz_quotient_fini(&(*filter)->slots);
        free(*filter);
        *filter = NULL;
    }
}

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return hspz_filter_no_memory(plan, err);
    }
    f->plan = *plan;
    f->salt = hspz_filter_salt(plan->spec.seed);
    hspz_quotient_init(&f->slots, &f->plan);
    if (f->slots.symbols == NULL) {
        destroy(&f);
        return hspz_filter_no_memory(plan, err);
    }
    *out = f;
    return HSPZ_OK;
}

static const struct hspz_filter_plan *
plan_of(const struct hspz_filter *f)
{
    return &f->plan;
}

static bool
is_set(const struct hspz_filter *f)
{
    return f->plan.spec.kind != HSPZ_FILTER_GQF;
}

static uint64_t
fingerprint_of(const struct hspz_filter *f, uint64_t key)
{
    return hspz_filter_hash(key, f->salt) >> (64 - f->plan.quotient_bits - f->plan.remainder_bits);
}

static uint64_t
add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* ---- looking up ---- */

/* The count of a fingerprint, and its smallest value. */
static uint64_t
count_of(const struct hspz_filter *f, uint64_t fingerprint, uint64_t *value)
{
    struct hspz_quotient_reader r;
    struct hspz_filter_entry entry;
    const uint64_t quotient = fingerprint >> f->plan.remainder_bits;
    uint64_t count = 0;
    *value = 0;
    if (!hspz_quotient_read_run(&r, &f->slots, quotient)) {
        return 0;
    }
    while (r.at < r.end && hspz_quotient_read(&r, &entry) && entry.fingerprint <= fingerprint) {
        if (entry.fingerprint == fingerprint) {
            *value = count == 0 ? entry.value : *value;
            count = add(count, entry.count);
        }
    }
    return count;
}

static void
look_up(const struct hspz_filter *f, struct hspz_filter_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        uint64_t value;
        const uint64_t count = count_of(f, fingerprint_of(f, call->keys[i]), &value);
        if (call->found != NULL) {
            call->found[i] = call->op == HSPZ_FILTER_COUNT ? count : value;
        }
        if (count > 0) {
            hspz_filter_call_yes(call, i);
        }
    }
}

/* ---- changing ---- */

/* The keys of a call, sorted by fingerprint; those of one fingerprint in the call's order. */
struct item {
    uint64_t fingerprint;
    size_t index;
};

static int
compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->fingerprint != y->fingerprint) {
        return x->fingerprint < y->fingerprint ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The entries of one fingerprint, by value. */
struct group {
    struct hspz_filter_entry *entries;
    size_t count, capacity;
};

static bool
group_insert(struct group *g, size_t at, struct hspz_filter_entry entry)
{
    if (g->count == g->capacity) {
        const size_t capacity = g->capacity == 0 ? 4 : 2 * g->capacity;
        struct hspz_filter_entry *grown = realloc(g->entries, capacity * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        g->entries = grown;
        g->capacity = capacity;
    }
    memmove(&g->entries[at + 1], &g->entries[at], (g->count - at) * sizeof(entry));
    g->entries[at] = entry;
    g->count++;
    return true;
}

static bool
group_add(struct group *g, struct hspz_filter_entry entry, bool set)
{
    size_t at = 0;
    while (at < g->count && g->entries[at].value < entry.value) {
        at++;
    }
    if (at < g->count && g->entries[at].value == entry.value) {
        g->entries[at].count = set ? 1 : add(g->entries[at].count, entry.count);
        return true;
    }
    return group_insert(g, at, entry);
}

/* Takes `count` away, from the smallest value on. */
static void
group_take(struct group *g, uint64_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint64_t take = count < g->entries[i].count ? count : g->entries[i].count;
        g->entries[i].count -= take;
        count -= take;
        if (g->entries[i].count > 0) {
            g->entries[kept++] = g->entries[i];
        }
    }
    g->count = kept;
}

/* One key of a call on its group; false: no memory. */
static bool
change(const struct hspz_filter *f, struct hspz_filter_call *call, const struct item *item,
       struct group *g)
{
    const size_t i = item->index;
    const bool there = g->count > 0;
    const uint64_t times = call->counts != NULL && !is_set(f) ? call->counts[i] : 1;
    struct hspz_filter_entry entry = {.fingerprint = item->fingerprint,
                                      .value = call->values != NULL ? call->values[i] : 0,
                                      .count = times};
    bool yes = there, ok = true;
    switch (call->op) {
    case HSPZ_FILTER_INSERT_IF_ABSENT:
        if (call->found != NULL) {
            call->found[i] = there ? g->entries[0].value : 0;
        }
        yes = !there;
        if (!there) {
            entry.count = 1;
            ok = group_insert(g, 0, entry);
        }
        break;
    case HSPZ_FILTER_INSERT:
        yes = true;
        ok = times == 0 || group_add(g, entry, is_set(f));
        break;
    case HSPZ_FILTER_DECREMENT:
        group_take(g, times);
        break;
    default:
        g->count = 0;
        break;
    }
    if (ok && yes) {
        hspz_filter_call_yes(call, i);
    }
    return ok;
}

/* What is written in one pass: the old entries and the first `limit` keys of the call. */
struct pass {
    struct hspz_filter *f;
    struct hspz_filter_call *call;
    const struct item *items;
    size_t count, limit;
    struct hspz_quotient_reader reader;
    struct hspz_filter_entry next; /* of the reader */
    bool more;
    struct hspz_quotient_writer writer;
    struct group group;
};

static bool
flush_group(struct pass *p)
{
    bool fits = true;
    for (size_t i = 0; i < p->group.count && fits; i++) {
        fits = hspz_quotient_write(&p->writer, &p->group.entries[i]);
    }
    p->group.count = 0;
    return fits && p->writer.q->used <= p->f->plan.full_slots;
}

/* The group of the lowest fingerprint that is left: old entries, then keys. */
static enum hspz_status
next_group(struct pass *p, size_t *at)
{
    uint64_t fingerprint = p->more ? p->next.fingerprint : UINT64_MAX;
    if (*at < p->count && p->items[*at].fingerprint < fingerprint) {
        fingerprint = p->items[*at].fingerprint;
    }
    while (p->more && p->next.fingerprint == fingerprint) {
        if (!group_insert(&p->group, p->group.count, p->next)) {
            return HSPZ_E_OUT_OF_MEMORY;
        }
        p->more = hspz_quotient_read(&p->reader, &p->next);
    }
    for (; *at < p->count && p->items[*at].fingerprint == fingerprint; ++*at) {
        if (p->items[*at].index < p->limit && !change(p->f, p->call, &p->items[*at], &p->group)) {
            return HSPZ_E_OUT_OF_MEMORY;
        }
    }
    return HSPZ_OK;
}

/* Writes into `into`; *fits is false when it is too small. */
static enum hspz_status
run_pass(struct hspz_filter *f, struct hspz_filter_call *call, const struct item *items,
         size_t limit, struct hspz_quotient *into, bool *fits)
{
    struct pass p = {.f = f, .call = call, .items = items, .count = call->count, .limit = limit};
    hspz_filter_call_begin(call);
    hspz_quotient_read_begin(&p.reader, &f->slots);
    p.more = hspz_quotient_read(&p.reader, &p.next);
    hspz_quotient_write_begin(&p.writer, into);
    enum hspz_status status = HSPZ_OK;
    *fits = true;
    for (size_t at = 0; status == HSPZ_OK && *fits && (p.more || at < p.count);) {
        status = next_group(&p, &at);
        *fits = status != HSPZ_OK || flush_group(&p);
    }
    hspz_quotient_write_end(&p.writer);
    free(p.group.entries);
    return status;
}

/* The slots with the first `limit` keys, if they fit. */
static enum hspz_status
try_keys(struct hspz_filter *f, struct hspz_filter_call *call, const struct item *items,
         size_t limit, bool *fits)
{
    struct hspz_quotient made;
    hspz_quotient_init(&made, &f->plan);
    if (made.symbols == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    const enum hspz_status status = run_pass(f, call, items, limit, &made, fits);
    if (status == HSPZ_OK && *fits) {
        const struct hspz_quotient old = f->slots;
        f->slots = made;
        made = old;
    }
    hspz_quotient_fini(&made);
    return status;
}

/* As many keys, from the first on, as fit: found by halving. What fits goes in at once, and the
 * rest is tried with the others of its half. */
static enum hspz_status
change_all(struct hspz_filter *f, struct hspz_filter_call *call, const struct item *items)
{
    bool fits;
    enum hspz_status status = try_keys(f, call, items, call->count, &fits);
    if (status != HSPZ_OK || fits) {
        return status;
    }
    size_t low = 0, high = call->count; /* low fits, high does not */
    while (status == HSPZ_OK && high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        struct hspz_quotient made;
        hspz_quotient_init(&made, &f->plan);
        status = made.symbols == NULL ? HSPZ_E_OUT_OF_MEMORY
                                      : run_pass(f, call, items, middle, &made, &fits);
        hspz_quotient_fini(&made);
        *(fits ? &low : &high) = middle;
    }
    if (status == HSPZ_OK) {
        status = try_keys(f, call, items, low, &fits);
        call->full = true;
    }
    return status;
}

static bool
can(const struct hspz_filter *f, enum hspz_filter_op op)
{
    switch (op) {
    case HSPZ_FILTER_COUNT:
    case HSPZ_FILTER_DECREMENT:
        return !is_set(f);
    case HSPZ_FILTER_DELETE:
        return f->plan.spec.kind != HSPZ_FILTER_RSQF;
    default:
        return true;
    }
}

static enum hspz_status
run(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    if (!can(f, call->op)) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    enum hspz_status status = hspz_filter_check_values(&f->plan, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_filter_call_begin(call);
    if (call->op == HSPZ_FILTER_QUERY || call->op == HSPZ_FILTER_COUNT) {
        look_up(f, call);
        return HSPZ_OK;
    }
    struct item *items = malloc((call->count > 0 ? call->count : 1) * sizeof(*items));
    if (items == NULL) {
        return hspz_filter_no_memory(&f->plan, err);
    }
    for (size_t i = 0; i < call->count; i++) {
        items[i] = (struct item){fingerprint_of(f, call->keys[i]), i};
    }
    qsort(items, call->count, sizeof(*items), compare_items);
    status = change_all(f, call, items);
    free(items);
    return status == HSPZ_E_OUT_OF_MEMORY ? hspz_filter_no_memory(&f->plan, err) : status;
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    *out = (struct hspz_filter_stats){.entries = f->slots.entries,
                                      .total = f->slots.total,
                                      .used = f->slots.used,
                                      .bytes = f->plan.bytes,
                                      .load = (double)f->slots.used / (double)f->plan.spec.slots};
    out->rate = (double)f->slots.entries /
                hspz_filter_power(2, f->plan.quotient_bits + f->plan.remainder_bits);
}

static enum hspz_status
enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
          size_t capacity, size_t *count, struct hspz_error *err)
{
    (void)err;
    struct hspz_quotient_reader r;
    *count = 0;
    /* Whole runs, so that a quotient is cursor enough; one that does not fit alone comes in pieces
     * by the entries before it. */
    const uint64_t mask = (UINT64_C(1) << CURSOR_SHIFT) - 1;
    uint64_t quotient = *cursor & mask, skip = *cursor >> CURSOR_SHIFT;
    for (; quotient < f->plan.spec.slots && *count < capacity; quotient++, skip = 0) {
        if (!hspz_quotient_read_run(&r, &f->slots, quotient)) {
            continue;
        }
        uint64_t n = 0;
        struct hspz_filter_entry entry;
        while (r.at < r.end && *count < capacity && hspz_quotient_read(&r, &entry)) {
            if (n++ >= skip) {
                out[(*count)++] = entry;
            }
        }
        if (r.at < r.end) {
            *cursor = quotient | n << CURSOR_SHIFT;
            return HSPZ_OK;
        }
    }
    *cursor = quotient;
    return HSPZ_OK;
}

/* ---- merge, grow, copy ---- */

/* Both filters' entries, in order, into `into`. */
static enum hspz_status
merge_into(const struct hspz_filter *a, const struct hspz_filter *b,
           const struct hspz_filter_stop *stop, struct hspz_quotient *into, bool *fits,
           struct hspz_error *err)
{
    struct hspz_quotient_reader ra, rb;
    struct hspz_quotient_writer w;
    struct hspz_filter_entry ea, eb, e;
    hspz_quotient_read_begin(&ra, &a->slots);
    hspz_quotient_read_begin(&rb, &b->slots);
    hspz_quotient_write_begin(&w, into);
    bool more_a = hspz_quotient_read(&ra, &ea), more_b = hspz_quotient_read(&rb, &eb);
    *fits = false;
    for (uint64_t n = 0; more_a || more_b; n++) {
        if (n % HSPZ_FILTER_STOP_SLOTS == 0) {
            const enum hspz_status status = hspz_filter_stopped(stop, err);
            if (status != HSPZ_OK) {
                return status;
            }
        }
        int order = more_a ? -1 : 1;
        if (more_a && more_b && ea.fingerprint != eb.fingerprint) {
            order = ea.fingerprint < eb.fingerprint ? -1 : 1;
        } else if (more_a && more_b) {
            order = ea.value < eb.value ? -1 : ea.value > eb.value;
        }
        e = order <= 0 ? ea : eb;
        if (order == 0) {
            e.count = is_set(a) ? 1 : add(ea.count, eb.count);
        }
        if (!hspz_quotient_write(&w, &e) || into->used > into->plan->full_slots) {
            return HSPZ_OK;
        }
        more_a = order <= 0 ? hspz_quotient_read(&ra, &ea) : more_a;
        more_b = order >= 0 ? hspz_quotient_read(&rb, &eb) : more_b;
    }
    hspz_quotient_write_end(&w);
    *fits = true;
    return HSPZ_OK;
}

static enum hspz_status
merge(struct hspz_filter *f, const struct hspz_filter *from, const struct hspz_filter_stop *stop,
      bool *full, struct hspz_error *err)
{
    const struct hspz_filter_plan *a = &f->plan, *b = &from->plan;
    if (a->spec.kind != b->spec.kind || f->salt != from->salt ||
        a->quotient_bits + a->remainder_bits != b->quotient_bits + b->remainder_bits ||
        a->spec.value_bits != b->spec.value_bits) {
        return hspz_filter_differ(err);
    }
    struct hspz_quotient made;
    hspz_quotient_init(&made, a);
    if (made.symbols == NULL) {
        return hspz_filter_no_memory(a, err);
    }
    bool fits;
    const enum hspz_status status = merge_into(f, from, stop, &made, &fits, err);
    if (status == HSPZ_OK) {
        *full = !fits;
    }
    if (status == HSPZ_OK && fits) {
        const struct hspz_quotient old = f->slots;
        f->slots = made;
        made = old;
    }
    hspz_quotient_fini(&made);
    return status;
}

static enum hspz_status
grow(struct hspz_filter *f, uint64_t budget_bytes, struct hspz_error *err)
{
    struct hspz_filter_plan plan;
    enum hspz_status status = hspz_filter_plan_twice(&f->plan, budget_bytes, &plan, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_filter *made = NULL;
    status = create(&plan, &made, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_quotient_reader r;
    struct hspz_quotient_writer w;
    struct hspz_filter_entry entry;
    hspz_quotient_read_begin(&r, &f->slots);
    hspz_quotient_write_begin(&w, &made->slots);
    bool fits = true;
    while (fits && hspz_quotient_read(&r, &entry)) {
        fits = hspz_quotient_write(&w, &entry);
    }
    hspz_quotient_write_end(&w);
    if (!fits) {
        destroy(&made);
        return hspz_error_set(err, HSPZ_E_TOO_LARGE, "the entries do not fit twice the slots");
    }
    hspz_quotient_fini(&f->slots);
    f->plan = made->plan;
    f->slots = made->slots;
    f->slots.plan = &f->plan;
    free(made);
    return HSPZ_OK;
}

static void
copy_slots(struct hspz_filter *to, const void *symbols, const void *occupied, const void *runend)
{
    memcpy(to->slots.symbols, symbols, hspz_quotient_symbol_bytes(&to->slots));
    memcpy(to->slots.occupied, occupied, hspz_quotient_mark_bytes(&to->slots));
    memcpy(to->slots.runend, runend, hspz_quotient_mark_bytes(&to->slots));
}

static enum hspz_status
copy(const struct hspz_filter *f, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *made = NULL;
    enum hspz_status status = create(&f->plan, &made, err);
    if (status == HSPZ_OK) {
        copy_slots(made, f->slots.symbols, f->slots.occupied, f->slots.runend);
        status = hspz_quotient_adopt(&made->slots, NULL, err);
    }
    if (status != HSPZ_OK) {
        destroy(&made);
        return status;
    }
    *out = made;
    return HSPZ_OK;
}

static enum hspz_status
save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
     struct hspz_filter_image *out, struct hspz_error *err)
{
    const struct hspz_quotient *q = &f->slots;
    struct hspz_filter_image image = {.entries = q->entries, .total = q->total};
    enum hspz_status status =
        hspz_filter_image_add(&image, 0, q->symbols, hspz_quotient_symbol_bytes(q), stop, err);
    if (status == HSPZ_OK) {
        status =
            hspz_filter_image_add(&image, 1, q->occupied, hspz_quotient_mark_bytes(q), stop, err);
    }
    if (status == HSPZ_OK) {
        status =
            hspz_filter_image_add(&image, 2, q->runend, hspz_quotient_mark_bytes(q), stop, err);
    }
    if (status == HSPZ_OK) {
        *out = image;
    }
    return status;
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = NULL;
    enum hspz_status status = create(plan, &f, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (image->bytes[0] != hspz_quotient_symbol_bytes(&f->slots) ||
        image->bytes[1] != hspz_quotient_mark_bytes(&f->slots) ||
        image->bytes[2] != hspz_quotient_mark_bytes(&f->slots)) {
        status = hspz_filter_bad_image(plan, "its arrays are of other lengths", err);
    } else {
        copy_slots(f, image->arrays[0], image->arrays[1], image->arrays[2]);
        status = hspz_quotient_adopt(&f->slots, stop, err);
    }
    if (status != HSPZ_OK) {
        destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}

const struct hspz_filter_ops hspz_cpu_filter_gqf = {
    .create = create,
    .destroy = destroy,
    .plan = plan_of,
    .run = run,
    .stats = stats,
    .enumerate = enumerate,
    .merge = merge,
    .grow = grow,
    .copy = copy,
    .save = save,
    .load = load,
};
