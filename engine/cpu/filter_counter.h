/* The exact counter, within: engine/cpu/filter_counter.c and filter_counter_content.c. */
#pragma once

#include "engine/cpu/counter.h"
#include "engine/cpu/filter_p.h"

struct hspz_filter {
    struct hspz_filter_plan plan;
    uint64_t salt;
    unsigned key_bits;
    struct hspz_counter_memory memory;
    struct hspz_counter_shard shards[HSPZ_COUNTER_SHARDS];
};

/* Of a mixed key: its shard, and what it is there. */
static inline unsigned
hspz_counter_shard_of(const struct hspz_filter *f, uint64_t mixed)
{
    return (unsigned)(mixed >> (f->key_bits - HSPZ_COUNTER_SHARD_BITS));
}
static inline uint64_t
hspz_counter_x_of(const struct hspz_filter *f, uint64_t mixed)
{
    return mixed & (UINT64_MAX >> (64 - (f->key_bits - HSPZ_COUNTER_SHARD_BITS)));
}
/* And back to the key. */
static inline uint64_t
hspz_counter_key_of(const struct hspz_filter *f, unsigned shard, uint64_t x)
{
    const uint64_t high = (uint64_t)shard << (f->key_bits - HSPZ_COUNTER_SHARD_BITS);
    return hspz_counter_unmix(high | x, f->salt, f->key_bits);
}

/* Without shards; NULL: no memory. */
struct hspz_filter *hspz_counter_empty(const struct hspz_filter_plan *plan);

uint64_t hspz_counter_image_bytes(const struct hspz_filter *filter);
/* As in hspz_filter_ops. A merge that would come to more memory than there is changes nothing; an
 * image is keys that are there once, then pairs of key and count. */
HSPZ_MUST_USE enum hspz_status hspz_counter_create(const struct hspz_filter_plan *plan,
                                                   struct hspz_filter **out,
                                                   struct hspz_error *err);
void hspz_counter_destroy(struct hspz_filter **filter);
HSPZ_MUST_USE enum hspz_status hspz_counter_merge(struct hspz_filter *filter,
                                                  const struct hspz_filter *from,
                                                  const struct hspz_filter_stop *stop, bool *full,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_copy(const struct hspz_filter *filter,
                                                 struct hspz_filter **out, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_save(const struct hspz_filter *filter,
                                                 const struct hspz_filter_stop *stop,
                                                 struct hspz_filter_image *out,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_counter_load(const struct hspz_filter_plan *plan,
                                                 const struct hspz_filter_image *image,
                                                 const struct hspz_filter_stop *stop,
                                                 struct hspz_filter **out, struct hspz_error *err);
