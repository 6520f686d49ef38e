#include "daemon/conn_shm.h"

#include "daemon/shm_pool.h"
#include "daemon/shm_ring.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than the parts of a ring, at any configuration. */
#define OFFSETS_LIMIT 64u

struct hspz_conn_shm {
    struct hspz_shm_segment *segment;
    struct hspz_shm_ring *ring;
    size_t input_bytes;
    uint64_t charged_bytes;     /* to the tenant */
    uint64_t returns, moved_ms; /* parts given back, and when that last changed */
    uint64_t waits_since_ns;    /* the head job, for a part; 0: it does not */
};

static enum hspz_status
check_open(const struct hspz_conn *conn, struct hspz_error *err)
{
    const struct hspz_shm_pool *pool = conn->service->shm_pool;
    const struct hspz_tenant *tenant = conn->tenant;
    if (conn->tcp) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "memory is shared with clients on the UNIX socket only");
    }
    if (pool == NULL) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "this server shares no memory (shm_memory)");
    }
    if (conn->shm != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "this connection has shared memory already");
    }
    const uint64_t most = tenant->settings.max_shm_bytes;
    const uint64_t bytes = hspz_shm_pool_segment_bytes(pool);
    if (most != 0 && (bytes > most || tenant->shm_bytes > most - bytes)) {
        hspz_error_set(err, HSPZ_E_QUOTA_EXCEEDED,
                       "connections of this tenant share %" PRIu64 " bytes of memory; %" PRIu64
                       " more are over its limit (max_shm_bytes)",
                       tenant->shm_bytes, bytes);
        return hspz_error_limit(err, HSPZ_E_QUOTA_EXCEEDED, most);
    }
    return HSPZ_OK;
}

static enum hspz_status
create(struct hspz_conn *conn, uid_t uid, struct hspz_conn_shm **out, struct hspz_error *err)
{
    struct hspz_shm_pool *pool = conn->service->shm_pool;
    const struct hspz_config *config = conn->service->config;
    struct hspz_conn_shm *shm = calloc(1, sizeof(*shm));
    if (shm == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to share");
    }
    enum hspz_status status = hspz_shm_pool_take(pool, uid, &shm->segment, err);
    if (status == HSPZ_OK) {
        status = hspz_shm_ring_create(shm->segment->ring, (size_t)config->part_bytes,
                                      (unsigned)config->parts_per_connection, &shm->ring);
        if (status != HSPZ_OK) {
            hspz_error_set(err, status, "no memory to share");
        }
    }
    if (status != HSPZ_OK) {
        hspz_shm_pool_give(pool, &shm->segment);
        free(shm);
        return status;
    }
    shm->input_bytes = hspz_shm_pool_input_bytes(pool);
    shm->moved_ms = uv_now(conn->service->loop);
    shm->charged_bytes = hspz_shm_pool_segment_bytes(pool);
    *out = shm;
    return HSPZ_OK;
}

static void
destroy(struct hspz_conn *conn, struct hspz_conn_shm **shm)
{
    hspz_shm_ring_destroy(&(*shm)->ring);
    hspz_shm_pool_give(conn->service->shm_pool, &(*shm)->segment);
    free(*shm);
    *shm = NULL;
}

/* The response and the descriptors, in one message that libuv knows nothing of: nothing of the
 * connection's may be waiting before it. */
