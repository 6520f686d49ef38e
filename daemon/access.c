#include "daemon/access.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* When one without room for its connection may try again. */
#define RETRY_MS 1000u

#define TO_ALL (1u << HSPZ_ROLE_USER | 1u << HSPZ_ROLE_OPERATOR)
#define TO_OPERATORS (1u << HSPZ_ROLE_OPERATOR)

/* The one place that says who may call what. */
static const unsigned method_roles[HSPZ_METHOD_COUNT] = {
    [HSPZ_METHOD_HELLO] = TO_ALL,
    [HSPZ_METHOD_DISCOVER] = TO_ALL,
    [HSPZ_METHOD_CANCEL] = TO_ALL,
    [HSPZ_METHOD_INDEX_LIST] = TO_ALL,
    [HSPZ_METHOD_INDEX_DESCRIBE] = TO_ALL,
    [HSPZ_METHOD_INDEX_LOAD] = TO_OPERATORS,
    [HSPZ_METHOD_INDEX_UNLOAD] = TO_OPERATORS,
    [HSPZ_METHOD_INDEX_BUILD] = TO_OPERATORS,
    [HSPZ_METHOD_STATS] = TO_ALL,
    [HSPZ_METHOD_HEALTH] = TO_ALL,
    [HSPZ_METHOD_DRAIN] = TO_OPERATORS,
    [HSPZ_METHOD_SHM_OPEN] = TO_ALL,
    [HSPZ_METHOD_FILTER_CREATE] = TO_ALL,
    [HSPZ_METHOD_FILTER_INSERT] = TO_ALL,
    [HSPZ_METHOD_FILTER_INSERT_IF_ABSENT] = TO_ALL,
    [HSPZ_METHOD_FILTER_QUERY] = TO_ALL,
    [HSPZ_METHOD_FILTER_COUNT] = TO_ALL,
    [HSPZ_METHOD_FILTER_DELETE] = TO_ALL,
    [HSPZ_METHOD_FILTER_DECREMENT] = TO_ALL,
    [HSPZ_METHOD_FILTER_ENUMERATE] = TO_ALL,
    [HSPZ_METHOD_FILTER_MERGE] = TO_ALL,
    [HSPZ_METHOD_FILTER_SAVE] = TO_ALL,
    [HSPZ_METHOD_FILTER_LOAD] = TO_ALL,
    [HSPZ_METHOD_FILTER_DROP] = TO_ALL,
    [HSPZ_METHOD_FILTER_LIST] = TO_ALL,
    [HSPZ_METHOD_FILTER_STATS] = TO_ALL,
};

bool
hspz_role_may(enum hspz_role role, enum hspz_method method)
{
    return (method_roles[method] & 1u << role) != 0;
}

static enum hspz_status
get_peer(const struct hspz_conn *conn, uv_os_fd_t *fd, struct ucred *peer, struct hspz_error *err)
{
    const int result = uv_fileno(&conn->io.handle, fd);
    if (result != 0) {
        return hspz_uv_error(err, result, "the peer's descriptor");
    }
    socklen_t len = sizeof(*peer);
    if (getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, peer, &len) != 0) {
        return hspz_error_errno(err, HSPZ_E_UNAUTHORIZED, errno, "the peer's user is not known");
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_access_accept(struct hspz_conn *conn, struct hspz_error *err)
{
    const struct hspz_tenants *tenants = &conn->service->tenants;
    if (conn->tcp || tenants->named) {
        return HSPZ_OK;
    }
    uv_os_fd_t fd;
    struct ucred peer;
    const enum hspz_status status = get_peer(conn, &fd, &peer, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (peer.uid == tenants->overflow_uid || (peer.uid != 0 && peer.uid != geteuid())) {
        return hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                              "user %u may not use this server, which runs as user %u", peer.uid,
                              geteuid());
    }
    return HSPZ_OK;
}

/* The first of two tenants in the configuration's order; `a` may be NULL. */
static struct hspz_tenant *
earlier(struct hspz_tenant *a, struct hspz_tenant *b)
{
    const struct hspz_tenant *t = b;
    while (t != NULL && t != a) {
        t = t->next;
    }
    return a == NULL || t != NULL ? b : a;
}

/* The groups that the peer had when it connected, the one of its credentials first. */
static enum hspz_status
get_groups(uv_os_fd_t fd, gid_t first, gid_t **out, size_t *count, struct hspz_error *err)
{
    socklen_t bytes = 0;
    gid_t none;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, &none, &bytes) != 0 && errno != ERANGE) {
        return hspz_error_errno(err, HSPZ_E_UNAUTHORIZED, errno, "the peer's groups");
    }
    gid_t *groups = calloc(1 + bytes / sizeof(gid_t), sizeof(gid_t));
    if (groups == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the peer's groups");
    }
    groups[0] = first;
    if (bytes > 0 && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &bytes) != 0) {
        free(groups);
        return hspz_error_errno(err, HSPZ_E_UNAUTHORIZED, errno, "the peer's groups");
    }
    *out = groups;
    *count = 1 + bytes / sizeof(gid_t);
    return HSPZ_OK;
}

