#include "client/job.h"
#include "protocol/filter_message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Calls about filters that move no keys. All but list are jobs: they wait for their turn. */

_Static_assert(HSPZ_FILTER_NAME_BYTES == HSPZ_NAME_BYTES_LIMIT + 1 + HSPZ_FILTER_NAME_LIMIT + 1,
               "TENANT/NAME, terminated");

static bool
copy_text(char *to, size_t capacity, struct hspz_text text)
{
    if (text.len >= capacity || (text.len > 0 && memchr(text.bytes, '\0', text.len) != NULL)) {
        return false;
    }
    memcpy(to, text.len > 0 ? text.bytes : "", text.len);
    to[text.len] = '\0';
    return true;
}

static bool
copy_names(struct hspz_filter_state *state, struct hspz_text name, struct hspz_text kind)
{
    return copy_text(state->name, sizeof(state->name), name) &&
           copy_text(state->kind, sizeof(state->kind), kind);
}

static enum hspz_status
bad_name(const struct hspz_client *client, const char *what, struct hspz_error *err)
{
    const struct hspz_error why = {.status = HSPZ_E_BAD_PEER, .text = "a name is too long"};
    return hspz_client_bad_answer(client, what, &why, err);
}

static enum hspz_status
take_state(const struct hspz_client *client, const char *what, const struct hspz_node *result,
           struct hspz_filter_state *out, struct hspz_error *err)
{
    struct hspz_filter_info info;
    struct hspz_error why = {0};
    if (hspz_filter_info_decode(result, &info, &why) != HSPZ_OK) {
        return hspz_client_bad_answer(client, what, &why, err);
    }
    struct hspz_filter_state state = {
        .shared = info.shared,
        .bytes = info.bytes,
        .capacity = info.capacity,
        .slots = info.slots,
        .slot_bits = info.slot_bits,
        .block_slots = info.block_slots,
        .hashes = info.hashes,
        .value_bits = info.value_bits,
        .seed = info.seed,
        .k = info.k,
        .canonical = info.canonical,
        .parts = info.parts,
        .full_slots = info.full_slots,
        .expected_rate = info.expected_rate,
        .entries = info.entries,
        .total = info.total,
        .used = info.used,
        .load = info.load,
        .rate = info.rate,
        .full = info.filter_full,
    };
    if (!copy_names(&state, info.filter, info.kind)) {
        return bad_name(client, what, err);
    }
    if (out != NULL) {
        *out = state;
    }
    return HSPZ_OK;
}

/* What is asked; one of the three, by method. */
struct ask {
    enum hspz_method method;
    struct hspz_filter_create_params create;
    struct hspz_filter_merge_params merge;
    struct hspz_filter_name_params name;
    struct hspz_filter_state *state;
};

static enum hspz_status
ask_once(struct hspz_client *client, void *user, struct hspz_error *err)
{
    const struct ask *ask = user;
    const char *what = hspz_method_name(ask->method);
    struct hspz_writer w;
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    switch (ask->method) {
    case HSPZ_METHOD_FILTER_CREATE:
        hspz_filter_create_encode(&w, id, &ask->create);
        break;
    case HSPZ_METHOD_FILTER_MERGE:
        hspz_filter_merge_encode(&w, id, &ask->merge);
        break;
    default:
        hspz_filter_name_encode(&w, id, ask->method, &ask->name);
        break;
    }
    struct hspz_reply reply;
    enum hspz_status status = hspz_client_call(client, id, what, true, &w, &reply, err);
    if (status == HSPZ_OK) {
        status = take_state(client, what, reply.result, ask->state, err);
        hspz_reply_fini(&reply);
    }
    return status;
}

static enum hspz_status
ask_by_name(struct hspz_client *client, enum hspz_method method,
            const struct hspz_filter_name_params *params, struct hspz_filter_state *state,
            struct hspz_error *err)
{
    struct ask ask = {.method = method, .name = *params, .state = state};
    return hspz_job_attempt(client, ask_once, &ask, err);
}

enum hspz_status
hspz_client_filter_create(struct hspz_client *client, const struct hspz_filter_request *request,
                          struct hspz_filter_state *state, struct hspz_error *err)
{
    struct ask ask = {
        .method = HSPZ_METHOD_FILTER_CREATE,
        .create =
            {
                .filter = hspz_text_of(request->name),
                .kind = hspz_text_of(request->kind),
                .capacity = request->capacity,
                .rate = request->rate,
                .slots = request->slots,
                .slot_bits = request->slot_bits,
                .block_slots = request->block_slots,
                .hashes = request->hashes,
                .value_bits = request->value_bits,
                .seed = request->seed,
                .k = request->k,
                .canonical = request->canonical,
                .shared = request->shared,
                .parts = request->parts,
            },
        .state = state,
    };
    return hspz_job_attempt(client, ask_once, &ask, err);
}

