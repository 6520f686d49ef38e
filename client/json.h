/* JSON text: strings, and whole answers of a server.
 *
 * A string that is UTF-8 is written as it is, with control characters, quote and backslash escaped.
 * One that is not (sequence names may hold any bytes) is taken as Latin-1: each byte from 0x80 up
 * becomes \u0080 .. \u00ff, so that the bytes can be had back. */
#pragma once

#include "protocol/node.h"

#include <stddef.h>

/* Most bytes that `len` bytes of a string can become. */
#define HSPZ_JSON_GROWTH 6u

/* Without the quotes; returns the bytes written to dst, at most HSPZ_JSON_GROWTH * len. */
size_t hspz_json_escape(char *dst, const char *text, size_t len);

/* A node as JSON, from malloc: bins and unknown types as null, numbers that are not finite too,
 * keys that are not strings left out with their values. */
HSPZ_MUST_USE enum hspz_status hspz_json_of_node(const struct hspz_node *node, char **out);
