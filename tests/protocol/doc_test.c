/* protocol/PROTOCOL.md against the code: every wire block goes through the splitter, the decoders
 * and the encoders and comes out the same; every method, status and limit is there; the worked
 * examples are what a few lines of arithmetic say. */
#include "protocol/columns.h"
#include "protocol/filter_message.h"
#include "protocol/message.h"
#include "protocol/stream.h"

#include "tests/protocol/message_bytes.h"
#include "tests/support/test.h"

#include <ctype.h>
#include <xxhash.h>

#define BLOCKS_LIMIT 200u

struct block {
    char info[64]; /* "request health" */
    unsigned line;
    struct message_bytes m;
    struct hspz_doc *doc;
    struct hspz_message message;
};

struct document {
    char *text;
    size_t count;
    struct block blocks[BLOCKS_LIMIT];
};

static void
parse_block(struct block *b)
{
    struct hspz_stream *stream = NULL;
    struct hspz_frame frame;
    struct hspz_error err = {0};
    size_t used = 0;
    bool ready = false;
    bool answerable;
    assert_int_equal(hspz_stream_create(UINT64_C(1) << 30, NULL, NULL, &stream), HSPZ_OK);
    if (hspz_stream_feed(stream, b->m.bytes, b->m.len, &used, &ready, &frame, &err) != HSPZ_OK ||
        !ready || used != b->m.len) {
        fail_msg("PROTOCOL.md:%u: %s", b->line, ready ? "bytes left over" : err.text);
    }
    assert_memory_equal(frame.bytes, b->m.bytes, b->m.len);
    hspz_frame_release(&frame);
    hspz_stream_destroy(&stream);
    if (hspz_doc_parse(b->m.bytes, b->m.len, &b->doc, &err) != HSPZ_OK ||
        hspz_message_decode(b->doc, &b->message, &answerable, &err) != HSPZ_OK) {
        fail_msg("PROTOCOL.md:%u: %s", b->line, err.text);
    }
}

static void
add_hex(struct block *b, const char *line, size_t len)
{
    char hex[256];
    const char *comment = memchr(line, '#', len);
    len = comment != NULL ? (size_t)(comment - line) : len;
    assert_true(len < sizeof(hex));
    memcpy(hex, line, len);
    hex[len] = '\0';
    message_bytes_hex(&b->m, hex);
}

static int
open_document(void **state)
{
    struct document *d = calloc(1, sizeof(*d));
    assert_non_null(d);
    size_t size;
    d->text = (char *)test_read_file(HSPZ_PROTOCOL_DIR "/PROTOCOL.md", &size);
    struct block *open = NULL;
    unsigned number = 1;
    for (const char *line = d->text; *line != '\0'; number++) {
        const size_t len = strcspn(line, "\n");
        if (len >= 3 && memcmp(line, "```", 3) == 0) {
            if (open == NULL && len > 8 && memcmp(line, "```wire ", 8) == 0) {
                assert_true(d->count < BLOCKS_LIMIT);
                open = &d->blocks[d->count++];
                open->line = number;
                snprintf(open->info, sizeof(open->info), "%.*s", (int)(len - 8), line + 8);
            } else if (open != NULL) {
                parse_block(open);
                open = NULL;
            }
        } else if (open != NULL) {
            add_hex(open, line, len);
        }
        line += len + (line[len] == '\n');
    }
    assert_null(open);
    *state = d;
    return 0;
}

static int
close_document(void **state)
{
    struct document *d = *state;
    for (size_t i = 0; i < d->count; i++) {
        hspz_doc_destroy(&d->blocks[i].doc);
        message_bytes_free(&d->blocks[i].m);
    }
    free(d->text);
    free(d);
    return 0;
}

