#include "protocol/node.h"

#include "protocol/limits.h"
#include "tests/protocol/message_bytes.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

static void
expect_refusal(const struct message_bytes *m, const char *words)
{
    struct hspz_doc *doc = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_doc_parse(m->bytes, m->len, &doc, &err), HSPZ_E_BAD_REQUEST);
    assert_null(doc);
    if (strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    }
}

static void
expect_refusal_hex(const char *hex, const char *words)
{
    struct message_bytes m = {0};
    message_bytes_hex(&m, hex);
    expect_refusal(&m, words);
    message_bytes_free(&m);
}

static void
test_node_doc_refuses_what_is_not_one_message(void **state)
{
    (void)state;
    expect_refusal_hex("", "ends early, at byte 0");
    expect_refusal_hex("92 01", "ends early, at byte 2");
    expect_refusal_hex("a3 61 62", "ends early, at byte 3");
    expect_refusal_hex("cd 01", "ends early, at byte 2");
    expect_refusal_hex("c0 c0", "1 bytes follow the end");
    expect_refusal_hex("91 c1", "0xc1");
    expect_refusal_hex("dd ffffffff", "4294967295 values");
    expect_refusal_hex("df ffffffff", "8589934590 values");
    expect_refusal_hex("c6 ffffffff", "ends early, at byte 5");
    expect_refusal_hex("db ffffffff", "65536 bytes outside");
    expect_refusal_hex("c9 ffffffff 01", "65536 bytes outside");
}

static void
test_node_doc_refuses_deep_nesting(void **state)
{
    (void)state;
    const size_t depths[] = {HSPZ_FRAME_DEPTH_LIMIT, HSPZ_FRAME_DEPTH_LIMIT + 1, 10000, 1000000};
    for (size_t i = 0; i < 4; i++) {
        struct message_bytes m = {0};
        message_bytes_fill(&m, 0x91, depths[i] - 1);
        message_bytes_hex(&m, "90");
        if (i > 0) {
            expect_refusal(&m, "deeper than 16");
        } else {
            struct hspz_doc *doc = NULL;
            assert_int_equal(hspz_doc_parse(m.bytes, m.len, &doc, NULL), HSPZ_OK);
            const struct hspz_node *node = hspz_doc_root(doc);
            for (size_t d = 1; d < depths[i]; d++) {
                assert_int_equal(hspz_node_count(node), 1);
                node = hspz_node_at(node, 0);
            }
            assert_int_equal(hspz_node_type(node), HSPZ_NODE_ARRAY);
            assert_int_equal(hspz_node_count(node), 0);
            hspz_doc_destroy(&doc);
            assert_null(doc);
        }
        message_bytes_free(&m);
    }
}

static const struct hspz_node *
parse_one(const char *hex, struct message_bytes *m, struct hspz_doc **doc)
{
    message_bytes_hex(m, hex);
    assert_int_equal(hspz_doc_parse(m->bytes, m->len, doc, NULL), HSPZ_OK);
    return hspz_doc_root(*doc);
}

