/* Results and notifications about filters, both ways. */
#include "protocol/encode_p.h"
#include "protocol/fields.h"
#include "protocol/filter_message.h"

#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define REQUIRED true
#define OPTIONAL false
#define ANY_UINT 0, UINT64_MAX

static const char *const answer_names[HSPZ_ANSWERS] = {"none", "bitmap", "array", "both"};

const char *
hspz_filter_answer_name(enum hspz_filter_answer answer)
{
    HSPZ_REQUIRE((unsigned)answer < HSPZ_ANSWERS);
    return answer_names[answer];
}

uint64_t
hspz_filter_answer_bytes(enum hspz_filter_answer answer, uint64_t count)
{
    const uint64_t bits = count / 8 + (count % 8 != 0);
    switch (answer) {
    case HSPZ_ANSWER_BITMAP:
        return bits;
    case HSPZ_ANSWER_ARRAY:
        return 8 * count;
    case HSPZ_ANSWER_BOTH:
        return 8 * count + bits;
    default:
        return 0;
    }
}

/* The payload of a notification of a map and of that. */
static enum hspz_status
open_part(const char *name, const struct hspz_node *params, struct hspz_payload *payload,
          struct hspz_error *err)
{
    static const struct hspz_field row = {"the payload", HSPZ_FIELD_BYTES, REQUIRED, 0, 0, 0};
    if (hspz_node_count(params) != 2) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: wanted a map and a payload", name);
    }
    return hspz_field_decode(&row, hspz_node_at(params, 1), payload, err);
}

static enum hspz_status
wrong_size(const char *name, size_t len, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "%s: the payload has %zu bytes, which is not what its count says", name,
                          len);
}

enum hspz_status
hspz_answers_decode(const struct hspz_node *params, struct hspz_answers_head *out,
                    struct hspz_span *payload, struct hspz_error *err)
{
    struct answers_map {
        struct hspz_answers_head head;
        struct hspz_text answer;
    } map = {{0}, {0}};
#define AT(member) offsetof(struct answers_map, member)
    static const struct hspz_field rows[] = {
        {"job", HSPZ_FIELD_UINT32, REQUIRED, AT(head.job), 0, UINT32_MAX},
        {"answer", HSPZ_FIELD_TEXT, REQUIRED, AT(answer), 1, HSPZ_NAME_BYTES_LIMIT},
        {"first", HSPZ_FIELD_UINT, REQUIRED, AT(head.first), ANY_UINT},
        {"count", HSPZ_FIELD_UINT, REQUIRED, AT(head.count), 1, HSPZ_PART_BYTES_LIMIT * 8},
    };
#undef AT
    static const struct hspz_fields fields = {"answers", rows, COUNT(rows), true};
    struct hspz_payload bytes = {0};
    uint32_t seen;
    enum hspz_status status = open_part("answers", params, &bytes, err);
    if (status == HSPZ_OK) {
        status = hspz_fields_decode(&fields, hspz_node_at(params, 0), &map, &seen, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    for (unsigned i = HSPZ_ANSWER_BITMAP; i < HSPZ_ANSWERS; i++) {
        if (hspz_text_is(map.answer, answer_names[i])) {
            map.head.answer = (enum hspz_filter_answer)i;
        }
    }
    if (map.head.answer == HSPZ_ANSWER_NONE) {
        return hspz_field_not_one_of("answer", map.answer, "\"bitmap\", \"array\" or \"both\"",
                                     err);
    }
    if (bytes.span.len != hspz_filter_answer_bytes(map.head.answer, map.head.count)) {
        return wrong_size("answers", bytes.span.len, err);
    }
    map.head.placed = bytes.placed;
    map.head.offset = bytes.offset;
    *out = map.head;
    *payload = bytes.span;
    return HSPZ_OK;
}

enum hspz_status
hspz_entries_decode(const struct hspz_node *params, struct hspz_entries_head *out,
                    struct hspz_span *payload, struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_entries_head, member)
    static const struct hspz_field rows[] = {
        {"job", HSPZ_FIELD_UINT32, REQUIRED, AT(job), 0, UINT32_MAX},
        {"first", HSPZ_FIELD_UINT, REQUIRED, AT(first), ANY_UINT},
        {"count", HSPZ_FIELD_UINT, REQUIRED, AT(count), 1, HSPZ_PART_BYTES_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"entries", rows, COUNT(rows), true};
    struct hspz_entries_head head = {0};
    struct hspz_payload bytes = {0};
    uint32_t seen;
    enum hspz_status status = open_part("entries", params, &bytes, err);
    if (status == HSPZ_OK) {
        status = hspz_fields_decode(&fields, hspz_node_at(params, 0), &head, &seen, err);
    }
    if (status == HSPZ_OK && bytes.span.len != head.count * HSPZ_ENTRY_BYTES) {
        status = wrong_size("entries", bytes.span.len, err);
    }
    if (status == HSPZ_OK) {
        head.placed = bytes.placed;
        head.offset = bytes.offset;
        *out = head;
        *payload = bytes.span;
    }
    return status;
}

void
hspz_filter_keys_result_encode(struct hspz_writer *w, uint32_t id,
                               const struct hspz_filter_job_result *result)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 4);
    hspz_write_key_uint(w, "keys", result->keys);
    hspz_write_key_uint(w, "yes", result->yes);
    hspz_write_key_bool(w, "filter_full", result->filter_full);
    hspz_put_timings(w, &result->timings);
}

