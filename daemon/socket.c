#include "daemon/socket.h"

#include "daemon/config_options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 511

static const struct hspz_socket none = {.fd = -1, .lock_fd = -1};

void
hspz_socket_unlink(struct hspz_socket *s)
{
    struct stat st;
    if (s->path != NULL && lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino) {
        (void)unlink(s->path);
    }
    free(s->path);
    s->path = NULL;
}

void
hspz_socket_fini(struct hspz_socket *s)
{
    hspz_socket_unlink(s);
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    if (s->lock_fd >= 0) {
        (void)close(s->lock_fd);
    }
    *s = none;
}

static enum hspz_status
make_folder(const char *path, struct hspz_error *err)
{
    char *folder = strdup(path);
    if (folder == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a path");
    }
    enum hspz_status status = HSPZ_OK;
    char *slash = strrchr(folder, '/');
    if (slash != NULL && slash != folder) {
        *slash = '\0';
        if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
            status =
                hspz_error_errno(err, HSPZ_E_IO, errno, "unix:%s: cannot make %s", path, folder);
        }
    }
    free(folder);
    return status;
}

/* Locks PATH.lock, which stays when we go: to remove it would let two daemons each hold a lock. */
static enum hspz_status
take_lock(const char *path, int *out, struct hspz_error *err)
{
    char *lock = NULL;
    if (asprintf(&lock, "%s.lock", path) < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a path");
    }
    enum hspz_status status = HSPZ_OK;
    const int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "unix:%s: cannot open %s", path, lock);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int why = errno;
        char text[32] = "";
        const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        const long pid = n > 0 ? strtol(text, NULL, 10) : 0;
        if (why != EWOULDBLOCK) {
            status = hspz_error_errno(err, HSPZ_E_IO, why, "unix:%s: cannot lock %s", path, lock);
        } else if (pid > 0) {
            status = hspz_error_set(err, HSPZ_E_IO, "unix:%s is in use by process %ld", path, pid);
        } else {
            status = hspz_error_set(err, HSPZ_E_IO, "unix:%s is in use: %s is locked", path, lock);
        }
        (void)close(fd);
    } else {
        *out = fd;
    }
    free(lock);
    return status;
}

/* For the message of the next who comes: nothing depends on it. */
static void
write_pid(int lock_fd)
{
    char text[32];
    const int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(lock_fd, 0) == 0) {
        (void)!pwrite(lock_fd, text, (size_t)len, 0);
    }
}

/* Removes a socket that nobody listens on; anything else at the path is an error. */
static enum hspz_status
clear_path(const struct sockaddr_un *addr, struct hspz_error *err)
{
    struct stat st;
    const char *path = addr->sun_path;
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? HSPZ_OK : hspz_error_errno(err, HSPZ_E_IO, errno, "unix:%s", path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return hspz_error_set(err, HSPZ_E_IO, "unix:%s: there is %s at this path, not a socket",
                              path,
                              S_ISREG(st.st_mode)   ? "a file"
                              : S_ISDIR(st.st_mode) ? "a folder"
                              : S_ISLNK(st.st_mode) ? "a link"
                                                    : "something");
    }
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "unix:%s: socket", path);
    }
    const int result = connect(probe, (const struct sockaddr *)addr, sizeof(*addr));
    const int why = errno;
    (void)close(probe);
    if (result == 0 || why == EAGAIN || why == EINPROGRESS) {
        return hspz_error_set(err, HSPZ_E_IO, "unix:%s is in use by another process", path);
    }
    if (why != ECONNREFUSED) {
        return hspz_error_errno(err, HSPZ_E_IO, why, "unix:%s: cannot tell who listens there",
                                path);
    }
    if (unlink(path) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "unix:%s: cannot remove the old socket",
                                path);
    }
    return HSPZ_OK;
}

static enum hspz_status
listen_unix(const struct sockaddr_un *addr, struct hspz_socket *s, struct hspz_error *err)
{
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: socket", s->address);
    }
    const mode_t before = umask(0177);
    const int result = bind(s->fd, (const struct sockaddr *)addr, sizeof(*addr));
    const int why = errno;
    umask(before);
    if (result != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, why, "%s", s->address);
    }
    struct stat st;
    s->path = strdup(addr->sun_path);
    if (s->path == NULL || lstat(addr->sun_path, &st) != 0) {
        (void)unlink(addr->sun_path);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory for the path", s->address);
    }
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    if (listen(s->fd, BACKLOG) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: listen", s->address);
    }
    return HSPZ_OK;
}

