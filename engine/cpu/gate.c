#include "engine/cpu/gate.h"

#include <endian.h>
#include <string.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
/* Of a score: what three may add fits 16 bits. */
#define SCORE_LIMIT 8191
/* A side that comes to this is left to the plain extension, whatever the threshold: what is long
 * should become known to those behind it on the diagonal. Exact as a float. */
#define BEST_LIMIT 5000

/* Bits 1 and 2 of the letters A C T G count them: 0 1 2 3. */
static const uint8_t class_of_code[4] = {HSPZ_CLASS_A, HSPZ_CLASS_C, HSPZ_CLASS_T, HSPZ_CLASS_G};
#define COMPLEMENT_CODE 2u

static inline int32_t
sum_of(uint32_t entry)
{
    return (int16_t)(entry & UINT16_MAX);
}

static inline int32_t
highest_of(uint32_t entry)
{
    return (int32_t)(entry >> 16);
}

/* The entry of some pairs and others behind them. */
static uint32_t
join(uint32_t first, uint32_t second)
{
    const int32_t sum = sum_of(first) + sum_of(second);
    const int32_t beyond = sum_of(first) + highest_of(second);
    const int32_t highest = beyond > highest_of(first) ? beyond : highest_of(first);
    return (uint32_t)highest << 16 | (uint16_t)sum;
}

/* False when a score is too large. */
static bool
make_tables(struct hspz_gate *gate)
{
    const unsigned flip = gate->query.backwards ? COMPLEMENT_CODE : 0;
    uint32_t ones[16];
    for (unsigned pair = 0; pair < 16; pair++) {
        const unsigned a = class_of_code[pair >> 2];
        const unsigned b = class_of_code[(pair & 3) ^ flip];
        const int32_t score = gate->scoring->scores[a * HSPZ_CLASSES + b];
        if (score < -SCORE_LIMIT || score > SCORE_LIMIT) {
            return false;
        }
        ones[pair] = (uint32_t)(score > 0 ? score : 0) << 16 | (uint16_t)score;
    }
    for (unsigned i = 0; i < 256; i++) {
        gate->twos[i] = join(ones[i & 15], ones[i >> 4]);
    }
    for (unsigned i = 0; i < 4096; i++) {
        gate->threes[i] = join(gate->twos[i & 255], ones[i >> 8]);
    }
    return true;
}

void
hspz_gate_init(struct hspz_gate *gate, const struct hspz_gate_spec *spec)
{
    const int32_t threshold = spec->scoring->threshold;
    gate->ref = spec->ref;
    gate->query = spec->query;
    gate->scoring = spec->scoring;
    gate->ref_fold = spec->ref_unmask ? EACH(0xDF) : EACH(0xFF);
    gate->query_fold = spec->query_unmask ? EACH(0xDF) : EACH(0xFF);
    gate->xdrop = spec->scoring->xdrop;
    gate->enough = threshold < BEST_LIMIT ? threshold : BEST_LIMIT;
    gate->open = make_tables(gate);
}

/* Eight bases in the order they are read, the first lowest. */
static inline uint64_t
read_eight(const uint8_t *bases, bool reversed)
{
    uint64_t word;
    memcpy(&word, bases, sizeof(word));
    return reversed ? be64toh(word) : le64toh(word);
}

/* Bits of the bytes that are not A, C, G or T: those that differ from the base of their code. */
static inline uint64_t
other_than_acgt(uint64_t word)
{
    const uint64_t is_t = word >> 2 & ~(word >> 1) & EACH(1);
    return word ^ (EACH('A') + (word & EACH(6)) + (is_t << 4) - is_t);
}

/* Eight pairs of codes, 4 bits each. */
static inline uint32_t
codes_of(uint64_t ref, uint64_t query)
{
    uint64_t pairs = (ref & EACH(6)) << 1 | (query & EACH(6)) >> 1;
    pairs = (pairs | pairs >> 4) & UINT64_C(0x00FF00FF00FF00FF);
    pairs |= pairs >> 8;
    return (uint32_t)(pairs & 0xFFFF) | (uint32_t)(pairs >> 16 & 0xFFFF0000);
}

