/* What a counter is when it is made, from where it grows; and when it is loaded. */
#include "engine/cpu/counter.h"
#include "engine/cpu/filter_p.h"
#include "engine/filter_plan_p.h"

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
    plan->bytes = HSPZ_COUNTER_SHARDS * hspz_counter_shard_bytes(hspz_counter_key_bits(s),
                                                                 s->slots / HSPZ_COUNTER_SHARDS);
    return HSPZ_OK;
}

void
hspz_filter_plan_counter_holds(struct hspz_filter_plan *plan, const uint64_t *image_bytes)
{
    const struct hspz_filter_spec *s = &plan->spec;
    const uint64_t singles = image_bytes[0] / sizeof(uint64_t);
    const uint64_t pairs = image_bytes[1] / (2 * sizeof(uint64_t));
    const uint64_t keys = s->slots > singles ? s->slots : singles;
    const uint64_t front =
        HSPZ_COUNTER_SHARDS *
        hspz_counter_shard_bytes(hspz_counter_key_bits(s), keys / HSPZ_COUNTER_SHARDS);
    const uint64_t memory = front + front / 2 + pairs * PAIR_BYTES + SPARE_BYTES;
    const uint64_t image = image_bytes[0] + image_bytes[1];
    plan->bytes = memory > image ? memory : image;
}
