/* The message splitter. Byte 0: size of the pieces (0: bodies received in place), byte 1: answer of
 * the gate and message limit; the rest is the stream. Cut or whole, it must give the same messages
 * and the same end, and every message must be one that the reader takes. */
#include "protocol/stream.h"

#include "protocol/limits.h"
#include "protocol/node.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

struct outcome {
    enum hspz_status status;
    uint64_t messages, bytes, sum, admitted;
};

struct gate {
    bool refuse;
    uint64_t admitted;
};

static enum hspz_status
ask_gate(void *user, uint64_t bytes)
{
    struct gate *gate = user;
    if (gate->refuse) {
        return HSPZ_E_QUOTA_EXCEEDED;
    }
    gate->admitted += bytes;
    return HSPZ_OK;
}

static void
take_frame(struct hspz_frame *frame, struct outcome *out)
{
    struct hspz_doc *doc = NULL;
    REQUIRE(frame->len > 0);
    REQUIRE(hspz_doc_parse(frame->bytes, frame->len, &doc, NULL) == HSPZ_OK);
    hspz_doc_destroy(&doc);
    out->messages++;
    out->bytes += frame->len;
    out->admitted += frame->admitted_bytes;
    for (size_t i = 0; i < frame->len; i++) {
        out->sum = out->sum * 31 + frame->bytes[i];
    }
    hspz_frame_release(frame);
}

/* Fills an open body in place; returns the bytes taken. */
static size_t
fill_body(struct hspz_stream *stream, const uint8_t *data, size_t size, struct outcome *out)
{
    struct hspz_frame frame;
    bool ready;
    size_t room;
    uint8_t *place = hspz_stream_body(stream, &room);
    const size_t n = room < size ? room : size;
    if (n > 0) {
        memcpy(place, data, n);
        REQUIRE(hspz_stream_filled(stream, n, &ready, &frame) == HSPZ_OK);
        if (ready) {
            take_frame(&frame, out);
        }
    }
    return n;
}

static struct outcome
run(const uint8_t *data, size_t size, size_t piece, bool in_place, uint64_t max_message,
    bool refuse)
{
    struct outcome out = {0};
    struct gate gate = {refuse, 0};
    struct hspz_stream *stream = NULL;
    REQUIRE(hspz_stream_create(max_message, ask_gate, &gate, &stream) == HSPZ_OK);
    for (size_t at = 0; at < size && out.status == HSPZ_OK;) {
        if (in_place) {
            const size_t n = fill_body(stream, data + at, size - at, &out);
            at += n;
            if (n > 0) {
                continue;
            }
        }
        struct hspz_frame frame;
        size_t used;
        bool ready;
        const size_t n = piece < size - at ? piece : size - at;
        out.status = hspz_stream_feed(stream, data + at, n, &used, &ready, &frame, NULL);
        REQUIRE(used <= n && (ready || used == n || out.status != HSPZ_OK));
        at += used;
        if (ready) {
            take_frame(&frame, &out);
        }
    }
    out.admitted += hspz_stream_admitted(stream);
    REQUIRE(out.admitted == gate.admitted);
    hspz_stream_destroy(&stream);
    return out;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const uint64_t max_message = UINT64_C(64) << (data[1] >> 1) % 16;
    const bool refuse = data[1] & 1;
    const size_t piece = data[0] == 0 ? 1 : data[0];
    const struct outcome cut = run(data + 2, size - 2, piece, data[0] == 0, max_message, refuse);
    const struct outcome whole = run(data + 2, size - 2, SIZE_MAX, false, max_message, refuse);
    REQUIRE(cut.status == whole.status && cut.messages == whole.messages &&
            cut.bytes == whole.bytes && cut.sum == whole.sum && cut.admitted == whole.admitted);
    return 0;
}
