/* Parameters of requests, from documents. Envelopes are in message.c, replies in decode_reply.c. */
#include "protocol/fields.h"
#include "protocol/message.h"
#include "protocol/text.h"

#include <inttypes.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define REQUIRED true
#define OPTIONAL false

enum hspz_status
hspz_hello_decode(const struct hspz_node *params, struct hspz_hello_params *out,
                  struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_hello_params, member)
    static const struct hspz_field rows[] = {
        {"protocol", HSPZ_FIELD_UINT, REQUIRED, AT(protocol), 0, UINT64_MAX},
        {"client", HSPZ_FIELD_TEXT, OPTIONAL, AT(client), 0, HSPZ_NAME_BYTES_LIMIT},
        {"token", HSPZ_FIELD_TEXT, OPTIONAL, AT(token), 0, HSPZ_TOKEN_BYTES_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"hello's parameters", rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_hello_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

/* The map's values that are not members of the params as they stand. */
struct discover_map {
    struct hspz_discover_params p;
    struct hspz_text strand, walk, output, encoding, transport;
    struct hspz_payload payload; /* seeds, or the query's bases */
    const struct hspz_node *query, *hsps;
};

enum {
    DISCOVER_INDEX,
    DISCOVER_SEEDS,
    DISCOVER_QUERY,
    DISCOVER_STRAND,
    DISCOVER_TRANSITIONS,
    DISCOVER_UNMASK,
    DISCOVER_BEGIN,
    DISCOVER_END,
    DISCOVER_INTERVAL,
    DISCOVER_MASK_FILTER,
    DISCOVER_MASK_COUNT,
    DISCOVER_HSPS,
};

#define AT(member) offsetof(struct discover_map, member)
#define NAME_RANGE 1, HSPZ_NAME_BYTES_LIMIT
static const struct hspz_field discover_rows[] = {
    [DISCOVER_INDEX] = {"index", HSPZ_FIELD_TEXT, REQUIRED, AT(p.index), NAME_RANGE},
    [DISCOVER_SEEDS] = {"seeds", HSPZ_FIELD_BYTES, OPTIONAL, AT(payload), 0, 0},
    [DISCOVER_QUERY] = {"query", HSPZ_FIELD_MAP, OPTIONAL, AT(query), 0, 0},
    [DISCOVER_STRAND] = {"strand", HSPZ_FIELD_TEXT, OPTIONAL, AT(strand), NAME_RANGE},
    [DISCOVER_TRANSITIONS] = {"transitions", HSPZ_FIELD_COUNT, OPTIONAL, AT(p.transitions), 0,
                              HSPZ_TRANSITIONS_LIMIT},
    [DISCOVER_UNMASK] = {"unmask", HSPZ_FIELD_BOOL, OPTIONAL, AT(p.unmask), 0, 0},
    [DISCOVER_BEGIN] = {"begin", HSPZ_FIELD_UINT, OPTIONAL, AT(p.begin), 0, UINT64_MAX},
    [DISCOVER_END] = {"end", HSPZ_FIELD_UINT, OPTIONAL, AT(p.end), 0, UINT64_MAX},
    [DISCOVER_INTERVAL] = {"interval", HSPZ_FIELD_UINT, OPTIONAL, AT(p.interval), 0, UINT64_MAX},
    [DISCOVER_MASK_FILTER] = {"mask_filter", HSPZ_FIELD_TEXT, OPTIONAL, AT(p.mask_filter),
                              NAME_RANGE},
    [DISCOVER_MASK_COUNT] = {"mask_count", HSPZ_FIELD_UINT, OPTIONAL, AT(p.mask_count), 0,
                             UINT64_MAX},
    [DISCOVER_HSPS] = {"hsps", HSPZ_FIELD_MAP, OPTIONAL, AT(hsps), 0, 0},
    {"output", HSPZ_FIELD_TEXT, OPTIONAL, AT(output), NAME_RANGE},
    {"max_hits", HSPZ_FIELD_UINT, OPTIONAL, AT(p.max_hits), 1, UINT64_MAX},
    {"hit_limit", HSPZ_FIELD_UINT, OPTIONAL, AT(p.hit_limit), 0, UINT64_MAX},
    {"max_word_count", HSPZ_FIELD_UINT, OPTIONAL, AT(p.max_word_count), 0, UINT64_MAX},
    {"keep_words", HSPZ_FIELD_UINT, OPTIONAL, AT(p.keep_words), 1, HSPZ_KEEP_ALL},
    {"deadline_ms", HSPZ_FIELD_UINT, OPTIONAL, AT(p.deadline_ms), 0, UINT64_MAX},
    {"priority", HSPZ_FIELD_UINT, OPTIONAL, AT(p.priority), 0, HSPZ_PRIORITY_LIMIT},
    {"chunk_walk", HSPZ_FIELD_TEXT, OPTIONAL, AT(walk), NAME_RANGE},
    {"digest", HSPZ_FIELD_BOOL, OPTIONAL, AT(p.digest), 0, 0},
    {"encoding", HSPZ_FIELD_TEXT, OPTIONAL, AT(encoding), 0, HSPZ_NAME_BYTES_LIMIT},
    {"index_digest", HSPZ_FIELD_DIGEST, OPTIONAL, AT(p.want_digest), 0, 0},
    {"shape", HSPZ_FIELD_TEXT, OPTIONAL, AT(p.want_shape), NAME_RANGE},
    {"step", HSPZ_FIELD_UINT, OPTIONAL, AT(p.want_step), 1, UINT32_MAX},
    {"transport", HSPZ_FIELD_TEXT, OPTIONAL, AT(transport), NAME_RANGE},
};
#undef AT

static enum hspz_status
discover_input(struct discover_map *map, uint32_t seen, struct hspz_error *err)
{
    if (hspz_fields_has(seen, DISCOVER_SEEDS) == hspz_fields_has(seen, DISCOVER_QUERY)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "wanted one of \"seeds\" and \"query\", %s",
                              hspz_fields_has(seen, DISCOVER_SEEDS) ? "both are given"
                                                                    : "neither is given");
    }
    map->p.has_seeds = hspz_fields_has(seen, DISCOVER_SEEDS);
    if (!map->p.has_seeds) {
        static const struct hspz_field rows[] = {
            {"bases", HSPZ_FIELD_BYTES, REQUIRED, offsetof(struct discover_map, payload), 0, 0},
        };
        static const struct hspz_fields fields = {"\"query\"", rows, COUNT(rows), false};
        uint32_t seen_inside;
        const enum hspz_status status =
            hspz_fields_decode(&fields, map->query, map, &seen_inside, err);
        map->p.bases = map->payload.span;
        return status;
    }
    map->p.seeds = map->payload.span;
    if (map->p.seeds.len % HSPZ_SEED_BYTES != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"seeds\" has %zu bytes, wanted a multiple of %u", map->p.seeds.len,
                              HSPZ_SEED_BYTES);
    }
    for (unsigned row = DISCOVER_STRAND; row <= DISCOVER_MASK_COUNT; row++) {
        if (hspz_fields_has(seen, row)) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "\"%s\" goes with \"query\", not with \"seeds\"",
                                  discover_rows[row].key);
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
scores_decode(struct hspz_span bytes, int32_t *out, struct hspz_error *err)
{
    if (bytes.len != HSPZ_SCORES_BYTES) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"scores\" is a bin of %zu bytes, wanted %u", bytes.len,
                              HSPZ_SCORES_BYTES);
    }
    for (size_t i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
        const uint8_t *b = bytes.bytes + 4 * i;
        const uint32_t bits =
            (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        const int64_t value =
            bits <= INT32_MAX ? (int64_t)bits : (int64_t)bits - (INT64_C(1) << 32);
        if (value < -HSPZ_SCORE_LIMIT || value > HSPZ_SCORE_LIMIT) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "entry %zu of \"scores\" is %" PRId64 ", wanted %d to %d", i,
                                  value, -HSPZ_SCORE_LIMIT, HSPZ_SCORE_LIMIT);
        }
        out[i] = (int32_t)value;
    }
    return HSPZ_OK;
}

