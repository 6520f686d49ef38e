#include "client/spread.h"

#include "client/query.h"
#include "client/socket.h"
#include "client/spread_p.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Open, who is named, and the index. The job is in spread_job.c. */

#define MEMORY_BYTES (UINT64_C(256) << 20)
#define DESCRIBE_PAUSE_MS 200

void
hspz_spread_wake(const struct hspz_spread *spread)
{
    (void)eventfd_write(spread->wake_fd, 1);
}

void
hspz_spread_note(const struct hspz_spread *spread, const char *format, ...)
{
    if (spread->cli->quiet) {
        return;
    }
    va_list args;
    va_start(args, format);
    fputs(isatty(STDERR_FILENO) ? "\r\x1b[Khspz-client: note: " : "hspz-client: note: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

const char *
hspz_spread_reason(const struct hspz_spread_server *server, const struct hspz_error *why)
{
    const size_t len = strlen(server->where);
    const bool named = strncmp(why->text, server->where, len) == 0;
    return named && strncmp(why->text + len, ": ", 2) == 0 ? why->text + len + 2
           : why->text[0] != '\0'                          ? why->text
                                                           : hspz_status_text(why->status);
}

static enum hspz_status
init_locks(struct hspz_spread *spread, struct hspz_error *err)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for servers");
    }
    bool made = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&spread->changed, &monotonic) == 0;
    if (made && pthread_mutex_init(&spread->mutex, NULL) != 0) {
        pthread_cond_destroy(&spread->changed);
        made = false;
    }
    (void)pthread_condattr_destroy(&monotonic);
    if (!made) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for servers");
    }
    spread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (spread->wake_fd < 0) {
        const int error = errno;
        pthread_cond_destroy(&spread->changed);
        pthread_mutex_destroy(&spread->mutex);
        return hspz_error_errno(err, HSPZ_E_IO, error, "cannot wait for servers");
    }
    return HSPZ_OK;
}

static enum hspz_status
open_many(struct hspz_spread *spread, struct hspz_error *err)
{
    const char *folder = hspz_cli_environment("TMPDIR");
    enum hspz_status status = init_locks(spread, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_servers_open(spread->cli, &spread->addresses, err);
    if (status != HSPZ_OK) {
        pthread_cond_destroy(&spread->changed);
        pthread_mutex_destroy(&spread->mutex);
        close(spread->wake_fd);
        return status;
    }
    return hspz_held_create(folder != NULL ? folder : "/tmp", MEMORY_BYTES, &spread->held, err);
}

enum hspz_status
hspz_spread_open(const struct hspz_cli *cli, struct hspz_client *client, struct hspz_spread **out,
                 struct hspz_error *err)
{
    struct hspz_spread *spread = calloc(1, sizeof(*spread));
    enum hspz_status status = HSPZ_OK;
    if (spread == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for servers");
    }
    spread->cli = cli;
    spread->client = client;
    if (client == NULL && hspz_servers_many(cli)) {
        status = open_many(spread, err);
    } else if (client == NULL) {
        status = hspz_cli_connect(cli, &spread->client, err);
        spread->own_client = true;
    }
    if (status != HSPZ_OK) {
        hspz_spread_close(&spread);
        return status;
    }
    *out = spread;
    return HSPZ_OK;
}

static void
destroy_server(struct hspz_spread_server *server)
{
    hspz_client_close(&server->client);
    close(server->stop_fd);
    free(server);
}

void
hspz_spread_close(struct hspz_spread **spread)
{
    struct hspz_spread *s = *spread;
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->server_count; i++) {
        destroy_server(s->servers[i]);
    }
    free(s->servers);
    hspz_held_destroy(&s->held);
    if (s->addresses != NULL) {
        hspz_servers_close(&s->addresses);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->mutex);
        close(s->wake_fd);
    }
    if (s->own_client) {
        hspz_client_close(&s->client);
    }
    free(s->index);
    free(s);
    *spread = NULL;
}

struct hspz_client *
hspz_spread_client(struct hspz_spread *spread)
{
    return spread->client;
}

uint64_t
hspz_spread_most_bases(const struct hspz_spread *spread)
{
    return spread->client != NULL ? hspz_query_most_bases(hspz_client_server(spread->client))
                                  : spread->most_bases;
}

