/* A file of seeds: little-endian u64, word << 32 | query position; "-" is standard input.
 *
 * Errors: HSPZ_E_IO, HSPZ_E_BAD_FILE (not whole seeds, or none), HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

/* *bytes is from malloc. */
HSPZ_MUST_USE enum hspz_status hspz_seed_file_read(const char *path, uint8_t **bytes, size_t *len,
                                                   struct hspz_error *err);