/* Every form of every type, with what each getter says. */
static void
test_node_getters_answer_for_their_type_only(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        enum hspz_node_type type;
        uint64_t uint;
        int64_t integer; /* 0: not one */
    } cases[] = {
        {"c0", HSPZ_NODE_NIL, 0, 0},
        {"c3", HSPZ_NODE_BOOL, 0, 0},
        {"7f", HSPZ_NODE_UINT, 127, 127},
        {"cc ff", HSPZ_NODE_UINT, 255, 255},
        {"cd ffff", HSPZ_NODE_UINT, 65535, 65535},
        {"ce ffffffff", HSPZ_NODE_UINT, UINT32_MAX, UINT32_MAX},
        {"cf 7fffffffffffffff", HSPZ_NODE_UINT, INT64_MAX, INT64_MAX},
        {"cf 8000000000000000", HSPZ_NODE_UINT, UINT64_C(1) << 63, 0},
        {"cf ffffffffffffffff", HSPZ_NODE_UINT, UINT64_MAX, 0},
        {"d3 0000000000000005", HSPZ_NODE_UINT, 5, 5},
        {"ff", HSPZ_NODE_INT, 0, -1},
        {"d0 80", HSPZ_NODE_INT, 0, -128},
        {"d1 8000", HSPZ_NODE_INT, 0, -32768},
        {"d2 80000000", HSPZ_NODE_INT, 0, INT32_MIN},
        {"d3 8000000000000000", HSPZ_NODE_INT, 0, INT64_MIN},
        {"ca 40000000", HSPZ_NODE_FLOAT, 0, 0},
        {"cb 4000000000000000", HSPZ_NODE_FLOAT, 0, 0},
        {"a0", HSPZ_NODE_STR, 0, 0},
        {"d9 01 78", HSPZ_NODE_STR, 0, 0},
        {"da 0001 78", HSPZ_NODE_STR, 0, 0},
        {"db 00000001 78", HSPZ_NODE_STR, 0, 0},
        {"c4 00", HSPZ_NODE_BIN, 0, 0},
        {"c5 0001 78", HSPZ_NODE_BIN, 0, 0},
        {"c6 00000001 78", HSPZ_NODE_BIN, 0, 0},
        {"90", HSPZ_NODE_ARRAY, 0, 0},
        {"dc 0000", HSPZ_NODE_ARRAY, 0, 0},
        {"dd 00000001 c0", HSPZ_NODE_ARRAY, 0, 0},
        {"80", HSPZ_NODE_MAP, 0, 0},
        {"de 0000", HSPZ_NODE_MAP, 0, 0},
        {"df 00000001 01 02", HSPZ_NODE_MAP, 0, 0},
        {"d4 01 00", HSPZ_NODE_EXT, 0, 0},
        {"d8 01 00000000000000000000000000000000", HSPZ_NODE_EXT, 0, 0},
        {"c7 00 01", HSPZ_NODE_EXT, 0, 0},
        {"c8 0001 01 02", HSPZ_NODE_EXT, 0, 0},
        {"c9 00000001 01 02", HSPZ_NODE_EXT, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message_bytes m = {0};
        struct hspz_doc *doc = NULL;
        const struct hspz_node *node = parse_one(cases[i].hex, &m, &doc);
        const enum hspz_node_type type = cases[i].type;
        assert_int_equal(hspz_node_type(node), type);
        uint64_t uint = 77;
        int64_t integer = 77;
        double real = 77;
        bool flag = false;
        struct hspz_span span = {0};
        assert_int_equal(hspz_node_uint(node, &uint), type == HSPZ_NODE_UINT);
        assert_true(uint == (type == HSPZ_NODE_UINT ? cases[i].uint : 77));
        assert_int_equal(hspz_node_int(node, &integer), cases[i].integer != 0);
        assert_true(integer == (cases[i].integer != 0 ? cases[i].integer : 77));
        assert_int_equal(hspz_node_float(node, &real), type == HSPZ_NODE_FLOAT);
        assert_true(real == (type == HSPZ_NODE_FLOAT ? 2.0 : 77));
        assert_int_equal(hspz_node_bool(node, &flag), type == HSPZ_NODE_BOOL);
        assert_int_equal(hspz_node_str(node, &span), type == HSPZ_NODE_STR);
        assert_int_equal(hspz_node_bin(node, &span), type == HSPZ_NODE_BIN);
        assert_int_equal(hspz_node_text(node, &span),
                         type == HSPZ_NODE_STR || type == HSPZ_NODE_BIN);
        if (span.len == 1) {
            assert_int_equal(span.bytes[0], 'x');
            assert_ptr_equal(span.bytes, m.bytes + m.len - 1);
        }
        if (type != HSPZ_NODE_ARRAY && type != HSPZ_NODE_MAP) {
            assert_int_equal(hspz_node_count(node), 0);
        }
        assert_null(hspz_node_at(node, 1));
        assert_null(hspz_node_get(node, "x"));
        hspz_doc_destroy(&doc);
        message_bytes_free(&m);
    }
    uint64_t uint;
    assert_false(hspz_node_uint(NULL, &uint));
    assert_int_equal(hspz_node_type(NULL), HSPZ_NODE_NIL);
    assert_int_equal(hspz_node_count(NULL), 0);
    assert_null(hspz_node_at(NULL, 0));
    assert_null(hspz_node_get(NULL, "x"));
    assert_false(hspz_node_str_is(NULL, ""));
}

