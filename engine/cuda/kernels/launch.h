/* The kernels of the CUDA engine, as calls.
 *
 * A launcher checks nothing on the device, allocates, copies and waits for nothing; it returns what
 * the launch returned. Work of no size launches nothing and succeeds. The stream comes last.
 *
 * Units:   all pointers are device memory unless they say `host`; hits are counted within a batch.
 * Numbers: prefix sums and hits are u32: a batch of more is refused before they are used. */
#pragma once

#include "engine/packed.h"
#include "protocol/types.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HSPZ_CUDA_SCAN_BLOCK 256u       /* == HSPZ_SCAN_BLOCK */
#define HSPZ_CUDA_SEED_BLOCK 1024u      /* window starts one thread block looks at */
#define HSPZ_CUDA_SMALL_SEEDS 4096u     /* most seeds of hspz_cuda_launch_small */
#define HSPZ_CUDA_NO_BAD UINT64_MAX     /* every seed was in range */
#define HSPZ_CUDA_BLOCK_RECORD_SHIFT 48 /* block total: hits, and above them the full buckets */

#define HSPZ_CUDA_RUN_BYTES 8u /* of a part by columns: a window, and an anchor */
#define HSPZ_CUDA_REF_BYTES 4u

#define HSPZ_CUDA_GROUP_WORDS 12u /* buckets in a group */
#define HSPZ_CUDA_GROUP_CUT 255u  /* size of a bucket that only the table knows */
#define HSPZ_CUDA_GROUPS(words)                                                                    \
    (((uint64_t)(words) + HSPZ_CUDA_GROUP_WORDS - 1) / HSPZ_CUDA_GROUP_WORDS)

/* Twelve neighbouring buckets: where the first begins in pos[], and how long each is, a byte each.
 * From the first of GROUP_CUT and more positions on, all are GROUP_CUT. */
struct hspz_cuda_group {
    uint32_t begin;
    uint32_t sizes[3];
};

/* A block of an index. */
struct hspz_cuda_index {
    const uint32_t *table; /* aligned to 16 bytes */
    const uint32_t *pos;
    const uint32_t *present;              /* bit w: bucket w is not empty; NULL: unknown */
    const struct hspz_cuda_group *groups; /* aligned to 16 bytes; NULL: look into the table */
    uint32_t words;                       /* 4^weight */
    uint32_t span;
    const uint64_t *packed; /* the sequence; NULL: not known */
    uint32_t first, step;   /* indexed are first, first + step, ... */
};

/* Where seeds come from: words[j] is the exact word << 32 | query position of the j-th window, and
 * gives `per_window` seeds, itself and its transitions. Given seeds are windows of one seed. */
struct hspz_cuda_seeds {
    const uint64_t *words;
    uint64_t capacity;   /* seeds there may be, below 2^32; the tally has how many there are */
    uint32_t per_window; /* 1 .. HSPZ_SHAPE_SEEDS_MAX */
    uint32_t singles;    /* of those, with one transition; they follow the first */
    uint64_t inverse;    /* ceil(2^32 / per_window) */
};

/* What a batch comes to. */
struct hspz_cuda_tally {
    uint64_t seeds;
    uint64_t bad; /* first seed out of range, or HSPZ_CUDA_NO_BAD */
    uint64_t hits;
    uint64_t records; /* seeds that have hits */
};

/* Hits per seed, in scan blocks of HSPZ_CUDA_SCAN_BLOCK seeds. */
struct hspz_cuda_counts {
    uint32_t *sums;   /* inclusive sums within the scan block, modulo 2^32 */
    uint32_t *begins; /* first of the bucket in pos[]; only where the seed has hits */
    uint64_t *blocks; /* totals of the scan blocks: hits | records << 48 */
    struct hspz_cuda_tally *tally;
};

/* The seeds that have hits, in order. Record r's hits are ends[r - 1] .. ends[r] of the batch; hit
 * h of them is the occurrence at pos[low half of sources[r] - h] (modulo 2^32), and its query
 * coordinate is the high half. */
struct hspz_cuda_records {
    uint32_t *ends;
    uint64_t *sources;
    uint32_t *starts; /* record of hit t << tile_log2, for each such hit */
    uint64_t count, hits;
    uint32_t tile_log2;
};

