#include "client/number.h"

#include "tests/support/test.h"

static void
test_number_takes_whole_texts_in_range(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_int_equal(hspz_number_parse("-n", "0", 0, 9, &value, NULL), HSPZ_OK);
    assert_int_equal(value, 0);
    assert_int_equal(hspz_number_parse("-n", "18446744073709551615", 0, UINT64_MAX, &value, NULL),
                     HSPZ_OK);
    assert_true(value == UINT64_MAX);
    assert_int_equal(hspz_number_parse("-n", "007", 7, 7, &value, NULL), HSPZ_OK);
    assert_int_equal(value, 7);
    static const char *const bad[] = {"",    "1e5", "10k",   "0x10",
                                      "-1",  "5x",  " 5",    "5 ",
                                      "nan", "+5",  "1.0",   "18446744073709551616",
                                      "inf", "-",   "1,000", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hspz_error err;
        value = 42;
        assert_int_equal(hspz_number_parse("--max", bad[i], 0, UINT64_MAX, &value, &err),
                         HSPZ_E_BAD_REQUEST);
        assert_int_equal(value, 42);
        char quoted[64];
        snprintf(quoted, sizeof(quoted), "--max \"%s\"", bad[i]);
        assert_non_null(strstr(err.text, quoted));
    }
    assert_int_equal(hspz_number_parse("-n", "4", 5, 9, &value, NULL), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_number_parse("-n", "10", 5, 9, &value, NULL), HSPZ_E_BAD_REQUEST);
}

static void
test_seconds_have_three_decimals_at_most(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},         {"1", 1000},    {"1.5", 1500},
                {"0.001", 1},     {"2.05", 2050}, {"2000000", 2000000000},
                {"10.250", 10250}};
    int64_t ms = 0;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(hspz_seconds_parse("-s", good[i].text, false, &ms, NULL), HSPZ_OK);
        assert_int_equal(ms, good[i].ms);
    }
    static const char *const bad[] = {"",   ".",       "1.",  ".5",   "1.2345", "-1",  "1,5", "1e3",
                                      " 1", "2000001", "nan", "1.-1", "1..",    "0x1", "-0.5"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(hspz_seconds_parse("-s", bad[i], false, &ms, NULL), HSPZ_E_BAD_REQUEST);
    }
    assert_int_equal(hspz_seconds_parse("-s", "-1", true, &ms, NULL), HSPZ_OK);
    assert_int_equal(ms, -1);
    assert_int_equal(hspz_seconds_parse("-s", "-2", true, &ms, NULL), HSPZ_E_BAD_REQUEST);
}

static void
test_fractions_are_taken_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},        {"1", 1},         {"0.001", 0.001},  {"1e-3", 0.001},
                {"2.5E+1", 25},  {"007.50", 7.5},  {"1e0", 1},        {"0.0e5", 0},
                {"1e-400", 0.0}, {"12345", 12345}, {"0.1e-1", 0.1e-1}};
    double value = 0;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(hspz_fraction_parse("-r", good[i].text, &value, NULL), HSPZ_OK);
        assert_true(value == good[i].value);
    }
    static const char *const bad[] = {"",    ".",     "1.",  ".5",    "1e",   "1e+",  "e1",
                                      "-1",  "+1",    "1,5", " 1",    "1 ",   "0x1p", "nan",
                                      "inf", "1e999", "5x",  "1.2.3", "1e1e1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        value = 42;
        assert_int_equal(hspz_fraction_parse("-r", bad[i], &value, NULL), HSPZ_E_BAD_REQUEST);
        assert_true(value == 42);
    }
}

static void
test_keys_are_decimal_or_hexadecimal(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},
                {"007", 7},
                {"0x0", 0},
                {"0XfF", 255},
                {"18446744073709551615", UINT64_MAX},
                {"0xffffffffffffffff", UINT64_MAX},
                {"0x00000000000000000000001", 1}};
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(hspz_key_parse(good[i].text, strlen(good[i].text), &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {"",     "0x",  "x1", "0xg",  "18446744073709551616", "-1",
                                      "f",    " 1",  "1 ", "0x 1", "0x10000000000000000",  "1e5",
                                      "0x-1", "1.0", "+1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(hspz_key_parse(bad[i], strlen(bad[i]), &value));
    }
}

static void
test_word_counts_are_numbers_or_percentages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t count, keep;
    } good[] = {{"0", 0, 7},      {"17", 17, 7},     {"100%", 7, 1000000},    {"98.5%", 7, 985000},
                {"1%", 7, 10000}, {"0.0001%", 7, 1}, {"33.3333%", 7, 333333}, {"007.5%", 7, 75000}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t count = 7, keep = 7;
        assert_int_equal(hspz_word_count_parse(good[i].text, &count, &keep, NULL), HSPZ_OK);
        assert_int_equal(count, good[i].count);
        assert_int_equal(keep, good[i].keep);
    }
    static const char *const bad[] = {"",
                                      "%",
                                      "0%",
                                      "0.0%",
                                      "100.0001%",
                                      "101%",
                                      "-1%",
                                      "1.%",
                                      ".5%",
                                      "1,5%",
                                      "1.5",
                                      "5%%",
                                      "1e1%",
                                      " 5%",
                                      "5 %",
                                      "0.00001%",
                                      "18446744073709551617%",
                                      "1.2.3%"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t count = 7, keep = 7;
        assert_int_equal(hspz_word_count_parse(bad[i], &count, &keep, NULL), HSPZ_E_BAD_REQUEST);
        assert_true(count == 7 && keep == 7);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_takes_whole_texts_in_range),
        cmocka_unit_test(test_seconds_have_three_decimals_at_most),
        cmocka_unit_test(test_fractions_are_taken_whole),
        cmocka_unit_test(test_keys_are_decimal_or_hexadecimal),
        cmocka_unit_test(test_word_counts_are_numbers_or_percentages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
