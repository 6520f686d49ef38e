/* Requests are written here by hand (message_bytes), or by the real encoders and read back. */
#include "protocol/filter_message.h"

#include "tests/protocol/message_bytes.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <inttypes.h>

/* A document over bytes that it keeps. */
struct parsed {
    uint8_t *bytes;
    struct hspz_doc *doc;
    struct hspz_message message;
};

static void
parse(struct parsed *p, const uint8_t *bytes, size_t len)
{
    bool answerable;
    struct hspz_error err = {0};
    p->bytes = malloc(len);
    assert_non_null(p->bytes);
    memcpy(p->bytes, bytes, len);
    if (hspz_doc_parse(p->bytes, len, &p->doc, &err) != HSPZ_OK ||
        hspz_message_decode(p->doc, &p->message, &answerable, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

static void
parse_writer(struct parsed *p, struct hspz_writer *w)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    assert_int_equal(hspz_writer_take(w, &bytes, &len), HSPZ_OK);
    parse(p, bytes, len);
    free(bytes);
}

static void
release(struct parsed *p)
{
    hspz_doc_destroy(&p->doc);
    free(p->bytes);
    *p = (struct parsed){0};
}

/* Hand-written values. */
static void
put_str(struct message_bytes *m, const char *text)
{
    message_bytes_head(m, 0xd9, strlen(text), 1);
    message_bytes_add(m, text, strlen(text));
}

static void
put_uint(struct message_bytes *m, uint64_t value)
{
    message_bytes_head(m, 0xcf, value >> 32, 4);
    const uint8_t low[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                            (uint8_t)value};
    message_bytes_add(m, low, 4);
}

/* `text` is a small notation: pairs "key value", value a word of [0-9]+ (uint), true, false, nil,
 * -1, 1.5, 'word' (str), #N (bin of N zeros), *N (bin of N bytes 0x7f), [] or {} (empty), {b#N}
 * (map of a bin `bases`), or {key:value,...} (map of pairs). */
static void
put_value(struct message_bytes *m, const char *word, size_t len)
{
    if (word[0] >= '0' && word[0] <= '9' && memchr(word, '.', len) == NULL) {
        put_uint(m, strtoull(word, NULL, 10));
    } else if (word[0] == '\'') {
        char text[80];
        snprintf(text, sizeof(text), "%.*s", (int)(len - 2), word + 1);
        put_str(m, text);
    } else if (word[0] == '#' || word[0] == '*') {
        const uint64_t bytes = strtoull(word + 1, NULL, 10);
        message_bytes_head(m, 0xc6, bytes, 4);
        message_bytes_fill(m, word[0] == '#' ? 0 : 0x7f, bytes);
    } else if (memcmp(word, "{b#", len < 3 ? len : 3) == 0) {
        message_bytes_hex(m, "81");
        put_str(m, "bases");
        put_value(m, word + 2, len - 3);
    } else if (word[0] == '{' && memchr(word, ':', len) != NULL) {
        unsigned pairs = 1;
        for (size_t i = 0; i < len; i++) {
            pairs += word[i] == ',';
        }
        message_bytes_head(m, 0xde, pairs, 2);
        for (const char *at = word + 1; at < word + len;) {
            char key[80];
            const size_t key_len = strcspn(at, ":");
            const size_t value_len = strcspn(at + key_len + 1, ",}");
            snprintf(key, sizeof(key), "%.*s", (int)key_len, at);
            put_str(m, key);
            put_value(m, at + key_len + 1, value_len);
            at += key_len + value_len + 2;
        }
    } else {
        static const char *const words[][2] = {{"true", "c3"},
                                               {"false", "c2"},
                                               {"nil", "c0"},
                                               {"-1", "ff"},
                                               {"1.5", "cb 3ff8000000000000"},
                                               {"[]", "90"},
                                               {"{}", "80"}};
        for (size_t i = 0; i < 7; i++) {
            if (strlen(words[i][0]) == len && memcmp(words[i][0], word, len) == 0) {
                message_bytes_hex(m, words[i][1]);
                return;
            }
        }
        fail_msg("notation %s", word);
    }
}

static void
make_request(struct message_bytes *m, const char *method, const char *text)
{
    size_t words = 0;
    for (const char *c = text; *c != '\0'; c++) {
        words += *c == ' ';
    }
    words += *text != '\0';
    assert_int_equal(words % 2, 0);
    message_bytes_hex(m, "94 00 07");
    put_str(m, method);
    message_bytes_hex(m, "91");
    message_bytes_head(m, 0xde, words / 2, 2);
    for (size_t i = 0; i < words; i++) {
        const size_t len = strcspn(text, " ");
        if (i % 2 == 0) {
            char key[80];
            snprintf(key, sizeof(key), "%.*s", (int)len, text);
            put_str(m, key);
        } else {
            put_value(m, text, len);
        }
        text += len + (text[len] == ' ');
    }
}

/* Any method's parameters, into whatever its struct is. */
union any_params {
    struct hspz_hello_params hello;
    struct hspz_discover_params discover;
    struct hspz_cancel_params cancel;
    struct hspz_drain_params drain;
    struct hspz_list_params list;
    struct hspz_describe_params describe;
    struct hspz_index_params_name name;
    struct hspz_load_params load;
    struct hspz_build_params build;
    struct hspz_filter_create_params filter_create;
    struct hspz_filter_keys_params filter_keys;
    struct hspz_filter_enumerate_params filter_enumerate;
    struct hspz_filter_merge_params filter_merge;
    struct hspz_filter_name_params filter_name;
};

static enum hspz_status
decode_filter(const struct hspz_message *message, union any_params *out, struct hspz_error *err)
{
    const struct hspz_node *params = message->params;
    switch (message->method) {
    case HSPZ_METHOD_FILTER_CREATE:
        return hspz_filter_create_decode(params, &out->filter_create, err);
    case HSPZ_METHOD_FILTER_ENUMERATE:
        return hspz_filter_enumerate_decode(params, &out->filter_enumerate, err);
    case HSPZ_METHOD_FILTER_MERGE:
        return hspz_filter_merge_decode(params, &out->filter_merge, err);
    case HSPZ_METHOD_FILTER_LIST:
        return hspz_filter_list_decode(params, &out->list, err);
    default:
        return hspz_filter_takes_keys(message->method)
                   ? hspz_filter_keys_decode(message->method, params, &out->filter_keys, err)
                   : hspz_filter_name_decode(message->method, params, &out->filter_name, err);
    }
}

static enum hspz_status
decode_any(const struct hspz_message *message, union any_params *out, struct hspz_error *err)
{
    switch (message->method) {
    case HSPZ_METHOD_HELLO:
        return hspz_hello_decode(message->params, &out->hello, err);
    case HSPZ_METHOD_DISCOVER:
        return hspz_discover_decode(message->params, &out->discover, err);
    case HSPZ_METHOD_CANCEL:
        return hspz_cancel_decode(message->params, &out->cancel, err);
    case HSPZ_METHOD_INDEX_LIST:
        return hspz_list_decode(message->params, &out->list, err);
    case HSPZ_METHOD_INDEX_DESCRIBE:
        return hspz_describe_decode(message->params, &out->describe, err);
    case HSPZ_METHOD_INDEX_LOAD:
        return hspz_load_decode(message->params, &out->load, err);
    case HSPZ_METHOD_INDEX_UNLOAD:
        return hspz_index_name_decode(message->params, &out->name, err);
    case HSPZ_METHOD_INDEX_BUILD:
        return hspz_build_decode(message->params, &out->build, err);
    case HSPZ_METHOD_STATS:
        return hspz_stats_decode(message->params, &out->list, err);
    case HSPZ_METHOD_DRAIN:
        return hspz_drain_decode(message->params, &out->drain, err);
    case HSPZ_METHOD_HEALTH:
    case HSPZ_METHOD_SHM_OPEN:
        return hspz_no_params_decode(message->params, err);
    default:
        return decode_filter(message, out, err);
    }
}

static void
expect_params(const char *method, const char *text, enum hspz_status want, const char *words)
{
    struct message_bytes m = {0};
    make_request(&m, method, text);
    struct parsed p = {0};
    parse(&p, m.bytes, m.len);
    assert_true(p.message.known);
    assert_int_equal(p.message.id, 7);
    union any_params params;
    struct hspz_error err = {0};
    const enum hspz_status status = decode_any(&p.message, &params, &err);
    if (status != want || err.status != want || strstr(err.text, words) == NULL) {
        fail_msg("%s {%s}: %s, \"%s\" instead of \"%s\"", method, text, hspz_status_name(status),
                 err.text, words);
    }
    assert_int_equal(decode_any(&p.message, &params, NULL), want);
    release(&p);
    message_bytes_free(&m);
}

static void
test_params_that_are_wrong_are_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"discover", "seeds #8", "\"index\" is missing in discover's parameters"},
        {"discover", "", "\"index\" is missing"},
        {"discover", "index 'e'", "wanted one of \"seeds\" and \"query\", neither is given"},
        {"discover", "index 'e' seeds #8 query {b#1}", "both are given"},
        {"discover", "index 'e' seeds #8 max_hist 3", "\"max_hist\" is not a key of discover's"},
        {"discover", "index 'e' seeds #8 index 'f'", "\"index\" is given twice"},
        {"discover", "index 'e' seeds #8 max_hits 0",
         "\"max_hits\" is 0, wanted a whole number from 1 to 18446744073709551615"},
        {"discover", "index 'e' query {b#1} mask_count 3",
         "\"mask_count\" goes with \"mask_filter\""},
        {"discover", "index 'e' query {b#1} mask_filter ''",
         "\"mask_filter\" has 0 bytes, wanted 1 to 255"},
        {"discover", "index 'e' seeds #8 mask_filter 'f'", "\"mask_filter\" goes with \"query\""},
        {"discover", "index 'e' seeds #8 keep_words 0",
         "\"keep_words\" is 0, wanted a whole number from 1 to 1000000"},
        {"discover", "index 'e' seeds #8 max_hits '8'", "\"max_hits\" is the str \"8\", wanted"},
        {"discover", "index 'e' seeds #8 max_hits -1", "\"max_hits\" is -1, wanted"},
        {"discover", "index 'e' seeds #8 max_hits true", "\"max_hits\" is true, wanted"},
        {"discover", "index 'e' seeds #8 max_hits 1.5", "\"max_hits\" is the float 1.5, wanted"},
        {"discover", "index 'e' seeds #8 max_hits nil", "\"max_hits\" is nil, wanted"},
        {"discover", "index 'e' seeds #9", "\"seeds\" has 9 bytes, wanted a multiple of 8"},
        {"discover", "index 'e' seeds 'e'", "\"seeds\" is the str \"e\", wanted a bin"},
        {"discover", "index 'e' query #9", "\"query\" is a bin of 9 bytes, wanted a map"},
        {"discover", "index 'e' query {}", "\"bases\" is missing in \"query\""},
        {"discover", "index 'e' seeds #8 strand 'plus'", "\"strand\" goes with \"query\""},
        {"discover", "index 'e' seeds #8 strand 'both'", "\"strand\" goes with \"query\""},
        {"discover", "index 'e' seeds #8 transitions true", "\"transitions\" goes with"},
        {"discover", "index 'e' query {b#1} transitions 3",
         "\"transitions\" is 3, wanted true, false or a whole number from 0 to 2"},
        {"discover", "index 'e' seeds #8 unmask false", "\"unmask\" goes with"},
        {"discover", "index 'e' seeds #8 begin 0", "\"begin\" goes with"},
        {"discover", "index 'e' seeds #8 end 9", "\"end\" goes with"},
        {"discover", "index 'e' query {b#1} begin 5 end 4", "\"begin\" is 5, after \"end\", which"},
        {"discover", "index 'e' query {b#1} strand 'up'", "\"strand\" is \"up\", wanted \"plus\""},
        {"discover", "index 'e' query {b#1} strand ''", "\"strand\" has 0 bytes"},
        {"discover", "index 'e' query {b#1} chunk_walk 'x'", "\"chunk_walk\" is \"x\", wanted"},
        {"discover", "index 'e' seeds #8 interval 0", "\"interval\" goes with \"query\""},
        {"discover", "index 'e' query {b#1} interval 5 begin 0",
         "\"interval\" goes over the whole query, so \"begin\" has no place"},
        {"discover", "index 'e' query {b#1} end 5 interval 5", "so \"end\" has no place"},
        {"discover", "index 'e' query {b#1} interval -1", "\"interval\" is -1, wanted"},
        {"discover", "index 'e' query {b#1} output 'x'",
         "\"output\" is \"x\", wanted \"anchors\" or \"hsps\""},
        {"discover", "index 'e' seeds #8 output 'hsps'", "hsps need the bases of a \"query\", not"},
        {"discover", "index 'e' query {b#1} output 'hsps' encoding 'columnar'",
         "hsps have no encoding \"columnar\""},
        {"discover", "index 'e' query {b#1} hsps {}", "\"hsps\" goes with \"output\": \"hsps\""},
        {"discover", "index 'e' seeds #8 hsps {}", "\"hsps\" goes with \"output\": \"hsps\""},
        {"discover", "index 'e' query {b#1} output 'anchors' hsps {}", "\"hsps\" goes with"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps 5", "\"hsps\" is 5, wanted a map"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {xdrip:5}",
         "\"xdrip\" is not a key of \"hsps\""},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {xdrop:100000001}",
         "\"xdrop\" is 100000001, wanted a whole number from 0 to 100000000"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {xdrop:-1}", "\"xdrop\" is -1"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {threshold:0}",
         "\"threshold\" is 0, wanted a whole number from 1 to 100000000"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {entropy:1}",
         "\"entropy\" is 1, wanted true or false"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {scope:'all'}",
         "\"scope\" is \"all\", wanted \"job\" or \"chunk\""},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {limit:nil}", "\"limit\" is nil"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {scores:#255}",
         "\"scores\" is a bin of 255 bytes, wanted 256"},
        {"discover", "index 'e' query {b#1} output 'hsps' hsps {scores:*256}",
         "entry 0 of \"scores\" is 2139062143, wanted -1000000 to 1000000"},
        {"discover", "index 'e' seeds #8 transport 'x'",
         "\"transport\" is \"x\", wanted \"stream\" or \"shm\""},
        {"discover", "index 'e' seeds {offset:0}", "\"length\" is missing in seeds"},
        {"discover", "index 'e' seeds {length:8}", "\"offset\" is missing in seeds"},
        {"discover", "index 'e' seeds {offset:-1,length:8}", "\"offset\" is -1, wanted a whole"},
        {"discover", "index 'e' seeds {offset:0,length:9}", "\"seeds\" has 9 bytes, wanted a"},
        {"discover", "index 'e' seeds {offset:0,length:8,size:8}",
         "\"size\" is not a key of seeds"},
        {"discover", "index 'e' query {bases:5}",
         "\"bases\" is 5, wanted a bin, or a map of its offset and length"},
        {"shm.open", "x 1", "\"x\" is not a key of this method's parameters"},
        {"discover", "index '' seeds #8", "\"index\" has 0 bytes, wanted 1 to 255"},
        {"discover", "index 'a\x01' seeds #8", "\"index\" has a control character (0x01) at byte"},
        {"discover", "index 'a\xc2\x9b' seeds #8", "\"index\" has a control character (0xc2) at"},
        {"discover", "index 'a\xff' seeds #8", "\"index\" is not UTF-8 at byte 1"},
        {"discover", "index 'e' seeds #8 index_digest 'abc'", "wanted 16 lower-case hexadecimal"},
        {"discover", "index 'e' seeds #8 index_digest '0123456789ABCDEF'", "wanted 16 lower-case"},
        {"discover", "index 'e' seeds #8 step 0", "\"step\" is 0, wanted a whole number from 1"},
        {"discover", "index 'e' seeds #8 digest 1", "\"digest\" is 1, wanted true or false"},
        {"hello", "", "\"protocol\" is missing in hello's parameters"},
        {"hello", "protocol '1'", "\"protocol\" is the str \"1\", wanted a whole number"},
        {"hello", "protocol 1 token #5", "\"token\" is a bin of 5 bytes, wanted a str"},
        {"cancel", "job 4294967296", "\"job\" is 4294967296, wanted a whole number from 0 to 429"},
        {"cancel", "", "\"job\" is missing"},
        {"index.list", "count 301", "\"count\" is 301, wanted a whole number from 1 to 300"},
        {"index.describe", "index 'e' count 0", "\"count\" is 0, wanted a whole number from 1 to"},
        {"index.unload", "", "\"index\" is missing"},
        {"index.unload", "index 'e' file 'e'", "\"file\" is not a key of"},
        {"index.load", "index 'e'", "\"file\" is missing"},
        {"index.load", "index 'e' file ''", "\"file\" has 0 bytes, wanted 1 to 4095"},
        {"index.build", "index 'e' source 's'", "\"file\" is missing"},
        {"index.build", "index 'e' source 's' file 'f' block_size 4294967232", "\"block_size\" is"},
        {"index.build", "index 'e' source 's' file 'f' step 4294967296", "\"step\" is 4294967296"},
        {"stats", "x 1", "\"x\" is not a key of stats' parameters"},
        {"drain", "wait 1", "\"wait\" is not a key of drain's parameters"},
        {"drain", "wait_ms 60001", "\"wait_ms\" is 60001, wanted a whole number from 0 to 60000"},
        {"health", "x 1", "\"x\" is not a key of this method's parameters"},
        {"filter.create", "filter 'f'", "\"kind\" is missing in filter.create's parameters"},
        {"filter.create", "filter 'f' kind 'tcf' rate 1", "\"rate\" is 1, wanted a float"},
        {"filter.create", "filter 'f' kind 'tcf' capacity 1.5", "\"capacity\" is the float 1.5"},
        {"filter.create", "filter 'f' kind 'tcf' slot_bits 4294967296", "\"slot_bits\" is 42949"},
        {"filter.create", "filter 'f' kind 'tcf' shared 1", "\"shared\" is 1, wanted true or"},
        {"filter.insert", "filter 'f'", "\"keys\" is missing"},
        {"filter.insert", "keys #8", "\"filter\" is missing"},
        {"filter.insert", "filter '' keys #8", "\"filter\" has 0 bytes, wanted 1 to 255"},
        {"filter.insert", "filter 'f' keys #9", "\"keys\" is a bin of 9 bytes, wanted a multiple"},
        {"filter.insert", "filter 'f' keys #8 values #16",
         "\"values\" is a bin of 16 bytes, wanted as many as \"keys\" has, 8"},
        {"filter.insert", "filter 'f' keys #8 counts #0", "\"counts\" is a bin of 0 bytes, wanted"},
        {"filter.insert", "filter 'f' keys #8 answer 'array'",
         "\"answer\" is \"array\", wanted \"none\" or \"bitmap\""},
        {"filter.query", "filter 'f' keys #8 answer 'x'",
         "wanted \"none\", \"bitmap\", \"array\" or \"both\""},
        {"filter.query", "filter 'f' keys #8 values #8", "\"values\" has no place in filter.query"},
        {"filter.insert_if_absent", "filter 'f' keys #8 counts #8",
         "\"counts\" has no place in filter.insert_if_absent"},
        {"filter.delete", "filter 'f' keys #0 counts #0", "\"counts\" has no place in"},
        {"filter.decrement", "filter 'f' keys #8 priority 10", "\"priority\" is 10, wanted"},
        {"filter.count", "filter 'f' keys #8 key #8", "\"key\" is not a key of the parameters"},
        {"filter.enumerate", "filter 'f' deadline_ms -1", "\"deadline_ms\" is -1, wanted"},
        {"filter.merge", "filter 'f'", "\"from\" is missing in filter.merge's parameters"},
        {"filter.save", "filter 'f' saved true", "\"saved\" is not a key of the parameters"},
        {"filter.load", "filter 'f' saved true", "\"saved\" is not a key of the parameters"},
        {"filter.drop", "filter 'f' shared true", "\"shared\" is not a key of the parameters"},
        {"filter.stats", "", "\"filter\" is missing"},
        {"filter.list", "count 301", "\"count\" is 301, wanted a whole number from 1 to 300"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_params(cases[i][0], cases[i][1], HSPZ_E_BAD_REQUEST, cases[i][2]);
    }
    expect_params("discover", "index 'e' seeds #8 encoding 'x'", HSPZ_E_UNSUPPORTED,
                  "\"encoding\" is \"x\", wanted \"packed\" or \"columnar\"");
    expect_params("discover", "index 'e' seeds #8 encoding ''", HSPZ_E_UNSUPPORTED, "encoding");
}

