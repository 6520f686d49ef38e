/* A filter in parts of equal ranges of the hash, each a filter of its own.
 *
 * The high bits of a key's hash say which part it is of. The part is given another key, whose hash
 * begins with the next bits: so a part uses all of its slots, and knows of its entries what the
 * whole would know but for the high bits, which are the part's number. Its image is that of the
 * parts one behind the other, array by array, and behind the first array the entries and the total
 * of each.
 *
 * What may fail goes on in copies of the parts, which take their places when all are done. */
#include "engine/filter_split.h"

#include "engine/cpu/filter_p.h"

#include <inttypes.h>
#include <string.h>

/* A part's number from its cursor, which is below. */
#define CURSOR_BITS 60u

struct hspz_filter {
    struct hspz_filter_plan plan;
    uint64_t salt;
    unsigned count;
    struct hspz_filter *parts[HSPZ_FILTER_PARTS_MAX]; /* of plan.part_ops */
};

/* What a part has beside its arrays. */
struct numbers {
    uint64_t entries, total;
};

/* ---- creation ---- */

static void
destroy(struct hspz_filter **filter)
{
    struct hspz_filter *f = *filter;
    for (unsigned i = 0; f != NULL && i < f->count; i++) {
        f->plan.part_ops->destroy(&f->parts[i]);
    }
    free(f);
    *filter = NULL;
}

/* One without parts yet. */
static enum hspz_status
make(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    HSPZ_REQUIRE(plan->part_ops != NULL);
    struct hspz_filter *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return hspz_filter_no_memory(plan, err);
    }
    f->plan = *plan;
    f->salt = hspz_filter_salt(plan->spec.seed);
    f->count = plan->spec.parts;
    *out = f;
    return HSPZ_OK;
}

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = NULL;
    enum hspz_status status = make(plan, &f, err);
    for (unsigned i = 0; status == HSPZ_OK && i < f->count; i++) {
        struct hspz_filter_plan part;
        hspz_filter_plan_part(plan, i, &part);
        status = plan->part_ops->create(&part, &f->parts[i], err);
    }
    if (status != HSPZ_OK) {
        destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}

static const struct hspz_filter_plan *
plan_of(const struct hspz_filter *f)
{
    return &f->plan;
}

struct hspz_filter *const *
hspz_filter_split_parts(const struct hspz_filter *f)
{
    return f->parts;
}

static enum hspz_status
cannot(const struct hspz_filter *f, const char *what, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "a %s filter cannot %s",
                          hspz_filter_kind_name(f->plan.spec.kind), what);
}

/* ---- calls ---- */

/* Keys of a call in the order of their parts. */
struct sorted {
    uint64_t *keys, *values, *counts, *found;
    size_t *from; /* which key of the call each is */
    uint8_t *yes;
    size_t first[HSPZ_FILTER_PARTS_MAX + 1];
};

static bool
take(uint64_t **out, bool wanted, size_t count)
{
    *out = wanted ? malloc((count + 1) * sizeof(**out)) : NULL;
    return *out != NULL || !wanted;
}

static bool
sorted_init(struct sorted *s, const struct hspz_filter_call *call)
{
    const size_t count = call->count;
    *s = (struct sorted){0};
    s->from = malloc((count + 1) * sizeof(*s->from));
    s->yes = malloc(count / 8 + 1);
    return s->from != NULL && s->yes != NULL && take(&s->keys, true, count) &&
           take(&s->values, call->values != NULL, count) &&
           take(&s->counts, call->counts != NULL, count) &&
           take(&s->found, call->found != NULL, count);
}

static void
sorted_fini(struct sorted *s)
{
    free(s->keys);
    free(s->values);
    free(s->counts);
    free(s->found);
    free(s->from);
    free(s->yes);
}