static enum hspz_status
send_descriptors(struct hspz_conn *conn, int socket, const struct hspz_conn_shm *shm,
                 const struct hspz_writer *w, struct hspz_error *err)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    int fds[2] = {-1, shm->segment->input_fd};
    const enum hspz_status status = hspz_shm_segment_reader(shm->segment, &fds[0], err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct iovec bytes = {.iov_base = w->bytes, .iov_len = w->len};
    const struct msghdr message = {.msg_iov = &bytes,
                                   .msg_iovlen = 1,
                                   .msg_control = control.bytes,
                                   .msg_controllen = sizeof(control.bytes)};
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
    ssize_t n = 0;
    do {
        n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    const int error = errno;
    (void)close(fds[0]);
    if (n < 0) {
        const bool full = error == EAGAIN || error == ENOBUFS || error == ETOOMANYREFS;
        return hspz_error_errno(err, full ? HSPZ_E_QUEUE_FULL : HSPZ_E_IO, error,
                                "descriptors cannot be sent");
    }
    conn->submitted_bytes += (uint64_t)n;
    conn->service->stats.bytes_out += (uint64_t)n;
    if ((size_t)n < w->len) {
        hspz_conn_close(conn, "half an answer was sent");
    }
    return HSPZ_OK;
}

static enum hspz_status
answer(struct hspz_conn *conn, uint32_t id, int socket, const struct hspz_conn_shm *shm,
       struct hspz_error *err)
{
    const struct hspz_shm_result result = {
        .ring_bytes = hspz_shm_pool_ring_bytes(conn->service->shm_pool),
        .input_bytes = shm->input_bytes,
    };
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_shm_result_encode(&w, id, &result);
    const enum hspz_status status =
        w.failed ? hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an answer")
                 : send_descriptors(conn, socket, shm, &w, err);
    hspz_writer_fini(&w);
    return status;
}

static enum hspz_status
open_shm(struct hspz_conn *conn, uint32_t id, struct hspz_error *err)
{
    enum hspz_status status = check_open(conn, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (hspz_conn_unsent(conn) > 0) {
        return hspz_error_set(err, HSPZ_E_QUEUE_FULL,
                              "what was sent before is not read: descriptors cannot follow it");
    }
    uv_os_fd_t socket;
    struct ucred peer;
    socklen_t len = sizeof(peer);
    const int result = uv_fileno(&conn->io.handle, &socket);
    if (result != 0) {
        return hspz_uv_error(err, result, "the peer's descriptor");
    }
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return hspz_error_errno(err, HSPZ_E_UNSUPPORTED, errno, "the peer's user is not known");
    }
    struct hspz_conn_shm *shm = NULL;
    status = create(conn, peer.uid, &shm, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = answer(conn, id, socket, shm, err);
    if (status != HSPZ_OK) {
        destroy(conn, &shm);
        return status;
    }
    conn->tenant->shm_bytes += shm->charged_bytes;
    conn->shm = shm;
    conn->service->stats.shm.opened++;
    return HSPZ_OK;
}

enum hspz_status
hspz_conn_shm_open(struct hspz_conn *conn, uint32_t id, struct hspz_error *err)
{
    const enum hspz_status status = open_shm(conn, id, err);
    conn->service->stats.shm.refused += status != HSPZ_OK && conn->shm == NULL;
    return status;
}

void
hspz_conn_shm_wait(struct hspz_conn *conn, bool waits)
{
    struct hspz_conn_shm *shm = conn->shm;
    struct hspz_shm_stats *stats = &conn->service->stats.shm;
    if (shm == NULL || waits == (shm->waits_since_ns != 0)) {
        return;
    }
    const uint64_t now_ns = uv_hrtime();
    stats->waits += waits;
    stats->waited_ns += waits ? 0 : now_ns - shm->waits_since_ns;
    shm->waits_since_ns = waits ? now_ns : 0;
}

void
hspz_conn_shm_close(struct hspz_conn *conn)
{
    if (conn->shm != NULL) {
        HSPZ_REQUIRE(conn->tenant->shm_bytes >= conn->shm->charged_bytes);
        conn->tenant->shm_bytes -= conn->shm->charged_bytes;
        destroy(conn, &conn->shm);
    }
}

void
hspz_conn_shm_reclaim(struct hspz_conn *conn)
{
    struct hspz_buffer *buffer = NULL;
    while (conn->shm != NULL && (buffer = hspz_shm_ring_reclaim(conn->shm->ring)) != NULL) {
        conn->parts_held--;
        hspz_conn_return_part(conn, buffer);
    }
}

enum hspz_status
hspz_conn_shm_freed(struct hspz_conn *conn, const struct hspz_node *params, struct hspz_error *err)
{
    uint64_t offsets[OFFSETS_LIMIT];
    size_t count = 0;
    const enum hspz_status status =
        hspz_shm_free_decode(params, offsets, OFFSETS_LIMIT, &count, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (conn->shm == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              HSPZ_SHM_FREE ": this connection has no shared memory");
    }
    /* Giving one back may end the connection, and then the client has none. */
    for (size_t i = 0; i < count && hspz_conn_state_serves(conn->state); i++) {
        struct hspz_buffer *back = NULL;
        if (!hspz_shm_ring_freed(conn->shm->ring, offsets[i], &back)) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  HSPZ_SHM_FREE ": the client has no part at %" PRIu64, offsets[i]);
        }
        if (back != NULL) {
            hspz_conn_give_part(conn, back);
        }
    }
    return HSPZ_OK;
}

bool
hspz_conn_shm_stuck(struct hspz_conn *conn, uint64_t now_ms)
{
    struct hspz_conn_shm *shm = conn->shm;
    if (shm == NULL) {
        return false;
    }
    const uint64_t returns = hspz_shm_ring_returns(shm->ring);
    if (hspz_shm_ring_lent(shm->ring) == 0 || returns != shm->returns) {
        shm->returns = returns;
        shm->moved_ms = now_ms;
        return false;
    }
    return now_ms - shm->moved_ms >= conn->service->config->write_timeout_ms;
}

enum hspz_status
hspz_conn_shm_check(const struct hspz_conn *conn, bool wanted, struct hspz_error *err)
{
    return !wanted || conn->shm != NULL
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_BAD_REQUEST, "this connection has no shared memory");
}

enum hspz_status
hspz_conn_shm_inside(const struct hspz_conn *conn, uint64_t offset, size_t len,
                     struct hspz_error *err)
{
    const uint64_t room = conn->shm->input_bytes;
    return offset <= room && len <= room - offset
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "%zu bytes at %" PRIu64 " are not within the input's %" PRIu64, len,
                                offset, room);
}

enum hspz_status
hspz_conn_shm_copy(const struct hspz_conn *conn, uint64_t offset, size_t len, uint8_t *to,
                   struct hspz_error *err)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t n =
            pread(conn->shm->segment->input_fd, to + done, len - done, (off_t)(offset + done));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return hspz_error_errno(err, HSPZ_E_IO, n < 0 ? errno : EIO,
                                    "the input cannot be read");
        }
        done += n > 0 ? (size_t)n : 0;
    }
    conn->service->stats.shm.bytes_in += len;
    return HSPZ_OK;
}

enum hspz_status
hspz_conn_take_part(struct hspz_conn *conn, bool shm, struct hspz_buffer **out)
{
    *out = shm ? hspz_shm_ring_take(conn->shm->ring) : NULL;
    if (*out != NULL) {
        return HSPZ_OK;
    }
    /* Places that strays have are missing, maybe for ever: the stream does for those. */
    return shm && conn->strays == 0
               ? HSPZ_E_QUOTA_EXCEEDED
               : hspz_buffers_take(conn->service->buffers, conn->parts_held, out);
}

void
hspz_conn_return_part(struct hspz_conn *conn, struct hspz_buffer *buffer)
{
    if (buffer->ring != NULL) {
        hspz_conn_shm_wait(conn, false);
        hspz_shm_ring_give(buffer->ring, buffer);
    } else {
        hspz_buffers_give(conn->service->buffers, &buffer);
    }
}