enum hspz_status
hspz_client_filter_stats(struct hspz_client *client, const char *name,
                         struct hspz_filter_state *state, struct hspz_error *err)
{
    const struct hspz_filter_name_params params = {.filter = hspz_text_of(name)};
    return ask_by_name(client, HSPZ_METHOD_FILTER_STATS, &params, state, err);
}

enum hspz_status
hspz_client_filter_merge(struct hspz_client *client, const char *name, const char *from,
                         struct hspz_filter_state *state, struct hspz_error *err)
{
    struct ask ask = {
        .method = HSPZ_METHOD_FILTER_MERGE,
        .merge = {.filter = hspz_text_of(name), .from = hspz_text_of(from)},
        .state = state,
    };
    return hspz_job_attempt(client, ask_once, &ask, err);
}

enum hspz_status
hspz_client_filter_save(struct hspz_client *client, const char *name,
                        struct hspz_filter_state *state, struct hspz_error *err)
{
    const struct hspz_filter_name_params params = {.filter = hspz_text_of(name)};
    return ask_by_name(client, HSPZ_METHOD_FILTER_SAVE, &params, state, err);
}

enum hspz_status
hspz_client_filter_load(struct hspz_client *client, const char *name, bool shared,
                        struct hspz_filter_state *state, struct hspz_error *err)
{
    const struct hspz_filter_name_params params = {.filter = hspz_text_of(name), .shared = shared};
    return ask_by_name(client, HSPZ_METHOD_FILTER_LOAD, &params, state, err);
}

enum hspz_status
hspz_client_filter_drop(struct hspz_client *client, const char *name, bool saved,
                        struct hspz_filter_state *state, struct hspz_error *err)
{
    const struct hspz_filter_name_params params = {.filter = hspz_text_of(name), .saved = saved};
    return ask_by_name(client, HSPZ_METHOD_FILTER_DROP, &params, state, err);
}

/* ---- list ---- */

static enum hspz_status
give_page(const struct hspz_client *client, const struct hspz_filter_list_result *page,
          hspz_filter_fn filter, void *user, struct hspz_error *err)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct hspz_filter_list_entry *entry = &page->entries[i];
        struct hspz_filter_state state = {.shared = entry->shared, .bytes = entry->bytes};
        if (!copy_names(&state, entry->filter, entry->kind)) {
            return bad_name(client, "filter.list", err);
        }
        if (!filter(user, &state)) {
            return hspz_client_stopped(err);
        }
    }
    return HSPZ_OK;
}

/* The page from *first on; *more: another one follows. */
static enum hspz_status
list_page(struct hspz_client *client, struct hspz_filter_list_result *page, uint64_t *first,
          bool *more, hspz_filter_fn filter, void *user, struct hspz_error *err)
{
    struct hspz_writer w;
    struct hspz_reply reply;
    struct hspz_error why = {.status = HSPZ_E_BAD_PEER, .text = "another page than was asked for"};
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    const struct hspz_list_params params = {.first = *first, .count = HSPZ_PAGE_FILTERS_LIMIT};
    hspz_filter_list_encode(&w, id, &params);
    enum hspz_status status = hspz_client_call(client, id, "filter.list", false, &w, &reply, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (hspz_filter_list_result_decode(reply.result, page, &why) != HSPZ_OK ||
        page->first != *first) {
        status = hspz_client_bad_answer(client, "filter.list", &why, err);
    } else {
        status = give_page(client, page, filter, user, err);
        *first += page->count;
        *more = page->count > 0 && *first < page->filter_count;
    }
    hspz_reply_fini(&reply);
    return status;
}

enum hspz_status
hspz_client_filter_list(struct hspz_client *client, hspz_filter_fn filter, void *user,
                        struct hspz_error *err)
{
    struct hspz_filter_list_result *page = malloc(sizeof(*page));
    if (page == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an answer");
    }
    enum hspz_status status = HSPZ_OK;
    uint64_t first = 0;
    for (bool more = true; status == HSPZ_OK && more;) {
        status = list_page(client, page, &first, &more, filter, user, err);
    }
    free(page);
    return status;
}
