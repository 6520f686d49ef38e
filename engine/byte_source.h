/* The bytes of a file or of standard input ("-"), chunk by chunk; gunzipped when they begin with
 * the gzip magic (any number of members, bgzip included, zero padding after the last).
 *
 * Owns:    descriptor and buffers; `path`, `progress` and `user` are borrowed until close.
 * Threads: one at a time.
 * Errors:  HSPZ_E_IO, HSPZ_E_BAD_FILE (damaged or cut short, with the offset), HSPZ_E_STOPPED,
 *          HSPZ_E_OUT_OF_MEMORY. After an error only close. */
#pragma once

#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_BYTE_SOURCE_CHUNK 65536u

struct hspz_byte_source;

HSPZ_MUST_USE enum hspz_status hspz_byte_source_open(const char *path, hspz_progress_fn progress,
                                                     void *user, struct hspz_byte_source **out,
                                                     struct hspz_error *err);
void hspz_byte_source_close(struct hspz_byte_source **source);
/* Before the first bytes: they are taken as they are, whatever they begin with. */
void hspz_byte_source_plain(struct hspz_byte_source *source);
/* Whoever waits for bytes (of a pipe, a terminal) ends, stopped, once `fd` can be read. Borrowed.
 */
void hspz_byte_source_wake(struct hspz_byte_source *source, int fd);

/* The next bytes, valid until the next call: a full chunk, or fewer at the end; none after it. */
HSPZ_MUST_USE enum hspz_status hspz_byte_source_next(struct hspz_byte_source *source,
                                                     const uint8_t **bytes, size_t *len,
                                                     struct hspz_error *err);

/* Calls `progress` with where reading is now; true when there is none. */
bool hspz_byte_source_report(struct hspz_byte_source *source);