static void
test_names_of_peers_are_cut_and_cleaned_in_errors(void **state)
{
    (void)state;
    char text[200] = "index 'e' seeds #8 ";
    memset(text + strlen(text), 'k', 70);
    strcat(text, " 1");
    expect_params("discover", text, HSPZ_E_BAD_REQUEST,
                  "\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...\" is not a key");
    expect_params("discover", "index 'e' seeds #8 a\x07\xff\x1b\xc3\xa9 1", HSPZ_E_BAD_REQUEST,
                  "\"a???\xc3\xa9\" is not a key");
}

static void
test_names_have_a_length_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct message_bytes m = {0};
        message_bytes_hex(&m, "94 00 07");
        put_str(&m, "index.unload");
        message_bytes_hex(&m, "91 81");
        put_str(&m, "index");
        message_bytes_head(&m, 0xda, 255 + over, 2);
        message_bytes_fill(&m, 'n', 255 + over);
        struct parsed p = {0};
        parse(&p, m.bytes, m.len);
        struct hspz_index_params_name params;
        struct hspz_error err = {0};
        assert_int_equal(hspz_index_name_decode(p.message.params, &params, &err),
                         over ? HSPZ_E_BAD_REQUEST : HSPZ_OK);
        assert_string_equal(err.text, over ? "\"index\" has 256 bytes, wanted 1 to 255" : "");
        assert_int_equal(hspz_index_name_check(params.index, &err), over ? HSPZ_E_BAD_REQUEST : 0);
        release(&p);
        message_bytes_free(&m);
    }
}

