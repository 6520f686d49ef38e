/* Bases and their codes.
 *
 * A=0 C=1 G=2 T=3; every other byte, lower case included, is HSPZ_BASE_INVALID: it yields no seed.
 * A sequence may hold letters, '*', '-' and '.'; of these only upper-case ACGT seed. Anything else
 * is refused where sequence enters (files, requests), with its place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_BASE_INVALID 4u

/* 256 codes, by byte. With `unmask`, acgt count as ACGT. */
const uint8_t *hspz_base_codes(bool unmask);

/* True for a byte that may stand in a sequence; the separator '&' is not one. */
bool hspz_base_allowed(uint8_t byte);

/* Length of the longest prefix of bytes that are allowed, or are `also`. */
size_t hspz_bases_allowed(const uint8_t *bases, size_t len, uint8_t also);

/* dst[i] = complement of src[len - 1 - i]: IUPAC codes complemented, case kept, other bytes as they
 * are. dst and src do not overlap. */
void hspz_reverse_complement(uint8_t *dst, const uint8_t *src, size_t len);
