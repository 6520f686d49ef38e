/* Reading sequence files: FASTA, FASTQ and 2bit, gzip or not (single, multi-member, bgzip), from a
 * path or "-" for standard input. What a file is, is told by its first bytes, never by its name.
 *
 * Rules:  a name is the first word of its header and may not be empty; line ends are LF, CRLF or
 *         CR; blank lines are skipped, blanks and tabs at the end of a line of bases dropped; a
 *         FASTQ record is four lines; bases are what hspz_base_allowed says (other bytes are
 *         refused with file, line and byte value); a file without a single record is an error, an
 *         empty record is not. 2bit: versions 0 and 1, either byte order, N blocks and mask blocks
 *         kept (lower case).
 * Errors: HSPZ_E_IO, HSPZ_E_BAD_FILE (damaged, cut short, wrong checksum, not a sequence file: also
 *         when whole records came before), HSPZ_E_BAD_REQUEST (content breaks a rule),
 *         HSPZ_E_STOPPED, HSPZ_E_OUT_OF_MEMORY; the text names the file, and line or offset. *out
 *         untouched. */
#pragma once

#include "engine/sequences.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called now and then while reading, with the bytes of the file consumed and its size (0 when
 * unknown). Returning false stops with HSPZ_E_STOPPED. May be NULL. */
typedef bool (*hspz_progress_fn)(void *user, uint64_t done, uint64_t total);

HSPZ_MUST_USE enum hspz_status hspz_sequence_file_read(const char *path, uint64_t block_size,
                                                       hspz_progress_fn progress, void *user,
                                                       struct hspz_sequences **out,
                                                       struct hspz_error *err);
