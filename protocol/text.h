/* Text on the wire: a `str` is valid UTF-8, and what comes from a peer is cut and cleaned before it
 * goes into an error or a log. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the longest prefix that is valid UTF-8 (shortest forms, no surrogates). */
size_t hspz_utf8_prefix(const uint8_t *bytes, size_t len);

/* Offset of the first control character (C0, DEL, C1) of valid UTF-8; len if there is none. */
size_t hspz_text_control(const uint8_t *bytes, size_t len);

/* Replaces each byte that is not part of valid UTF-8 by '?'. */
void hspz_text_clean(char *text);

#define HSPZ_QUOTE_BYTES 64
/* The text between quotes, cut to about 40 bytes, clean. */
const char *hspz_text_quote(struct hspz_span text, char out[HSPZ_QUOTE_BYTES]);
