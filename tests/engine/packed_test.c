/* What the CUDA engine's extension kernels do, thread by thread and lane by lane, on the host:
 * against the plain extension and against hits found by definition. */
#include "engine/cuda/kernels/gate.cuh"
#include "engine/cuda/kernels/stride.cuh"

#include "engine/alphabet.h"
#include "engine/score.h"
#include "engine/shape.h"
#include "tests/support/test.h"

#define MOST_BASES 3000

/* A pair of sequences, plain and packed. */
struct pair {
    uint8_t ref[MOST_BASES], query[MOST_BASES];
    uint32_t ref_len, query_len;
    uint32_t shift; /* where the query begins in the reference */
    bool minus, ref_unmask, query_unmask;
    struct hspz_extend_seq plain_ref, plain_query;
    uint64_t ref_words[MOST_BASES / 16 + 80], query_words[MOST_BASES / 16 + 80];
    struct hspz_scoring scoring;
    struct hspz_packed_scores scores;
};

static void
pack(const struct hspz_extend_seq *seq, uint64_t *words)
{
    memset(words, HSPZ_PACKED_PAD_BYTE, hspz_packed_words(seq->len) * sizeof(*words));
    for (uint64_t w = 0; w * HSPZ_PACKED_WORD < seq->len; w++) {
        words[HSPZ_PACKED_PAD / HSPZ_PACKED_WORD + w] =
            packed_word(seq->bases, seq->len, seq->backwards, seq->classes, w);
    }
}

static uint64_t
draw(uint64_t *state, uint64_t below)
{
    return test_random(state) % below;
}

static uint8_t
mutated(uint64_t *state, uint8_t base, unsigned kind)
{
    static const char odd[] = "ACGTacgtNnRrx&*";
    const uint64_t r = draw(state, 1000);
    if (r < (kind % 4 == 3 ? 300 : 30 * (kind % 4))) {
        return (uint8_t) "ACGT"[draw(state, kind % 2 == 0 ? 4 : 2)];
    }
    return r == 999 && kind % 3 == 0 ? (uint8_t)odd[draw(state, sizeof(odd) - 1)] : base;
}

/* Random scores: likely ones, or anything that is allowed. */
static void
draw_scoring(uint64_t *state, struct hspz_scoring *scoring)
{
    hspz_scoring_init(scoring);
    switch (draw(state, 5)) {
    case 0:
        scoring->xdrop = (int32_t)draw(state, 300);
        scoring->threshold = 1 + (int32_t)draw(state, 2000);
        break;
    case 1:
        for (unsigned i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
            scoring->scores[i] = (int32_t)draw(state, 2 * HSPZ_SCORE_LIMIT + 1) - HSPZ_SCORE_LIMIT;
        }
        scoring->xdrop = (int32_t)draw(state, HSPZ_XDROP_LIMIT + 1);
        scoring->threshold = HSPZ_XDROP_LIMIT - (int32_t)draw(state, 1000);
        break;
    case 2: /* ties */
        for (unsigned i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
            scoring->scores[i] = (int32_t)draw(state, 3) - 1;
        }
        scoring->xdrop = (int32_t)draw(state, 6);
        scoring->threshold = 1 + (int32_t)draw(state, 20);
        break;
    default:
        break;
    }
}

/* The query is a copy of the reference, shifted and changed, on either strand; a third of the time
 * with repeats inside. */
static void
draw_pair(struct pair *p, uint64_t seed, uint32_t most)
{
    uint64_t state = seed;
    const unsigned kind = (unsigned)draw(&state, 60);
    p->ref_len = 1 + (uint32_t)draw(&state, most);
    p->query_len = 1 + (uint32_t)draw(&state, most);
    p->minus = draw(&state, 2) == 1;
    p->ref_unmask = draw(&state, 2) == 1;
    p->query_unmask = draw(&state, 2) == 1;
    const uint32_t period = 1 + (uint32_t)draw(&state, 200);
    for (uint32_t i = 0; i < p->ref_len; i++) {
        const uint8_t fresh = (uint8_t) "ACGT"[draw(&state, 4)];
        p->ref[i] = mutated(&state, kind < 20 && i >= period ? p->ref[i - period] : fresh, kind);
    }
    uint8_t strand[MOST_BASES];
    p->shift = (uint32_t)draw(&state, p->ref_len);
    for (uint32_t i = 0; i < p->query_len; i++) {
        strand[i] = mutated(&state, p->ref[(p->shift + i) % p->ref_len], kind);
    }
    if (p->minus) {
        hspz_reverse_complement(p->query, strand, p->query_len);
    } else {
        memcpy(p->query, strand, p->query_len);
    }
    p->plain_ref = (struct hspz_extend_seq){p->ref, hspz_base_classes(p->ref_unmask, false),
                                            p->ref_len, false};
    p->plain_query = (struct hspz_extend_seq){
        p->query, hspz_base_classes(p->query_unmask, p->minus), p->query_len, p->minus};
    pack(&p->plain_ref, p->ref_words);
    pack(&p->plain_query, p->query_words);
    draw_scoring(&state, &p->scoring);
    hspz_packed_scores_init(&p->scores, &p->scoring);
}

