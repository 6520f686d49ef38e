#include "engine/packed.h"

#include "engine/shape.h"

void
hspz_packed_scores_init(struct hspz_packed_scores *scores, const struct hspz_scoring *scoring)
{
    *scores = (struct hspz_packed_scores){.xdrop = scoring->xdrop, .enough = scoring->threshold};
    for (unsigned a = 0; a < HSPZ_CLASSES; a++) {
        for (unsigned b = 0; b < HSPZ_CLASSES; b++) {
            const bool stop = a == HSPZ_CLASS_SEPARATOR || b == HSPZ_CLASS_SEPARATOR;
            scores->pair[(a & 3) | (b & 3) << 2 | a >> 2 << 4 | b >> 2 << 6] =
                stop ? HSPZ_PACKED_STOP : scoring->scores[a * HSPZ_CLASSES + b];
        }
    }
    /* Totals are rounded to float before they are compared. */
    while ((double)(float)(scores->enough - 1) >= scoring->threshold) {
        scores->enough--;
    }
}

void
hspz_packed_seeds_init(struct hspz_packed_seeds *seeds, const struct hspz_shape *shape,
                       uint32_t transitions, uint32_t step)
{
    *seeds = (struct hspz_packed_seeds){
        .known = true,
        .care = hspz_shape_care(shape),
        .span = shape->span,
        .transitions = transitions,
    };
    for (uint32_t i = step; i <= 64; i += step) {
        seeds->before |= UINT64_C(1) << (64 - i);
    }
}
