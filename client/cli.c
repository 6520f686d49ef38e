#include "client/cli.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

void
hspz_cli_print_help(const struct hspz_command *command, FILE *to)
{
    fprintf(to, "Usage: hspz-client %s", command->help);
}

void
hspz_cli_print_version(void)
{
    printf("hspz-client " HSPZ_VERSION "\n");
}

int
hspz_cli_usage_error(const struct hspz_command *command, const struct hspz_error *err)
{
    fprintf(stderr, "hspz-client: %s: %s\n", command->name, err->text);
    fprintf(stderr, "Try: hspz-client %s --help\n", command->name);
    return HSPZ_EXIT_USAGE;
}

int
hspz_cli_fail(const struct hspz_cli *cli, const struct hspz_error *err)
{
    if (err->status == HSPZ_E_STOPPED && hspz_cli_stopped(cli)) {
        fprintf(stderr, "hspz-client: stopped by a signal\n");
        return HSPZ_EXIT_FAILED;
    }
    fprintf(stderr, "hspz-client: %s\n",
            err->text[0] != '\0' ? err->text : hspz_status_text(err->status));
    if (err->has_retry && cli->wait_ms == 0) {
        fprintf(stderr, "hspz-client: --wait SECONDS tries again until there is room\n");
    }
    return HSPZ_EXIT_FAILED;
}

bool
hspz_cli_parse(struct hspz_cli *cli, const struct hspz_command *command,
               const struct hspz_option *own, int argc, char **argv, const char **operands,
               size_t most, size_t least, int *status)
{
    struct hspz_error err = {0};
    size_t given = 0;
    *status = HSPZ_EXIT_USAGE;
    if (hspz_options_parse(own, cli->common, argc, argv, operands, most, &given, &err) != HSPZ_OK) {
        *status = hspz_cli_usage_error(command, &err);
        return false;
    }
    if (cli->help || cli->version) {
        if (cli->help) {
            hspz_cli_print_help(command, stdout);
        } else {
            hspz_cli_print_version();
        }
        *status = hspz_cli_finish_stdout();
        return false;
    }
    struct hspz_address address;
    enum hspz_status good = HSPZ_OK;
    if (given < least) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "%s is missing", command->operands[given]);
    } else if (cli->server != NULL) {
        good = hspz_address_parse(cli->server, &address, &err);
    }
    if (good != HSPZ_OK) {
        *status = hspz_cli_usage_error(command, &err);
    }
    return good == HSPZ_OK;
}

bool
hspz_cli_stopped(const struct hspz_cli *cli)
{
    struct pollfd fd = {.fd = cli->stop_fd, .events = POLLIN};
    return cli->stop_fd > 0 && poll(&fd, 1, 0) > 0;
}

int
hspz_cli_finish_stdout(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return HSPZ_EXIT_DONE;
    }
    if (errno != EPIPE) {
        fprintf(stderr, "hspz-client: standard output: cannot write: %s\n", strerror(errno));
    }
    return HSPZ_EXIT_FAILED;
}
