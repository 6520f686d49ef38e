/* Bytes of a peer all the way in: splitter, document, envelope, and every decoder on whatever came.
 * What a decoder takes, the encoder must write and the decoder take again; texts of errors must be
 * clean. */
#include "protocol/message.h"
#include "protocol/columns.h"
#include "protocol/filter_message.h"
#include "protocol/stream.h"
#include "protocol/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void
check(enum hspz_status status, const struct hspz_error *err)
{
    if (status != HSPZ_OK) {
        const size_t len = strlen(err->text);
        const uint8_t *text = (const uint8_t *)err->text;
        REQUIRE(err->status == status && len > 0);
        REQUIRE(hspz_utf8_prefix(text, len) == len);
        for (size_t i = 0; i < len; i++) {
            REQUIRE(text[i] >= 0x20 && text[i] != 0x7f);
        }
    }
}

/* The discover request again, from the encoder. */
static void
encode_discover(const struct hspz_discover_params *params)
{
    const struct hspz_span given = params->has_seeds ? params->seeds : params->bases;
    const struct hspz_span payload = params->placed ? (struct hspz_span){0} : given;
    struct hspz_writer w;
    struct hspz_doc *doc = NULL;
    struct hspz_message message;
    struct hspz_discover_params again;
    bool answerable;
    hspz_writer_init(&w);
    hspz_discover_encode(&w, 1, params);
    uint8_t *bytes = malloc(w.len + payload.len);
    REQUIRE(bytes != NULL);
    memcpy(bytes, w.bytes, w.len);
    if (payload.len > 0) {
        memcpy(bytes + w.len, payload.bytes, payload.len);
    }
    REQUIRE(hspz_doc_parse(bytes, w.len + payload.len, &doc, NULL) == HSPZ_OK);
    REQUIRE(hspz_message_decode(doc, &message, &answerable, NULL) == HSPZ_OK);
    REQUIRE(hspz_discover_decode(message.params, &again, NULL) == HSPZ_OK);
    REQUIRE(again.has_seeds == params->has_seeds && again.strands == params->strands &&
            again.begin == params->begin && again.end == params->end &&
            again.max_hits == params->max_hits && again.walk == params->walk &&
            again.interval == params->interval && again.output == params->output);
    REQUIRE(again.shm == params->shm && again.placed == params->placed &&
            again.offset == params->offset && again.seeds.len == params->seeds.len &&
            again.bases.len == params->bases.len);
    REQUIRE(!params->placed || given.bytes == NULL);
    REQUIRE(
        again.has_scores == params->has_scores && again.scoring.xdrop == params->scoring.xdrop &&
        again.scoring.threshold == params->scoring.threshold &&
        again.scoring.entropy == params->scoring.entropy &&
        again.scoring.scope == params->scoring.scope &&
        again.scoring.limit == params->scoring.limit &&
        memcmp(again.scoring.scores, params->scoring.scores, sizeof(again.scoring.scores)) == 0);
    hspz_doc_destroy(&doc);
    free(bytes);
    hspz_writer_fini(&w);
}

/* A request with keys again, from the encoder. */
static void
encode_keys(enum hspz_method method, const struct hspz_filter_keys_params *params)
{
    const struct hspz_filter_keys_params *p = params;
    struct hspz_writer w;
    struct hspz_doc *doc = NULL;
    struct hspz_message message;
    struct hspz_filter_keys_params again;
    bool answerable;
    hspz_writer_init(&w);
    hspz_filter_keys_encode(&w, 1, method, p);
    uint8_t *bytes = malloc(w.len + (p->placed ? 0 : 3 * p->keys.len) + 32);
    REQUIRE(bytes != NULL);
    size_t len = 0;
    const struct hspz_span bins[3] = {p->keys, p->values, p->counts};
    for (int i = 0; i < (p->placed ? 1 : 3); i++) {
        if (i > 0 && bins[i].bytes != NULL) {
            hspz_filter_more_encode(&w, i == 1 ? "values" : "counts", bins[i].len);
        }
        memcpy(bytes + len, w.bytes, w.len);
        len += w.len;
        w.len = 0;
        if (bins[i].len > 0 && !p->placed) {
            memcpy(bytes + len, bins[i].bytes, bins[i].len);
            len += bins[i].len;
        }
    }
    REQUIRE(hspz_doc_parse(bytes, len, &doc, NULL) == HSPZ_OK);
    REQUIRE(hspz_message_decode(doc, &message, &answerable, NULL) == HSPZ_OK);
    REQUIRE(message.known && message.method == method);
    REQUIRE(hspz_filter_keys_decode(method, message.params, &again, NULL) == HSPZ_OK);
    REQUIRE(again.answer == p->answer && again.deadline_ms == p->deadline_ms &&
            again.priority == p->priority && again.keys.len == p->keys.len &&
            again.values.len == p->values.len && again.counts.len == p->counts.len &&
            again.shm == p->shm && again.placed == p->placed && again.keys_at == p->keys_at &&
            (p->values.len == 0 || again.values_at == p->values_at) &&
            (p->counts.len == 0 || again.counts_at == p->counts_at) &&
            again.filter.len == p->filter.len);
    hspz_doc_destroy(&doc);
    free(bytes);
    hspz_writer_fini(&w);
}

