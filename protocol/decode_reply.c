/* Results, errors and parts, from documents, as a client reads them. Keys it does not know are
 * passed over: a newer server may say more. */
#include "protocol/fields.h"
#include "protocol/message.h"
#include "protocol/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define REQUIRED true
#define ANY_UINT 0, UINT64_MAX
#define ANY_UINT32 0, UINT32_MAX

struct part_map {
    struct hspz_part_head head;
    struct hspz_text strand, encoding;
};

static const char *
part_name(enum hspz_records records)
{
    return records == HSPZ_RECORDS_HSPS ? "hsps" : "anchors";
}

static enum hspz_status
part_check(const struct hspz_part_head *head, size_t payload_bytes, struct hspz_error *err)
{
    const struct hspz_part_id *id = &head->id;
    const size_t record = hspz_record_bytes(head->records);
    /* What columns hold is for their own decoder. */
    const bool columnar = head->encoding == HSPZ_ENCODING_COLUMNAR;
    if (id->seed_begin > id->seed_end || id->hit_begin > id->hit_end ||
        (!columnar &&
         (payload_bytes % record != 0 || payload_bytes / record != id->hit_end - id->hit_begin))) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: %zu bytes for %s %" PRIu64 " to %" PRIu64 " of seeds %" PRIu64
                              " to %" PRIu64,
                              part_name(head->records), payload_bytes,
                              head->records == HSPZ_RECORDS_HSPS ? "hsps" : "hits", id->hit_begin,
                              id->hit_end, id->seed_begin, id->seed_end);
    }
    return HSPZ_OK;
}

enum { PART_INTERVAL, PART_BEGIN, PART_END };

#define AT(member) offsetof(struct part_map, member)
/* Keys are those of anchors. */
static const struct hspz_field part_rows[] = {
    [PART_INTERVAL] = {"interval", HSPZ_FIELD_UINT32, false, AT(head.id.interval), ANY_UINT32},
    [PART_BEGIN] = {"hit_begin", HSPZ_FIELD_UINT, REQUIRED, AT(head.id.hit_begin), ANY_UINT},
    [PART_END] = {"hit_end", HSPZ_FIELD_UINT, REQUIRED, AT(head.id.hit_end), ANY_UINT},
    {"encoding", HSPZ_FIELD_TEXT, false, AT(encoding), 1, HSPZ_NAME_BYTES_LIMIT},
    {"job", HSPZ_FIELD_UINT32, REQUIRED, AT(head.job), ANY_UINT32},
    {"batch", HSPZ_FIELD_UINT32, REQUIRED, AT(head.id.batch), ANY_UINT32},
    {"strand", HSPZ_FIELD_TEXT, REQUIRED, AT(strand), 1, HSPZ_NAME_BYTES_LIMIT},
    {"ref_block", HSPZ_FIELD_UINT32, REQUIRED, AT(head.id.ref_block), ANY_UINT32},
    {"chunk", HSPZ_FIELD_UINT32, REQUIRED, AT(head.id.chunk), ANY_UINT32},
    {"part", HSPZ_FIELD_UINT32, REQUIRED, AT(head.id.part), ANY_UINT32},
    {"last_part", HSPZ_FIELD_BOOL, REQUIRED, AT(head.id.last_part), 0, 0},
    {"seed_begin", HSPZ_FIELD_UINT, REQUIRED, AT(head.id.seed_begin), ANY_UINT},
    {"seed_end", HSPZ_FIELD_UINT, REQUIRED, AT(head.id.seed_end), ANY_UINT},
};
#undef AT

