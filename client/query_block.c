#include "client/query_block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct hspz_sequence *
sequence_at(const struct hspz_query_block *block, size_t i)
{
    return hspz_sequences_get(block->seqs, block->plan->order[block->first + i]);
}

/* The block's sequences, joined. */
static enum hspz_status
copy_bases(struct hspz_query_block *block, struct hspz_error *err)
{
    block->copy = malloc(block->bases + 1);
    if (block->copy == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY,
                              "no memory for a query block of %" PRIu64 " bases", block->bases);
    }
    memset(block->copy, HSPZ_SEPARATOR, block->bases);
    for (size_t i = 0; i < block->count; i++) {
        const struct hspz_sequence *q = sequence_at(block, i);
        if (q->len > 0) {
            memcpy(block->copy + block->plan->offsets[block->first + i],
                   hspz_sequences_block(block->seqs, q->block).bases + q->offset, q->len);
        }
    }
    block->text = block->copy;
    return HSPZ_OK;
}

enum hspz_status
hspz_query_block_open(struct hspz_query_block *block, const struct hspz_sequences *seqs,
                      const struct hspz_file_plan *plan, size_t b, bool apart,
                      struct hspz_error *err)
{
    hspz_query_block_close(block);
    *block = (struct hspz_query_block){
        .seqs = seqs,
        .plan = plan,
        .first = plan->blocks[b].first,
        .count = plan->blocks[b].count,
        .bases = plan->blocks[b].bases,
    };
    if (apart) {
        return copy_bases(block, err);
    }
    const struct hspz_sequence *first = sequence_at(block, 0);
    block->text = hspz_sequences_block(seqs, first->block).bases;
    return HSPZ_OK;
}

void
hspz_query_block_close(struct hspz_query_block *block)
{
    free(block->copy);
    *block = (struct hspz_query_block){0};
}

enum hspz_status
hspz_query_block_next(const struct hspz_query_block *block, uint64_t most_bases,
                      struct hspz_query_block_piece *piece, struct hspz_error *err)
{
    const size_t begin = piece->next;
    const uint64_t *offsets = block->plan->offsets + block->first;
    *piece = (struct hspz_query_block_piece){.next = begin};
    if (begin >= block->count) {
        return HSPZ_OK;
    }
    const struct hspz_sequence *first = sequence_at(block, begin);
    if (first->len > most_bases) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE,
                              "query %.200s: %" PRIu64 " bases, and the server takes %" PRIu64
                              " at a time: raise max_query_bases and max_message there, or cut "
                              "the sequence",
                              first->name, first->len, most_bases);
    }
    size_t end = begin;
    uint64_t len = 0;
    while (end < block->count) {
        const uint64_t with_next = offsets[end] + sequence_at(block, end)->len - offsets[begin];
        if (with_next > most_bases) {
            break;
        }
        len = with_next;
        end++;
    }
    piece->bases = (struct hspz_span){.bytes = block->text + offsets[begin], .len = (size_t)len};
    piece->offset = offsets[begin];
    piece->count = end - begin;
    piece->next = end;
    return HSPZ_OK;
}
