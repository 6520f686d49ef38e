#include "engine/index.h"

#include "engine/index_p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

static uint64_t
add_capped(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t
mul_capped(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

struct hspz_index_windows
hspz_index_windows(const struct hspz_index_params *params, uint64_t bases_len)
{
    const uint64_t span = params->shape.span;
    const uint64_t step = params->step;
    struct hspz_index_windows windows = {0};
    if (bases_len < span) {
        return windows;
    }
    const uint64_t last = bases_len - span;
    const uint64_t back = (span + 1) % step;
    if (params->all_positions) {
        windows.first = (step - back) % step;
        windows.count = windows.first > last ? 0 : (last - windows.first) / step + 1;
    } else {
        windows.first = step - back;
        windows.count = (last + back) / step;
    }
    return windows;
}

void
hspz_index_need(const struct hspz_index_params *params, const uint64_t *block_lens,
                size_t block_count, unsigned threads, struct hspz_index_need *out)
{
    HSPZ_REQUIRE(params->step >= 1);
    const uint64_t words = hspz_shape_words(&params->shape);
    struct hspz_index_need need = {
        .table_bytes = mul_capped(words * sizeof(uint32_t), block_count),
    };
    uint64_t longest = 0;
    for (size_t b = 0; b < block_count; b++) {
        const struct hspz_index_windows windows = hspz_index_windows(params, block_lens[b]);
        need.position_bytes =
            add_capped(need.position_bytes, mul_capped(windows.count, sizeof(uint32_t)));
        need.sequence_bytes = add_capped(need.sequence_bytes, block_lens[b]);
        longest = block_lens[b] > longest ? block_lens[b] : longest;
    }
    need.work_bytes = hspz_index_work_bytes(params, longest, threads);
    need.total_bytes = add_capped(add_capped(need.table_bytes, need.position_bytes),
                                  add_capped(need.sequence_bytes, need.work_bytes));
    *out = need;
}

enum hspz_status
hspz_index_check_budget(const struct hspz_index_need *need, uint64_t budget_bytes, const char *what,
                        struct hspz_error *err)
{
    if (budget_bytes == 0 || need->total_bytes <= budget_bytes) {
        return HSPZ_OK;
    }
    (void)hspz_error_set(err, HSPZ_E_TOO_LARGE,
                         "%s needs %" PRIu64 " bytes (table %" PRIu64 ", positions %" PRIu64
                         ", sequence %" PRIu64 ", work %" PRIu64
                         "), over the memory budget of %" PRIu64 " bytes",
                         what, need->total_bytes, need->table_bytes, need->position_bytes,
                         need->sequence_bytes, need->work_bytes, budget_bytes);
    return hspz_error_limit(err, HSPZ_E_TOO_LARGE, budget_bytes);
}

void *
hspz_index_alloc(uint64_t bytes)
{
    const uint64_t align = bytes >= 2 * HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : HSPZ_INDEX_ALIGN;
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    const uint64_t units = (bytes + align - 1) / align;
    const size_t size = (size_t)((units > 0 ? units : 1) * align);
    void *memory = aligned_alloc((size_t)align, size);
    if (memory != NULL && align == HUGE_PAGE_BYTES) {
        /* Only a hint: without huge pages everything works, slower. */
        (void)madvise(memory, size, MADV_HUGEPAGE);
    }
    return memory;
}

struct hspz_index *
hspz_index_create(const struct hspz_index_params *params, size_t part_count, const char *version)
{
    if (part_count > (SIZE_MAX / 2) / sizeof(struct hspz_index_part)) {
        return NULL;
    }
    struct hspz_index *index =
        calloc(1, sizeof(*index) + part_count * sizeof(struct hspz_index_part));
    if (index == NULL) {
        return NULL;
    }
    atomic_init(&index->users, 1);
    index->params = *params;
    index->part_count = part_count;
    strncpy(index->version, version, sizeof(index->version) - 1);
    return index;
}

struct hspz_index *
hspz_index_acquire(struct hspz_index *index)
{
    atomic_fetch_add_explicit(&index->users, 1, memory_order_relaxed);
    return index;
}

void
hspz_index_release(struct hspz_index **index)
{
    struct hspz_index *mine = *index;
    *index = NULL;
    if (mine == NULL || atomic_fetch_sub_explicit(&mine->users, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t p = 0; p < mine->part_count; p++) {
        free(mine->parts[p].table);
        free(mine->parts[p].pos);
    }
    hspz_sequences_destroy(&mine->seqs);
    free(mine);
}

void
hspz_index_adopt(struct hspz_index *index, struct hspz_sequences **seqs)
{
    HSPZ_REQUIRE(hspz_sequences_block_count(*seqs) == index->part_count);
    for (size_t p = 0; p < index->part_count; p++) {
        const struct hspz_block block = hspz_sequences_block(*seqs, p);
        HSPZ_REQUIRE(block.len == index->parts[p].bases_len);
        index->parts[p].bases = block.bases;
    }
    index->seqs = *seqs;
    *seqs = NULL;
}

uint64_t
hspz_index_name_bytes(const struct hspz_sequences *seqs)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < hspz_sequences_count(seqs); i++) {
        bytes += strlen(hspz_sequences_get(seqs, i)->name);
    }
    return bytes;
}

static void
hash_u64(XXH64_state_t *state, uint64_t value)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    (void)XXH64_update(state, bytes, sizeof(bytes));
}

