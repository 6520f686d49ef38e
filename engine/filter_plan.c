/* From what is asked of a filter to its sizes, before anything is allocated. */
#include "engine/filter.h"
#include "engine/filter_hash.h"
#include "engine/filter_plan_p.h"
#include "engine/kmer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MAX (UINT64_C(1) << 40)
#define SLOTS_MAX (UINT64_C(1) << 40)
#define RATE_MIN 0x1p-40
#define RATE_MAX 0.5
#define VALUE_BITS_MAX 48u
#define HASHES_MAX 16u
#define QUOTIENT_BITS_MIN 6u
#define QUOTIENT_BITS_MAX 36u
/* Slots of a tcf for one of its backing table, which has 64 bits: a hundredth of its bytes. */
#define BACKING_SHARE 400u
#define BACKING_MIN 16u

static const char *const kind_names[HSPZ_FILTER_KINDS] = {"tcf", "gqf",  "bloom",  "blocked",
                                                          "sqf", "rsqf", "counter"};
static const char *const op_names[HSPZ_FILTER_OPS] = {"insert", "insert_if_absent", "query",
                                                      "count",  "delete",           "decrement"};

const char *
hspz_filter_kind_name(enum hspz_filter_kind kind)
{
    return kind_names[kind];
}

bool
hspz_filter_kind_find(const char *name, size_t len, enum hspz_filter_kind *out)
{
    for (int k = 0; k < HSPZ_FILTER_KINDS; k++) {
        if (strlen(kind_names[k]) == len && memcmp(kind_names[k], name, len) == 0) {
            *out = (enum hspz_filter_kind)k;
            return true;
        }
    }
    return false;
}

const char *
hspz_filter_op_name(enum hspz_filter_op op)
{
    return op_names[op];
}

void
hspz_filter_image_fini(struct hspz_filter_image *image)
{
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        free(image->arrays[i]);
    }
    *image = (struct hspz_filter_image){0};
}

/* ---- checks ---- */

static enum hspz_status
refuse(struct hspz_error *err, const char *what, uint64_t value, const char *limits)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s is %" PRIu64 ", but must be %s", what, value,
                          limits);
}

static enum hspz_status
check_kmers(const struct hspz_filter_spec *spec, struct hspz_error *err)
{
    if (spec->k > HSPZ_KMER_MOST) {
        return refuse(err, "k", spec->k, "at most 32");
    }
    return spec->canonical && spec->k == 0
               ? hspz_error_set(err, HSPZ_E_BAD_REQUEST, "canonical is for filters with k")
               : HSPZ_OK;
}

static enum hspz_status
check_rate(const struct hspz_filter_spec *spec, struct hspz_error *err)
{
    if (spec->rate != 0 && !(spec->rate >= RATE_MIN && spec->rate <= RATE_MAX)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "rate is %g, but must be between 2^-40 and 0.5", spec->rate);
    }
    return HSPZ_OK;
}

static enum hspz_status
check_sizes(const struct hspz_filter_spec *spec, struct hspz_error *err)
{
    if ((spec->capacity == 0) == (spec->slots == 0)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "capacity is %" PRIu64 " and slots is %" PRIu64
                              ": exactly one of them must be given",
                              spec->capacity, spec->slots);
    }
    if (spec->capacity > CAPACITY_MAX) {
        return refuse(err, "capacity", spec->capacity, "at most 2^40");
    }
    if (spec->slots > SLOTS_MAX) {
        return refuse(err, "slots", spec->slots, "at most 2^40");
    }
    return check_rate(spec, err);
}

static bool
is_one_of(unsigned value, unsigned a, unsigned b, unsigned c, unsigned d)
{
    return value == a || value == b || value == c || value == d;
}

/* ---- tcf ---- */

/* A key that is absent is compared with the tags of two blocks. */
double
hspz_filter_tcf_rate(double load, unsigned block_slots, unsigned tag_bits)
{
    return -expm1(2 * load * block_slots * log1p(-1 / (exp2(tag_bits) - HSPZ_TCF_TAGS)));
}