static void
decode_filter_requests(const struct hspz_node *params)
{
    struct hspz_error err;
    struct hspz_filter_create_params create;
    struct hspz_filter_enumerate_params enumerate;
    struct hspz_filter_merge_params merge;
    struct hspz_filter_name_params name;
    struct hspz_filter_keys_params keys;
    struct hspz_list_params list;
    check(hspz_filter_create_decode(params, &create, &err), &err);
    check(hspz_filter_enumerate_decode(params, &enumerate, &err), &err);
    check(hspz_filter_merge_decode(params, &merge, &err), &err);
    check(hspz_filter_list_decode(params, &list, &err), &err);
    for (unsigned m = HSPZ_METHOD_FILTER_SAVE; m <= HSPZ_METHOD_FILTER_STATS; m++) {
        check(hspz_filter_name_decode((enum hspz_method)m, params, &name, &err), &err);
    }
    for (unsigned m = 0; m < HSPZ_METHOD_COUNT; m++) {
        if (hspz_filter_takes_keys((enum hspz_method)m)) {
            const enum hspz_status status =
                hspz_filter_keys_decode((enum hspz_method)m, params, &keys, &err);
            check(status, &err);
            if (status == HSPZ_OK) {
                encode_keys((enum hspz_method)m, &keys);
            }
        }
    }
}

static void
decode_filter_replies(const struct hspz_node *node)
{
    struct hspz_error err;
    struct hspz_filter_job_result job;
    struct hspz_filter_info info;
    struct hspz_filter_list_result *list = malloc(sizeof(*list));
    REQUIRE(list != NULL);
    check(hspz_filter_keys_result_decode(node, &job, &err), &err);
    check(hspz_filter_enumerate_result_decode(node, &job, &err), &err);
    check(hspz_filter_info_decode(node, &info, &err), &err);
    check(hspz_filter_list_result_decode(node, list, &err), &err);
    free(list);
}

static void
decode_requests(const struct hspz_node *params)
{
    decode_filter_requests(params);
    struct hspz_error err;
    struct hspz_hello_params hello;
    struct hspz_discover_params discover;
    struct hspz_cancel_params cancel;
    struct hspz_index_params_name name;
    struct hspz_list_params list;
    struct hspz_describe_params describe;
    struct hspz_load_params load;
    struct hspz_build_params build;
    check(hspz_hello_decode(params, &hello, &err), &err);
    check(hspz_cancel_decode(params, &cancel, &err), &err);
    check(hspz_index_name_decode(params, &name, &err), &err);
    check(hspz_list_decode(params, &list, &err), &err);
    check(hspz_describe_decode(params, &describe, &err), &err);
    check(hspz_load_decode(params, &load, &err), &err);
    check(hspz_build_decode(params, &build, &err), &err);
    check(hspz_no_params_decode(params, &err), &err);
    check(hspz_stats_decode(params, &list, &err), &err);
    const enum hspz_status status = hspz_discover_decode(params, &discover, &err);
    check(status, &err);
    if (status == HSPZ_OK) {
        encode_discover(&discover);
    }
}

