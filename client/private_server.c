#include "client/private_server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 20
#define ARGUMENTS_MOST 32u
#define TEXT_BYTES 64u
/* A query block of KegAlign's is one request, whatever its size. */
#define MESSAGE_MOST "5G"
#define QUERY_MOST "4294967231"

struct hspz_private_server {
    char *folder, *socket, *log, *address;
    pid_t pid; /* 0: none */
};

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to start hspzd");
}

static enum hspz_status
make_folder(struct hspz_private_server *s, struct hspz_error *err)
{
    const char *top = hspz_cli_environment("TMPDIR");
    if (asprintf(&s->folder, "%s/hspz.XXXXXX", top != NULL ? top : "/tmp") < 0) {
        s->folder = NULL;
        return no_memory(err);
    }
    if (mkdtemp(s->folder) == NULL) {
        const enum hspz_status status =
            hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot make a folder for hspzd",
                             top != NULL ? top : "/tmp");
        free(s->folder);
        s->folder = NULL;
        return status;
    }
    if (asprintf(&s->socket, "%s/hspz.sock", s->folder) < 0) {
        s->socket = NULL;
        return no_memory(err);
    }
    if (asprintf(&s->log, "%s/hspzd.log", s->folder) < 0) {
        s->log = NULL;
        return no_memory(err);
    }
    if (asprintf(&s->address, "unix:%s", s->socket) < 0) {
        s->address = NULL;
        return no_memory(err);
    }
    return HSPZ_OK;
}

/* The hspzd beside this program, installed or built; else whatever the PATH has. From malloc. */
static char *
find_program(void)
{
    static const char *const places[] = {"hspzd", "../daemon/hspzd"};
    char self[4096];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[len < 0 ? 0 : len] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
        char *path = NULL;
        struct stat st;
        if (asprintf(&path, "%.*s%s", (int)(slash + 1 - self), self, places[i]) < 0) {
            return NULL;
        }
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0) {
            return path;
        }
        free(path);
    }
    return strdup("hspzd");
}

/* A group of its own, so that what a terminal tells us does not end it before we say so. */
static int
spawn(const struct hspz_private_server *s, char *const *arguments, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error = error != 0 ? error
                       : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, s->log,
                                                          O_WRONLY | O_CREAT | O_APPEND, 0600);
    error = error != 0 ? error
                       : posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    error = error != 0 ? error : posix_spawnattr_setpgroup(&attributes, 0);
    error = error != 0 ? error : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    error = error != 0 ? error
                       : posix_spawnp(pid, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Half of the machine's memory, for HSPs that wait. */
static void
print_memory(char text[TEXT_BYTES])
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t bytes =
        pages > 0 && page > 0 ? (uint64_t)pages / 2 * (uint64_t)page : UINT64_C(1) << 30;
    snprintf(text, TEXT_BYTES, "%" PRIu64, bytes);
}

static void
print_devices(char text[TEXT_BYTES], int64_t gpus)
{
    size_t at = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < gpus && at < TEXT_BYTES - 8; i++) {
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, "%s%" PRId64, i > 0 ? "," : "", i);
    }
}

static enum hspz_status
launch(struct hspz_private_server *s, const struct hspz_private_settings *how,
       struct hspz_error *err)
{
    char threads[TEXT_BYTES], devices[TEXT_BYTES], memory[TEXT_BYTES];
    char *program = find_program(), *index = NULL;
    if (program == NULL || asprintf(&index, "%s=%s", how->index, how->file) < 0) {
        free(program);
        return no_memory(err);
    }
    snprintf(threads, sizeof(threads), "%" PRIu64, how->threads);
    print_memory(memory);
    char *arguments[ARGUMENTS_MOST] = {
        program,
        "--die-with-parent",
        "--socket",
        s->socket,
        "--index",
        index,
        "--threads",
        threads,
        "--job-memory",
        memory,
        "--max-message",
        MESSAGE_MOST,
        "--ingest-per-connection",
        MESSAGE_MOST,
        "--ingest-total",
        MESSAGE_MOST,
        "--max-query-bases",
        QUERY_MOST,
        "--engine",
        how->gpus == 0 ? "cpu" : "auto",
    };
    if (how->gpus > 0) {
        size_t count = 0;
        print_devices(devices, how->gpus);
        while (arguments[count] != NULL) {
            count++;
        }
        arguments[count] = "--devices";
        arguments[count + 1] = devices;
    }
    pid_t pid = 0;
    const int error = spawn(s, arguments, &pid);
    const enum hspz_status status =
        error == 0
            ? HSPZ_OK
            : hspz_error_errno(err, HSPZ_E_NO_SERVER, error, "%.300s: cannot be started", program);
    free(program);
    free(index);
    if (status == HSPZ_OK) {
        s->pid = pid;
    }
    return status;
}