static void
test_discover_defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    struct message_bytes m = {0};
    make_request(&m, "discover", "index 'ecoli' query {b#30}");
    struct parsed p = {0};
    parse(&p, m.bytes, m.len);
    struct hspz_discover_params d;
    assert_int_equal(hspz_discover_decode(p.message.params, &d, NULL), HSPZ_OK);
    assert_int_equal(d.index.len, 5);
    assert_memory_equal(d.index.bytes, "ecoli", 5);
    assert_true(!d.has_seeds && d.bases.len == 30 && d.seeds.len == 0);
    assert_int_equal(d.strands, HSPZ_STRANDS_BOTH);
    assert_true(d.transitions == 1 && !d.unmask && d.digest);
    assert_true(d.begin == 0 && d.end == UINT64_MAX);
    assert_true(d.max_hits == 268435456 && d.hit_limit == UINT64_MAX &&
                d.max_word_count == UINT64_MAX && d.keep_words == HSPZ_KEEP_ALL &&
                d.mask_filter.len == 0 && d.mask_count == 0 && d.deadline_ms == 0 &&
                d.priority == HSPZ_PRIORITY_DEFAULT);
    assert_int_equal(d.walk, HSPZ_WALK_BLOCKS);
    assert_true(d.want_digest.len == 0 && d.want_shape.len == 0 && d.want_step == 0 &&
                d.encoding == HSPZ_ENCODING_PACKED);
    assert_true(d.interval == 0 && d.output == HSPZ_RECORDS_ANCHORS && !d.has_scores);
    release(&p);
    message_bytes_free(&m);
}