/* Any value through the writer. */
static void
copy_node(struct hspz_writer *w, const struct hspz_node *node)
{
    uint64_t number = 0;
    bool flag = false;
    double real = 0;
    struct hspz_span span = {0};
    switch (hspz_node_type(node)) {
    case HSPZ_NODE_NIL:
        hspz_write_nil(w);
        break;
    case HSPZ_NODE_BOOL:
        hspz_node_bool(node, &flag);
        hspz_write_bool(w, flag);
        break;
    case HSPZ_NODE_UINT:
        hspz_node_uint(node, &number);
        hspz_write_uint(w, number);
        break;
    case HSPZ_NODE_FLOAT:
        hspz_node_float(node, &real);
        hspz_write_float(w, real);
        break;
    case HSPZ_NODE_STR:
        hspz_node_str(node, &span);
        hspz_write_strn(w, (const char *)span.bytes, span.len);
        break;
    case HSPZ_NODE_ARRAY:
        hspz_write_array(w, (uint32_t)hspz_node_count(node));
        for (size_t i = 0; i < hspz_node_count(node); i++) {
            copy_node(w, hspz_node_at(node, i));
        }
        break;
    case HSPZ_NODE_MAP:
        hspz_write_map(w, (uint32_t)hspz_node_count(node));
        for (size_t i = 0; i < hspz_node_count(node); i++) {
            copy_node(w, hspz_node_key_at(node, i));
            copy_node(w, hspz_node_value_at(node, i));
        }
        break;
    case HSPZ_NODE_BIN:
    case HSPZ_NODE_INT:
    case HSPZ_NODE_EXT:
        fail_msg("a value of a type that no result has");
    }
}

#define CHECKED(call)                                                                              \
    do {                                                                                           \
        struct hspz_error why_ = {0};                                                              \
        struct hspz_error *err = &why_;                                                            \
        if ((call) != HSPZ_OK) {                                                                   \
            fail_msg("PROTOCOL.md:%u: %s", b->line, why_.text);                                    \
        }                                                                                          \
    } while (0)

/* The bytes after the head that the encoder wrote. */
static void
write_payload(struct hspz_writer *w, struct message_bytes *out, struct hspz_span payload)
{
    message_bytes_add(out, w->bytes, w->len);
    message_bytes_add(out, payload.bytes, payload.len);
    w->len = 0;
}

static void
encode_keys(const struct block *b, struct hspz_writer *w, struct message_bytes *out)
{
    struct hspz_filter_keys_params p;
    CHECKED(hspz_filter_keys_decode(b->message.method, b->message.params, &p, err));
    hspz_filter_keys_encode(w, b->message.id, b->message.method, &p);
    write_payload(w, out, p.placed ? (struct hspz_span){0} : p.keys);
    if (p.placed) {
        return;
    }
    if (p.values.bytes != NULL) {
        hspz_filter_more_encode(w, "values", p.values.len);
        write_payload(w, out, p.values);
    }
    if (p.counts.bytes != NULL) {
        hspz_filter_more_encode(w, "counts", p.counts.len);
        write_payload(w, out, p.counts);
    }
}

static void
encode_filter_request(const struct block *b, struct hspz_writer *w, struct message_bytes *out)
{
    const struct hspz_node *params = b->message.params;
    const uint32_t id = b->message.id;
    union {
        struct hspz_filter_create_params create;
        struct hspz_filter_enumerate_params enumerate;
        struct hspz_filter_merge_params merge;
        struct hspz_filter_name_params name;
        struct hspz_list_params list;
    } p;
    switch (b->message.method) {
    case HSPZ_METHOD_FILTER_CREATE:
        CHECKED(hspz_filter_create_decode(params, &p.create, err));
        hspz_filter_create_encode(w, id, &p.create);
        break;
    case HSPZ_METHOD_FILTER_ENUMERATE:
        CHECKED(hspz_filter_enumerate_decode(params, &p.enumerate, err));
        hspz_filter_enumerate_encode(w, id, &p.enumerate);
        break;
    case HSPZ_METHOD_FILTER_MERGE:
        CHECKED(hspz_filter_merge_decode(params, &p.merge, err));
        hspz_filter_merge_encode(w, id, &p.merge);
        break;
    case HSPZ_METHOD_FILTER_LIST:
        CHECKED(hspz_filter_list_decode(params, &p.list, err));
        hspz_filter_list_encode(w, id, &p.list);
        break;
    default:
        if (hspz_filter_takes_keys(b->message.method)) {
            encode_keys(b, w, out);
        } else {
            CHECKED(hspz_filter_name_decode(b->message.method, params, &p.name, err));
            hspz_filter_name_encode(w, id, b->message.method, &p.name);
        }
    }
}

