#include "protocol/status.h"

#include "tests/support/test.h"

static void
test_status_names_round_trip(void **state)
{
    (void)state;
#define ROW(id, number, name, text)                                                                \
    assert_int_equal(id, number);                                                                  \
    assert_string_equal(hspz_status_name(id), name);                                               \
    assert_string_equal(hspz_status_text(id), text);                                               \
    assert_int_equal(hspz_status_from_name(name, strlen(name)), id);
    HSPZ_STATUS_LIST(ROW)
#undef ROW
    assert_int_equal(hspz_status_from_name("nonsense", 8), HSPZ_E_INTERNAL);
    assert_int_equal(hspz_status_from_name("ok ", 3), HSPZ_E_INTERNAL);
    assert_string_equal(hspz_status_name((enum hspz_status)999), "internal");
}

static void
test_error_text_is_one_line_and_bounded(void **state)
{
    (void)state;
    struct hspz_error err;
    assert_int_equal(hspz_error_set(&err, HSPZ_E_IO, "a\nb\x7f%s", "\t"), HSPZ_E_IO);
    assert_string_equal(err.text, "a?b??");
    assert_false(err.has_hits);

    char big[2 * HSPZ_ERROR_TEXT_BYTES];
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    assert_int_equal(hspz_error_set(&err, HSPZ_E_BAD_FILE, "%s", big), HSPZ_E_BAD_FILE);
    assert_int_equal(strlen(err.text), HSPZ_ERROR_TEXT_BYTES - 1);
    assert_string_equal(err.text + HSPZ_ERROR_TEXT_BYTES - 4, "...");

    assert_int_equal(hspz_error_errno(&err, HSPZ_E_IO, 2, "open"), HSPZ_E_IO);
    assert_string_equal(err.text, "open: No such file or directory");
    assert_int_equal(hspz_error_set(NULL, HSPZ_E_IO, "x"), HSPZ_E_IO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names_round_trip),
        cmocka_unit_test(test_error_text_is_one_line_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
