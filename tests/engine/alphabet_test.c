#include "engine/alphabet.h"

#include "tests/support/test.h"

static void
test_codes_follow_the_contract(void **state)
{
    (void)state;
    const uint8_t *masked = hspz_base_codes(false);
    const uint8_t *unmasked = hspz_base_codes(true);
    static const char upper[] = "ACGT";
    static const char lower[] = "acgt";
    size_t valid_masked = 0;
    size_t valid_unmasked = 0;
    for (unsigned c = 0; c < 256; c++) {
        const char *u = c == 0 ? NULL : strchr(upper, (int)c);
        const char *l = c == 0 ? NULL : strchr(lower, (int)c);
        assert_int_equal(masked[c], u != NULL ? (unsigned)(u - upper) : HSPZ_BASE_INVALID);
        assert_int_equal(unmasked[c], u != NULL   ? (unsigned)(u - upper)
                                      : l != NULL ? (unsigned)(l - lower)
                                                  : HSPZ_BASE_INVALID);
        valid_masked += masked[c] < 4;
        valid_unmasked += unmasked[c] < 4;
    }
    assert_int_equal(valid_masked, 4);
    assert_int_equal(valid_unmasked, 8);
}

static void
test_allowed_bytes_are_letters_and_three_signs(void **state)
{
    (void)state;
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*-.";
    size_t count = 0;
    for (unsigned c = 0; c < 256; c++) {
        const bool want = c != 0 && strchr(allowed, (int)c) != NULL;
        assert_int_equal(hspz_base_allowed((uint8_t)c), want);
        count += want;
    }
    assert_int_equal(count, 55);
    assert_false(hspz_base_allowed('&'));
}

/* Pairs of the IUPAC nomenclature (Cornish-Bowden 1985); what is not listed keeps its place. */
static const char iupac[][3] = {"AT", "TA", "CG", "GC", "RY", "YR", "KM", "MK", "BV", "VB",
                                "DH", "HD", "SS", "WW", "NN", "at", "ta", "cg", "gc", "ry",
                                "yr", "km", "mk", "bv", "vb", "dh", "hd", "ss", "ww", "nn"};

static void
test_reverse_complement_knows_every_iupac_pair(void **state)
{
    (void)state;
    uint8_t want[256];
    for (unsigned c = 0; c < 256; c++) {
        want[c] = (uint8_t)c;
    }
    for (size_t i = 0; i < sizeof(iupac) / sizeof(iupac[0]); i++) {
        want[(uint8_t)iupac[i][0]] = (uint8_t)iupac[i][1];
    }
    for (unsigned c = 0; c < 256; c++) {
        const uint8_t byte = (uint8_t)c;
        uint8_t got = 0;
        hspz_reverse_complement(&got, &byte, 1);
        assert_int_equal(got, want[c]);
    }
    static const char src[] = "ACGTN&acgtnRYKMSWBDHVXU*-.";
    static const char dst[] = ".-*UXBDHVWSKMRYnacgt&NACGT";
    uint8_t got[sizeof(src)] = {0};
    hspz_reverse_complement(got, (const uint8_t *)src, sizeof(src) - 1);
    assert_string_equal((const char *)got, dst);
}

static void
test_reverse_complement_twice_is_the_input(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (size_t len = 0; len < 300; len++) {
        uint8_t src[300] = {0};
        uint8_t once[300];
        uint8_t twice[300];
        for (size_t i = 0; i < len; i++) {
            src[i] = (uint8_t)test_random(&random);
        }
        hspz_reverse_complement(once, src, len);
        hspz_reverse_complement(twice, once, len);
        assert_memory_equal(src, twice, len);
        if (len > 100) {
            assert_memory_not_equal(src, once, len);
        }
    }
}

/* Every byte at places in, between and after whole pieces, at every alignment of the end. */
static void
test_allowed_prefix_ends_at_the_first_other_byte(void **state)
{
    (void)state;
    uint8_t bases[600];
    unsigned refused = 0;
    for (size_t at = 0; at < sizeof(bases); at += 51) {
        for (unsigned c = 0; c < 256; c++) {
            memset(bases, 'g', sizeof(bases));
            bases[at] = (uint8_t)c;
            const bool good = hspz_base_allowed((uint8_t)c) || c == '&';
            refused += !good;
            for (size_t len = at; len <= sizeof(bases); len += 37) {
                const size_t want = good || len <= at ? len : at;
                assert_int_equal(hspz_bases_allowed(bases, len, '&'), want);
            }
        }
    }
    assert_int_equal(refused, 12 * (256 - 56));
}

/* One byte that is none at each place of each length, about those of a piece. */
static void
test_allowed_prefix_of_short_bases(void **state)
{
    (void)state;
    uint8_t bases[100];
    for (size_t len = 0; len <= sizeof(bases); len++) {
        for (size_t at = 0; at < sizeof(bases); at++) {
            memset(bases, 'T', sizeof(bases));
            bases[at] = '@';
            assert_int_equal(hspz_bases_allowed(bases, len, 'A'), len < at ? len : at);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_follow_the_contract),
        cmocka_unit_test(test_allowed_bytes_are_letters_and_three_signs),
        cmocka_unit_test(test_allowed_prefix_ends_at_the_first_other_byte),
        cmocka_unit_test(test_allowed_prefix_of_short_bases),
        cmocka_unit_test(test_reverse_complement_knows_every_iupac_pair),
        cmocka_unit_test(test_reverse_complement_twice_is_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
