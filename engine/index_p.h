/* What index.c and the files that build, write and read an index share; nobody else includes this.
 *
 * Index file, format 1. Numbers are little-endian. A header of 192 bytes, then the section table,
 * then the sections, each at the next multiple of 64; the bytes between are zero. The first 72
 * bytes mean the same in every format version.
 *
 *     0  magic, 8 bytes                       72  step, u32
 *     8  endian mark, u32 0x01020304          76  flags, u32: 1 unmask, 2 all positions
 *    12  format version, u32                  80  blocks, u32
 *    16  header bytes with section table, u32 84  pattern length, u32
 *    20  sections, u32                        88  pattern, 64 bytes, zero filled
 *    24  file bytes, u64                     152  sequences, u64
 *    32  XXH64 of the header, this zeroed    160  bytes of all names, u64
 *    40  hspz version, 32 bytes, zero filled 168  digest, u64; then zero
 *
 * Section table: 32 bytes each: kind u32, block u32, offset u64, bytes u64, XXH64 of the bytes. The
 * order is fixed: names, blocks, then bases, table and positions of each block.
 *
 * names      32 bytes per sequence: bases u64, line u64, block u32, offset u32, name bytes u32, 0
 * u32; then the names, one after the other blocks     32 bytes per block: bases u64, positions u64,
 * first sequence u64, sequences u64 */
#pragma once

#include "engine/index.h"

#include <stdatomic.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tables are written as they lie");

#define HSPZ_INDEX_MAGIC "HSPZIDX\x1a"
#define HSPZ_INDEX_ENDIAN UINT32_C(0x01020304)
#define HSPZ_INDEX_ENDIAN_FOREIGN UINT32_C(0x04030201)
#define HSPZ_INDEX_FORMAT 1u
#define HSPZ_INDEX_HEADER_BYTES 192u
#define HSPZ_INDEX_SECTIONS_MAX 1000000u
#define HSPZ_INDEX_ROW_BYTES 32u /* of every table in the file */
#define HSPZ_INDEX_ALIGN 64u
#define HSPZ_INDEX_VERSION_BYTES 32u

enum hspz_index_header_at {
    HSPZ_INDEX_AT_ENDIAN = 8,
    HSPZ_INDEX_AT_FORMAT = 12,
    HSPZ_INDEX_AT_HEADER_BYTES = 16,
    HSPZ_INDEX_AT_SECTIONS = 20,
    HSPZ_INDEX_AT_FILE_BYTES = 24,
    HSPZ_INDEX_AT_HASH = 32,
    HSPZ_INDEX_AT_VERSION = 40,
    HSPZ_INDEX_AT_STEP = 72,
    HSPZ_INDEX_AT_FLAGS = 76,
    HSPZ_INDEX_AT_BLOCKS = 80,
    HSPZ_INDEX_AT_PATTERN_LEN = 84,
    HSPZ_INDEX_AT_PATTERN = 88,
    HSPZ_INDEX_AT_SEQUENCES = 152,
    HSPZ_INDEX_AT_NAME_BYTES = 160,
    HSPZ_INDEX_AT_DIGEST = 168,
    HSPZ_INDEX_AT_ZERO = 176,
};

enum hspz_index_flag { HSPZ_INDEX_UNMASK = 1, HSPZ_INDEX_ALL_POSITIONS = 2 };

enum hspz_index_section {
    HSPZ_INDEX_NAMES = 1,
    HSPZ_INDEX_BLOCKS,
    HSPZ_INDEX_BASES,
    HSPZ_INDEX_TABLE,
    HSPZ_INDEX_POSITIONS,
};
#define HSPZ_INDEX_SECTIONS_FIXED 2u
#define HSPZ_INDEX_SECTIONS_PER_BLOCK 3u

struct hspz_index_part {
    const uint8_t *bases; /* belongs to the sequences; NULL: only the length is known */
    uint32_t bases_len;
    uint32_t pos_count;
    uint32_t *table;
    uint32_t *pos; /* never NULL in a finished index */
    uint64_t bases_hash, table_hash, pos_hash;
    _Atomic(uint64_t) word_limit; /* share << 32 | limit, of engine/word_limit.h; 0: unknown */
};

struct hspz_index {
    atomic_uint users;
    struct hspz_index_params params;
    struct hspz_sequences *seqs;
    uint64_t bytes;
    uint64_t digest;
    char digest_text[17];
    char sequence_digest[17];
    char version[HSPZ_INDEX_VERSION_BYTES + 1];
    size_t part_count;
    struct hspz_index_part parts[];
};

/* The window starts to index in a block: first, first + step, ... */
struct hspz_index_windows {
    uint64_t first, count;
};
struct hspz_index_windows hspz_index_windows(const struct hspz_index_params *params,
                                             uint64_t bases_len);

/* Without tables and sequences yet; hspz_index_release ends it at any time. NULL: out of memory. */
struct hspz_index *hspz_index_create(const struct hspz_index_params *params, size_t part_count,
                                     const char *version);

/* Memory for tables, not zeroed, on huge pages where it is large; free() gives it back. */
void *hspz_index_alloc(uint64_t bytes);

/* Takes the sequences over and gives every part its bases; block count and lengths must agree. */
void hspz_index_adopt(struct hspz_index *index, struct hspz_sequences **seqs);

/* Hashes bases, table and positions of every part. */
void hspz_index_hash(struct hspz_index *index);

/* Computes digests and size, once everything else is there. */
void hspz_index_seal(struct hspz_index *index);

/* 16 hex digits and a NUL. */
void hspz_index_digest_text(uint64_t digest, char text[17]);

/* Whether no table entry or position leads out of range; else HSPZ_E_BAD_FILE with the reason
 * behind `where`. */
HSPZ_MUST_USE enum hspz_status hspz_index_check(const struct hspz_index_params *params,
                                                const struct hspz_index_part *part,
                                                const char *where, struct hspz_error *err);

HSPZ_MUST_USE enum hspz_status hspz_index_check_budget(const struct hspz_index_need *need,
                                                       uint64_t budget_bytes, const char *what,
                                                       struct hspz_error *err);

/* Whether a build may begin: parameters, sequences, host memory. */
HSPZ_MUST_USE enum hspz_status hspz_index_check_build(const struct hspz_sequences *seqs,
                                                      const struct hspz_index_params *params,
                                                      unsigned threads, uint64_t budget_bytes,
                                                      struct hspz_error *err);

/* What a build takes beside tables and sequence, with blocks of up to `longest_block` bases. */
uint64_t hspz_index_work_bytes(const struct hspz_index_params *params, uint64_t longest_block,
                               unsigned threads);

uint64_t hspz_index_name_bytes(const struct hspz_sequences *seqs);