/* The map `hsps`; NULL: all defaults. */
static enum hspz_status
scoring_decode(const struct hspz_node *node, struct hspz_discover_params *p, struct hspz_error *err)
{
    enum { SCORES };
    struct scoring_map {
        uint64_t xdrop, threshold, limit;
        bool entropy;
        struct hspz_text scope;
        struct hspz_span scores;
    } map = {HSPZ_XDROP_DEFAULT, HSPZ_THRESHOLD_DEFAULT, UINT64_MAX, true, {0}, {0}};
#define AT(member) offsetof(struct scoring_map, member)
    static const struct hspz_field rows[] = {
        [SCORES] = {"scores", HSPZ_FIELD_BIN, OPTIONAL, AT(scores), 0, 0},
        {"xdrop", HSPZ_FIELD_UINT, OPTIONAL, AT(xdrop), 0, HSPZ_XDROP_LIMIT},
        {"threshold", HSPZ_FIELD_UINT, OPTIONAL, AT(threshold), 1, HSPZ_XDROP_LIMIT},
        {"entropy", HSPZ_FIELD_BOOL, OPTIONAL, AT(entropy), 0, 0},
        {"scope", HSPZ_FIELD_TEXT, OPTIONAL, AT(scope), NAME_RANGE},
        {"limit", HSPZ_FIELD_UINT, OPTIONAL, AT(limit), 0, UINT64_MAX},
    };
#undef AT
    static const struct hspz_fields fields = {"\"hsps\"", rows, COUNT(rows), false};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, node, &map, &seen, err);
    if (status == HSPZ_OK && map.scope.len > 0 && !hspz_text_is(map.scope, "job") &&
        !hspz_text_is(map.scope, "chunk")) {
        status = hspz_field_not_one_of("scope", map.scope, "\"job\" or \"chunk\"", err);
    }
    p->has_scores = hspz_fields_has(seen, SCORES);
    if (status == HSPZ_OK && p->has_scores) {
        status = scores_decode(map.scores, p->scoring.scores, err);
    }
    p->scoring.xdrop = (int32_t)map.xdrop;
    p->scoring.threshold = (int32_t)map.threshold;
    p->scoring.entropy = map.entropy;
    p->scoring.scope = hspz_text_is(map.scope, "chunk") ? HSPZ_SCOPE_CHUNK : HSPZ_SCOPE_JOB;
    p->scoring.limit = map.limit;
    return status;
}

