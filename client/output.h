/* Where results are written: a file that appears under its name only when whole, or a stream.
 *
 * A regular file (or a name that does not exist yet) is written beside, under a temporary name, and
 * renamed by hspz_output_commit after it has reached the disk; without commit nothing of it stays.
 * Standard output ("-", or whatever names the file it is), devices and pipes are written straight.
 *
 * Owns:   descriptor, buffer, temporary name.
 * Errors: HSPZ_E_IO, naming the file. Once a write failed, every later call fails alike. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_output;

HSPZ_MUST_USE enum hspz_status hspz_output_open(const char *path, struct hspz_output **out,
                                                struct hspz_error *err);
/* Room for `bytes` (at most HSPZ_OUTPUT_ROOM) at the end of the buffer; NULL when a write failed.
 * hspz_output_advance says how much of it was used. */
#define HSPZ_OUTPUT_ROOM (1u << 20)
char *hspz_output_room(struct hspz_output *output, size_t bytes);
void hspz_output_advance(struct hspz_output *output, size_t bytes);
/* Any number of bytes; false when a write failed. */
bool hspz_output_write(struct hspz_output *output, const void *bytes, size_t len);

/* Hands on what is buffered; errors show later. */
void hspz_output_flush(struct hspz_output *output);
/* Flushes, and puts a file under its name. */
HSPZ_MUST_USE enum hspz_status hspz_output_commit(struct hspz_output *output,
                                                  struct hspz_error *err);
/* Without commit before: removes the temporary file. */
void hspz_output_close(struct hspz_output **output);

/* The write error so far, if any. `quiet` is true when only the reader went away. */
enum hspz_status hspz_output_error(const struct hspz_output *output, bool *quiet,
                                   struct hspz_error *err);
