/* Parameters of requests about filters, from documents. */
#include "protocol/fields.h"
#include "protocol/filter_message.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define REQUIRED true
#define OPTIONAL false
#define NAME_RANGE 1, HSPZ_NAME_BYTES_LIMIT
#define KEY_BYTES 8u

bool
hspz_filter_takes_keys(enum hspz_method method)
{
    return method >= HSPZ_METHOD_FILTER_INSERT && method <= HSPZ_METHOD_FILTER_DECREMENT;
}

uint64_t
hspz_filter_key_count(const struct hspz_filter_keys_params *params)
{
    return params->sequence ? params->keys.len : params->keys.len / KEY_BYTES;
}

enum hspz_status
hspz_filter_create_decode(const struct hspz_node *params, struct hspz_filter_create_params *out,
                          struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_filter_create_params, member)
#define ANY_UINT 0, UINT64_MAX
    static const struct hspz_field rows[] = {
        {"filter", HSPZ_FIELD_TEXT, REQUIRED, AT(filter), NAME_RANGE},
        {"kind", HSPZ_FIELD_TEXT, REQUIRED, AT(kind), NAME_RANGE},
        {"capacity", HSPZ_FIELD_UINT, OPTIONAL, AT(capacity), ANY_UINT},
        {"rate", HSPZ_FIELD_FLOAT, OPTIONAL, AT(rate), 0, 0},
        {"slots", HSPZ_FIELD_UINT, OPTIONAL, AT(slots), ANY_UINT},
        {"slot_bits", HSPZ_FIELD_UINT, OPTIONAL, AT(slot_bits), 0, UINT32_MAX},
        {"block_slots", HSPZ_FIELD_UINT, OPTIONAL, AT(block_slots), 0, UINT32_MAX},
        {"hashes", HSPZ_FIELD_UINT, OPTIONAL, AT(hashes), 0, UINT32_MAX},
        {"value_bits", HSPZ_FIELD_UINT, OPTIONAL, AT(value_bits), 0, UINT32_MAX},
        {"seed", HSPZ_FIELD_UINT, OPTIONAL, AT(seed), ANY_UINT},
        {"k", HSPZ_FIELD_UINT, OPTIONAL, AT(k), 0, UINT32_MAX},
        {"canonical", HSPZ_FIELD_BOOL, OPTIONAL, AT(canonical), 0, 0},
        {"shared", HSPZ_FIELD_BOOL, OPTIONAL, AT(shared), 0, 0},
        {"parts", HSPZ_FIELD_UINT, OPTIONAL, AT(parts), 0, UINT32_MAX},
    };
#undef AT
    static const struct hspz_fields fields = {"filter.create's parameters", rows, COUNT(rows),
                                              false};
    uint32_t seen;
    *out = (struct hspz_filter_create_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

static enum hspz_status
check_words(const char *key, struct hspz_span span, struct hspz_span keys, struct hspz_error *err)
{
    if (span.len == keys.len) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "\"%s\" is a bin of %zu bytes, wanted as many as \"keys\" has, %zu", key,
                          span.len, keys.len);
}

/* Keys or a sequence, and a sequence only where it has a meaning. */
static enum hspz_status
choose_keys(enum hspz_method method, struct hspz_filter_keys_params *p, bool has_keys,
            bool has_sequence, struct hspz_error *err)
{
    if (has_keys == has_sequence) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              has_keys ? "\"keys\" and \"sequence\" do not go together"
                                       : "\"keys\" is missing");
    }
    if (has_sequence && method != HSPZ_METHOD_FILTER_INSERT && method != HSPZ_METHOD_FILTER_QUERY &&
        method != HSPZ_METHOD_FILTER_COUNT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"sequence\" has no place in %s",
                              hspz_method_name(method));
    }
    p->sequence = has_sequence;
    return HSPZ_OK;
}

