/* The tables of one reference block, made on a device.
 *
 *   whole    when memory allows: pairs of word and start of all windows, sorted by word. The sorted
 *            starts are the positions, and the lengths of the runs of a word, summed, the table.
 *   pieces   else: words are counted into the table, piece by piece; exclusive sums make its
 *            entries the cursors of their buckets; then each piece is sorted, and the runs of a
 * word go where their cursors say, which they move on.
 *
 * Either way the bytes are those of engine/index_build.c. Table and positions take their place on
 * the device; of what is left of the budget, pieces take half, so that jobs go on. No piece has
 * more windows than that allows, or than 2^30.
 *
 * Threads: one at a time; the device is current, and used by others meanwhile.
 * Errors:  HSPZ_E_OUT_OF_MEMORY (after smaller pieces were tried), HSPZ_E_DEVICE_ERROR,
 *          HSPZ_E_STOPPED. */
#pragma once

#include "engine/cuda/buffer.h"
#include "engine/cuda/kernels/launch.h"
#include "engine/index.h"
#include "engine/index_p.h"

#include <stdbool.h>

/* `done` bases of the block's 2 * bases_len; false stops. */
struct hspz_cuda_build_watch {
    bool (*fn)(void *user, uint64_t done);
    void *user;
};

struct hspz_cuda_build_block {
    struct hspz_cuda_device *device;
    const struct hspz_index_params *params;
    const uint8_t *bases; /* of the block, host */
    uint64_t bases_len;
    struct hspz_index_windows windows;
    uint64_t piece_windows, piece_count; /* no windows: no pieces */
    cudaStream_t stream;
    struct hspz_cuda_buffer table, pos, work; /* pos: with pieces only */

    /* In work: one piece */
    uint8_t *piece_bases;
    uint32_t *counts;
    struct hspz_cuda_pairs pairs;
    void *temp;
    size_t temp_bytes;

    /* What it came to, in device memory */
    const uint32_t *positions;
    uint64_t position_count;
};

/* Plans and takes memory. On failure there is nothing to end. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_build_block_init(struct hspz_cuda_build_block *b,
                                                          struct hspz_cuda_device *device,
                                                          const struct hspz_index_params *params,
                                                          const uint8_t *bases, uint64_t bases_len,
                                                          struct hspz_error *err);
void hspz_cuda_build_block_fini(struct hspz_cuda_build_block *b);

/* Upload and all the work; returns when it is done. watch->fn may be NULL. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_build_block_run(struct hspz_cuda_build_block *b,
                                                         const struct hspz_cuda_build_watch *watch,
                                                         struct hspz_error *err);

/* The two halves of a run of one piece. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_build_block_upload(struct hspz_cuda_build_block *b,
                                                            uint64_t piece,
                                                            struct hspz_cuda_piece *out,
                                                            struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cuda_build_block_whole(struct hspz_cuda_build_block *b,
                                                           const struct hspz_cuda_piece *piece,
                                                           struct hspz_error *err);

/* To host memory: all words of the table, and position_count positions. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_build_block_download(const struct hspz_cuda_build_block *b,
                                                              uint32_t *table, uint32_t *pos,
                                                              struct hspz_error *err);