static void
encode_request(const struct block *b, struct hspz_writer *w, struct message_bytes *out)
{
    const struct hspz_node *params = b->message.params;
    const uint32_t id = b->message.id;
    union {
        struct hspz_hello_params hello;
        struct hspz_discover_params discover;
        struct hspz_cancel_params cancel;
        struct hspz_drain_params drain;
        struct hspz_list_params list;
        struct hspz_describe_params describe;
        struct hspz_index_params_name name;
        struct hspz_load_params load;
        struct hspz_build_params build;
    } p;
    switch (b->message.method) {
    case HSPZ_METHOD_HELLO:
        CHECKED(hspz_hello_decode(params, &p.hello, err));
        hspz_hello_encode(w, id, &p.hello);
        break;
    case HSPZ_METHOD_DISCOVER:
        CHECKED(hspz_discover_decode(params, &p.discover, err));
        hspz_discover_encode(w, id, &p.discover);
        if (!p.discover.placed) {
            write_payload(w, out, p.discover.has_seeds ? p.discover.seeds : p.discover.bases);
        }
        break;
    case HSPZ_METHOD_CANCEL:
        CHECKED(hspz_cancel_decode(params, &p.cancel, err));
        hspz_cancel_encode(w, id, &p.cancel);
        break;
    case HSPZ_METHOD_INDEX_LIST:
        CHECKED(hspz_list_decode(params, &p.list, err));
        hspz_list_encode(w, id, &p.list);
        break;
    case HSPZ_METHOD_INDEX_DESCRIBE:
        CHECKED(hspz_describe_decode(params, &p.describe, err));
        hspz_describe_encode(w, id, &p.describe);
        break;
    case HSPZ_METHOD_INDEX_LOAD:
        CHECKED(hspz_load_decode(params, &p.load, err));
        hspz_load_encode(w, id, &p.load);
        break;
    case HSPZ_METHOD_INDEX_UNLOAD:
        CHECKED(hspz_index_name_decode(params, &p.name, err));
        hspz_index_name_encode(w, id, HSPZ_METHOD_INDEX_UNLOAD, &p.name);
        break;
    case HSPZ_METHOD_INDEX_BUILD:
        CHECKED(hspz_build_decode(params, &p.build, err));
        hspz_build_encode(w, id, &p.build);
        break;
    case HSPZ_METHOD_STATS:
        CHECKED(hspz_stats_decode(params, &p.list, err));
        hspz_request_bare(w, id, hspz_method_name(b->message.method));
        break;
    case HSPZ_METHOD_DRAIN:
        CHECKED(hspz_drain_decode(params, &p.drain, err));
        hspz_drain_encode(w, id, &p.drain);
        break;
    case HSPZ_METHOD_HEALTH:
    case HSPZ_METHOD_SHM_OPEN:
        CHECKED(hspz_no_params_decode(params, err));
        hspz_request_bare(w, id, hspz_method_name(b->message.method));
        break;
    default:
        encode_filter_request(b, w, out);
    }
}

static void
encode_list(const struct block *b, struct hspz_writer *w)
{
    struct hspz_list_result *r = malloc(sizeof(*r));
    assert_non_null(r);
    CHECKED(hspz_list_result_decode(b->message.result, r, err));
    hspz_list_result_encode(w, b->message.id, r->index_count, r->first, r->entries, r->count);
    free(r);
}

static void
encode_description(const struct block *b, struct hspz_writer *w)
{
    struct hspz_describe_result *r = malloc(sizeof(*r));
    assert_non_null(r);
    CHECKED(hspz_describe_result_decode(b->message.result, r, err));
    hspz_describe_result_encode(w, b->message.id, r);
    free(r);
}

static void
encode_filter_response(const struct block *b, enum hspz_method method, struct hspz_writer *w)
{
    const struct hspz_node *result = b->message.result;
    const uint32_t id = b->message.id;
    struct hspz_filter_job_result job;
    struct hspz_filter_info info;
    if (hspz_filter_takes_keys(method)) {
        CHECKED(hspz_filter_keys_result_decode(result, &job, err));
        hspz_filter_keys_result_encode(w, id, &job);
    } else if (method == HSPZ_METHOD_FILTER_ENUMERATE) {
        CHECKED(hspz_filter_enumerate_result_decode(result, &job, err));
        hspz_filter_enumerate_result_encode(w, id, &job);
    } else if (method == HSPZ_METHOD_FILTER_LIST) {
        struct hspz_filter_list_result *r = malloc(sizeof(*r));
        assert_non_null(r);
        CHECKED(hspz_filter_list_result_decode(result, r, err));
        hspz_filter_list_result_encode(w, id, r->filter_count, r->first, r->entries, r->count);
        free(r);
    } else {
        CHECKED(hspz_filter_info_decode(result, &info, err));
        hspz_filter_info_encode(w, id, &info);
    }
}

