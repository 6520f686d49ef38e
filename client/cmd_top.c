#include "client/call.h"
#include "client/cli.h"
#include "client/socket.h"
#include "protocol/text.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* top: who uses the server. Two answers of `stats`, and what came between them; one alone is shown
 * as rates since the server's start. */

#define ROWS 32
#define BUCKETS 16
#define NAME_BYTES 64
#define SHOWN_BYTES 24

#define CLEAR_TO_END "\033[J"
#define CLEAR_LINE "\033[K\n"

struct row {
    char name[NAME_BYTES], state[16]; /* a device's, else empty */
    uint64_t running, waiting, ended, hits, bytes_out, device_ns;
    uint64_t latency[BUCKETS];
};

enum { TENANTS, INDEXES, DEVICES, TABLES };

struct sample {
    char server[96], state[32];
    uint64_t uptime_ms, connections, limit, jobs_running, jobs_waiting, oldest_ms;
    uint64_t bounds_ms[BUCKETS]; /* the last is not one */
    struct row rows[TABLES][ROWS];
    size_t counts[TABLES];
};

/* How it is written: `lines` left of the terminal, -1 for any number. */
struct screen {
    bool live;
    int lines;
};

static uint64_t
number(const struct hspz_node *map, const char *key)
{
    uint64_t value = 0;
    (void)hspz_node_uint(hspz_node_get(map, key), &value);
    return value;
}

static void
text(const struct hspz_node *map, const char *key, char *out, size_t room)
{
    struct hspz_span span = {.bytes = (const uint8_t *)"", .len = 0};
    (void)hspz_node_str(hspz_node_get(map, key), &span);
    snprintf(out, room, "%.*s", (int)span.len, (const char *)span.bytes);
    hspz_text_clean(out);
}

static void
take_numbers(const struct hspz_node *list, uint64_t out[BUCKETS])
{
    for (size_t i = 0; i < hspz_node_count(list) && i < BUCKETS; i++) {
        (void)hspz_node_uint(hspz_node_at(list, i), &out[i]);
    }
}

static void
take_row(const struct hspz_node *node, const char *key, struct row *out)
{
    text(node, key, out->name, sizeof(out->name));
    if (strcmp(key, "device") == 0) {
        char name[48];
        text(node, "name", name, sizeof(name));
        snprintf(out->name, sizeof(out->name), "%" PRIu64 " %s", number(node, key), name);
        text(node, "state", out->state, sizeof(out->state));
    }
    out->running = number(node, "running");
    out->waiting = number(node, "waiting");
    out->ended = number(node, "received") - number(node, "in_flight");
    out->hits = number(node, "hits");
    out->bytes_out = number(node, "bytes_out");
    out->device_ns = number(node, "device_ns");
    take_numbers(hspz_node_get(node, "latency"), out->latency);
}

static void
take_sample(const struct hspz_node *stats, struct sample *out)
{
    static const char *const lists[TABLES][2] = {
        {"tenants", "tenant"}, {"indexes", "index"}, {"devices", "device"}};
    char version[32], engine[32];
    *out = (struct sample){0};
    text(stats, "version", version, sizeof(version));
    text(stats, "engine", engine, sizeof(engine));
    snprintf(out->server, sizeof(out->server), "hspzd %s, %s", version, engine);
    text(stats, "state", out->state, sizeof(out->state));
    out->uptime_ms = number(stats, "uptime_ms");
    const struct hspz_node *connections = hspz_node_get(stats, "connections");
    out->connections = number(connections, "open");
    out->limit = number(connections, "limit");
    const struct hspz_node *jobs = hspz_node_get(stats, "jobs");
    out->jobs_running = number(jobs, "running");
    out->jobs_waiting = number(jobs, "waiting");
    out->oldest_ms = number(jobs, "oldest_waiting_ms");
    take_numbers(hspz_node_get(stats, "latency_ms"), out->bounds_ms);
    for (int t = 0; t < TABLES; t++) {
        const struct hspz_node *list = hspz_node_get(stats, lists[t][0]);
        const size_t count = hspz_node_count(list);
        out->counts[t] = count < ROWS ? count : ROWS;
        for (size_t i = 0; i < out->counts[t]; i++) {
            take_row(hspz_node_at(list, i), lists[t][1], &out->rows[t][i]);
        }
    }
}