enum hspz_status
hspz_part_decode(const struct hspz_node *params, enum hspz_records records,
                 struct hspz_part_head *out, struct hspz_span *payload, struct hspz_error *err)
{
    const char *const name = part_name(records);
    struct hspz_field rows[COUNT(part_rows)];
    memcpy(rows, part_rows, sizeof(rows));
    if (records == HSPZ_RECORDS_HSPS) {
        rows[PART_BEGIN].key = "hsp_begin";
        rows[PART_END].key = "hsp_end";
    }
    const struct hspz_fields fields = {name, rows, COUNT(rows), true};
    struct part_map map = {.head.records = records};
    static const struct hspz_field payload_row = {
        "the payload", HSPZ_FIELD_BYTES, REQUIRED, 0, 0, 0};
    struct hspz_payload bytes = {0};
    uint32_t seen;
    if (hspz_node_count(params) != 2) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: wanted a map and a payload", name);
    }
    enum hspz_status status = hspz_field_decode(&payload_row, hspz_node_at(params, 1), &bytes, err);
    if (status == HSPZ_OK) {
        status = hspz_fields_decode(&fields, hspz_node_at(params, 0), &map, &seen, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const bool minus = map.strand.len == 5 && memcmp(map.strand.bytes, "minus", 5) == 0;
    if (!minus && !(map.strand.len == 4 && memcmp(map.strand.bytes, "plus", 4) == 0)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: the strand is neither \"plus\" nor \"minus\"", name);
    }
    if (map.encoding.len > 0) {
        if (records == HSPZ_RECORDS_HSPS || map.encoding.len != 8 ||
            memcmp(map.encoding.bytes, "columnar", 8) != 0) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: the encoding is not known", name);
        }
        map.head.encoding = HSPZ_ENCODING_COLUMNAR;
    }
    map.head.id.strand = minus ? HSPZ_STRAND_MINUS : HSPZ_STRAND_PLUS;
    map.head.has_interval = (seen & UINT32_C(1) << PART_INTERVAL) != 0;
    map.head.placed = bytes.placed;
    map.head.offset = bytes.offset;
    status = part_check(&map.head, bytes.span.len, err);
    if (status == HSPZ_OK) {
        *out = map.head;
        *payload = bytes.span;
    }
    return status;
}

enum hspz_status
hspz_shm_result_decode(const struct hspz_node *result, struct hspz_shm_result *out,
                       struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_shm_result, member)
    static const struct hspz_field rows[] = {
        {"ring_bytes", HSPZ_FIELD_UINT, REQUIRED, AT(ring_bytes), 1, INT64_MAX},
        {"input_bytes", HSPZ_FIELD_UINT, REQUIRED, AT(input_bytes), 0, INT64_MAX},
    };
#undef AT
    static const struct hspz_fields fields = {"shm.open's result", rows, COUNT(rows), true};
    uint32_t seen;
    return hspz_fields_decode(&fields, result, out, &seen, err);
}

/* The result's maps inside the map. */
struct discover_result_map {
    struct hspz_discover_result r;
    const struct hspz_node *strands, *timings;
    const struct hspz_node *by_strand[2];
    struct hspz_text index_digest, digest;
};

static enum hspz_status
totals_decode(const struct hspz_node *node, struct hspz_strand_totals *out, struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_strand_totals, member)
    static const struct hspz_field rows[] = {
        {"batches", HSPZ_FIELD_UINT, REQUIRED, AT(batches), ANY_UINT},
        {"seeds", HSPZ_FIELD_UINT, REQUIRED, AT(seeds), ANY_UINT},
        {"hits", HSPZ_FIELD_UINT, REQUIRED, AT(hits), ANY_UINT},
        {"chunks", HSPZ_FIELD_UINT, REQUIRED, AT(chunks), ANY_UINT},
        {"hsps", HSPZ_FIELD_UINT, REQUIRED, AT(hsps), ANY_UINT},
    };
#undef AT
    static const struct hspz_fields fields = {"a strand's totals", rows, COUNT(rows), true};
    uint32_t seen;
    return hspz_fields_decode(&fields, node, out, &seen, err);
}

static enum hspz_status
strands_decode(struct discover_result_map *map, struct hspz_error *err)
{
#define AT(member) offsetof(struct discover_result_map, member)
    static const struct hspz_field rows[] = {
        {"plus", HSPZ_FIELD_MAP, REQUIRED, AT(by_strand[HSPZ_STRAND_PLUS]), 0, 0},
        {"minus", HSPZ_FIELD_MAP, REQUIRED, AT(by_strand[HSPZ_STRAND_MINUS]), 0, 0},
    };
#undef AT
    static const struct hspz_fields fields = {"\"strands\"", rows, COUNT(rows), true};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, map->strands, map, &seen, err);
    for (unsigned s = 0; s < 2 && status == HSPZ_OK; s++) {
        status = totals_decode(map->by_strand[s], &map->r.totals[s], err);
    }
    return status;
}

