/* Bytes as a gzip member of their own: members may follow each other in a file. The same bytes give
 * the same member (no time, no name). */
#pragma once

#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

/* *out is from malloc. HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_gzip_member(const void *bytes, size_t len, uint8_t **out,
                                                size_t *out_len, struct hspz_error *err);
