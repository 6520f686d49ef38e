/* hspz-client: what its commands share.
 *
 * A command parses its options, does its work and returns the exit status: 0 done, 1 failed, 2
 * wrong usage. Results go to standard output, everything else to standard error. */
#pragma once

#include "client/hspz.h"
#include "client/options.h"

#include <stdio.h>

enum { HSPZ_EXIT_DONE = 0, HSPZ_EXIT_FAILED = 1, HSPZ_EXIT_USAGE = 2 };

struct hspz_cli {
    struct hspz_texts servers; /* none: look where servers usually are */
    const char *servers_file;  /* a file that names them instead, or NULL */
    const char *token_file;
    const char *ca, *server_name, *certificate, *key; /* files, but for the name; NULL: none */
    int64_t wait_ms;
    int64_t timeout_ms; /* 0: the library's */
    bool quiet, verbose, help, version;
    int stop_fd;
    bool *said_waiting;               /* why it waits is said once */
    const struct hspz_option *common; /* options every command takes */
};

struct hspz_command {
    const char *name; /* "discover", "index build" */
    int (*run)(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
    const char *summary;
    const char *help;        /* everything after "Usage: hspz-client " */
    const char *operands[2]; /* names of those it cannot do without */
};

/* Of commands that seed: how many transitions a word may hold, a uint32_t. */
#define HSPZ_TRANSITIONS_OPTIONS(number)                                                           \
    {.kind = HSPZ_OPTION_ZERO, .name = "--no-transitions", .target = (number)},                    \
    {                                                                                              \
        .kind = HSPZ_OPTION_NUMBER32, .name = "--transitions", .target = (number),                 \
        .most = HSPZ_TRANSITIONS_LIMIT                                                             \
    }

extern const struct hspz_command hspz_commands[];
extern const size_t hspz_command_count;

int hspz_cmd_index_build(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                         char **argv);
int hspz_cmd_index_load(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                        char **argv);
int hspz_cmd_index_unload(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                          char **argv);
int hspz_cmd_index_list(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                        char **argv);
int hspz_cmd_index_describe(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                            char **argv);
int hspz_cmd_discover(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                      char **argv);
int hspz_cmd_hsps(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_kegalign(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                      char **argv);
int hspz_cmd_align(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_compare(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                     char **argv);
int hspz_cmd_partition(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                       char **argv);
int hspz_cmd_plot(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_mask(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_filter(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                    char **argv);
int hspz_cmd_kmers(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_stats(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_top(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_drain(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv);
int hspz_cmd_health(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                    char **argv);

/* Parses a command's options and `least` to `most` operands. False when the command is over, with
 * its exit status in *status (help was asked for, or the usage is wrong and said so). */
bool hspz_cli_parse(struct hspz_cli *cli, const struct hspz_command *command,
                    const struct hspz_option *own, int argc, char **argv, const char **operands,
                    size_t most, size_t least, int *status);
int hspz_cli_usage_error(const struct hspz_command *command, const struct hspz_error *err);
/* Says what failed; the exit status for it. */
int hspz_cli_fail(const struct hspz_cli *cli, const struct hspz_error *err);
void hspz_cli_print_help(const struct hspz_command *command, FILE *to);
/* A command of commands, "filter" of "filter create" and others: runs the one that argv[1] names,
 * or lists them for --help; the exit status. */
int hspz_cli_run_group(struct hspz_cli *cli, const struct hspz_command *group,
                       const struct hspz_command *commands, size_t count, int argc, char **argv);
void hspz_cli_print_version(void);

/* A variable of the environment, NULL when it is unset or empty: the only place where the program
 * looks at it. */
const char *hspz_cli_environment(const char *name);

/* Says once, on a terminal, why it waits; `user` is a struct hspz_cli. */
void hspz_cli_say_waiting(void *user, const struct hspz_error *why);
/* One server from now on, whatever the options said. */
void hspz_cli_use_server(struct hspz_cli *cli, const char *address);
/* Connects to this server. `stop_fd` instead of cli->stop_fd, and `wait_ms` instead of
 * cli->wait_ms; of waiting nothing is said, and a stopped call closes its connection. Any thread.
 */
HSPZ_MUST_USE enum hspz_status hspz_cli_connect_to(const struct hspz_cli *cli,
                                                   const struct hspz_address *address, int stop_fd,
                                                   struct hspz_client **out,
                                                   struct hspz_error *err);
/* Connects to the server the options, the environment or the usual places name. */
HSPZ_MUST_USE enum hspz_status hspz_cli_connect(const struct hspz_cli *cli,
                                                struct hspz_client **out, struct hspz_error *err);
/* What a call ended with: `failure` where a callback that stopped it knows better why. */
enum hspz_status hspz_cli_settle(const struct hspz_error *failure, enum hspz_status status,
                                 struct hspz_error *err);
/* After a failed call: when the server is still loading, makes *err say how far it is; of an index
 * that is not there, how to see those that are. */
void hspz_cli_explain(struct hspz_client *client, struct hspz_error *err);
/* True once a signal asked the program to end. */
bool hspz_cli_stopped(const struct hspz_cli *cli);
/* Standard output reached its reader; otherwise says so. */
int hspz_cli_finish_stdout(void);
