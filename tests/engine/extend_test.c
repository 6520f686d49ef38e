#include "engine/extend.h"

#include "engine/score.h"
#include "tests/support/test.h"

#include <math.h>

#define MOST 400

/* An independent account of the rules: every sum of a side is written down, then looked at. */
struct side {
    long long best;
    long long bases; /* up to the best */
};

static int
class_of(char c, bool unmask)
{
    const char *at = strchr("ACGT", c);
    if (at != NULL) {
        return c == 'A' ? 0 : c == 'C' ? 1 : c == 'G' ? 2 : 3;
    }
    if (strchr("acgt", c) != NULL) {
        return unmask ? class_of((char)(c - 'a' + 'A'), false) : 4;
    }
    return c == 'N' || c == 'n' ? 5 : c == '&' ? 7 : 6;
}

static struct side
look(const int *scores, int count, int xdrop)
{
    long long sums[MOST + 1];
    struct side side = {0, 0};
    int end = count;
    sums[0] = 0;
    for (int i = 1; i <= count; i++) {
        sums[i] = sums[i - 1] + scores[i - 1];
    }
    /* The drop: the first sum that is more than xdrop below the highest before it. */
    for (int i = 1; i <= count && end == count; i++) {
        long long highest = 0;
        for (int j = 1; j <= i; j++) {
            highest = sums[j] > highest ? sums[j] : highest;
        }
        if (highest - sums[i] > xdrop) {
            end = i;
        }
    }
    for (int i = 1; i <= end; i++) {
        if (sums[i] > side.best) {
            side.best = sums[i];
            side.bases = i;
        }
    }
    return side;
}

struct pair {
    char ref[MOST], query[MOST];
    int ref_len, query_len;
    bool unmask[2];
};

static bool
expect(const struct pair *p, int r, int q, const struct hspz_scoring *s, struct hspz_hsp *want)
{
    struct side sides[2];
    for (int right = 0; right < 2; right++) {
        int scores[MOST];
        int count = 0;
        for (int i = right ? 0 : 1; count < MOST; i++) {
            const int a = right ? r + i : r - i;
            const int b = right ? q + i : q - i;
            if (a < 0 || b < 0 || a >= p->ref_len || b >= p->query_len || p->ref[a] == '&' ||
                p->query[b] == '&') {
                break;
            }
            scores[count++] = s->scores[class_of(p->ref[a], p->unmask[0]) * 8 +
                                        class_of(p->query[b], p->unmask[1])];
        }
        sides[right] = look(scores, count, s->xdrop);
    }
    const long long sum = sides[0].best + sides[1].best;
    const int total = sum > 2147483647 ? 2147483647 : (int)sum;
    const int length = (int)(sides[0].bases + sides[1].bases);
    const int start = r - (int)sides[0].bases;
    double entropy = 1;
    if (s->entropy && total >= s->threshold && total <= 3LL * s->threshold) {
        int matches[4] = {0};
        int all = 0;
        for (int i = 0; i < length; i++) {
            const int a = class_of(p->ref[start + i], p->unmask[0]);
            if (a < 4 && a == class_of(p->query[start + q - r + i], p->unmask[1])) {
                matches[a]++;
                all++;
            }
        }
        if (all >= 20) {
            double bits = 0;
            for (int b = 0; b < 4; b++) {
                bits -= matches[b] == 0
                            ? 0
                            : (double)matches[b] / length * log((double)matches[b] / length);
            }
            entropy = bits / logf(4.0F);
        }
    }
    *want = (struct hspz_hsp){(uint32_t)start, (uint32_t)(start + q - r), (uint32_t)length, 0};
    const double through_float = (float)total * entropy;
    if (through_float < 2147483648.0 && (int)through_float < s->threshold) {
        return false;
    }
    want->score = (int)(total * entropy);
    return true;
}

/* Every anchor of a pair, on the plus strand and, from a query given backwards, on the minus one;
 * returns how many pass. */
