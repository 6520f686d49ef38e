#include "client/children.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_BYTES 65536u
#define PATIENCE_MS 2000 /* from asking to killing */
#define CHECK_MS 20

static const char cut_line[] = "truncating alignment";

struct child {
    pid_t pid;     /* 0: a free place */
    int out, said; /* our ends of its pipes, -1 at their end */
    int to;
    size_t said_len, line_len; /* of all it said; of the line so far */
    struct hspz_child_end end;
};

struct hspz_children {
    int stop_fd;
    size_t most, running;
    struct pollfd *polls; /* stop_fd, then two for each child */
    char *chunk;
    struct child children[];
};

enum hspz_status
hspz_children_create(size_t most, int stop_fd, struct hspz_children **out, struct hspz_error *err)
{
    struct hspz_children *children = calloc(1, sizeof(*children) + most * sizeof(struct child));
    struct pollfd *polls = calloc(2 * most + 1, sizeof(*polls));
    char *chunk = malloc(CHUNK_BYTES);
    if (children == NULL || polls == NULL || chunk == NULL) {
        free(children);
        free(polls);
        free(chunk);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu processes", most);
    }
    children->stop_fd = stop_fd;
    children->most = most;
    children->polls = polls;
    children->chunk = chunk;
    for (size_t i = 0; i < most; i++) {
        children->children[i].out = children->children[i].said = -1;
    }
    *out = children;
    return HSPZ_OK;
}

size_t
hspz_children_running(const struct hspz_children *children)
{
    return children->running;
}

static void
close_end(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void
send_signal(const struct hspz_children *children, int number)
{
    for (size_t i = 0; i < children->most; i++) {
        if (children->children[i].pid > 0) {
            (void)kill(-children->children[i].pid, number);
        }
    }
}

static void
reap(struct hspz_children *children, bool block)
{
    for (size_t i = 0; i < children->most; i++) {
        struct child *child = &children->children[i];
        while (child->pid > 0) {
            const pid_t got = waitpid(child->pid, NULL, block ? 0 : WNOHANG);
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got == 0) {
                break;
            }
            child->pid = 0;
            children->running--;
        }
    }
}

void
hspz_children_destroy(struct hspz_children **children)
{
    struct hspz_children *c = *children;
    if (c == NULL) {
        return;
    }
    send_signal(c, SIGTERM);
    for (int waited = 0; c->running > 0 && waited < PATIENCE_MS; waited += CHECK_MS) {
        const struct timespec pause = {.tv_nsec = CHECK_MS * 1000000L};
        reap(c, false);
        if (c->running > 0) {
            (void)nanosleep(&pause, NULL);
        }
    }
    send_signal(c, SIGKILL);
    reap(c, true);
    for (size_t i = 0; i < c->most; i++) {
        close_end(&c->children[i].out);
        close_end(&c->children[i].said);
    }
    free(c->polls);
    free(c->chunk);
    free(c);
    *children = NULL;
}

/* The child's side: standard input empty, the other two to us, signals that we ignore as usual. */
static int
prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, const char *folder,
        const int ends[2])
{
    sigset_t defaults, none;
    sigemptyset(&defaults);
    sigemptyset(&none);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(actions, ends[0], STDOUT_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(actions, ends[1], STDERR_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_addchdir_np(actions, folder);
    error = error != 0 ? error : posix_spawnattr_setsigdefault(attributes, &defaults);
    error = error != 0 ? error : posix_spawnattr_setsigmask(attributes, &none);
    error = error != 0 ? error : posix_spawnattr_setpgroup(attributes, 0);
    return error != 0 ? error
                      : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF |
                                                                 POSIX_SPAWN_SETSIGMASK |
                                                                 POSIX_SPAWN_SETPGROUP);
}

static int
spawn(const char *const *argv, const char *folder, const int ends[2], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = prepare(&actions, &attributes, folder, ends);
        if (error == 0) {
            error = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

enum hspz_status
hspz_children_start(struct hspz_children *children, const char *const *argv, const char *folder,
                    int to, size_t tag, struct hspz_error *err)
{
    HSPZ_REQUIRE(children->running < children->most);
    struct child *child = children->children;
    while (child->pid > 0) {
        child++;
    }
    int out[2] = {-1, -1}, said[2] = {-1, -1};
    pid_t pid = 0;
    int error = 0;
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0) {
        error = errno;
    } else {
        error = spawn(argv, folder, (const int[2]){out[1], said[1]}, &pid);
    }
    close_end(&out[1]);
    close_end(&said[1]);
    if (error != 0) {
        close_end(&out[0]);
        close_end(&said[0]);
        return hspz_error_errno(err, HSPZ_E_IO, error, "cannot run %.200s", argv[0]);
    }
    *child = (struct child){.pid = pid, .out = out[0], .said = said[0], .to = to};
    child->end.tag = tag;
    child->end.said_all = true;
    children->running++;
    return HSPZ_OK;
}

/* Keeps the end of what it says, and counts the lines that tell of a cut alignment. */
static void
hear(struct child *child, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n') {
            child->line_len = 0;
        } else {
            const size_t want = sizeof(cut_line) - 1;
            if (child->line_len < want) {
                child->line_len =
                    text[i] == cut_line[child->line_len] ? child->line_len + 1 : want + 1;
                child->end.cut_alignments += child->line_len == want;
            }
        }
        if (child->said_len == HSPZ_CHILD_SAID_BYTES) {
            child->said_len /= 2;
            memmove(child->end.said, child->end.said + child->said_len, child->said_len);
            child->end.said_all = false;
        }
        child->end.said[child->said_len++] = text[i];
    }
}