static unsigned
nibble(const uint64_t *words, uint64_t place)
{
    return (unsigned)(words[place / 16] >> place % 16 * 4) & 15;
}

static void
test_packed_bases_are_those_of_the_strand(void **state)
{
    (void)state;
    static struct pair p;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        draw_pair(&p, seed, 700);
        uint8_t strand[MOST_BASES];
        memcpy(strand, p.query, p.query_len);
        if (p.minus) {
            hspz_reverse_complement(strand, p.query, p.query_len);
        }
        const uint64_t places = hspz_packed_words(p.query_len) * 16;
        assert_true(places >= p.query_len + 2 * (uint64_t)HSPZ_PACKED_PAD);
        for (uint64_t place = 0; place < places; place++) {
            const uint64_t i = place - HSPZ_PACKED_PAD;
            const unsigned code = nibble(p.query_words, place);
            if (i >= p.query_len) {
                assert_int_equal(code, HSPZ_CLASS_SEPARATOR);
                continue;
            }
            const uint8_t base = hspz_base_codes(p.query_unmask)[strand[i]];
            assert_int_equal(code < 4 ? code : HSPZ_BASE_INVALID, base);
            assert_int_equal(code == HSPZ_CLASS_SEPARATOR, strand[i] == '&');
            assert_int_equal(code, hspz_extend_class(&p.plain_query, (uint32_t)i));
        }
    }
}

static void
test_packed_scores_are_those_of_the_classes(void **state)
{
    (void)state;
    static struct pair p;
    static const char letters[] = "ACGTacgtNnRrx*-.&";
    const uint8_t *classes = hspz_base_classes(false, false);
    draw_pair(&p, 3, 100);
    for (size_t i = 0; i < sizeof(letters) - 1; i++) {
        for (size_t j = 0; j < sizeof(letters) - 1; j++) {
            const uint8_t a = (uint8_t)letters[i], b = (uint8_t)letters[j];
            const struct packed_pairs pairs = packed_pair((uint64_t)classes[a] << 4 | classes[b],
                                                          (uint64_t)classes[b] << 4 | classes[a]);
            const int32_t *scores = p.scoring.scores;
            const bool stop = a == '&' || b == '&';
            assert_int_equal(p.scores.pair[packed_index(pairs, 1)],
                             stop ? HSPZ_PACKED_STOP
                                  : scores[classes[a] * HSPZ_CLASSES + classes[b]]);
            assert_int_equal(p.scores.pair[packed_index(pairs, 0)],
                             stop ? HSPZ_PACKED_STOP
                                  : scores[classes[b] * HSPZ_CLASSES + classes[a]]);
        }
    }
}

static void
test_the_gate_settles_exactly_what_does_not_pass(void **state)
{
    (void)state;
    static struct pair p;
    uint64_t random = 5, dropped = 0, passed = 0, rounded = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        draw_pair(&p, seed, seed % 10 == 0 ? MOST_BASES : 600);
        rounded += p.scores.enough < p.scoring.threshold;
        for (unsigned n = 0; n < 20; n++) {
            const uint32_t r = (uint32_t)draw(&random, p.ref_len + 1);
            const uint32_t q = (uint32_t)draw(&random, p.query_len + 1);
            const struct hspz_extend_side right = hspz_extend_half(&p.plain_ref, r, &p.plain_query,
                                                                   q, true, &p.scoring),
                                          left = hspz_extend_half(&p.plain_ref, r, &p.plain_query,
                                                                  q, false, &p.scoring);
            struct hspz_hsp hsp;
            const bool hit =
                hspz_extend_anchor(&p.plain_ref, r, &p.plain_query, q, &p.scoring, &hsp);
            const bool passes =
                gate_passes(p.ref_words, r + HSPZ_PACKED_PAD, p.query_words, q + HSPZ_PACKED_PAD,
                            p.scores.pair, p.scores.xdrop, p.scores.enough);
            assert_true(passes || !hit);
            const bool is_long = left.bases >= GATE_BASES || right.bases >= GATE_BASES;
            assert_true(is_long || passes == (left.best + right.best >= p.scores.enough));
            passed += passes;
            dropped += !passes;
        }
    }
    assert_true(passed > 1000 && dropped > 1000 && rounded > 10);
}

/* How a reference is indexed and a query seeded. */
struct seeding {
    struct hspz_shape shape;
    uint32_t transitions;
    uint32_t step, first_ref, first_query;
};

