/* Expected bytes are those of the MessagePack specification, written by hand. */
#include "protocol/writer.h"

#include "tests/protocol/message_bytes.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

static void
expect(struct hspz_writer *w, const char *hex)
{
    struct message_bytes m = {0};
    message_bytes_hex(&m, hex);
    uint8_t *bytes = NULL;
    size_t len = 0;
    assert_int_equal(hspz_writer_take(w, &bytes, &len), HSPZ_OK);
    assert_int_equal(len, m.len);
    assert_memory_equal(bytes, m.bytes, len);
    assert_true(w->len == 0 && w->bytes == NULL);
    free(bytes);
    message_bytes_free(&m);
}

static void
test_writer_numbers_take_the_shortest_form(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *hex;
    } uints[] = {
        {0, "00"},
        {127, "7f"},
        {128, "cc80"},
        {255, "ccff"},
        {256, "cd0100"},
        {65535, "cdffff"},
        {65536, "ce00010000"},
        {UINT32_MAX, "ceffffffff"},
        {UINT64_C(1) << 32, "cf0000000100000000"},
        {UINT64_MAX, "cfffffffffffffffff"},
    };
    static const struct {
        int64_t value;
        const char *hex;
    } ints[] = {
        {5, "05"},
        {300, "cd012c"},
        {INT64_MAX, "cf7fffffffffffffff"},
        {-1, "ff"},
        {-32, "e0"},
        {-33, "d0df"},
        {-128, "d080"},
        {-129, "d1ff7f"},
        {-32768, "d18000"},
        {-32769, "d2ffff7fff"},
        {INT32_MIN, "d280000000"},
        {(int64_t)INT32_MIN - 1, "d3ffffffff7fffffff"},
        {INT64_MIN, "d38000000000000000"},
    };
    struct hspz_writer w;
    hspz_writer_init(&w);
    for (size_t i = 0; i < sizeof(uints) / sizeof(uints[0]); i++) {
        hspz_write_uint(&w, uints[i].value);
        expect(&w, uints[i].hex);
    }
    for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
        hspz_write_int(&w, ints[i].value);
        expect(&w, ints[i].hex);
    }
}

static void
test_writer_values_have_the_bytes_of_the_specification(void **state)
{
    (void)state;
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_write_array(&w, 5);
    hspz_write_nil(&w);
    hspz_write_bool(&w, true);
    hspz_write_bool(&w, false);
    hspz_write_float(&w, 1.5);
    hspz_write_bin(&w, "ab", 2);
    expect(&w, "95 c0 c3 c2 cb3ff8000000000000 c4026162");
    hspz_write_map(&w, 4);
    hspz_write_key_uint(&w, "u", 9);
    hspz_write_key_bool(&w, "b", true);
    hspz_write_key_float(&w, "f", 0);
    hspz_write_key_str(&w, "s", "");
    expect(&w, "84 a175 09 a162 c3 a166 cb0000000000000000 a173 a0");
    hspz_write_bin(&w, NULL, 0);
    hspz_write_bin_header(&w, 255);
    hspz_write_bin_header(&w, 256);
    hspz_write_bin_header(&w, 65536);
    hspz_write_bin_header(&w, UINT32_MAX);
    expect(&w, "c400 c4ff c50100 c600010000 c6ffffffff");
    hspz_write_array(&w, 15);
    hspz_write_array(&w, 16);
    hspz_write_array(&w, 65536);
    hspz_write_map(&w, 15);
    hspz_write_map(&w, 16);
    hspz_write_map(&w, 65536);
    expect(&w, "9f dc0010 dd00010000 8f de0010 df00010000");
}

static void
test_writer_strings_take_the_shortest_form(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        const char *head;
    } cases[] = {{0, "a0"},       {31, "bf"},        {32, "d920"},         {255, "d9ff"},
                 {256, "da0100"}, {65535, "daffff"}, {65536, "db00010000"}};
    char *text = malloc(65536);
    assert_non_null(text);
    memset(text, 'x', 65536);
    for (size_t i = 0; i < 7; i++) {
        struct message_bytes m = {0};
        message_bytes_hex(&m, cases[i].head);
        message_bytes_fill(&m, 'x', cases[i].len);
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_write_strn(&w, text, cases[i].len);
        assert_int_equal(w.len, m.len);
        assert_memory_equal(w.bytes, m.bytes, m.len);
        hspz_writer_fini(&w);
        assert_null(w.bytes);
        message_bytes_free(&m);
    }
    free(text);
}

/* Validity as the Unicode standard's table 3-7 has it. */
static void
test_writer_text_is_str_only_when_it_is_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"\xc2\x80", true},
        {"\xdf\xbf", true},
        {"\xe0\xa0\x80", true},
        {"\xed\x9f\xbf", true},
        {"\xee\x80\x80", true},
        {"\xef\xbf\xbf", true},
        {"\xf0\x90\x80\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\x80", false},
        {"\xbf", false},
        {"\xc0\x80", false},
        {"\xc1\xbf", false},
        {"\xc2", false},
        {"\xc2\x41", false},
        {"\xe0\x9f\xbf", false},
        {"\xe1\x80", false},
        {"\xe1\x80\x41", false},
        {"\xed\xa0\x80", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xf0\x90\x80", false},
        {"\xf4\x90\x80\x80", false},
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
        {"ok then \xfe", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t len = strlen(cases[i].bytes);
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_write_text(&w, cases[i].bytes, len);
        const size_t head = cases[i].valid ? 1 : 2;
        assert_int_equal(w.bytes[0], cases[i].valid ? 0xa0 | len : 0xc4);
        assert_int_equal(w.len, head + len);
        assert_memory_equal(w.bytes + head, cases[i].bytes, len);
        hspz_writer_fini(&w);
    }
    static char longest[4098];
    memset(longest, 'n', sizeof(longest) - 1);
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_write_text(&w, longest, 4096);
    assert_int_equal(w.bytes[0], 0xda);
    hspz_writer_fini(&w);
    hspz_write_text(&w, longest, 4097);
    assert_int_equal(w.bytes[0], 0xc5);
    hspz_writer_fini(&w);
}

static void
test_writer_remembers_a_failing_allocation(void **state)
{
    (void)state;
    unsigned failures = 0;
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct hspz_writer w;
        hspz_writer_init(&w);
        failing_malloc_arm(n);
        for (unsigned i = 0; i < 2000; i++) {
            hspz_write_key_uint(&w, "key", i);
        }
        failed = failing_malloc_disarm();
        assert_int_equal(w.failed, failed);
        const size_t len = w.len;
        hspz_write_nil(&w);
        assert_int_equal(w.len, failed ? len : len + 1);
        uint8_t *bytes = NULL;
        size_t took = 0;
        assert_int_equal(hspz_writer_take(&w, &bytes, &took),
                         failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        failures += failed;
        hspz_writer_fini(&w);
        assert_false(w.failed);
        free(bytes);
    }
    assert_true(failures >= 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_numbers_take_the_shortest_form),
        cmocka_unit_test(test_writer_values_have_the_bytes_of_the_specification),
        cmocka_unit_test(test_writer_strings_take_the_shortest_form),
        cmocka_unit_test(test_writer_text_is_str_only_when_it_is_utf8),
        cmocka_unit_test(test_writer_remembers_a_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
