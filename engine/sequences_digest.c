#include "engine/sequences.h"

#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

/* Bases that are folded at once. */
#define SOME 4096u

uint64_t
hspz_sequences_digest(const struct hspz_sequences *seqs)
{
    XXH64_state_t state;
    (void)XXH64_reset(&state, 0);
    for (size_t i = 0; i < hspz_sequences_count(seqs); i++) {
        const struct hspz_sequence *s = hspz_sequences_get(seqs, i);
        for (uint64_t at = 0; at < s->len; at += SOME) {
            const uint8_t *bases = hspz_sequences_block(seqs, s->block).bases + s->offset + at;
            const size_t len = s->len - at < SOME ? (size_t)(s->len - at) : SOME;
            uint8_t folded[SOME];
            for (size_t k = 0; k < len; k++) {
                const uint8_t lower = bases[k] >= 'a' && bases[k] <= 'z' ? 0x20 : 0;
                folded[k] = bases[k] & (uint8_t)~lower;
            }
            (void)XXH64_update(&state, folded, len);
        }
    }
    return XXH64_digest(&state);
}