static void
keep(struct child *child, const char *bytes, size_t len)
{
    while (len > 0 && child->end.write_error == 0) {
        const ssize_t n = write(child->to, bytes, len);
        if (n >= 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (errno != EINTR) {
            child->end.write_error = errno;
            (void)kill(-child->pid, SIGKILL);
        }
    }
}

static void
read_end(struct hspz_children *children, struct child *child, int *fd)
{
    const ssize_t n = read(*fd, children->chunk, CHUNK_BYTES);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        close_end(fd);
    } else if (n > 0 && fd == &child->out) {
        keep(child, children->chunk, (size_t)n);
    } else if (n > 0) {
        hear(child, children->chunk, (size_t)n);
    }
}

/* True when a child has said all and is gone. */
static bool
take_ended(struct hspz_children *children, struct hspz_child_end *end)
{
    for (size_t i = 0; i < children->most; i++) {
        struct child *child = &children->children[i];
        if (child->pid == 0 || child->out >= 0 || child->said >= 0) {
            continue;
        }
        int status = 0;
        if (waitpid(child->pid, &status, WNOHANG) != child->pid) {
            continue;
        }
        child->pid = 0;
        children->running--;
        *end = child->end;
        end->wait_status = status;
        end->said[child->said_len] = '\0';
        return true;
    }
    return false;
}

/* Fills the array for poll; true when a child only has to be waited for. */
static bool
fill_polls(struct hspz_children *children)
{
    bool closed = false;
    children->polls[0] = (struct pollfd){.fd = children->stop_fd, .events = POLLIN};
    for (size_t i = 0; i < children->most; i++) {
        const struct child *child = &children->children[i];
        const bool runs = child->pid > 0;
        children->polls[2 * i + 1] =
            (struct pollfd){.fd = runs ? child->out : -1, .events = POLLIN};
        children->polls[2 * i + 2] =
            (struct pollfd){.fd = runs ? child->said : -1, .events = POLLIN};
        closed |= runs && child->out < 0 && child->said < 0;
    }
    return closed;
}

enum hspz_status
hspz_children_wait(struct hspz_children *children, int timeout_ms, bool *ended,
                   struct hspz_child_end *end, struct hspz_error *err)
{
    HSPZ_REQUIRE(children->running > 0);
    *ended = take_ended(children, end);
    if (*ended) {
        return HSPZ_OK;
    }
    const bool closed = fill_polls(children);
    const int ready =
        poll(children->polls, (nfds_t)(2 * children->most + 1),
             closed && (timeout_ms < 0 || timeout_ms > CHECK_MS) ? CHECK_MS : timeout_ms);
    if (ready < 0 && errno != EINTR) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "cannot wait for processes");
    }
    if (ready > 0 && children->polls[0].revents != 0) {
        return hspz_error_set(err, HSPZ_E_STOPPED, "stopped by the caller");
    }
    for (size_t i = 0; ready > 0 && i < children->most; i++) {
        struct child *child = &children->children[i];
        if (children->polls[2 * i + 1].revents != 0) {
            read_end(children, child, &child->out);
        }
        if (children->polls[2 * i + 2].revents != 0) {
            read_end(children, child, &child->said);
        }
    }
    *ended = take_ended(children, end);
    return HSPZ_OK;
}