static enum hspz_status
check_bins(enum hspz_method method, const struct hspz_filter_keys_params *p, bool values,
           bool counts, struct hspz_error *err)
{
    const bool inserts =
        method == HSPZ_METHOD_FILTER_INSERT || method == HSPZ_METHOD_FILTER_INSERT_IF_ABSENT;
    const bool counted =
        method == HSPZ_METHOD_FILTER_INSERT || method == HSPZ_METHOD_FILTER_DECREMENT;
    if (p->sequence && (values || counts)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" do not go with \"sequence\"",
                              values ? "values" : "counts");
    }
    if (!p->sequence && p->keys.len % KEY_BYTES != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"keys\" is a bin of %zu bytes, wanted a multiple of %u",
                              p->keys.len, KEY_BYTES);
    }
    if ((values && !inserts) || (counts && !counted)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"%s\" has no place in %s",
                              values && !inserts ? "values" : "counts", hspz_method_name(method));
    }
    const enum hspz_status status =
        values ? check_words("values", p->values, p->keys, err) : HSPZ_OK;
    return status == HSPZ_OK && counts ? check_words("counts", p->counts, p->keys, err) : status;
}

static enum hspz_status
find_answer(enum hspz_method method, struct hspz_text text, enum hspz_filter_answer *out,
            struct hspz_error *err)
{
    const bool arrays = method == HSPZ_METHOD_FILTER_QUERY || method == HSPZ_METHOD_FILTER_COUNT ||
                        method == HSPZ_METHOD_FILTER_INSERT_IF_ABSENT;
    if (text.bytes == NULL) {
        *out = method == HSPZ_METHOD_FILTER_COUNT ? HSPZ_ANSWER_ARRAY : HSPZ_ANSWER_BITMAP;
        return HSPZ_OK;
    }
    const unsigned most = arrays ? HSPZ_ANSWER_BOTH : HSPZ_ANSWER_BITMAP;
    for (unsigned i = 0; i <= most; i++) {
        if (hspz_text_is(text, hspz_filter_answer_name((enum hspz_filter_answer)i))) {
            *out = (enum hspz_filter_answer)i;
            return HSPZ_OK;
        }
    }
    return hspz_field_not_one_of(
        "answer", text,
        arrays ? "\"none\", \"bitmap\", \"array\" or \"both\"" : "\"none\" or \"bitmap\"", err);
}