static void
test_discover_of_hsps_has_the_defaults_of_the_contract(void **state)
{
    (void)state;
    static const char *const cases[] = {"index 'e' query {b#1} output 'hsps'",
                                        "hsps {} output 'hsps' index 'e' query {b#1}"};
    for (size_t i = 0; i < 2; i++) {
        struct message_bytes m = {0};
        make_request(&m, "discover", cases[i]);
        struct parsed p = {0};
        parse(&p, m.bytes, m.len);
        struct hspz_discover_params d;
        assert_int_equal(hspz_discover_decode(p.message.params, &d, NULL), HSPZ_OK);
        assert_true(d.output == HSPZ_RECORDS_HSPS && !d.has_scores && d.scoring.entropy);
        assert_true(d.scoring.xdrop == 910 && d.scoring.threshold == 3000 &&
                    d.scoring.scope == HSPZ_SCOPE_JOB && d.scoring.limit == UINT64_MAX);
        release(&p);
        message_bytes_free(&m);
    }
}

static void
test_discover_takes_every_option(void **state)
{
    (void)state;
    struct message_bytes m = {0};
    make_request(
        &m, "discover",
        "digest false step 4294967295 shape '11011' index_digest '0123456789abcdef' "
        "encoding 'columnar' chunk_walk 'full' deadline_ms 18446744073709551615 priority 9 "
        "max_word_count 0 keep_words 1 hit_limit 0 max_hits 1 end 9 begin 9 unmask true "
        "mask_count 18446744073709551615 mask_filter 'lab/reads' "
        "transitions false strand 'minus' query {b#0} index 'x'");
    struct parsed p = {0};
    parse(&p, m.bytes, m.len);
    struct hspz_discover_params d;
    assert_int_equal(hspz_discover_decode(p.message.params, &d, NULL), HSPZ_OK);
    assert_true(!d.has_seeds && d.bases.len == 0);
    assert_int_equal(d.strands, HSPZ_STRANDS_MINUS);
    assert_true(!d.transitions && d.unmask && !d.digest);
    assert_true(d.begin == 9 && d.end == 9 && d.max_hits == 1 && d.hit_limit == 0 &&
                d.max_word_count == 0 && d.keep_words == 1 && d.deadline_ms == UINT64_MAX &&
                d.priority == 9 && d.mask_count == UINT64_MAX);
    assert_int_equal(d.mask_filter.len, 9);
    assert_memory_equal(d.mask_filter.bytes, "lab/reads", 9);
    assert_int_equal(d.walk, HSPZ_WALK_FULL);
    assert_true(d.want_digest.len == 16 && d.want_shape.len == 5 && d.want_step == UINT32_MAX);
    assert_int_equal(d.encoding, HSPZ_ENCODING_COLUMNAR);
    release(&p);
    message_bytes_free(&m);
}