/* It ended: the last error in its log says why, else its last line. */
static enum hspz_status
explain_end(struct hspz_private_server *s, struct hspz_error *err)
{
    char line[400] = "", last[400] = "it wrote no log";
    bool is_error = false;
    FILE *log = fopen(s->log, "re");
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const bool error = strstr(line, " error ") != NULL;
        if (line[0] != '\0' && (error || !is_error)) {
            snprintf(last, sizeof(last), "%s", line);
            is_error = error;
        }
    }
    if (log != NULL) {
        fclose(log);
    }
    return hspz_error_set(err, HSPZ_E_NO_SERVER, "the private hspzd ended: %s", last);
}

static enum hspz_status
await_ready(const struct hspz_cli *cli, struct hspz_private_server *s, struct hspz_error *err)
{
    struct hspz_cli own = *cli;
    hspz_cli_use_server(&own, s->address);
    own.wait_ms = 0;
    own.token_file = NULL;
    own.verbose = false;
    for (;;) {
        struct hspz_client *client = NULL;
        struct hspz_health health = {0};
        struct hspz_error why = {0};
        enum hspz_status status = hspz_cli_connect(&own, &client, &why);
        if (status == HSPZ_OK) {
            status = hspz_client_health(client, &health, &why);
        }
        hspz_client_close(&client);
        if (status == HSPZ_OK && strcmp(health.state, "ready") == 0) {
            return HSPZ_OK;
        }
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return explain_end(s, err);
        }
        if (status == HSPZ_E_STOPPED || hspz_cli_stopped(cli)) {
            return hspz_error_set(err, HSPZ_E_STOPPED, "stopped while hspzd was starting");
        }
        struct pollfd stop = {.fd = cli->stop_fd > 0 ? cli->stop_fd : -1, .events = POLLIN};
        (void)poll(&stop, 1, POLL_MS);
    }
}

enum hspz_status
hspz_private_server_start(const struct hspz_cli *cli, const struct hspz_private_settings *how,
                          struct hspz_private_server **out, struct hspz_error *err)
{
    struct hspz_private_server *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return no_memory(err);
    }
    enum hspz_status status = make_folder(s, err);
    if (status == HSPZ_OK) {
        status = launch(s, how, err);
    }
    if (status == HSPZ_OK) {
        status = await_ready(cli, s, err);
    }
    if (status != HSPZ_OK) {
        hspz_private_server_stop(&s);
        return status;
    }
    *out = s;
    return HSPZ_OK;
}

const char *
hspz_private_server_address(const struct hspz_private_server *server)
{
    return server->address;
}

void
hspz_private_server_stop(struct hspz_private_server **server)
{
    struct hspz_private_server *s = *server;
    if (s == NULL) {
        return;
    }
    if (s->pid > 0) {
        (void)kill(s->pid, SIGTERM);
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (s->socket != NULL) {
        char lock[4096];
        (void)unlink(s->socket);
        snprintf(lock, sizeof(lock), "%s.lock", s->socket);
        (void)unlink(lock);
    }
    if (s->log != NULL) {
        (void)unlink(s->log);
    }
    if (s->folder != NULL) {
        (void)rmdir(s->folder);
    }
    free(s->folder);
    free(s->socket);
    free(s->log);
    free(s->address);
    free(s);
    *server = NULL;
}