static enum hspz_status
path_too_long(const char *path, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "unix:%s: the path is longer than a socket's may be (%zu bytes)", path,
                          sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
}

enum hspz_status
hspz_socket_bind_unix(const char *path, bool make_parent, struct hspz_socket *out,
                      struct hspz_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(addr.sun_path)) {
        return path_too_long(path, err);
    }
    strcpy(addr.sun_path, path);
    struct hspz_socket s = none;
    snprintf(s.address, sizeof(s.address), "unix:%s", addr.sun_path);
    enum hspz_status status = make_parent ? make_folder(path, err) : HSPZ_OK;
    if (status == HSPZ_OK) {
        status = take_lock(path, &s.lock_fd, err);
    }
    if (status == HSPZ_OK) {
        status = clear_path(&addr, err);
    }
    if (status == HSPZ_OK) {
        status = listen_unix(&addr, &s, err);
    }
    if (status != HSPZ_OK) {
        hspz_socket_fini(&s);
        return status;
    }
    write_pid(s.lock_fd);
    *out = s;
    return HSPZ_OK;
}

enum hspz_status
hspz_socket_check_unix(const char *path, bool make_parent, bool is_default, struct hspz_error *err)
{
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        return path_too_long(path, err);
    }
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        return hspz_error_set(err, HSPZ_E_IO, "unix:%s: there is something else than a socket",
                              path);
    }
    char *folder = strdup(path);
    if (folder == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a path");
    }
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        slash[slash == folder] = '\0';
    }
    const bool good =
        access(slash != NULL ? folder : ".", W_OK | X_OK) == 0 || (make_parent && errno == ENOENT);
    enum hspz_status status = HSPZ_OK;
    if (!good) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "unix:%s: %s%s", path,
                                  is_default ? "give --socket PATH: cannot write to " : "",
                                  slash != NULL ? folder : ".");
    }
    free(folder);
    return status;
}

static enum hspz_status
find_group(const char *group, gid_t *out, struct hspz_error *err)
{
    uint64_t number = 0;
    if (hspz_config_parse_number(group, false, &number) && number < UINT32_MAX) {
        *out = (gid_t)number;
        return HSPZ_OK;
    }
    errno = 0;
    const struct group *found = getgrnam(group);
    if (found == NULL) {
        return errno != 0 ? hspz_error_errno(err, HSPZ_E_IO, errno, "socket_group: %s", group)
                          : hspz_error_set(err, HSPZ_E_IO, "socket_group: there is no group \"%s\"",
                                           group);
    }
    *out = found->gr_gid;
    return HSPZ_OK;
}

enum hspz_status
hspz_socket_check_group(const char *group, struct hspz_error *err)
{
    gid_t gid;
    return find_group(group, &gid, err);
}

enum hspz_status
hspz_socket_share(const struct hspz_socket *s, const char *group, unsigned mode,
                  struct hspz_error *err)
{
    gid_t gid = (gid_t)-1;
    const enum hspz_status status = group != NULL ? find_group(group, &gid, err) : HSPZ_OK;
    if (status != HSPZ_OK) {
        return status;
    }
    if (group != NULL && lchown(s->path, (uid_t)-1, gid) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: socket_group %s", s->address, group);
    }
    if (chmod(s->path, (mode_t)mode) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: socket_mode %04o", s->address, mode);
    }
    return HSPZ_OK;
}

static bool
is_loopback(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
    return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127);
}

static enum hspz_status
not_loopback(const char *address, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "%s is no loopback address: other machines are let in only with tenants, "
                          "and TLS (tls_certificate) or insecure; to metrics with insecure",
                          address);
}

static enum hspz_status
resolve(const char *text, struct addrinfo **out, struct hspz_error *err)
{
    char host[HSPZ_LISTEN_HOST_BYTES], port[8];
    uint16_t number;
    const enum hspz_status status = hspz_listen_parse(text, host, &number, err);
    if (status != HSPZ_OK) {
        return status;
    }
    snprintf(port, sizeof(port), "%u", number);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    const int result = getaddrinfo(host, port, &hints, out);
    if (result != 0) {
        return hspz_error_set(err, HSPZ_E_IO, "tcp:%s: %s", text, gai_strerror(result));
    }
    return HSPZ_OK;
}

static void
set_address(struct hspz_socket *s, const struct sockaddr *addr)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(s->address, sizeof(s->address), "tcp:%s:%u", host, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(s->address, sizeof(s->address), "tcp:[%s]:%u", host, ntohs(in6->sin6_port));
    }
}