static void
encode_response(const struct block *b, enum hspz_method method, struct hspz_writer *w)
{
    struct hspz_discover_result discover;
    struct hspz_index_result index;
    struct hspz_shm_result shm;
    assert_int_equal(hspz_node_type(b->message.error), HSPZ_NODE_NIL);
    switch (method) {
    case HSPZ_METHOD_DISCOVER:
        CHECKED(hspz_discover_result_decode(b->message.result, &discover, err));
        hspz_discover_result_encode(w, b->message.id, &discover);
        break;
    case HSPZ_METHOD_INDEX_LIST:
        encode_list(b, w);
        break;
    case HSPZ_METHOD_INDEX_DESCRIBE:
        encode_description(b, w);
        break;
    case HSPZ_METHOD_INDEX_LOAD:
    case HSPZ_METHOD_INDEX_UNLOAD:
    case HSPZ_METHOD_INDEX_BUILD:
        CHECKED(hspz_index_result_decode(b->message.result, &index, err));
        hspz_index_result_encode(w, b->message.id, &index);
        break;
    case HSPZ_METHOD_SHM_OPEN:
        CHECKED(hspz_shm_result_decode(b->message.result, &shm, err));
        hspz_shm_result_encode(w, b->message.id, &shm);
        break;
    case HSPZ_METHOD_HELLO:
    case HSPZ_METHOD_CANCEL:
    case HSPZ_METHOD_STATS:
    case HSPZ_METHOD_HEALTH:
    case HSPZ_METHOD_DRAIN:
        assert_int_equal(hspz_node_type(b->message.result), HSPZ_NODE_MAP);
        hspz_response_begin(w, b->message.id);
        copy_node(w, b->message.result);
        break;
    case HSPZ_METHOD_COUNT:
        fail_msg("PROTOCOL.md:%u: no such method", b->line);
    default:
        encode_filter_response(b, method, w);
    }
}

static void
encode_part(const struct block *b, enum hspz_records records, struct hspz_writer *w,
            struct message_bytes *out)
{
    struct hspz_part_head head;
    struct hspz_span payload;
    CHECKED(hspz_part_decode(b->message.params, records, &head, &payload, err));
    hspz_part_encode(w, &head, payload.len);
    if (!head.placed) {
        write_payload(w, out, payload);
    }
}

static void
encode_free(const struct block *b, struct hspz_writer *w)
{
    uint64_t offsets[8];
    size_t count = 0;
    CHECKED(hspz_shm_free_decode(b->message.params, offsets, 8, &count, err));
    assert_true(count > 0);
    hspz_shm_free_encode(w, offsets, count);
}

/* A notification about a filter; false for others. */
static bool
encode_filter_part(const struct block *b, struct hspz_writer *w, struct message_bytes *out)
{
    struct hspz_answers_head answers;
    struct hspz_entries_head entries;
    struct hspz_span payload;
    if (strcmp(b->info, "notification answers") == 0) {
        CHECKED(hspz_answers_decode(b->message.params, &answers, &payload, err));
        hspz_answers_encode(w, &answers);
        payload.len = answers.placed ? 0 : payload.len;
    } else if (strcmp(b->info, "notification entries") == 0) {
        CHECKED(hspz_entries_decode(b->message.params, &entries, &payload, err));
        hspz_entries_encode(w, &entries);
        payload.len = entries.placed ? 0 : payload.len;
    } else {
        return false;
    }
    write_payload(w, out, payload);
    return true;
}

static enum hspz_method
method_named(const char *name)
{
    for (unsigned i = 0; i < HSPZ_METHOD_COUNT; i++) {
        if (strcmp(hspz_method_name((enum hspz_method)i), name) == 0) {
            return (enum hspz_method)i;
        }
    }
    return HSPZ_METHOD_COUNT;
}

static void
encode_block(const struct block *b, struct message_bytes *out)
{
    struct hspz_writer w;
    hspz_writer_init(&w);
    char kind[16];
    char name[32];
    assert_int_equal(sscanf(b->info, "%15s %31s", kind, name), 2);
    if (strcmp(kind, "request") == 0) {
        assert_int_equal(b->message.kind, HSPZ_REQUEST);
        assert_int_equal(b->message.method, method_named(name));
        encode_request(b, &w, out);
    } else if (strcmp(kind, "response") == 0) {
        assert_int_equal(b->message.kind, HSPZ_RESPONSE);
        encode_response(b, method_named(name), &w);
    } else if (strcmp(kind, "error") == 0) {
        struct hspz_error err;
        assert_int_equal(b->message.kind, HSPZ_RESPONSE);
        assert_int_equal(hspz_node_type(b->message.result), HSPZ_NODE_NIL);
        hspz_error_decode(b->message.error, &err);
        assert_string_equal(hspz_status_name(err.status), name);
        hspz_response_error(&w, b->message.id, &err);
    } else {
        assert_string_equal(kind, "notification");
        assert_int_equal(b->message.kind, HSPZ_NOTIFICATION);
        enum hspz_records records;
        if (strcmp(name, HSPZ_SHM_FREE) == 0) {
            encode_free(b, &w);
        } else if (!encode_filter_part(b, &w, out)) {
            assert_true(hspz_part_method((struct hspz_text){name, strlen(name)}, &records));
            encode_part(b, records, &w, out);
        }
    }
    message_bytes_add(out, w.bytes, w.len);
    assert_false(w.failed);
    hspz_writer_fini(&w);
}

