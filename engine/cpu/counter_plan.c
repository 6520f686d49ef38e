/* What a counter is when it is made, from where it grows; and when it is loaded. */
#include "engine/cpu/counter.h"
#include "engine/cpu/filter_p.h"
#include "engine/filter_plan_p.h"
#include "engine/kmer.h"

/* Most of a pair, in tables that grow; for shards that have more than others. */
#define PAIR_BYTES 48u
#define SPARE_BYTES (UINT64_C(1) << 18)

unsigned
hspz_counter_key_bits(const struct hspz_filter_spec *spec)
{
    const unsigned bits = spec->k != 0 ? 2 * spec->k : 64;
    return bits < HSPZ_COUNTER_BITS_LEAST ? HSPZ_COUNTER_BITS_LEAST : bits;
}

enum hspz_status
hspz_counter_check_keys(const struct hspz_filter_plan *plan, const struct hspz_filter_call *call,
                        struct hspz_error *err)
{
    const unsigned k = plan->spec.k;
    for (size_t i = 0; i < call->count && call->sequence == NULL && k != 0; i++) {
        if ((call->keys[i] & ~hspz_kmer_mask(k)) != 0) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "key %zu is no %u-mer: over %u bits", i,
                                  k, 2 * k);
        }
    }
    return HSPZ_OK;
}

/* Of the front for so many keys, on the engine that needs more. */
static uint64_t
front_bytes(const struct hspz_filter_spec *spec, uint64_t keys)
{
    const unsigned bits = hspz_counter_key_bits(spec);
    const struct hspz_counter_shape shape = hspz_counter_device_shape(bits, keys);
    const uint64_t device = hspz_counter_device_bytes(&shape);
    const uint64_t host =
        HSPZ_COUNTER_SHARDS * hspz_counter_shard_bytes(bits, keys / HSPZ_COUNTER_SHARDS);
    return host > device ? host : device;
}

enum hspz_status
hspz_filter_plan_counter(struct hspz_filter_plan *plan, struct hspz_error *err)
{
    struct hspz_filter_spec *s = &plan->spec;
    if (s->rate != 0 || s->slot_bits != 0 || s->block_slots != 0 || s->hashes != 0 ||
        s->value_bits != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "a counter has capacity, k, canonical and seed, and nothing else");
    }
    const uint64_t keys = s->slots != 0 ? s->slots : s->capacity;
    s->slots = (keys + HSPZ_COUNTER_SHARDS - 1) / HSPZ_COUNTER_SHARDS * HSPZ_COUNTER_SHARDS;
    plan->full_slots = s->slots;
    plan->bytes = front_bytes(s, s->slots);
    return HSPZ_OK;
}

/* That the front is made for, of an image. */
static uint64_t
front_keys(const struct hspz_filter_spec *spec, const uint64_t *image_bytes)
{
    const uint64_t singles = image_bytes[0] / HSPZ_COUNTER_SINGLE_BYTES;
    return spec->slots > singles ? spec->slots : singles;
}

void
hspz_filter_plan_counter_holds(struct hspz_filter_plan *plan, const uint64_t *image_bytes)
{
    const uint64_t pairs = image_bytes[1] / HSPZ_COUNTER_PAIR_BYTES;
    const uint64_t front = front_bytes(&plan->spec, front_keys(&plan->spec, image_bytes));
    const uint64_t memory = front + front / 2 + pairs * PAIR_BYTES + SPARE_BYTES;
    const uint64_t image = image_bytes[0] + image_bytes[1];
    plan->bytes = memory > image ? memory : image;
}

enum hspz_status
hspz_counter_plan_image(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
                        struct hspz_filter_plan *holds, uint64_t *keys, struct hspz_error *err)
{
    if (image->bytes[0] % HSPZ_COUNTER_SINGLE_BYTES != 0 ||
        image->bytes[1] % HSPZ_COUNTER_PAIR_BYTES != 0 || image->bytes[2] != 0) {
        return hspz_filter_bad_image(plan, "its arrays are of other lengths", err);
    }
    *keys = front_keys(&plan->spec, image->bytes);
    *holds = *plan;
    hspz_filter_plan_counter_holds(holds, image->bytes);
    return HSPZ_OK;
}

const char *
hspz_counter_wrong_numbers(const struct hspz_filter_image *image, uint64_t entries, uint64_t total)
{
    return entries != image->entries ? "it has another number of keys"
           : total != image->total   ? "its counts have another sum"
                                     : NULL;
}

bool
hspz_counter_alike(const struct hspz_filter_spec *a, const struct hspz_filter_spec *b)
{
    return a->k == b->k && a->canonical == b->canonical && a->seed == b->seed;
}
