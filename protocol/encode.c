/* Requests, notifications and errors, to bytes. Results are in encode_reply.c. */
#include "protocol/encode_p.h"
#include "protocol/text.h"

#include <string.h>

void
hspz_request_begin(struct hspz_writer *w, uint32_t id, const char *method)
{
    hspz_write_array(w, 4);
    hspz_write_uint(w, HSPZ_REQUEST);
    hspz_write_uint(w, id);
    hspz_write_str(w, method);
    hspz_write_array(w, 1);
}

void
hspz_request_bare(struct hspz_writer *w, uint32_t id, const char *method)
{
    hspz_write_array(w, 4);
    hspz_write_uint(w, HSPZ_REQUEST);
    hspz_write_uint(w, id);
    hspz_write_str(w, method);
    hspz_write_array(w, 0);
}

void
hspz_hello_encode(struct hspz_writer *w, uint32_t id, const struct hspz_hello_params *params)
{
    hspz_put_begin(w, id, HSPZ_METHOD_HELLO,
                   1u + (params->client.len > 0) + (params->token.len > 0));
    hspz_write_key_uint(w, "protocol", params->protocol);
    hspz_put_text_if(w, "client", params->client);
    hspz_put_text_if(w, "token", params->token);
}

static bool
is_shape_default(struct hspz_text shape)
{
    return shape.len == 0 || (shape.len == strlen(HSPZ_SHAPE_DEFAULT) &&
                              memcmp(shape.bytes, HSPZ_SHAPE_DEFAULT, shape.len) == 0);
}

static uint32_t
discover_query_pairs(const struct hspz_discover_params *p)
{
    return (uint32_t)(p->strands != HSPZ_STRANDS_BOTH) + (p->transitions != 1) + p->unmask +
           (p->begin != 0) + (p->end != UINT64_MAX) + (p->interval != 0);
}

static void
discover_query_options(struct hspz_writer *w, const struct hspz_discover_params *p)
{
    if (p->strands != HSPZ_STRANDS_BOTH) {
        hspz_write_key_str(w, "strand", p->strands == HSPZ_STRANDS_PLUS ? "plus" : "minus");
    }
    if (p->transitions == 0) {
        hspz_put_bool_if(w, "transitions", false, true);
    } else {
        hspz_put_uint_if(w, "transitions", p->transitions, 1);
    }
    hspz_put_bool_if(w, "unmask", p->unmask, false);
    hspz_put_uint_if(w, "begin", p->begin, 0);
    hspz_put_uint_if(w, "end", p->end, UINT64_MAX);
    hspz_put_uint_if(w, "interval", p->interval, 0);
}

static uint32_t
scoring_pairs(const struct hspz_discover_params *p)
{
    const struct hspz_scoring *s = &p->scoring;
    return (uint32_t)(s->xdrop != HSPZ_XDROP_DEFAULT) + (s->threshold != HSPZ_THRESHOLD_DEFAULT) +
           !s->entropy + (s->scope != HSPZ_SCOPE_JOB) + (s->limit != UINT64_MAX) + p->has_scores;
}

/* `output` and what belongs to it. */
static void
discover_output(struct hspz_writer *w, const struct hspz_discover_params *p, uint32_t pairs)
{
    const struct hspz_scoring *s = &p->scoring;
    hspz_write_key_str(w, "output", "hsps");
    if (pairs == 0) {
        return;
    }
    hspz_write_str(w, "hsps");
    hspz_write_map(w, pairs);
    hspz_put_uint_if(w, "xdrop", (uint32_t)s->xdrop, HSPZ_XDROP_DEFAULT);
    hspz_put_uint_if(w, "threshold", (uint32_t)s->threshold, HSPZ_THRESHOLD_DEFAULT);
    hspz_put_bool_if(w, "entropy", s->entropy, true);
    if (s->scope == HSPZ_SCOPE_CHUNK) {
        hspz_write_key_str(w, "scope", "chunk");
    }
    hspz_put_uint_if(w, "limit", s->limit, UINT64_MAX);
    if (p->has_scores) {
        uint8_t bytes[HSPZ_SCORES_BYTES];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)((uint32_t)s->scores[i / 4] >> (8 * (i % 4)));
        }
        hspz_write_str(w, "scores");
        hspz_write_bin(w, bytes, sizeof(bytes));
    }
}

