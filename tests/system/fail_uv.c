/* hspzd whose calls of libuv fail on purpose, one at a time. Linked with --wrap of each function
 * here, so that the daemon is as it is.
 *
 * HSPZ_FAIL_UV    NAME:N:CODE  the N-th call (from 1) of uv_NAME returns CODE, a negative number
 * HSPZ_UV_COUNTS  a file that gets a line `NAME COUNT` for each function when the process exits,
 *                 and one, `failed COUNT`, of those that were made to fail
 *
 * uv_async_send is left alone: it cannot fail. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define FUNCTIONS(X)                                                                               \
    X(loop_init, (uv_loop_t * loop), (loop))                                                       \
    X(async_init, (uv_loop_t * loop, uv_async_t * async, uv_async_cb cb), (loop, async, cb))       \
    X(idle_init, (uv_loop_t * loop, uv_idle_t * idle), (loop, idle))                               \
    X(idle_start, (uv_idle_t * idle, uv_idle_cb cb), (idle, cb))                                   \
    X(timer_init, (uv_loop_t * loop, uv_timer_t * timer), (loop, timer))                           \
    X(timer_start, (uv_timer_t * timer, uv_timer_cb cb, uint64_t in, uint64_t every),              \
      (timer, cb, in, every))                                                                      \
    X(signal_init, (uv_loop_t * loop, uv_signal_t * handle), (loop, handle))                       \
    X(signal_start, (uv_signal_t * handle, uv_signal_cb cb, int number), (handle, cb, number))     \
    X(poll_init, (uv_loop_t * loop, uv_poll_t * poll, int fd), (loop, poll, fd))                   \
    X(poll_start, (uv_poll_t * poll, int events, uv_poll_cb cb), (poll, events, cb))               \
    X(mutex_init, (uv_mutex_t * mutex), (mutex))                                                   \
    X(cond_init, (uv_cond_t * cond), (cond))                                                       \
    X(thread_create, (uv_thread_t * thread, uv_thread_cb run, void *arg), (thread, run, arg))      \
    X(queue_work, (uv_loop_t * loop, uv_work_t * work, uv_work_cb run, uv_after_work_cb done),     \
      (loop, work, run, done))                                                                     \
    X(tcp_init, (uv_loop_t * loop, uv_tcp_t * tcp), (loop, tcp))                                   \
    X(tcp_open, (uv_tcp_t * tcp, uv_os_sock_t fd), (tcp, fd))                                      \
    X(tcp_nodelay, (uv_tcp_t * tcp, int on), (tcp, on))                                            \
    X(tcp_keepalive, (uv_tcp_t * tcp, int on, unsigned delay), (tcp, on, delay))                   \
    X(pipe_init, (uv_loop_t * loop, uv_pipe_t * pipe, int ipc), (loop, pipe, ipc))                 \
    X(pipe_open, (uv_pipe_t * pipe, uv_file fd), (pipe, fd))                                       \
    X(fileno, (const uv_handle_t *handle, uv_os_fd_t *fd), (handle, fd))                           \
    X(listen, (uv_stream_t * stream, int backlog, uv_connection_cb cb), (stream, backlog, cb))     \
    X(read_start, (uv_stream_t * stream, uv_alloc_cb alloc, uv_read_cb read),                      \
      (stream, alloc, read))                                                                       \
    X(write,                                                                                       \
      (uv_write_t * write, uv_stream_t * stream, const uv_buf_t bufs[], unsigned count,            \
       uv_write_cb cb),                                                                            \
      (write, stream, bufs, count, cb))                                                            \
    X(shutdown, (uv_shutdown_t * shutdown, uv_stream_t * stream, uv_shutdown_cb cb),               \
      (shutdown, stream, cb))

enum function {
#define ENTRY(name, params, args) FUNCTION_##name,
    FUNCTIONS(ENTRY)
#undef ENTRY
        FUNCTION_accept,
    FUNCTION_COUNT,
};

static const char *const names[] = {
#define ENTRY(name, params, args) #name,
    FUNCTIONS(ENTRY)
#undef ENTRY
        "accept",
};

static atomic_ulong seen[FUNCTION_COUNT];
static atomic_ulong failed;

__attribute__((destructor)) static void
stop(void)
{
    const char *path = getenv("HSPZ_UV_COUNTS");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    for (int i = 0; file != NULL && i < FUNCTION_COUNT; i++) {
        fprintf(file, "%s %lu\n", names[i], atomic_load(&seen[i]));
    }
    if (file != NULL) {
        fprintf(file, "failed %lu\n", atomic_load(&failed));
        fclose(file);
    }
}

/* What this call is to fail with; 0: it is not. */
static int
failure(enum function function)
{
    const unsigned long number = atomic_fetch_add(&seen[function], 1) + 1;
    const char *text = getenv("HSPZ_FAIL_UV");
    const size_t len = strlen(names[function]);
    if (text == NULL || strncmp(text, names[function], len) != 0 || text[len] != ':') {
        return 0;
    }
    char *end;
    const unsigned long failing = strtoul(text + len + 1, &end, 10);
    if (failing != number || *end != ':') {
        return 0;
    }
    atomic_fetch_add(&failed, 1);
    return (int)strtol(end + 1, NULL, 10);
}

#define WRAP(name, params, args)                                                                   \
    int __real_uv_##name params;                                                                   \
    int __wrap_uv_##name params;                                                                   \
    int __wrap_uv_##name params                                                                    \
    {                                                                                              \
        const int result = failure(FUNCTION_##name);                                               \
        return result != 0 ? result : __real_uv_##name args;                                       \
    }
FUNCTIONS(WRAP)

int __real_uv_accept(uv_stream_t *server, uv_stream_t *client);
int __wrap_uv_accept(uv_stream_t *server, uv_stream_t *client);

/* As libuv does, a failure uses up the connection. */
int
__wrap_uv_accept(uv_stream_t *server, uv_stream_t *client)
{
    const int wanted = failure(FUNCTION_accept);
    const int result = __real_uv_accept(server, client);
    return wanted != 0 ? wanted : result;
}
