#include "client/servers.h"

#include "client/socket.h"
#include "client/srv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct hspz_servers {
    const struct hspz_cli *cli;
    struct hspz_server_list list;
    bool looked, failed; /* at all, and the last time */
    int64_t looked_ms;
    struct stat seen; /* of the file; zeroed while there is none */
};

/* Of --server, the first that DNS has; NULL: none. */
static const char *
asks_dns(const struct hspz_cli *cli)
{
    char name[HSPZ_SRV_NAME_BYTES];
    bool tls;
    for (size_t i = 0; i < cli->servers.count; i++) {
        if (hspz_srv_name(cli->servers.items[i], name, &tls, NULL) != HSPZ_E_UNSUPPORTED) {
            return cli->servers.items[i];
        }
    }
    return NULL;
}

bool
hspz_servers_many(const struct hspz_cli *cli)
{
    return cli->servers_file != NULL || cli->servers.count > 1 || asks_dns(cli) != NULL;
}

enum hspz_status
hspz_servers_check_one(const struct hspz_cli *cli, const char *what, struct hspz_error *err)
{
    const char *const dns = asks_dns(cli);
    if (!hspz_servers_many(cli)) {
        return HSPZ_OK;
    }
    if (cli->servers_file == NULL && dns == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s works with one server, not with %zu; give one --server", what,
                              cli->servers.count);
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "%s works with one server, not with those of %s%.200s; name it with "
                          "--server",
                          what, dns != NULL ? "--server " : "--servers ",
                          dns != NULL ? dns : cli->servers_file);
}

enum hspz_status
hspz_servers_check(const struct hspz_cli *cli, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (cli->servers_file != NULL && cli->servers.count > 0) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--server or --servers, not both");
    }
    for (size_t i = 0; i < cli->servers.count && status == HSPZ_OK; i++) {
        char name[HSPZ_SRV_NAME_BYTES];
        bool tls;
        struct hspz_address address;
        status = hspz_srv_name(cli->servers.items[i], name, &tls, err);
        if (status == HSPZ_E_UNSUPPORTED) {
            status = hspz_address_parse(cli->servers.items[i], &address, err);
        }
    }
    return status;
}

enum hspz_status
hspz_servers_open(const struct hspz_cli *cli, struct hspz_servers **out, struct hspz_error *err)
{
    struct hspz_servers *servers = calloc(1, sizeof(*servers));
    if (servers == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for addresses");
    }
    servers->cli = cli;
    *out = servers;
    return HSPZ_OK;
}

void
hspz_servers_close(struct hspz_servers **servers)
{
    if (*servers != NULL) {
        hspz_server_list_fini(&(*servers)->list);
        free(*servers);
        *servers = NULL;
    }
}

const struct hspz_server_list *
hspz_servers_list(const struct hspz_servers *servers)
{
    return &servers->list;
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* A name that DNS does not know now is only told when nobody else is named. */
static enum hspz_status
read_options(const struct hspz_cli *cli, struct hspz_server_list *list, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    struct hspz_error absent = {0};
    for (size_t i = 0; i < cli->servers.count && status == HSPZ_OK; i++) {
        const char *const text = cli->servers.items[i];
        char name[HSPZ_SRV_NAME_BYTES];
        bool tls;
        struct hspz_named_server server = {0};
        status = hspz_srv_name(text, name, &tls, err);
        if (status == HSPZ_OK) {
            status = hspz_srv_look_up(name, tls, list, &absent);
            if (status == HSPZ_E_NO_SERVER) {
                status = HSPZ_OK;
            } else if (status != HSPZ_OK) {
                status = hspz_error_set(err, status, "%s", absent.text);
            }
        } else if (status == HSPZ_E_UNSUPPORTED) {
            status = hspz_address_parse(text, &server.address, err);
            if (status == HSPZ_OK) {
                status = hspz_server_list_add(list, &server, err);
            }
        }
    }
    return status == HSPZ_OK && list->count == 0 && absent.status != HSPZ_OK
               ? hspz_error_set(err, absent.status, "%s", absent.text)
               : status;
}

static enum hspz_status
read_file(const char *path, struct hspz_server_list *list, struct hspz_error *err)
{
    const enum hspz_status status = hspz_server_list_read(list, path, err);
    return status == HSPZ_OK && list->count == 0
               ? hspz_error_set(err, HSPZ_E_NO_SERVER, "%.200s: it names no server", path)
               : status;
}

/* Whether it may be another list by now. */
static bool
is_due(struct hspz_servers *servers)
{
    const char *path = servers->cli->servers_file;
    const int64_t now_ms = hspz_clock_ms();
    struct stat now = {0};
    bool due = !servers->looked;
    if (path == NULL) {
        /* While nobody is named, each time that is asked. */
        due = due || (asks_dns(servers->cli) != NULL &&
                      (servers->list.count == 0 ||
                       now_ms - servers->looked_ms > HSPZ_SRV_SECONDS * INT64_C(1000)));
    } else {
        if (stat(path, &now) != 0) {
            now = (struct stat){0};
        }
        due = due || !same_file(&now, &servers->seen);
        servers->seen = now;
    }
    servers->looked = true;
    servers->looked_ms = due ? now_ms : servers->looked_ms;
    return due;
}

enum hspz_status
hspz_servers_refresh(struct hspz_servers *servers, bool *changed, struct hspz_error *err)
{
    const char *path = servers->cli->servers_file;
    *changed = false;
    if (!is_due(servers)) {
        return HSPZ_OK;
    }
    struct hspz_server_list list = {0};
    const enum hspz_status status =
        path != NULL ? read_file(path, &list, err) : read_options(servers->cli, &list, err);
    const bool told = servers->failed && path == NULL && servers->list.count > 0;
    servers->failed = status != HSPZ_OK;
    if (status != HSPZ_OK) {
        hspz_server_list_fini(&list);
        return told ? HSPZ_OK : status;
    }
    hspz_server_list_fini(&servers->list);
    servers->list = list;
    *changed = true;
    return HSPZ_OK;
}
