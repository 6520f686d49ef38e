/* The sequences of a FASTA or FASTQ file (gzip or not, "-" for standard input), in batches of bases
 * for a server: every k-mer begins in exactly one batch.
 *
 * A batch has pieces of sequences with a line feed between them. A sequence that does not fit goes
 * on in the next batch, which begins with the k - 1 bases that the last one ended in.
 *
 * Reading and parsing have a thread, which is a few batches ahead.
 * Owns:    the batch is valid during the call that gets it.
 * Threads: both callbacks are called by the caller's, `progress` at least ten times a second.
 * Errors:  those of reading (engine/fasta.h, engine/byte_source.h; a 2bit file is refused), and
 *          what a callback returned. */
#pragma once

#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_kmer_piece {
    size_t name;       /* where it begins in names, terminated */
    size_t begin, end; /* its bases in the batch */
    uint64_t start;    /* of its first base, in the sequence */
    bool last;         /* the sequence ends here */
};

struct hspz_kmer_batch {
    uint8_t *bases;
    size_t len;
    struct hspz_kmer_piece *pieces;
    size_t count;
    char *names;
};

/* Not HSPZ_OK: reading ends with it. */
typedef enum hspz_status (*hspz_kmer_batch_fn)(void *user, const struct hspz_kmer_batch *batch,
                                               struct hspz_error *err);

struct hspz_kmer_reading {
    const char *path;
    unsigned k;
    size_t batch_bytes; /* about so many bases a batch; at least 256 are */
    hspz_progress_fn progress;
    hspz_kmer_batch_fn batch;
    void *user; /* of both */
};
HSPZ_MUST_USE enum hspz_status hspz_kmer_file_read(const struct hspz_kmer_reading *reading,
                                                   struct hspz_error *err);