/* Who is named. Servers that are there already stay, with what is known of them; one that is named
 * several times is as many. */
static enum hspz_status
add_server(struct hspz_spread *spread, const struct hspz_address *address, struct hspz_error *err)
{
    struct hspz_spread_server **grown =
        realloc(spread->servers, (spread->server_count + 1) * sizeof(struct hspz_spread_server *));
    if (grown == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for servers");
    }
    spread->servers = grown;
    struct hspz_spread_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a server");
    }
    *server = (struct hspz_spread_server){.spread = spread, .address = *address, .wanted = true};
    hspz_address_print(address, server->where);
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->stop_fd < 0) {
        const int error = errno;
        free(server);
        return hspz_error_errno(err, HSPZ_E_IO, error, "cannot open a connection to a server");
    }
    spread->servers[spread->server_count++] = server;
    return HSPZ_OK;
}

/* Mutex held. */
static enum hspz_status
match_list(struct hspz_spread *spread, struct hspz_error *err)
{
    const struct hspz_server_list *list = hspz_servers_list(spread->addresses);
    enum hspz_status status = HSPZ_OK;
    for (size_t s = 0; s < spread->server_count; s++) {
        spread->servers[s]->wanted = false;
    }
    for (size_t i = 0; i < list->count && status == HSPZ_OK; i++) {
        char where[HSPZ_ADDRESS_TEXT_BYTES];
        size_t s = 0;
        hspz_address_print(&list->items[i].address, where);
        while (s < spread->server_count &&
               (spread->servers[s]->wanted || strcmp(spread->servers[s]->where, where) != 0)) {
            s++;
        }
        if (s < spread->server_count) {
            spread->servers[s]->wanted = true;
        } else {
            status = add_server(spread, &list->items[i].address, err);
        }
        if (status == HSPZ_OK) {
            spread->servers[s]->rank = list->items[i].rank;
        }
    }
    for (size_t s = 0; s < spread->server_count; s++) {
        if (!spread->servers[s]->wanted && spread->servers[s]->running) {
            hspz_spread_interrupt(spread->servers[s]);
        }
    }
    return status;
}

enum hspz_status
hspz_spread_refresh(struct hspz_spread *spread, struct hspz_error *err)
{
    bool changed = false;
    struct hspz_error why = {0};
    enum hspz_status status = hspz_servers_refresh(spread->addresses, &changed, &why);
    if (status != HSPZ_OK && hspz_servers_list(spread->addresses)->count == 0) {
        *err = why;
    } else if (status != HSPZ_OK) {
        hspz_spread_note(spread, "%s; the servers stay those named before", why.text);
        status = HSPZ_OK;
    }
    if (status == HSPZ_OK && changed) {
        pthread_mutex_lock(&spread->mutex);
        status = match_list(spread, err);
        pthread_cond_broadcast(&spread->changed);
        pthread_mutex_unlock(&spread->mutex);
    }
    return status;
}

struct description {
    struct hspz_spread *spread;
    hspz_index_fn index;
    hspz_sequence_fn sequence;
    void *user;
    bool stopped; /* by a callback */
};

static bool
note_index(void *user, const struct hspz_index_info *info)
{
    struct description *d = user;
    snprintf(d->spread->digest, sizeof(d->spread->digest), "%s", info->digest);
    d->spread->span = (uint32_t)info->span;
    d->spread->ref_blocks = info->blocks;
    d->stopped = !d->index(d->user, info);
    return !d->stopped;
}

static bool
note_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct description *d = user;
    d->stopped = !d->sequence(d->user, sequence);
    return !d->stopped;
}

/* Of one server, whose failure is noted. */
static enum hspz_status
describe_by(struct hspz_spread_server *server, struct description *d, struct hspz_error *err)
{
    struct hspz_spread *spread = server->spread;
    struct hspz_client *client = NULL;
    enum hspz_status status =
        hspz_cli_connect_to(spread->cli, &server->address, spread->cli->stop_fd, &client, err);
    if (status == HSPZ_OK) {
        status = hspz_client_index_describe(client, spread->index, note_index,
                                            d->sequence != NULL ? note_sequence : NULL, d, err);
        if (status != HSPZ_OK && !d->stopped) {
            hspz_cli_explain(client, err);
            status = err->status;
        }
    }
    if (status == HSPZ_OK) {
        memcpy(spread->described_by, server->where, sizeof(server->where));
        spread->most_bases = hspz_query_most_bases(hspz_client_server(client));
    } else {
        server->failure = *err;
    }
    hspz_client_close(&client);
    return status;
}