static enum hspz_status
discover_output(struct discover_map *map, uint32_t seen, struct hspz_error *err)
{
    if (map->output.len > 0) {
        if (hspz_text_is(map->output, "hsps")) {
            map->p.output = HSPZ_RECORDS_HSPS;
        } else if (!hspz_text_is(map->output, "anchors")) {
            return hspz_field_not_one_of("output", map->output, "\"anchors\" or \"hsps\"", err);
        }
    }
    if (map->p.output == HSPZ_RECORDS_ANCHORS) {
        return hspz_fields_has(seen, DISCOVER_HSPS)
                   ? hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                    "\"hsps\" goes with \"output\": \"hsps\"")
                   : HSPZ_OK;
    }
    if (map->p.encoding != HSPZ_ENCODING_PACKED) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "hsps have no encoding \"columnar\"");
    }
    if (map->p.has_seeds) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "hsps need the bases of a \"query\", not \"seeds\"");
    }
    return scoring_decode(map->hsps, &map->p, err);
}

static enum hspz_status
discover_choices(struct discover_map *map, uint32_t seen, struct hspz_error *err)
{
    struct hspz_discover_params *p = &map->p;
    if (map->strand.len > 0) {
        if (hspz_text_is(map->strand, "plus")) {
            p->strands = HSPZ_STRANDS_PLUS;
        } else if (hspz_text_is(map->strand, "minus")) {
            p->strands = HSPZ_STRANDS_MINUS;
        } else if (!hspz_text_is(map->strand, "both")) {
            return hspz_field_not_one_of("strand", map->strand, "\"plus\", \"minus\" or \"both\"",
                                         err);
        }
    }
    if (map->walk.len > 0) {
        if (hspz_text_is(map->walk, "full")) {
            p->walk = HSPZ_WALK_FULL;
        } else if (!hspz_text_is(map->walk, "blocks")) {
            return hspz_field_not_one_of("chunk_walk", map->walk, "\"blocks\" or \"full\"", err);
        }
    }
    if (p->begin > p->end) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"begin\" is %" PRIu64 ", after \"end\", which is %" PRIu64,
                              p->begin, p->end);
    }
    for (unsigned row = DISCOVER_BEGIN; p->interval != 0 && row <= DISCOVER_END; row++) {
        if (hspz_fields_has(seen, row)) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "\"interval\" goes over the whole query, so \"%s\" has no place",
                                  discover_rows[row].key);
        }
    }
    if (hspz_fields_has(seen, DISCOVER_MASK_COUNT) &&
        !hspz_fields_has(seen, DISCOVER_MASK_FILTER)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "\"mask_count\" goes with \"mask_filter\"");
    }
    if (hspz_transport_decode(map->transport, &p->shm, err) != HSPZ_OK) {
        return HSPZ_E_BAD_REQUEST;
    }
    p->placed = map->payload.placed;
    p->offset = map->payload.offset;
    if (hspz_text_is(map->encoding, "columnar")) {
        p->encoding = HSPZ_ENCODING_COLUMNAR;
    } else if (map->encoding.bytes != NULL && !hspz_text_is(map->encoding, "packed")) {
        hspz_field_not_one_of("encoding", map->encoding, "\"packed\" or \"columnar\"", err);
        if (err != NULL) {
            err->status = HSPZ_E_UNSUPPORTED;
        }
        return HSPZ_E_UNSUPPORTED;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_discover_decode(const struct hspz_node *params, struct hspz_discover_params *out,
                     struct hspz_error *err)
{
    static const struct hspz_fields fields = {"discover's parameters", discover_rows,
                                              COUNT(discover_rows), false};
    struct discover_map map = {.p = {.strands = HSPZ_STRANDS_BOTH,
                                     .transitions = 1,
                                     .end = UINT64_MAX,
                                     .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                     .priority = HSPZ_PRIORITY_DEFAULT,
                                     .hit_limit = UINT64_MAX,
                                     .max_word_count = UINT64_MAX,
                                     .keep_words = HSPZ_KEEP_ALL,
                                     .digest = true}};
    uint32_t seen;
    enum hspz_status status = hspz_fields_decode(&fields, params, &map, &seen, err);
    if (status == HSPZ_OK) {
        status = discover_input(&map, seen, err);
    }
    if (status == HSPZ_OK) {
        status = discover_choices(&map, seen, err);
    }
    if (status == HSPZ_OK) {
        status = discover_output(&map, seen, err);
    }
    *out = map.p;
    return status;
}

enum hspz_status
hspz_shm_free_decode(const struct hspz_node *params, uint64_t *offsets, size_t most, size_t *count,
                     struct hspz_error *err)
{
    static const struct hspz_field row = {"an offset", HSPZ_FIELD_UINT, REQUIRED, 0, 0, UINT64_MAX};
    const size_t given = hspz_node_count(params);
    if (hspz_node_type(params) != HSPZ_NODE_ARRAY || given > most) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              HSPZ_SHM_FREE ": %zu offsets, wanted at most %zu", given, most);
    }
    for (size_t i = 0; i < given; i++) {
        const enum hspz_status status =
            hspz_field_decode(&row, hspz_node_at(params, i), &offsets[i], err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    *count = given;
    return HSPZ_OK;
}

enum hspz_status
hspz_cancel_decode(const struct hspz_node *params, struct hspz_cancel_params *out,
                   struct hspz_error *err)
{
    static const struct hspz_field rows[] = {
        {"job", HSPZ_FIELD_UINT32, REQUIRED, offsetof(struct hspz_cancel_params, job), 0,
         UINT32_MAX},
    };
    static const struct hspz_fields fields = {"cancel's parameters", rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_cancel_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_drain_decode(const struct hspz_node *params, struct hspz_drain_params *out,
                  struct hspz_error *err)
{
    static const struct hspz_field rows[] = {
        {"wait_ms", HSPZ_FIELD_UINT, OPTIONAL, offsetof(struct hspz_drain_params, wait_ms), 0,
         HSPZ_DRAIN_WAIT_LIMIT},
    };
    static const struct hspz_fields fields = {"drain's parameters", rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_drain_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_index_name_decode(const struct hspz_node *params, struct hspz_index_params_name *out,
                       struct hspz_error *err)
{
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_TEXT, REQUIRED, offsetof(struct hspz_index_params_name, index),
         NAME_RANGE},
    };
    static const struct hspz_fields fields = {"the parameters", rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_index_params_name){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_index_name_check(struct hspz_text name, struct hspz_error *err)
{
    static const struct hspz_field row = {"index", HSPZ_FIELD_TEXT, REQUIRED, 0, NAME_RANGE};
    return hspz_field_text_check(&row, (struct hspz_span){(const uint8_t *)name.bytes, name.len},
                                 err);
}

enum hspz_status
hspz_describe_decode(const struct hspz_node *params, struct hspz_describe_params *out,
                     struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_describe_params, member)
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_TEXT, REQUIRED, AT(index), NAME_RANGE},
        {"first", HSPZ_FIELD_UINT, OPTIONAL, AT(first), 0, UINT64_MAX},
        {"count", HSPZ_FIELD_UINT, OPTIONAL, AT(count), 1, HSPZ_PAGE_SEQUENCES_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"index.describe's parameters", rows, COUNT(rows),
                                              false};
    uint32_t seen;
    *out = (struct hspz_describe_params){.count = HSPZ_PAGE_SEQUENCES_LIMIT};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_page_decode(const char *what, uint64_t most, const struct hspz_node *params,
                 struct hspz_list_params *out, struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_list_params, member)
    const struct hspz_field rows[] = {
        {"first", HSPZ_FIELD_UINT, OPTIONAL, AT(first), 0, UINT64_MAX},
        {"count", HSPZ_FIELD_UINT, OPTIONAL, AT(count), 1, most},
    };
#undef AT
    const struct hspz_fields fields = {what, rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_list_params){.count = most};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_list_decode(const struct hspz_node *params, struct hspz_list_params *out,
                 struct hspz_error *err)
{
    return hspz_page_decode("index.list's parameters", HSPZ_PAGE_INDEXES_LIMIT, params, out, err);
}

enum hspz_status
hspz_stats_decode(const struct hspz_node *params, struct hspz_list_params *out,
                  struct hspz_error *err)
{
    return hspz_page_decode("stats' parameters", HSPZ_PAGE_INDEXES_LIMIT, params, out, err);
}

#define PATH_RANGE 1, HSPZ_PATH_BYTES_LIMIT

enum hspz_status
hspz_load_decode(const struct hspz_node *params, struct hspz_load_params *out,
                 struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_load_params, member)
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_TEXT, REQUIRED, AT(index), NAME_RANGE},
        {"file", HSPZ_FIELD_TEXT, REQUIRED, AT(file), PATH_RANGE},
        {"shape", HSPZ_FIELD_TEXT, OPTIONAL, AT(want_shape), NAME_RANGE},
        {"index_digest", HSPZ_FIELD_DIGEST, OPTIONAL, AT(want_digest), 0, 0},
        {"step", HSPZ_FIELD_UINT, OPTIONAL, AT(want_step), 1, UINT32_MAX},
    };
#undef AT
    static const struct hspz_fields fields = {"index.load's parameters", rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_load_params){0};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_build_decode(const struct hspz_node *params, struct hspz_build_params *out,
                  struct hspz_error *err)
{
#define AT(member) offsetof(struct hspz_build_params, member)
    static const struct hspz_field rows[] = {
        {"index", HSPZ_FIELD_TEXT, REQUIRED, AT(index), NAME_RANGE},
        {"source", HSPZ_FIELD_TEXT, REQUIRED, AT(source), PATH_RANGE},
        {"file", HSPZ_FIELD_TEXT, REQUIRED, AT(file), PATH_RANGE},
        {"shape", HSPZ_FIELD_TEXT, OPTIONAL, AT(shape), NAME_RANGE},
        {"step", HSPZ_FIELD_UINT, OPTIONAL, AT(step), 1, UINT32_MAX},
        {"unmask", HSPZ_FIELD_BOOL, OPTIONAL, AT(unmask), 0, 0},
        {"all_positions", HSPZ_FIELD_BOOL, OPTIONAL, AT(all_positions), 0, 0},
        {"block_size", HSPZ_FIELD_UINT, OPTIONAL, AT(block_size), 0, HSPZ_BLOCK_BASES_LIMIT},
    };
#undef AT
    static const struct hspz_fields fields = {"index.build's parameters", rows, COUNT(rows), false};
    uint32_t seen;
    *out = (struct hspz_build_params){.shape = {HSPZ_SHAPE_DEFAULT, sizeof(HSPZ_SHAPE_DEFAULT) - 1},
                                      .step = 1};
    return hspz_fields_decode(&fields, params, out, &seen, err);
}

enum hspz_status
hspz_no_params_decode(const struct hspz_node *params, struct hspz_error *err)
{
    static const struct hspz_fields fields = {"this method's parameters, which has none", NULL, 0,
                                              false};
    uint32_t seen;
    return hspz_fields_decode(&fields, params, NULL, &seen, err);
}