static void
expect_envelope(const char *hex, bool answerable, uint32_t id, const char *words)
{
    struct message_bytes m = {0};
    message_bytes_hex(&m, hex);
    struct hspz_doc *doc = NULL;
    assert_int_equal(hspz_doc_parse(m.bytes, m.len, &doc, NULL), HSPZ_OK);
    struct hspz_message message;
    struct hspz_error err = {0};
    bool got = !answerable;
    assert_int_equal(hspz_message_decode(doc, &message, &got, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(got, answerable);
    if (answerable) {
        assert_int_equal(message.id, id);
    }
    if (strstr(err.text, words) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", hex, err.text, words);
    }
    hspz_doc_destroy(&doc);
    message_bytes_free(&m);
}

static void
test_envelopes_that_are_wrong_are_answered_where_possible(void **state)
{
    (void)state;
    expect_envelope("01", false, 0, "the message is 1, wanted an array");
    expect_envelope("80", false, 0, "the message is a map of 0");
    expect_envelope("90", false, 0, "the message's kind is nil");
    expect_envelope("94 03 01 a1 78 90", false, 0, "kind is 3, wanted 0, 1 or 2");
    expect_envelope("94 a1 30 01 a1 78 90", false, 0, "kind is the str \"0\"");
    expect_envelope("91 00", false, 0, "the request's id is nil");
    expect_envelope("94 00 ff a1 78 90", false, 0, "id is -1");
    expect_envelope("94 00 cf 0000000100000000 a1 78 90", false, 0, "id is 4294967296");
    expect_envelope("92 00 05", true, 5, "the request is an array of 2, wanted [0, id, method");
    expect_envelope("95 00 ce ffffffff a1 78 90 c0", true, UINT32_MAX, "an array of 5");
    expect_envelope("94 00 05 07 90", true, 5, "the method is 7, wanted a str");
    expect_envelope("94 00 05 a5 7374617473 c0", true, 5, "params is nil, wanted an array");
    expect_envelope("94 00 05 a5 7374617473 80", true, 5, "params is a map of 0");
    expect_envelope("94 00 05 a5 7374617473 92 80 80", true, 5, "params is an array of 2");
    expect_envelope("94 00 05 a5 7374617473 91 c0", true, 5, "the element of params is nil");
    expect_envelope("93 01 05 c0", false, 0, "the response is an array of 3");
    expect_envelope("92 02 a1 78", false, 0, "the notification is an array of 2");
    expect_envelope("93 02 a1 78 c0", false, 0, "wanted [2, method, [params...]]");
}

static void
test_unknown_methods_decode_with_any_params(void **state)
{
    (void)state;
    static const char *const cases[] = {"94 00 05 a1 78 c0", "94 00 05 a1 78 93 01 02 03",
                                        "94 00 05 a0 90"};
    for (size_t i = 0; i < 3; i++) {
        struct message_bytes m = {0};
        message_bytes_hex(&m, cases[i]);
        struct parsed p = {0};
        parse(&p, m.bytes, m.len);
        assert_false(p.message.known);
        assert_null(p.message.params);
        assert_int_equal(p.message.id, 5);
        release(&p);
        message_bytes_free(&m);
    }
}

static struct hspz_text
text(const char *string)
{
    return (struct hspz_text){string, strlen(string)};
}

static void
assert_text(struct hspz_text got, struct hspz_text want)
{
    assert_int_equal(got.len, want.len);
    if (want.len > 0) {
        assert_memory_equal(got.bytes, want.bytes, want.len);
    }
}

static void
random_scoring(struct hspz_discover_params *d, uint64_t *random)
{
    const uint64_t bits = test_random(random);
    d->output = HSPZ_RECORDS_HSPS;
    d->encoding = HSPZ_ENCODING_PACKED;
    d->scoring.xdrop = bits & 1 ? 910 : (int32_t)(test_random(random) % (HSPZ_XDROP_LIMIT + 1));
    d->scoring.threshold = bits & 2 ? 3000 : (int32_t)(1 + test_random(random) % HSPZ_XDROP_LIMIT);
    d->scoring.entropy = bits & 4;
    d->scoring.scope = bits & 8 ? HSPZ_SCOPE_CHUNK : HSPZ_SCOPE_JOB;
    d->scoring.limit = bits & 16 ? UINT64_MAX : test_random(random);
    d->has_scores = bits & 32;
    for (size_t i = 0; d->has_scores && i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
        d->scoring.scores[i] =
            (int32_t)(test_random(random) % (2 * HSPZ_SCORE_LIMIT + 1)) - HSPZ_SCORE_LIMIT;
    }
}

static void
test_discover_round_trips_with_random_options(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (unsigned i = 0; i < 3000; i++) {
        const uint64_t bits = test_random(&random);
        struct hspz_discover_params d = {
            .index = text("name"),
            .has_seeds = bits & 1,
            .strands = HSPZ_STRANDS_BOTH,
            .transitions = 1,
            .end = UINT64_MAX,
            .max_hits = bits & 2 ? HSPZ_MAX_HITS_DEFAULT : 1 + (test_random(&random) >> 1),
            .hit_limit = bits & 4 ? UINT64_MAX : test_random(&random),
            .max_word_count = bits & 8 ? UINT64_MAX : test_random(&random) >> 40,
            .keep_words = bits & 4096 ? HSPZ_KEEP_ALL : 1 + test_random(&random) % HSPZ_KEEP_ALL,
            .deadline_ms = bits & 16 ? 0 : test_random(&random) >> 32,
            .priority = (bits >> 40) % (HSPZ_PRIORITY_LIMIT + 1),
            .walk = bits & 32 ? HSPZ_WALK_FULL : HSPZ_WALK_BLOCKS,
            .digest = bits & 64,
            .encoding = bits & 128 ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED,
            .want_digest = bits & 256 ? text("00ff00ff00ff00ff") : text(""),
            .want_shape = bits & 512 ? text("12of19") : text(""),
            .want_step = bits & 1024 ? 1 + (test_random(&random) >> 33) : 0,
        };
        const uint8_t payload[16] = {'A', 'C', 'G', 'T', '&'};
        const size_t len = bits & 2048 ? 16 : 0;
        if (d.has_seeds) {
            d.seeds = (struct hspz_span){payload, len};
        } else {
            d.bases = (struct hspz_span){payload, len};
            d.strands = 1 + (bits >> 12) % 3;
            d.transitions = (uint32_t)((bits >> 14) % 3);
            d.unmask = (bits >> 15) & 1;
            d.begin = (bits >> 16) & 3;
            d.end = (bits >> 18) & 1 ? UINT64_MAX : 4 + (bits >> 20) % 1000;
            if ((bits >> 31) & 1) {
                d.begin = 0;
                d.end = UINT64_MAX;
                d.interval = test_random(&random);
            }
            if ((bits >> 33) & 1) {
                d.mask_filter = text("lab/reads.31");
                d.mask_count = (bits >> 34) & 1 ? 0 : test_random(&random);
            }
            if ((bits >> 32) & 1) {
                random_scoring(&d, &random);
            }
        }
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_discover_encode(&w, i, &d);
        uint8_t *head = NULL;
        size_t head_len = 0;
        assert_int_equal(hspz_writer_take(&w, &head, &head_len), HSPZ_OK);
        struct message_bytes m = {0};
        message_bytes_add(&m, head, head_len);
        message_bytes_add(&m, payload, len);
        free(head);
        struct parsed p = {0};
        parse(&p, m.bytes, m.len);
        assert_true(p.message.kind == HSPZ_REQUEST && p.message.id == i);
        assert_int_equal(p.message.method, HSPZ_METHOD_DISCOVER);
        struct hspz_discover_params got;
        struct hspz_error err = {0};
        if (hspz_discover_decode(p.message.params, &got, &err) != HSPZ_OK) {
            fail_msg("%s", err.text);
        }
        assert_text(got.index, d.index);
        assert_int_equal(got.has_seeds, d.has_seeds);
        assert_int_equal(got.seeds.len, d.seeds.len);
        assert_int_equal(got.bases.len, d.bases.len);
        if (len > 0) {
            assert_memory_equal(d.has_seeds ? got.seeds.bytes : got.bases.bytes, payload, len);
        }
        assert_int_equal(got.strands, d.strands);
        assert_true(got.transitions == d.transitions && got.unmask == d.unmask);
        assert_true(got.begin == d.begin && got.end == d.end && got.max_hits == d.max_hits);
        assert_true(got.hit_limit == d.hit_limit && got.max_word_count == d.max_word_count);
        assert_true(got.keep_words == d.keep_words && got.mask_count == d.mask_count);
        assert_text(got.mask_filter, d.mask_filter);
        assert_true(got.deadline_ms == d.deadline_ms && got.walk == d.walk);
        assert_true(got.priority == d.priority);
        assert_true(got.digest == d.digest && got.want_step == d.want_step);
        assert_true(got.interval == d.interval && got.output == d.output);
        assert_true(got.has_scores == d.has_scores && got.scoring.xdrop == d.scoring.xdrop &&
                    got.scoring.threshold == d.scoring.threshold &&
                    got.scoring.entropy == d.scoring.entropy &&
                    got.scoring.scope == d.scoring.scope && got.scoring.limit == d.scoring.limit);
        assert_memory_equal(got.scoring.scores, d.scoring.scores, sizeof(d.scoring.scores));
        assert_int_equal(got.encoding, d.encoding);
        assert_text(got.want_digest, d.want_digest);
        assert_text(got.want_shape, d.want_shape);
        release(&p);
        message_bytes_free(&m);
    }
}

static void
test_other_requests_round_trip(void **state)
{
    (void)state;
    struct hspz_writer w;
    struct parsed p = {0};
    union any_params any;

    const struct hspz_hello_params hello = {1, text("client 1"), text("secret")};
    hspz_writer_init(&w);
    hspz_hello_encode(&w, 1, &hello);
    parse_writer(&p, &w);
    assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
    assert_int_equal(any.hello.protocol, 1);
    assert_text(any.hello.client, hello.client);
    assert_text(any.hello.token, hello.token);
    release(&p);

    hspz_cancel_encode(&w, 2, &(struct hspz_cancel_params){UINT32_MAX});
    parse_writer(&p, &w);
    assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
    assert_int_equal(any.cancel.job, UINT32_MAX);
    release(&p);

    for (unsigned page = 0; page < 2; page++) {
        hspz_list_encode(&w, 3, &(struct hspz_list_params){page, page ? 7 : 300});
        parse_writer(&p, &w);
        assert_int_equal(p.message.params == NULL, !page);
        assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
        assert_true(any.list.first == page && any.list.count == (page ? 7 : 300));
        release(&p);

        const struct hspz_describe_params describe = {text("i"), page * 9, page ? 1 : 500};
        hspz_describe_encode(&w, 4, &describe);
        parse_writer(&p, &w);
        assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
        assert_text(any.describe.index, describe.index);
        assert_true(any.describe.first == describe.first && any.describe.count == describe.count);
        release(&p);
    }

    hspz_index_name_encode(&w, 5, HSPZ_METHOD_INDEX_UNLOAD,
                           &(struct hspz_index_params_name){text("gone")});
    parse_writer(&p, &w);
    assert_int_equal(p.message.method, HSPZ_METHOD_INDEX_UNLOAD);
    assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
    assert_text(any.name.index, text("gone"));
    release(&p);

    const struct hspz_load_params load = {text("i"), text("/f"), text("111"),
                                          text("0123456789abcdef"), 3};
    hspz_load_encode(&w, 6, &load);
    parse_writer(&p, &w);
    assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
    assert_text(any.load.index, load.index);
    assert_text(any.load.file, load.file);
    assert_text(any.load.want_shape, load.want_shape);
    assert_text(any.load.want_digest, load.want_digest);
    assert_int_equal(any.load.want_step, 3);
    release(&p);

    for (unsigned full = 0; full < 2; full++) {
        const struct hspz_build_params build = {
            text("i"),    text("s.fa"), text("f"), text(full ? "1111" : "12of19"),
            full ? 7 : 1, full,         full,      full ? HSPZ_BLOCK_BASES_LIMIT : 0};
        hspz_build_encode(&w, 7, &build);
        parse_writer(&p, &w);
        assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
        assert_text(any.build.source, build.source);
        assert_text(any.build.shape, build.shape);
        assert_true(any.build.step == build.step && any.build.unmask == build.unmask &&
                    any.build.all_positions == build.all_positions &&
                    any.build.block_size == build.block_size);
        release(&p);
    }

    hspz_request_bare(&w, 8, "stats");
    parse_writer(&p, &w);
    assert_int_equal(p.message.method, HSPZ_METHOD_STATS);
    assert_int_equal(decode_any(&p.message, &any, NULL), HSPZ_OK);
    release(&p);
}

static void
test_errors_round_trip_and_are_clean(void **state)
{
    (void)state;
    struct hspz_writer w;
    struct parsed p = {0};
    hspz_writer_init(&w);
    struct hspz_error err;
    hspz_error_set(&err, HSPZ_E_HITS_OVERFLOW, "caf\xc3\xa9 \xff");
    err.has_hits = true;
    err.hits = UINT64_C(4897480324);
    err.has_limit = true;
    err.limit = UINT32_MAX;
    err.has_retry = true;
    err.retry_ms = 1500;
    hspz_response_error(&w, 9, &err);
    parse_writer(&p, &w);
    assert_int_equal(p.message.kind, HSPZ_RESPONSE);
    assert_int_equal(p.message.id, 9);
    assert_int_equal(hspz_node_type(p.message.result), HSPZ_NODE_NIL);
    struct hspz_error got;
    hspz_error_decode(p.message.error, &got);
    assert_int_equal(got.status, HSPZ_E_HITS_OVERFLOW);
    assert_string_equal(got.text, "caf\xc3\xa9 ?");
    assert_true(got.has_hits && got.hits == err.hits && got.has_limit && got.limit == err.limit);
    assert_true(got.has_retry && got.retry_ms == 1500);
    release(&p);

    /* Statuses that only arise locally do not travel, in either direction. */
    err = (struct hspz_error){.status = HSPZ_E_STOPPED};
    hspz_response_error(&w, 9, &err);
    parse_writer(&p, &w);
    hspz_error_decode(p.message.error, &got);
    assert_int_equal(got.status, HSPZ_E_INTERNAL);
    assert_string_equal(got.text, "internal error");
    assert_true(!got.has_hits && !got.has_limit && !got.has_retry);
    release(&p);

    static const struct {
        const char *hex;
        const char *text;
    } strange[] = {
        {"94 01 01 a2 6e6f c0", "the server answered with the str \"no\" instead of an error map"},
        {"94 01 01 81 a4636f6465 a3 6e6577 c0", "error \"new\": "},
        {"94 01 01 82 a4636f6465 a7 73746f70706564 a7 6d657373616765 a1 78 c0", "x"},
    };
    for (size_t i = 0; i < 3; i++) {
        struct message_bytes m = {0};
        message_bytes_hex(&m, strange[i].hex);
        parse(&p, m.bytes, m.len);
        hspz_error_decode(p.message.error, &got);
        assert_int_equal(got.status, HSPZ_E_INTERNAL);
        assert_string_equal(got.text, strange[i].text);
        release(&p);
        message_bytes_free(&m);
    }
    hspz_error_decode(NULL, &got);
    assert_int_equal(got.status, HSPZ_E_INTERNAL);
}

static struct hspz_part_head
random_head(uint64_t *random, unsigned i)
{
    const bool hsps = test_random(random) & 1;
    return (struct hspz_part_head){
        .records = hsps ? HSPZ_RECORDS_HSPS : HSPZ_RECORDS_ANCHORS,
        .encoding =
            !hsps && (test_random(random) & 1) ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED,
        .job = i,
        .has_interval = test_random(random) & 1,
        .id = {.strand = test_random(random) & 1,
               .batch = (uint32_t)test_random(random),
               .ref_block = (uint32_t)(test_random(random) >> 50),
               .chunk = (uint32_t)(test_random(random) >> 40),
               .part = i,
               .last_part = test_random(random) & 1,
               .seed_begin = 5,
               .seed_end = 5 + (test_random(random) >> 20),
               .hit_begin = test_random(random) >> 30},
    };
}

static void
test_parts_round_trip(void **state)
{
    (void)state;
    uint64_t random = 6;
    for (unsigned i = 0; i < 500; i++) {
        const size_t count = test_random(&random) % 700;
        struct hspz_part_head head = random_head(&random, i);
        const struct hspz_part_id id = head.id;
        const bool hsps = head.records == HSPZ_RECORDS_HSPS;
        const bool columnar = head.encoding == HSPZ_ENCODING_COLUMNAR;
        const size_t bytes = columnar ? 3 * count : (hsps ? 16 : 8) * count;
        head.id.hit_end = id.hit_begin + count;
        head.id.interval = head.has_interval ? (uint32_t)test_random(&random) : 0;
        head.placed = test_random(&random) & 1;
        head.offset = head.placed ? test_random(&random) : 0;
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_part_encode(&w, &head, bytes);
        struct message_bytes m = {0};
        message_bytes_add(&m, w.bytes, w.len);
        hspz_writer_fini(&w);
        message_bytes_fill(&m, (uint8_t)i, head.placed ? 0 : bytes);
        struct parsed p = {0};
        parse(&p, m.bytes, m.len);
        assert_int_equal(p.message.kind, HSPZ_NOTIFICATION);
        assert_text(p.message.method_name, text(hsps ? "hsps" : "anchors"));
        enum hspz_records records = !head.records;
        assert_true(hspz_part_method(p.message.method_name, &records));
        assert_int_equal(records, head.records);
        struct hspz_part_head got;
        struct hspz_span payload;
        assert_int_equal(hspz_part_decode(p.message.params, records, &got, &payload, NULL),
                         HSPZ_OK);
        assert_int_equal(payload.len, bytes);
        assert_true(got.placed == head.placed && got.offset == head.offset &&
                    (payload.bytes == NULL || !got.placed));
        assert_true(got.records == records && got.job == i && got.encoding == head.encoding &&
                    got.has_interval == head.has_interval && got.id.interval == head.id.interval);
        assert_true(got.id.strand == id.strand && got.id.batch == id.batch &&
                    got.id.part == id.part && got.id.ref_block == id.ref_block &&
                    got.id.chunk == id.chunk && got.id.last_part == id.last_part &&
                    got.id.seed_begin == id.seed_begin && got.id.seed_end == id.seed_end &&
                    got.id.hit_begin == id.hit_begin && got.id.hit_end == head.id.hit_end);
        /* As the other kind its keys are not there. */
        struct hspz_error err = {0};
        assert_int_equal(hspz_part_decode(p.message.params, !records, &got, &payload, &err),
                         HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(err.text, "_begin\" is missing in "));
        release(&p);

        /* Half a record more than the range says, and a whole one. */
        for (unsigned more = 1; more <= 2 && !columnar; more++) {
            const size_t wrong = bytes + more * (hsps ? 8 : 4);
            hspz_part_encode(&w, &head, wrong);
            message_bytes_free(&m);
            message_bytes_add(&m, w.bytes, w.len);
            hspz_writer_fini(&w);
            message_bytes_fill(&m, 0, head.placed ? 0 : wrong);
            parse(&p, m.bytes, m.len);
            assert_int_equal(hspz_part_decode(p.message.params, records, &got, &payload, NULL),
                             HSPZ_E_BAD_REQUEST);
            release(&p);
        }
        message_bytes_free(&m);
    }
    enum hspz_records records;
    assert_false(hspz_part_method(text("hsp"), &records));
    assert_false(hspz_part_method(text("anchor"), &records));
    assert_false(hspz_part_method(text(""), &records));
}

static void
test_shared_memory_messages_round_trip(void **state)
{
    (void)state;
    const struct hspz_shm_result sizes = {.ring_bytes = 1, .input_bytes = INT64_MAX};
    struct hspz_shm_result got;
    struct parsed p = {0};
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_shm_result_encode(&w, 7, &sizes);
    parse(&p, w.bytes, w.len);
    assert_int_equal(hspz_shm_result_decode(p.message.result, &got, NULL), HSPZ_OK);
    assert_true(got.ring_bytes == 1 && got.input_bytes == INT64_MAX);
    release(&p);
    hspz_writer_fini(&w);

    static const uint64_t offsets[] = {0, 1, UINT64_MAX, 65536, 0};
    for (size_t n = 0; n <= 5; n++) {
        uint64_t back[5] = {9, 9, 9, 9, 9};
        size_t count = 99;
        struct hspz_error err = {0};
        hspz_writer_init(&w);
        hspz_shm_free_encode(&w, offsets, n);
        parse(&p, w.bytes, w.len);
        assert_int_equal(p.message.kind, HSPZ_NOTIFICATION);
        assert_text(p.message.method_name, text("shm.free"));
        assert_int_equal(hspz_shm_free_decode(p.message.params, back, n, &count, NULL), HSPZ_OK);
        assert_int_equal(count, n);
        assert_memory_equal(back, offsets, n * sizeof(back[0]));
        if (n > 0) {
            assert_int_equal(hspz_shm_free_decode(p.message.params, back, n - 1, &count, &err),
                             HSPZ_E_BAD_REQUEST);
            assert_non_null(strstr(err.text, "at most"));
        }
        release(&p);
        hspz_writer_fini(&w);
    }
}

static void
test_discover_results_round_trip(void **state)
{
    (void)state;
    struct hspz_discover_result r = {.totals = {{1, 2, 3, 4, 5}, {5, 6, 7, UINT64_MAX, 8}},
                                     .anchors = 10,
                                     .hsps = 20,
                                     .chunks = 11,
                                     .max_hits = 12,
                                     .index_digest = "0011223344556677",
                                     .digest = "8899aabbccddeeff",
                                     .timings = {13, 14, 15}};
    for (unsigned digest = 0; digest < 2; digest++) {
        r.has_digest = digest;
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_discover_result_encode(&w, 3, &r);
        struct parsed p = {0};
        parse_writer(&p, &w);
        assert_int_equal(hspz_node_type(p.message.error), HSPZ_NODE_NIL);
        struct hspz_discover_result got;
        memset(&got, 0x55, sizeof(got));
        assert_int_equal(hspz_discover_result_decode(p.message.result, &got, NULL), HSPZ_OK);
        for (unsigned s = 0; s < 2; s++) {
            assert_true(got.totals[s].batches == r.totals[s].batches &&
                        got.totals[s].seeds == r.totals[s].seeds &&
                        got.totals[s].hits == r.totals[s].hits &&
                        got.totals[s].chunks == r.totals[s].chunks &&
                        got.totals[s].hsps == r.totals[s].hsps);
        }
        assert_true(got.anchors == 10 && got.hsps == 20 && got.chunks == 11 && got.max_hits == 12);
        assert_string_equal(got.index_digest, r.index_digest);
        assert_int_equal(got.has_digest, digest);
        assert_string_equal(got.digest, digest ? r.digest : "");
        assert_true(got.timings.queued_ns == 13 && got.timings.engine_ns == 14 &&
                    got.timings.total_ns == 15);
        assert_int_equal(hspz_discover_result_decode(NULL, &got, NULL), HSPZ_E_BAD_REQUEST);
        assert_int_equal(hspz_discover_result_decode(p.message.error, &got, NULL),
                         HSPZ_E_BAD_REQUEST);
        release(&p);
    }
}

/* A description of `total` sequences with names of `name_len` bytes, page by page until all came;
 * returns the number of pages. */
static unsigned
describe_in_pages(size_t total, size_t name_len, uint8_t byte)
{
    struct hspz_describe_result *r = calloc(1, sizeof(*r));
    struct hspz_describe_result *got = calloc(1, sizeof(*got));
    char *name = malloc(name_len + 1);
    assert_true(r != NULL && got != NULL && name != NULL);
    memset(name, byte, name_len);
    unsigned pages = 0;
    for (size_t first = 0; first < total; pages++) {
        const size_t page =
            total - first < HSPZ_PAGE_SEQUENCES_LIMIT ? total - first : HSPZ_PAGE_SEQUENCES_LIMIT;
        *r = (struct hspz_describe_result){.index = text("i"),
                                           .state = text("ready"),
                                           .file = text("dir/\xff.hspz"),
                                           .shape = text("1111"),
                                           .digest = text("0011223344556677"),
                                           .sequence_digest = text("8899aabbccddeeff"),
                                           .version = text("0.1.0"),
                                           .weight = 4,
                                           .span = 5,
                                           .step = 6,
                                           .all_positions = true,
                                           .bytes = 7,
                                           .bases = 8,
                                           .words = 9,
                                           .block_count = total,
                                           .sequence_count = total,
                                           .first = first,
                                           .blocks_here = page,
                                           .sequences_here = page};
        for (size_t i = 0; i < page; i++) {
            r->blocks[i] = (struct hspz_describe_block){UINT64_MAX - i, first + i};
            r->sequences[i] = (struct hspz_describe_sequence){
                {name, name_len}, first + i, UINT32_MAX, UINT64_MAX - i};
        }
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_describe_result_encode(&w, 1, r);
        struct parsed p = {0};
        parse_writer(&p, &w); /* so it is within the limits of a message */
        struct hspz_error err = {0};
        if (hspz_describe_result_decode(p.message.result, got, &err) != HSPZ_OK) {
            fail_msg("%s", err.text);
        }
        assert_text(got->file, r->file);
        assert_text(got->shape, r->shape);
        assert_true(got->weight == 4 && got->span == 5 && got->step == 6 && !got->unmask &&
                    got->all_positions && got->bytes == 7 && got->bases == 8 && got->words == 9 &&
                    got->block_count == total && got->sequence_count == total &&
                    got->first == first);
        assert_int_equal(got->blocks_here, page);
        assert_true(got->sequences_here > 0 && got->sequences_here <= page);
        for (size_t i = 0; i < page; i++) {
            assert_true(got->blocks[i].bases == UINT64_MAX - i &&
                        got->blocks[i].words == first + i);
        }
        for (size_t i = 0; i < got->sequences_here; i++) {
            assert_text(got->sequences[i].name, r->sequences[i].name);
            assert_true(got->sequences[i].bases == first + i &&
                        got->sequences[i].block == UINT32_MAX &&
                        got->sequences[i].offset == UINT64_MAX - i);
        }
        first += got->sequences_here;
        release(&p);
    }
    free(name);
    free(got);
    free(r);
    return pages;
}

static void
test_descriptions_come_in_pages_within_the_limits(void **state)
{
    (void)state;
    assert_int_equal(describe_in_pages(1201, 10, 'n'), 3);
    assert_true(describe_in_pages(1200, 200, 'n') > 3);
    assert_true(describe_in_pages(40, 4096, 'n') > 3);
    assert_true(describe_in_pages(40, 4096, 0xff) > 3);
    /* Longer names are large bins, which cost no header bytes. */
    assert_int_equal(describe_in_pages(30, HSPZ_SEQUENCE_NAME_LIMIT, 'n'), 1);
    assert_int_equal(describe_in_pages(1, 0, 'n'), 1);
}

static void
test_index_lists_come_in_pages_within_the_limits(void **state)
{
    (void)state;
    static struct hspz_list_entry entries[700];
    static struct hspz_list_result got;
    static char name[4096];
    memset(name, 'f', sizeof(name));
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < 700; i++) {
            entries[i] = (struct hspz_list_entry){{name, 1 + i % 255},
                                                  text(i % 2 ? "ready" : "loading"),
                                                  {name, round ? 4095 : 20},
                                                  i,
                                                  i % 3 == 0};
        }
        unsigned pages = 0;
        for (size_t first = 0; first < 700; pages++) {
            struct hspz_writer w;
            hspz_writer_init(&w);
            hspz_list_result_encode(&w, 1, 700, first, entries + first, 700 - first);
            struct parsed p = {0};
            parse_writer(&p, &w);
            assert_int_equal(hspz_list_result_decode(p.message.result, &got, NULL), HSPZ_OK);
            assert_true(got.index_count == 700 && got.first == first && got.count > 0);
            for (size_t i = 0; i < got.count; i++) {
                assert_text(got.entries[i].index, entries[first + i].index);
                assert_text(got.entries[i].state, entries[first + i].state);
                assert_text(got.entries[i].file, entries[first + i].file);
                assert_true(got.entries[i].bytes == first + i &&
                            got.entries[i].pinned == entries[first + i].pinned);
            }
            first += got.count;
            release(&p);
        }
        assert_true(round ? pages > 30 : pages < 10);
    }
}