/* Whether the windows that end before (r, q) are a hit, by definition. */
static bool
is_hit(const struct pair *p, const struct seeding *how, int64_t r, int64_t q)
{
    const int64_t span = how->shape.span;
    unsigned transitions = 0;
    if (r - span < how->first_ref || (r - span - how->first_ref) % how->step != 0 ||
        q - span < how->first_query || r > p->ref_len || q > p->query_len) {
        return false;
    }
    for (int64_t c = 0; c < span; c++) {
        const uint32_t at = (uint32_t)(q - span + c);
        const uint8_t base = p->query[p->minus ? p->query_len - 1 - at : at];
        const uint8_t x = hspz_base_codes(p->ref_unmask)[p->ref[r - span + c]];
        uint8_t y = hspz_base_codes(p->query_unmask)[base];
        if (x >= HSPZ_BASE_INVALID || y >= HSPZ_BASE_INVALID) {
            return false;
        }
        y ^= p->minus ? 3 : 0;
        if (how->shape.pattern[c] == '1' && x != y) {
            if ((x ^ y) != 2 || ++transitions > how->transitions) {
                return false;
            }
        }
    }
    return true;
}

static struct seeding
draw_seeding(uint64_t *state)
{
    static const char *const patterns[] = {
        "1110100110010101111",
        "1111",
        "101011",
        "0110110",
        "1111000000000000000000000000000000000000000000000000000000001111",
        "1100000000000000000000000000000011",
    };
    const char *pattern = patterns[draw(state, 6)];
    const uint32_t step = draw(state, 3) == 0 ? 1 + (uint32_t)draw(state, 70) : 1;
    struct seeding how = {
        .transitions = (uint32_t)draw(state, 3),
        .step = step,
        .first_ref = (uint32_t)draw(state, step + 1),
        .first_query = draw(state, 2) == 1 ? 0 : (uint32_t)draw(state, 100),
    };
    assert_int_equal(hspz_shape_parse(pattern, strlen(pattern), &how.shape, NULL), HSPZ_OK);
    return how;
}

/* Walks whole diagonals: what is dropped has the HSP of a hit before it, so that the HSPs of the
 * rest are all there are. */
static void
test_redundant_hits_extend_to_an_earlier_ones_hsp(void **state)
{
    (void)state;
    static struct pair p;
    uint64_t random = 9, all = 0, dropped = 0, bits = 0;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct hspz_packed_seeds seeds;
        draw_pair(&p, seed, 400);
        const struct seeding how = draw_seeding(&random);
        hspz_packed_seeds_init(&seeds, &how.shape, how.transitions, how.step);
        seeds.first_ref = how.first_ref;
        seeds.first_query = how.first_query;
        struct seeding any = how; /* the hit at hand may come before the first that count */
        any.first_query = 0;
        /* That of the copy, or any. */
        const int64_t diagonal = seed % 4 != 0 ? p.shift : (int64_t)draw(&random, p.ref_len);
        struct {
            int64_t r;
            struct hspz_extend_side left, right;
        } last[GATE_REACH] = {0};
        size_t count = 0;
        for (int64_t r = diagonal + how.shape.span; r <= p.ref_len && r - diagonal <= p.query_len;
             r++) {
            const int64_t q = r - diagonal;
            if (!is_hit(&p, &any, r, q)) {
                continue;
            }
            const uint64_t r_at = (uint64_t)r + HSPZ_PACKED_PAD,
                           q_at = (uint64_t)q + HSPZ_PACKED_PAD;
            const uint64_t hits = gate_earlier_hits(p.ref_words, r_at, p.query_words, q_at, &seeds);
            for (int64_t i = 0; i < GATE_REACH; i++) {
                const bool hit = is_hit(&p, &how, r - 1 - i, q - 1 - i);
                assert_int_equal(hits >> (63 - i) & 1, hit);
                bits += hit;
            }
            const struct hspz_extend_side right = hspz_extend_half(
                &p.plain_ref, (uint32_t)r, &p.plain_query, (uint32_t)q, true, &p.scoring);
            const struct hspz_extend_side left = hspz_extend_half(
                &p.plain_ref, (uint32_t)r, &p.plain_query, (uint32_t)q, false, &p.scoring);
            all++;
            if (gate_redundant(p.ref_words, r_at, p.query_words, q_at, p.scores.pair,
                               p.scores.xdrop, &seeds)) {
                dropped++;
                bool found = false;
                for (size_t i = 0; i < count && i < GATE_REACH; i++) {
                    const size_t at = (count - 1 - i) % GATE_REACH;
                    found = found ||
                            (last[at].r + last[at].right.best_bases == r + right.best_bases &&
                             last[at].r - last[at].left.best_bases == r - left.best_bases &&
                             last[at].right.best + last[at].left.best == right.best + left.best);
                }
                assert_true(found);
            }
            if (is_hit(&p, &how, r, q)) {
                last[count % GATE_REACH].r = r;
                last[count % GATE_REACH].right = right;
                last[count % GATE_REACH].left = left;
                count++;
            }
        }
    }
    print_message("%lu of %lu hits are redundant\n", (unsigned long)dropped, (unsigned long)all);
    assert_true(all > 10000 && dropped > all / 4 && dropped < all && bits > 10000);
}

