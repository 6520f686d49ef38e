/* A connection's reads and writes. */
#include "daemon/conn_p.h"

#include "daemon/access_log.h"
#include "daemon/conn_shm.h"
#include "daemon/dispatch.h"
#include "daemon/shm_ring.h"
#include "protocol/message.h"

#include <stdlib.h>
#include <string.h>

#define TLS_RECORD_BYTES 16384u
#define TLS_HANDSHAKE 0x16u /* the first byte of a client that speaks it */

struct reply {
    struct hspz_send send;
    struct hspz_conn *conn;
    uint8_t *bytes;
    size_t len;
};

static bool
wants_input(const struct hspz_conn *conn)
{
    if (!hspz_conn_state_serves(conn->state)) {
        return hspz_conn_state_reads(conn->state);
    }
    if (conn->tls.shaker.next != NULL) {
        return false;
    }
    const uint64_t held = conn->ingest_bytes - hspz_stream_admitted(conn->splitter);
    return conn->reply_bytes <= HSPZ_REPLY_BYTES &&
           held < conn->service->config->ingest_per_connection;
}

/* Looks at input until it is used up, or reading has to pause; returns what was used. */
static size_t
take_input(struct hspz_conn *conn, const uint8_t *bytes, size_t len)
{
    size_t at = 0;
    bool completed = false;
    while (at < len && hspz_conn_state_serves(conn->state) && wants_input(conn)) {
        size_t used = 0;
        bool ready = false;
        struct hspz_frame frame = {0};
        struct hspz_error err;
        const enum hspz_status status =
            hspz_stream_feed(conn->splitter, bytes + at, len - at, &used, &ready, &frame, &err);
        at += used;
        if (status != HSPZ_OK) {
            hspz_dispatch_broken(conn, &err);
            return len;
        }
        if (ready) {
            completed = true;
            hspz_dispatch_frame(conn, &frame);
        }
    }
    if (!hspz_conn_state_serves(conn->state)) {
        return len;
    }
    if (!hspz_stream_partial(conn->splitter)) {
        conn->window_ms = 0;
    } else if (completed || conn->window_ms == 0) {
        conn->window_ms = uv_now(conn->service->loop);
        conn->window_bytes = 0;
    }
    conn->window_bytes += at;
    return at;
}

/* Keeps what was not looked at for when reading goes on. */
static void
stash_input(struct hspz_conn *conn, const uint8_t *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    uint8_t *stash = malloc(len);
    if (stash == NULL) {
        hspz_conn_close(conn, "out of memory");
        return;
    }
    memcpy(stash, bytes, len);
    conn->stash = stash;
    conn->stash_len = len;
}

static void
on_input(struct hspz_conn *conn, const uint8_t *bytes, size_t len)
{
    const size_t used = take_input(conn, bytes, len);
    if (used < len) {
        stash_input(conn, bytes + used, len - used);
    }
}

static void
on_body(struct hspz_conn *conn, size_t len)
{
    bool ready = false;
    struct hspz_frame frame = {0};
    const enum hspz_status status = hspz_stream_filled(conn->splitter, len, &ready, &frame);
    if (status != HSPZ_OK) {
        struct hspz_error err;
        hspz_error_set(&err, status, "%s", hspz_status_text(status));
        hspz_dispatch_broken(conn, &err);
        return;
    }
    conn->window_bytes += len;
    if (ready) {
        conn->window_ms = 0;
        hspz_dispatch_frame(conn, &frame);
    }
}

/* Nothing is served any more; the peer has LAST_MS to hang up. */
static void
end_last(struct hspz_conn *conn)
{
    hspz_conn_move(&conn->state, HSPZ_CONN_LAST);
    conn->last_ms = uv_now(conn->service->loop);
    hspz_conn_stop_serving(conn);
    hspz_conn_finish(conn);
    hspz_conn_gate(conn);
}

/* Nothing that is sent in plain can follow; TLS may have an alert to send. */
static void
fail_tls(struct hspz_conn *conn, const struct hspz_error *err)
{
    hspz_access_log_refuse(conn, err);
    conn->tls.failed = true;
    end_last(conn);
}