static int
check_pair(const struct pair *p, const struct hspz_scoring *s)
{
    static const char from[] = "ACGTacgt";
    static const char to[] = "TGCAtgca";
    char minus[MOST];
    int passed = 0;
    for (int i = 0; i < p->query_len; i++) {
        const char c = p->query[p->query_len - 1 - i];
        const char *at = strchr(from, c);
        minus[i] = at == NULL ? c : to[at - from];
    }
    const struct hspz_extend_seq ref = {(const uint8_t *)p->ref,
                                        hspz_base_classes(p->unmask[0], false),
                                        (uint32_t)p->ref_len, false};
    const struct hspz_extend_seq queries[2] = {
        {(const uint8_t *)p->query, hspz_base_classes(p->unmask[1], false), (uint32_t)p->query_len,
         false},
        {(const uint8_t *)minus, hspz_base_classes(p->unmask[1], true), (uint32_t)p->query_len,
         true},
    };
    for (int r = 0; r <= p->ref_len; r++) {
        for (int q = 0; q <= p->query_len; q++) {
            struct hspz_hsp want;
            const bool pass = expect(p, r, q, s, &want);
            for (int strand = 0; strand < 2; strand++) {
                struct hspz_hsp got;
                if (hspz_extend_anchor(&ref, (uint32_t)r, &queries[strand], (uint32_t)q, s, &got) !=
                        pass ||
                    (pass && memcmp(&got, &want, sizeof(got)) != 0)) {
                    fail_msg("anchor %d %d, strand %d: %.*s x %.*s", r, q, strand, p->ref_len,
                             p->ref, p->query_len, p->query);
                }
            }
            passed += pass;
        }
    }
    return passed;
}

static void
set_pair(struct pair *p, const char *ref, const char *query)
{
    *p = (struct pair){.ref_len = (int)strlen(ref), .query_len = (int)strlen(query)};
    memcpy(p->ref, ref, strlen(ref));
    memcpy(p->query, query, strlen(query));
}

static void
test_extension_equals_a_direct_account(void **state)
{
    (void)state;
    static const char *const alphabets[] = {"ACGT",  "A",  "AC",       "ACGTacgtNnRX&",
                                            "ACGTN", "Aa", "AAAAAAAAC"};
    uint64_t random = 11;
    int passed = 0;
    int all = 0;
    for (int round = 0; round < 1500; round++) {
        struct pair p = {0};
        struct hspz_scoring s;
        hspz_scoring_init(&s);
        const char *alphabet = alphabets[test_random(&random) % 7];
        const size_t letters = strlen(alphabet);
        p.ref_len = (int)(test_random(&random) % 40);
        p.query_len = (int)(test_random(&random) % 40);
        p.unmask[0] = test_random(&random) % 2;
        p.unmask[1] = test_random(&random) % 2;
        for (int i = 0; i < MOST; i++) {
            p.ref[i] = alphabet[test_random(&random) % letters];
            p.query[i] =
                test_random(&random) % 4 == 0 ? alphabet[test_random(&random) % letters] : p.ref[i];
        }
        s.xdrop = (int32_t)(test_random(&random) % 3) * 150;
        s.threshold = 1 + (int32_t)(test_random(&random) % 900);
        s.entropy = test_random(&random) % 4 != 0;
        if (test_random(&random) % 3 == 0) { /* small scores: ties; now and then the largest */
            const int32_t unit = test_random(&random) % 4 == 0 ? HSPZ_SCORE_LIMIT / 2 : 1;
            for (int i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
                s.scores[i] = ((int32_t)(test_random(&random) % 5) - 2) * unit;
            }
            s.xdrop = (int32_t)(test_random(&random) % 4) * unit;
            s.threshold = 1 + (int32_t)(test_random(&random) % 12) * unit;
        }
        passed += check_pair(&p, &s);
        all += (p.ref_len + 1) * (p.query_len + 1);
    }
    assert_true(passed > all / 20 && passed < all * 19 / 20);
}

