/* hspzd: arguments, exit codes. */
#include "daemon/check.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "engine/engine.h"
#include "protocol/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DEVICE = 75 };

/* Descriptors 0 to 2 are taken, so that no socket is ever written to as if it were the log. */
static bool
take_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= 2);
    return fd >= 0 && close(fd) == 0;
}

static int
finish_stdout(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return EXIT_DONE;
    }
    if (errno != EPIPE) {
        fprintf(stderr, "hspzd: standard output: cannot write: %s\n", strerror(errno));
    }
    return EXIT_FAILED;
}

static int
print_version(void)
{
    static const char *const names[] = {"cpu", "cuda"};
    printf("hspzd %s\nprotocol %u\n", HSPZ_VERSION, HSPZ_PROTOCOL_VERSION);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct hspz_engine_ops *ops = hspz_engine_find(names[i]);
        char about[256] = "";
        if (ops != NULL && ops->about != NULL) {
            ops->about(about, sizeof(about));
        }
        if (ops != NULL) {
            printf("engine %s%s%s\n", names[i], *about != '\0' ? ": " : "", about);
        }
    }
    return finish_stdout();
}

static int
run(struct hspz_config *config, int argc, char **argv)
{
    struct hspz_error err = {0};
    config->parent = getppid();
    const enum hspz_status status = hspz_config_load(config, argc, argv, &err);
    if (status != HSPZ_OK) {
        fprintf(stderr, "hspzd: %s\n", err.text);
        return status == HSPZ_E_BAD_REQUEST ? EXIT_USAGE : EXIT_FAILED;
    }
    if (config->help) {
        hspz_config_print_help(stdout, config->help_all);
        return finish_stdout();
    }
    if (config->version) {
        return print_version();
    }
    if (config->check_only) {
        const bool good = hspz_check_config(config);
        const int written = finish_stdout();
        return good ? written : EXIT_FAILED;
    }
    struct hspz_log log = {.fd = STDERR_FILENO,
                           .level = (enum hspz_log_level)config->log_level,
                           .format = (enum hspz_log_format)config->log_format};
    if (config->die_with_parent && (getppid() != config->parent || config->parent == 1)) {
        fprintf(stderr, "hspzd: the process that started this one has ended, or is process 1, with "
                        "which all end without --die-with-parent\n");
        return EXIT_FAILED;
    }
    bool abandoned;
    const enum hspz_status ended = hspz_daemon_run(config, &log, &abandoned);
    const int code = ended == HSPZ_E_DEVICE_ERROR ? EXIT_DEVICE
                     : ended == HSPZ_OK           ? EXIT_DONE
                                                  : EXIT_FAILED;
    if (abandoned || code == EXIT_DEVICE) {
        _exit(code); /* no handlers: the device's own may hang, and threads may be at work */
    }
    return code;
}

int
main(int argc, char **argv)
{
    if (!take_standard_descriptors() || signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return EXIT_FAILED;
    }
    struct hspz_config config;
    hspz_config_init(&config);
    const int code = run(&config, argc, argv);
    hspz_config_fini(&config);
    return code;
}