static void
make_digest(struct hspz_index *index)
{
    XXH64_state_t state;
    (void)XXH64_reset(&state, 0);
    (void)XXH64_update(&state, index->params.shape.pattern, index->params.shape.span);
    hash_u64(&state, index->params.step);
    hash_u64(&state, (index->params.unmask ? HSPZ_INDEX_UNMASK : 0u) |
                         (index->params.all_positions ? HSPZ_INDEX_ALL_POSITIONS : 0u));
    const size_t sequences = hspz_sequences_count(index->seqs);
    hash_u64(&state, sequences);
    for (size_t i = 0; i < sequences; i++) {
        const struct hspz_sequence *sequence = hspz_sequences_get(index->seqs, i);
        const size_t name_len = strlen(sequence->name);
        hash_u64(&state, name_len);
        (void)XXH64_update(&state, sequence->name, name_len);
        hash_u64(&state, sequence->len);
    }
    hash_u64(&state, index->part_count);
    for (size_t p = 0; p < index->part_count; p++) {
        const struct hspz_index_part *part = &index->parts[p];
        hash_u64(&state, part->bases_len);
        hash_u64(&state, part->pos_count);
        hash_u64(&state, part->bases_hash);
        hash_u64(&state, part->table_hash);
        hash_u64(&state, part->pos_hash);
    }
    index->digest = XXH64_digest(&state);
    hspz_index_digest_text(index->digest, index->digest_text);
}

void
hspz_index_digest_text(uint64_t digest, char text[17])
{
    for (unsigned i = 0; i < 16; i++) {
        text[i] = "0123456789abcdef"[digest >> (60 - 4 * i) & 15];
    }
    text[16] = '\0';
}

void
hspz_index_hash(struct hspz_index *index)
{
    const size_t words = hspz_shape_words(&index->params.shape);
    for (size_t p = 0; p < index->part_count; p++) {
        struct hspz_index_part *part = &index->parts[p];
        part->bases_hash = XXH64(part->bases, part->bases == NULL ? 0 : part->bases_len, 0);
        part->table_hash = XXH64(part->table, words * sizeof(uint32_t), 0);
        part->pos_hash = XXH64(part->pos, (size_t)part->pos_count * sizeof(uint32_t), 0);
    }
}

void
hspz_index_seal(struct hspz_index *index)
{
    const uint64_t words = hspz_shape_words(&index->params.shape);
    index->bytes = hspz_index_name_bytes(index->seqs);
    for (size_t p = 0; p < index->part_count; p++) {
        const struct hspz_index_part *part = &index->parts[p];
        index->bytes += (words + part->pos_count) * sizeof(uint32_t);
        index->bytes += part->bases == NULL ? 0 : part->bases_len;
    }
    make_digest(index);
    if (hspz_sequences_count(index->seqs) > 0) {
        hspz_index_digest_text(hspz_sequences_digest(index->seqs), index->sequence_digest);
    }
}

enum hspz_status
hspz_index_check(const struct hspz_index_params *params, const struct hspz_index_part *part,
                 const char *where, struct hspz_error *err)
{
    const uint32_t words = hspz_shape_words(&params->shape);
    const uint32_t *const table = part->table;
    const uint32_t *const pos = part->pos;
    uint32_t begin = 0;
    for (uint32_t w = 0; w < words; w++) {
        const uint32_t end = table[w];
        if (end < begin || end > part->pos_count) {
            return hspz_error_set(err, HSPZ_E_BAD_FILE,
                                  "%s: table entry %" PRIu32 " is %" PRIu32 ", outside %" PRIu32
                                  " to %" PRIu32,
                                  where, w, end, begin, part->pos_count);
        }
        for (uint32_t j = begin; j < end; j++) {
            if ((uint64_t)pos[j] + params->shape.span > part->bases_len) {
                return hspz_error_set(err, HSPZ_E_BAD_FILE,
                                      "%s: position %" PRIu32 " of word %" PRIu32
                                      " lies past the end of its block of %" PRIu32 " bases",
                                      where, pos[j], w, part->bases_len);
            }
            if (j > begin && pos[j] <= pos[j - 1]) {
                return hspz_error_set(err, HSPZ_E_BAD_FILE,
                                      "%s: positions of word %" PRIu32 " do not ascend", where, w);
            }
        }
        begin = end;
    }
    if (begin != part->pos_count) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%s: the table ends at %" PRIu32 ", the positions at %" PRIu32, where,
                              begin, part->pos_count);
    }
    return HSPZ_OK;
}

