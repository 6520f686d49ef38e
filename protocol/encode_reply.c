/* Results, to bytes.
 *
 * Lists that may be long are cut into pages, so that a reply is within the limits of every message:
 * values (the pages' counts see to that) and bytes outside large bins. */
#include "protocol/encode_p.h"

#define TUPLE_BYTES 40u /* most header bytes of a tuple's array, numbers and string heads */

/* Bytes that a text adds to a message outside its large bins. */
static size_t
page_bytes(struct hspz_text text)
{
    return TUPLE_BYTES + (text.len > HSPZ_FRAME_INLINE_BIN ? 0 : text.len);
}

static void
strand_totals(struct hspz_writer *w, const char *strand, const struct hspz_strand_totals *totals)
{
    hspz_write_str(w, strand);
    hspz_write_map(w, 5);
    hspz_write_key_uint(w, "batches", totals->batches);
    hspz_write_key_uint(w, "seeds", totals->seeds);
    hspz_write_key_uint(w, "hits", totals->hits);
    hspz_write_key_uint(w, "chunks", totals->chunks);
    hspz_write_key_uint(w, "hsps", totals->hsps);
}

void
hspz_discover_result_encode(struct hspz_writer *w, uint32_t id,
                            const struct hspz_discover_result *result)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 7u + result->has_digest);
    hspz_write_str(w, "strands");
    hspz_write_map(w, 2);
    strand_totals(w, "plus", &result->totals[HSPZ_STRAND_PLUS]);
    strand_totals(w, "minus", &result->totals[HSPZ_STRAND_MINUS]);
    hspz_write_key_uint(w, "anchors", result->anchors);
    hspz_write_key_uint(w, "hsps", result->hsps);
    hspz_write_key_uint(w, "chunks", result->chunks);
    hspz_write_key_uint(w, "max_hits", result->max_hits);
    hspz_write_key_str(w, "index_digest", result->index_digest);
    if (result->has_digest) {
        hspz_write_key_str(w, "digest", result->digest);
    }
    hspz_put_timings(w, &result->timings);
}

void
hspz_shm_result_encode(struct hspz_writer *w, uint32_t id, const struct hspz_shm_result *result)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 2);
    hspz_write_key_uint(w, "ring_bytes", result->ring_bytes);
    hspz_write_key_uint(w, "input_bytes", result->input_bytes);
}

void
hspz_list_result_encode(struct hspz_writer *w, uint32_t id, uint64_t index_count, uint64_t first,
                        const struct hspz_list_entry *entries, size_t count)
{
    size_t fit = 0;
    for (size_t bytes = 0; fit < count && fit < HSPZ_PAGE_INDEXES_LIMIT; fit++) {
        bytes += TUPLE_BYTES + page_bytes(entries[fit].index) + page_bytes(entries[fit].file);
        if (fit > 0 && bytes > HSPZ_PAGE_BYTES_LIMIT) {
            break;
        }
    }
    hspz_response_begin(w, id);
    hspz_write_map(w, 3);
    hspz_write_key_uint(w, "index_count", index_count);
    hspz_write_key_uint(w, "first", first);
    hspz_write_str(w, "indexes");
    hspz_write_array(w, (uint32_t)fit);
    for (size_t i = 0; i < fit; i++) {
        hspz_write_map(w, 5);
        hspz_put_any_text(w, "index", entries[i].index);
        hspz_put_any_text(w, "state", entries[i].state);
        hspz_put_any_text(w, "file", entries[i].file);
        hspz_write_key_uint(w, "bytes", entries[i].bytes);
        hspz_write_key_bool(w, "pinned", entries[i].pinned);
    }
}

static void
describe_sequences(struct hspz_writer *w, const struct hspz_describe_result *result)
{
    size_t fit = 0;
    size_t bytes = TUPLE_BYTES * result->blocks_here;
    for (; fit < result->sequences_here; fit++) {
        bytes += page_bytes(result->sequences[fit].name);
        if (fit > 0 && bytes > HSPZ_PAGE_BYTES_LIMIT) {
            break;
        }
    }
    hspz_write_str(w, "sequences");
    hspz_write_array(w, (uint32_t)fit);
    for (size_t i = 0; i < fit; i++) {
        const struct hspz_describe_sequence *sequence = &result->sequences[i];
        hspz_write_array(w, 4);
        hspz_write_text(w, sequence->name.bytes, sequence->name.len);
        hspz_write_uint(w, sequence->bases);
        hspz_write_uint(w, sequence->block);
        hspz_write_uint(w, sequence->offset);
    }
}

void
hspz_describe_result_encode(struct hspz_writer *w, uint32_t id,
                            const struct hspz_describe_result *result)
{
    HSPZ_REQUIRE(result->blocks_here <= HSPZ_PAGE_SEQUENCES_LIMIT &&
                 result->sequences_here <= HSPZ_PAGE_SEQUENCES_LIMIT);
    hspz_response_begin(w, id);
    hspz_write_map(w, 20);
    hspz_put_any_text(w, "index", result->index);
    hspz_put_any_text(w, "state", result->state);
    hspz_put_any_text(w, "file", result->file);
    hspz_put_any_text(w, "shape", result->shape);
    hspz_write_key_uint(w, "weight", result->weight);
    hspz_write_key_uint(w, "span", result->span);
    hspz_write_key_uint(w, "step", result->step);
    hspz_write_key_bool(w, "unmask", result->unmask);
    hspz_write_key_bool(w, "all_positions", result->all_positions);
    hspz_put_any_text(w, "digest", result->digest);
    hspz_put_any_text(w, "sequence_digest", result->sequence_digest);
    hspz_put_any_text(w, "version", result->version);
    hspz_write_key_uint(w, "bytes", result->bytes);
    hspz_write_key_uint(w, "bases", result->bases);
    hspz_write_key_uint(w, "words", result->words);
    hspz_write_key_uint(w, "block_count", result->block_count);
    hspz_write_key_uint(w, "sequence_count", result->sequence_count);
    hspz_write_key_uint(w, "first", result->first);
    hspz_write_str(w, "blocks");
    hspz_write_array(w, (uint32_t)result->blocks_here);
    for (size_t i = 0; i < result->blocks_here; i++) {
        hspz_write_array(w, 2);
        hspz_write_uint(w, result->blocks[i].bases);
        hspz_write_uint(w, result->blocks[i].words);
    }
    describe_sequences(w, result);
}

void
hspz_index_result_encode(struct hspz_writer *w, uint32_t id, const struct hspz_index_result *result)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 3);
    hspz_put_any_text(w, "index", result->index);
    hspz_put_any_text(w, "digest", result->digest);
    hspz_write_key_uint(w, "bytes", result->bytes);
}
