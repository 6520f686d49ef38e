#include "engine/cpu/seeder.h"

#include "engine/alphabet.h"
#include "engine/seed_mask.h"

/* Reads the strand's bases one by one as codes, whichever direction that is in the plus sequence:
 * the complement of code c is 3 - c. */
struct reader {
    const uint8_t *codes;
    const uint8_t *bases;
    uint64_t at;
    uint64_t step; /* 1, or -1 modulo 2^64 */
    uint32_t flip; /* 0, or 3 to complement */
};

static struct reader
reader_at(const struct hspz_seeder *seeder, uint64_t position)
{
    const bool minus = seeder->strand == HSPZ_STRAND_MINUS;
    return (struct reader){
        .codes = hspz_base_codes(seeder->unmask),
        .bases = seeder->query.bytes,
        .at = minus ? seeder->query.len - 1 - position : position,
        .step = minus ? UINT64_MAX : 1,
        .flip = minus ? 3 : 0,
    };
}

/* Code of the next base; HSPZ_BASE_INVALID or more when it has none. */
static inline uint32_t
reader_take(struct reader *r)
{
    const uint32_t code = r->codes[r->bases[r->at]] ^ r->flip;
    r->at += r->step;
    return code;
}

uint64_t
hspz_seeder_positions(const struct hspz_shape *shape, uint64_t query_len)
{
    return query_len >= shape->span ? query_len - shape->span + 1 : 0;
}

static inline bool
is_masked(const struct hspz_seeder *seeder, uint64_t start)
{
    return seeder->masked != NULL &&
           hspz_seed_mask_has(seeder->masked, start - seeder->masked_from);
}

uint64_t
hspz_seeder_count(const struct hspz_seeder *seeder, uint64_t begin, uint64_t end)
{
    if (begin >= end) {
        return 0;
    }
    const uint32_t span = seeder->shape->span;
    struct reader reader = reader_at(seeder, begin);
    uint64_t count = 0;
    uint64_t valid = 0; /* valid bases just before the reader */
    for (uint64_t at = begin; at < end + span - 1; at++) {
        valid = reader_take(&reader) < HSPZ_BASE_INVALID ? valid + 1 : 0;
        count += valid >= span && !is_masked(seeder, at + 1 - span);
    }
    return count;
}

/* What turns a window's seed into its further ones, in their order. */
static uint32_t
make_flips(const struct hspz_seeder *seeder, uint64_t flips[HSPZ_SHAPE_SEEDS_MAX])
{
    const uint32_t weight = seeder->shape->weight;
    uint32_t count = 0;
    for (uint32_t t = 0; seeder->transitions >= 1 && t < weight; t++) {
        flips[count++] = UINT64_C(2) << (32 + 2 * t);
    }
    for (uint32_t u = 1; seeder->transitions >= 2 && u < weight; u++) {
        for (uint32_t t = 0; t < u; t++) {
            flips[count++] = flips[t] | flips[u];
        }
    }
    return count;
}

uint64_t
hspz_seeder_make(const struct hspz_seeder *seeder, uint64_t begin, uint64_t end, uint64_t *seeds)
{
    if (begin >= end) {
        return 0;
    }
    const struct hspz_shape *shape = seeder->shape;
    const uint32_t span = shape->span;
    uint64_t flips[HSPZ_SHAPE_SEEDS_MAX];
    const uint32_t flip_count = make_flips(seeder, flips);
    struct reader reader = reader_at(seeder, begin);
    uint64_t *out = seeds;
    hspz_window window = 0;
    uint64_t valid = 0;
    for (uint64_t at = begin; at < end + span - 1; at++) {
        const uint32_t code = reader_take(&reader);
        valid = code < HSPZ_BASE_INVALID ? valid + 1 : 0;
        window = window << 2 | (code & 3);
        if (valid < span || is_masked(seeder, at + 1 - span)) {
            continue;
        }
        const uint64_t seed = (uint64_t)hspz_shape_word(shape, window) << 32 | (at + 1 - span);
        *out++ = seed;
        for (uint32_t f = 0; f < flip_count; f++) {
            *out++ = seed ^ flips[f];
        }
    }
    return (uint64_t)(out - seeds);
}