static enum hspz_status
find_unix(const struct hspz_conn *conn, struct hspz_credential *by, struct hspz_tenant **out,
          struct hspz_error *err)
{
    const struct hspz_tenants *tenants = &conn->service->tenants;
    uv_os_fd_t fd;
    struct ucred peer;
    enum hspz_status status = get_peer(conn, &fd, &peer, err);
    if (status != HSPZ_OK) {
        return status;
    }
    *by = (struct hspz_credential){.kind = HSPZ_CREDENTIAL_UID, .id = peer.uid};
    *out = hspz_tenants_find(tenants, by);
    if (*out != NULL) {
        return HSPZ_OK;
    }
    gid_t *groups = NULL;
    size_t count = 0;
    status = get_groups(fd, peer.gid, &groups, &count, err);
    if (status != HSPZ_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const struct hspz_credential group = {.kind = HSPZ_CREDENTIAL_GID, .id = groups[i]};
        struct hspz_tenant *found = hspz_tenants_find(tenants, &group);
        if (found != NULL && earlier(*out, found) != *out) {
            *out = found;
            *by = group;
        }
    }
    free(groups);
    return *out != NULL ? HSPZ_OK
                        : hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                                         "user %u is none of this server's tenants", peer.uid);
}

static enum hspz_status
find_token(const struct hspz_tenants *tenants, struct hspz_text token, struct hspz_credential *by,
           struct hspz_tenant **out, struct hspz_error *err)
{
    by->kind = HSPZ_CREDENTIAL_TOKEN;
    const enum hspz_status status = hspz_sha256(token.bytes, token.len, by->sha256);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "the token cannot be checked: %s",
                              hspz_status_text(status));
    }
    *out = hspz_tenants_find(tenants, by);
    return *out != NULL ? HSPZ_OK
                        : hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                                         "the token is none of this server's tenants'");
}

enum hspz_status
hspz_access_hello(struct hspz_conn *conn, struct hspz_text token, struct hspz_error *err)
{
    const struct hspz_tenants *tenants = &conn->service->tenants;
    struct hspz_credential by = {.kind = HSPZ_CREDENTIAL_NONE};
    struct hspz_tenant *found = NULL;
    enum hspz_status status = HSPZ_OK;
    if (!tenants->named) {
        found = hspz_tenants_find(tenants, &by);
    } else if (token.len > 0) {
        status = find_token(tenants, token, &by, &found, err);
    } else if (conn->tls.tls != NULL && hspz_tls_peer(conn->tls.tls, by.sha256)) {
        by.kind = HSPZ_CREDENTIAL_CERTIFICATE;
        found = hspz_tenants_find(tenants, &by);
        status = found != NULL
                     ? HSPZ_OK
                     : hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                                      "the certificate is none of this server's tenants'");
    } else if (conn->tcp) {
        status =
            hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                           conn->tls.tls != NULL ? "this server asks for a token or certificate"
                                                 : "this server asks for a token");
    } else {
        status = find_unix(conn, &by, &found, err);
    }
    const uint64_t most = conn->service->conn_limit;
    if (status == HSPZ_OK &&
        !hspz_tenant_has_room(tenants, found, HSPZ_HELD_CONNECTIONS, 1, most)) {
        status =
            hspz_error_set(err, HSPZ_E_QUEUE_FULL,
                           "%u connections of tenant \"%s\" are open; a quarter of all %" PRIu64
                           " is kept for tenants that have few (max_connections)",
                           found->uses, found->settings.name, most);
        err->has_retry = true;
        err->retry_ms = RETRY_MS;
    }
    if (status == HSPZ_OK) {
        hspz_tenant_hold(found);
        conn->tenant = found;
        conn->known_by = by;
    }
    return status;
}

enum hspz_role
hspz_access_role(const struct hspz_conn *conn)
{
    if (!conn->service->tenants.named) {
        return conn->tcp ? HSPZ_ROLE_USER : HSPZ_ROLE_OPERATOR;
    }
    return (enum hspz_role)conn->tenant->settings.role;
}

enum hspz_status
hspz_access_check(const struct hspz_conn *conn, enum hspz_method method, struct hspz_error *err)
{
    if (conn->revoked) {
        return hspz_error_set(err, HSPZ_E_UNAUTHORIZED,
                              "the server's configuration has changed, and this connection's peer "
                              "is not let in by it");
    }
    return hspz_role_may(hspz_access_role(conn), method)
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_FORBIDDEN, "%s is for operators",
                                hspz_method_name(method));
}

void
hspz_access_reload(struct hspz_service *service)
{
    for (struct hspz_conn *c = service->conns; c != NULL; c = c->next) {
        if (c->tenant != NULL) {
            c->revoked = hspz_tenants_find(&service->tenants, &c->known_by) != c->tenant;
        }
    }
}