void
hspz_discover_encode(struct hspz_writer *w, uint32_t id, const struct hspz_discover_params *params)
{
    const struct hspz_discover_params *p = params;
    const bool full = p->walk == HSPZ_WALK_FULL;
    const bool hsps = p->output == HSPZ_RECORDS_HSPS;
    const uint32_t hsps_pairs = hsps ? scoring_pairs(p) : 0;
    hspz_put_begin(w, id, HSPZ_METHOD_DISCOVER,
                   2u + hsps + (hsps_pairs > 0) + (p->has_seeds ? 0 : discover_query_pairs(p)) +
                       (p->max_hits != HSPZ_MAX_HITS_DEFAULT) + (p->hit_limit != UINT64_MAX) +
                       (p->max_word_count != UINT64_MAX) + (p->keep_words != HSPZ_KEEP_ALL) +
                       (p->mask_filter.len > 0) + (p->mask_count != 0) + (p->deadline_ms != 0) +
                       (p->priority != HSPZ_PRIORITY_DEFAULT) + full + !p->digest +
                       (p->encoding == HSPZ_ENCODING_COLUMNAR) + (p->want_digest.len > 0) +
                       (p->want_shape.len > 0) + (p->want_step != 0) + p->shm);
    hspz_put_text(w, "index", p->index);
    if (!p->has_seeds) {
        discover_query_options(w, p);
    }
    hspz_put_uint_if(w, "max_hits", p->max_hits, HSPZ_MAX_HITS_DEFAULT);
    hspz_put_uint_if(w, "hit_limit", p->hit_limit, UINT64_MAX);
    hspz_put_uint_if(w, "max_word_count", p->max_word_count, UINT64_MAX);
    hspz_put_uint_if(w, "keep_words", p->keep_words, HSPZ_KEEP_ALL);
    hspz_put_text_if(w, "mask_filter", p->mask_filter);
    hspz_put_uint_if(w, "mask_count", p->mask_count, 0);
    hspz_put_uint_if(w, "deadline_ms", p->deadline_ms, 0);
    hspz_put_uint_if(w, "priority", p->priority, HSPZ_PRIORITY_DEFAULT);
    if (full) {
        hspz_write_key_str(w, "chunk_walk", "full");
    }
    hspz_put_bool_if(w, "digest", p->digest, true);
    if (p->encoding == HSPZ_ENCODING_COLUMNAR) {
        hspz_write_key_str(w, "encoding", "columnar");
    }
    hspz_put_text_if(w, "index_digest", p->want_digest);
    hspz_put_text_if(w, "shape", p->want_shape);
    hspz_put_uint_if(w, "step", p->want_step, 0);
    if (p->shm) {
        hspz_write_key_str(w, "transport", "shm");
    }
    if (hsps) {
        discover_output(w, p, hsps_pairs);
    }
    if (p->has_seeds) {
        hspz_write_str(w, "seeds");
        hspz_put_payload(w, p->placed, p->offset, p->seeds.len);
    } else {
        hspz_write_str(w, "query");
        hspz_write_map(w, 1);
        hspz_write_str(w, "bases");
        hspz_put_payload(w, p->placed, p->offset, p->bases.len);
    }
}

void
hspz_cancel_encode(struct hspz_writer *w, uint32_t id, const struct hspz_cancel_params *params)
{
    hspz_put_begin(w, id, HSPZ_METHOD_CANCEL, 1);
    hspz_write_key_uint(w, "job", params->job);
}

void
hspz_drain_encode(struct hspz_writer *w, uint32_t id, const struct hspz_drain_params *params)
{
    if (params->wait_ms == 0) {
        hspz_request_bare(w, id, hspz_method_name(HSPZ_METHOD_DRAIN));
        return;
    }
    hspz_put_begin(w, id, HSPZ_METHOD_DRAIN, 1);
    hspz_write_key_uint(w, "wait_ms", params->wait_ms);
}

void
hspz_describe_encode(struct hspz_writer *w, uint32_t id, const struct hspz_describe_params *params)
{
    hspz_put_begin(w, id, HSPZ_METHOD_INDEX_DESCRIBE,
                   1u + (params->first != 0) + (params->count != HSPZ_PAGE_SEQUENCES_LIMIT));
    hspz_put_text(w, "index", params->index);
    hspz_put_uint_if(w, "first", params->first, 0);
    hspz_put_uint_if(w, "count", params->count, HSPZ_PAGE_SEQUENCES_LIMIT);
}

void
hspz_list_encode(struct hspz_writer *w, uint32_t id, const struct hspz_list_params *params)
{
    hspz_put_list(w, id, HSPZ_METHOD_INDEX_LIST, HSPZ_PAGE_INDEXES_LIMIT, params);
}

void
hspz_index_name_encode(struct hspz_writer *w, uint32_t id, enum hspz_method method,
                       const struct hspz_index_params_name *params)
{
    hspz_put_begin(w, id, method, 1);
    hspz_put_text(w, "index", params->index);
}

