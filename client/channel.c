#include "client/channel.h"

#include "client/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* What it holds of a large body is copied once more: so little is read when one may follow. */
#define INPUT_BYTES 65536u
#define HEAD_BYTES 512u
/* More than any answer of the server: an anchors message has at most HSPZ_PART_BYTES_LIMIT. */
#define MESSAGE_LIMIT (UINT64_C(64) << 20)

struct hspz_channel {
    int fd;
    struct hspz_secure *secure; /* NULL: plain */
    bool send_failed;           /* the peer reads no more; what it still says is worth hearing */
    struct hspz_stream *stream;
    size_t in_begin, in_end;
    bool large;     /* the last message had a large body */
    bool mid_air;   /* part of an outgoing message was sent */
    uint8_t *posts; /* whole messages to send, from posts_sent on */
    size_t posts_len, posts_sent;
    bool expects_fds;
    int fds[2];
    size_t fd_count;
    int64_t moved_ms;
    char where[HSPZ_ADDRESS_TEXT_BYTES];
    uint8_t in[INPUT_BYTES];
};

static enum hspz_status
admit_all(void *user, uint64_t bytes)
{
    (void)user;
    (void)bytes;
    return HSPZ_OK;
}

enum hspz_status
hspz_channel_open(int fd, struct hspz_secure *secure, const char *where, struct hspz_channel **out)
{
    struct hspz_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    const enum hspz_status status =
        hspz_stream_create(MESSAGE_LIMIT, admit_all, NULL, &channel->stream);
    if (status != HSPZ_OK) {
        free(channel);
        return status;
    }
    const size_t len = strnlen(where, sizeof(channel->where) - 1);
    memcpy(channel->where, where, len);
    channel->fd = fd;
    channel->secure = secure;
    channel->moved_ms = hspz_clock_ms();
    *out = channel;
    return HSPZ_OK;
}

void
hspz_channel_close(struct hspz_channel **channel)
{
    if (*channel != NULL) {
        hspz_secure_close(&(*channel)->secure);
        close((*channel)->fd);
        hspz_channel_expect_fds(*channel, false);
        free((*channel)->posts);
        hspz_stream_destroy(&(*channel)->stream);
        free(*channel);
        *channel = NULL;
    }
}

int64_t
hspz_channel_moved_ms(const struct hspz_channel *channel)
{
    return channel->moved_ms;
}

bool
hspz_outgoing_done(const struct hspz_outgoing *out)
{
    return out == NULL || out->sent == out->head.len + out->body.len;
}

/* The same through TLS. */
static void
send_secure(struct hspz_channel *channel, struct hspz_outgoing *out)
{
    const bool in_head = out->sent < out->head.len;
    const struct hspz_span span = in_head ? out->head : out->body;
    const size_t at = in_head ? out->sent : out->sent - out->head.len;
    size_t sent = 0;
    if (hspz_secure_send(channel->secure, span.bytes + at, span.len - at, &sent) != HSPZ_OK) {
        channel->send_failed = true;
    } else if (sent > 0) {
        out->sent += sent;
        channel->moved_ms = hspz_clock_ms();
    }
}

static void
send_posts(struct hspz_channel *channel)
{
    const ssize_t n = send(channel->fd, channel->posts + channel->posts_sent,
                           channel->posts_len - channel->posts_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        channel->posts_sent += (size_t)n;
        channel->moved_ms = hspz_clock_ms();
    } else if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        channel->send_failed = true;
    }
    if (channel->posts_sent == channel->posts_len) {
        channel->posts_sent = channel->posts_len = 0;
    }
}

enum hspz_status
hspz_channel_post(struct hspz_channel *channel, const uint8_t *bytes, size_t len)
{
    HSPZ_REQUIRE(channel->secure == NULL);
    uint8_t *posts = realloc(channel->posts, channel->posts_len + len);
    if (posts == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    memcpy(posts + channel->posts_len, bytes, len);
    channel->posts = posts;
    channel->posts_len += len;
    if (!channel->mid_air && !channel->send_failed) {
        send_posts(channel);
    }
    return HSPZ_OK;
}

static void
send_plain(struct hspz_channel *channel, struct hspz_outgoing *out)
{
    struct iovec parts[2];
    size_t count = 0;
    if (out->sent < out->head.len) {
        parts[count++] = (struct iovec){
            .iov_base = (uint8_t *)(uintptr_t)out->head.bytes + out->sent,
            .iov_len = out->head.len - out->sent,
        };
    }
    const size_t body_sent = out->sent > out->head.len ? out->sent - out->head.len : 0;
    if (body_sent < out->body.len) {
        parts[count++] = (struct iovec){
            .iov_base = (uint8_t *)(uintptr_t)out->body.bytes + body_sent,
            .iov_len = out->body.len - body_sent,
        };
    }
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    const ssize_t n = sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        out->sent += (size_t)n;
        channel->moved_ms = hspz_clock_ms();
    } else if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        channel->send_failed = true;
    }
}

static void
send_some(struct hspz_channel *channel, struct hspz_outgoing *out)
{
    if (channel->posts_len > 0 && !channel->mid_air) {
        send_posts(channel);
    } else if (channel->secure != NULL) {
        send_secure(channel, out);
    } else {
        send_plain(channel, out);
        channel->mid_air = out->sent > 0 && !hspz_outgoing_done(out);
    }
}

void
hspz_channel_expect_fds(struct hspz_channel *channel, bool expected)
{
    channel->expects_fds = expected;
    while (channel->fd_count > 0) {
        (void)close(channel->fds[--channel->fd_count]);
    }
}

