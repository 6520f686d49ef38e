/* Requests about filters, to bytes. */
#include "protocol/encode_p.h"
#include "protocol/filter_message.h"

void
hspz_filter_create_encode(struct hspz_writer *w, uint32_t id,
                          const struct hspz_filter_create_params *params)
{
    const struct hspz_filter_create_params *p = params;
    hspz_put_begin(w, id, HSPZ_METHOD_FILTER_CREATE,
                   2u + (p->capacity != 0) + (p->rate > 0) + (p->slots != 0) + (p->slot_bits != 0) +
                       (p->block_slots != 0) + (p->hashes != 0) + (p->value_bits != 0) +
                       (p->seed != 0) + (p->k != 0) + p->canonical + p->shared + (p->parts != 0));
    hspz_put_text(w, "filter", p->filter);
    hspz_put_text(w, "kind", p->kind);
    hspz_put_uint_if(w, "capacity", p->capacity, 0);
    if (p->rate > 0) {
        hspz_write_key_float(w, "rate", p->rate);
    }
    hspz_put_uint_if(w, "slots", p->slots, 0);
    hspz_put_uint_if(w, "slot_bits", p->slot_bits, 0);
    hspz_put_uint_if(w, "block_slots", p->block_slots, 0);
    hspz_put_uint_if(w, "hashes", p->hashes, 0);
    hspz_put_uint_if(w, "value_bits", p->value_bits, 0);
    hspz_put_uint_if(w, "seed", p->seed, 0);
    hspz_put_uint_if(w, "k", p->k, 0);
    hspz_put_bool_if(w, "canonical", p->canonical, false);
    hspz_put_bool_if(w, "shared", p->shared, false);
    hspz_put_uint_if(w, "parts", p->parts, 0);
}

static enum hspz_filter_answer
standard_answer(enum hspz_method method)
{
    return method == HSPZ_METHOD_FILTER_COUNT ? HSPZ_ANSWER_ARRAY : HSPZ_ANSWER_BITMAP;
}

void
hspz_filter_keys_encode(struct hspz_writer *w, uint32_t id, enum hspz_method method,
                        const struct hspz_filter_keys_params *params)
{
    const struct hspz_filter_keys_params *p = params;
    HSPZ_REQUIRE(hspz_filter_takes_keys(method));
    const bool answered = p->answer != standard_answer(method);
    const bool values = p->placed ? p->values.len > 0 : p->values.bytes != NULL;
    const bool counts = p->placed ? p->counts.len > 0 : p->counts.bytes != NULL;
    hspz_put_begin(w, id, method,
                   2u + answered + (p->deadline_ms != 0) + (p->priority != HSPZ_PRIORITY_DEFAULT) +
                       p->shm + values + counts);
    hspz_put_text(w, "filter", p->filter);
    if (answered) {
        hspz_write_key_str(w, "answer", hspz_filter_answer_name(p->answer));
    }
    hspz_put_uint_if(w, "deadline_ms", p->deadline_ms, 0);
    hspz_put_uint_if(w, "priority", p->priority, HSPZ_PRIORITY_DEFAULT);
    if (p->shm) {
        hspz_write_key_str(w, "transport", "shm");
    }
    hspz_write_str(w, p->sequence ? "sequence" : "keys");
    hspz_put_payload(w, p->placed, p->keys_at, p->keys.len);
    if (p->placed && values) {
        hspz_write_str(w, "values");
        hspz_put_payload(w, true, p->values_at, p->values.len);
    }
    if (p->placed && counts) {
        hspz_write_str(w, "counts");
        hspz_put_payload(w, true, p->counts_at, p->counts.len);
    }
}

void
hspz_filter_more_encode(struct hspz_writer *w, const char *key, size_t bytes)
{
    hspz_write_str(w, key);
    hspz_write_bin_header(w, bytes);
}

void
hspz_filter_enumerate_encode(struct hspz_writer *w, uint32_t id,
                             const struct hspz_filter_enumerate_params *params)
{
    hspz_put_begin(w, id, HSPZ_METHOD_FILTER_ENUMERATE,
                   1u + (params->deadline_ms != 0) + (params->priority != HSPZ_PRIORITY_DEFAULT) +
                       params->shm);
    hspz_put_text(w, "filter", params->filter);
    hspz_put_uint_if(w, "deadline_ms", params->deadline_ms, 0);
    hspz_put_uint_if(w, "priority", params->priority, HSPZ_PRIORITY_DEFAULT);
    if (params->shm) {
        hspz_write_key_str(w, "transport", "shm");
    }
}

void
hspz_filter_merge_encode(struct hspz_writer *w, uint32_t id,
                         const struct hspz_filter_merge_params *params)
{
    hspz_put_begin(w, id, HSPZ_METHOD_FILTER_MERGE, 2);
    hspz_put_text(w, "filter", params->filter);
    hspz_put_text(w, "from", params->from);
}

void
hspz_filter_name_encode(struct hspz_writer *w, uint32_t id, enum hspz_method method,
                        const struct hspz_filter_name_params *params)
{
    hspz_put_begin(w, id, method, 1u + params->shared + params->saved);
    hspz_put_text(w, "filter", params->filter);
    hspz_put_bool_if(w, "shared", params->shared, false);
    hspz_put_bool_if(w, "saved", params->saved, false);
}

void
hspz_filter_list_encode(struct hspz_writer *w, uint32_t id, const struct hspz_list_params *params)
{
    hspz_put_list(w, id, HSPZ_METHOD_FILTER_LIST, HSPZ_PAGE_FILTERS_LIMIT, params);
}

void
hspz_answers_encode(struct hspz_writer *w, const struct hspz_answers_head *head)
{
    hspz_write_array(w, 3);
    hspz_write_uint(w, HSPZ_NOTIFICATION);
    hspz_write_str(w, "answers");
    hspz_write_array(w, 2);
    hspz_write_map(w, 4);
    hspz_write_key_uint(w, "job", head->job);
    hspz_write_key_str(w, "answer", hspz_filter_answer_name(head->answer));
    hspz_write_key_uint(w, "first", head->first);
    hspz_write_key_uint(w, "count", head->count);
    hspz_put_payload(w, head->placed, head->offset,
                     (size_t)hspz_filter_answer_bytes(head->answer, head->count));
}

void
hspz_entries_encode(struct hspz_writer *w, const struct hspz_entries_head *head)
{
    hspz_write_array(w, 3);
    hspz_write_uint(w, HSPZ_NOTIFICATION);
    hspz_write_str(w, "entries");
    hspz_write_array(w, 2);
    hspz_write_map(w, 3);
    hspz_write_key_uint(w, "job", head->job);
    hspz_write_key_uint(w, "first", head->first);
    hspz_write_key_uint(w, "count", head->count);
    hspz_put_payload(w, head->placed, head->offset, (size_t)head->count * HSPZ_ENTRY_BYTES);
}
