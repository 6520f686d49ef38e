#include "engine/cpu/buckets.h"

#include "engine/cut.h"
#include "engine/index_p.h"

#include <stdlib.h>
#include <string.h>

/* Seeds looked up together, so that their cache misses overlap. */
#define TILE 256u

static inline uint32_t
bucket_begin(const struct hspz_buckets *b, uint32_t word)
{
    return word == 0 ? 0 : b->block.table[word - 1];
}

static inline uint64_t
is_present(const struct hspz_buckets *b, uint32_t word)
{
    return b->present[word >> 6] >> (word & 63) & 1;
}

enum hspz_status
hspz_buckets_init(struct hspz_buckets *b, const struct hspz_shape *shape,
                  struct hspz_index_block block)
{
    const uint32_t words = hspz_shape_words(shape);
    uint64_t *present = hspz_index_alloc(words / 8);
    if (present == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    memset(present, 0, words / 8);
    uint32_t before = 0;
    for (uint32_t w = 0; w < words; w++) {
        present[w >> 6] |= (uint64_t)(block.table[w] != before) << (w & 63);
        before = block.table[w];
    }
    *b = (struct hspz_buckets){
        .block = block, .words = words, .span = shape->span, .present = present};
    return HSPZ_OK;
}

void
hspz_buckets_fini(struct hspz_buckets *b)
{
    free(b->present);
    b->present = NULL;
}

/* Counts of up to TILE seeds, and where the buckets of those with hits begin; the others cost one
 * bit. */
static void
count_tile(const struct hspz_buckets *b, const uint64_t *seeds, uint32_t n, uint32_t *counts,
           uint32_t *begins)
{
    uint32_t full[TILE];
    uint32_t full_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = 0;
        full[full_count] = i;
        full_count += (uint32_t)is_present(b, HSPZ_SEED_WORD(seeds[i]));
    }
    for (uint32_t k = 0; k < full_count; k++) {
        __builtin_prefetch(&b->block.table[HSPZ_SEED_WORD(seeds[full[k]])]);
    }
    for (uint32_t k = 0; k < full_count; k++) {
        const uint32_t i = full[k];
        const uint32_t word = HSPZ_SEED_WORD(seeds[i]);
        begins[i] = bucket_begin(b, word);
        counts[i] = b->block.table[word] - begins[i];
    }
}

uint64_t
hspz_buckets_count(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch, uint64_t begin,
                   uint64_t end, uint64_t max_word_count)
{
    uint64_t total = 0;
    for (uint64_t at = begin; at < end; at += TILE) {
        const uint32_t n = end - at < TILE ? (uint32_t)(end - at) : TILE;
        uint32_t counts[TILE];
        count_tile(b, batch->seeds + at, n, counts, batch->begins + at);
        for (uint32_t i = 0; i < n; i++) {
            total += counts[i] <= max_word_count ? counts[i] : 0;
            batch->sums[at + i] = (uint32_t)total;
        }
    }
    return total;
}

/* One seed's share of the range. */
struct slot {
    uint64_t seed;
    uint32_t count;      /* of its hits here */
    uint32_t query;      /* of its anchors */
    const uint32_t *pos; /* of its last hit here */
};

/* Which of up to TILE seeds have hits before `end`; `at` is the first hit left of the first one.
 * No branch could be foreseen here. */
static uint32_t
find_full(const uint32_t *sums, uint32_t n, uint64_t at, uint64_t end, uint32_t full[TILE])
{
    uint32_t full_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        full[full_count] = i;
        full_count += (uint32_t)((sums[i] != at) & (at < end));
        at = sums[i];
    }
    return full_count;
}

/* The slots of up to TILE seeds from `first` on that have some of the hits [*at, end). */
static inline uint32_t
find_slots(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch, uint64_t first,
           uint64_t *at, uint64_t end, struct slot slots[TILE])
{
    const uint32_t n = batch->count - first < TILE ? (uint32_t)(batch->count - first) : TILE;
    uint32_t full[TILE];
    const uint32_t slot_count = find_full(batch->sums + first, n, *at, end, full);
    for (uint32_t k = 0; k < slot_count; k++) {
        const uint64_t i = first + full[k];
        const uint64_t sum = batch->sums[i];
        const uint64_t stop = sum < end ? sum : end;
        slots[k] = (struct slot){
            .seed = i,
            .count = (uint32_t)(stop - *at),
            .query = HSPZ_SEED_QUERY(batch->seeds[i]) + b->span,
            .pos = b->block.pos + batch->begins[i] + (sum - stop),
        };
        __builtin_prefetch(slots[k].pos);
        *at = stop;
    }
    return slot_count;
}

