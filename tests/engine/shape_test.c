#include "engine/shape.h"

#include "tests/support/test.h"

static struct hspz_shape
parse(const char *text)
{
    struct hspz_shape shape;
    struct hspz_error err = {0};
    if (hspz_shape_parse(text, strlen(text), &shape, &err) != HSPZ_OK) {
        fail_msg("'%s': %s", text, err.text);
    }
    return shape;
}

/* Refused with every one of the given words in the text; *out untouched. */
static void
refuse(const char *text, size_t len, const char *first, const char *second, const char *third)
{
    struct hspz_shape shape;
    struct hspz_shape before;
    memset(&shape, 0x5a, sizeof(shape));
    memcpy(&before, &shape, sizeof(shape));
    struct hspz_error err = {0};
    assert_int_equal(hspz_shape_parse(text, len, &shape, &err), HSPZ_E_BAD_REQUEST);
    assert_memory_equal(&shape, &before, sizeof(shape));
    const char *words[] = {first, second, third};
    for (size_t i = 0; i < 3; i++) {
        if (strstr(err.text, words[i]) == NULL) {
            fail_msg("no '%s' in: %s", words[i], err.text);
        }
    }
    assert_int_equal(hspz_shape_parse(text, len, &shape, NULL), HSPZ_E_BAD_REQUEST);
}

static void
refuse_text(const char *text, const char *first, const char *second, const char *third)
{
    refuse(text, strlen(text), first, second, third);
}

/* Word and window by SPEC section 1, base by base. */
static uint32_t
gather(const char *pattern, const uint8_t *bases, size_t span)
{
    uint32_t word = 0;
    for (size_t i = 0; i < span; i++) {
        if (pattern[i] != '0') {
            word = word << 2 | bases[i];
        }
    }
    return word;
}

static hspz_window
pack(const uint8_t *bases, size_t span)
{
    hspz_window window = 0;
    for (size_t i = 0; i < span; i++) {
        window = window << 2 | bases[i];
    }
    return window;
}

static void
test_parse_knows_the_two_names(void **state)
{
    (void)state;
    const struct hspz_shape a = parse("12of19");
    assert_string_equal(a.pattern, "1110100110010101111");
    assert_int_equal(a.weight, 12);
    assert_int_equal(a.span, 19);
    assert_int_equal(hspz_shape_words(&a), 16777216);
    const struct hspz_shape b = parse("14of22");
    assert_string_equal(b.pattern, "1110101100110010101111");
    assert_int_equal(b.weight, 14);
    assert_int_equal(b.span, 22);
    assert_int_equal(hspz_shape_words(&b), 268435456);
    assert_false(hspz_shape_equal(&a, &b));

    refuse_text("13of20", "13of20", "12of19", "14of22");
    refuse_text("012of19", "012of19", "12of19", "14of22");
    refuse_text("1of1", "1of1", "12of19", "14of22");
    refuse_text("12of", "12of", "0x32", "weight");
    refuse_text("of19", "of19", "0x6f", "weight");
    refuse_text("12of19 ", "12of19 ", "0x32", "weight");
    refuse_text("12OF19", "12OF19", "0x32", "weight");
}

static void
test_parse_takes_t_for_1(void **state)
{
    (void)state;
    const struct hspz_shape plain = parse("12of19");
    const struct hspz_shape same[] = {parse("TTT0T00TT00T0T0TTTT"), parse("1110100110010101111"),
                                      parse("1T10100110010101T11")};
    for (size_t i = 0; i < 3; i++) {
        assert_true(hspz_shape_equal(&plain, &same[i]));
        assert_memory_equal(plain.run_shift, same[i].run_shift, sizeof(plain.run_shift));
        assert_memory_equal(plain.run_mask, same[i].run_mask, sizeof(plain.run_mask));
        assert_string_equal(same[i].pattern, plain.pattern);
    }
    const struct hspz_shape mixed = parse("1110T");
    assert_string_equal(mixed.pattern, "11101");
    assert_int_equal(mixed.weight, 4);
    assert_int_equal(mixed.span, 5);
}