static void
test_doc_blocks_decode_and_encode_to_the_same_bytes(void **state)
{
    const struct document *d = *state;
    assert_true(d->count >= 2 * HSPZ_METHOD_COUNT + 1);
    for (size_t i = 0; i < d->count; i++) {
        const struct block *b = &d->blocks[i];
        struct message_bytes out = {0};
        encode_block(b, &out);
        if (out.len != b->m.len || memcmp(out.bytes, b->m.bytes, out.len) != 0) {
            fail_msg("PROTOCOL.md:%u: %s comes out as %zu other bytes", b->line, b->info, out.len);
        }
        message_bytes_free(&out);
    }
}

static void
test_doc_has_blocks_for_every_method(void **state)
{
    const struct document *d = *state;
    bool anchors = false;
    bool hsps = false;
    bool answers = false;
    bool entries = false;
    for (unsigned m = 0; m < HSPZ_METHOD_COUNT; m++) {
        const char *name = hspz_method_name((enum hspz_method)m);
        char request[64];
        char response[64];
        char heading[64];
        snprintf(request, sizeof(request), "request %s", name);
        snprintf(response, sizeof(response), "response %s", name);
        snprintf(heading, sizeof(heading), "### 6.%u %s\n", m + 1, name);
        bool has_request = false;
        bool has_response = false;
        for (size_t i = 0; i < d->count; i++) {
            has_request = has_request || strcmp(d->blocks[i].info, request) == 0;
            has_response = has_response || strcmp(d->blocks[i].info, response) == 0;
            anchors = anchors || strcmp(d->blocks[i].info, "notification anchors") == 0;
            hsps = hsps || strcmp(d->blocks[i].info, "notification hsps") == 0;
            answers = answers || strcmp(d->blocks[i].info, "notification answers") == 0;
            entries = entries || strcmp(d->blocks[i].info, "notification entries") == 0;
        }
        if (!has_request || !has_response || strstr(d->text, heading) == NULL) {
            fail_msg("%s: no section, no request or no response", name);
        }
    }
    assert_true(anchors && hsps && answers && entries);
}

static void
test_doc_has_a_row_for_every_status(void **state)
{
    static const struct {
        int number;
        const char *name;
    } rows[] = {
#define STATUS_ROW(id, number, name, text) {number, name},
        HSPZ_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
    };
    const struct document *d = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char row[80];
        snprintf(row, sizeof(row), "\n| %d | `%s` | ", rows[i].number, rows[i].name);
        if (strstr(d->text, row) == NULL) {
            fail_msg("no row \"%s\"", row + 1);
        }
    }
}

/* Rows for the numbers that a header defines. */
static unsigned
check_limits(const struct document *d, const char *path)
{
    size_t size;
    char *text = (char *)test_read_file(path, &size);
    unsigned rows = 0;
    for (const char *at = text; (at = strstr(at, "#define HSPZ_")) != NULL; at++) {
        char name[64];
        unsigned long value;
        if (sscanf(at, "#define %63[A-Z_0-9] %luu", name, &value) != 2) {
            continue;
        }
        char row[160];
        snprintf(row, sizeof(row), " | %lu | `%s` |\n", value, name);
        if (strstr(d->text, row) == NULL) {
            fail_msg("no row that ends in \"%s\"", row);
        }
        rows++;
    }
    free(text);
    return rows;
}

static void
test_doc_has_a_row_for_every_limit(void **state)
{
    const struct document *d = *state;
    assert_true(check_limits(d, HSPZ_PROTOCOL_DIR "/limits.h") >= 10);
    assert_true(check_limits(d, HSPZ_PROTOCOL_DIR "/types.h") >= 6);
    assert_true(check_limits(d, HSPZ_PROTOCOL_DIR "/filter_message.h") >= 1);
}

