/* Bytes of the message under way go into `bytes` as they arrive, token by token:
 *
 *   header   collected by the token walk, stored once its announced length is within the limits;
 *   body     passed over: stored, or dropped when it is a large bin that was refused.
 *
 * A large bin's room is made in one step before its body; it is filled by hspz_stream_feed or, in
 * place, by its caller (hspz_stream_body, hspz_stream_filled). */
#include "protocol/stream.h"

#include "protocol/limits.h"
#include "protocol/token.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_STEP_BYTES 256u

struct hspz_stream {
    struct hspz_token_walk walk;
    hspz_stream_admit_fn admit;
    void *user;
    uint64_t max_message;

    uint8_t *bytes;
    size_t len, capacity;
    size_t header_len; /* stored bytes that are not a large bin's */
    uint64_t body_left;
    bool body_large;
    bool body_skipped;
    bool had_large;
    uint64_t admitted_bytes;
    enum hspz_status refused;

    enum hspz_status dead;
};

enum hspz_status
hspz_stream_create(uint64_t max_message, hspz_stream_admit_fn admit, void *user,
                   struct hspz_stream **out)
{
    struct hspz_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    stream->admit = admit;
    stream->user = user;
    stream->max_message = max_message;
    hspz_token_walk_init(&stream->walk, max_message);
    *out = stream;
    return HSPZ_OK;
}

void
hspz_stream_destroy(struct hspz_stream **stream)
{
    if (*stream != NULL) {
        free((*stream)->bytes);
        free(*stream);
        *stream = NULL;
    }
}

static bool
resize(struct hspz_stream *s, size_t capacity)
{
    uint8_t *bytes = realloc(s->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    s->bytes = bytes;
    s->capacity = capacity;
    return true;
}

static bool
store(struct hspz_stream *s, const uint8_t *bytes, size_t len)
{
    if (len > s->capacity - s->len) {
        size_t step = s->header_len < STREAM_STEP_BYTES ? STREAM_STEP_BYTES : s->header_len;
        step = step < len ? len : step;
        if (!resize(s, s->len + step)) {
            return false;
        }
    }
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    s->header_len += len;
    return true;
}

/* The first large bin gets what it needs and no more; growing by a share from the second on keeps
 * a message of many large bins linear. */
static bool
make_room(struct hspz_stream *s, uint64_t body)
{
    if (body > SIZE_MAX / 4 || s->len > SIZE_MAX / 4) {
        return false;
    }
    const size_t need = s->len + HSPZ_TOKEN_HEADER_BYTES + (size_t)body;
    if (need <= s->capacity) {
        return true;
    }
    const size_t share = s->had_large ? s->capacity / 2 : 0;
    return resize(s, need + (share > STREAM_STEP_BYTES ? share : STREAM_STEP_BYTES));
}

static void
open_large(struct hspz_stream *s, uint64_t body)
{
    if (s->refused == HSPZ_OK && s->admit != NULL) {
        s->refused = s->admit(s->user, body);
    }
    if (s->refused == HSPZ_OK) {
        s->admitted_bytes += body;
        if (make_room(s, body)) {
            s->had_large = true;
        } else {
            s->refused = HSPZ_E_OUT_OF_MEMORY;
        }
    }
    s->body_skipped = s->refused != HSPZ_OK;
}

static enum hspz_status
open_token(struct hspz_stream *s)
{
    static const uint8_t empty_bin[2] = {0xc4, 0x00};
    const struct hspz_token_walk *walk = &s->walk;
    s->body_left = walk->body_bytes;
    s->body_large = walk->large;
    s->body_skipped = false;
    if (walk->large) {
        open_large(s, walk->body_bytes);
    }
    const bool stored = s->body_skipped ? store(s, empty_bin, sizeof(empty_bin))
                                        : store(s, walk->header, walk->header_len);
    return stored ? HSPZ_OK : HSPZ_E_OUT_OF_MEMORY;
}

static void
deliver(struct hspz_stream *s, struct hspz_frame *frame)
{
    if (s->capacity - s->len > s->len / 4) {
        uint8_t *trimmed = realloc(s->bytes, s->len);
        s->bytes = trimmed != NULL ? trimmed : s->bytes;
    }
    *frame = (struct hspz_frame){.bytes = s->bytes,
                                 .len = s->len,
                                 .admitted_bytes = s->admitted_bytes,
                                 .refused = s->refused};
    s->bytes = NULL;
    s->len = s->capacity = s->header_len = 0;
    s->had_large = false;
    s->body_large = false;
    s->admitted_bytes = 0;
    s->refused = HSPZ_OK;
    hspz_token_walk_init(&s->walk, s->max_message);
}

/* Goes on when the body under way is complete. */
static void
close_token(struct hspz_stream *s, bool *ready, struct hspz_frame *frame)
{
    if (s->body_left == 0) {
        s->body_large = false;
        if (hspz_token_walk_next(&s->walk)) {
            deliver(s, frame);
            *ready = true;
        }
    }
}

static enum hspz_status
take_body(struct hspz_stream *s, const uint8_t *bytes, size_t len, size_t *took)
{
    const size_t n = s->body_left < len ? (size_t)s->body_left : len;
    if (s->body_large && !s->body_skipped) {
        memcpy(s->bytes + s->len, bytes, n);
        s->len += n;
    } else if (!s->body_skipped && !store(s, bytes, n)) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    s->body_left -= n;
    *took = n;
    return HSPZ_OK;
}

/* One body piece or one header byte. */
static enum hspz_status
take(struct hspz_stream *s, const uint8_t *bytes, size_t len, size_t *took, bool *ready,
     struct hspz_frame *frame, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (s->body_left > 0) {
        status = take_body(s, bytes, len, took);
        if (status == HSPZ_OK) {
            close_token(s, ready, frame);
        }
    } else {
        bool complete = false;
        *took = 1;
        status = hspz_token_walk_byte(&s->walk, *bytes, &complete, err);
        if (status == HSPZ_OK && complete) {
            status = open_token(s);
            if (status == HSPZ_OK) {
                close_token(s, ready, frame);
            }
        }
    }
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        hspz_error_set(err, status, "out of memory for a message");
    }
    return status;
}

