/* Records of numbers for filters, from a file or standard input ("-"): a key, and with more columns
 * what goes with it.
 *
 * Text: a record a line, numbers apart by blanks or tabs, each decimal or 0x hexadecimal, 0 to 2^64
 * - 1. Blank lines and lines that begin with # are passed over; line ends are LF or CRLF; gzip or
 * not. Raw: little-endian u64, one after the other, as they are.
 *
 * Owns:    the file; `path`, `progress` and `user` are borrowed until close.
 * Errors:  HSPZ_E_IO, HSPZ_E_BAD_FILE (damaged gzip, bytes behind the last whole record),
 *          HSPZ_E_BAD_REQUEST (a line that is no record), HSPZ_E_STOPPED, HSPZ_E_OUT_OF_MEMORY;
 *          with the file and the line or the byte. After an error only close. */
#pragma once

#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_KEY_COLUMNS 3u

/* Some records, column by column. */
struct hspz_key_batch {
    uint64_t *columns[HSPZ_KEY_COLUMNS]; /* little-endian; as many as there are */
    uint64_t *places;                    /* of each record: its line; raw: its number, from 1 */
    size_t count, capacity;
};
HSPZ_MUST_USE enum hspz_status hspz_key_batch_init(struct hspz_key_batch *batch, unsigned columns,
                                                   size_t capacity, struct hspz_error *err);
void hspz_key_batch_fini(struct hspz_key_batch *batch);

struct hspz_key_file;

HSPZ_MUST_USE enum hspz_status hspz_key_file_open(const char *path, bool raw, unsigned columns,
                                                  hspz_progress_fn progress, void *user,
                                                  struct hspz_key_file **out,
                                                  struct hspz_error *err);
void hspz_key_file_close(struct hspz_key_file **file);

/* The next records, as many as the batch has room for; fewer at the end, none after it. */
HSPZ_MUST_USE enum hspz_status hspz_key_file_next(struct hspz_key_file *file,
                                                  struct hspz_key_batch *batch,
                                                  struct hspz_error *err);