static bool
is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Keys of maps are words of the text outside the blocks. */
static void
check_keys(const char *prose, const struct hspz_node *node, unsigned line)
{
    for (size_t i = 0; i < hspz_node_count(node); i++) {
        const struct hspz_node *key = hspz_node_key_at(node, i);
        if (key == NULL) {
            check_keys(prose, hspz_node_at(node, i), line);
            continue;
        }
        struct hspz_span span = {0};
        assert_true(hspz_node_str(key, &span));
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)span.len, (const char *)span.bytes);
        bool found = false;
        for (const char *at = prose; !found && (at = strstr(at, name)) != NULL; at++) {
            found = !is_name_char(at[-1]) && !is_name_char(at[span.len]);
        }
        if (!found) {
            fail_msg("PROTOCOL.md:%u: nothing says what \"%s\" is", line, name);
        }
        check_keys(prose, hspz_node_value_at(node, i), line);
    }
}

static void
test_doc_says_what_every_key_is(void **state)
{
    const struct document *d = *state;
    char *prose = malloc(strlen(d->text) + 1);
    assert_non_null(prose);
    size_t len = 0;
    bool code = false;
    for (const char *line = d->text; *line != '\0';) {
        const size_t n = strcspn(line, "\n") + 1;
        if (memcmp(line, "```", 3) == 0) {
            code = !code;
        } else if (!code) {
            memcpy(prose + len, line, n);
            len += n;
        }
        line += n;
    }
    prose[len] = '\0';
    for (size_t i = 0; i < d->count; i++) {
        check_keys(prose, hspz_doc_root(d->blocks[i].doc), d->blocks[i].line);
    }
    free(prose);
}

/* Section 8: what comes from one discover request to its response. */
struct example {
    struct hspz_discover_params params;
    struct hspz_discover_result result;
    uint8_t records[256];
    size_t len;
    struct hspz_part_head parts[16];
    size_t count;
};

static void
add_records(struct example *e, const struct hspz_part_head *head, struct hspz_span payload)
{
    struct hspz_columns columns;
    struct hspz_columns_place place = {0};
    const uint64_t count = head->id.hit_end - head->id.hit_begin;
    const size_t len = count * hspz_record_bytes(head->records);
    assert_true(len <= sizeof(e->records) - e->len);
    if (head->encoding == HSPZ_ENCODING_COLUMNAR) {
        assert_int_equal(hspz_columns_open(payload, count, &columns, NULL), HSPZ_OK);
        assert_int_equal(hspz_columns_read(&columns, &place, e->records + e->len, 1000), count);
    } else {
        assert_int_equal(payload.len, len);
        memcpy(e->records + e->len, payload.bytes, len);
    }
    e->len += len;
}

static void
collect(const struct document *d, uint32_t id, struct example *out)
{
    *out = (struct example){0};
    bool begun = false;
    bool done = false;
    for (size_t i = 0; i < d->count && !done; i++) {
        const struct block *b = &d->blocks[i];
        if (strcmp(b->info, "request discover") == 0 && b->message.id == id) {
            CHECKED(hspz_discover_decode(b->message.params, &out->params, err));
            begun = true;
        } else if (begun && strncmp(b->info, "notification ", 13) == 0) {
            struct hspz_part_head *head = &out->parts[out->count++];
            struct hspz_span payload;
            enum hspz_records records;
            assert_true(hspz_part_method(b->message.method_name, &records));
            CHECKED(hspz_part_decode(b->message.params, records, head, &payload, err));
            assert_int_equal(head->job, id);
            assert_int_equal(records, out->params.output);
            assert_int_equal(head->encoding, out->params.encoding);
            assert_true(out->count < 16);
            add_records(out, head, payload);
        } else if (begun && strcmp(b->info, "response discover") == 0) {
            assert_int_equal(b->message.id, id);
            CHECKED(hspz_discover_result_decode(b->message.result, &out->result, err));
            done = true;
        }
    }
    assert_true(done);
}

static uint64_t
word_at(const uint8_t *bytes, size_t i)
{
    uint64_t value = 0;
    for (unsigned b = 0; b < 8; b++) {
        value |= (uint64_t)bytes[8 * i + b] << (8 * b);
    }
    return value;
}