static void
decode_replies(const struct hspz_node *node)
{
    struct hspz_error err;
    struct hspz_discover_result discover;
    struct hspz_index_result index;
    struct hspz_list_result *list = malloc(sizeof(*list));
    struct hspz_describe_result *describe = malloc(sizeof(*describe));
    REQUIRE(list != NULL && describe != NULL);
    struct hspz_shm_result shm;
    decode_filter_replies(node);
    check(hspz_discover_result_decode(node, &discover, &err), &err);
    check(hspz_shm_result_decode(node, &shm, &err), &err);
    check(hspz_index_result_decode(node, &index, &err), &err);
    check(hspz_list_result_decode(node, list, &err), &err);
    const enum hspz_status status = hspz_describe_result_decode(node, describe, &err);
    check(status, &err);
    if (status == HSPZ_OK) {
        struct hspz_writer w;
        hspz_writer_init(&w);
        hspz_describe_result_encode(&w, 1, describe);
        REQUIRE(!w.failed);
        hspz_writer_fini(&w);
    }
    hspz_error_decode(node, &err);
    REQUIRE(err.status != HSPZ_OK);
    check(err.text[0] != '\0' ? err.status : HSPZ_OK, &err);
    free(describe);
    free(list);
}

/* What is taken has as many anchors as it says, however it is read. */
static void
read_columns(struct hspz_span payload, uint64_t anchors)
{
    struct hspz_error err;
    struct hspz_columns columns;
    struct hspz_columns_place place = {0};
    uint8_t packed[3 * HSPZ_ANCHOR_BYTES];
    uint64_t sum = 0;
    const enum hspz_status status = hspz_columns_open(payload, anchors, &columns, &err);
    check(status, &err);
    for (size_t n = 1; status == HSPZ_OK && n > 0; sum += n) {
        n = hspz_columns_read(&columns, &place, packed, 3);
    }
    REQUIRE(status != HSPZ_OK || sum == anchors);
}

static void
decode_frame(const struct hspz_frame *frame)
{
    struct hspz_doc *doc = NULL;
    struct hspz_message message;
    struct hspz_error err;
    bool answerable;
    REQUIRE(hspz_doc_parse(frame->bytes, frame->len, &doc, &err) == HSPZ_OK);
    const enum hspz_status status = hspz_message_decode(doc, &message, &answerable, &err);
    check(status, &err);
    REQUIRE(!answerable || message.kind == HSPZ_REQUEST);
    if (status == HSPZ_OK) {
        struct hspz_part_head head;
        struct hspz_span payload;
        const enum hspz_status part =
            hspz_part_decode(message.params, HSPZ_RECORDS_ANCHORS, &head, &payload, &err);
        check(part, &err);
        REQUIRE(part != HSPZ_OK || !head.placed || payload.bytes == NULL);
        if (part == HSPZ_OK && !head.placed && head.encoding == HSPZ_ENCODING_COLUMNAR) {
            read_columns(payload, head.id.hit_end - head.id.hit_begin);
        }
        check(hspz_part_decode(message.params, HSPZ_RECORDS_HSPS, &head, &payload, &err), &err);
        struct hspz_answers_head answers;
        struct hspz_entries_head entries;
        check(hspz_answers_decode(message.params, &answers, &payload, &err), &err);
        check(hspz_entries_decode(message.params, &entries, &payload, &err), &err);
        uint64_t offsets[3];
        size_t count = 0;
        check(hspz_shm_free_decode(message.params, offsets, 3, &count, &err), &err);
        REQUIRE(count <= 3);
        decode_requests(message.params);
        decode_replies(message.result);
        decode_replies(message.error);
    }
    /* A map alone counts as params and as a result, so that an input need not have an envelope. */
    if (hspz_node_type(hspz_doc_root(doc)) == HSPZ_NODE_MAP) {
        decode_requests(hspz_doc_root(doc));
        decode_replies(hspz_doc_root(doc));
    }
    hspz_doc_destroy(&doc);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hspz_stream *stream = NULL;
    REQUIRE(hspz_stream_create(1 << 20, NULL, NULL, &stream) == HSPZ_OK);
    struct hspz_error err;
    enum hspz_status status = HSPZ_OK;
    for (size_t at = 0; at < size && status == HSPZ_OK;) {
        struct hspz_frame frame;
        size_t used;
        bool ready;
        status = hspz_stream_feed(stream, data + at, size - at, &used, &ready, &frame, &err);
        check(status, &err);
        at += used;
        if (ready) {
            decode_frame(&frame);
            hspz_frame_release(&frame);
        }
    }
    hspz_stream_destroy(&stream);
    return 0;
}
