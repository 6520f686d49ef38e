/* FASTA and FASTQ text to sequences, fed piece by piece; how the bytes are cut into pieces changes
 * nothing. Which of the two it is, the first byte that is not blank tells.
 *
 * FASTA: sequence on any number of lines. FASTQ: four lines a record; only between records are
 * blank lines skipped. Blanks and tabs at the end of a line of bases are dropped. Owns:    nothing
 * of its arguments; `seqs` and `path` are borrowed until destroy. Threads: one at a time. Errors:
 * HSPZ_E_BAD_FILE (neither format, no record, a FASTQ record cut short), HSPZ_E_BAD_REQUEST (a rule
 * is broken: names file, line and byte), HSPZ_E_OUT_OF_MEMORY. After an error only destroy. */
#pragma once

#include "engine/sequences.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

struct hspz_fasta;

/* Where sequences go: begun, appended to piece by piece, ended, as hspz_sequences does (its *bad,
 * too). An error of one ends the reading. */
struct hspz_fasta_sink {
    enum hspz_status (*begin)(void *user, const char *name, size_t name_len, uint64_t line,
                              struct hspz_error *err);
    enum hspz_status (*append)(void *user, const uint8_t *bases, size_t len, size_t *bad,
                               struct hspz_error *err);
    enum hspz_status (*end)(void *user, struct hspz_error *err);
    void *user;
};
HSPZ_MUST_USE enum hspz_status hspz_fasta_create_to(const struct hspz_fasta_sink *sink,
                                                    const char *path, struct hspz_fasta **out,
                                                    struct hspz_error *err);
/* To sequences in memory. */
HSPZ_MUST_USE enum hspz_status hspz_fasta_create(struct hspz_sequences *seqs, const char *path,
                                                 struct hspz_fasta **out, struct hspz_error *err);
void hspz_fasta_destroy(struct hspz_fasta **fasta);

HSPZ_MUST_USE enum hspz_status hspz_fasta_feed(struct hspz_fasta *fasta, const uint8_t *bytes,
                                               size_t len, struct hspz_error *err);

/* The text ends here. */
HSPZ_MUST_USE enum hspz_status hspz_fasta_finish(struct hspz_fasta *fasta, struct hspz_error *err);