static enum hspz_status
listen_tcp(const struct addrinfo *info, bool network, struct hspz_socket *s, struct hspz_error *err)
{
    const int on = 1;
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    s->tcp = true;
    set_address(s, info->ai_addr);
    if (!network && !is_loopback(info->ai_addr)) {
        return not_loopback(s->address, err);
    }
    s->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (info->ai_family == AF_INET6 &&
         setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) ||
        bind(s->fd, info->ai_addr, info->ai_addrlen) != 0 || listen(s->fd, BACKLOG) != 0 ||
        getsockname(s->fd, (struct sockaddr *)&bound, &len) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s", s->address);
    }
    set_address(s, (const struct sockaddr *)&bound);
    return HSPZ_OK;
}

enum hspz_status
hspz_socket_bind_tcp(const char *text, bool network, struct hspz_socket *out,
                     struct hspz_error *err)
{
    struct addrinfo *list = NULL;
    enum hspz_status status = resolve(text, &list, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = HSPZ_E_IO;
    for (const struct addrinfo *a = list; a != NULL && status != HSPZ_OK; a = a->ai_next) {
        struct hspz_socket s = none;
        status = listen_tcp(a, network, &s, err);
        if (status == HSPZ_OK) {
            *out = s;
        } else {
            hspz_socket_fini(&s);
        }
    }
    freeaddrinfo(list);
    return status;
}

enum hspz_status
hspz_socket_check_tcp(const char *text, bool network, struct hspz_error *err)
{
    struct addrinfo *list = NULL;
    enum hspz_status status = resolve(text, &list, err);
    if (status != HSPZ_OK) {
        return status;
    }
    bool good = network;
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        good = good || is_loopback(a->ai_addr);
    }
    freeaddrinfo(list);
    char address[HSPZ_ADDRESS_BYTES];
    snprintf(address, sizeof(address), "tcp:%s", text);
    return good ? HSPZ_OK : not_loopback(address, err);
}

enum hspz_status
hspz_socket_adopt(int fd, bool network, struct hspz_socket *out, struct hspz_error *err)
{
    int type = 0, listening = 0;
    socklen_t type_len = sizeof(type), listening_len = sizeof(listening);
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_len) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "inherited descriptor %d is no socket", fd);
    }
    const bool tcp = addr.ss_family == AF_INET || addr.ss_family == AF_INET6;
    if (type != SOCK_STREAM || !listening || (!tcp && addr.ss_family != AF_UNIX)) {
        return hspz_error_set(err, HSPZ_E_IO,
                              "inherited descriptor %d is not a listening UNIX or TCP stream "
                              "socket",
                              fd);
    }
    struct hspz_socket s = none;
    s.inherited = true;
    s.tcp = tcp;
    if (tcp) {
        set_address(&s, (const struct sockaddr *)&addr);
        if (!network && !is_loopback((const struct sockaddr *)&addr)) {
            return not_loopback(s.address, err);
        }
    } else {
        const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&addr;
        const int path_len = (int)len - (int)offsetof(struct sockaddr_un, sun_path);
        snprintf(s.address, sizeof(s.address), "unix:%s%.*s",
                 path_len > 0 && un->sun_path[0] == '\0' ? "@" : "", path_len > 0 ? path_len : 0,
                 path_len > 0 && un->sun_path[0] == '\0' ? un->sun_path + 1 : un->sun_path);
    }
    const int flags = fcntl(fd, F_GETFL), fd_flags = fcntl(fd, F_GETFD);
    if (flags < 0 || fd_flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, fd_flags | FD_CLOEXEC) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "inherited descriptor %d", fd);
    }
    s.fd = fd;
    *out = s;
    return HSPZ_OK;
}

enum hspz_status
hspz_socket_is_at(const struct hspz_socket *s, const char *text, bool *out, struct hspz_error *err)
{
    struct addrinfo *list = NULL;
    const enum hspz_status status = resolve(text, &list, err);
    if (status != HSPZ_OK) {
        return status;
    }
    bool found = false;
    for (const struct addrinfo *a = list; a != NULL && !found; a = a->ai_next) {
        struct hspz_socket other = none;
        set_address(&other, a->ai_addr);
        found = s->tcp && strcmp(other.address, s->address) == 0;
    }
    freeaddrinfo(list);
    *out = found;
    return HSPZ_OK;
}
