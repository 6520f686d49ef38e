#include "client/cli.h"

#include "protocol/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_SOCKET "/run/hspz/hspz.sock"
#define TOKEN_BYTES (HSPZ_TOKEN_BYTES_LIMIT + 2) /* with a line end, and terminated */

const char *
hspz_cli_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* The server to use: the option, HSPZ_SERVER, the user's socket, the system's. */
static enum hspz_status
find_server(const struct hspz_cli *cli, struct hspz_address *out, struct hspz_error *err)
{
    const bool named = cli->servers.count > 0;
    const char *text = named ? cli->servers.items[0] : hspz_cli_environment("HSPZ_SERVER");
    if (text != NULL) {
        const enum hspz_status status = hspz_address_parse(text, out, err);
        if (status != HSPZ_OK && !named && err != NULL) {
            const struct hspz_error why = *err;
            return hspz_error_set(err, status, "HSPZ_SERVER: %.480s", why.text);
        }
        return status;
    }
    char user[256] = "";
    const char *runtime = hspz_cli_environment("XDG_RUNTIME_DIR");
    if (runtime != NULL && strlen(runtime) < sizeof(user) - 16) {
        snprintf(user, sizeof(user), "unix:%s/hspz.sock", runtime);
    }
    struct stat st;
    const bool user_there = user[0] != '\0' && stat(user + 5, &st) == 0;
    const bool system_there = stat(SYSTEM_SOCKET, &st) == 0;
    if (!user_there && !system_there && cli->wait_ms == 0) {
        return hspz_error_set(err, HSPZ_E_NO_SERVER,
                              "not running: no server at %s%s" SYSTEM_SOCKET
                              "; name one with --server or HSPZ_SERVER",
                              user[0] != '\0' ? user + 5 : "", user[0] != '\0' ? " or " : "");
    }
    const bool use_user = user_there || (!system_there && user[0] != '\0');
    return hspz_address_parse(use_user ? user : "unix:" SYSTEM_SOCKET, out, err);
}

/* The token: first line of a file, or HSPZ_TOKEN. Not an option itself: everybody sees those. */
static enum hspz_status
find_token(const struct hspz_cli *cli, char token[TOKEN_BYTES], struct hspz_error *err)
{
    const char *text = hspz_cli_environment("HSPZ_TOKEN");
    token[0] = '\0';
    if (cli->token_file == NULL) {
        if (text != NULL && strlen(text) > HSPZ_TOKEN_BYTES_LIMIT) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "HSPZ_TOKEN: the token is too long");
        }
        snprintf(token, TOKEN_BYTES, "%s", text != NULL ? text : "");
        return HSPZ_OK;
    }
    FILE *file = fopen(cli->token_file, "re");
    if (file == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read the token",
                                cli->token_file);
    }
    const bool read = fgets(token, TOKEN_BYTES, file) != NULL;
    fclose(file);
    const size_t len = strcspn(token, "\r\n");
    const bool whole = read && (token[len] != '\0' || len < TOKEN_BYTES - 1);
    token[len] = '\0';
    if (!whole || len == 0 || len > HSPZ_TOKEN_BYTES_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: its first line is no token",
                              cli->token_file);
    }
    return HSPZ_OK;
}

void
hspz_cli_say_waiting(void *user, const struct hspz_error *why)
{
    const struct hspz_cli *cli = user;
    if (!cli->quiet && isatty(STDERR_FILENO) && !*cli->said_waiting) {
        fprintf(stderr, "hspz-client: waiting: %s\n", why->text);
        *cli->said_waiting = true;
    }
}

