#include "engine/alphabet.h"

#define PIECE_BYTES 32u

/* Tables of 256 constant expressions: entry i is f(i). */
#define TABLE_4(f, i) f((i)), f((i) + 1), f((i) + 2), f((i) + 3)
#define TABLE_16(f, i)                                                                             \
    TABLE_4(f, (i)), TABLE_4(f, (i) + 4), TABLE_4(f, (i) + 8), TABLE_4(f, (i) + 12)
#define TABLE_64(f, i)                                                                             \
    TABLE_16(f, (i)), TABLE_16(f, (i) + 16), TABLE_16(f, (i) + 32), TABLE_16(f, (i) + 48)
#define TABLE_256(f) TABLE_64(f, 0), TABLE_64(f, 64), TABLE_64(f, 128), TABLE_64(f, 192)

#define IS_LOWER(c) ((c) >= 'a' && (c) <= 'z')
#define IS_UPPER(c) ((c) >= 'A' && (c) <= 'Z')
#define TO_UPPER(c) (IS_LOWER(c) ? (c)-32 : (c))

#define CODE(c) ((c) == 'A' ? 0 : (c) == 'C' ? 1 : (c) == 'G' ? 2 : (c) == 'T' ? 3 : 4)
#define CODE_UNMASKED(c) CODE(TO_UPPER(c))

static const uint8_t codes_masked[256] = {TABLE_256(CODE)};
static const uint8_t codes_unmasked[256] = {TABLE_256(CODE_UNMASKED)};

_Static_assert(CODE('N') == HSPZ_BASE_INVALID && CODE('&') == HSPZ_BASE_INVALID, "invalid code");

/* U stays U: it seeds on no strand, and an A made of it would seed on one of the two. */
#define COMPLEMENT_UPPER(c)                                                                        \
    ((c) == 'A'   ? 'T'                                                                            \
     : (c) == 'C' ? 'G'                                                                            \
     : (c) == 'G' ? 'C'                                                                            \
     : (c) == 'T' ? 'A'                                                                            \
     : (c) == 'R' ? 'Y'                                                                            \
     : (c) == 'Y' ? 'R'                                                                            \
     : (c) == 'K' ? 'M'                                                                            \
     : (c) == 'M' ? 'K'                                                                            \
     : (c) == 'B' ? 'V'                                                                            \
     : (c) == 'V' ? 'B'                                                                            \
     : (c) == 'D' ? 'H'                                                                            \
     : (c) == 'H' ? 'D'                                                                            \
                  : (c))
#define COMPLEMENT(c) (IS_LOWER(c) ? COMPLEMENT_UPPER((c)-32) + 32 : COMPLEMENT_UPPER(c))

static const uint8_t complements[256] = {TABLE_256(COMPLEMENT)};

const uint8_t *
hspz_base_codes(bool unmask)
{
    return unmask ? codes_unmasked : codes_masked;
}

static inline bool
is_allowed(uint8_t c)
{
    return ((uint8_t)((c | 0x20) - 'a') < 26) | (c == '*') | (c == '-') | (c == '.');
}

bool
hspz_base_allowed(uint8_t byte)
{
    return is_allowed(byte);
}

/* Without a branch, which a compiler turns into vectors. */
static inline bool
piece_allowed(const uint8_t *bases, uint8_t also)
{
    uint8_t other = 0;
    for (unsigned i = 0; i < PIECE_BYTES; i++) {
        other |= (uint8_t) !(is_allowed(bases[i]) | (bases[i] == also));
    }
    return other == 0;
}

size_t
hspz_bases_allowed(const uint8_t *bases, size_t len, uint8_t also)
{
    size_t at = 0;
    while (len - at >= PIECE_BYTES && piece_allowed(bases + at, also)) {
        at += PIECE_BYTES;
    }
    /* The rest, with some that were looked at before. */
    if (len >= PIECE_BYTES && len - at < PIECE_BYTES &&
        piece_allowed(bases + len - PIECE_BYTES, also)) {
        return len;
    }
    while (at < len && (is_allowed(bases[at]) || bases[at] == also)) {
        at++;
    }
    return at;
}

void
hspz_reverse_complement(uint8_t *dst, const uint8_t *src, size_t len)
{
    const uint8_t *from = src + len;
    for (size_t i = 0; i < len; i++) {
        dst[i] = complements[*--from];
    }
}
