#include "client/call.h"
#include "client/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls that move no anchors: indexes, stats, health. */

/* Terminated copies of the texts of an answer, as many as an honest one holds. */
#define STRINGS_BYTES (2u * HSPZ_FRAME_HEADER_LIMIT)
struct strings {
    char *bytes;
    size_t used;
    bool too_long;
};

static const char *
terminated(struct strings *strings, struct hspz_text text)
{
    if (text.len >= STRINGS_BYTES - strings->used) {
        strings->too_long = true;
        return "";
    }
    char *copy = strings->bytes + strings->used;
    memcpy(copy, text.len > 0 ? text.bytes : "", text.len);
    copy[text.len] = '\0';
    strings->used += text.len + 1;
    return copy;
}

static enum hspz_status
too_long(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_PEER, "the server sends a name that is too long");
}

static enum hspz_status
other_page(const struct hspz_client *client, const char *what, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_PEER, "%s: %s answered another page than was asked for",
                          client->where, what);
}

static enum hspz_status
give_indexes(const struct hspz_list_result *page, struct strings *strings, hspz_index_fn index,
             void *user, struct hspz_error *err)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct hspz_list_entry *entry = &page->entries[i];
        strings->used = 0;
        const struct hspz_index_info info = {
            .name = terminated(strings, entry->index),
            .state = terminated(strings, entry->state),
            .file = terminated(strings, entry->file),
            .bytes = entry->bytes,
            .pinned = entry->pinned,
            .digest = "",
            .shape = "",
            .version = "",
        };
        if (strings->too_long) {
            return too_long(err);
        }
        if (!index(user, &info)) {
            return hspz_client_stopped(err);
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_client_index_list(struct hspz_client *client, hspz_index_fn index, void *user,
                       struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    struct hspz_list_result *page = malloc(sizeof(*page));
    struct strings strings = {.bytes = malloc(STRINGS_BYTES)};
    if (page == NULL || strings.bytes == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an answer");
    }
    uint64_t first = 0;
    uint64_t total = 1;
    while (status == HSPZ_OK && first < total) {
        struct hspz_writer w;
        struct hspz_reply reply;
        struct hspz_error why = {0};
        hspz_writer_init(&w);
        const uint32_t id = hspz_client_new_id(client);
        const struct hspz_list_params params = {.first = first, .count = HSPZ_PAGE_INDEXES_LIMIT};
        hspz_list_encode(&w, id, &params);
        status = hspz_client_call(client, id, "index.list", false, &w, &reply, err);
        if (status != HSPZ_OK) {
            break;
        }
        if (hspz_list_result_decode(reply.result, page, &why) != HSPZ_OK) {
            status = hspz_client_bad_answer(client, "index.list", &why, err);
        } else if (page->first != first) {
            status = other_page(client, "index.list", err);
        } else {
            status = give_indexes(page, &strings, index, user, err);
            total = page->count == 0 ? 0 : page->index_count;
            first += page->count;
        }
        hspz_reply_fini(&reply);
    }
    free(strings.bytes);
    free(page);
    return status;
}

struct describe {
    struct hspz_client *client;
    const char *name;
    hspz_index_fn index;
    hspz_sequence_fn sequence;
    void *user;
    struct hspz_describe_result *page;
    struct strings strings;
    uint64_t first;
    char digest[17]; /* of the first page: all pages must be of one index */
};

static enum hspz_status
give_description(struct describe *d, struct hspz_error *err)
{
    const struct hspz_describe_result *page = d->page;
    d->strings.used = 0;
    const struct hspz_index_info info = {
        .name = terminated(&d->strings, page->index),
        .state = terminated(&d->strings, page->state),
        .file = terminated(&d->strings, page->file),
        .bytes = page->bytes,
        .digest = terminated(&d->strings, page->digest),
        .sequence_digest = terminated(&d->strings, page->sequence_digest),
        .shape = terminated(&d->strings, page->shape),
        .version = terminated(&d->strings, page->version),
        .span = page->span,
        .step = page->step,
        .unmask = page->unmask,
        .all_positions = page->all_positions,
        .bases = page->bases,
        .words = page->words,
        .blocks = page->block_count,
        .sequences = page->sequence_count,
    };
    if (d->strings.too_long) {
        return too_long(err);
    }
    snprintf(d->digest, sizeof(d->digest), "%s", info.digest);
    return d->index == NULL || d->index(d->user, &info) ? HSPZ_OK : hspz_client_stopped(err);
}

/* What would break a line of a listing. */
static bool
is_name(struct hspz_text text)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.bytes[i];
        if (c == '\0' || c == '\t' || c == '\n' || c == '\r') {
            return false;
        }
    }
    return text.len > 0;
}

