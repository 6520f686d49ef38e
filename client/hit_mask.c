#include "client/hit_mask.h"

#include "client/hspz.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void
hspz_hit_mask_init(struct hspz_hit_mask *mask, uint32_t most, uint32_t span)
{
    HSPZ_REQUIRE(most >= 1 && most <= HSPZ_MASKING_LIMIT && span >= 1);
    *mask = (struct hspz_hit_mask){.most = most, .span = span};
}

void
hspz_hit_mask_fini(struct hspz_hit_mask *mask)
{
    for (size_t b = 0; b < mask->block_count; b++) {
        free(mask->blocks[b].counts);
        free(mask->blocks[b].dead);
    }
    free(mask->blocks);
    free(mask->fresh);
    free(mask->kept);
    *mask = (struct hspz_hit_mask){0};
}

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count hits (--masking)");
}

static enum hspz_status
add_blocks(struct hspz_hit_mask *mask, size_t count, struct hspz_error *err)
{
    struct hspz_hit_mask_block *blocks = realloc(mask->blocks, count * sizeof(*blocks));
    if (blocks == NULL) {
        return no_memory(err);
    }
    mask->blocks = blocks;
    for (; mask->block_count < count; mask->block_count++) {
        blocks[mask->block_count] = (struct hspz_hit_mask_block){0};
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_hit_mask_grow(struct hspz_hit_mask *mask, size_t block, uint64_t bases, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (block >= mask->block_count) {
        status = add_blocks(mask, block + 1, err);
    }
    if (status != HSPZ_OK || bases <= mask->blocks[block].bases) {
        return status;
    }
    /* Sequences come one by one: only the last length is allocated, when the first hit comes. */
    struct hspz_hit_mask_block *b = &mask->blocks[block];
    HSPZ_REQUIRE(b->counts == NULL);
    b->bases = bases;
    return HSPZ_OK;
}

static enum hspz_status
open_block(struct hspz_hit_mask *mask, uint32_t block, struct hspz_error *err)
{
    struct hspz_hit_mask_block *b = &mask->blocks[block];
    if (b->counts == NULL) {
        b->counts = calloc(b->bases, sizeof(*b->counts));
    }
    if (b->dead == NULL) {
        b->dead = calloc(b->bases / 64 + 1, sizeof(*b->dead));
    }
    return b->counts != NULL && b->dead != NULL ? HSPZ_OK : no_memory(err);
}

static enum hspz_status
reserve(struct hspz_hit_mask *mask, size_t count, struct hspz_error *err)
{
    if (mask->kept_capacity < count) {
        uint8_t *kept = realloc(mask->kept, count * HSPZ_ANCHOR_BYTES);
        if (kept == NULL) {
            return no_memory(err);
        }
        mask->kept = kept;
        mask->kept_capacity = count;
    }
    return HSPZ_OK;
}

static enum hspz_status
note_fresh(struct hspz_hit_mask *mask, uint64_t place, uint32_t block, struct hspz_error *err)
{
    if (mask->fresh_count == mask->fresh_capacity) {
        const size_t capacity = mask->fresh_capacity < 1024 ? 1024 : 2 * mask->fresh_capacity;
        uint64_t *fresh = realloc(mask->fresh, capacity * sizeof(*fresh));
        if (fresh == NULL) {
            return no_memory(err);
        }
        mask->fresh = fresh;
        mask->fresh_capacity = capacity;
    }
    mask->fresh[mask->fresh_count++] = place << 32 | block;
    return HSPZ_OK;
}

/* One more hit on each base of a window. */
static enum hspz_status
count_window(struct hspz_hit_mask *mask, uint32_t block, uint64_t begin, struct hspz_error *err)
{
    uint16_t *counts = mask->blocks[block].counts;
    for (uint64_t at = begin; at < begin + mask->span; at++) {
        if (counts[at] == mask->most) {
            continue; /* it has come to it: how far past does not matter */
        }
        if (++counts[at] == mask->most) {
            const enum hspz_status status = note_fresh(mask, at, block, err);
            if (status != HSPZ_OK) {
                return status;
            }
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_hit_mask_take(struct hspz_hit_mask *mask, uint32_t block, const uint8_t *anchors, size_t count,
                   const uint8_t **kept, size_t *kept_count, struct hspz_error *err)
{
    if (block >= mask->block_count) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "anchors of block %" PRIu32 " of %zu", block,
                              mask->block_count);
    }
    enum hspz_status status = open_block(mask, block, err);
    if (status == HSPZ_OK) {
        status = reserve(mask, count, err);
    }
    size_t n = 0;
    for (size_t i = 0; i < count && status == HSPZ_OK; i++) {
        const uint64_t end = HSPZ_ANCHOR_REF(hspz_anchor_at(anchors, i));
        if (end < mask->span || end > mask->blocks[block].bases) {
            return hspz_error_set(err, HSPZ_E_BAD_PEER,
                                  "an anchor that ends at %" PRIu64 " of block %" PRIu32
                                  ", which has %" PRIu64 " bases",
                                  end, block, mask->blocks[block].bases);
        }
        const uint64_t begin = end - mask->span;
        if ((mask->blocks[block].dead[begin / 64] >> begin % 64 & 1) != 0) {
            mask->dropped++;
            continue;
        }
        memcpy(mask->kept + n++ * HSPZ_ANCHOR_BYTES, anchors + i * HSPZ_ANCHOR_BYTES,
               HSPZ_ANCHOR_BYTES);
        status = count_window(mask, block, begin, err);
    }
    *kept = mask->kept;
    *kept_count = n;
    return status;
}

void
hspz_hit_mask_end_strand(struct hspz_hit_mask *mask)
{
    for (size_t i = 0; i < mask->fresh_count; i++) {
        struct hspz_hit_mask_block *b = &mask->blocks[mask->fresh[i] & UINT32_MAX];
        const uint64_t place = mask->fresh[i] >> 32;
        const uint64_t first = place >= mask->span ? place - mask->span + 1 : 0;
        for (uint64_t w = first; w <= place; w++) {
            b->dead[w / 64] |= UINT64_C(1) << w % 64;
        }
    }
    mask->masked += mask->fresh_count;
    mask->fresh_count = 0;
}