static enum hspz_status
tcf_tag_bits(struct hspz_filter_spec *s, struct hspz_error *err)
{
    static const unsigned choices[] = {8, 12, 16, 32};
    if (s->slot_bits == 0 && s->rate == 0) {
        s->slot_bits = 16;
    }
    for (int i = 0; i < 4 && s->slot_bits == 0; i++) {
        if (hspz_filter_tcf_rate(HSPZ_FILTER_LOAD_TCF, s->block_slots, choices[i]) <= s->rate) {
            s->slot_bits = choices[i];
        }
    }
    if (s->slot_bits == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "rate is %g, but blocks of %u tags of 32 bits give %g", s->rate,
                              s->block_slots,
                              hspz_filter_tcf_rate(HSPZ_FILTER_LOAD_TCF, s->block_slots, 32));
    }
    return is_one_of(s->slot_bits, 8, 12, 16, 32)
               ? HSPZ_OK
               : refuse(err, "slot_bits", s->slot_bits, "8, 12, 16 or 32 for a tcf");
}

static enum hspz_status
plan_tcf(struct hspz_filter_plan *plan, struct hspz_error *err)
{
    struct hspz_filter_spec *s = &plan->spec;
    if (s->block_slots == 0) {
        s->block_slots = 16;
    }
    if (!is_one_of(s->block_slots, 16, 32, 64, 64)) {
        return refuse(err, "block_slots", s->block_slots, "16, 32 or 64");
    }
    if (s->value_bits > VALUE_BITS_MAX) {
        return refuse(err, "value_bits", s->value_bits, "at most 48");
    }
    const enum hspz_status status = tcf_tag_bits(s, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t slots =
        s->slots != 0 ? s->slots : (uint64_t)ceil((double)s->capacity / HSPZ_FILTER_LOAD_TCF);
    plan->blocks = (slots + s->block_slots - 1) / s->block_slots;
    if (plan->blocks > UINT32_MAX) {
        return refuse(err, "slots", slots, "at most 2^32 blocks");
    }
    s->slots = plan->blocks * s->block_slots;
    plan->spare_slots = s->slots / BACKING_SHARE + BACKING_MIN;
    plan->full_slots = (uint64_t)((double)s->slots * HSPZ_FILTER_LOAD_TCF);
    const uint64_t block_bytes = (uint64_t)s->block_slots * (s->slot_bits + s->value_bits) / 8;
    plan->bytes = plan->blocks * block_bytes +
                  plan->spare_slots * (sizeof(uint64_t) + (s->value_bits + 7) / 8);
    return HSPZ_OK;
}

/* ---- quotient filters ---- */

static enum hspz_status
quotient_slot_bits(struct hspz_filter_spec *s, struct hspz_error *err)
{
    static const unsigned choices[] = {8, 16, 32, 64};
    if (s->slot_bits == 0 && s->rate == 0) {
        s->slot_bits = s->value_bits <= 8 ? (s->value_bits == 0 ? 8 : 16) : 32;
    }
    for (int i = 0; i < 4 && s->slot_bits == 0; i++) {
        if (choices[i] > s->value_bits &&
            HSPZ_FILTER_LOAD_QUOTIENT * exp2(-(double)(choices[i] - s->value_bits)) <= s->rate) {
            s->slot_bits = choices[i];
        }
    }
    if (!is_one_of(s->slot_bits, 8, 16, 32, 64)) {
        return refuse(err, "slot_bits", s->slot_bits, "8, 16, 32 or 64 for a quotient filter");
    }
    if (s->value_bits >= s->slot_bits) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "value_bits is %u, which leaves nothing of slot_bits, %u",
                              s->value_bits, s->slot_bits);
    }
    return HSPZ_OK;
}

static enum hspz_status
quotient_bits(struct hspz_filter_plan *plan, struct hspz_error *err)
{
    const struct hspz_filter_spec *s = &plan->spec;
    const double slots =
        s->slots != 0 ? (double)s->slots : ceil((double)s->capacity / HSPZ_FILTER_LOAD_QUOTIENT);
    unsigned bits = QUOTIENT_BITS_MIN;
    while (bits < 64 && exp2(bits) < slots) {
        bits++;
    }
    if (bits > QUOTIENT_BITS_MAX) {
        return refuse(err, "slots", (uint64_t)slots, "at most 2^36 for a quotient filter");
    }
    plan->quotient_bits = bits;
    return HSPZ_OK;
}