static void
end_line(struct screen *screen)
{
    fputs(screen->live ? CLEAR_LINE : "\n", stdout);
    screen->lines -= screen->lines > 0;
}

/* Three digits or so, with K, M, ... of 1000. */
static void
short_number(double value, char out[16])
{
    static const char units[] = " KMGTP";
    size_t unit = 0;
    while (value >= 999.5 && unit + 2 < sizeof(units)) {
        value /= 1000;
        unit++;
    }
    snprintf(out, 16, "%.*f%.*s", value < 9.95 && (unit > 0 || value > 0) ? 1 : 0, value, unit > 0,
             &units[unit]);
}

/* The bound under which `part` of the jobs ended. */
static void
percentile(const struct sample *s, const uint64_t counts[BUCKETS], double part, char out[16])
{
    uint64_t all = 0, sum = 0;
    for (int i = 0; i < BUCKETS; i++) {
        all += counts[i];
    }
    int at = 0;
    for (; at < BUCKETS - 1; at++) {
        sum += counts[at];
        if ((double)sum >= part * (double)all) {
            break;
        }
    }
    if (all == 0) {
        snprintf(out, 16, "-");
    } else if (at == BUCKETS - 1) {
        snprintf(out, 16, ">%gs", (double)s->bounds_ms[at - 1] / 1000);
    } else if (s->bounds_ms[at] < 1000) {
        snprintf(out, 16, "<%" PRIu64 "ms", s->bounds_ms[at]);
    } else {
        snprintf(out, 16, "<%gs", (double)s->bounds_ms[at] / 1000);
    }
}

static const struct row *
find_row(const struct sample *s, int table, const char *name)
{
    for (size_t i = 0; i < s->counts[table]; i++) {
        if (strcmp(s->rows[table][i].name, name) == 0) {
            return &s->rows[table][i];
        }
    }
    return NULL;
}

/* A long name ends in dots, between two characters. */
static void
short_name(const char *name, char out[SHOWN_BYTES + 1])
{
    const size_t len = strlen(name);
    size_t kept = len <= SHOWN_BYTES ? len : SHOWN_BYTES - 3;
    while (kept < len && kept > 0 && ((unsigned char)name[kept] & 0xc0u) == 0x80u) {
        kept--;
    }
    snprintf(out, SHOWN_BYTES + 1, "%.*s%s", (int)kept, name, kept < len ? "..." : "");
}

static void
print_row(const struct sample *now, const struct row *row, const struct row *before, double seconds,
          struct screen *screen)
{
    static const struct row nothing;
    /* A server that was started anew counts from 0. */
    before = before != NULL && before->ended <= row->ended ? before : &nothing;
    char name[SHOWN_BYTES + 1], hits[16], bytes[16], jobs[16], half[16], most[16];
    uint64_t latency[BUCKETS];
    for (int i = 0; i < BUCKETS; i++) {
        latency[i] = row->latency[i] - before->latency[i];
    }
    short_number((double)(row->ended - before->ended) / seconds, jobs);
    short_number((double)(row->hits - before->hits) / seconds, hits);
    short_number((double)(row->bytes_out - before->bytes_out) / seconds, bytes);
    percentile(now, latency, 0.5, half);
    percentile(now, latency, 0.99, most);
    const bool away = row->state[0] != '\0' && strcmp(row->state, "ready") != 0;
    char whole[sizeof(row->state) + 2 + sizeof(row->name)];
    snprintf(whole, sizeof(whole), "%s%s%s", away ? row->state : "", away ? ": " : "",
             row->name[0] != '\0' ? row->name : "(everybody)");
    short_name(whole, name);
    printf("%-24s %5" PRIu64 " %5" PRIu64 " %7s %7s %7s %6.0f%% %8s %8s", name, row->running,
           row->waiting, jobs, hits, bytes,
           (double)(row->device_ns - before->device_ns) / seconds / 1e7, half, most);
    end_line(screen);
}