/* The sequences of a block that exists already, split at its separators and named by number. */
static enum hspz_status
split_block(const uint8_t *bases, uint32_t bases_len, struct hspz_sequences *seqs,
            struct hspz_error *err)
{
    uint64_t number = 1;
    for (uint32_t at = 0; at <= bases_len; number++) {
        const uint8_t *end =
            at == bases_len ? NULL : memchr(bases + at, HSPZ_SEPARATOR, bases_len - at);
        const size_t len = end == NULL ? bases_len - at : (size_t)(end - bases) - at;
        char name[24];
        const int name_len = snprintf(name, sizeof(name), "%" PRIu64, number);
        size_t bad;
        enum hspz_status status = hspz_sequences_begin(seqs, name, (size_t)name_len, 0, err);
        if (status == HSPZ_OK) {
            status = hspz_sequences_append(seqs, bases + at, len, &bad, err);
        }
        if (status == HSPZ_OK) {
            status = hspz_sequences_end(seqs, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        at += (uint32_t)len + 1;
    }
    return HSPZ_OK;
}

static enum hspz_status
copy_tables(struct hspz_index_part *part, uint32_t words, const uint32_t *table,
            const uint32_t *pos, struct hspz_error *err)
{
    const size_t table_bytes = sizeof(uint32_t) * (size_t)words;
    const size_t pos_bytes = sizeof(uint32_t) * (size_t)part->pos_count;
    part->table = hspz_index_alloc(table_bytes);
    part->pos = hspz_index_alloc(pos_bytes);
    if (part->table == NULL || part->pos == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    memcpy(part->table, table, table_bytes);
    if (pos_bytes > 0) {
        memcpy(part->pos, pos, pos_bytes);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_index_from_tables(const struct hspz_index_params *params, const uint8_t *bases,
                       uint32_t bases_len, const uint32_t *table, const uint32_t *pos,
                       uint32_t pos_count, struct hspz_index **out, struct hspz_error *err)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = hspz_index_create(params, 1, HSPZ_VERSION);
    enum hspz_status status = HSPZ_E_OUT_OF_MEMORY;
    if (index == NULL || hspz_sequences_create(HSPZ_BLOCK_BASES_LIMIT, &seqs) != HSPZ_OK) {
        (void)hspz_error_set(err, status, "no memory for an index");
        goto out;
    }
    struct hspz_index_part *part = &index->parts[0];
    part->bases_len = bases_len;
    part->pos_count = pos_count;
    status = copy_tables(part, hspz_shape_words(&params->shape), table, pos, err);
    if (status == HSPZ_OK) {
        status = hspz_index_check(params, part, "given tables", err);
    }
    if (status == HSPZ_OK && bases != NULL) {
        status = split_block(bases, bases_len, seqs, err);
    }
    if (status != HSPZ_OK) {
        goto out;
    }
    if (bases != NULL) {
        hspz_index_adopt(index, &seqs);
    } else {
        index->seqs = seqs;
        seqs = NULL;
    }
    hspz_index_hash(index);
    hspz_index_seal(index);
    *out = index;
    index = NULL;
out:
    hspz_index_release(&index);
    hspz_sequences_destroy(&seqs);
    return status;
}

const struct hspz_index_params *
hspz_index_get_params(const struct hspz_index *index)
{
    return &index->params;
}

size_t
hspz_index_block_count(const struct hspz_index *index)
{
    return index->part_count;
}

struct hspz_index_block
hspz_index_get_block(const struct hspz_index *index, size_t b)
{
    HSPZ_REQUIRE(b < index->part_count);
    const struct hspz_index_part *part = &index->parts[b];
    return (struct hspz_index_block){
        .bases = part->bases,
        .bases_len = part->bases_len,
        .table = part->table,
        .pos = part->pos,
        .pos_count = part->pos_count,
    };
}

const struct hspz_sequences *
hspz_index_sequences(const struct hspz_index *index)
{
    return index->seqs;
}

const char *
hspz_index_digest(const struct hspz_index *index)
{
    return index->digest_text;
}

const char *
hspz_index_sequence_digest(const struct hspz_index *index)
{
    return index->sequence_digest;
}

const char *
hspz_index_version(const struct hspz_index *index)
{
    return index->version;
}

uint64_t
hspz_index_bytes(const struct hspz_index *index)
{
    return index->bytes;
}
