/* Writing a message: a growing byte buffer and one call per MessagePack value.
 *
 * Owns:    its bytes, until hspz_writer_take.
 * Errors:  a failed allocation is remembered (`failed`) and later calls do nothing, so a message is
 *          written straight through and checked once, in hspz_writer_take.
 * Lengths fit 32 bits (HSPZ_REQUIRE).
 * Integers take the shortest form, strings are `str`, payloads `bin`: the same message always has
 * the same bytes. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_writer {
    uint8_t *bytes;
    size_t len, capacity;
    bool failed;
};

void hspz_writer_init(struct hspz_writer *w);
void hspz_writer_fini(struct hspz_writer *w);
/* Moves the bytes to the caller (free them); HSPZ_E_OUT_OF_MEMORY if any call failed. */
HSPZ_MUST_USE enum hspz_status hspz_writer_take(struct hspz_writer *w, uint8_t **bytes,
                                                size_t *len);

void hspz_write_nil(struct hspz_writer *w);
void hspz_write_bool(struct hspz_writer *w, bool value);
void hspz_write_uint(struct hspz_writer *w, uint64_t value);
void hspz_write_int(struct hspz_writer *w, int64_t value);
void hspz_write_float(struct hspz_writer *w, double value);
void hspz_write_str(struct hspz_writer *w, const char *text);
void hspz_write_strn(struct hspz_writer *w, const char *text, size_t len);
void hspz_write_bin(struct hspz_writer *w, const void *bytes, size_t len);
/* Text of unknown origin, such as sequence and file names: `str` when it is valid UTF-8 of at most
 * HSPZ_FRAME_INLINE_BIN bytes, else `bin` (hspz_node_text reads both). */
void hspz_write_text(struct hspz_writer *w, const char *text, size_t len);
/* Only the header of a bin: its `len` bytes follow from elsewhere. */
void hspz_write_bin_header(struct hspz_writer *w, size_t len);
void hspz_write_array(struct hspz_writer *w, uint32_t count);
void hspz_write_map(struct hspz_writer *w, uint32_t pairs);

/* A key and its value. Text whose origin is not our own source goes through hspz_write_text. */
void hspz_write_key_uint(struct hspz_writer *w, const char *key, uint64_t value);
void hspz_write_key_bool(struct hspz_writer *w, const char *key, bool value);
void hspz_write_key_float(struct hspz_writer *w, const char *key, double value);
void hspz_write_key_str(struct hspz_writer *w, const char *key, const char *text);