/* Payloads are bins, or all of them places. */
static enum hspz_status
take_payloads(struct hspz_filter_keys_params *p, const struct hspz_payload payloads[3],
              const bool given[3], struct hspz_error *err)
{
    struct hspz_span *const spans[3] = {&p->keys, &p->values, &p->counts};
    uint64_t *const offsets[3] = {&p->keys_at, &p->values_at, &p->counts_at};
    p->placed = payloads[0].placed;
    for (int i = 0; i < 3; i++) {
        if (given[i] && payloads[i].placed != p->placed) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "of keys, values and counts some are in shared memory and some "
                                  "are not");
        }
        *spans[i] = payloads[i].span;
        *offsets[i] = payloads[i].offset;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_filter_keys_decode(enum hspz_method method, const struct hspz_node *params,
                        struct hspz_filter_keys_params *out, struct hspz_error *err)
{
    struct keys_map {
        struct hspz_filter_keys_params p;
        struct hspz_payload payloads[3], sequence;
        struct hspz_text answer, transport;
    } map = {.p = {.priority = HSPZ_PRIORITY_DEFAULT}};
    enum { VALUES, COUNTS, KEYS, SEQUENCE };
#define AT(member) offsetof(struct keys_map, member)
    static const struct hspz_field rows[] = {
        [VALUES] = {"values", HSPZ_FIELD_BYTES, OPTIONAL, AT(payloads[1]), 0, 0},
        [COUNTS] = {"counts", HSPZ_FIELD_BYTES, OPTIONAL, AT(payloads[2]), 0, 0},
        [KEYS] = {"keys", HSPZ_FIELD_BYTES, OPTIONAL, AT(payloads[0]), 0, 0},
        [SEQUENCE] = {"sequence", HSPZ_FIELD_BYTES, OPTIONAL, AT(sequence), 0, 0},
        {"filter", HSPZ_FIELD_TEXT, REQUIRED, AT(p.filter), NAME_RANGE},
        {"answer", HSPZ_FIELD_TEXT, OPTIONAL, AT(answer), 0, HSPZ_NAME_BYTES_LIMIT},
        {"deadline_ms", HSPZ_FIELD_UINT, OPTIONAL, AT(p.deadline_ms), ANY_UINT},
        {"priority", HSPZ_FIELD_UINT, OPTIONAL, AT(p.priority), 0, HSPZ_PRIORITY_LIMIT},
        {"transport", HSPZ_FIELD_TEXT, OPTIONAL, AT(transport), NAME_RANGE},
    };
#undef AT
    static const struct hspz_fields fields = {"the parameters", rows, COUNT(rows), false};
    uint32_t seen = 0;
    HSPZ_REQUIRE(hspz_filter_takes_keys(method));
    enum hspz_status status = hspz_fields_decode(&fields, params, &map, &seen, err);
    const bool given[3] = {true, hspz_fields_has(seen, VALUES), hspz_fields_has(seen, COUNTS)};
    if (status == HSPZ_OK) {
        status = choose_keys(method, &map.p, hspz_fields_has(seen, KEYS),
                             hspz_fields_has(seen, SEQUENCE), err);
    }
    if (status == HSPZ_OK) {
        map.payloads[0] = map.p.sequence ? map.sequence : map.payloads[0];
        status = take_payloads(&map.p, map.payloads, given, err);
    }
    if (status == HSPZ_OK) {
        status = check_bins(method, &map.p, given[1], given[2], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_transport_decode(map.transport, &map.p.shm, err);
    }
    if (status == HSPZ_OK) {
        status = find_answer(method, map.answer, &map.p.answer, err);
    }
    *out = map.p;
    return status;
}

enum hspz_status
hspz_filter_enumerate_decode(const struct hspz_node *params,
                             struct hspz_filter_enumerate_params *out, struct hspz_error *err)
{
    struct enumerate_map {
        struct hspz_filter_enumerate_params p;
        struct hspz_text transport;
    } map = {.p = {.priority = HSPZ_PRIORITY_DEFAULT}};
#define AT(member) offsetof(struct enumerate_map, member)
    static const struct hspz_field rows[] = {
        {"filter", HSPZ_FIELD_TEXT, REQUIRED, AT(p.filter), NAME_RANGE},
        {"deadline_ms", HSPZ_FIELD_UINT, OPTIONAL, AT(p.deadline_ms), ANY_UINT},
        {"priority", HSPZ_FIELD_UINT, OPTIONAL, AT(p.priority), 0, HSPZ_PRIORITY_LIMIT},
        {"transport", HSPZ_FIELD_TEXT, OPTIONAL, AT(transport), NAME_RANGE},
    };
#undef AT
    static const struct hspz_fields fields = {"filter.enumerate's parameters", rows, COUNT(rows),
                                              false};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, params, &map, &seen, err);
    if (status == HSPZ_OK) {
        status = hspz_transport_decode(map.transport, &map.p.shm, err);
    }
    *out = map.p;
    return status;
}

enum hspz_status
hspz_filter_merge_decode(const struct hspz_node *params, struct hspz_filter_merge_params *out,
                         struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_filter_merge_params, member)
    static const struct hspz_field rows[] = {
        {"filter", HSPZ_FIELD_TEXT, REQUIRED, AT(filter), NAME_RANGE},
        {"from", HSPZ_FIELD_TEXT, REQUIRED, AT(from), NAME_RANGE},
    };
#undef AT
    static const struct hspz_fields fields = {"filter.merge's parameters", rows, COUNT(rows),
                                              false};
    uint32_t seen;
    *out = (struct hspz_filter_merge_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_filter_name_decode(enum hspz_method method, const struct hspz_node *params,
                        struct hspz_filter_name_params *out, struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_filter_name_params, member)
    const struct hspz_field rows[] = {
        {"filter", HSPZ_FIELD_TEXT, REQUIRED, AT(filter), NAME_RANGE},
        method == HSPZ_METHOD_FILTER_LOAD
            ? (struct hspz_field){"shared", HSPZ_FIELD_BOOL, OPTIONAL, AT(shared), 0, 0}
            : (struct hspz_field){"saved", HSPZ_FIELD_BOOL, OPTIONAL, AT(saved), 0, 0},
    };
#undef AT
    const bool two = method == HSPZ_METHOD_FILTER_LOAD || method == HSPZ_METHOD_FILTER_DROP;
    const struct hspz_fields fields = {"the parameters", rows, two ? 2 : 1, false};
    uint32_t seen;
    *out = (struct hspz_filter_name_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_filter_list_decode(const struct hspz_node *params, struct hspz_list_params *out,
                        struct hspz_error *err)
{
    return hspz_page_decode("filter.list's parameters", HSPZ_PAGE_FILTERS_LIMIT, params, out, err);
}
