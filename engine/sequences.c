#include "engine/sequences.h"

#include "engine/alphabet.h"
#include "engine/block_rule.h"
#include "engine/shown_path.h"
#include "protocol/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHUNK_BYTES 65536u
#define SHOWN_NAME_BYTES 100
#define SCAN_BYTES 128u /* a count over one scan fits a byte */

struct block {
    uint8_t *bases;
    size_t capacity;
    uint32_t len;
    size_t first, count;
};

/* Names lie end to end in chunks that never move. */
struct name_chunk {
    struct name_chunk *next;
    size_t used, capacity;
    char bytes[];
};

struct hspz_sequences {
    uint64_t block_size, limit;
    struct hspz_sequence *items;
    size_t count, capacity;
    struct block *blocks;
    size_t block_count, block_capacity;
    struct name_chunk *names; /* newest first */
    uint64_t bases, masked;
    /* While a sequence is open it stands at items[count], its bases at the end of the last block.
     */
    bool open;
    uint64_t open_masked;
    uint32_t len_before; /* of the last block, without the open sequence and its separator */
};

enum hspz_status
hspz_sequences_create(uint64_t block_size, struct hspz_sequences **out)
{
    return hspz_sequences_create_limited(block_size, HSPZ_BLOCK_BASES_LIMIT, out);
}

enum hspz_status
hspz_sequences_create_limited(uint64_t block_size, uint32_t limit, struct hspz_sequences **out)
{
    struct hspz_sequences *seqs = calloc(1, sizeof(*seqs));
    if (seqs == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    seqs->limit = limit;
    seqs->block_size = hspz_block_rule_size(block_size, HSPZ_BLOCK_BASES_DEFAULT, limit);
    *out = seqs;
    return HSPZ_OK;
}

void
hspz_sequences_destroy(struct hspz_sequences **seqs)
{
    struct hspz_sequences *s = *seqs;
    if (s == NULL) {
        return;
    }
    for (size_t b = 0; b < s->block_count; b++) {
        free(s->blocks[b].bases);
    }
    while (s->names != NULL) {
        struct name_chunk *next = s->names->next;
        free(s->names);
        s->names = next;
    }
    free(s->blocks);
    free(s->items);
    free(s);
    *seqs = NULL;
}

static enum hspz_status
out_of_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory while reading sequences");
}

/* Room for one more item in an array that grows by half. */
static bool
reserve_one(void **items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return true;
    }
    const size_t wanted = *capacity + *capacity / 2 + 8;
    void *grown = wanted > SIZE_MAX / item_bytes ? NULL : realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

static bool
reserve_bases(struct block *block, uint64_t len, uint64_t limit)
{
    if (len <= block->capacity) {
        return true;
    }
    uint64_t wanted = block->capacity + block->capacity / 2;
    wanted = wanted < limit ? wanted : limit;
    wanted = wanted > len ? wanted : len;
    uint8_t *grown = realloc(block->bases, (size_t)wanted);
    if (grown == NULL) {
        return false;
    }
    block->bases = grown;
    block->capacity = (size_t)wanted;
    return true;
}

static bool
reserve_name(struct hspz_sequences *seqs, size_t bytes)
{
    const struct name_chunk *last = seqs->names;
    if (last != NULL && last->capacity - last->used >= bytes) {
        return true;
    }
    const size_t capacity = bytes > NAME_CHUNK_BYTES ? bytes : NAME_CHUNK_BYTES;
    struct name_chunk *chunk = malloc(sizeof(*chunk) + capacity);
    if (chunk == NULL) {
        return false;
    }
    chunk->next = seqs->names;
    chunk->used = 0;
    chunk->capacity = capacity;
    seqs->names = chunk;
    return true;
}

static const char *
store_name(struct name_chunk *chunk, const char *name, size_t len)
{
    char *stored = chunk->bytes + chunk->used;
    memcpy(stored, name, len);
    stored[len] = '\0';
    chunk->used += len + 1;
    return stored;
}

/* Gives the spare memory of a closed block back. */
static void
trim_block(struct block *block)
{
    uint8_t *trimmed = realloc(block->bases, block->len > 0 ? block->len : 1);
    if (trimmed != NULL) {
        block->bases = trimmed;
        block->capacity = block->len;
    }
}

/* Adds an empty block with room for `room` bases. */
static bool
open_block(struct hspz_sequences *seqs, uint64_t room)
{
    void *blocks = seqs->blocks;
    const bool reserved =
        reserve_one(&blocks, seqs->block_count, &seqs->block_capacity, sizeof(*seqs->blocks));
    seqs->blocks = blocks;
    struct block block = {.first = seqs->count};
    if (!reserved || !reserve_bases(&block, room > 64 ? room : 64, seqs->limit)) {
        return false;
    }
    seqs->blocks[seqs->block_count++] = block;
    return true;
}

