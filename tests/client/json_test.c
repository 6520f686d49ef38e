#include "client/json.h"

#include "protocol/writer.h"
#include "tests/support/test.h"

static void
check(const char *text, size_t len, const char *want)
{
    char out[256];
    assert_true(HSPZ_JSON_GROWTH * len < sizeof(out));
    const size_t n = hspz_json_escape(out, text, len);
    assert_true(n <= HSPZ_JSON_GROWTH * len);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(out, want, n);
}

static void
test_json_keeps_utf8_and_escapes_the_rest(void **state)
{
    (void)state;
    check("chr1|x", 6, "chr1|x");
    check("a\"b\\c/", 6, "a\\\"b\\\\c/");
    check("\x01\t\x7f", 3, "\\u0001\\u0009\\u007f");
    check("\xe5\x90\x8d", 3, "\xe5\x90\x8d");
    check("\xf0\x9f\xa7\xac", 4, "\xf0\x9f\xa7\xac");
    check("", 0, "");
}

static void
test_json_takes_what_is_no_utf8_as_latin1(void **state)
{
    (void)state;
    check("a\xff", 2, "a\\u00ff");
    check("\xe5\x90", 2, "\\u00e5\\u0090");            /* cut */
    check("\xc0\xaf", 2, "\\u00c0\\u00af");            /* overlong */
    check("\xe0\x80\xaf", 3, "\\u00e0\\u0080\\u00af"); /* overlong */
    check("\xed\xa0\x80", 3, "\\u00ed\\u00a0\\u0080"); /* surrogate */
    check("\xf4\x90\x80\x80", 4, "\\u00f4\\u0090\\u0080\\u0080");
    check("\xe5\x90\x8d\xff", 4, "\\u00e5\\u0090\\u008d\\u00ff"); /* as a whole */
    check("\x80", 1, "\\u0080");
}

static void
test_json_of_a_node(void **state)
{
    (void)state;
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_write_map(&w, 4);
    hspz_write_key_uint(&w, "big", UINT64_MAX);
    hspz_write_key_float(&w, "half", 0.5);
    hspz_write_str(&w, "list");
    hspz_write_array(&w, 4);
    hspz_write_int(&w, -3);
    hspz_write_bool(&w, true);
    hspz_write_nil(&w);
    hspz_write_str(&w, "a\"b");
    hspz_write_str(&w, "empty");
    hspz_write_map(&w, 0);
    uint8_t *bytes = NULL;
    size_t len = 0;
    assert_int_equal(hspz_writer_take(&w, &bytes, &len), HSPZ_OK);
    struct hspz_doc *doc = NULL;
    assert_int_equal(hspz_doc_parse(bytes, len, &doc, NULL), HSPZ_OK);
    char *json = NULL;
    assert_int_equal(hspz_json_of_node(hspz_doc_root(doc), &json), HSPZ_OK);
    assert_string_equal(json, "{\"big\": 18446744073709551615, \"half\": 0.5, "
                              "\"list\": [-3, true, null, \"a\\\"b\"], \"empty\": {}}");
    free(json);
    hspz_doc_destroy(&doc);
    free(bytes);
    hspz_writer_fini(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_keeps_utf8_and_escapes_the_rest),
        cmocka_unit_test(test_json_takes_what_is_no_utf8_as_latin1),
        cmocka_unit_test(test_json_of_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
