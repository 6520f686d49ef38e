/* Reference seed index, host side: for each block of a reference and one shape, the table of words
 * and the window positions, with the sequence itself.
 *
 *   table[w]  number of indexed words <= w; 4^weight entries; bucket w is table[w-1] .. table[w]
 *   pos[]     window starts in the block, grouped by word, ascending inside a bucket
 *
 * Indexed positions, for span s, step z, block length L: o = (s + 1) mod z, first = z - o, count =
 * (L - s + o) / z (KegAlign's rule: at step 1 position 0 is never indexed, the last is L - s);
 * with `all_positions` from (z - o) mod z to L - s (LASTZ's rule).
 *
 * Owns:    tables, sequence, names. Built or read whole into memory of its own, so that a file
 *          changed underneath harms nothing.
 * Threads: immutable once made; share freely (hspz_index_acquire counts).
 * File:    layout in engine/index_p.h; little-endian, versioned, checksummed per section.
 * Errors:  HSPZ_E_BAD_FILE (names the file and the reason), HSPZ_E_IO, HSPZ_E_TOO_LARGE (over the
 *          memory budget; the text has the bytes needed, by part, and the budget, err->limit too),
 *          HSPZ_E_BAD_REQUEST (step 0, no sequence, a path that may not be replaced),
 *          HSPZ_E_OUT_OF_MEMORY, HSPZ_E_STOPPED. *out is untouched on failure. */
#pragma once

#include "engine/sequence_file.h"
#include "engine/sequences.h"
#include "engine/shape.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_index;

struct hspz_index_params {
    struct hspz_shape shape;
    uint32_t step; /* 1 or more */
    bool unmask;   /* lower case counts as upper when words are made */
    bool all_positions;
};

/* One block as engines see it; borrowed from the index. */
struct hspz_index_block {
    const uint8_t *bases;
    uint32_t bases_len;
    const uint32_t *table; /* hspz_shape_words entries */
    const uint32_t *pos;
    uint32_t pos_count; /* == table[last] */
};

/* Bytes an index takes, known from lengths alone, before anything is allocated. */
struct hspz_index_need {
    uint64_t table_bytes;    /* all blocks */
    uint64_t position_bytes; /* at most: every window valid */
    uint64_t sequence_bytes; /* blocks with separators; names too where they are known */
    uint64_t work_bytes;     /* taken while building or reading only */
    uint64_t total_bytes;
};
void hspz_index_need(const struct hspz_index_params *params, const uint64_t *block_lens,
                     size_t block_count, unsigned threads, struct hspz_index_need *out);
/* The same for sequences at hand, with their names: what hspz_index_build holds to its budget. */
HSPZ_MUST_USE enum hspz_status hspz_index_build_need(const struct hspz_sequences *seqs,
                                                     const struct hspz_index_params *params,
                                                     unsigned threads, struct hspz_index_need *out,
                                                     struct hspz_error *err);

/* Builds with `threads` threads; the result is the same for any number. Takes *seqs over (nulled)
 * on success only. `budget_bytes` 0 is no budget. */
HSPZ_MUST_USE enum hspz_status hspz_index_build(struct hspz_sequences **seqs,
                                                const struct hspz_index_params *params,
                                                unsigned threads, uint64_t budget_bytes,
                                                hspz_progress_fn progress, void *user,
                                                struct hspz_index **out, struct hspz_error *err);

/* Written beside `path` under another name, synced, then renamed: the final name never holds a
 * partial file. An existing file is replaced. */
HSPZ_MUST_USE enum hspz_status hspz_index_write(const struct hspz_index *index, const char *path,
                                                struct hspz_error *err);

/* What a file must be to be accepted; zero members accept anything. */
struct hspz_index_want {
    const struct hspz_shape *shape;
    uint32_t step;
    const char *digest; /* 16 hex digits */
};
/* Every length, checksum and table entry is checked: an index that was read never sends an engine
 * out of range. `want` may be NULL. */
HSPZ_MUST_USE enum hspz_status hspz_index_read(const char *path, const struct hspz_index_want *want,
                                               uint64_t budget_bytes, hspz_progress_fn progress,
                                               void *user, struct hspz_index **out,
                                               struct hspz_error *err);

/* The same for the header alone. */
HSPZ_MUST_USE enum hspz_status
hspz_index_file_check(const char *path, const struct hspz_index_want *want, struct hspz_error *err);

/* What a file would take to be read, from its header; which is checked, and nothing else. */
HSPZ_MUST_USE enum hspz_status hspz_index_file_need(const char *path, struct hspz_index_need *out,
                                                    struct hspz_error *err);

/* For tests and for engines fed by others: an index of one block from tables that exist already
 * (copied; checked as a file would be). `bases` may be NULL with bases_len the block's length: then
 * there are no sequences, and it cannot be written. Otherwise they are named 1, 2, ... */
HSPZ_MUST_USE enum hspz_status hspz_index_from_tables(const struct hspz_index_params *params,
                                                      const uint8_t *bases, uint32_t bases_len,
                                                      const uint32_t *table, const uint32_t *pos,
                                                      uint32_t pos_count, struct hspz_index **out,
                                                      struct hspz_error *err);

struct hspz_index *hspz_index_acquire(struct hspz_index *index); /* returns it */
void hspz_index_release(struct hspz_index **index);

const struct hspz_index_params *hspz_index_get_params(const struct hspz_index *index);
size_t hspz_index_block_count(const struct hspz_index *index);
struct hspz_index_block hspz_index_get_block(const struct hspz_index *index, size_t b);
const struct hspz_sequences *hspz_index_sequences(const struct hspz_index *index);
/* XXH64 over parameters, names, sequence and tables, as 16 hex digits: equal for equal content. */
const char *hspz_index_digest(const struct hspz_index *index);
/* hspz_sequences_digest, as 16 hex digits; "" when there are no sequences. */
const char *hspz_index_sequence_digest(const struct hspz_index *index);
/* The hspz version that built it. */
const char *hspz_index_version(const struct hspz_index *index);
uint64_t hspz_index_bytes(const struct hspz_index *index); /* resident */