void
hspz_filter_enumerate_result_encode(struct hspz_writer *w, uint32_t id,
                                    const struct hspz_filter_job_result *result)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 2);
    hspz_write_key_uint(w, "entries", result->keys);
    hspz_put_timings(w, &result->timings);
}

struct job_result_map {
    struct hspz_filter_job_result r;
    const struct hspz_node *timings;
};

static enum hspz_status
job_result_decode(const struct hspz_fields *fields, const struct hspz_node *result,
                  struct hspz_filter_job_result *out, struct hspz_error *err)
{
    struct job_result_map map = {0};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(fields, result, &map, &seen, err);
    if (status == HSPZ_OK) {
        status = hspz_timings_decode(map.timings, &map.r.timings, err);
    }
    *out = map.r;
    return status;
}

#define AT(member) offsetof(struct job_result_map, member)

enum hspz_status
hspz_filter_keys_result_decode(const struct hspz_node *result, struct hspz_filter_job_result *out,
                               struct hspz_error *err)
{
    static const struct hspz_field rows[] = {
        {"keys", HSPZ_FIELD_UINT, REQUIRED, AT(r.keys), ANY_UINT},
        {"yes", HSPZ_FIELD_UINT, REQUIRED, AT(r.yes), ANY_UINT},
        {"filter_full", HSPZ_FIELD_BOOL, REQUIRED, AT(r.filter_full), 0, 0},
        {"timings", HSPZ_FIELD_MAP, REQUIRED, AT(timings), 0, 0},
    };
    static const struct hspz_fields fields = {"the result", rows, COUNT(rows), true};
    return job_result_decode(&fields, result, out, err);
}

enum hspz_status
hspz_filter_enumerate_result_decode(const struct hspz_node *result,
                                    struct hspz_filter_job_result *out, struct hspz_error *err)
{
    static const struct hspz_field rows[] = {
        {"entries", HSPZ_FIELD_UINT, REQUIRED, AT(r.keys), ANY_UINT},
        {"timings", HSPZ_FIELD_MAP, REQUIRED, AT(timings), 0, 0},
    };
    static const struct hspz_fields fields = {"filter.enumerate's result", rows, COUNT(rows), true};
    return job_result_decode(&fields, result, out, err);
}

#undef AT

void
hspz_filter_info_encode(struct hspz_writer *w, uint32_t id, const struct hspz_filter_info *info)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 21 + (info->parts > 1));
    hspz_put_any_text(w, "filter", info->filter);
    hspz_put_any_text(w, "kind", info->kind);
    hspz_write_key_bool(w, "shared", info->shared);
    hspz_write_key_uint(w, "capacity", info->capacity);
    hspz_write_key_uint(w, "slots", info->slots);
    hspz_write_key_uint(w, "slot_bits", info->slot_bits);
    hspz_write_key_uint(w, "block_slots", info->block_slots);
    hspz_write_key_uint(w, "hashes", info->hashes);
    hspz_write_key_uint(w, "value_bits", info->value_bits);
    hspz_write_key_uint(w, "seed", info->seed);
    hspz_write_key_uint(w, "k", info->k);
    hspz_write_key_bool(w, "canonical", info->canonical);
    if (info->parts > 1) {
        hspz_write_key_uint(w, "parts", info->parts);
    }
    hspz_write_key_uint(w, "full_slots", info->full_slots);
    hspz_write_key_uint(w, "bytes", info->bytes);
    hspz_write_key_float(w, "expected_rate", info->expected_rate);
    hspz_write_key_uint(w, "entries", info->entries);
    hspz_write_key_uint(w, "total", info->total);
    hspz_write_key_uint(w, "used", info->used);
    hspz_write_key_float(w, "load", info->load);
    hspz_write_key_float(w, "rate", info->rate);
    hspz_write_key_bool(w, "filter_full", info->filter_full);
}

