/* Numbers on the command line: the whole text, decimal digits only, within a range. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HSPZ_E_BAD_REQUEST, naming the option, the value and the range. */
HSPZ_MUST_USE enum hspz_status hspz_number_parse(const char *option, const char *text,
                                                 uint64_t least, uint64_t most, uint64_t *out,
                                                 struct hspz_error *err);
/* Decimal seconds with an optional fraction ("1.5"), as milliseconds; "-1" gives -1 where `forever`
 * allows it. At most about 24 days. */
HSPZ_MUST_USE enum hspz_status hspz_seconds_parse(const char *option, const char *text,
                                                  bool forever, int64_t *out_ms,
                                                  struct hspz_error *err);
/* A decimal fraction of 0 or more, with an exponent if need be ("0.001", "1e-3"). */
HSPZ_MUST_USE enum hspz_status hspz_fraction_parse(const char *option, const char *text,
                                                   double *out, struct hspz_error *err);
/* A key of a filter: decimal or 0x hexadecimal, all `len` bytes; false if it is none. */
bool hspz_key_parse(const char *text, size_t len, uint64_t *out);
/* The value of --max-word-count: a number, or a percentage of positions to keep ("98.5%", above 0
 * to 100, four decimals at most), which comes as millionths. What is not given stays as it is. */
HSPZ_MUST_USE enum hspz_status hspz_word_count_parse(const char *text, uint64_t *count,
                                                     uint64_t *keep, struct hspz_error *err);
/* The value of --max-hits: 1 or more, or kegalign:GIB for the cap of a card of so many GiB. */
HSPZ_MUST_USE enum hspz_status hspz_max_hits_parse(const char *text, uint64_t *out,
                                                   struct hspz_error *err);