static void
check_totals(const struct example *e)
{
    char digest[17];
    const bool hsps = e->params.output == HSPZ_RECORDS_HSPS;
    const struct hspz_strand_totals *plus = &e->result.totals[HSPZ_STRAND_PLUS];
    snprintf(digest, sizeof(digest), "%016llx", (unsigned long long)XXH64(e->records, e->len, 0));
    assert_true(e->len > 0 && e->result.has_digest);
    assert_int_equal(e->result.anchors, hsps ? 0 : e->len / 8);
    assert_int_equal(e->result.hsps, hsps ? e->len / 16 : 0);
    assert_string_equal(e->result.digest, digest);
    assert_true(plus->hsps == e->result.hsps && plus->chunks == e->result.chunks);
    assert_true(hsps || plus->hits == e->result.anchors);
    assert_int_equal(e->result.max_hits, e->params.max_hits);
}

static void
test_doc_coordinate_example_is_right(void **state)
{
    struct example e;
    collect(*state, 20, &e);
    check_totals(&e);
    assert_int_equal(e.len, 8);
    assert_int_equal(e.params.bases.len, 19);
    assert_int_equal(HSPZ_ANCHOR_REF(word_at(e.records, 0)), 1000 + 19);
    assert_int_equal(HSPZ_ANCHOR_QUERY(word_at(e.records, 0)), 0 + 19);
}

static void
test_doc_columns_example_has_the_anchors_of_the_packed_one(void **state)
{
    struct example packed, columns;
    collect(*state, 21, &packed);
    collect(*state, 24, &columns);
    check_totals(&columns);
    assert_int_equal(columns.params.encoding, HSPZ_ENCODING_COLUMNAR);
    assert_int_equal(columns.params.seeds.len, packed.params.seeds.len);
    assert_memory_equal(columns.params.seeds.bytes, packed.params.seeds.bytes,
                        packed.params.seeds.len);
    assert_int_equal(columns.len, packed.len);
    assert_memory_equal(columns.records, packed.records, packed.len);
    assert_string_equal(columns.result.digest, packed.result.digest);
}

/* Of a place, only its length can be compared. */
static void
test_doc_shared_memory_example_is_of_the_packed_one(void **state)
{
    const struct document *d = *state;
    struct example packed;
    struct hspz_discover_params params = {0};
    struct hspz_part_head head = {0};
    struct hspz_span payload = {0};
    uint64_t freed = 1;
    size_t count = 0;
    collect(d, 21, &packed);
    for (size_t i = 0; i < d->count; i++) {
        const struct block *b = &d->blocks[i];
        if (strcmp(b->info, "request discover") == 0 && b->message.id == 25) {
            CHECKED(hspz_discover_decode(b->message.params, &params, err));
            CHECKED(
                hspz_part_decode(b[1].message.params, HSPZ_RECORDS_ANCHORS, &head, &payload, err));
            CHECKED(hspz_shm_free_decode(b[2].message.params, &freed, 1, &count, err));
        }
    }
    assert_true(params.shm && params.placed && params.has_seeds && params.offset == 4096);
    assert_int_equal(params.seeds.len, packed.params.seeds.len);
    assert_true(head.placed && head.job == 25 && payload.len == packed.len);
    assert_true(count == 1 && freed == head.offset);
}

static void
test_doc_hsp_example_is_right(void **state)
{
    struct example e;
    collect(*state, 22, &e);
    check_totals(&e);
    assert_true(e.len == 16 && e.count == 1 && e.params.bases.len == 40);
    assert_true(!e.params.scoring.entropy && !e.params.has_scores);
    uint64_t score = 0;
    for (size_t i = 0; i < e.params.bases.len; i++) {
        const char base = (char)e.params.bases.bytes[i];
        score += base == 'A' || base == 'T' ? 91 : 100;
        assert_non_null(strchr("ACGT", base));
    }
    assert_true(word_at(e.records, 0) == 1000);
    assert_true(word_at(e.records, 1) == (40 | score << 32));
    assert_true((int64_t)score > e.params.scoring.threshold);
    assert_int_equal(e.result.totals[HSPZ_STRAND_PLUS].hits, 40 - 19 + 1);
}

static void
test_doc_interval_example_is_right(void **state)
{
    struct example e;
    collect(*state, 23, &e);
    check_totals(&e);
    const uint64_t last = e.params.bases.len - 19;
    size_t at = 0;
    size_t part = 0;
    for (uint64_t a = 0; a < last; a += e.params.interval, part++) {
        const uint64_t b = a + e.params.interval < last ? a + e.params.interval : last;
        const struct hspz_part_head *head = &e.parts[part];
        assert_true(part < e.count && head->has_interval && head->id.interval == part);
        assert_true(head->id.seed_end == b - a + 1 && head->id.hit_end == b - a + 1);
        for (uint64_t i = a; i <= b; i++, at++) {
            assert_true(word_at(e.records, at) == ((1000 + i + 19) | (i + 19) << 32));
        }
    }
    assert_true(part == e.count && at == e.len / 8);
}

