#include "client/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A signal wakes whatever waits through a pipe. One that comes later ends the program; those of the
 * same stop do not: a terminal, `timeout` and job managers signal a process and its group. */
static struct {
    int write_end;
    volatile sig_atomic_t signals;
    struct timespec first;
} stop;

#define SAME_STOP_MS 1000

static const char common_help[] =
    "Options of every command:\n"
    "  --server ADDRESS    unix:PATH, tcp:HOST:PORT or tls:HOST:PORT (default\n"
    "                      HSPZ_SERVER, $XDG_RUNTIME_DIR/hspz.sock, or of /run/hspz)\n"
    "                      several times, or srv:NAME (those of DNS): discover, hsps\n"
    "                      and align share the work out\n"
    "  --servers FILE      names them, one to a line; looked at again when it changes\n"
    "  --wait SECONDS      for a server not up, still loading or full; -1 for ever\n"
    "  --timeout SECONDS   of silence (default 30, discover and index load 300)\n"
    "  --token-file FILE   token where the server asks for one (or HSPZ_TOKEN)\n"
    "  --ca FILE, --certificate FILE, --key FILE, --server-name NAME\n"
    "                      tls: whom to trust, what to show, what its name must be\n"
    "  -q, --quiet         no progress     -v, --verbose  server, digests, times\n"
    "  -h, --help          of a command    --version\n";

static int
print_help(FILE *to)
{
    fprintf(to, "Usage: hspz-client [OPTION...] COMMAND ...\n\n");
    for (size_t i = 0; i < hspz_command_count; i++) {
        fprintf(to, "  %-15s %s\n", hspz_commands[i].name, hspz_commands[i].summary);
    }
    fprintf(to, "\n%s\nExample: hspz-client discover hg38 query.fa > hits.tsv\n", common_help);
    return hspz_cli_finish_stdout();
}

static void
on_signal(int number)
{
    const int error = errno;
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (stop.signals == 0) {
        stop.signals = 1;
        stop.first = now;
        const ssize_t n = write(stop.write_end, "x", 1);
        (void)n;
    } else if ((now.tv_sec - stop.first.tv_sec) * 1000 +
                   (now.tv_nsec - stop.first.tv_nsec) / 1000000 >=
               SAME_STOP_MS) {
        /* Comes when this handler returns, and is not caught. */
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    errno = error;
}

/* *read_end becomes readable when the program is to end. */
static bool
catch_signals(int *read_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    *read_end = ends[0];
    stop.write_end = ends[1];
    /* Without SA_RESTART, so that a blocked write ends too. */
    struct sigaction action = {.sa_handler = on_signal};
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        (void)sigaddset(&action.sa_mask, numbers[i]); /* one at a time */
    }
    for (size_t i = 0; i < 3; i++) {
        struct sigaction was;
        /* What nohup or a background shell ignores stays ignored. */
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) {
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
    /* Who started us may ignore the ends of programs: we ask how ours ended. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR) {
        return false;
    }
    /* A reader that went away and a file that may not grow are errors of write. */
    return signal(SIGPIPE, SIG_IGN) != SIG_ERR && signal(SIGXFSZ, SIG_IGN) != SIG_ERR;
}

/* Descriptors 0 to 2 are taken, so that no file of ours becomes standard output. */
static bool
hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

/* Words before the command: options of every command. Returns the place of the command's name. */
static int
options_before(const struct hspz_option *common, int argc, char **argv, struct hspz_error *err)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0') {
        const struct hspz_option none = {.kind = HSPZ_OPTION_END};
        size_t count = 0;
        bool with_value = strchr(argv[at], '=') == NULL;
        for (const struct hspz_option *o = common; o->kind != HSPZ_OPTION_END; o++) {
            if (o->kind == HSPZ_OPTION_FLAG &&
                (strcmp(o->name, argv[at]) == 0 ||
                 (o->letter != NULL && strcmp(o->letter, argv[at]) == 0))) {
                with_value = false;
            }
        }
        const int words = with_value && at + 1 < argc ? 2 : 1;
        if (hspz_options_parse(&none, common, words + 1, argv + at - 1, NULL, 0, &count, err) !=
            HSPZ_OK) {
            return 0;
        }
        at += words;
    }
    return at;
}