enum hspz_status
hspz_timings_decode(const struct hspz_node *node, struct hspz_timings *out, struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_timings, member)
    static const struct hspz_field rows[] = {
        {"queued_ns", HSPZ_FIELD_UINT, REQUIRED, AT(queued_ns), ANY_UINT},
        {"engine_ns", HSPZ_FIELD_UINT, REQUIRED, AT(engine_ns), ANY_UINT},
        {"total_ns", HSPZ_FIELD_UINT, REQUIRED, AT(total_ns), ANY_UINT},
    };
#undef AT
    static const struct hspz_fields fields = {"\"timings\"", rows, COUNT(rows), true};
    uint32_t seen;
    return hspz_fields_decode(&fields, node, out, &seen, err);
}

enum hspz_status
hspz_discover_result_decode(const struct hspz_node *result, struct hspz_discover_result *out,
                            struct hspz_error *err)
{
#define AT(member) offsetof(struct discover_result_map, member)
    static const struct hspz_field rows[] = {
        {"strands", HSPZ_FIELD_MAP, REQUIRED, AT(strands), 0, 0},
        {"anchors", HSPZ_FIELD_UINT, REQUIRED, AT(r.anchors), ANY_UINT},
        {"hsps", HSPZ_FIELD_UINT, REQUIRED, AT(r.hsps), ANY_UINT},
        {"chunks", HSPZ_FIELD_UINT, REQUIRED, AT(r.chunks), ANY_UINT},
        {"max_hits", HSPZ_FIELD_UINT, REQUIRED, AT(r.max_hits), 1, UINT64_MAX},
        {"index_digest", HSPZ_FIELD_DIGEST, REQUIRED, AT(index_digest), 0, 0},
        {"digest", HSPZ_FIELD_DIGEST, false, AT(digest), 0, 0},
        {"timings", HSPZ_FIELD_MAP, REQUIRED, AT(timings), 0, 0},
    };
#undef AT
    static const struct hspz_fields fields = {"discover's result", rows, COUNT(rows), true};
    struct discover_result_map map = {0};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, result, &map, &seen, err);
    if (status == HSPZ_OK) {
        status = strands_decode(&map, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_timings_decode(map.timings, &map.r.timings, err);
    }
    if (status == HSPZ_OK) {
        memcpy(map.r.index_digest, map.index_digest.bytes, 16);
        map.r.has_digest = map.digest.len > 0;
        if (map.r.has_digest) {
            memcpy(map.r.digest, map.digest.bytes, 16);
        }
        *out = map.r;
    }
    return status;
}

void
hspz_error_decode(const struct hspz_node *error, struct hspz_error *err)
{
    const struct hspz_node *code = hspz_node_get(error, "code");
    struct hspz_span name = {0};
    struct hspz_span message = {0};
    char quote[HSPZ_QUOTE_BYTES];
    char node[HSPZ_NODE_TEXT_BYTES];
    if (!hspz_node_str(code, &name)) {
        hspz_error_set(err, HSPZ_E_INTERNAL, "the server answered with %s instead of an error map",
                       hspz_node_describe(error, node));
        return;
    }
    enum hspz_status status = hspz_status_from_name((const char *)name.bytes, name.len);
    const bool known = strlen(hspz_status_name(status)) == name.len &&
                       memcmp(hspz_status_name(status), name.bytes, name.len) == 0;
    if (status == HSPZ_OK || status >= HSPZ_E_NO_SERVER) {
        status = HSPZ_E_INTERNAL;
    }
    hspz_node_str(hspz_node_get(error, "message"), &message);
    const int len = message.len > HSPZ_ERROR_TEXT_BYTES ? HSPZ_ERROR_TEXT_BYTES : (int)message.len;
    const char *text = len > 0 ? (const char *)message.bytes : "";
    if (known) {
        hspz_error_set(err, status, "%.*s", len, text);
    } else {
        hspz_error_set(err, status, "error %s: %.*s", hspz_text_quote(name, quote), len, text);
    }
    if (err != NULL) {
        hspz_text_clean(err->text);
        err->has_hits = hspz_node_uint(hspz_node_get(error, "hits"), &err->hits);
        err->has_limit = hspz_node_uint(hspz_node_get(error, "limit"), &err->limit);
        err->has_retry = hspz_node_uint(hspz_node_get(error, "retry_ms"), &err->retry_ms);
    }
}