size_t
hspz_channel_take_fds(struct hspz_channel *channel, int fds[2])
{
    const size_t count = channel->fd_count;
    memcpy(fds, channel->fds, count * sizeof(fds[0]));
    channel->fd_count = 0;
    return count;
}

/* recv, and the descriptors that come along. */
static ssize_t
receive_with_fds(struct hspz_channel *channel, uint8_t *bytes, size_t room)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    const ssize_t n = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    for (struct cmsghdr *at = n >= 0 ? CMSG_FIRSTHDR(&message) : NULL; at != NULL;
         at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
            if (channel->fd_count < 2) {
                channel->fds[channel->fd_count++] = fd;
            } else {
                (void)close(fd);
            }
        }
    }
    return n;
}

static enum hspz_status
stream_failed(const struct hspz_channel *channel, enum hspz_status status,
              const struct hspz_error *why, struct hspz_error *err)
{
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        return hspz_error_set(err, status, "%s: no memory for what the server sends",
                              channel->where);
    }
    return hspz_error_set(err, HSPZ_E_BAD_PEER, "%s: this is no hspz server, or a broken one: %s",
                          channel->where, why->text);
}

/* Feeds what has been read. */
static enum hspz_status
take_input(struct hspz_channel *channel, bool *ready, struct hspz_frame *frame,
           struct hspz_error *err)
{
    while (channel->in_begin < channel->in_end && !*ready) {
        struct hspz_error why = {0};
        size_t used = 0;
        const enum hspz_status status =
            hspz_stream_feed(channel->stream, channel->in + channel->in_begin,
                             channel->in_end - channel->in_begin, &used, ready, frame, &why);
        if (status != HSPZ_OK) {
            return stream_failed(channel, status, &why, err);
        }
        channel->in_begin += used;
    }
    return HSPZ_OK;
}

/* What is there now; *got 0: nothing. */
static enum hspz_status
receive_bytes(struct hspz_channel *channel, uint8_t *bytes, size_t room, size_t *got, bool *ended,
              struct hspz_error *err)
{
    *got = 0;
    *ended = false;
    if (channel->secure != NULL) {
        return hspz_secure_receive(channel->secure, bytes, room, got, ended, channel->where, err);
    }
    const ssize_t n = channel->expects_fds ? receive_with_fds(channel, bytes, room)
                                           : recv(channel->fd, bytes, room, MSG_DONTWAIT);
    /* A peer that ends before it has read everything ends with a reset, to the kernel. */
    *ended = n == 0 || (n < 0 && errno == ECONNRESET);
    if (n < 0 && !*ended && errno != EAGAIN && errno != EINTR) {
        return hspz_error_errno(err, HSPZ_E_INCOMPLETE, errno, "%s: the connection broke",
                                channel->where);
    }
    *got = n > 0 ? (size_t)n : 0;
    return HSPZ_OK;
}

static enum hspz_status
receive_some(struct hspz_channel *channel, bool *ready, struct hspz_frame *frame,
             struct hspz_error *err)
{
    size_t room = 0, n = 0;
    bool ended = false;
    uint8_t *const body = hspz_stream_body(channel->stream, &room);
    const enum hspz_status received =
        room > 0
            ? receive_bytes(channel, body, room, &n, &ended, err)
            : receive_bytes(channel, channel->in, channel->large ? HEAD_BYTES : sizeof(channel->in),
                            &n, &ended, err);
    if (received != HSPZ_OK || (n == 0 && !ended)) {
        return received;
    }
    if (ended) {
        return hspz_error_set(err, HSPZ_E_INCOMPLETE, "%s: the server closed the connection%s",
                              channel->where,
                              hspz_stream_partial(channel->stream) ? " inside a message" : "");
    }
    channel->moved_ms = hspz_clock_ms();
    if (room == 0) {
        channel->in_begin = 0;
        channel->in_end = n;
        const enum hspz_status taken = take_input(channel, ready, frame, err);
        channel->large = channel->large && !*ready;
        return taken;
    }
    channel->large = true;
    const enum hspz_status status = hspz_stream_filled(channel->stream, n, ready, frame);
    const struct hspz_error why = {.status = status};
    return status == HSPZ_OK ? status : stream_failed(channel, status, &why, err);
}

enum hspz_status
hspz_channel_turn(struct hspz_channel *channel, struct hspz_outgoing *out, int stop_fd,
                  int64_t idle_ms, int64_t deadline_ms, bool *ready, struct hspz_frame *frame,
                  struct hspz_error *err)
{
    *ready = false;
    const int64_t begin = hspz_clock_ms();
    enum hspz_status status = take_input(channel, ready, frame, err);
    while (status == HSPZ_OK && !*ready) {
        const int64_t now = hspz_clock_ms();
        const int64_t quiet_since = channel->moved_ms > begin ? channel->moved_ms : begin;
        int64_t left = quiet_since + idle_ms - now;
        left = deadline_ms - now < left ? deadline_ms - now : left;
        if (left <= 0) {
            return HSPZ_OK;
        }
        const bool sending =
            (!hspz_outgoing_done(out) || channel->posts_len > 0) && !channel->send_failed;
        const bool pending = channel->secure != NULL && hspz_secure_pending(channel->secure);
        short got = 0;
        status = hspz_socket_wait(channel->fd, (short)(sending ? POLLIN | POLLOUT : POLLIN),
                                  stop_fd, pending ? 0 : left, &got);
        got = pending ? (short)(got | POLLIN) : got;
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "%s: %s", channel->where, hspz_status_text(status));
        }
        if ((got & ~POLLOUT) != 0) {
            status = receive_some(channel, ready, frame, err);
        }
        if (status == HSPZ_OK && sending && (got & POLLOUT) != 0) {
            send_some(channel, out);
        }
    }
    return status;
}
