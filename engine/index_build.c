/* Building: two passes over each block.
 *
 *   count      how often each word is indexed
 *   sum        the table becomes exclusive prefix sums
 *   scatter    positions are written in ascending order; a table entry is the cursor of its bucket,
 *              and so ends as the inclusive sum
 *
 * One thread does that straight on. With several, the table is divided into as many ranges of
 * words, each with one owner, and a pass goes in rounds of two steps: each thread scans a chunk of
 * its own and sorts what it finds by owner; then each owner takes its entries, chunk by chunk. So
 * an owner meets its words in ascending order of position, and the result is the same for any
 * number of threads. Owners are chosen anew before scattering, so that all have about as many
 * positions; one giant bucket has one owner. */
#include "engine/index.h"

#include "engine/cpu/pool.h"
#include "engine/index_p.h"
#include "engine/index_scan_p.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 256u /* an owner is one byte */
#define CELLS 4096u      /* a cell of words has one owner */
#define CHUNK_ALONE (UINT64_C(1) << 20)
#define CHUNK_MIN (UINT64_C(1) << 10)
#define CHUNK_MAX (UINT64_C(1) << 17)
#define ENTRY_BYTES (2 * sizeof(uint64_t)) /* as found, and sorted */
#define WORK_BYTES_PER_THREAD (UINT64_C(64) << 10)

/* Entry: word << 32 | start. */
struct piece {
    uint64_t *found, *sorted;             /* of the chunk that this piece scans */
    uint32_t owned_from[THREADS_MAX + 1]; /* where each owner's entries begin in `sorted` */
    uint32_t word_begin, word_end;        /* the range that this piece owns */
    uint64_t count;                       /* indexed words in it */
    uint64_t sum_before;                  /* in the ranges before it */
};

struct progress {
    hspz_progress_fn fn;
    void *user;
    uint64_t done, total; /* bases, both passes */
};

struct build {
    const struct hspz_index_params *params;
    struct hspz_pool *pool;
    unsigned pieces;
    uint64_t chunk; /* windows that a piece scans in a round */
    struct piece *piece;
    uint64_t *entries;
    struct progress progress;

    const struct hspz_index_part *part;
    struct hspz_index_windows windows;
    bool scatter;         /* the second pass */
    uint64_t round_begin; /* window */
    uint32_t cells, cell_shift;
    uint8_t owner_of[CELLS];
};

static unsigned
piece_count(unsigned threads)
{
    const unsigned count = threads == 0 ? hspz_pool_processors() : threads;
    return count < THREADS_MAX ? count : THREADS_MAX;
}

/* So that all chunks together stay near a tenth of what is built. */
static uint64_t
chunk_windows(const struct hspz_index_params *params, uint64_t longest_block, unsigned pieces)
{
    if (pieces == 1) {
        return CHUNK_ALONE;
    }
    const uint64_t entries =
        hspz_shape_words(&params->shape) + hspz_index_windows(params, longest_block).count;
    const uint64_t chunk = entries * sizeof(uint32_t) / 10 / ENTRY_BYTES / pieces;
    return chunk < CHUNK_MIN ? CHUNK_MIN : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
}

uint64_t
hspz_index_work_bytes(const struct hspz_index_params *params, uint64_t longest_block,
                      unsigned threads)
{
    const unsigned pieces = piece_count(threads);
    const uint64_t entries = pieces == 1 ? 0 : chunk_windows(params, longest_block, pieces);
    return pieces * (entries * ENTRY_BYTES + WORK_BYTES_PER_THREAD);
}

static void
take_batch(const struct hspz_index_part *part, bool scatter, struct hspz_index_batch *batch)
{
    uint32_t *const table = part->table;
    uint32_t *const pos = part->pos;
    for (size_t i = 0; i < batch->count; i++) {
        __builtin_prefetch(&table[batch->words[i]], 1);
    }
    if (!scatter) {
        for (size_t i = 0; i < batch->count; i++) {
            table[batch->words[i]]++;
        }
        return;
    }
    for (size_t i = 0; i < batch->count; i++) {
        const uint32_t slot = table[batch->words[i]]++;
        batch->words[i] = slot;
        __builtin_prefetch(&pos[slot], 1);
    }
    for (size_t i = 0; i < batch->count; i++) {
        pos[batch->words[i]] = batch->starts[i];
    }
}

/* The windows of this round that belong to chunk `p`. */
static struct hspz_index_scan
scan_chunk(const struct build *build, size_t p)
{
    const uint64_t begin = build->round_begin + p * build->chunk;
    const uint64_t left = begin < build->windows.count ? build->windows.count - begin : 0;
    return hspz_index_scan_start(build->params, build->part->bases,
                                 build->windows.first + begin * build->params->step,
                                 left < build->chunk ? left : build->chunk);
}

static void
scan_alone(void *user, size_t p)
{
    struct build *build = user;
    struct hspz_index_scan scan = scan_chunk(build, p);
    struct hspz_index_batch batch;
    while (hspz_index_scan_next(&scan, &batch)) {
        build->piece[p].count += batch.count;
        take_batch(build->part, build->scatter, &batch);
    }
}