static void
test_ends_and_edges_are_exact(void **state)
{
    (void)state;
    static const char *const texts[] = {"",   "A",  "&",  "N",    "a",
                                        "AC", "A&", "&A", "ACGT", "AAAAA&AAAAA"};
    struct pair p;
    int passed = 0;
    for (int32_t xdrop = 0; xdrop <= HSPZ_XDROP_LIMIT; xdrop = xdrop * 1000 + 1) {
        for (size_t i = 0; i < 10; i++) {
            for (size_t j = 0; j < 10; j++) {
                struct hspz_scoring s;
                hspz_scoring_init(&s);
                s.xdrop = xdrop;
                s.threshold = 1;
                set_pair(&p, texts[i], texts[j]);
                passed += check_pair(&p, &s);
            }
        }
    }
    assert_true(passed > 0);
}

/* Values worked out by hand from the rules. */
static void
test_drops_and_ties_by_hand(void **state)
{
    (void)state;
    struct pair p;
    struct hspz_scoring s;
    struct hspz_hsp got;
    hspz_scoring_init(&s);
    s.threshold = 1;
    s.entropy = false;
    const uint8_t *classes = hspz_base_classes(false, false);
#define EXTEND(r, q)                                                                               \
    hspz_extend_anchor(                                                                            \
        &(struct hspz_extend_seq){(const uint8_t *)p.ref, classes, (uint32_t)p.ref_len, false}, r, \
        &(struct hspz_extend_seq){(const uint8_t *)p.query, classes, (uint32_t)p.query_len,        \
                                  false},                                                          \
        q, &s, &got)
    /* C with G costs 125: at xdrop 124 the first base ends the right side, at 125 it does not. */
    set_pair(&p, "ACAAAA", "AGAAAA");
    s.xdrop = 124;
    assert_true(EXTEND(1, 1));
    assert_int_equal(got.score, 91);
    assert_int_equal(got.length, 1);
    assert_int_equal(got.ref_start, 0);
    s.xdrop = 125;
    assert_true(EXTEND(1, 1));
    assert_int_equal(got.score, 91 + 4 * 91 - 125);
    assert_int_equal(got.length, 6);
    /* A tie keeps the shorter. */
    for (int i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
        s.scores[i] = i % 9 == 0 ? 1 : -1;
    }
    s.xdrop = 5;
    set_pair(&p, "AACA", "AAGA");
    assert_true(EXTEND(0, 0));
    assert_int_equal(got.length, 2);
    assert_int_equal(got.score, 2);
    assert_true(EXTEND(4, 4));
    assert_int_equal(got.length, 4);
    assert_int_equal(got.score, 2);
    /* Nothing on either side. */
    set_pair(&p, "A", "C");
    assert_false(EXTEND(0, 0));
    assert_false(EXTEND(0, 1));
    assert_false(EXTEND(1, 0));
    assert_false(EXTEND(1, 1));
}

/* 40 bases, ten of each, all matching: p ln p sums to ln 4, and ln 4 as a float is a little more,
 * so that KegAlign's integer is one less. Poly-A has no entropy; 19 matches are not asked for any.
 */
static void
test_entropy_is_kegaligns(void **state)
{
    (void)state;
    static const uint32_t even[4] = {10, 10, 10, 10};
    static const uint32_t poly[4] = {0, 0, 40, 0};
    static const uint32_t few[4] = {19, 0, 0, 0};
    static const uint32_t twenty[4] = {20, 0, 0, 0};
    static const uint32_t half[4] = {0, 20, 20, 0};
    int32_t score = 0;
    assert_true(hspz_extend_keep(3820, hspz_extend_entropy(even, 40), 3000, &score));
    assert_int_equal(score, 3819);
    assert_true(hspz_extend_entropy(poly, 40) == 0);
    assert_false(hspz_extend_keep(9000, hspz_extend_entropy(poly, 40), 1, &score));
    assert_true(hspz_extend_entropy(few, 40) == 1);
    assert_true(hspz_extend_entropy(twenty, 40) == log(2) / 2 / (double)logf(4.0F));
    assert_true(hspz_extend_keep(8000, hspz_extend_entropy(half, 40), 3000, &score));
    assert_int_equal(score, 3999);
}