static enum hspz_status
check_name(const char *name, size_t len, struct hspz_error *err)
{
    if (len == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a sequence has no name");
    }
    if (len > HSPZ_SEQUENCE_NAME_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "a name of more than %u bytes, which is the limit: '%.*s...'",
                              HSPZ_SEQUENCE_NAME_LIMIT, SHOWN_NAME_BYTES, name);
    }
    for (size_t i = 0; i < len; i++) {
        const char c = name[i];
        if (c == '\0' || c == '\t' || c == '\n' || c == '\r' || c == ' ') {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "byte 0x%02x in a name, at its byte %zu: '%.*s...'", (unsigned)c,
                                  i + 1, (int)(i < SHOWN_NAME_BYTES ? i : SHOWN_NAME_BYTES), name);
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_sequences_begin(struct hspz_sequences *seqs, const char *name, size_t name_len, uint64_t line,
                     struct hspz_error *err)
{
    HSPZ_REQUIRE(!seqs->open);
    const enum hspz_status status = check_name(name, name_len, err);
    if (status != HSPZ_OK) {
        return status;
    }
    void *items = seqs->items;
    const bool reserved = reserve_one(&items, seqs->count, &seqs->capacity, sizeof(*seqs->items));
    seqs->items = items;
    if (!reserved || !reserve_name(seqs, name_len + 1)) {
        return out_of_memory(err);
    }
    struct block *last = seqs->block_count > 0 ? &seqs->blocks[seqs->block_count - 1] : NULL;
    if (last == NULL ||
        !hspz_block_rule_takes(last->len, last->count, seqs->block_size, seqs->limit, 0)) {
        if (seqs->block_count >= UINT32_MAX) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "more than %" PRIu32 " blocks",
                                  UINT32_MAX);
        }
        if (!open_block(seqs, 0)) {
            return out_of_memory(err);
        }
        if (seqs->block_count > 1) {
            trim_block(&seqs->blocks[seqs->block_count - 2]);
        }
        last = &seqs->blocks[seqs->block_count - 1];
    }
    if (!reserve_bases(last, (uint64_t)last->len + 1, seqs->limit)) {
        return out_of_memory(err);
    }
    seqs->len_before = last->len;
    if (last->count > 0) {
        last->bases[last->len++] = HSPZ_SEPARATOR;
    }
    seqs->items[seqs->count] = (struct hspz_sequence){
        .name = store_name(seqs->names, name, name_len),
        .block = (uint32_t)(seqs->block_count - 1),
        .offset = last->len,
        .line = line,
    };
    seqs->open = true;
    seqs->open_masked = 0;
    return HSPZ_OK;
}

/* True when all bytes may stand in a sequence; *masked counts the lower case. */
static bool
scan_bases(const uint8_t *bases, size_t len, uint64_t *masked)
{
    uint64_t count = 0;
    unsigned bad = 0;
    for (size_t at = 0; at < len; at += SCAN_BYTES) {
        const size_t end = len - at < SCAN_BYTES ? len : at + SCAN_BYTES;
        uint8_t lower = 0;
        uint8_t other = 0;
        for (size_t i = at; i < end; i++) {
            const uint8_t c = bases[i];
            const uint8_t letter = (uint8_t)((c | 0x20) - 'a') < 26;
            lower = (uint8_t)(lower + ((uint8_t)(c - 'a') < 26));
            other |= (uint8_t) !(letter | (c == '*') | (c == '-') | (c == '.'));
        }
        count += lower;
        bad |= other;
    }
    *masked = count;
    return bad == 0;
}

/* Takes the open sequence, too long for its block, into one of its own. */
static bool
move_to_new_block(struct hspz_sequences *seqs, uint64_t room)
{
    struct hspz_sequence *item = &seqs->items[seqs->count];
    if (!open_block(seqs, room)) {
        return false;
    }
    struct block *from = &seqs->blocks[seqs->block_count - 2];
    struct block *to = &seqs->blocks[seqs->block_count - 1];
    memcpy(to->bases, from->bases + item->offset, (size_t)item->len);
    to->len = (uint32_t)item->len;
    from->len = seqs->len_before;
    trim_block(from);
    seqs->len_before = 0;
    item->block++;
    item->offset = 0;
    return true;
}