static void
test_parse_refuses_with_pattern_weight_and_span(void **state)
{
    (void)state;
    refuse_text("", "''", "weight 0", "span 0");
    refuse_text("0", "'0'", "weight 0", "span 1");
    refuse_text("111", "'111'", "weight 3", "span 3");
    refuse_text("01110", "'01110'", "weight 3", "span 5");
    refuse_text("1111111111111111", "'1111111111111111'", "weight 16", "span 16");
    char ones[41];
    memset(ones, '1', sizeof(ones));
    refuse(ones, 33, "111111'", "weight 33", "span 33");
    refuse(ones, 40, "111111'", "weight 40", "span 40");
    char wide[110];
    memset(wide, '0', sizeof(wide));
    wide[0] = '1';
    memset(wide + 99, '1', 11);
    refuse(wide, sizeof(wide), "'1000", "weight 12", "span 110");
    refuse_text("111x", "'111x'", "0x78 at position 4", "span 4");
    refuse("11\0"
           "11",
           5, "'11", "0x00 at position 3", "span 5");
    refuse_text("1111 ", "'1111 '", "0x20 at position 5", "span 5");
    refuse_text("1111t", "'1111t'", "0x74 at position 5", "span 5");

    char huge[100000];
    memset(huge, '1', sizeof(huge));
    refuse(huge, sizeof(huge), "1...'", "weight 100000", "span 100000");
}

static void
test_parse_keeps_outer_zeros_in_the_span(void **state)
{
    (void)state;
    const struct hspz_shape shape = parse("00111100");
    assert_int_equal(shape.span, 8);
    assert_int_equal(shape.weight, 4);
    assert_int_equal(shape.runs, 1);
    const uint8_t bases[8] = {3, 3, 0, 1, 2, 3, 3, 3};
    assert_int_equal(hspz_shape_word(&shape, pack(bases, 8)), 0x1b);

    char text[65];
    memset(text, '0', sizeof(text));
    memset(text, '1', 2);
    memset(text + 62, '1', 2);
    struct hspz_shape widest;
    assert_int_equal(hspz_shape_parse(text, 64, &widest, NULL), HSPZ_OK);
    assert_int_equal(widest.span, 64);
    memset(text + 62, '0', 3);
    text[64] = '1';
    text[63] = '1';
    refuse(text, 65, "span 65", "weight 4", "at most 64");
}

static void
test_word_at_weight_15_reaches_the_top(void **state)
{
    (void)state;
    const struct hspz_shape shape = parse("111111111111111");
    uint8_t bases[15];
    memset(bases, 3, sizeof(bases));
    assert_int_equal(hspz_shape_word(&shape, pack(bases, 15)), 0x3fffffff);
    assert_int_equal(hspz_shape_words(&shape), 0x40000000);
    assert_int_equal(hspz_shape_seeds_per_position(&shape, 1), 16);
    assert_int_equal(hspz_shape_seeds_per_position(&shape, 0), 1);
    assert_int_equal(hspz_shape_seeds_per_position(&shape, 2), HSPZ_SHAPE_SEEDS_MAX);
    const struct hspz_shape usual = parse("12of19");
    assert_int_equal(hspz_shape_seeds_per_position(&usual, 1), 13);
    assert_int_equal(hspz_shape_seeds_per_position(&usual, 2), 79);
    const struct hspz_shape longer = parse("14of22");
    assert_int_equal(hspz_shape_seeds_per_position(&longer, 1), 15);
}

static void
random_pattern(uint64_t *random, char *pattern, size_t *span)
{
    const size_t weight = 4 + test_random(random) % 12;
    *span = weight + test_random(random) % (HSPZ_SHAPE_SPAN_MAX - weight + 1);
    memset(pattern, '0', *span);
    pattern[*span] = '\0';
    for (size_t left = weight; left > 0;) {
        const size_t at = test_random(random) % *span;
        if (pattern[at] == '0') {
            pattern[at] = test_random(random) % 4 == 0 ? 'T' : '1';
            left--;
        }
    }
}

static void
test_word_equals_a_gather_base_by_base(void **state)
{
    (void)state;
    uint64_t random = 7;
    size_t widest = 0;
    for (int round = 0; round < 5000; round++) {
        char pattern[HSPZ_SHAPE_SPAN_MAX + 1];
        size_t span;
        random_pattern(&random, pattern, &span);
        widest = span > widest ? span : widest;
        const struct hspz_shape shape = parse(pattern);
        assert_int_equal(shape.span, span);
        assert_int_equal(shape.pattern[span], '\0');
        for (int w = 0; w < 20; w++) {
            uint8_t bases[HSPZ_SHAPE_SPAN_MAX];
            for (size_t i = 0; i < span; i++) {
                bases[i] = test_random(&random) & 3;
            }
            assert_int_equal(hspz_shape_word(&shape, pack(bases, span)),
                             gather(pattern, bases, span));
        }
    }
    assert_int_equal(widest, HSPZ_SHAPE_SPAN_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_knows_the_two_names),
        cmocka_unit_test(test_parse_takes_t_for_1),
        cmocka_unit_test(test_parse_refuses_with_pattern_weight_and_span),
        cmocka_unit_test(test_parse_keeps_outer_zeros_in_the_span),
        cmocka_unit_test(test_word_at_weight_15_reaches_the_top),
        cmocka_unit_test(test_word_equals_a_gather_base_by_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