/* Both engines share our own: it must be as good as a library's, and give the same scores. */
static void
test_logarithms_are_the_librarys_to_the_last_bits(void **state)
{
    (void)state;
    uint64_t random = 21, scores = 0;
    for (uint32_t of = 1; of <= 600; of++) {
        for (uint32_t m = 1; m <= of; m++) {
            const double p = (double)m / of, want = log(p);
            const double error = hspz_extend_ln(p) - want;
            assert_true(error <= -want * 4.5e-16 && error >= want * 4.5e-16);
        }
    }
    assert_true(hspz_extend_ln(0x1p-32) == log(0x1p-32));
    for (unsigned n = 0; n < 200000; n++) {
        uint32_t matches[4], all = 0;
        double bits = 0;
        for (int b = 0; b < 4; b++) {
            matches[b] = (uint32_t)(test_random(&random) % 70);
            all += matches[b];
        }
        const uint32_t bases = all + (uint32_t)(test_random(&random) % 40);
        for (int b = 0; b < 4; b++) {
            const double p = (double)matches[b] / bases;
            bits -= matches[b] == 0 ? 0 : p * log(p);
        }
        int32_t score = 0;
        const int total = 3000 + (int)(test_random(&random) % 6001);
        if (all >= 20 && hspz_extend_keep(total, hspz_extend_entropy(matches, bases), 1, &score)) {
            assert_int_equal(score, (int)(total * (bits / logf(4.0F))));
            scores++;
        }
    }
    assert_true(scores > 150000);
}

static void
test_totals_saturate(void **state)
{
    (void)state;
    int32_t score = 0;
    assert_int_equal(hspz_extend_total(INT32_MAX, 0), INT32_MAX);
    assert_int_equal(hspz_extend_total(INT32_MAX, 1), INT32_MAX);
    assert_int_equal(hspz_extend_total(INT64_C(4294967295) * HSPZ_SCORE_LIMIT, 0), INT32_MAX);
    assert_int_equal(hspz_extend_total(1, 2), 3);
    assert_true(hspz_extend_keep(INT32_MAX, 1, HSPZ_XDROP_LIMIT, &score));
    assert_int_equal(score, INT32_MAX);
    /* The test goes through float: 16,777,217 is none, and passes for 16,777,216 alone. */
    assert_false(hspz_extend_keep(16777217, 1, 16777217, &score));
    assert_true(hspz_extend_keep(16777217, 1, 16777216, &score));
    assert_int_equal(score, 16777217);
    /* 400 bases of the largest score pass 2^28 but not 2^31; sums go on beyond. */
    struct hspz_scoring s;
    struct hspz_hsp got;
    static uint8_t text[3000];
    hspz_scoring_init(&s);
    memset(text, 'A', sizeof(text));
    s.scores[0] = HSPZ_SCORE_LIMIT;
    const struct hspz_extend_seq seq = {text, hspz_base_classes(false, false), 3000, false};
    assert_true(hspz_extend_anchor(&seq, 1500, &seq, 1500, &s, &got));
    assert_int_equal(got.score, INT32_MAX);
    assert_int_equal(got.length, 3000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extension_equals_a_direct_account),
        cmocka_unit_test(test_ends_and_edges_are_exact),
        cmocka_unit_test(test_drops_and_ties_by_hand),
        cmocka_unit_test(test_entropy_is_kegaligns),
        cmocka_unit_test(test_logarithms_are_the_librarys_to_the_last_bits),
        cmocka_unit_test(test_totals_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
