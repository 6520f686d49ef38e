#include "daemon/catalog_entry.h"

#include "engine/sequences.h"

#include <stdlib.h>
#include <string.h>

static const char *
state_name(const struct hspz_served *served)
{
    static const char *const names[] = {"building", "loading", "ready",
                                        "dropping", "dropped", "leaving"};
    return names[served->state];
}

static struct hspz_text
text_of(const char *text)
{
    return (struct hspz_text){.bytes = text, .len = strlen(text)};
}

void
hspz_catalog_list_encode(struct hspz_writer *w, uint32_t id, const struct hspz_catalog *catalog,
                         const struct hspz_list_params *params)
{
    struct hspz_list_entry entries[HSPZ_PAGE_INDEXES_LIMIT];
    uint64_t at = 0;
    size_t count = 0;
    for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (s->coming || s->unwanted) {
            continue;
        }
        if (at >= params->first && count < params->count && count < HSPZ_PAGE_INDEXES_LIMIT) {
            entries[count++] = (struct hspz_list_entry){
                .index = text_of(s->name),
                .state = text_of(state_name(s)),
                .file = text_of(s->path),
                .bytes = s->bytes,
                .pinned = s->pinned,
            };
        }
        at++;
    }
    hspz_list_result_encode(w, id, at, params->first, entries, count);
}

static const struct hspz_served *
find(const struct hspz_catalog *catalog, struct hspz_text name)
{
    for (const struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (strlen(s->name) == name.len && memcmp(s->name, name.bytes, name.len) == 0 &&
            !s->unwanted) {
            return s;
        }
    }
    return NULL;
}

static void
describe_page(const struct hspz_index *index, const struct hspz_describe_params *params,
              struct hspz_describe_result *out)
{
    const struct hspz_sequences *seqs = hspz_index_sequences(index);
    out->block_count = hspz_index_block_count(index);
    out->sequence_count = seqs != NULL ? hspz_sequences_count(seqs) : 0;
    for (size_t b = 0; b < out->block_count; b++) {
        const struct hspz_index_block block = hspz_index_get_block(index, b);
        out->bases += block.bases_len;
        out->words += block.pos_count;
        if (b >= params->first && out->blocks_here < params->count) {
            out->blocks[out->blocks_here++] =
                (struct hspz_describe_block){.bases = block.bases_len, .words = block.pos_count};
        }
    }
    for (uint64_t i = params->first; i < out->sequence_count && out->sequences_here < params->count;
         i++) {
        const struct hspz_sequence *s = hspz_sequences_get(seqs, (size_t)i);
        out->sequences[out->sequences_here++] = (struct hspz_describe_sequence){
            .name = text_of(s->name), .bases = s->len, .block = s->block, .offset = s->offset};
    }
}

enum hspz_status
hspz_catalog_describe_encode(struct hspz_writer *w, uint32_t id, const struct hspz_catalog *catalog,
                             const struct hspz_describe_params *params, struct hspz_error *err)
{
    const struct hspz_served *served = find(catalog, params->index);
    if (served == NULL) {
        return hspz_error_set(err, HSPZ_E_UNKNOWN_INDEX, "there is no index \"%.*s\"",
                              (int)params->index.len, params->index.bytes);
    }
    if (served->state != HSPZ_SERVED_READY) {
        return hspz_error_set(err, HSPZ_E_NOT_READY, "index \"%s\" is %s", served->name,
                              state_name(served));
    }
    struct hspz_describe_result *result = calloc(1, sizeof(*result));
    if (result == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the answer");
    }
    const struct hspz_index_params *p = hspz_index_get_params(served->index);
    *result = (struct hspz_describe_result){
        .index = text_of(served->name),
        .state = text_of(state_name(served)),
        .file = text_of(served->path),
        .shape = text_of(p->shape.pattern),
        .weight = p->shape.weight,
        .span = p->shape.span,
        .step = p->step,
        .unmask = p->unmask,
        .all_positions = p->all_positions,
        .digest = text_of(hspz_index_digest(served->index)),
        .sequence_digest = text_of(hspz_index_sequence_digest(served->index)),
        .version = text_of(hspz_index_version(served->index)),
        .bytes = served->bytes,
        .first = params->first,
    };
    describe_page(served->index, params, result);
    hspz_describe_result_encode(w, id, result);
    free(result);
    return HSPZ_OK;
}

void
hspz_served_encode(struct hspz_writer *w, uint32_t id, const struct hspz_served *served)
{
    const struct hspz_index_result result = {
        .index = text_of(served->name),
        .digest = text_of(served->digest),
        .bytes = served->bytes,
    };
    hspz_index_result_encode(w, id, &result);
}

void
hspz_catalog_each(const struct hspz_catalog *catalog, hspz_served_view_fn view, void *user)
{
    for (struct hspz_served *s = catalog->list; s != NULL; s = s->next) {
        if (s->coming || s->unwanted) {
            continue;
        }
        const struct hspz_served_view v = {
            .name = s->name,
            .state = state_name(s),
            .owner = s->owned && s->state == HSPZ_SERVED_READY ? s->owner : NULL,
            .bytes = s->bytes,
            .usage = &s->usage,
        };
        view(user, &v);
    }
}