enum hspz_status
hspz_stream_feed(struct hspz_stream *stream, const uint8_t *bytes, size_t len, size_t *used,
                 bool *ready, struct hspz_frame *frame, struct hspz_error *err)
{
    *used = 0;
    *ready = false;
    if (stream->dead != HSPZ_OK) {
        return hspz_error_set(err, stream->dead, "the stream has failed before");
    }
    while (*used < len && !*ready) {
        size_t took = 0;
        const enum hspz_status status =
            take(stream, bytes + *used, len - *used, &took, ready, frame, err);
        *used += took;
        if (status != HSPZ_OK) {
            stream->dead = status;
            return status;
        }
    }
    return HSPZ_OK;
}

uint8_t *
hspz_stream_body(struct hspz_stream *stream, size_t *room)
{
    if (stream->dead != HSPZ_OK || !stream->body_large || stream->body_skipped) {
        *room = 0;
        return NULL;
    }
    *room = (size_t)stream->body_left;
    return stream->bytes + stream->len;
}

enum hspz_status
hspz_stream_filled(struct hspz_stream *stream, size_t n, bool *ready, struct hspz_frame *frame)
{
    size_t room;
    hspz_stream_body(stream, &room);
    HSPZ_REQUIRE(n <= room);
    *ready = false;
    if (n > 0) {
        stream->len += n;
        stream->body_left -= n;
        close_token(stream, ready, frame);
    }
    return stream->dead;
}

bool
hspz_stream_partial(const struct hspz_stream *stream)
{
    return stream->walk.total_bytes > 0;
}

uint64_t
hspz_stream_admitted(const struct hspz_stream *stream)
{
    return stream->admitted_bytes;
}

void
hspz_frame_release(struct hspz_frame *frame)
{
    free(frame->bytes);
    *frame = (struct hspz_frame){0};
}