static void
sort(const struct hspz_filter *f, const struct hspz_filter_call *call, struct sorted *s)
{
    size_t next[HSPZ_FILTER_PARTS_MAX + 1] = {0};
    const struct hspz_filter_split split = hspz_filter_split_of(f->salt, f->count);
    for (size_t i = 0; i < call->count; i++) {
        next[hspz_filter_split_part(split, hspz_filter_hash(call->keys[i], f->salt)) + 1]++;
    }
    for (unsigned p = 0; p < f->count; p++) {
        next[p + 1] += next[p];
    }
    memcpy(s->first, next, sizeof(next));
    for (size_t i = 0; i < call->count; i++) {
        const uint64_t hash = hspz_filter_hash(call->keys[i], f->salt);
        const size_t at = next[hspz_filter_split_part(split, hash)]++;
        s->from[at] = i;
        s->keys[at] = hspz_filter_split_key(split, hash);
        if (s->values != NULL) {
            s->values[at] = call->values[i];
        }
        if (s->counts != NULL) {
            s->counts[at] = call->counts[i];
        }
        if (s->found != NULL) {
            s->found[at] = call->found[i]; /* not all calls write it */
        }
    }
}

static enum hspz_status
run_part(struct hspz_filter *f, unsigned p, struct hspz_filter_call *call, const struct sorted *s,
         struct hspz_error *err)
{
    const size_t first = s->first[p];
    struct hspz_filter_call part = {
        .op = call->op,
        .keys = s->keys + first,
        .count = s->first[p + 1] - first,
        .values = s->values != NULL ? s->values + first : NULL,
        .counts = s->counts != NULL ? s->counts + first : NULL,
        .yes = s->yes,
        .found = s->found != NULL ? s->found + first : NULL,
    };
    const enum hspz_status status = f->plan.part_ops->run(f->parts[p], &part, err);
    if (status != HSPZ_OK) {
        return status;
    }
    for (size_t i = 0; i < part.count; i++) {
        const size_t at = s->from[first + i];
        if (call->yes != NULL && (s->yes[i / 8] >> i % 8 & 1) != 0) {
            call->yes[at / 8] |= (uint8_t)(1u << at % 8);
        }
        if (call->found != NULL) {
            call->found[at] = s->found[first + i];
        }
    }
    call->yes_count += part.yes_count;
    call->full = call->full || part.full;
    return HSPZ_OK;
}

static enum hspz_status
run(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    enum hspz_status status = hspz_filter_check_values(&f->plan, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (f->plan.part_ops->run_parts != NULL) {
        return f->plan.part_ops->run_parts(f->parts, f->count, call, err);
    }
    struct sorted s;
    hspz_filter_call_begin(call);
    if (sorted_init(&s, call)) {
        sort(f, call, &s);
        for (unsigned p = 0; p < f->count && status == HSPZ_OK; p++) {
            status = run_part(f, p, call, &s, err);
        }
    } else {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu keys", call->count);
    }
    sorted_fini(&s);
    return status;
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    struct hspz_filter_stats sum = {0};
    for (unsigned i = 0; i < f->count; i++) {
        struct hspz_filter_stats part;
        f->plan.part_ops->stats(f->parts[i], &part);
        if (part.bytes == 0) { /* its device failed */
            *out = (struct hspz_filter_stats){0};
            return;
        }
        sum.entries += part.entries;
        sum.total = part.total > UINT64_MAX - sum.total ? UINT64_MAX : sum.total + part.total;
        sum.used += part.used;
        sum.bytes += part.bytes;
        sum.rate += part.rate / f->count;
    }
    sum.load = (double)sum.used / (double)f->plan.spec.slots;
    *out = sum;
}

/* ---- enumerate ---- */

/* What the whole calls an entry of a part. */
static void
raise_entries(const struct hspz_filter *f, unsigned p, struct hspz_filter_entry *entries,
              size_t count)
{
    const struct hspz_filter_plan *part = f->plan.part_ops->plan(f->parts[p]);
    const uint64_t above = part->spec.kind == HSPZ_FILTER_TCF
                               ? p * part->blocks << 32
                               : (uint64_t)p << (part->quotient_bits + part->remainder_bits);
    for (size_t i = 0; i < count; i++) {
        entries[i].fingerprint += above;
    }
}

static enum hspz_status
enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
          size_t capacity, size_t *count, struct hspz_error *err)
{
    const struct hspz_filter_ops *ops = f->plan.part_ops;
    unsigned p = (unsigned)(*cursor >> CURSOR_BITS);
    uint64_t at = *cursor & ((UINT64_C(1) << CURSOR_BITS) - 1);
    size_t got = 0;
    if (ops->enumerate == NULL) {
        return cannot(f, "be enumerated", err);
    }
    for (;;) {
        const enum hspz_status status = ops->enumerate(f->parts[p], &at, out, capacity, &got, err);
        if (status != HSPZ_OK) {
            return status;
        }
        HSPZ_REQUIRE(at >> CURSOR_BITS == 0);
        if (got > 0 || p + 1 == f->count) {
            break;
        }
        p++;
        at = 0;
    }
    raise_entries(f, p, out, got);
    *cursor = (uint64_t)p << CURSOR_BITS | at;
    *count = got;
    return HSPZ_OK;
}