enum hspz_cuda_mapping {
    HSPZ_CUDA_MAPPING_AUTO,
    HSPZ_CUDA_MAPPING_THREAD, /* a thread a seed */
    HSPZ_CUDA_MAPPING_WARP,   /* a warp a seed */
    HSPZ_CUDA_MAPPING_TILE,   /* a warp a tile of the output */
    HSPZ_CUDA_MAPPING_SPEC    /* SPEC C.4: the first below 16 hits a seed, else the second; for
                                 struct hspz_cuda_tuning only, no launch */
};

/* Hits [begin, end) of a batch to out[0 .. end - begin). `begin` starts a tile; out is aligned to
 * 16 bytes. */
struct hspz_cuda_window {
    uint64_t *out;
    uint64_t begin, end;
};

/* The windows that have hits, in order. */
struct hspz_cuda_runs {
    uint32_t *run_of; /* of record r: windows up to its own; NULL: each record is of another */
    uint64_t *runs;   /* first hit of the batch | query coordinate << 32 */
};

/* What of a stretch of hits is in a part. */
struct hspz_cuda_fit {
    uint64_t end; /* hits up to here */
    uint64_t first_run, run_count;
};

/* Hits [begin, end) of a batch by columns to `bytes` of out, 16 or more. */
struct hspz_cuda_columns {
    uint64_t *out;
    struct hspz_cuda_fit *fit; /* written: as many of them as fit */
    uint64_t begin, end, bytes;
};

/* A stretch of a query, on its plus strand: bases of the windows that start at first .. first +
 * positions - 1 of the strand searched; bases_len is positions + span - 1, or more. */
struct hspz_cuda_query {
    const uint8_t *bases;
    uint64_t bases_len, positions;
    uint32_t first;
    bool minus, unmask;
    uint64_t care; /* bit c: offset c of a window is a care position */
    uint32_t span;
    const uint32_t *masked; /* bit i % 32 of word i / 32: the i-th start is; NULL: none */
};

/* A piece of a reference block: the windows that start at 0 .. starts - 1 of it, of which every
 * step-th is wanted, the first one first. It has starts + span - 1 bases. */
struct hspz_cuda_piece {
    const uint8_t *bases;
    uint32_t starts;
    uint32_t first; /* where it begins in the block */
    uint32_t step, span;
    uint64_t care; /* as above */
    bool unmask;
};

/* Wanted windows as words and starts in the block; those of the moment are in [now]. */
struct hspz_cuda_pairs {
    uint32_t *words[2], *starts[2];
    unsigned now;
};

/* A piece of sequence to pack, in upper-case classes or whatever `of` says; `backwards`: read from
 * its end. */
struct hspz_cuda_unpacked {
    const uint8_t *bases;
    uint64_t len;
    bool backwards;
    uint8_t of[256]; /* class of each byte */
};

/* Packed sequences of a reference block and of a strand of a query, and how to extend on them. */
struct hspz_cuda_extension {
    const uint64_t *ref, *query;
    struct hspz_packed_scores scores;
    struct hspz_packed_seeds seeds;
    struct hspz_scoring scoring;
    /* Not NULL: an exact word of a window in the half that says where; only windows behind that one
     * count as hits too. */
    const uint64_t *behind;
};

/* Anchors or HSPs that are appended, and how many there are. */
struct hspz_cuda_anchors {
    uint64_t *anchors;
    unsigned long long *count;
};
struct hspz_cuda_hsp_list {
    struct hspz_hsp *hsps; /* aligned to 16 bytes */
    unsigned long long *count;
    uint64_t capacity; /* none is written beyond; the count goes on */
};

/* cudaSuccess when the current device can run what this build holds. */
cudaError_t hspz_cuda_probe(void);
/* Whether a kernel may begin there while the one before it ends; `overlap` below is for such. */
bool hspz_cuda_overlaps(void);

/* *beat = value, a word of host memory that the device can reach. */
cudaError_t hspz_cuda_launch_beat(uint32_t *beat, uint32_t value, cudaStream_t stream);