enum hspz_status
hspz_sequences_append(struct hspz_sequences *seqs, const uint8_t *bases, size_t len, size_t *bad,
                      struct hspz_error *err)
{
    HSPZ_REQUIRE(seqs->open);
    uint64_t masked = 0;
    if (!scan_bases(bases, len, &masked)) {
        size_t at = 0;
        while (hspz_base_allowed(bases[at])) {
            at++;
        }
        *bad = at;
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "byte 0x%02x is no base", bases[at]);
    }
    struct hspz_sequence *item = &seqs->items[seqs->count];
    struct block *last = &seqs->blocks[seqs->block_count - 1];
    if (len > seqs->limit - item->len) {
        *bad = len;
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "sequence '%.*s' has more than %" PRIu64
                              " bases, the most a block holds",
                              SHOWN_NAME_BYTES, item->name, seqs->limit);
    }
    const uint64_t total = item->len + len;
    if (!hspz_block_rule_takes(seqs->len_before, last->count, seqs->block_size, seqs->limit,
                               total)) {
        if (seqs->block_count >= UINT32_MAX || !move_to_new_block(seqs, total)) {
            *bad = len;
            return out_of_memory(err);
        }
        last = &seqs->blocks[seqs->block_count - 1];
    }
    if (!reserve_bases(last, (uint64_t)last->len + len, seqs->limit)) {
        *bad = len;
        return out_of_memory(err);
    }
    if (len > 0) {
        memcpy(last->bases + last->len, bases, len);
    }
    last->len += (uint32_t)len;
    item->len = total;
    seqs->open_masked += masked;
    return HSPZ_OK;
}

enum hspz_status
hspz_sequences_end(struct hspz_sequences *seqs, struct hspz_error *err)
{
    (void)err;
    HSPZ_REQUIRE(seqs->open);
    seqs->open = false;
    seqs->bases += seqs->items[seqs->count].len;
    seqs->masked += seqs->open_masked;
    seqs->blocks[seqs->block_count - 1].count++;
    seqs->count++;
    return HSPZ_OK;
}

size_t
hspz_sequences_count(const struct hspz_sequences *seqs)
{
    return seqs->count;
}

size_t
hspz_sequences_block_count(const struct hspz_sequences *seqs)
{
    return seqs->block_count;
}

const struct hspz_sequence *
hspz_sequences_get(const struct hspz_sequences *seqs, size_t i)
{
    HSPZ_REQUIRE(i < seqs->count);
    return &seqs->items[i];
}

struct hspz_block
hspz_sequences_block(const struct hspz_sequences *seqs, size_t b)
{
    HSPZ_REQUIRE(b < seqs->block_count);
    const struct block *block = &seqs->blocks[b];
    return (struct hspz_block){
        .bases = block->bases,
        .len = block->len,
        .first_sequence = block->first,
        .sequence_count = block->count,
    };
}

uint64_t
hspz_sequences_bases(const struct hspz_sequences *seqs)
{
    return seqs->bases;
}

uint64_t
hspz_sequences_masked(const struct hspz_sequences *seqs)
{
    return seqs->masked;
}

const struct hspz_sequence *
hspz_sequences_locate(const struct hspz_sequences *seqs, size_t block, uint32_t offset)
{
    HSPZ_REQUIRE(block < seqs->block_count && offset <= seqs->blocks[block].len);
    const struct block *in = &seqs->blocks[block];
    HSPZ_REQUIRE(in->count > 0);
    /* The last sequence that starts at or before `offset`; the first one starts at 0. */
    size_t low = in->first;
    size_t high = in->first + in->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (seqs->items[middle].offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &seqs->items[low];
}

static int
compare_names(const void *a, const void *b)
{
    const struct hspz_sequence *x = *(const struct hspz_sequence *const *)a;
    const struct hspz_sequence *y = *(const struct hspz_sequence *const *)b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x > y) - (x < y);
}

enum hspz_status
hspz_sequences_check_unique(const struct hspz_sequences *seqs, const char *path,
                            struct hspz_error *err)
{
    if (seqs->count < 2) {
        return HSPZ_OK;
    }
    const struct hspz_sequence **sorted = malloc(seqs->count * sizeof(const void *));
    if (sorted == NULL) {
        return out_of_memory(err);
    }
    for (size_t i = 0; i < seqs->count; i++) {
        sorted[i] = &seqs->items[i];
    }
    qsort(sorted, seqs->count, sizeof(const void *), compare_names);
    const struct hspz_sequence *first = NULL;
    const struct hspz_sequence *second = NULL; /* the earliest that repeats a name */
    for (size_t i = 1; i < seqs->count; i++) {
        if ((second == NULL || sorted[i] < second) &&
            strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            first = sorted[i - 1];
            second = sorted[i];
        }
    }
    free(sorted);
    if (second == NULL) {
        return HSPZ_OK;
    }
    const struct hspz_shown_path shown = hspz_shown_path_make(path);
    const bool lines = second->line != 0;
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "%s: %s %" PRIu64 " and %" PRIu64 " have the same name '%.*s'",
                          shown.text, lines ? "lines" : "records",
                          lines ? first->line : (uint64_t)(first - seqs->items) + 1,
                          lines ? second->line : (uint64_t)(second - seqs->items) + 1,
                          SHOWN_NAME_BYTES, second->name);
}
