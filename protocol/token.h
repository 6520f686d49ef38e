/* The MessagePack token walk that the splitter and the reader share; private to protocol/.
 *
 * The caller gives header bytes one at a time; when a token's header is complete every length it
 * announces has been checked against the limits, and the caller passes over its body and goes on.
 * Nothing is recursive: open arrays and maps are counts in a fixed array.
 *
 * Threads: one caller at a time.
 * Errors:  HSPZ_E_BAD_REQUEST (not MessagePack, or over depth, values or header bytes),
 *          HSPZ_E_TOO_LARGE (over max_message; err->limit). After an error the walk is useless. */
#pragma once

#include "protocol/limits.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_TOKEN_HEADER_BYTES 5u /* an ext's type byte counts as body */

struct hspz_token_walk {
    uint64_t max_message;
    uint64_t total_bytes;                  /* of the message, seen or announced */
    uint64_t header_bytes;                 /* those outside large bins */
    uint32_t values;                       /* seen or announced */
    uint32_t open;                         /* arrays and maps entered and not complete */
    uint32_t left[HSPZ_FRAME_DEPTH_LIMIT]; /* values still to come in each */
    bool entered;                          /* the last token opened an array or a map */

    /* The token under way, or just complete. */
    uint8_t header[HSPZ_TOKEN_HEADER_BYTES];
    uint8_t header_len;
    uint64_t body_bytes;
    bool large; /* a bin above HSPZ_FRAME_INLINE_BIN */
};

void hspz_token_walk_init(struct hspz_token_walk *walk, uint64_t max_message);

/* Takes one header byte. When *complete, `body_bytes` bytes follow that are not for this walk. */
HSPZ_MUST_USE enum hspz_status hspz_token_walk_byte(struct hspz_token_walk *walk, uint8_t byte,
                                                    bool *complete, struct hspz_error *err);

/* To be called once the body has passed; true when that completed the message. */
bool hspz_token_walk_next(struct hspz_token_walk *walk);
