/* Batches of k-mers between a thread that fills them and one that takes them, in order.
 *
 * The one that fills is ahead by HSPZ_KMER_QUEUE_SLOTS - 1 batches at most; a slot keeps its memory
 * for later batches.
 * Owns:    the slots and what is in them.
 * Threads: fill, put, end and read from one, all others from another. */
#pragma once

#include "client/kmer_file.h"

#define HSPZ_KMER_QUEUE_SLOTS 3u

struct hspz_kmer_slot {
    struct hspz_kmer_batch batch;
    size_t pieces_capacity, names_len, names_capacity;
};

struct hspz_kmer_queue;

/* Batches have room for `batch_bytes` bases. */
HSPZ_MUST_USE enum hspz_status
hspz_kmer_queue_create(size_t batch_bytes, struct hspz_kmer_queue **out, struct hspz_error *err);
void hspz_kmer_queue_destroy(struct hspz_kmer_queue **queue);

/* ---- who fills ---- */

/* Waits for a slot, which is empty and has room for bases: *slot, until it is put.
 * HSPZ_E_STOPPED, HSPZ_E_OUT_OF_MEMORY, without a text. */
HSPZ_MUST_USE enum hspz_status hspz_kmer_queue_fill(struct hspz_kmer_queue *queue,
                                                    struct hspz_kmer_slot **slot);
void hspz_kmer_queue_put(struct hspz_kmer_queue *queue);
/* No more will come. */
void hspz_kmer_queue_end(struct hspz_kmer_queue *queue);
/* How far reading is; false: stopped. */
bool hspz_kmer_queue_read(struct hspz_kmer_queue *queue, uint64_t done, uint64_t total);
/* Can be read once stopped. */
int hspz_kmer_queue_stop_fd(const struct hspz_kmer_queue *queue);

/* ---- who takes ---- */

/* The next batch, until it is given back; NULL: none came for a while, or *over, ever. How far
 * reading is. */
const struct hspz_kmer_batch *hspz_kmer_queue_take(struct hspz_kmer_queue *queue, bool *over,
                                                   uint64_t *done, uint64_t *total);
void hspz_kmer_queue_give(struct hspz_kmer_queue *queue);
/* Who fills need not go on. */
void hspz_kmer_queue_stop(struct hspz_kmer_queue *queue);