static const struct hspz_command *
find_command(int argc, char **argv, int *words)
{
    for (size_t i = 0; i < hspz_command_count; i++) {
        const char *name = hspz_commands[i].name;
        const char *space = strchr(name, ' ');
        const size_t first = space != NULL ? (size_t)(space - name) : strlen(name);
        if (strlen(argv[0]) != first || memcmp(argv[0], name, first) != 0) {
            continue;
        }
        *words = space != NULL ? 2 : 1;
        if (space == NULL || (argc > 1 && strcmp(argv[1], space + 1) == 0)) {
            return &hspz_commands[i];
        }
    }
    return NULL;
}

static int
usage(const char *what, const char *value)
{
    fprintf(stderr, "hspz-client: %s%s\nTry: hspz-client --help\n", what, value);
    return HSPZ_EXIT_USAGE;
}

static int
run(struct hspz_cli *cli, int argc, char **argv)
{
    struct hspz_error err = {0};
    const int at = options_before(cli->common, argc, argv, &err);
    if (at == 0) {
        return usage(err.text, "");
    }
    if (cli->version) {
        hspz_cli_print_version();
        return hspz_cli_finish_stdout();
    }
    if (cli->help || (at < argc && strcmp(argv[at], "help") == 0)) {
        return print_help(stdout);
    }
    if (at == argc) {
        return usage("a command is missing", "");
    }
    int words = 1;
    const struct hspz_command *command = find_command(argc - at, argv + at, &words);
    if (command == NULL && strcmp(argv[at], "index") == 0) {
        const char *next = at + 1 < argc ? argv[at + 1] : "";
        if (strcmp(next, "--help") == 0 || strcmp(next, "-h") == 0) {
            return print_help(stdout);
        }
        return usage("index needs one of build, load, list, describe, unload", "");
    }
    if (command == NULL) {
        return usage("unknown command ", argv[at]);
    }
    return command->run(cli, command, argc - at - words + 1, argv + at + words - 1);
}

int
main(int argc, char **argv)
{
    bool said_waiting = false;
    struct hspz_cli cli = {.said_waiting = &said_waiting};
    const struct hspz_option common[] = {
        {.kind = HSPZ_OPTION_LIST, .name = "--server", .target = &cli.servers},
        {.kind = HSPZ_OPTION_TEXT, .name = "--servers", .target = &cli.servers_file},
        {.kind = HSPZ_OPTION_FOREVER, .name = "--wait", .target = &cli.wait_ms},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--timeout", .target = &cli.timeout_ms},
        {.kind = HSPZ_OPTION_TEXT, .name = "--token-file", .target = &cli.token_file},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ca", .target = &cli.ca},
        {.kind = HSPZ_OPTION_TEXT, .name = "--server-name", .target = &cli.server_name},
        {.kind = HSPZ_OPTION_TEXT, .name = "--certificate", .target = &cli.certificate},
        {.kind = HSPZ_OPTION_TEXT, .name = "--key", .target = &cli.key},
        {.kind = HSPZ_OPTION_FLAG, .name = "--quiet", .letter = "-q", .target = &cli.quiet},
        {.kind = HSPZ_OPTION_FLAG, .name = "--verbose", .letter = "-v", .target = &cli.verbose},
        {.kind = HSPZ_OPTION_FLAG, .name = "--help", .letter = "-h", .target = &cli.help},
        {.kind = HSPZ_OPTION_FLAG, .name = "--version", .target = &cli.version},
        {.kind = HSPZ_OPTION_END},
    };
    cli.common = common;
    if (!hold_standard_descriptors() || !catch_signals(&cli.stop_fd)) {
        return HSPZ_EXIT_FAILED;
    }
    return run(&cli, argc, argv);
}
