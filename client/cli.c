#include "client/cli.h"

#include "client/servers.h"

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

/* Whether a command works with several servers. */
static bool
spreads(const struct hspz_command *command)
{
    return command->run == hspz_cmd_discover || command->run == hspz_cmd_hsps ||
           command->run == hspz_cmd_align;
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
    enum hspz_status good = HSPZ_OK;
    size_t empty = 0;
    while (empty < least && empty < given && operands[empty][0] != '\0') {
        empty++;
    }
    if (given < least) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "%s is missing", command->operands[given]);
    } else if (empty < least) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "%s is empty", command->operands[empty]);
    } else {
        good = spreads(command) ? HSPZ_OK : hspz_servers_check_one(cli, "it", &err);
    }
    if (good == HSPZ_OK) {
        good = hspz_servers_check(cli, &err);
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

static int
group_error(const struct hspz_command *group, const char *what, const char *value)
{
    fprintf(stderr, "hspz-client: %s: %s%s\nTry: hspz-client %s --help\n", group->name, what, value,
            group->name);
    return HSPZ_EXIT_USAGE;
}

int
hspz_cli_run_group(struct hspz_cli *cli, const struct hspz_command *group,
                   const struct hspz_command *commands, size_t count, int argc, char **argv)
{
    const size_t prefix = strlen(group->name) + 1;
    if (argc < 2) {
        return group_error(group, "a command is missing", "");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        hspz_cli_print_help(group, stdout);
        for (size_t i = 0; i < count; i++) {
            printf("  %-11s %s\n", commands[i].name + prefix, commands[i].summary);
        }
        printf("\nExample: hspz-client %s --help\n", commands[0].name);
        return hspz_cli_finish_stdout();
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(commands[i].name + prefix, argv[1]) == 0) {
            return commands[i].run(cli, &commands[i], argc - 1, argv + 1);
        }
    }
    return group_error(group, "unknown command ", argv[1]);
}