static void
sort_chunk(void *user, size_t p)
{
    struct build *build = user;
    struct piece *piece = &build->piece[p];
    const uint8_t *const owner_of = build->owner_of;
    const uint32_t shift = build->cell_shift;
    uint32_t counts[THREADS_MAX] = {0};
    struct hspz_index_scan scan = scan_chunk(build, p);
    struct hspz_index_batch batch;
    size_t found = 0;
    while (hspz_index_scan_next(&scan, &batch)) {
        for (size_t i = 0; i < batch.count; i++) {
            counts[owner_of[batch.words[i] >> shift]]++;
            piece->found[found++] = (uint64_t)batch.words[i] << 32 | batch.starts[i];
        }
    }
    uint32_t next[THREADS_MAX];
    uint32_t sum = 0;
    for (unsigned owner = 0; owner < build->pieces; owner++) {
        piece->owned_from[owner] = next[owner] = sum;
        sum += counts[owner];
    }
    piece->owned_from[build->pieces] = sum;
    for (size_t i = 0; i < found; i++) {
        const uint64_t entry = piece->found[i];
        piece->sorted[next[owner_of[entry >> 32 >> shift]]++] = entry;
    }
}

static void
take_entries(void *user, size_t owner)
{
    struct build *build = user;
    struct hspz_index_batch batch;
    for (unsigned p = 0; p < build->pieces; p++) {
        const struct piece *from = &build->piece[p];
        const uint32_t end = from->owned_from[owner + 1];
        for (uint32_t at = from->owned_from[owner]; at < end;) {
            batch.count = end - at < HSPZ_INDEX_BATCH ? end - at : HSPZ_INDEX_BATCH;
            for (size_t i = 0; i < batch.count; i++, at++) {
                batch.words[i] = (uint32_t)(from->sorted[at] >> 32);
                batch.starts[i] = (uint32_t)from->sorted[at];
            }
            build->piece[owner].count += batch.count;
            take_batch(build->part, build->scatter, &batch);
        }
    }
}

static void
clear_range(void *user, size_t p)
{
    const struct build *build = user;
    const struct piece *piece = &build->piece[p];
    memset(build->part->table + piece->word_begin, 0,
           sizeof(uint32_t) * (size_t)(piece->word_end - piece->word_begin));
}

static void
sum_range(void *user, size_t p)
{
    const struct build *build = user;
    const struct piece *piece = &build->piece[p];
    uint32_t *const table = build->part->table;
    uint32_t sum = (uint32_t)piece->sum_before;
    for (uint32_t w = piece->word_begin; w < piece->word_end; w++) {
        const uint32_t count = table[w];
        table[w] = sum;
        sum += count;
    }
}

/* Cells go to owners in order; `positions` 0 shares them by number, else by the exclusive sums in
 * the table. */
static void
share_cells(struct build *build, uint64_t positions)
{
    unsigned owner = 0;
    build->piece[0].word_begin = 0;
    for (uint32_t cell = 0; cell < build->cells; cell++) {
        const uint32_t word = cell << build->cell_shift;
        const uint64_t share = positions == 0
                                   ? (uint64_t)cell * build->pieces / build->cells
                                   : build->part->table[word] * (uint64_t)build->pieces / positions;
        for (; owner < share && owner + 1 < build->pieces; owner++) {
            build->piece[owner].word_end = word;
            build->piece[owner + 1].word_begin = word;
        }
        build->owner_of[cell] = (uint8_t)owner;
    }
    for (; owner < build->pieces; owner++) {
        build->piece[owner].word_end = hspz_shape_words(&build->params->shape);
        if (owner + 1 < build->pieces) {
            build->piece[owner + 1].word_begin = build->piece[owner].word_end;
        }
    }
}

/* Scans the block once; HSPZ_E_STOPPED when the caller has had enough. */
static enum hspz_status
run_pass(struct build *build, bool scatter, struct hspz_error *err)
{
    struct progress *progress = &build->progress;
    const uint64_t round = build->chunk * build->pieces;
    build->scatter = scatter;
    for (unsigned p = 0; p < build->pieces; p++) {
        build->piece[p].count = 0;
    }
    for (uint64_t begin = 0; begin < build->windows.count; begin += round) {
        build->round_begin = begin;
        if (build->pieces == 1) {
            scan_alone(build, 0);
        } else {
            hspz_pool_run(build->pool, sort_chunk, build, build->pieces);
            hspz_pool_run(build->pool, take_entries, build, build->pieces);
        }
        const uint64_t left = build->windows.count - begin;
        const uint64_t scanned =
            left > round ? (begin + round) * build->params->step : build->part->bases_len;
        if (progress->fn != NULL &&
            !progress->fn(progress->user, progress->done + scanned, progress->total)) {
            return hspz_error_set(err, HSPZ_E_STOPPED, "the index build was stopped");
        }
    }
    progress->done += build->part->bases_len;
    return HSPZ_OK;
}

