/* Spaced seed shapes.
 *
 * A shape is a string of `1` or `T` (care) and `0` (don't care): 4 to 15 care positions, span up to
 * 64. `12of19` and `14of22` name the usual two. Leading and trailing `0` are part of the span.
 * `T` means the same as `1` here, as in hspZ.
 *
 * A window is the 2-bit codes of `span` bases, first base highest, in the low 2 * span bits of 128.
 * Its word is gathered run by run: a run is a stretch of neighbouring care positions, which moves
 * from the window to the word by one shift and one mask. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_SHAPE_WEIGHT_MIN 4u
#define HSPZ_SHAPE_WEIGHT_MAX 15u
#define HSPZ_SHAPE_SPAN_MAX 64u
/* Most seeds of a query position: the word, one transition, two. */
#define HSPZ_SHAPE_SEEDS_MAX                                                                       \
    (1 + HSPZ_SHAPE_WEIGHT_MAX + HSPZ_SHAPE_WEIGHT_MAX * (HSPZ_SHAPE_WEIGHT_MAX - 1) / 2)

__extension__ typedef unsigned __int128 hspz_window;

struct hspz_shape {
    uint32_t span, weight, runs;
    uint32_t run_shift[HSPZ_SHAPE_WEIGHT_MAX]; /* word bits of run r = (window >> shift) & mask */
    uint32_t run_mask[HSPZ_SHAPE_WEIGHT_MAX];
    char pattern[HSPZ_SHAPE_SPAN_MAX + 1]; /* in `1` and `0` */
};

/* HSPZ_E_BAD_REQUEST, naming pattern, weight and span. */
HSPZ_MUST_USE enum hspz_status hspz_shape_parse(const char *text, size_t len,
                                                struct hspz_shape *out, struct hspz_error *err);
bool hspz_shape_equal(const struct hspz_shape *a, const struct hspz_shape *b);

/* Number of words, 4^weight. */
static inline uint32_t
hspz_shape_words(const struct hspz_shape *shape)
{
    return UINT32_C(1) << (2 * shape->weight);
}

/* Bit c: offset c of a window is a care position. */
static inline uint64_t
hspz_shape_care(const struct hspz_shape *shape)
{
    uint64_t care = 0;
    for (uint32_t c = 0; c < shape->span; c++) {
        care |= (uint64_t)(shape->pattern[c] == '1') << c;
    }
    return care;
}

/* Seeds a query position gives when up to so many care positions may hold a transition. */
static inline uint32_t
hspz_shape_seeds_per_position(const struct hspz_shape *shape, uint32_t transitions)
{
    const uint32_t singles = transitions >= 1 ? shape->weight : 0;
    const uint32_t pairs = transitions >= 2 ? shape->weight * (shape->weight - 1) / 2 : 0;
    return 1 + singles + pairs;
}

static inline uint32_t
hspz_shape_word(const struct hspz_shape *shape, hspz_window window)
{
    uint32_t word = 0;
    for (uint32_t r = 0; r < shape->runs; r++) {
        word |= (uint32_t)(window >> shape->run_shift[r]) & shape->run_mask[r];
    }
    return word;
}