static void
print_sample(const struct sample *now, const struct sample *before, struct screen *screen)
{
    static const char *const titles[TABLES] = {"TENANT", "INDEX", "DEVICE"};
    const bool restarted = before != NULL && now->uptime_ms < before->uptime_ms;
    before = restarted ? NULL : before;
    const uint64_t ms = now->uptime_ms - (before != NULL ? before->uptime_ms : 0);
    const double seconds = ms > 0 ? (double)ms / 1000 : 1;
    printf("%s, %s for %" PRIu64 ":%02" PRIu64 ":%02" PRIu64, now->server, now->state,
           now->uptime_ms / 3600000, now->uptime_ms / 60000 % 60, now->uptime_ms / 1000 % 60);
    if (now->limit > 0) {
        printf(", %" PRIu64 " of %" PRIu64 " connections, %" PRIu64 " jobs running, %" PRIu64
               " waiting",
               now->connections, now->limit, now->jobs_running, now->jobs_waiting);
    }
    if (now->oldest_ms > 0) {
        printf(" (%.1f s)", (double)now->oldest_ms / 1000);
    }
    end_line(screen);
    for (int t = 0; t < TABLES; t++) {
        if (now->counts[t] == 0 || screen->lines == 1 || screen->lines == 2) {
            continue;
        }
        end_line(screen);
        printf("%-24s %5s %5s %7s %7s %7s %7s %8s %8s", titles[t], "RUN", "WAIT", "JOBS/s",
               "HITS/s", "B/s", "LANES", "P50", "P99");
        end_line(screen);
        for (size_t i = 0; i < now->counts[t] && screen->lines != 1; i++) {
            const struct row *row = &now->rows[t][i];
            print_row(now, row, before != NULL ? find_row(before, t, row->name) : NULL, seconds,
                      screen);
        }
    }
}

static enum hspz_status
ask(struct hspz_client *client, struct sample *out, struct hspz_error *err)
{
    struct hspz_reply reply = {0};
    const enum hspz_status status = hspz_client_ask(client, HSPZ_METHOD_STATS, &reply, err);
    if (status == HSPZ_OK) {
        take_sample(reply.result, out);
    }
    hspz_reply_fini(&reply);
    return status;
}

static int
terminal_lines(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 3 ? size.ws_row : 24;
}

/* Until it is stopped, or fails. */
static enum hspz_status
watch(const struct hspz_cli *cli, struct hspz_client *client, struct sample samples[2],
      int64_t every_ms, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    struct sample *now = &samples[0], *before = NULL;
    fputs("\033[?1049h\033[?25l", stdout);
    while (status == HSPZ_OK && !hspz_cli_stopped(cli)) {
        status = ask(client, now, err);
        if (status == HSPZ_OK) {
            struct screen screen = {.live = true, .lines = terminal_lines()};
            short got;
            fputs("\033[H", stdout);
            print_sample(now, before, &screen);
            fputs(CLEAR_TO_END, stdout);
            if (fflush(stdout) != 0) {
                break;
            }
            before = now;
            now = now == &samples[0] ? &samples[1] : &samples[0];
            status = hspz_socket_wait(-1, 0, cli->stop_fd, every_ms, &got);
        }
    }
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout); /* what is said of a failure has to outlast this screen */
    return status == HSPZ_E_STOPPED ? HSPZ_OK : status;
}

int
hspz_cmd_top(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    bool once = false;
    int64_t every_ms = 2000;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--once", .target = &once},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--every", .target = &every_ms},
        {.kind = HSPZ_OPTION_END},
    };
    int exit_status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, NULL, 0, 0, &exit_status)) {
        return exit_status;
    }
    struct hspz_error err = {0};
    struct hspz_client *client = NULL;
    struct sample *samples = calloc(2, sizeof(*samples));
    enum hspz_status status = HSPZ_OK;
    if (samples == NULL) {
        status = hspz_error_set(&err, HSPZ_E_OUT_OF_MEMORY, "no memory for the answers");
    }
    if (status == HSPZ_OK) {
        status = hspz_cli_connect(cli, &client, &err);
    }
    if (status == HSPZ_OK && (once || !isatty(STDOUT_FILENO))) {
        struct screen screen = {.lines = -1};
        status = ask(client, &samples[0], &err);
        if (status == HSPZ_OK) {
            print_sample(&samples[0], NULL, &screen);
        }
    } else if (status == HSPZ_OK) {
        status = watch(cli, client, samples, every_ms > 0 ? every_ms : 100, &err);
    }
    hspz_client_close(&client);
    free(samples);
    return status == HSPZ_OK ? hspz_cli_finish_stdout() : hspz_cli_fail(cli, &err);
}