static enum hspz_status
build_part(struct build *build, struct hspz_index_part *part, struct hspz_error *err)
{
    const uint64_t words = hspz_shape_words(&build->params->shape);
    part->table = hspz_index_alloc(words * sizeof(uint32_t));
    if (part->table == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index table");
    }
    build->part = part;
    build->windows = hspz_index_windows(build->params, part->bases_len);
    share_cells(build, 0);
    hspz_pool_run(build->pool, clear_range, build, build->pieces);
    const enum hspz_status status = run_pass(build, false, err);
    if (status != HSPZ_OK) {
        return status;
    }

    uint64_t positions = 0;
    for (unsigned p = 0; p < build->pieces; p++) {
        build->piece[p].sum_before = positions;
        positions += build->piece[p].count;
    }
    part->pos = hspz_index_alloc(positions * sizeof(uint32_t));
    if (part->pos == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for index positions");
    }
    part->pos_count = (uint32_t)positions;
    hspz_pool_run(build->pool, sum_range, build, build->pieces);
    share_cells(build, positions);
    return run_pass(build, true, err);
}

enum hspz_status
hspz_index_build_need(const struct hspz_sequences *seqs, const struct hspz_index_params *params,
                      unsigned threads, struct hspz_index_need *out, struct hspz_error *err)
{
    const size_t block_count = hspz_sequences_block_count(seqs);
    uint64_t *lens = calloc(block_count > 0 ? block_count : 1, sizeof(*lens));
    if (lens == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    for (size_t b = 0; b < block_count; b++) {
        lens[b] = hspz_sequences_block(seqs, b).len;
    }
    hspz_index_need(params, lens, block_count, threads, out);
    free(lens);
    const uint64_t name_bytes = hspz_index_name_bytes(seqs);
    out->sequence_bytes += name_bytes;
    out->total_bytes += name_bytes;
    return HSPZ_OK;
}

enum hspz_status
hspz_index_check_build(const struct hspz_sequences *seqs, const struct hspz_index_params *params,
                       unsigned threads, uint64_t budget_bytes, struct hspz_error *err)
{
    if (params->step == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "an index step is 1 or more");
    }
    if (hspz_sequences_block_count(seqs) == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "an index needs at least one sequence");
    }
    struct hspz_index_need need;
    const enum hspz_status status = hspz_index_build_need(seqs, params, threads, &need, err);
    return status == HSPZ_OK
               ? hspz_index_check_budget(&need, budget_bytes, "an index of this reference", err)
               : status;
}

static void
build_fini(struct build *build)
{
    hspz_pool_destroy(&build->pool);
    free(build->entries);
    free(build->piece);
}

/* Threads and their chunks; on failure nothing is left. */
static enum hspz_status
build_init(struct build *build, const struct hspz_sequences *seqs,
           const struct hspz_index_params *params, unsigned threads)
{
    uint64_t longest = 0;
    *build = (struct build){.params = params, .pieces = piece_count(threads)};
    for (size_t b = 0; b < hspz_sequences_block_count(seqs); b++) {
        const uint64_t len = hspz_sequences_block(seqs, b).len;
        longest = len > longest ? len : longest;
        build->progress.total += 2 * len;
    }
    const uint32_t words = hspz_shape_words(&params->shape);
    while (words >> build->cell_shift > CELLS) {
        build->cell_shift++;
    }
    build->cells = words >> build->cell_shift;
    build->chunk = chunk_windows(params, longest, build->pieces);
    build->piece = calloc(build->pieces, sizeof(*build->piece));
    if (build->pieces > 1) {
        build->entries = hspz_index_alloc(build->pieces * build->chunk * ENTRY_BYTES);
    }
    if (build->piece == NULL || (build->pieces > 1 && build->entries == NULL) ||
        hspz_pool_create(build->pieces, &build->pool) != HSPZ_OK) {
        build_fini(build);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    for (unsigned p = 0; p < build->pieces && build->pieces > 1; p++) {
        build->piece[p].found = build->entries + 2 * p * build->chunk;
        build->piece[p].sorted = build->piece[p].found + build->chunk;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_index_build(struct hspz_sequences **seqs, const struct hspz_index_params *params,
                 unsigned threads, uint64_t budget_bytes, hspz_progress_fn progress, void *user,
                 struct hspz_index **out, struct hspz_error *err)
{
    enum hspz_status status = hspz_index_check_build(*seqs, params, threads, budget_bytes, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct build build;
    status = build_init(&build, *seqs, params, threads);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "no memory to build an index");
    }
    build.progress.fn = progress;
    build.progress.user = user;
    const size_t part_count = hspz_sequences_block_count(*seqs);
    struct hspz_index *index = hspz_index_create(params, part_count, HSPZ_VERSION);
    if (index == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    for (size_t p = 0; p < part_count && status == HSPZ_OK; p++) {
        const struct hspz_block block = hspz_sequences_block(*seqs, p);
        index->parts[p].bases = block.bases;
        index->parts[p].bases_len = block.len;
        status = build_part(&build, &index->parts[p], err);
    }
    build_fini(&build);
    if (status == HSPZ_OK) {
        hspz_index_adopt(index, seqs);
        hspz_index_hash(index);
        hspz_index_seal(index);
        *out = index;
        index = NULL;
    }
    hspz_index_release(&index);
    return status;
}
