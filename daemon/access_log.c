#include "daemon/access_log.h"

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#define PEER_BYTES 128
/* More of a method's name than any of ours has. */
#define METHOD_BYTES 64u

static enum hspz_log_level
level(const struct hspz_conn *conn)
{
    return conn->service->config->access_log != 0 ? HSPZ_LOG_INFO : HSPZ_LOG_DEBUG;
}

static void
describe_peer(const struct hspz_conn *conn, char out[PEER_BYTES])
{
    uv_os_fd_t fd;
    struct sockaddr_storage address;
    struct ucred peer;
    socklen_t len = sizeof(address), peer_len = sizeof(peer);
    char host[64], port[8];
    snprintf(out, PEER_BYTES, "?");
    if (uv_fileno(&conn->io.handle, &fd) != 0) {
        return;
    }
    if (!conn->tcp && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0) {
        snprintf(out, PEER_BYTES, "uid:%u,pid:%d", peer.uid, (int)peer.pid);
    } else if (conn->tcp && getpeername(fd, (struct sockaddr *)&address, &len) == 0 &&
               getnameinfo((const struct sockaddr *)&address, len, host, sizeof(host), port,
                           sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        snprintf(out, PEER_BYTES, "tcp:%s:%s", host, port);
    }
}

void
hspz_access_log_accept(const struct hspz_conn *conn)
{
    if (level(conn) < conn->service->log->level) {
        return;
    }
    char peer[PEER_BYTES];
    describe_peer(conn, peer);
    HSPZ_LOG(conn->service->log, level(conn), "connection accepted", hspz_kv_uint("conn", conn->id),
             hspz_kv("peer", peer));
}

void
hspz_access_log_refuse(const struct hspz_conn *conn, const struct hspz_error *err)
{
    char peer[PEER_BYTES];
    describe_peer(conn, peer);
    HSPZ_LOG(conn->service->log, HSPZ_LOG_INFO, "connection refused to go on",
             hspz_kv_uint("conn", conn->id), hspz_kv("peer", peer),
             hspz_kv("code", hspz_status_name(err->status)), hspz_kv("why", err->text));
}

void
hspz_access_log_hello(const struct hspz_conn *conn, struct hspz_text client)
{
    if (level(conn) < conn->service->log->level) {
        return;
    }
    char peer[PEER_BYTES];
    describe_peer(conn, peer);
    HSPZ_LOG(conn->service->log, level(conn), "hello", hspz_kv_uint("conn", conn->id),
             hspz_kv("peer", peer), hspz_kv("tenant", conn->tenant->settings.name),
             hspz_kv_span("client", client.bytes, client.len));
}

void
hspz_access_log_request(const struct hspz_conn *conn, uint32_t id, struct hspz_text method,
                        enum hspz_status status, uint64_t begin_ns)
{
    const struct hspz_tenant *tenant = conn->tenant;
    if (conn->service->config->access_log == 0) {
        return;
    }
    HSPZ_LOG(
        conn->service->log, HSPZ_LOG_INFO, "request", hspz_kv_uint("conn", conn->id),
        hspz_kv_uint("id", id), hspz_kv("tenant", tenant != NULL ? tenant->settings.name : ""),
        hspz_kv_span("method", method.bytes, method.len < METHOD_BYTES ? method.len : METHOD_BYTES),
        hspz_kv("status", hspz_status_name(status)),
        hspz_kv_uint("us", (uv_hrtime() - begin_ns) / 1000));
}

void
hspz_access_log_close(const struct hspz_conn *conn, const char *why)
{
    HSPZ_LOG(conn->service->log, level(conn), "connection closed", hspz_kv_uint("conn", conn->id),
             hspz_kv("why", why), hspz_kv("state", hspz_conn_state_name(conn->state)));
}