/* present[] of a table, whose words are a multiple of 32; adds the full buckets to *full. */
cudaError_t hspz_cuda_launch_presence(const uint32_t *table, uint64_t words, uint32_t *present,
                                      unsigned long long *full, cudaStream_t stream);

/* HSPZ_CUDA_GROUPS(words) groups of a table; adds those with a bucket cut to *cut. */
cudaError_t hspz_cuda_launch_groups(const uint32_t *table, uint64_t words,
                                    struct hspz_cuda_group *groups, unsigned long long *cut,
                                    cudaStream_t stream);

/* Valid windows, not masked, of each HSPZ_CUDA_SEED_BLOCK positions, and then those windows, in
 * order; the tally gets the number of seeds they give. */
cudaError_t hspz_cuda_launch_window_count(const struct hspz_cuda_query *query, uint32_t *counts,
                                          cudaStream_t stream);
cudaError_t hspz_cuda_launch_windows(const struct hspz_cuda_query *query, const uint32_t *counts,
                                     uint32_t per_window, uint64_t *windows,
                                     struct hspz_cuda_tally *tally, bool overlap,
                                     cudaStream_t stream);

/* Keys of the k-mers that begin at the query's window starts (0 where there is none), and of those
 * the bits; then, of those bits, what a filter's answers leave: `yes`, or counts over `above`. */
cudaError_t hspz_cuda_launch_mask_keys(const struct hspz_cuda_query *query, uint32_t k,
                                       bool canonical, uint64_t *keys, uint32_t *masked,
                                       cudaStream_t stream);
cudaError_t hspz_cuda_launch_mask_settle(const uint32_t *yes, const uint64_t *found, uint64_t above,
                                         uint64_t count, uint32_t *masked, cudaStream_t stream);

/* Looks up every seed: in groups where there are any, else in the table, of which only what the
 * presence bits leave. Buckets of more than max_word_count count as empty. tally->seeds and ->bad
 * are set before. `overlap`: behind hspz_cuda_launch_windows alone. */
cudaError_t hspz_cuda_launch_count(const struct hspz_cuda_index *index,
                                   const struct hspz_cuda_seeds *seeds,
                                   const struct hspz_cuda_counts *counts, uint32_t max_word_count,
                                   bool overlap, cudaStream_t stream);

/* Records from counts; offsets[] are the exclusive sums of blocks[]: hits | record << 32. */
cudaError_t hspz_cuda_launch_place(const struct hspz_cuda_seeds *seeds, uint64_t seed_count,
                                   const struct hspz_cuda_counts *counts, const uint64_t *offsets,
                                   uint32_t span, const struct hspz_cuda_records *records,
                                   cudaStream_t stream);

/* Expands a window. `multiprocessors` sizes the grids of the mappings that stride. */
cudaError_t hspz_cuda_launch_expand(const struct hspz_cuda_index *index,
                                    const struct hspz_cuda_records *records,
                                    const struct hspz_cuda_window *window,
                                    enum hspz_cuda_mapping mapping, unsigned multiprocessors,
                                    cudaStream_t stream);

/* Of each record whether it is the first of its window; inclusive sums of that are run_of[]. */
cudaError_t hspz_cuda_launch_mark_runs(const struct hspz_cuda_records *records, uint32_t *run_of,
                                       cudaStream_t stream);
/* runs[] from run_of[]. */
cudaError_t hspz_cuda_launch_runs(const struct hspz_cuda_records *records,
                                  const struct hspz_cuda_runs *runs, cudaStream_t stream);
/* A part by columns. */
cudaError_t hspz_cuda_launch_columns(const struct hspz_cuda_index *index,
                                     const struct hspz_cuda_records *records,
                                     const struct hspz_cuda_runs *runs,
                                     const struct hspz_cuda_columns *columns, cudaStream_t stream);

/* All of a small batch (up to HSPZ_CUDA_SMALL_SEEDS seeds) without a word from the host in between:
 * its records, then its hits to out[] unless they are more than `capacity`. Seeds, out and tally
 * may be host memory that the device can reach. */