void
hspz_buckets_expand(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch,
                    uint64_t begin, uint64_t end, uint64_t *out)
{
    struct slot slots[TILE];
    uint64_t at = begin;
    uint64_t first = hspz_prefix_lower_bound(batch->sums, 0, batch->count, begin + 1);
    for (; at < end; first += TILE) {
        const uint32_t slot_count = find_slots(b, batch, first, &at, end, slots);
        for (uint32_t k = 0; k < slot_count; k++) {
            const struct slot *slot = &slots[k];
            const uint64_t query = (uint64_t)slot->query << 32;
            for (uint32_t j = 0; j < slot->count; j++) {
                out[slot->count - 1 - j] = (uint64_t)(slot->pos[j] + b->span) | query;
            }
            out += slot->count;
        }
    }
}

void
hspz_buckets_columns(const struct hspz_buckets *b, const struct hspz_cpu_batch *batch,
                     uint64_t begin, uint64_t end, struct hspz_run *runs, uint32_t *refs)
{
    struct slot slots[TILE];
    uint64_t at = begin;
    uint64_t first = hspz_prefix_lower_bound(batch->sums, 0, batch->count, begin + 1);
    uint64_t window_end = 0; /* first seed after those of the run under way */
    for (; at < end; first += TILE) {
        const uint32_t slot_count = find_slots(b, batch, first, &at, end, slots);
        for (uint32_t k = 0; k < slot_count; k++) {
            const struct slot *slot = &slots[k];
            if (slot->seed >= window_end) {
                window_end = slot->seed - slot->seed % batch->per_run + batch->per_run;
                *runs++ = (struct hspz_run){.query = slot->query};
            }
            runs[-1].count += slot->count;
            for (uint32_t j = 0; j < slot->count; j++) {
                refs[slot->count - 1 - j] = slot->pos[j] + b->span;
            }
            refs += slot->count;
        }
    }
}

/* Hits up to the end of the window that begins with this seed. */
static uint64_t
window_hits(const struct hspz_cpu_batch *batch, uint64_t seed)
{
    const uint64_t left = batch->count - seed;
    return batch->sums[seed + (left < batch->per_run ? left : batch->per_run) - 1];
}

uint64_t
hspz_buckets_window(const struct hspz_cpu_batch *batch, uint64_t hit)
{
    const uint64_t seed = hspz_prefix_lower_bound(batch->sums, 0, batch->count, hit + 1);
    return seed - seed % batch->per_run;
}

uint64_t
hspz_buckets_runs(const struct hspz_cpu_batch *batch, uint64_t begin, uint64_t end)
{
    uint64_t at = begin, runs = 0;
    for (uint64_t i = hspz_buckets_window(batch, begin); at < end; i += batch->per_run) {
        const uint64_t sum = window_hits(batch, i);
        runs += sum != at;
        at = sum;
    }
    return runs;
}

uint64_t
hspz_buckets_fit(const struct hspz_cpu_batch *batch, uint64_t begin, uint64_t end, size_t bytes,
                 uint64_t *runs)
{
    uint64_t at = begin;
    *runs = 0;
    for (uint64_t i = hspz_buckets_window(batch, begin); at < end; i += batch->per_run) {
        const uint64_t sum = window_hits(batch, i);
        const uint64_t stop = sum < end ? sum : end;
        if (stop == at) {
            continue;
        }
        const size_t need = sizeof(struct hspz_run) + (stop - at) * sizeof(uint32_t);
        if (need > bytes) {
            const bool some = bytes >= sizeof(struct hspz_run) + sizeof(uint32_t);
            *runs += some;
            return some ? at + (bytes - sizeof(struct hspz_run)) / sizeof(uint32_t) : at;
        }
        bytes -= need;
        *runs += 1;
        at = stop;
    }
    return end;
}
