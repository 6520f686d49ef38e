/* Sequence and scores as extensions on a device read them, and what they need to know of seeds.
 *
 * A base is a nibble, its class (hspz_base_classes). Base i of a sequence is nibble
 * (HSPZ_PACKED_PAD + i) % 16, the lowest first, of word (HSPZ_PACKED_PAD + i) / 16; before and
 * behind stand so many separators that no reader has to look where a sequence ends.
 *
 * Units:   a place is a position plus HSPZ_PACKED_PAD. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_shape;

#define HSPZ_PACKED_WORD 16u /* bases */
#define HSPZ_PACKED_PAD 512u
#define HSPZ_PACKED_PAD_BYTE 0x77 /* two separators */
#define HSPZ_PACKED_PAIRS 128u

/* What a separator scores: so little that it ends every extension. */
#define HSPZ_PACKED_STOP (-(INT32_C(1) << 30))

/* Words of a sequence with what stands around it. */
static inline uint64_t
hspz_packed_words(uint64_t len)
{
    return (len + 2 * (uint64_t)HSPZ_PACKED_PAD) / HSPZ_PACKED_WORD + 1;
}

/* Scores of pairs: of reference class a and query class b at (a & 3) | (b & 3) << 2 | (a >> 2) << 4
 * | (b >> 2) << 6, which puts ACGT with ACGT into the first sixteen. */
struct hspz_packed_scores {
    int32_t pair[HSPZ_PACKED_PAIRS];
    int32_t xdrop;
    int32_t enough; /* no lower total passes */
};
void hspz_packed_scores_init(struct hspz_packed_scores *scores, const struct hspz_scoring *scoring);

/* Which windows are hits beside the one at hand (engine/cuda/kernels/gate.cuh). */
struct hspz_packed_seeds {
    bool known;    /* false: nothing can be said of windows */
    uint64_t care; /* bit c: offset c of a window is a care position */
    uint32_t span;
    uint32_t transitions;
    uint64_t before;                 /* bit 63 - i: i + 1 bases earlier may be indexed too */
    uint32_t first_ref, first_query; /* least window starts */
};
void hspz_packed_seeds_init(struct hspz_packed_seeds *seeds, const struct hspz_shape *shape,
                            uint32_t transitions, uint32_t step);