/* ---- copies ---- */

static enum hspz_status
copy(const struct hspz_filter *f, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *made = NULL;
    enum hspz_status status = make(&f->plan, &made, err);
    for (unsigned i = 0; status == HSPZ_OK && i < f->count; i++) {
        status = f->plan.part_ops->copy(f->parts[i], &made->parts[i], err);
    }
    if (status != HSPZ_OK) {
        destroy(&made);
        return status;
    }
    *out = made;
    return HSPZ_OK;
}

static void
take_over(struct hspz_filter *f, struct hspz_filter **made)
{
    const struct hspz_filter old = *f;
    *f = **made;
    **made = old;
    destroy(made);
}

static enum hspz_status
merge(struct hspz_filter *f, const struct hspz_filter *from, const struct hspz_filter_stop *stop,
      bool *full, struct hspz_error *err)
{
    const struct hspz_filter_ops *ops = f->plan.part_ops;
    struct hspz_filter *made = NULL;
    bool over = false;
    if (ops->merge == NULL) {
        return cannot(f, "merge", err);
    }
    if (ops != from->plan.part_ops || f->count != from->count) {
        return hspz_filter_differ(err);
    }
    enum hspz_status status = copy(f, &made, err);
    for (unsigned i = 0; status == HSPZ_OK && !over && i < f->count; i++) {
        status = hspz_filter_stopped(stop, err);
        if (status == HSPZ_OK) {
            status = ops->merge(made->parts[i], from->parts[i], stop, &over, err);
        }
    }
    if (status == HSPZ_OK) {
        *full = over;
        if (!over) {
            take_over(f, &made);
        }
    }
    destroy(&made);
    return status;
}

static enum hspz_status
grow(struct hspz_filter *f, uint64_t budget_bytes, struct hspz_error *err)
{
    const struct hspz_filter_ops *ops = f->plan.part_ops;
    struct hspz_filter *made = NULL;
    struct hspz_filter_plan plan;
    if (ops->grow == NULL) {
        return cannot(f, "grow", err);
    }
    enum hspz_status status = hspz_filter_plan_twice(&f->plan, budget_bytes, &plan, err);
    if (status == HSPZ_OK) {
        status = copy(f, &made, err);
    }
    for (unsigned i = 0; status == HSPZ_OK && i < f->count; i++) {
        status = ops->grow(made->parts[i], 0, err);
    }
    if (status == HSPZ_OK) {
        made->plan = plan;
        take_over(f, &made);
    }
    destroy(&made);
    return status;
}

/* ---- images ---- */