static void
test_node_maps_are_read_by_place_and_by_key(void **state)
{
    (void)state;
    struct message_bytes m = {0};
    struct hspz_doc *doc = NULL;
    const struct hspz_node *map = parse_one("84 01 02 a1 61 03 c4 01 62 04 a2 61 62 05", &m, &doc);
    assert_int_equal(hspz_node_count(map), 4);
    uint64_t value = 0;
    assert_true(hspz_node_uint(hspz_node_get(map, "a"), &value) && value == 3);
    assert_true(hspz_node_uint(hspz_node_get(map, "ab"), &value) && value == 5);
    assert_null(hspz_node_get(map, "b")); /* a bin */
    assert_null(hspz_node_get(map, ""));
    assert_true(hspz_node_uint(hspz_node_key_at(map, 0), &value) && value == 1);
    assert_true(hspz_node_uint(hspz_node_value_at(map, 2), &value) && value == 4);
    assert_null(hspz_node_key_at(map, 4));
    assert_null(hspz_node_value_at(map, 4));
    assert_null(hspz_node_at(map, 0));
    hspz_doc_destroy(&doc);
    message_bytes_free(&m);
}

static void
test_node_doc_takes_random_messages_and_no_prefix(void **state)
{
    (void)state;
    uint64_t random = 11;
    unsigned values = 0;
    for (unsigned i = 0; i < 500; i++) {
        struct random_message m;
        random_message_make(&m, &random, i % 2);
        struct hspz_doc *doc = NULL;
        assert_int_equal(hspz_doc_parse(m.message.bytes, m.message.len, &doc, NULL), HSPZ_OK);
        hspz_doc_destroy(&doc);
        values += m.values;
        for (unsigned n = 0; n < 20; n++) {
            const size_t cut = test_random(&random) % m.message.len;
            /* A copy of its own, so that reading past it is seen. */
            uint8_t *bytes = malloc(cut + 1);
            assert_non_null(bytes);
            memcpy(bytes, m.message.bytes, cut);
            assert_int_equal(hspz_doc_parse(bytes, cut, &doc, NULL), HSPZ_E_BAD_REQUEST);
            free(bytes);
        }
        random_message_free(&m);
    }
    assert_true(values > 10000);
}

static void
test_node_doc_survives_each_failing_allocation(void **state)
{
    (void)state;
    struct message_bytes m = {0};
    message_bytes_head(&m, 0xdc, 2000, 2);
    message_bytes_fill(&m, 0x90, 2000);
    unsigned failures = 0;
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct hspz_doc *doc = NULL;
        failing_malloc_arm(n);
        const enum hspz_status status = hspz_doc_parse(m.bytes, m.len, &doc, NULL);
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_int_equal(doc == NULL, failed);
        failures += failed;
        hspz_doc_destroy(&doc);
    }
    /* The document itself; with msgpack-c linked statically, its zone as well. */
    assert_true(failures >= 1);
    print_message("%u allocations failed, each once\n", failures);
    message_bytes_free(&m);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_doc_refuses_what_is_not_one_message),
        cmocka_unit_test(test_node_doc_refuses_deep_nesting),
        cmocka_unit_test(test_node_getters_answer_for_their_type_only),
        cmocka_unit_test(test_node_maps_are_read_by_place_and_by_key),
        cmocka_unit_test(test_node_doc_takes_random_messages_and_no_prefix),
        cmocka_unit_test(test_node_doc_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