static void
test_index_results_round_trip(void **state)
{
    (void)state;
    const struct hspz_index_result r = {text("i"), text("0011223344556677"), 99};
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_index_result_encode(&w, 1, &r);
    struct parsed p = {0};
    parse_writer(&p, &w);
    struct hspz_index_result got;
    assert_int_equal(hspz_index_result_decode(p.message.result, &got, NULL), HSPZ_OK);
    assert_text(got.index, r.index);
    assert_text(got.digest, r.digest);
    assert_int_equal(got.bytes, 99);
    release(&p);
}

static void
test_encoders_survive_each_failing_allocation(void **state)
{
    (void)state;
    struct hspz_describe_result *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->index = r->state = r->file = r->shape = r->digest = r->version = text("t");
    r->blocks_here = r->sequences_here = HSPZ_PAGE_SEQUENCES_LIMIT;
    for (size_t i = 0; i < HSPZ_PAGE_SEQUENCES_LIMIT; i++) {
        r->sequences[i].name = text("name");
    }
    unsigned failures = 0;
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct hspz_writer w;
        hspz_writer_init(&w);
        failing_malloc_arm(n);
        hspz_describe_result_encode(&w, 1, r);
        failed = failing_malloc_disarm();
        uint8_t *bytes = NULL;
        size_t len = 0;
        assert_int_equal(hspz_writer_take(&w, &bytes, &len), failed ? HSPZ_E_OUT_OF_MEMORY : 0);
        assert_int_equal(bytes == NULL, failed);
        failures += failed;
        hspz_writer_fini(&w);
        free(bytes);
    }
    assert_true(failures > 4);
    free(r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_that_are_wrong_are_named),
        cmocka_unit_test(test_names_of_peers_are_cut_and_cleaned_in_errors),
        cmocka_unit_test(test_names_have_a_length_limit),
        cmocka_unit_test(test_discover_defaults_are_those_of_the_contract),
        cmocka_unit_test(test_discover_of_hsps_has_the_defaults_of_the_contract),
        cmocka_unit_test(test_discover_takes_every_option),
        cmocka_unit_test(test_envelopes_that_are_wrong_are_answered_where_possible),
        cmocka_unit_test(test_unknown_methods_decode_with_any_params),
        cmocka_unit_test(test_discover_round_trips_with_random_options),
        cmocka_unit_test(test_other_requests_round_trip),
        cmocka_unit_test(test_errors_round_trip_and_are_clean),
        cmocka_unit_test(test_parts_round_trip),
        cmocka_unit_test(test_shared_memory_messages_round_trip),
        cmocka_unit_test(test_discover_results_round_trip),
        cmocka_unit_test(test_descriptions_come_in_pages_within_the_limits),
        cmocka_unit_test(test_index_lists_come_in_pages_within_the_limits),
        cmocka_unit_test(test_index_results_round_trip),
        cmocka_unit_test(test_encoders_survive_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