enum hspz_status
hspz_filter_info_decode(const struct hspz_node *result, struct hspz_filter_info *out,
                        struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_filter_info, member)
    static const struct hspz_field rows[] = {
        {"filter", HSPZ_FIELD_RAW, REQUIRED, AT(filter), 0, 0},
        {"kind", HSPZ_FIELD_RAW, REQUIRED, AT(kind), 0, 0},
        {"shared", HSPZ_FIELD_BOOL, REQUIRED, AT(shared), 0, 0},
        {"capacity", HSPZ_FIELD_UINT, REQUIRED, AT(capacity), ANY_UINT},
        {"slots", HSPZ_FIELD_UINT, REQUIRED, AT(slots), ANY_UINT},
        {"slot_bits", HSPZ_FIELD_UINT, REQUIRED, AT(slot_bits), ANY_UINT},
        {"block_slots", HSPZ_FIELD_UINT, REQUIRED, AT(block_slots), ANY_UINT},
        {"hashes", HSPZ_FIELD_UINT, REQUIRED, AT(hashes), ANY_UINT},
        {"value_bits", HSPZ_FIELD_UINT, REQUIRED, AT(value_bits), ANY_UINT},
        {"seed", HSPZ_FIELD_UINT, REQUIRED, AT(seed), ANY_UINT},
        {"k", HSPZ_FIELD_UINT, OPTIONAL, AT(k), ANY_UINT},
        {"canonical", HSPZ_FIELD_BOOL, OPTIONAL, AT(canonical), 0, 0},
        {"parts", HSPZ_FIELD_UINT, OPTIONAL, AT(parts), ANY_UINT},
        {"full_slots", HSPZ_FIELD_UINT, REQUIRED, AT(full_slots), ANY_UINT},
        {"bytes", HSPZ_FIELD_UINT, REQUIRED, AT(bytes), ANY_UINT},
        {"expected_rate", HSPZ_FIELD_FLOAT, REQUIRED, AT(expected_rate), 0, 0},
        {"entries", HSPZ_FIELD_UINT, REQUIRED, AT(entries), ANY_UINT},
        {"total", HSPZ_FIELD_UINT, REQUIRED, AT(total), ANY_UINT},
        {"used", HSPZ_FIELD_UINT, REQUIRED, AT(used), ANY_UINT},
        {"load", HSPZ_FIELD_FLOAT, REQUIRED, AT(load), 0, 0},
        {"rate", HSPZ_FIELD_FLOAT, REQUIRED, AT(rate), 0, 0},
        {"filter_full", HSPZ_FIELD_BOOL, REQUIRED, AT(filter_full), 0, 0},
    };
#undef AT
    static const struct hspz_fields fields = {"the result", rows, COUNT(rows), true};
    uint32_t seen;
    *out = (struct hspz_filter_info){.parts = 1};
    return hspz_fields_decode(&fields, result, out, &seen, err);
}

void
hspz_filter_list_result_encode(struct hspz_writer *w, uint32_t id, uint64_t filter_count,
                               uint64_t first, const struct hspz_filter_list_entry *entries,
                               size_t count)
{
    /* Names are short: as many as the count allows are within the limits of a message. */
    const size_t fit = count < HSPZ_PAGE_FILTERS_LIMIT ? count : HSPZ_PAGE_FILTERS_LIMIT;
    hspz_response_begin(w, id);
    hspz_write_map(w, 3);
    hspz_write_key_uint(w, "filter_count", filter_count);
    hspz_write_key_uint(w, "first", first);
    hspz_write_str(w, "filters");
    hspz_write_array(w, (uint32_t)fit);
    for (size_t i = 0; i < fit; i++) {
        hspz_write_map(w, 4);
        hspz_put_any_text(w, "filter", entries[i].filter);
        hspz_put_any_text(w, "kind", entries[i].kind);
        hspz_write_key_bool(w, "shared", entries[i].shared);
        hspz_write_key_uint(w, "bytes", entries[i].bytes);
    }
}

static enum hspz_status
list_entry_decode(const struct hspz_node *node, struct hspz_filter_list_entry *out,
                  struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_filter_list_entry, member)
    static const struct hspz_field rows[] = {
        {"filter", HSPZ_FIELD_RAW, REQUIRED, AT(filter), 0, 0},
        {"kind", HSPZ_FIELD_RAW, REQUIRED, AT(kind), 0, 0},
        {"shared", HSPZ_FIELD_BOOL, REQUIRED, AT(shared), 0, 0},
        {"bytes", HSPZ_FIELD_UINT, REQUIRED, AT(bytes), ANY_UINT},
    };
#undef AT
    static const struct hspz_fields fields = {"a filter in the list", rows, COUNT(rows), true};
    uint32_t seen;
    *out = (struct hspz_filter_list_entry){0};
    return hspz_fields_decode(&fields, node, out, &seen, err);
}

enum hspz_status
hspz_filter_list_result_decode(const struct hspz_node *result, struct hspz_filter_list_result *out,
                               struct hspz_error *err)
{
    struct list_map {
        uint64_t filter_count, first;
        const struct hspz_node *filters;
    } map = {0};
#define AT(member) offsetof(struct list_map, member)
    static const struct hspz_field rows[] = {
        {"filter_count", HSPZ_FIELD_UINT, REQUIRED, AT(filter_count), ANY_UINT},
        {"first", HSPZ_FIELD_UINT, REQUIRED, AT(first), ANY_UINT},
        {"filters", HSPZ_FIELD_ARRAY, REQUIRED, AT(filters), 0, HSPZ_PAGE_FILTERS_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"filter.list's result", rows, COUNT(rows), true};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, result, &map, &seen, err);
    out->count = 0;
    out->filter_count = map.filter_count;
    out->first = map.first;
    for (size_t i = 0; status == HSPZ_OK && i < hspz_node_count(map.filters); i++) {
        status = list_entry_decode(hspz_node_at(map.filters, i), &out->entries[i], err);
        out->count = i + 1;
    }
    return status;
}