static inline void
add(uint32_t entry, int32_t *sum, int32_t *best)
{
    const int32_t highest = *sum + highest_of(entry);
    *best = highest > *best ? highest : *best;
    *sum += sum_of(entry);
}

/* Whether the pair read after `ahead` bases ends the side for sure. */
static bool
ends_side(const struct hspz_gate *gate, uint32_t r, uint32_t q, bool right, uint32_t ahead)
{
    const uint8_t a = hspz_extend_class(&gate->ref, right ? r + ahead : r - 1 - ahead);
    const uint8_t b = hspz_extend_class(&gate->query, right ? q + ahead : q - 1 - ahead);
    return a == HSPZ_CLASS_SEPARATOR || b == HSPZ_CLASS_SEPARATOR ||
           gate->scoring->scores[a * HSPZ_CLASSES + b] < -gate->xdrop;
}

/* The most a side may come to, or `enough` when that cannot be said or is not below it. */
static inline __attribute__((always_inline)) int32_t
bound_side(const struct hspz_gate *gate, uint32_t r, uint32_t q, bool right, bool backwards,
           int32_t enough, uint64_t *work)
{
    const uint32_t ref_room = right ? gate->ref.len - r : r;
    const uint32_t query_room = right ? gate->query.len - q : q;
    const uint32_t room = query_room < ref_room ? query_room : ref_room;
    const bool query_down = right == backwards;
    /* Where the eight bases at hand begin; those on the way down are read from their end. */
    int64_t ref_at = (int64_t)r - (right ? 0 : 8);
    int64_t query_at = (int64_t)(backwards ? gate->query.len - q : q) - (query_down ? 8 : 0);
    int32_t sum = 0;
    int32_t best = 0;
    for (uint32_t done = 0; room - done >= 8; done += 8) {
        const uint64_t a = read_eight(gate->ref.bases + ref_at, !right) & gate->ref_fold;
        const uint64_t b = read_eight(gate->query.bases + query_at, query_down) & gate->query_fold;
        const uint64_t other = other_than_acgt(a) | other_than_acgt(b);
        const uint32_t codes = codes_of(a, b);
        add(gate->threes[codes & 0xFFF], &sum, &best);
        add(gate->threes[codes >> 12 & 0xFFF], &sum, &best);
        add(gate->twos[codes >> 24], &sum, &best);
        *work += 8;
        if (best >= enough) {
            return enough;
        }
        if (other != 0) {
            /* What was added behind it, if it ends the side, is too much, not too little. */
            const uint32_t ahead = done + (uint32_t)__builtin_ctzll(other) / 8;
            return ends_side(gate, r, q, right, ahead) ? best : enough;
        }
        if (best - sum > gate->xdrop) {
            return best;
        }
        ref_at += right ? 8 : -8;
        query_at += query_down ? -8 : 8;
    }
    return enough;
}

static inline __attribute__((always_inline)) bool
rejects(const struct hspz_gate *gate, uint32_t r, uint32_t q, bool backwards, uint64_t *work)
{
    const int32_t right = bound_side(gate, r, q, true, backwards, gate->enough, work);
    const int32_t rest = gate->enough - right;
    return rest > 0 && bound_side(gate, r, q, false, backwards, rest, work) < rest;
}

bool
hspz_gate_rejects(const struct hspz_gate *gate, uint32_t r, uint32_t q, uint64_t *work)
{
    uint64_t looked_at = 0;
    const bool rejected =
        gate->open && (gate->query.backwards ? rejects(gate, r, q, true, &looked_at)
                                             : rejects(gate, r, q, false, &looked_at));
    *work += looked_at;
    return rejected;
}