void
hspz_load_encode(struct hspz_writer *w, uint32_t id, const struct hspz_load_params *params)
{
    hspz_put_begin(w, id, HSPZ_METHOD_INDEX_LOAD,
                   2u + (params->want_shape.len > 0) + (params->want_digest.len > 0) +
                       (params->want_step != 0));
    hspz_put_text(w, "index", params->index);
    hspz_put_text(w, "file", params->file);
    hspz_put_text_if(w, "shape", params->want_shape);
    hspz_put_text_if(w, "index_digest", params->want_digest);
    hspz_put_uint_if(w, "step", params->want_step, 0);
}

void
hspz_build_encode(struct hspz_writer *w, uint32_t id, const struct hspz_build_params *params)
{
    const bool shaped = !is_shape_default(params->shape);
    hspz_put_begin(w, id, HSPZ_METHOD_INDEX_BUILD,
                   3u + shaped + (params->step != 1) + params->unmask + params->all_positions +
                       (params->block_size != 0));
    hspz_put_text(w, "index", params->index);
    hspz_put_text(w, "source", params->source);
    hspz_put_text(w, "file", params->file);
    if (shaped) {
        hspz_put_text(w, "shape", params->shape);
    }
    hspz_put_uint_if(w, "step", params->step, 1);
    hspz_put_bool_if(w, "unmask", params->unmask, false);
    hspz_put_bool_if(w, "all_positions", params->all_positions, false);
    hspz_put_uint_if(w, "block_size", params->block_size, 0);
}

void
hspz_response_begin(struct hspz_writer *w, uint32_t id)
{
    hspz_write_array(w, 4);
    hspz_write_uint(w, HSPZ_RESPONSE);
    hspz_write_uint(w, id);
    hspz_write_nil(w);
}

void
hspz_response_error(struct hspz_writer *w, uint32_t id, const struct hspz_error *err)
{
    const bool travels = err->status != HSPZ_OK && err->status < HSPZ_E_NO_SERVER;
    const enum hspz_status status = travels ? err->status : HSPZ_E_INTERNAL;
    char text[HSPZ_ERROR_TEXT_BYTES];
    memcpy(text, err->text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    hspz_text_clean(text);
    hspz_write_array(w, 4);
    hspz_write_uint(w, HSPZ_RESPONSE);
    hspz_write_uint(w, id);
    hspz_write_map(w, 2u + err->has_hits + err->has_limit + err->has_retry);
    hspz_write_key_str(w, "code", hspz_status_name(status));
    hspz_write_key_str(w, "message", text[0] != '\0' ? text : hspz_status_text(status));
    if (err->has_hits) {
        hspz_write_key_uint(w, "hits", err->hits);
    }
    if (err->has_limit) {
        hspz_write_key_uint(w, "limit", err->limit);
    }
    if (err->has_retry) {
        hspz_write_key_uint(w, "retry_ms", err->retry_ms);
    }
    hspz_write_nil(w);
}

void
hspz_part_encode(struct hspz_writer *w, const struct hspz_part_head *head, size_t payload_bytes)
{
    const struct hspz_part_id *id = &head->id;
    const bool hsps = head->records == HSPZ_RECORDS_HSPS;
    const bool columnar = head->encoding == HSPZ_ENCODING_COLUMNAR;
    hspz_write_array(w, 3);
    hspz_write_uint(w, HSPZ_NOTIFICATION);
    hspz_write_str(w, hsps ? "hsps" : "anchors");
    hspz_write_array(w, 2);
    hspz_write_map(w, 11u + head->has_interval + columnar);
    hspz_write_key_uint(w, "job", head->job);
    if (head->has_interval) {
        hspz_write_key_uint(w, "interval", id->interval);
    }
    hspz_write_key_uint(w, "batch", id->batch);
    hspz_write_key_str(w, "strand", id->strand == HSPZ_STRAND_PLUS ? "plus" : "minus");
    hspz_write_key_uint(w, "ref_block", id->ref_block);
    hspz_write_key_uint(w, "chunk", id->chunk);
    hspz_write_key_uint(w, "part", id->part);
    hspz_write_key_bool(w, "last_part", id->last_part);
    hspz_write_key_uint(w, "seed_begin", id->seed_begin);
    hspz_write_key_uint(w, "seed_end", id->seed_end);
    hspz_write_key_uint(w, hsps ? "hsp_begin" : "hit_begin", id->hit_begin);
    hspz_write_key_uint(w, hsps ? "hsp_end" : "hit_end", id->hit_end);
    if (columnar) {
        hspz_write_key_str(w, "encoding", "columnar");
    }
    hspz_put_payload(w, head->placed, head->offset, payload_bytes);
}

void
hspz_shm_free_encode(struct hspz_writer *w, const uint64_t *offsets, size_t count)
{
    hspz_write_array(w, 3);
    hspz_write_uint(w, HSPZ_NOTIFICATION);
    hspz_write_str(w, HSPZ_SHM_FREE);
    hspz_write_array(w, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        hspz_write_uint(w, offsets[i]);
    }
}