static enum hspz_status
plan_quotient(struct hspz_filter_plan *plan, struct hspz_error *err)
{
    struct hspz_filter_spec *s = &plan->spec;
    if (s->value_bits != 0 && s->kind != HSPZ_FILTER_GQF) {
        return refuse(err, "value_bits", s->value_bits, "0: only tcf and gqf keep values");
    }
    if (s->value_bits > VALUE_BITS_MAX) {
        return refuse(err, "value_bits", s->value_bits, "at most 48");
    }
    enum hspz_status status = quotient_slot_bits(s, err);
    if (status == HSPZ_OK) {
        status = quotient_bits(plan, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const unsigned left = 64 - plan->quotient_bits;
    plan->remainder_bits = s->slot_bits - s->value_bits;
    if (plan->remainder_bits > left) {
        plan->remainder_bits = left;
    }
    s->slots = UINT64_C(1) << plan->quotient_bits;
    /* A cluster may run on behind the last slot. */
    plan->spare_slots = 256 + (UINT64_C(16) << plan->quotient_bits / 2);
    plan->full_slots = (uint64_t)((double)s->slots * HSPZ_FILTER_LOAD_QUOTIENT);
    const uint64_t all = s->slots + plan->spare_slots;
    const uint64_t marks = s->kind == HSPZ_FILTER_SQF ? 3 : 2;
    plan->bytes = all * (s->slot_bits / 8) + (all + 63) / 64 * 8 * marks +
                  (s->kind == HSPZ_FILTER_SQF ? 0 : (all + 63) / 64);
    return HSPZ_OK;
}

/* ---- bloom, blocked ---- */

static double
bloom_rate(double bits, double keys, unsigned hashes)
{
    return pow(-expm1(-(double)hashes * keys / bits), hashes);
}

/* Keys of a block are Poisson distributed; each of them sets a bit of its 256 `hashes` times. */
static double
blocked_rate(double bits, double keys, unsigned hashes)
{
    const double mean = keys / bits * HSPZ_BLOOM_BLOCK_BITS;
    if (mean > 1e5) {
        return 1; /* no bit is left: (1 - 1/256)^1e5 is 1e-170 */
    }
    const double top = mean + 12 * sqrt(mean) + 24;
    double sum = 0;
    for (double j = 1; j <= top; j++) {
        const double chance = exp(j * log(mean) - mean - lgamma(j + 1));
        sum += chance * pow(-expm1(j * log1p(-(double)hashes / HSPZ_BLOOM_BLOCK_BITS)), hashes);
    }
    return sum;
}

static double
rate_of(enum hspz_filter_kind kind, double bits, double keys, unsigned hashes)
{
    return kind == HSPZ_FILTER_BLOOM ? bloom_rate(bits, keys, hashes)
                                     : blocked_rate(bits, keys, hashes);
}

/* The fewest bits a key that reach the rate with so many hashes; 0 when 512 do not. */
static double
bits_for(enum hspz_filter_kind kind, double rate, unsigned hashes)
{
    double low = 0.5, high = 512;
    if (rate_of(kind, high, 1, hashes) > rate) {
        return 0;
    }
    for (int i = 0; i < 50; i++) {
        const double middle = (low + high) / 2;
        if (rate_of(kind, middle, 1, hashes) <= rate) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

static enum hspz_status
bloom_from_rate(struct hspz_filter_spec *s, struct hspz_error *err)
{
    double best = 0;
    const unsigned first = s->hashes != 0 ? s->hashes : 1;
    const unsigned last = s->hashes != 0 ? s->hashes : HASHES_MAX;
    for (unsigned k = first; k <= last; k++) {
        const double bits = bits_for(s->kind, s->rate, k);
        if (bits != 0 && (best == 0 || bits < best)) {
            best = bits;
            s->hashes = k;
        }
    }
    if (best == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "rate is %g, which a %s filter does not reach with up to %u hashes",
                              s->rate, hspz_filter_kind_name(s->kind), last);
    }
    s->slots = (uint64_t)ceil(best * (double)s->capacity);
    return HSPZ_OK;
}

static enum hspz_status
plan_bloom(struct hspz_filter_plan *plan, struct hspz_error *err)
{
    struct hspz_filter_spec *s = &plan->spec;
    if (s->value_bits != 0) {
        return refuse(err, "value_bits", s->value_bits, "0: only tcf and gqf keep values");
    }
    if (s->hashes > HASHES_MAX) {
        return refuse(err, "hashes", s->hashes, "at most 16");
    }
    if (s->slots == 0) {
        if (s->rate == 0) {
            s->rate = 0.01;
        }
        const enum hspz_status status = bloom_from_rate(s, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    if (s->hashes == 0) {
        s->hashes = s->kind == HSPZ_FILTER_BLOOM ? 7 : 8;
    }
    const uint64_t unit = s->kind == HSPZ_FILTER_BLOOM ? 64 : HSPZ_BLOOM_BLOCK_BITS;
    plan->blocks = (s->slots + unit - 1) / unit;
    if (s->kind == HSPZ_FILTER_BLOCKED && plan->blocks > UINT32_MAX) {
        return refuse(err, "slots", s->slots, "at most 2^40 bits");
    }
    s->slots = plan->blocks * unit;
    plan->bytes = s->slots / 8;
    plan->full_slots = s->slots;
    return HSPZ_OK;
}

void
hspz_filter_plan_expect(struct hspz_filter_plan *plan)
{
    const struct hspz_filter_spec *s = &plan->spec;
    const bool bits = s->kind == HSPZ_FILTER_BLOOM || s->kind == HSPZ_FILTER_BLOCKED;
    double keys = (double)s->capacity;
    if (s->capacity == 0) {
        /* Of Bloom filters: for as many as leave half of the bits clear. */
        keys = bits ? (double)s->slots * 0.6931471805599453 / s->hashes : (double)plan->full_slots;
    }
    if (s->kind == HSPZ_FILTER_COUNTER) {
        plan->expected_rate = 0;
    } else if (s->kind == HSPZ_FILTER_TCF) {
        plan->expected_rate =
            hspz_filter_tcf_rate(keys / (double)s->slots, s->block_slots, s->slot_bits);
    } else if (bits) {
        plan->expected_rate = rate_of(s->kind, (double)s->slots, keys, s->hashes);
    } else {
        plan->expected_rate =
            -expm1(-keys * exp2(-(double)(plan->quotient_bits + plan->remainder_bits)));
    }
}

static enum hspz_status
plan_whole(const struct hspz_filter_spec *spec, struct hspz_filter_plan *out,
           struct hspz_error *err)
{
    struct hspz_filter_plan plan = {.spec = *spec};
    enum hspz_status status;
    plan.spec.parts = 1;
    switch (spec->kind) {
    case HSPZ_FILTER_TCF:
        status = plan_tcf(&plan, err);
        break;
    case HSPZ_FILTER_COUNTER:
        status = hspz_filter_plan_counter(&plan, err);
        break;
    case HSPZ_FILTER_BLOOM:
    case HSPZ_FILTER_BLOCKED:
        status = plan_bloom(&plan, err);
        break;
    default:
        status = plan_quotient(&plan, err);
        break;
    }
    if (status == HSPZ_OK) {
        *out = plan;
    }
    return status;
}

/* ---- parts ---- */

static enum hspz_status
check_parts(const struct hspz_filter_spec *spec, struct hspz_error *err)
{
    const unsigned parts = spec->parts;
    if (parts > HSPZ_FILTER_PARTS_MAX || (parts & (parts - 1)) != 0) {
        return refuse(err, "parts", parts, "a power of two up to 16");
    }
    return parts > 1 && spec->kind == HSPZ_FILTER_COUNTER
               ? refuse(err, "parts", parts, "1: a counter has no parts")
               : HSPZ_OK;
}

static unsigned
part_bits(unsigned parts)
{
    return (unsigned)__builtin_ctz(parts);
}

/* Keys of a part, of which some get more than others: six deviations more than the mean. */
static uint64_t
part_capacity(uint64_t capacity, unsigned parts)
{
    const double mean = (double)capacity / parts;
    return capacity == 0 ? 0 : (uint64_t)ceil(mean + 6 * sqrt(mean));
}

static enum hspz_status
plan_parts(const struct hspz_filter_spec *spec, struct hspz_filter_plan *out,
           struct hspz_error *err)
{
    const unsigned parts = spec->parts, bits = part_bits(parts);
    struct hspz_filter_spec of_part = *spec;
    struct hspz_filter_plan plan;
    of_part.slots = (spec->slots + parts - 1) / parts;
    of_part.capacity = part_capacity(spec->capacity, parts);
    const enum hspz_status status = plan_whole(&of_part, &plan, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (plan.quotient_bits + bits > QUOTIENT_BITS_MAX ||
        (spec->kind != HSPZ_FILTER_BLOOM && plan.blocks * parts > UINT32_MAX)) {
        return refuse(err, "slots", plan.spec.slots * parts, "fewer for a filter in parts");
    }
    plan.spec.parts = parts;
    plan.spec.slots *= parts;
    plan.spec.capacity = spec->capacity;
    plan.blocks *= parts;
    plan.spare_slots *= parts;
    plan.full_slots *= parts;
    plan.bytes *= parts;
    if (plan.quotient_bits > 0) {
        plan.quotient_bits += bits;
        const unsigned left = 64 - plan.quotient_bits;
        plan.remainder_bits = plan.remainder_bits < left ? plan.remainder_bits : left;
    }
    *out = plan;
    return HSPZ_OK;
}

void
hspz_filter_plan_part(const struct hspz_filter_plan *plan, unsigned i, struct hspz_filter_plan *out)
{
    const unsigned parts = plan->spec.parts;
    struct hspz_filter_plan part = *plan;
    part.spec.parts = 1;
    part.spec.slots /= parts;
    part.spec.capacity = (plan->spec.capacity + parts - 1) / parts;
    part.blocks /= parts;
    part.spare_slots /= parts;
    part.full_slots /= parts;
    part.bytes /= parts;
    if (part.quotient_bits > 0) {
        part.quotient_bits -= part_bits(parts);
    }
    part.device = plan->part_devices[i];
    part.part_ops = NULL;
    hspz_filter_plan_expect(&part);
    *out = part;
}

void
hspz_filter_plan_place(struct hspz_filter_plan *plan, const struct hspz_filter_plan *like)
{
    plan->device = like->device;
    plan->part_ops = like->part_ops;
    memcpy(plan->part_devices, like->part_devices, sizeof(plan->part_devices));
}

enum hspz_status
hspz_filter_plan(const struct hspz_filter_spec *spec, uint64_t budget_bytes,
                 struct hspz_filter_plan *out, struct hspz_error *err)
{
    struct hspz_filter_plan plan;
    enum hspz_status status = check_sizes(spec, err);
    if (status == HSPZ_OK) {
        status = check_kmers(spec, err);
    }
    if (status == HSPZ_OK) {
        status = check_parts(spec, err);
    }
    if (status == HSPZ_OK) {
        status = spec->parts > 1 ? plan_parts(spec, &plan, err) : plan_whole(spec, &plan, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_filter_plan_expect(&plan);
    if (budget_bytes != 0 && plan.bytes > budget_bytes) {
        status = hspz_error_set(
            err, HSPZ_E_TOO_LARGE,
            "a %s filter of %" PRIu64 " slots needs %" PRIu64 " bytes, over the budget of %" PRIu64,
            hspz_filter_kind_name(spec->kind), plan.spec.slots, plan.bytes, budget_bytes);
        return hspz_error_limit(err, status, budget_bytes);
    }
    *out = plan;
    return HSPZ_OK;
}

enum hspz_status
hspz_filter_plan_twice(const struct hspz_filter_plan *plan, uint64_t budget_bytes,
                       struct hspz_filter_plan *out, struct hspz_error *err)
{
    struct hspz_filter_spec spec = plan->spec;
    spec.capacity = 0;
    spec.slots *= 2;
    struct hspz_filter_plan made;
    const enum hspz_status status = hspz_filter_plan(&spec, budget_bytes, &made, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const unsigned kept = plan->quotient_bits + plan->remainder_bits;
    if (kept <= made.quotient_bits) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "the remainders have no bit left to give to the quotient");
    }
    made.remainder_bits = kept - made.quotient_bits;
    hspz_filter_plan_place(&made, plan);
    hspz_filter_plan_expect(&made);
    *out = made;
    return HSPZ_OK;
}
