#include "daemon/listener.h"

#include "daemon/conn.h"
#include "daemon/notify.h"
#include "daemon/socket.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 511
/* At most one line in so long about connections that could not be taken. */
#define COMPLAIN_MS 10000u

struct listener {
    struct hspz_socket socket;
    struct hspz_service *service;
    struct hspz_handles handles;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    bool stopped;
    bool owed; /* a connection waits in libuv to be accepted */
    uint64_t complained_ms;
};

struct hspz_listeners {
    struct listener *items;
    size_t count;
};

static void
on_all_closed(void *owner)
{
    (void)owner;
}

static void
complain(struct listener *l, const char *why)
{
    const uint64_t now = uv_now(l->service->loop);
    if (l->complained_ms == 0 || now - l->complained_ms >= COMPLAIN_MS) {
        l->complained_ms = now;
        HSPZ_LOG(l->service->log, HSPZ_LOG_WARNING, "a connection was not taken",
                 hspz_kv("address", l->socket.address), hspz_kv("why", why));
    }
}

static void
take(struct listener *l)
{
    struct hspz_error err;
    const enum hspz_status status =
        hspz_conn_accept(l->service, &l->io.stream, l->socket.tcp, &err);
    l->owed = status == HSPZ_E_OUT_OF_MEMORY;
    if (status != HSPZ_OK) {
        l->service->stats.accept_errors += status != HSPZ_E_QUEUE_FULL;
        complain(l, err.text);
    }
}

static void
on_connection(uv_stream_t *stream, int result)
{
    struct listener *l = hspz_handle_owner((uv_handle_t *)stream);
    if (result == 0) {
        take(l);
        return;
    }
    /* libuv would call again at once, as long as the reason lasts. */
    l->service->stats.accept_errors++;
    complain(l, uv_err_name(result));
    hspz_handle_close(&l->io.handle);
}

/* Listens on a duplicate, so that closing the handle pauses and does not give up the address. */
static enum hspz_status
open_handle(struct listener *l, struct hspz_error *err)
{
    const int fd = fcntl(l->socket.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        return hspz_error_set(err, HSPZ_E_IO, "%s: no descriptor is left", l->socket.address);
    }
    int result = l->socket.tcp ? uv_tcp_init(l->service->loop, &l->io.tcp)
                               : uv_pipe_init(l->service->loop, &l->io.pipe, 0);
    if (result != 0) {
        (void)close(fd);
        return hspz_uv_error(err, result, l->socket.address);
    }
    hspz_handles_add(&l->handles, &l->io.handle);
    result = l->socket.tcp ? uv_tcp_open(&l->io.tcp, fd) : uv_pipe_open(&l->io.pipe, fd);
    if (result != 0) {
        (void)close(fd);
    } else {
        result = uv_listen(&l->io.stream, BACKLOG, on_connection);
    }
    if (result != 0) {
        hspz_handle_close(&l->io.handle);
        return hspz_uv_error(err, result, l->socket.address);
    }
    return HSPZ_OK;
}

static struct hspz_socket *
add(struct hspz_listeners *listeners)
{
    struct listener *grown =
        realloc(listeners->items, (listeners->count + 1) * sizeof(*listeners->items));
    if (grown == NULL) {
        return NULL;
    }
    listeners->items = grown;
    grown[listeners->count] = (struct listener){.socket = {.fd = -1, .lock_fd = -1}};
    return &grown[listeners->count++].socket;
}

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a listener");
}

