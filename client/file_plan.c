#include "client/file_plan.h"

#include <inttypes.h>
#include <stdlib.h>

static enum hspz_status
allocate(struct hspz_file_plan *plan, size_t sequences, size_t blocks, struct hspz_error *err)
{
    *plan = (struct hspz_file_plan){
        .blocks = calloc(blocks + 1, sizeof(*plan->blocks)),
        .order = calloc(sequences + 1, sizeof(*plan->order)),
        .offsets = calloc(sequences + 1, sizeof(*plan->offsets)),
        .sequence_count = sequences,
    };
    if (plan->blocks == NULL || plan->order == NULL || plan->offsets == NULL) {
        hspz_file_plan_fini(plan);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the plan");
    }
    return HSPZ_OK;
}

void
hspz_file_plan_fini(struct hspz_file_plan *plan)
{
    free(plan->blocks);
    free(plan->order);
    free(plan->offsets);
    *plan = (struct hspz_file_plan){0};
}

/* Whether a block of `bases` in `count` sequences is closed to one of `len` more. */
static bool
is_closed(uint64_t bases, size_t count, uint64_t block_size, uint64_t len)
{
    return count > 0 && (bases > block_size || bases + 1 + len > HSPZ_BLOCK_BASES_LIMIT);
}

/* Which block each sequence goes to, in input order; returns how many there are. */
static size_t
assign_in_order(const uint64_t *lens, size_t count, uint64_t block_size, size_t *block_of)
{
    uint64_t bases = 0;
    size_t block = 0, here = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_closed(bases, here, block_size, lens[i])) {
            block++;
            bases = 0;
            here = 0;
        }
        bases += lens[i] + (here > 0);
        here++;
        block_of[i] = block;
    }
    return count > 0 ? block + 1 : 0;
}

struct sized {
    uint64_t len;
    size_t sequence;
};