static void
test_doc_has_the_default_scores(void **state)
{
    static const int32_t hoxd70[4][4] = {{91, -114, -31, -123},
                                         {-114, 100, -125, -31},
                                         {-31, -125, 100, -114},
                                         {-123, -31, -114, 91}};
    const struct document *d = *state;
    bool found = false;
    for (size_t i = 0; i < d->count; i++) {
        const struct block *b = &d->blocks[i];
        struct hspz_discover_params p = {0};
        if (strcmp(b->info, "request discover") != 0) {
            continue;
        }
        CHECKED(hspz_discover_decode(b->message.params, &p, err));
        for (int r = 0; p.has_scores && r < HSPZ_CLASSES; r++) {
            for (int q = 0; q < HSPZ_CLASSES; q++) {
                const int32_t score = p.scoring.scores[r * HSPZ_CLASSES + q];
                assert_int_equal(score, p.scoring.scores[q * HSPZ_CLASSES + r]);
                assert_true(r > 3 || q > 3 || score == hoxd70[r][q]);
                found = true;
            }
        }
    }
    assert_true(found);
}

static void
test_doc_chunk_example_is_right(void **state)
{
    static const uint32_t bucket[6][5] = {{0}, {0}, {10, 20, 30}, {40}, {0}, {11, 21, 31, 41, 51}};
    static const unsigned counts[6] = {0, 0, 3, 1, 0, 5};
    struct example e;
    collect(*state, 21, &e);
    check_totals(&e);
    const size_t seeds = e.params.seeds.len / 8;
    assert_int_equal(seeds, 5);
    uint64_t want[16];
    uint64_t sums[5];
    uint64_t hits = 0;
    for (size_t i = 0; i < seeds; i++) {
        const uint64_t seed = word_at(e.params.seeds.bytes, i);
        const unsigned count = counts[HSPZ_SEED_WORD(seed)];
        for (unsigned j = 0; j < count; j++) {
            want[hits + count - 1 - j] = (bucket[HSPZ_SEED_WORD(seed)][j] + UINT64_C(19)) |
                                         (HSPZ_SEED_QUERY(seed) + UINT64_C(19)) << 32;
        }
        hits += count;
        sums[i] = hits;
    }
    assert_int_equal(e.len, 8 * hits);
    for (size_t i = 0; i < hits; i++) {
        assert_true(word_at(e.records, i) == want[i]);
    }
    /* The cut, seed by seed, against where the parts say they belong. */
    uint64_t begin = 0;
    uint64_t start = 0;
    uint32_t chunk = 0;
    for (size_t part = 0; part < e.count; chunk++) {
        size_t end = seeds;
        if (hits - start > e.params.max_hits) {
            for (end = 0; sums[end] < start + e.params.max_hits; end++) {
            }
            end += end == 0 || sums[end - 1] == start;
        }
        uint64_t at = start;
        bool last = false;
        for (uint32_t p = 0; !last; p++, part++) {
            assert_true(part < e.count);
            const struct hspz_part_id *id = &e.parts[part].id;
            assert_true(id->chunk == chunk && id->part == p && id->seed_begin == begin &&
                        id->seed_end == end && id->hit_begin == at);
            at = id->hit_end;
            last = id->last_part;
        }
        assert_int_equal(at, sums[end - 1]);
        begin = end;
        start = at;
    }
    assert_int_equal(start, hits);
    assert_int_equal(chunk, e.result.chunks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doc_blocks_decode_and_encode_to_the_same_bytes),
        cmocka_unit_test(test_doc_has_blocks_for_every_method),
        cmocka_unit_test(test_doc_has_a_row_for_every_status),
        cmocka_unit_test(test_doc_has_a_row_for_every_limit),
        cmocka_unit_test(test_doc_says_what_every_key_is),
        cmocka_unit_test(test_doc_coordinate_example_is_right),
        cmocka_unit_test(test_doc_chunk_example_is_right),
        cmocka_unit_test(test_doc_columns_example_has_the_anchors_of_the_packed_one),
        cmocka_unit_test(test_doc_shared_memory_example_is_of_the_packed_one),
        cmocka_unit_test(test_doc_hsp_example_is_right),
        cmocka_unit_test(test_doc_interval_example_is_right),
        cmocka_unit_test(test_doc_has_the_default_scores),
    };
    return cmocka_run_group_tests(tests, open_document, close_document);
}