cudaError_t hspz_cuda_launch_small(const struct hspz_cuda_index *index,
                                   const struct hspz_cuda_seeds *seeds, uint64_t seed_count,
                                   uint32_t max_word_count, const struct hspz_cuda_records *records,
                                   struct hspz_cuda_tally *device_tally,
                                   struct hspz_cuda_tally *tally, uint64_t *out, uint64_t capacity,
                                   cudaStream_t stream);

/* Valid wanted windows of each HSPZ_CUDA_SEED_BLOCK starts, and a zero behind them; after exclusive
 * sums those are the offsets of the pairs, which ascend by start, and behind them their number. */
cudaError_t hspz_cuda_launch_piece_count(const struct hspz_cuda_piece *piece, uint32_t *counts,
                                         cudaStream_t stream);
cudaError_t hspz_cuda_launch_piece_pairs(const struct hspz_cuda_piece *piece,
                                         const uint32_t *offsets,
                                         const struct hspz_cuda_pairs *pairs, cudaStream_t stream);
/* Adds how often each word is wanted. */
cudaError_t hspz_cuda_launch_piece_words(const struct hspz_cuda_piece *piece, uint32_t *table,
                                         cudaStream_t stream);

/* Scratch for the two below: for so many pairs (below 2^31) and sums. */
cudaError_t hspz_cuda_build_temp_bytes(uint64_t pairs, unsigned word_bits, uint64_t sums,
                                       size_t *bytes);
/* By word, stable; moves pairs->now. */
cudaError_t hspz_cuda_launch_sort(struct hspz_cuda_pairs *pairs, uint64_t count, unsigned word_bits,
                                  void *temp, size_t temp_bytes, cudaStream_t stream);
/* Scratch for inclusive ones alone. */
cudaError_t hspz_cuda_sums_temp_bytes(uint64_t sums, size_t *bytes);
/* In place, modulo 2^32. */
cudaError_t hspz_cuda_launch_sums(uint32_t *data, uint64_t count, bool inclusive, void *temp,
                                  size_t temp_bytes, cudaStream_t stream);

/* With words sorted, each run of a word at i .. j: begin_runs takes i from its table entry,
 * end_runs adds j to it. Both together add the length of the run. Between them, entries that were
 * the begin of what is free in each bucket say where the run's starts go: scatter puts start i to
 * pos[entry + i]. */
cudaError_t hspz_cuda_launch_begin_runs(const uint32_t *words, uint64_t count, uint32_t *table,
                                        cudaStream_t stream);
cudaError_t hspz_cuda_launch_end_runs(const uint32_t *words, uint64_t count, uint32_t *table,
                                      cudaStream_t stream);
cudaError_t hspz_cuda_launch_scatter(const uint32_t *words, const uint32_t *starts, uint64_t count,
                                     const uint32_t *table, uint32_t *pos, cudaStream_t stream);

/* Whole words of 16 bases; the last one is filled up with separators. */
cudaError_t hspz_cuda_launch_pack(const struct hspz_cuda_unpacked *piece, uint64_t *words,
                                  cudaStream_t stream);

/* Appends the anchors that may pass, in any order. */
cudaError_t hspz_cuda_launch_gate(const struct hspz_cuda_extension *extension,
                                  const uint64_t *anchors, uint64_t count,
                                  const struct hspz_cuda_anchors *left, cudaStream_t stream);
/* Extends those, `count` of them on the device, and appends the HSPs that pass, in any order; of
 * anchors that come to the same HSP at least one. */
cudaError_t hspz_cuda_launch_extend(const struct hspz_cuda_extension *extension,
                                    const struct hspz_cuda_anchors *anchors,
                                    const struct hspz_cuda_hsp_list *hsps, unsigned multiprocessors,
                                    cudaStream_t stream);

/* Scratch for the one below, for so many HSPs (below 2^31). */
cudaError_t hspz_cuda_hsps_temp_bytes(uint64_t count, size_t *bytes);
/* Sorts HSPs as struct hspz_hsp_set does before it drops any, and copies them to out[], equal ones
 * once; *out_count says how many. */
cudaError_t hspz_cuda_launch_hsps_unique(struct hspz_hsp *hsps, uint64_t count,
                                         struct hspz_hsp *out, unsigned long long *out_count,
                                         void *temp, size_t temp_bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
