#include "client/socket.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUSY_PAUSE_MS 10

int64_t
hspz_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum hspz_status
hspz_socket_wait(int fd, short events, int stop_fd, int64_t timeout_ms, short *got)
{
    struct pollfd fds[2] = {
        {.fd = fd, .events = events},
        {.fd = stop_fd > 0 ? stop_fd : -1, .events = POLLIN},
    };
    const int64_t until = hspz_clock_ms() + timeout_ms;
    int64_t left = timeout_ms;
    do {
        const int n = poll(fds, 2, left > INT_MAX ? INT_MAX : (int)left);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return HSPZ_E_IO;
        }
        if (n > 0 && fds[1].revents != 0) {
            return HSPZ_E_STOPPED;
        }
        if (n > 0) {
            *got = fds[0].revents;
            return HSPZ_OK;
        }
        left = until - hspz_clock_ms();
    } while (left > 0);
    *got = 0;
    return HSPZ_OK;
}

static enum hspz_status
connect_error(const char *where, int error, struct hspz_error *err)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR:
        return hspz_error_errno(err, HSPZ_E_NO_SERVER, error, "%s: not running", where);
    case EACCES:
    case EPERM:
        return hspz_error_errno(err, HSPZ_E_FORBIDDEN, error, "%s: refused", where);
    case EAGAIN:
    case ETIMEDOUT:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
        return hspz_error_errno(err, HSPZ_E_NO_SERVER, error, "%s: no server answers", where);
    default:
        return hspz_error_errno(err, HSPZ_E_IO, error, "%s: cannot connect", where);
    }
}

/* Takes the connect of a socket that does not block to its end; the outcome as an errno value. */
static enum hspz_status
finish_connect(int fd, int64_t until, int stop_fd, int *error)
{
    short got = 0;
    const int64_t left = until - hspz_clock_ms();
    const enum hspz_status status =
        hspz_socket_wait(fd, POLLOUT, stop_fd, left > 0 ? left : 0, &got);
    if (status != HSPZ_OK) {
        return status;
    }
    if (got == 0) {
        *error = ETIMEDOUT;
        return HSPZ_OK;
    }
    socklen_t len = sizeof(*error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &len) != 0) {
        *error = errno;
    }
    return HSPZ_OK;
}

static enum hspz_status
connect_one(const struct sockaddr *to, socklen_t len, int64_t until, int stop_fd, int *out,
            int *error)
{
    enum hspz_status status = HSPZ_OK;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *error = errno;
        return HSPZ_OK;
    }
    while (connect(fd, to, len) != 0) {
        *error = errno;
        if (*error == EINPROGRESS || *error == EINTR) {
            status = finish_connect(fd, until, stop_fd, error);
            goto out;
        }
        /* A full backlog of a UNIX socket: the server is there, and busy. */
        if (*error != EAGAIN || hspz_clock_ms() >= until) {
            goto out;
        }
        short got;
        status = hspz_socket_wait(-1, 0, stop_fd, BUSY_PAUSE_MS, &got);
        if (status != HSPZ_OK) {
            goto out;
        }
    }
    *error = 0;
out:
    if (status == HSPZ_OK && *error == 0) {
        *out = fd;
        fd = -1;
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

static enum hspz_status
connect_tcp(const struct hspz_address *address, const char *where, int64_t until, int stop_fd,
            int *out, struct hspz_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const int failed = getaddrinfo(address->host, address->port, &hints, &list);
    if (failed != 0) {
        return hspz_error_set(err, failed == EAI_MEMORY ? HSPZ_E_OUT_OF_MEMORY : HSPZ_E_NO_SERVER,
                              "%s: the host's address cannot be found: %s", where,
                              gai_strerror(failed));
    }
    enum hspz_status status = HSPZ_OK;
    int error = ENOENT;
    int fd = -1;
    int64_t left = 0; /* addresses: each has its share of the time */
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        left++;
    }
    for (const struct addrinfo *at = list; at != NULL && fd < 0 && status == HSPZ_OK;
         at = at->ai_next) {
        const int64_t now = hspz_clock_ms();
        status = connect_one(at->ai_addr, at->ai_addrlen, now + (until - now) / left--, stop_fd,
                             &fd, &error);
    }
    freeaddrinfo(list);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "%s: %s", where, hspz_status_text(status));
    }
    if (fd < 0) {
        return connect_error(where, error, err);
    }
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    *out = fd;
    return HSPZ_OK;
}

enum hspz_status
hspz_socket_connect(const struct hspz_address *address, int64_t timeout_ms, int stop_fd, int *out,
                    struct hspz_error *err)
{
    char where[HSPZ_ADDRESS_TEXT_BYTES];
    hspz_address_print(address, where);
    const int64_t until = hspz_clock_ms() + timeout_ms;
    if (address->tcp) {
        return connect_tcp(address, where, until, stop_fd, out, err);
    }
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t len = strlen(address->host);
    HSPZ_REQUIRE(len < sizeof(to.sun_path));
    memcpy(to.sun_path, address->host, len);
    int error = 0;
    const enum hspz_status status =
        connect_one((const struct sockaddr *)&to, sizeof(to), until, stop_fd, out, &error);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "%s: %s", where, hspz_status_text(status));
    }
    return error != 0 ? connect_error(where, error, err) : HSPZ_OK;
}
