/* What a connection sends, as it is or through TLS.
 *
 * With TLS, sends wait in a queue; a slice of it at a time is encrypted into a buffer that libuv
 * has, and the next when the socket has taken that. So what is held of ciphertext for a slow peer
 * is bounded by the slice, and what is plain by what the connection may send anyway. */
#include "daemon/conn_p.h"

#include <stdlib.h>

/* Plain bytes of a slice. */
#define SLICE_BYTES 131072u

struct slice {
    uv_write_t write;
    struct hspz_conn *conn;
    struct hspz_send *sends; /* that end with it */
    char bytes[];
};

static void
on_plain_written(uv_write_t *write, int result)
{
    struct hspz_send *send = write->data;
    send->done(send, result);
}

static void
on_shut(uv_shutdown_t *shutdown, int result)
{
    struct hspz_conn *conn = shutdown->data;
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
    }
}

static void
shut(struct hspz_conn *conn)
{
    conn->shutdown.data = conn;
    const int result = uv_shutdown(&conn->shutdown, &conn->io.stream, on_shut);
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
    }
}

/* Encrypts what is left of a send, at most *room bytes. */
static enum hspz_status
encrypt_send(struct hspz_conn_tls *t, struct hspz_send *send, size_t *room)
{
    size_t skip = send->encrypted;
    for (unsigned i = 0; i<send->count && * room> 0; i++) {
        const size_t from = skip < send->bufs[i].len ? skip : send->bufs[i].len;
        const size_t rest = send->bufs[i].len - from;
        const size_t part = rest < *room ? rest : *room;
        const enum hspz_status status = hspz_tls_write(t->tls, send->bufs[i].base + from, part);
        if (status != HSPZ_OK) {
            return status;
        }
        skip -= from;
        send->encrypted += part;
        t->waiting_bytes -= part;
        *room -= part;
    }
    return HSPZ_OK;
}

/* Encrypts a slice of the queue; sends that are through move to `sending`. */
static enum hspz_status
encrypt(struct hspz_conn_tls *t)
{
    struct hspz_send **last = &t->sending;
    size_t room = SLICE_BYTES;
    while (t->waiting != NULL && room > 0) {
        struct hspz_send *send = t->waiting;
        const enum hspz_status status = encrypt_send(t, send, &room);
        if (status != HSPZ_OK) {
            return status;
        }
        if (send->encrypted == send->total) {
            t->waiting = send->next;
            t->waiting_last = t->waiting != NULL ? t->waiting_last : &t->waiting;
            send->next = NULL;
            *last = send;
            last = &send->next;
        }
    }
    return HSPZ_OK;
}

/* Sends end in the order they came. */
static void
end_sends(struct hspz_send **list, int result)
{
    while (*list != NULL) {
        struct hspz_send *send = *list;
        *list = send->next;
        send->done(send, result);
    }
}

static void
on_slice_written(uv_write_t *write, int result)
{
    struct slice *slice = write->data;
    struct hspz_conn *conn = slice->conn;
    struct hspz_send *sends = slice->sends;
    free(slice);
    end_sends(&sends, result);
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
        return;
    }
    hspz_conn_flush(conn);
}

static int
send_slice(struct hspz_conn *conn, size_t len)
{
    struct slice *slice = malloc(sizeof(*slice) + len);
    if (slice == NULL) {
        return UV_ENOMEM;
    }
    slice->conn = conn;
    slice->sends = conn->tls.sending;
    slice->write.data = slice;
    int result = hspz_tls_take(conn->tls.tls, slice->bytes, len) == HSPZ_OK ? 0 : UV_EIO;
    if (result == 0) {
        const uv_buf_t buf = uv_buf_init(slice->bytes, (unsigned)len);
        result = uv_write(&slice->write, &conn->io.stream, &buf, 1, on_slice_written);
    }
    if (result != 0) {
        free(slice);
        return result;
    }
    conn->tls.sending = NULL;
    return 0;
}

/* One slice, and whether another may follow. */
static bool
flush_slice(struct hspz_conn *conn)
{
    struct hspz_conn_tls *t = &conn->tls;
    if (!t->failed && encrypt(t) != HSPZ_OK) {
        hspz_conn_close(conn, "no memory to encrypt");
        return false;
    }
    if (t->ending && (t->waiting == NULL || t->failed) && !t->finished) {
        hspz_tls_finish(t->tls);
        t->finished = true;
    }
    const size_t len = hspz_tls_pending(t->tls);
    const int result = len > 0 ? send_slice(conn, len) : 0;
    if (result != 0) {
        hspz_conn_close(conn, uv_err_name(result));
        return false;
    }
    if (len == 0 && t->finished && !t->shut) {
        t->shut = true;
        shut(conn);
    }
    return len > 0;
}

void
hspz_conn_flush(struct hspz_conn *conn)
{
    bool more = conn->tls.tls != NULL;
    while (more && hspz_conn_state_reads(conn->state) &&
           uv_stream_get_write_queue_size(&conn->io.stream) == 0) {
        more = flush_slice(conn);
    }
}

int
hspz_conn_send(struct hspz_conn *conn, struct hspz_send *send)
{
    struct hspz_conn_tls *t = &conn->tls;
    if (t->tls == NULL) {
        send->write.data = send;
        return uv_write(&send->write, &conn->io.stream, send->bufs, send->count, on_plain_written);
    }
    send->next = NULL;
    send->encrypted = send->total = 0;
    *t->waiting_last = send;
    t->waiting_last = &send->next;
    for (unsigned i = 0; i < send->count; i++) {
        send->total += send->bufs[i].len;
    }
    t->waiting_bytes += send->total;
    hspz_conn_flush(conn);
    return 0;
}

void
hspz_conn_finish(struct hspz_conn *conn)
{
    if (conn->tls.tls == NULL) {
        shut(conn);
        return;
    }
    conn->tls.ending = true;
    hspz_conn_flush(conn);
}

void
hspz_conn_drop_sends(struct hspz_conn *conn)
{
    end_sends(&conn->tls.sending, UV_ECANCELED);
    end_sends(&conn->tls.waiting, UV_ECANCELED);
    conn->tls.waiting_last = &conn->tls.waiting;
    conn->tls.waiting_bytes = 0;
}

uint64_t
hspz_conn_unsent(const struct hspz_conn *conn)
{
    return uv_stream_get_write_queue_size(&conn->io.stream) + conn->tls.waiting_bytes;
}