static enum hspz_status
describe_by_any(struct hspz_spread *spread, struct description *d, void (*begin)(void *user),
                struct hspz_error *err)
{
    enum hspz_status status = HSPZ_E_NO_SERVER;
    for (size_t i = 0; i < spread->server_count && status != HSPZ_OK; i++) {
        if (!spread->servers[i]->wanted) {
            continue;
        }
        if (begin != NULL) {
            begin(d->user);
        }
        status = describe_by(spread->servers[i], d, err);
        if (d->stopped || status == HSPZ_E_STOPPED) {
            return HSPZ_E_STOPPED;
        }
    }
    return status == HSPZ_OK ? HSPZ_OK
                             : hspz_error_set(err, HSPZ_E_NO_SERVER,
                                              "no server answers for index "
                                              "%.200s",
                                              spread->index);
}

static enum hspz_status
describe_by_many(struct hspz_spread *spread, struct description *d, void (*begin)(void *user),
                 struct hspz_error *err)
{
    const int64_t wait_ms = spread->cli->wait_ms;
    const int64_t until = wait_ms < 0 ? INT64_MAX : hspz_clock_ms() + wait_ms;
    for (;;) {
        /* What is wrong with a file is told once, and stays in *err while nobody is named. */
        enum hspz_status status = hspz_spread_refresh(spread, err);
        const bool named = hspz_servers_list(spread->addresses)->count > 0;
        if (status == HSPZ_OK && named) {
            status = describe_by_any(spread, d, begin, err);
        } else if (!named) {
            status = HSPZ_E_NO_SERVER;
        }
        const int64_t left = until - hspz_clock_ms();
        if (status != HSPZ_E_NO_SERVER || wait_ms == 0 || left <= 0) {
            return status;
        }
        hspz_cli_say_waiting((void *)(uintptr_t)spread->cli, err);
        short got;
        status = hspz_socket_wait(-1, 0, spread->cli->stop_fd,
                                  left < DESCRIBE_PAUSE_MS ? left : DESCRIBE_PAUSE_MS, &got);
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "%s", hspz_status_text(status));
        }
    }
}

enum hspz_status
hspz_spread_describe(struct hspz_spread *spread, const char *index, void (*begin)(void *user),
                     hspz_index_fn index_fn, hspz_sequence_fn sequence, void *user,
                     struct hspz_error *err)
{
    if (spread->client != NULL) {
        const enum hspz_status status =
            hspz_client_index_describe(spread->client, index, index_fn, sequence, user, err);
        if (status != HSPZ_OK && status != HSPZ_E_STOPPED) {
            hspz_cli_explain(spread->client, err);
        }
        return status;
    }
    free(spread->index);
    spread->index = strdup(index);
    if (spread->index == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a name");
    }
    struct description d = {
        .spread = spread, .index = index_fn, .sequence = sequence, .user = user};
    struct hspz_error why = {0};
    const enum hspz_status status = describe_by_many(spread, &d, begin, &why);
    if (status != HSPZ_OK && err != NULL) {
        *err = why;
    }
    return status;
}

void
hspz_spread_say_work(const struct hspz_spread *spread)
{
    for (size_t i = 0; i < spread->server_count; i++) {
        const struct hspz_spread_server *server = spread->servers[i];
        fprintf(stderr,
                "server %s: %" PRIu64 " units, %" PRIu64 " positions, %.3f s, %" PRIu64
                " failures\n",
                server->where, server->units, server->positions, (double)server->busy_ms / 1000.0,
                server->failed);
    }
}

void
hspz_spread_say_failures(const struct hspz_spread *spread)
{
    for (size_t i = 0; i < spread->server_count; i++) {
        const struct hspz_spread_server *server = spread->servers[i];
        if (server->wanted) {
            fprintf(stderr, "hspz-client: server %s: %s\n", server->where,
                    server->failure.status != HSPZ_OK ? hspz_spread_reason(server, &server->failure)
                                                      : "did not answer in time");
        }
    }
}