/* Looks at what TLS has of the peer's, until it is used up or reading has to pause. */
static void
read_tls(struct hspz_conn *conn)
{
    uint8_t plain[TLS_RECORD_BYTES];
    conn->tls.paused = false;
    while (hspz_conn_state_serves(conn->state)) {
        if (conn->stash != NULL || !wants_input(conn)) {
            conn->tls.paused = true;
            break;
        }
        size_t room = 0, got = 0;
        uint8_t *const body = hspz_stream_body(conn->splitter, &room);
        struct hspz_error err;
        const enum hspz_status status =
            room > 0 ? hspz_tls_read(conn->tls.tls, body, room, &got, &err)
                     : hspz_tls_read(conn->tls.tls, plain, sizeof(plain), &got, &err);
        if (status == HSPZ_E_INCOMPLETE) {
            hspz_conn_close(conn, err.text);
        } else if (status != HSPZ_OK) {
            fail_tls(conn, &err);
        } else if (got == 0) {
            break;
        } else if (room > 0) {
            on_body(conn, got);
        } else {
            on_input(conn, plain, got);
        }
    }
    hspz_conn_flush(conn);
}

static void
on_encrypted(struct hspz_conn *conn, const uint8_t *bytes, size_t len)
{
    struct hspz_error err;
    if (!conn->tls.begun && bytes[0] != TLS_HANDSHAKE) {
        hspz_error_set(&err, HSPZ_E_BAD_PEER, "the peer does not speak TLS");
        fail_tls(conn, &err);
        return;
    }
    conn->tls.begun = true;
    if (hspz_tls_feed(conn->tls.tls, bytes, len) != HSPZ_OK) {
        hspz_conn_close(conn, "out of memory");
    } else if (hspz_tls_shaken(conn->tls.tls) ||
               !hspz_shakes_push(&conn->service->shakes, &conn->tls.shaker)) {
        read_tls(conn);
    }
}

void
hspz_conn_shake(struct hspz_shaker *shaker)
{
    struct hspz_conn *conn =
        (struct hspz_conn *)(void *)((char *)shaker - offsetof(struct hspz_conn, tls.shaker));
    conn->in_input = true;
    read_tls(conn);
    conn->in_input = false;
    hspz_conn_gate(conn);
    hspz_scheduler_pump(&conn->service->scheduler);
}

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct hspz_conn *conn = hspz_handle_owner(handle);
    size_t room = 0;
    uint8_t *body = conn->splitter != NULL && conn->tls.tls == NULL
                        ? hspz_stream_body(conn->splitter, &room)
                        : NULL;
    if (room == 0) {
        body = conn->service->read_buffer;
        room = HSPZ_READ_BYTES;
    }
    *buf = uv_buf_init((char *)body, room < (1u << 30) ? (unsigned)room : 1u << 30);
}

static void
on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct hspz_conn *conn = hspz_handle_owner((uv_handle_t *)stream);
    if (nread == 0) {
        return;
    }
    if (nread < 0) {
        hspz_conn_close(conn, nread == UV_EOF ? "end of file" : uv_err_name((int)nread));
    } else {
        conn->service->stats.bytes_in += (uint64_t)nread;
        conn->in_input = true;
        if (!hspz_conn_state_serves(conn->state)) {
            /* Thrown away: only the peer's end is awaited. */
        } else if (conn->tls.tls != NULL) {
            on_encrypted(conn, (const uint8_t *)buf->base, (size_t)nread);
        } else if (buf->base == (char *)conn->service->read_buffer) {
            on_input(conn, (const uint8_t *)buf->base, (size_t)nread);
        } else {
            on_body(conn, (size_t)nread);
        }
        conn->in_input = false;
        hspz_conn_gate(conn);
    }
    hspz_scheduler_pump(&conn->service->scheduler);
}

void
hspz_conn_gate(struct hspz_conn *conn)
{
    if (conn->in_input || !hspz_conn_state_reads(conn->state)) {
        return;
    }
    while (conn->stash != NULL && wants_input(conn)) {
        uint8_t *stash = conn->stash;
        conn->stash = NULL;
        conn->in_input = true;
        on_input(conn, stash, conn->stash_len);
        conn->in_input = false;
        free(stash);
    }
    if (conn->tls.paused && hspz_conn_state_serves(conn->state) && wants_input(conn)) {
        conn->in_input = true;
        read_tls(conn);
        conn->in_input = false;
    }
    if (!hspz_conn_state_reads(conn->state)) {
        return;
    }
    const bool want = wants_input(conn);
    if (want == conn->reading) {
        return;
    }
    const int result =
        want ? uv_read_start(&conn->io.stream, on_alloc, on_read) : uv_read_stop(&conn->io.stream);
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
        return;
    }
    conn->reading = want;
}