/* An inherited socket has to be one that the configuration names, where it names any. */
static enum hspz_status
check_inherited(const struct hspz_config *config, const struct hspz_socket *s,
                struct hspz_error *err)
{
    if (!s->tcp) {
        if (!config->socket_is_default && strcmp(s->address + 5, config->socket_path) != 0) {
            return hspz_error_set(err, HSPZ_E_IO, "inherited %s is not the configured unix:%s",
                                  s->address, config->socket_path);
        }
        return HSPZ_OK;
    }
    bool found = config->listen_count == 0;
    for (size_t i = 0; i < config->listen_count && !found; i++) {
        const enum hspz_status status = hspz_socket_is_at(s, config->listen[i], &found, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return found ? HSPZ_OK
                 : hspz_error_set(err, HSPZ_E_IO, "inherited %s is none of the configured ones",
                                  s->address);
}

static enum hspz_status
bind_inherited(struct hspz_listeners *listeners, const struct hspz_config *config,
               struct hspz_error *err)
{
    int first = 0;
    const int count = hspz_notify_inherited(&first);
    if (count < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, -count, "inherited sockets");
    }
    for (int i = 0; i < count; i++) {
        struct hspz_socket *s = add(listeners);
        if (s == NULL) {
            return no_memory(err);
        }
        enum hspz_status status =
            hspz_socket_adopt(first + i, hspz_config_serves_network(config), s, err);
        if (status == HSPZ_OK) {
            status = check_inherited(config, s, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
bind_listen(struct hspz_listeners *listeners, const char *text, bool network,
            struct hspz_error *err)
{
    for (size_t i = 0; i < listeners->count; i++) {
        bool found = false;
        const enum hspz_status status =
            hspz_socket_is_at(&listeners->items[i].socket, text, &found, err);
        if (status != HSPZ_OK || found) {
            return status;
        }
    }
    struct hspz_socket *s = add(listeners);
    return s != NULL ? hspz_socket_bind_tcp(text, network, s, err) : no_memory(err);
}

static enum hspz_status
bind_all(struct hspz_listeners *listeners, const struct hspz_config *config, struct hspz_error *err)
{
    enum hspz_status status = bind_inherited(listeners, config, err);
    bool have_unix = false;
    for (size_t i = 0; i < listeners->count; i++) {
        have_unix = have_unix || !listeners->items[i].socket.tcp;
    }
    /* A manager that hands over TCP only has left the default UNIX path to nobody. */
    const bool want_unix = *config->socket_path != '\0' && !have_unix &&
                           !(config->socket_is_default && listeners->count > 0);
    if (status == HSPZ_OK && want_unix) {
        struct hspz_socket *s = add(listeners);
        const bool make = config->socket_is_default && geteuid() == 0;
        status = s != NULL ? HSPZ_OK : no_memory(err);
        if (status == HSPZ_OK && config->socket_is_default) {
            status = hspz_socket_check_unix(config->socket_path, make, true, err);
        }
        if (status == HSPZ_OK) {
            status = hspz_socket_bind_unix(config->socket_path, make, s, err);
        }
        const char *group = config->socket_group;
        if (status == HSPZ_OK) {
            status = hspz_socket_share(s, group != NULL && *group != '\0' ? group : NULL,
                                       hspz_config_socket_mode(config), err);
        }
    }
    for (size_t i = 0; i < config->listen_count && status == HSPZ_OK; i++) {
        status = bind_listen(listeners, config->listen[i], hspz_config_serves_network(config), err);
    }
    if (status == HSPZ_OK && listeners->count == 0) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "there is nothing to listen on (socket and listen are empty)");
    }
    return status;
}

enum hspz_status
hspz_listeners_bind(const struct hspz_config *config, struct hspz_log *log,
                    struct hspz_listeners **out, struct hspz_error *err)
{
    struct hspz_listeners *listeners = calloc(1, sizeof(*listeners));
    if (listeners == NULL) {
        return no_memory(err);
    }
    const enum hspz_status status = bind_all(listeners, config, err);
    if (status != HSPZ_OK) {
        hspz_listeners_destroy(&listeners);
        return status;
    }
    for (size_t i = 0; i < listeners->count; i++) {
        const struct hspz_socket *s = &listeners->items[i].socket;
        const bool tls = hspz_config_serves_tls(config);
        HSPZ_LOG(log, HSPZ_LOG_INFO, "listening", hspz_kv("address", s->address),
                 hspz_kv("from", s->inherited ? "inherited" : "bound"),
                 hspz_kv("tls", s->tcp && tls ? "yes" : "no"));
        if (s->tcp && !tls && hspz_config_serves_network(config)) {
            HSPZ_LOG(log, HSPZ_LOG_WARNING, "tokens and data pass here unencrypted",
                     hspz_kv("address", s->address));
        }
        if (s->tcp && !config->has_tenants) {
            HSPZ_LOG(log, HSPZ_LOG_WARNING, "every local user may use this address",
                     hspz_kv("address", s->address));
        }
    }
    *out = listeners;
    return HSPZ_OK;
}

enum hspz_status
hspz_listeners_start(struct hspz_listeners *listeners, struct hspz_service *service,
                     struct hspz_error *err)
{
    for (size_t i = 0; i < listeners->count; i++) {
        struct listener *l = &listeners->items[i];
        l->service = service;
        hspz_handles_init(&l->handles, l, on_all_closed);
    }
    for (size_t i = 0; i < listeners->count; i++) {
        const enum hspz_status status = open_handle(&listeners->items[i], err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return HSPZ_OK;
}

size_t
hspz_listeners_count(const struct hspz_listeners *listeners)
{
    return listeners->count;
}

const char *
hspz_listeners_address(const struct hspz_listeners *listeners, size_t i)
{
    return listeners->items[i].socket.address;
}

void
hspz_listeners_tick(struct hspz_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        struct listener *l = &listeners->items[i];
        if (l->stopped) {
            continue;
        }
        if (l->owed) {
            take(l);
        }
        if (l->handles.open == 0) {
            struct hspz_error err;
            if (open_handle(l, &err) != HSPZ_OK) {
                complain(l, err.text);
            }
        }
    }
}

void
hspz_listeners_stop(struct hspz_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        struct listener *l = &listeners->items[i];
        l->stopped = true;
        if (l->handles.open > 0) {
            hspz_handle_close(&l->io.handle);
        }
        hspz_socket_unlink(&l->socket);
    }
}

void
hspz_listeners_destroy(struct hspz_listeners **listeners)
{
    if (*listeners == NULL) {
        return;
    }
    for (size_t i = 0; i < (*listeners)->count; i++) {
        HSPZ_REQUIRE((*listeners)->items[i].handles.open == 0);
        hspz_socket_fini(&(*listeners)->items[i].socket);
    }
    free((*listeners)->items);
    free(*listeners);
    *listeners = NULL;
}