static struct hspz_client_options
options_of(const struct hspz_cli *cli, const char *token)
{
    return (struct hspz_client_options){
        .name = "hspz-client " HSPZ_VERSION,
        .token = token[0] != '\0' ? token : NULL,
        .ca_file = cli->ca,
        .server_name = cli->server_name,
        .certificate_file = cli->certificate,
        .key_file = cli->key,
        .wait_ms = cli->wait_ms,
        .connect_timeout_ms = (uint32_t)cli->timeout_ms,
        .answer_timeout_ms = (uint32_t)cli->timeout_ms,
        .silence_timeout_ms = (uint32_t)cli->timeout_ms,
        .stop_fd = cli->stop_fd,
        .waiting = hspz_cli_say_waiting,
        .user = (void *)(uintptr_t)cli,
    };
}

static enum hspz_status
open_client(const struct hspz_cli *cli, const struct hspz_address *address,
            const struct hspz_client_options *options, struct hspz_client **out,
            struct hspz_error *err)
{
    const enum hspz_status status = hspz_client_open(address, options, out, err);
    if (status == HSPZ_E_INCOMPLETE && address->tcp && !address->tls) {
        const struct hspz_error was = *err;
        hspz_error_set(err, status, "%.300s (if it speaks TLS: tls:%s:%s)", was.text, address->host,
                       address->port);
    }
    if (status == HSPZ_OK && cli->verbose) {
        const struct hspz_server_info *server = hspz_client_server(*out);
        char where[HSPZ_ADDRESS_TEXT_BYTES];
        hspz_address_print(address, where);
        fprintf(stderr, "server: hspzd %s at %s, engine %s, device %s%s%s\n", server->version,
                where, server->engine, server->devices,
                server->tenant[0] != '\0' ? ", tenant " : "", server->tenant);
    }
    return status;
}

enum hspz_status
hspz_cli_connect(const struct hspz_cli *cli, struct hspz_client **out, struct hspz_error *err)
{
    struct hspz_address address;
    char token[TOKEN_BYTES];
    enum hspz_status status = find_server(cli, &address, err);
    if (status == HSPZ_OK) {
        status = find_token(cli, token, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_client_options options = options_of(cli, token);
    return open_client(cli, &address, &options, out, err);
}

enum hspz_status
hspz_cli_connect_to(const struct hspz_cli *cli, const struct hspz_address *address, int stop_fd,
                    struct hspz_client **out, struct hspz_error *err)
{
    char token[TOKEN_BYTES];
    const enum hspz_status status = find_token(cli, token, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_client_options options = options_of(cli, token);
    options.wait_ms = 0;
    options.stop_fd = stop_fd;
    options.stop_closes = true;
    options.waiting = NULL;
    return open_client(cli, address, &options, out, err);
}

void
hspz_cli_use_server(struct hspz_cli *cli, const char *address)
{
    cli->servers.items[0] = address;
    cli->servers.count = 1;
    cli->servers_file = NULL;
}

enum hspz_status
hspz_cli_settle(const struct hspz_error *failure, enum hspz_status status, struct hspz_error *err)
{
    if (status == HSPZ_E_STOPPED && failure->status != HSPZ_OK) {
        *err = *failure;
        return err->status;
    }
    return status;
}

void
hspz_cli_explain(struct hspz_client *client, struct hspz_error *err)
{
    struct hspz_health health;
    if (err->status != HSPZ_E_NOT_READY && err->status != HSPZ_E_UNKNOWN_INDEX) {
        return;
    }
    if (hspz_client_health(client, &health, NULL) != HSPZ_OK) {
        return;
    }
    const struct hspz_error was = *err;
    if (strcmp(health.state, "loading") != 0) {
        if (err->status == HSPZ_E_UNKNOWN_INDEX) {
            hspz_error_set(err, was.status,
                           "%.400s; `hspz-client index list` shows those there are", was.text);
        }
        return;
    }
    if (health.has_percent) {
        hspz_error_set(err, HSPZ_E_NOT_READY, "still loading (%s, %.0f %%): %.300s", health.state,
                       health.percent, was.text);
    } else {
        hspz_error_set(err, HSPZ_E_NOT_READY, "still loading (%s): %.300s", health.state, was.text);
    }
}