/* One side as a warp does it. */
static struct hspz_extend_side
strides(const struct pair *p, uint32_t r, uint32_t q, bool right)
{
    struct hspz_extend_side side = {0, 0, 0, 0};
    bool open = true;
    while (open) {
        const uint64_t r_at = (uint64_t)r + HSPZ_PACKED_PAD, q_at = (uint64_t)q + HSPZ_PACKED_PAD;
        struct stride_sums sums[STRIDE_LANES];
        struct stride_look look[STRIDE_LANES];
        uint32_t before = 0, dropped = 0, improved = 0;
        int32_t best = stride_best(&side);
        for (unsigned lane = 0; lane < STRIDE_LANES; lane++) {
            const uint64_t at = side.bases;
            const struct packed_pairs pairs =
                stride_load(p->ref_words, right ? r_at + at : r_at - at, p->query_words,
                            right ? q_at + at : q_at - at, right, lane);
            sums[lane] = stride_sum(pairs, right, p->scores.pair);
            if (dropped == 0) {
                look[lane] = stride_look(&sums[lane], (int32_t)before, best, p->scores.xdrop);
                dropped |= (uint32_t)look[lane].dropped << lane;
                improved |= (uint32_t)(look[lane].best_bases != 0) << lane;
                const int32_t peak = (int32_t)before + sums[lane].peak;
                best = peak > best ? peak : best;
            }
            before += (uint32_t)sums[lane].after[STRIDE_LANE - 1];
        }
        improved |= dropped == 0 ? 0 : ~(dropped | (dropped - 1)); /* nonsense behind it */
        const int winner = stride_winner(dropped, improved);
        open = stride_join(&side, winner, winner < 0 ? 0 : look[winner].best,
                           winner < 0 ? 0 : look[winner].best_bases, (int32_t)before, dropped);
    }
    return side;
}

static void
test_strides_of_32_lanes_find_the_best_of_a_side(void **state)
{
    (void)state;
    static struct pair p;
    uint64_t random = 11, long_ones = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        draw_pair(&p, seed, seed % 4 == 0 ? MOST_BASES : 500);
        for (unsigned n = 0; n < 8; n++) {
            const uint32_t q = (uint32_t)draw(&random, p.query_len + 1);
            const uint32_t r =
                n == 0 && q <= p.ref_len ? q : (uint32_t)draw(&random, p.ref_len + 1);
            for (int right = 0; right < 2; right++) {
                const struct hspz_extend_side want =
                    hspz_extend_half(&p.plain_ref, r, &p.plain_query, q, right == 1, &p.scoring);
                const struct hspz_extend_side got = strides(&p, r, q, right == 1);
                assert_true(got.best == want.best);
                assert_int_equal(got.best_bases, want.best_bases);
                long_ones += want.best_bases > STRIDE_BASES;
            }
        }
    }
    assert_true(long_ones > 100);
}

static void
test_matches_are_counted_by_base(void **state)
{
    (void)state;
    static struct pair p;
    uint64_t random = 13;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        draw_pair(&p, seed, 500);
        const uint32_t shorter = p.ref_len < p.query_len ? p.ref_len : p.query_len;
        const uint32_t count = (uint32_t)draw(&random, shorter + 1);
        uint32_t got[4] = {0}, want[HSPZ_CLASSES] = {0};
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t a = hspz_extend_class(&p.plain_ref, i);
            want[a] += a == hspz_extend_class(&p.plain_query, i);
        }
        for (uint32_t i = 0; i < count; i += HSPZ_PACKED_WORD) {
            stride_matches(packed_bases(p.ref_words, (uint64_t)i + HSPZ_PACKED_PAD),
                           packed_bases(p.query_words, (uint64_t)i + HSPZ_PACKED_PAD), count - i,
                           got);
        }
        assert_memory_equal(got, want, sizeof(got));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_bases_are_those_of_the_strand),
        cmocka_unit_test(test_packed_scores_are_those_of_the_classes),
        cmocka_unit_test(test_the_gate_settles_exactly_what_does_not_pass),
        cmocka_unit_test(test_redundant_hits_extend_to_an_earlier_ones_hsp),
        cmocka_unit_test(test_strides_of_32_lanes_find_the_best_of_a_side),
        cmocka_unit_test(test_matches_are_counted_by_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
