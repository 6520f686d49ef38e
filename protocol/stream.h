/* Incremental MessagePack message splitter, no I/O: bytes in as they arrive, whole messages out.
 *
 * It walks the tokens itself, without recursion, and checks every announced length against the
 * limits before a byte is stored for it, so that a message it delivers is safe to hand to a
 * decoder: depth <= HSPZ_FRAME_DEPTH_LIMIT, values <= HSPZ_FRAME_ITEMS_LIMIT (arrays and maps are
 * refused by their announced size), bytes outside large bins <= HSPZ_FRAME_HEADER_LIMIT.
 *
 * A bin longer than HSPZ_FRAME_INLINE_BIN is large. Before its memory is taken, `admit` is asked;
 * when it refuses, or the memory cannot be had, the body is skipped as it arrives and the delivered
 * message holds an empty bin in its place and `refused` says so: the message still decodes, and can
 * be answered. Large bins after that one are skipped unasked. A length that would take the message
 * over `max_message`, skipped bytes included, ends the stream (HSPZ_E_TOO_LARGE).
 *
 * Owns:    the partial message. A delivered frame is the caller's (hspz_frame_release).
 * Threads: one caller at a time.
 * Cost:    linear in the bytes, whatever the size of the pieces (the buffer grows to a large bin's
 *          full size at once; the header part at most doubles). Memory is what has arrived, rounded
 *          up, and what was admitted (a message of many large bins may hold half as much again).
 * Errors:  HSPZ_E_BAD_REQUEST (not MessagePack, or over depth, items or header bytes),
 *          HSPZ_E_TOO_LARGE (over max_message), HSPZ_E_OUT_OF_MEMORY. After an error the stream
 *          is dead: the place in the bytes is lost. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asked once per large bin with the bytes it will take; returns HSPZ_OK, or why not (for example
 * HSPZ_E_QUOTA_EXCEEDED). What was admitted for a message is in its frame's `admitted_bytes`;
 * giving it back is the caller's part, also for a message that never ends (`hspz_stream_admitted`).
 */
typedef enum hspz_status (*hspz_stream_admit_fn)(void *user, uint64_t bytes);

struct hspz_frame {
    uint8_t *bytes; /* one whole message, from malloc */
    size_t len;
    uint64_t admitted_bytes;
    enum hspz_status refused; /* HSPZ_OK, or why a large bin was skipped */
};

struct hspz_stream;

HSPZ_MUST_USE enum hspz_status hspz_stream_create(uint64_t max_message, hspz_stream_admit_fn admit,
                                                  void *user, struct hspz_stream **out);
void hspz_stream_destroy(struct hspz_stream **stream);

/* Takes up to `len` bytes; *used says how many. Stops after the byte that completes a message:
 * then *ready is true and *frame is the caller's; call again with the rest. */
HSPZ_MUST_USE enum hspz_status hspz_stream_feed(struct hspz_stream *stream, const uint8_t *bytes,
                                                size_t len, size_t *used, bool *ready,
                                                struct hspz_frame *frame, struct hspz_error *err);

/* Where the rest of a large bin's body goes next, so that a reader can receive straight into it:
 * *room is 0 when no large body is open (or it is being skipped). After writing n <= *room bytes
 * there, call hspz_stream_filled. Saves the copy of hspz_stream_feed, nothing else. */
uint8_t *hspz_stream_body(struct hspz_stream *stream, size_t *room);
HSPZ_MUST_USE enum hspz_status hspz_stream_filled(struct hspz_stream *stream, size_t n, bool *ready,
                                                  struct hspz_frame *frame);

/* True while part of a message has arrived. Bytes admitted for the message under way. */
bool hspz_stream_partial(const struct hspz_stream *stream);
uint64_t hspz_stream_admitted(const struct hspz_stream *stream);

void hspz_frame_release(struct hspz_frame *frame);