static enum hspz_status
list_entry_decode(const struct hspz_node *node, struct hspz_list_entry *out, struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_list_entry, member)
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_RAW, REQUIRED, AT(index), 0, 0},
        {"state", HSPZ_FIELD_RAW, REQUIRED, AT(state), 0, 0},
        {"file", HSPZ_FIELD_RAW, REQUIRED, AT(file), 0, 0},
        {"bytes", HSPZ_FIELD_UINT, REQUIRED, AT(bytes), ANY_UINT},
        {"pinned", HSPZ_FIELD_BOOL, REQUIRED, AT(pinned), 0, 0},
    };
#undef AT
    static const struct hspz_fields fields = {"an index in the list", rows, COUNT(rows), true};
    uint32_t seen;
    return hspz_fields_decode(&fields, node, out, &seen, err);
}

enum hspz_status
hspz_list_result_decode(const struct hspz_node *result, struct hspz_list_result *out,
                        struct hspz_error *err)
{
    struct list_map {
        uint64_t index_count, first;
        const struct hspz_node *indexes;
    } map = {0};
#define AT(member) offsetof(struct list_map, member)
    static const struct hspz_field rows[] = {
        {"index_count", HSPZ_FIELD_UINT, REQUIRED, AT(index_count), ANY_UINT},
        {"first", HSPZ_FIELD_UINT, REQUIRED, AT(first), ANY_UINT},
        {"indexes", HSPZ_FIELD_ARRAY, REQUIRED, AT(indexes), 0, HSPZ_PAGE_INDEXES_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"index.list's result", rows, COUNT(rows), true};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, result, &map, &seen, err);
    out->count = 0;
    out->index_count = map.index_count;
    out->first = map.first;
    for (size_t i = 0; status == HSPZ_OK && i < hspz_node_count(map.indexes); i++) {
        out->entries[i] = (struct hspz_list_entry){0};
        status = list_entry_decode(hspz_node_at(map.indexes, i), &out->entries[i], err);
        out->count = i + 1;
    }
    return status;
}

static enum hspz_status
block_decode(const struct hspz_node *node, struct hspz_describe_block *out, struct hspz_error *err)
{
    if (hspz_node_count(node) != 2 || !hspz_node_uint(hspz_node_at(node, 0), &out->bases) ||
        !hspz_node_uint(hspz_node_at(node, 1), &out->words)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a block: wanted [bases, words]");
    }
    return HSPZ_OK;
}

static enum hspz_status
sequence_decode(const struct hspz_node *node, struct hspz_describe_sequence *out,
                struct hspz_error *err)
{
    struct hspz_span name = {0};
    if (hspz_node_count(node) != 4 || !hspz_node_text(hspz_node_at(node, 0), &name) ||
        !hspz_node_uint(hspz_node_at(node, 1), &out->bases) ||
        !hspz_node_uint(hspz_node_at(node, 2), &out->block) ||
        !hspz_node_uint(hspz_node_at(node, 3), &out->offset)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "a sequence: wanted [name, bases, block, offset]");
    }
    out->name = (struct hspz_text){(const char *)name.bytes, name.len};
    return HSPZ_OK;
}

struct describe_lists {
    const struct hspz_node *blocks, *sequences;
};