static enum hspz_status
add_image(const struct hspz_filter *f, unsigned p, const struct hspz_filter_stop *stop,
          struct hspz_filter_image *image, struct hspz_error *err)
{
    struct hspz_filter_image part = {0};
    enum hspz_status status = f->plan.part_ops->save(f->parts[p], stop, &part, err);
    const struct numbers numbers = {part.entries, part.total};
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        const uint64_t more = i == 0 ? f->count * sizeof(numbers) : 0;
        const uint64_t arrays = f->count * part.bytes[i];
        if (p == 0) {
            image->arrays[i] = malloc(arrays + more > 0 ? arrays + more : 1);
            image->bytes[i] = arrays + more;
        }
        if (image->arrays[i] == NULL) {
            status = hspz_filter_no_memory(&f->plan, err);
            break;
        }
        char *const array = image->arrays[i];
        if (part.bytes[i] > 0) {
            memcpy(array + p * part.bytes[i], part.arrays[i], part.bytes[i]);
        }
        if (i == 0) {
            memcpy(array + arrays + p * sizeof(numbers), &numbers, sizeof(numbers));
        }
    }
    hspz_filter_image_fini(&part);
    image->entries += numbers.entries;
    image->total =
        numbers.total > UINT64_MAX - image->total ? UINT64_MAX : image->total + numbers.total;
    return status;
}

static enum hspz_status
save(const struct hspz_filter *f, const struct hspz_filter_stop *stop,
     struct hspz_filter_image *out, struct hspz_error *err)
{
    struct hspz_filter_image image = {0};
    enum hspz_status status = HSPZ_OK;
    for (unsigned p = 0; p < f->count && status == HSPZ_OK; p++) {
        status = add_image(f, p, stop, &image, err);
    }
    if (status != HSPZ_OK) {
        hspz_filter_image_fini(&image);
        return status;
    }
    *out = image;
    return HSPZ_OK;
}

/* Part p of an image, which keeps its arrays. */
static struct hspz_filter_image
image_part(const struct hspz_filter_image *image, unsigned p, unsigned count)
{
    struct hspz_filter_image part;
    struct numbers numbers;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        const uint64_t more = i == 0 ? count * sizeof(numbers) : 0;
        part.bytes[i] = (image->bytes[i] - more) / count;
        part.arrays[i] = (char *)image->arrays[i] + p * part.bytes[i];
    }
    memcpy(&numbers, (const char *)image->arrays[0] + count * part.bytes[0] + p * sizeof(numbers),
           sizeof(numbers));
    part.entries = numbers.entries;
    part.total = numbers.total;
    return part;
}

static enum hspz_status
check_image(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
            struct hspz_error *err)
{
    const uint64_t count = plan->spec.parts, more = count * sizeof(struct numbers);
    uint64_t entries = 0;
    bool good = image->bytes[0] >= more;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && good; i++) {
        good = (image->bytes[i] - (i == 0 ? more : 0)) % count == 0;
    }
    if (!good) {
        return hspz_filter_bad_image(plan, "its arrays are of other lengths", err);
    }
    for (unsigned p = 0; p < count; p++) {
        entries += image_part(image, p, (unsigned)count).entries;
    }
    return entries == image->entries
               ? HSPZ_OK
               : hspz_filter_bad_image(plan, "its parts hold another number of entries", err);
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter *f = NULL;
    enum hspz_status status = check_image(plan, image, err);
    if (status == HSPZ_OK) {
        status = make(plan, &f, err);
    }
    for (unsigned p = 0; status == HSPZ_OK && p < f->count; p++) {
        struct hspz_filter_plan part;
        const struct hspz_filter_image of_part = image_part(image, p, f->count);
        hspz_filter_plan_part(plan, p, &part);
        status = plan->part_ops->load(&part, &of_part, stop, &f->parts[p], err);
    }
    if (status != HSPZ_OK) {
        destroy(&f);
        return status;
    }
    *out = f;
    return HSPZ_OK;
}

static const struct hspz_filter_ops split_ops = {
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

const struct hspz_filter_ops *
hspz_filter_ops_of(struct hspz_filter_plan *plan, const struct hspz_filter_ops *ops)
{
    plan->part_ops = plan->spec.parts > 1 ? ops : NULL;
    return plan->spec.parts > 1 ? &split_ops : ops;
}