static enum hspz_status
give_page(struct describe *d, struct hspz_error *err)
{
    const struct hspz_describe_result *page = d->page;
    if (d->first == 0) {
        const enum hspz_status status = give_description(d, err);
        if (status != HSPZ_OK) {
            return status;
        }
    } else if (page->digest.len != strlen(d->digest) ||
               memcmp(page->digest.bytes, d->digest, page->digest.len) != 0) {
        return hspz_error_set(err, HSPZ_E_UNKNOWN_INDEX,
                              "index %s was replaced while it was described", d->name);
    }
    if (page->first != d->first) {
        return other_page(d->client, "index.describe", err);
    }
    for (size_t i = 0; i < page->sequences_here; i++) {
        const struct hspz_describe_sequence *s = &page->sequences[i];
        if (!is_name(s->name)) {
            return hspz_error_set(err, HSPZ_E_BAD_PEER,
                                  "%s: sequence %llu of index %s has no valid name",
                                  d->client->where, (unsigned long long)(d->first + i), d->name);
        }
        d->strings.used = 0;
        const struct hspz_sequence_info info = {
            .name = terminated(&d->strings, s->name),
            .len = s->bases,
            .block = s->block,
            .offset = s->offset,
        };
        if (d->strings.too_long) {
            return too_long(err);
        }
        if (!d->sequence(d->user, &info)) {
            return hspz_client_stopped(err);
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
describe_page(struct describe *d, struct hspz_error *err)
{
    struct hspz_writer w;
    struct hspz_reply reply;
    struct hspz_error why = {0};
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(d->client);
    const struct hspz_describe_params params = {
        .index = hspz_text_of(d->name),
        .first = d->first,
        .count = d->sequence == NULL ? 1 : HSPZ_PAGE_SEQUENCES_LIMIT,
    };
    hspz_describe_encode(&w, id, &params);
    enum hspz_status status =
        hspz_client_call(d->client, id, "index.describe", false, &w, &reply, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (hspz_describe_result_decode(reply.result, d->page, &why) != HSPZ_OK) {
        status = hspz_client_bad_answer(d->client, "index.describe", &why, err);
    } else {
        if (d->sequence == NULL) {
            d->page->sequences_here = 0;
        }
        status = give_page(d, err);
    }
    hspz_reply_fini(&reply);
    return status;
}

enum hspz_status
hspz_client_index_describe(struct hspz_client *client, const char *name, hspz_index_fn index,
                           hspz_sequence_fn sequence, void *user, struct hspz_error *err)
{
    struct describe d = {
        .client = client,
        .name = name,
        .index = index,
        .sequence = sequence,
        .user = user,
        .page = malloc(sizeof(*d.page)),
        .strings = {.bytes = malloc(STRINGS_BYTES)},
    };
    enum hspz_status status = HSPZ_OK;
    if (d.page == NULL || d.strings.bytes == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an answer");
    }
    bool more = true;
    while (status == HSPZ_OK && more) {
        status = describe_page(&d, err);
        if (status == HSPZ_OK) {
            d.first += d.page->sequences_here;
            more = d.page->sequences_here > 0 && d.first < d.page->sequence_count;
            if (!more && sequence != NULL && d.first != d.page->sequence_count) {
                status = hspz_error_set(err, HSPZ_E_BAD_PEER,
                                        "%s: %llu of %llu sequences of index %s were described",
                                        client->where, (unsigned long long)d.first,
                                        (unsigned long long)d.page->sequence_count, name);
            }
        }
    }
    free(d.strings.bytes);
    free(d.page);
    return status;
}

/* A call whose result is only looked at for being there. */
static enum hspz_status
call_and_forget(struct hspz_client *client, uint32_t id, enum hspz_method method,
                struct hspz_writer *w, struct hspz_error *err)
{
    struct hspz_reply reply;
    const bool is_long = method != HSPZ_METHOD_INDEX_UNLOAD;
    const enum hspz_status status =
        hspz_client_call(client, id, hspz_method_name(method), is_long, w, &reply, err);
    if (status == HSPZ_OK) {
        hspz_reply_fini(&reply);
    }
    return status;
}

enum hspz_status
hspz_client_index_load(struct hspz_client *client, const char *name, const char *file,
                       struct hspz_error *err)
{
    const struct hspz_load_params params = {
        .index = hspz_text_of(name),
        .file = hspz_text_of(file),
    };
    struct hspz_writer w;
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    hspz_load_encode(&w, id, &params);
    return call_and_forget(client, id, HSPZ_METHOD_INDEX_LOAD, &w, err);
}

enum hspz_status
hspz_client_index_unload(struct hspz_client *client, const char *name, struct hspz_error *err)
{
    const struct hspz_index_params_name params = {.index = hspz_text_of(name)};
    struct hspz_writer w;
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    hspz_index_name_encode(&w, id, HSPZ_METHOD_INDEX_UNLOAD, &params);
    return call_and_forget(client, id, HSPZ_METHOD_INDEX_UNLOAD, &w, err);
}

enum hspz_status
hspz_client_index_build(struct hspz_client *client, const struct hspz_build_request *request,
                        struct hspz_error *err)
{
    const struct hspz_build_params params = {
        .index = hspz_text_of(request->name),
        .source = hspz_text_of(request->source),
        .file = hspz_text_of(request->file),
        .shape = hspz_text_of(request->shape != NULL ? request->shape : "12of19"),
        .step = request->step == 0 ? 1 : request->step,
        .unmask = request->unmask,
        .all_positions = request->all_positions,
        .block_size = request->block_size,
    };
    struct hspz_writer w;
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    hspz_build_encode(&w, id, &params);
    return call_and_forget(client, id, HSPZ_METHOD_INDEX_BUILD, &w, err);
}

enum hspz_status
hspz_client_health(struct hspz_client *client, struct hspz_health *out, struct hspz_error *err)
{
    struct hspz_reply reply;
    enum hspz_status status = hspz_client_ask(client, HSPZ_METHOD_HEALTH, &reply, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_health health = {0};
    struct hspz_span state;
    uint64_t whole = 0;
    const struct hspz_node *percent = hspz_node_get(reply.result, "percent");
    if (!hspz_node_str(hspz_node_get(reply.result, "state"), &state)) {
        const struct hspz_error why = {.status = HSPZ_E_BAD_PEER, .text = "state is missing"};
        status = hspz_client_bad_answer(client, "health", &why, err);
    } else {
        snprintf(health.state, sizeof(health.state), "%.*s", (int)(state.len < 31 ? state.len : 31),
                 (const char *)state.bytes);
        health.has_percent = true;
        if (hspz_node_uint(percent, &whole)) {
            health.percent = (double)whole;
        } else {
            health.has_percent = hspz_node_float(percent, &health.percent);
        }
        *out = health;
    }
    hspz_reply_fini(&reply);
    return status;
}

enum hspz_status
hspz_client_drain(struct hspz_client *client, uint32_t wait_ms, struct hspz_drain *out,
                  struct hspz_error *err)
{
    const char *const method = hspz_method_name(HSPZ_METHOD_DRAIN);
    const uint32_t id = hspz_client_new_id(client);
    struct hspz_writer w;
    struct hspz_reply reply;
    hspz_writer_init(&w);
    hspz_drain_encode(&w, id, &(struct hspz_drain_params){.wait_ms = wait_ms});
    enum hspz_status status = hspz_client_call(client, id, method, true, &w, &reply, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_drain drain = {0};
    struct hspz_span state;
    if (!hspz_node_str(hspz_node_get(reply.result, "state"), &state) ||
        !hspz_node_uint(hspz_node_get(reply.result, "jobs"), &drain.jobs) ||
        !hspz_node_uint(hspz_node_get(reply.result, "loading"), &drain.loading) ||
        !hspz_node_uint(hspz_node_get(reply.result, "connections"), &drain.connections)) {
        const struct hspz_error why = {.status = HSPZ_E_BAD_PEER, .text = "a number is missing"};
        status = hspz_client_bad_answer(client, method, &why, err);
    } else {
        snprintf(drain.state, sizeof(drain.state), "%.*s", (int)(state.len < 31 ? state.len : 31),
                 (const char *)state.bytes);
        *out = drain;
    }
    hspz_reply_fini(&reply);
    return status;
}

static enum hspz_status
answer_as_json(struct hspz_client *client, enum hspz_method method, char **json,
               struct hspz_error *err)
{
    struct hspz_reply reply;
    enum hspz_status status = hspz_client_ask(client, method, &reply, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_json_of_node(reply.result, json);
    if (status != HSPZ_OK) {
        hspz_error_set(err, status, "no memory for an answer");
    }
    hspz_reply_fini(&reply);
    return status;
}

enum hspz_status
hspz_client_stats_json(struct hspz_client *client, char **json, struct hspz_error *err)
{
    return answer_as_json(client, HSPZ_METHOD_STATS, json, err);
}

enum hspz_status
hspz_client_health_json(struct hspz_client *client, char **json, struct hspz_error *err)
{
    return answer_as_json(client, HSPZ_METHOD_HEALTH, json, err);
}