static enum hspz_status
describe_lists_decode(const struct hspz_node *blocks, const struct hspz_node *sequences,
                      struct hspz_describe_result *out, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; status == HSPZ_OK && i < hspz_node_count(blocks); i++) {
        status = block_decode(hspz_node_at(blocks, i), &out->blocks[i], err);
        out->blocks_here = i + 1;
    }
    for (size_t i = 0; status == HSPZ_OK && i < hspz_node_count(sequences); i++) {
        status = sequence_decode(hspz_node_at(sequences, i), &out->sequences[i], err);
        out->sequences_here = i + 1;
    }
    return status;
}

enum hspz_status
hspz_describe_result_decode(const struct hspz_node *result, struct hspz_describe_result *out,
                            struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_describe_result, member)
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_RAW, REQUIRED, AT(index), 0, 0},
        {"state", HSPZ_FIELD_RAW, REQUIRED, AT(state), 0, 0},
        {"file", HSPZ_FIELD_RAW, REQUIRED, AT(file), 0, 0},
        {"shape", HSPZ_FIELD_RAW, REQUIRED, AT(shape), 0, 0},
        {"weight", HSPZ_FIELD_UINT, REQUIRED, AT(weight), ANY_UINT},
        {"span", HSPZ_FIELD_UINT, REQUIRED, AT(span), ANY_UINT},
        {"step", HSPZ_FIELD_UINT, REQUIRED, AT(step), ANY_UINT},
        {"unmask", HSPZ_FIELD_BOOL, REQUIRED, AT(unmask), 0, 0},
        {"all_positions", HSPZ_FIELD_BOOL, REQUIRED, AT(all_positions), 0, 0},
        {"digest", HSPZ_FIELD_RAW, REQUIRED, AT(digest), 0, 0},
        {"sequence_digest", HSPZ_FIELD_RAW, false, AT(sequence_digest), 0, 0},
        {"version", HSPZ_FIELD_RAW, REQUIRED, AT(version), 0, 0},
        {"bytes", HSPZ_FIELD_UINT, REQUIRED, AT(bytes), ANY_UINT},
        {"bases", HSPZ_FIELD_UINT, REQUIRED, AT(bases), ANY_UINT},
        {"words", HSPZ_FIELD_UINT, REQUIRED, AT(words), ANY_UINT},
        {"block_count", HSPZ_FIELD_UINT, REQUIRED, AT(block_count), ANY_UINT},
        {"sequence_count", HSPZ_FIELD_UINT, REQUIRED, AT(sequence_count), ANY_UINT},
        {"first", HSPZ_FIELD_UINT, REQUIRED, AT(first), ANY_UINT},
    };
#undef AT
#define AT(member) offsetof(struct describe_lists, member)
    static const struct hspz_field list_rows[] = {
        {"blocks", HSPZ_FIELD_ARRAY, REQUIRED, AT(blocks), 0, HSPZ_PAGE_SEQUENCES_LIMIT},
        {"sequences", HSPZ_FIELD_ARRAY, REQUIRED, AT(sequences), 0, HSPZ_PAGE_SEQUENCES_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"index.describe's result", rows, COUNT(rows), true};
    static const struct hspz_fields lists = {"index.describe's result", list_rows, COUNT(list_rows),
                                             true};
    struct describe_lists map = {0};
    uint32_t seen;
    *out = (struct hspz_describe_result){0};
    enum hspz_status status = hspz_fields_decode(&fields, result, out, &seen, err);
    if (status == HSPZ_OK) {
        status = hspz_fields_decode(&lists, result, &map, &seen, err);
    }
    return status == HSPZ_OK ? describe_lists_decode(map.blocks, map.sequences, out, err) : status;
}

enum hspz_status
hspz_index_result_decode(const struct hspz_node *result, struct hspz_index_result *out,
                         struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_index_result, member)
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_RAW, REQUIRED, AT(index), 0, 0},
        {"digest", HSPZ_FIELD_RAW, REQUIRED, AT(digest), 0, 0},
        {"bytes", HSPZ_FIELD_UINT, REQUIRED, AT(bytes), ANY_UINT},
    };
#undef AT
    static const struct hspz_fields fields = {"the result", rows, COUNT(rows), true};
    uint32_t seen;
    *out = (struct hspz_index_result){0};
    return hspz_fields_decode(&fields, result, out, &seen, err);
}