static int
longest_first(const void *left, const void *right)
{
    const struct sized *a = left, *b = right;
    if (a->len != b->len) {
        return a->len > b->len ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : 1;
}

/* The same into `blocks` blocks of about the same length. */
static enum hspz_status
assign_balanced(const uint64_t *lens, size_t count, size_t blocks, size_t *block_of,
                struct hspz_error *err)
{
    struct sized *sized = calloc(count + 1, sizeof(*sized));
    uint64_t *bases = calloc(blocks + 1, sizeof(*bases));
    if (sized == NULL || bases == NULL) {
        free(sized);
        free(bases);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the plan");
    }
    for (size_t i = 0; i < count; i++) {
        sized[i] = (struct sized){.len = lens[i], .sequence = i};
    }
    qsort(sized, count, sizeof(*sized), longest_first);
    for (size_t i = 0; i < count; i++) {
        size_t least = 0;
        for (size_t b = 1; b < blocks; b++) {
            least = bases[b] < bases[least] ? b : least;
        }
        block_of[sized[i].sequence] = least;
        bases[least] += sized[i].len + 1;
    }
    free(sized);
    free(bases);
    return HSPZ_OK;
}

/* Blocks from what block each sequence is in. */
static enum hspz_status
lay_out(struct hspz_file_plan *plan, const uint64_t *lens, const size_t *block_of,
        struct hspz_error *err)
{
    for (size_t i = 0; i < plan->sequence_count; i++) {
        plan->blocks[block_of[i]].count++;
    }
    size_t first = 0;
    for (size_t b = 0; b < plan->block_count; b++) {
        plan->blocks[b].first = first;
        first += plan->blocks[b].count;
        plan->blocks[b].count = 0;
    }
    for (size_t i = 0; i < plan->sequence_count; i++) {
        struct hspz_file_plan_block *block = &plan->blocks[block_of[i]];
        const size_t at = block->first + block->count;
        block->bases += block->count > 0;
        plan->order[at] = i;
        plan->offsets[at] = block->bases;
        block->bases += lens[i];
        block->count++;
    }
    uint64_t start = 0;
    for (size_t b = 0; b < plan->block_count; b++) {
        struct hspz_file_plan_block *block = &plan->blocks[b];
        if (block->bases > HSPZ_BLOCK_BASES_LIMIT) {
            return hspz_error_set(err, HSPZ_E_TOO_LARGE,
                                  "block %zu would have %" PRIu64 " bases, and %" PRIu64
                                  " is the most",
                                  b, block->bases, (uint64_t)HSPZ_BLOCK_BASES_LIMIT);
        }
        block->start = start;
        start += block->bases;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_file_plan_queries(struct hspz_file_plan *plan, const uint64_t *lens, size_t count,
                       uint64_t block_size, bool balanced, struct hspz_error *err)
{
    *plan = (struct hspz_file_plan){0};
    size_t *block_of = calloc(count + 1, sizeof(*block_of));
    if (block_of == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the plan");
    }
    const size_t blocks = assign_in_order(lens, count, block_size, block_of);
    enum hspz_status status =
        balanced ? assign_balanced(lens, count, blocks, block_of, err) : HSPZ_OK;
    if (status == HSPZ_OK) {
        status = allocate(plan, count, blocks, err);
    }
    if (status == HSPZ_OK) {
        plan->block_count = blocks;
        status = lay_out(plan, lens, block_of, err);
    }
    free(block_of);
    if (status != HSPZ_OK) {
        hspz_file_plan_fini(plan);
    }
    return status;
}

enum hspz_status
hspz_file_plan_refs(struct hspz_file_plan *plan, const struct hspz_places *refs,
                    struct hspz_error *err)
{
    const size_t blocks = refs->count > 0 ? (size_t)refs->items[refs->count - 1].block + 1 : 0;
    const enum hspz_status status = allocate(plan, refs->count, blocks, err);
    if (status != HSPZ_OK) {
        return status;
    }
    plan->block_count = blocks;
    for (size_t i = 0; i < refs->count; i++) {
        const struct hspz_place *place = &refs->items[i];
        struct hspz_file_plan_block *block = &plan->blocks[place->block];
        block->first = block->count == 0 ? i : block->first;
        block->count++;
        block->bases = place->end;
        plan->order[i] = i;
        plan->offsets[i] = place->begin;
    }
    for (size_t b = 1; b < blocks; b++) {
        plan->blocks[b].start = plan->blocks[b - 1].start + plan->blocks[b - 1].bases;
    }
    return HSPZ_OK;
}

uint64_t
hspz_file_plan_intervals(uint64_t bases, uint32_t span, uint64_t size)
{
    if (bases < span) {
        return 0;
    }
    const uint64_t end = bases - span;
    return end == 0 ? 1 : (end - 1) / size + 1;
}

void
hspz_file_plan_interval(uint64_t bases, uint32_t span, uint64_t size, uint64_t number,
                        uint64_t *begin, uint64_t *end)
{
    const uint64_t last = bases - span;
    *begin = (number - 1) * size;
    *end = last - *begin < size ? last : *begin + size;
}

uint64_t
hspz_file_plan_interval_of(uint64_t bases, uint32_t span, uint64_t size, enum hspz_strand strand,
                           uint64_t query_start)
{
    const uint64_t end = bases - span;
    if (strand == HSPZ_STRAND_MINUS) {
        return query_start >= end ? 1 : (end - query_start - 1) / size + 1;
    }
    const uint64_t count = hspz_file_plan_intervals(bases, span, size);
    return query_start / size < count ? query_start / size + 1 : count;
}

void
hspz_file_plan_segments_name(char name[HSPZ_SEGMENTS_NAME_BYTES], uint64_t interval,
                             size_t query_block, uint64_t ref_start, enum hspz_strand strand)
{
    snprintf(name, HSPZ_SEGMENTS_NAME_BYTES, "tmp%" PRIu64 ".block%zu.r%" PRIu64 ".%s.segments",
             interval, query_block, ref_start, strand == HSPZ_STRAND_PLUS ? "plus" : "minus");
}

/* What one query block is compared with: its intervals against one reference block. */
static void
print_pair(const struct hspz_file_plan *refs, size_t r, const struct hspz_file_plan *queries,
           size_t q, const struct hspz_file_plan_settings *settings, FILE *to)
{
    const uint64_t bases = queries->blocks[q].bases;
    const uint64_t count = hspz_file_plan_intervals(bases, settings->span, settings->interval);
    for (uint64_t n = 1; n <= count; n++) {
        uint64_t begin, end;
        hspz_file_plan_interval(bases, settings->span, settings->interval, n, &begin, &end);
        for (int strand = HSPZ_STRAND_PLUS; strand <= HSPZ_STRAND_MINUS; strand++) {
            char name[HSPZ_SEGMENTS_NAME_BYTES];
            if (((unsigned)settings->strands & 1u << strand) == 0) {
                continue;
            }
            hspz_file_plan_segments_name(name, n, q, refs->blocks[r].start,
                                         (enum hspz_strand)strand);
            const bool minus = strand == HSPZ_STRAND_MINUS;
            const uint64_t last = bases - settings->span;
            fprintf(to,
                    "%zu\t%zu\t%" PRIu64 "\t%zu\t%" PRIu64 "\t%" PRIu64 "\t%c\t%" PRIu64
                    "\t%" PRIu64 "\t%s\n",
                    q, r, refs->blocks[r].bases, q, bases, n, minus ? '-' : '+',
                    minus ? last - end : begin, minus ? last - begin : end, name);
        }
    }
}

void
hspz_file_plan_print(const struct hspz_file_plan *refs, const struct hspz_file_plan *queries,
                     const struct hspz_file_plan_settings *settings, FILE *to)
{
    uint64_t bytes = 0;
    for (size_t q = 0; q < queries->block_count; q++) {
        bytes += queries->blocks[q].bases;
    }
    fprintf(to,
            "# %zu job%s, one for each query block, with %" PRIu64
            " bytes of query sent; %zu reference block%s\n",
            queries->block_count, queries->block_count == 1 ? "" : "s", bytes, refs->block_count,
            refs->block_count == 1 ? "" : "s");
    fprintf(to, "#job\tref_block\tref_bases\tquery_block\tquery_bytes\tinterval\tstrand\tbegin\tend"
                "\tfile\n");
    for (size_t q = 0; q < queries->block_count; q++) {
        for (size_t r = 0; r < refs->block_count; r++) {
            print_pair(refs, r, queries, q, settings, to);
        }
    }
}