static void
on_reply_sent(struct hspz_send *send, int result)
{
    struct reply *reply = send->user;
    struct hspz_conn *conn = reply->conn;
    conn->reply_bytes -= reply->len;
    free(reply->bytes);
    free(reply);
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
    } else {
        hspz_conn_gate(conn);
        hspz_scheduler_pump(&conn->service->scheduler);
        conn->service->changed(conn->service);
    }
}

void
hspz_conn_reply(struct hspz_conn *conn, struct hspz_writer *w)
{
    struct reply *reply = calloc(1, sizeof(*reply));
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (!hspz_conn_state_serves(conn->state)) {
        hspz_writer_fini(w);
        free(reply);
        return;
    }
    if (reply == NULL || hspz_writer_take(w, &bytes, &len) != HSPZ_OK) {
        hspz_writer_fini(w);
        free(reply);
        hspz_conn_close(conn, "no memory for an answer");
        return;
    }
    *reply = (struct reply){.conn = conn, .bytes = bytes, .len = len};
    reply->send.user = reply;
    reply->send.done = on_reply_sent;
    reply->send.bufs[0] = uv_buf_init((char *)bytes, (unsigned)len);
    reply->send.count = 1;
    const int result = hspz_conn_send(conn, &reply->send);
    if (result != 0) {
        free(bytes);
        free(reply);
        hspz_conn_close(conn, uv_err_name(result));
        return;
    }
    conn->reply_bytes += len;
    conn->submitted_bytes += len;
    conn->service->stats.bytes_out += len;
    hspz_conn_gate(conn);
}

void
hspz_conn_reply_error(struct hspz_conn *conn, uint32_t id, const struct hspz_error *err)
{
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_response_error(&w, id, err);
    hspz_conn_reply(conn, &w);
}

void
hspz_conn_reply_last(struct hspz_conn *conn, uint32_t id, const struct hspz_error *err)
{
    if (!hspz_conn_state_serves(conn->state)) {
        return;
    }
    hspz_access_log_refuse(conn, err);
    hspz_conn_reply_error(conn, id, err);
    if (!hspz_conn_state_serves(conn->state)) {
        return;
    }
    end_last(conn);
}

void
hspz_conn_give_part(struct hspz_conn *conn, struct hspz_buffer *buffer)
{
    HSPZ_REQUIRE(conn->parts_held > 0);
    conn->parts_held--;
    hspz_conn_return_part(conn, buffer);
    hspz_conn_update(conn);
}

static void
on_part_sent(struct hspz_send *send, int result)
{
    struct hspz_buffer *buffer = send->user;
    struct hspz_conn *conn = buffer->holder;
    if (buffer->ring == NULL || hspz_shm_ring_sent(buffer->ring, buffer, result != 0)) {
        hspz_conn_give_part(conn, buffer);
    }
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
    }
    hspz_scheduler_pump(&conn->service->scheduler);
    conn->service->changed(conn->service);
}

void
hspz_conn_send_part(struct hspz_conn *conn, struct hspz_buffer *buffer)
{
    if (!hspz_conn_state_serves(conn->state)) {
        hspz_conn_give_part(conn, buffer);
        return;
    }
    const bool placed = buffer->ring != NULL;
    buffer->header.len = 0;
    buffer->write_head(&buffer->header, buffer);
    if (buffer->header.failed) {
        hspz_writer_fini(&buffer->header);
        hspz_writer_init(&buffer->header);
        hspz_conn_give_part(conn, buffer);
        hspz_conn_close(conn, "no memory for a part");
        return;
    }
    buffer->holder = conn;
    buffer->send.user = buffer;
    buffer->send.done = on_part_sent;
    buffer->send.bufs[0] = uv_buf_init((char *)buffer->header.bytes, (unsigned)buffer->header.len);
    buffer->send.bufs[1] = uv_buf_init(buffer->anchors, (unsigned)buffer->bytes);
    buffer->send.count = placed ? 1 : 2;
    const size_t len = buffer->header.len + (placed ? 0 : buffer->bytes);
    if (placed) {
        hspz_shm_ring_lend(buffer->ring, buffer);
    }
    const int result = hspz_conn_send(conn, &buffer->send);
    if (result != 0) {
        if (placed) {
            (void)hspz_shm_ring_sent(buffer->ring, buffer, true);
        }
        hspz_conn_give_part(conn, buffer);
        hspz_conn_close(conn, uv_err_name(result));
        return;
    }
    conn->submitted_bytes += len;
    conn->service->stats.bytes_out += len;
    conn->service->stats.parts++;
    if (placed) {
        conn->service->stats.shm.parts++;
        conn->service->stats.shm.bytes_out += buffer->bytes;
    }
    *buffer->sent += buffer->count;
}
