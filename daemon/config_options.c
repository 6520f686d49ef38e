#include "daemon/config_options.h"

#include "protocol/limits.h"

#include <inttypes.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define DAY_MS UINT64_C(86400000)
#define BYTES_MAX (UINT64_C(1) << 62)

#define AT(member) offsetof(struct hspz_config, member)

static const char *const engine_names[] = {"auto", "cpu", "cuda", NULL};
const char *const hspz_placement_names[] = {"replicate", "split", "blocks", NULL};
static const char *const yes_names[] = {"no", "yes", NULL};
static const char *const level_names[] = {"debug", "info", "warning", "error", NULL};
static const char *const format_names[] = {"text", "json", NULL};

#define COUNT HSPZ_OPTION_COUNT
#define BYTES HSPZ_OPTION_BYTES
#define TEXT HSPZ_OPTION_TEXT
#define CHOICE HSPZ_OPTION_CHOICE

/* clang-format off */
const struct hspz_option hspz_options[] = {
    {"socket", "socket", TEXT, AT(socket_path), 0, 0, NULL, "PATH",
     "UNIX socket (default $XDG_RUNTIME_DIR/hspz.sock, else /run/hspz/hspz.sock; '' for none)", true, false},
    {"listen", "listen", HSPZ_OPTION_LISTEN, 0, 0, 0, NULL, "HOST:PORT",
     "also listen on TCP, loopback only without tenants; repeatable", true, false},
    {"socket_mode", "socket-mode", TEXT, AT(socket_mode), 0, 0, NULL, "MODE",
     "permissions of the UNIX socket (default 0600; with tenants 0666, with socket_group 0660)",
     false, false},
    {"socket_group", "socket-group", TEXT, AT(socket_group), 0, 0, NULL, "GROUP",
     "group of the UNIX socket, by name or number", false, false},
    {"tls_certificate", "tls-certificate", TEXT, AT(tls_certificate), 0, 0, NULL, "FILE",
     "PEM chain of the server: TCP speaks TLS 1.3; SIGHUP reads it again", false, false},
    {"tls_key", "tls-key", TEXT, AT(tls_key), 0, 0, NULL, "FILE", "PEM key of the certificate",
     false, false},
    {"tls_client_ca", "tls-client-ca", TEXT, AT(tls_client_ca), 0, 0, NULL, "FILE",
     "PEM certificates of who signs clients' (default: none are asked for)", false, false},
    {"insecure", "insecure", CHOICE, AT(insecure), 0, 0, yes_names, "no|yes",
     "yes: plain TCP on other addresses than loopback (default no)", false, false},
    {"tenants", "tenants", HSPZ_OPTION_TENANTS, 0, 0, 0, NULL, "LIST",
     "who may use the server, in the file only (default: your own user and root)", false, true},
    {"engine", "engine", CHOICE, AT(engine), 0, 0, engine_names, "auto|cpu|cuda",
     "auto: cuda if a device answers, else cpu (default)", true, false},
    {"devices", "devices", HSPZ_OPTION_DEVICES, 0, 0, 0, NULL, "D,D...",
     "GPUs of the cuda engine, by number or GPU-/MIG- UUID (default: all)", true, false},
    {"simulate_devices", "simulate-devices", TEXT, AT(simulate_devices), 0, 0, NULL, "LIST",
     "for trials: the cpu engine as several devices, each [COUNTx]US[:fails=N|:hangs=N[:for=MS]]",
     false, false},
    {"threads", "threads", COUNT, AT(threads), 0, 1024, NULL, "N",
     "threads of the cpu engine (default 0: all processors)", true, false},
    {"indexes", "index", HSPZ_OPTION_INDEXES, 0, 0, 0, NULL, "NAME=FILE",
     "index to serve from the start; repeatable; in JSON, indexes: {name: file}", true, false},
    {"index_dir", "index-dir", TEXT, AT(index_dir), 0, 0, NULL, "DIR",
     "index files; NAME.hspz is loaded when a job names NAME", true, false},
    {"data_dir", "data-dir", TEXT, AT(data_dir), 0, 0, NULL, "DIR",
     "folder of sequence files that operators may build from by name (default none)", false, false},
    {"memory", "memory", BYTES, AT(memory), 0, BYTES_MAX, NULL, "BYTES",
     "budget of all indexes on the host (default 0: none)", true, true},
    {"device_memory", "device-memory", BYTES, AT(device_memory), 0, BYTES_MAX, NULL, "BYTES",
     "budget on each GPU (default 0: most of what is free)", true, false},
    {"placement", "placement", CHOICE, AT(placement), 0, 0, hspz_placement_names,
     HSPZ_PLACEMENTS,
     "on several devices: each index on all of them (default), on the one with most room, or its blocks in turn",
     false, false},
    {"device_timeout_ms", "device-timeout-ms", COUNT, AT(device_timeout_ms), 0, DAY_MS, NULL, "MS",
     "for a step on one of several devices, then it is done again on another (default 30000; 0: no limit)",
     false, true},
    {"groups", "groups", HSPZ_OPTION_GROUPS, 0, 0, 0, NULL, "LIST",
     "which devices hold which indexes, in the file only (default: all hold all, by placement)", false,
     false},
    {"lanes", "lanes", COUNT, AT(lanes), 0, 16, NULL, "N",
     "jobs at a time on each device (default 0: 4 on a GPU, 1 on the cpu engine)", false, false},
    {"idle_unload_s", "idle-unload-s", COUNT, AT(idle_unload_s), 0, 31536000, NULL, "S",
     "give back an index unused for so long, those named by --index apart (default 0: never)",
     false, true},
    {"idle_exit_s", "idle-exit-s", COUNT, AT(idle_exit_s), 0, 31536000, NULL, "S",
     "end when nobody was connected for so long (default 0: never)", false, true},
    {"address_file", "address-file", TEXT, AT(address_file), 0, 0, NULL, "FILE",
     "write the addresses, as clients take them, one a line; with --listen 127.0.0.1:0", false, false},
    {"metrics", "metrics", TEXT, AT(metrics), 0, 0, NULL, "HOST:PORT",
     "serve /metrics (Prometheus) and /healthz over HTTP, on loopback (default none)", false, false},
    {"job_memory", "job-memory", BYTES, AT(job_memory), MIB, BYTES_MAX, NULL, "BYTES",
     "budget of the scratch memory of all jobs (default 1G)", false, false},
    {"buffer_memory", "buffer-memory", BYTES, AT(buffer_memory), 0, BYTES_MAX, NULL, "BYTES",
     "budget of part buffers beyond the one that each connection may have (default 256M)", false, false},
    {"shm_memory", "shm-memory", BYTES, AT(shm_memory), 0, BYTES_MAX, NULL, "BYTES",
     "memory to share with clients on the UNIX socket (default 256M; 0: none)", false, false},
    {"shm_input", "shm-input", BYTES, AT(shm_input), 0, BYTES_MAX, NULL, "BYTES",
     "of it, what each client may send queries by (default 8M)", false, false},
    {"part_bytes", "part-bytes", BYTES, AT(part_bytes), 64 * KIB, HSPZ_PART_BYTES_LIMIT, NULL,
     "BYTES", "anchor bytes in a part, a multiple of 8, 64K to 8M (default 1M)", false, false},
    {"parts_per_connection", "parts-per-connection", COUNT, AT(parts_per_connection), 1, 64, NULL,
     "N", "parts made ahead of a connection's reader (default 4)", false, false},
    {"max_connections", "max-connections", COUNT, AT(max_connections), 1, 1000000, NULL, "N",
     "connections at a time; more are closed at once (default 1024)", false, false},
    {"max_jobs", "max-jobs", COUNT, AT(max_jobs), 0, 1000000, NULL, "N",
     "jobs of a connection that may wait behind its running one (default 64)", false, true},
    {"max_all_jobs", "max-all-jobs", COUNT, AT(max_all_jobs), 1, 1000000, NULL, "N",
     "jobs of all connections together (default 16384)", false, true},
    {"max_message", "max-message", BYTES, AT(max_message), 64 * KIB, BYTES_MAX, NULL, "BYTES",
     "largest message a peer may send (default 1G)", false, false},
    {"ingest_per_connection", "ingest-per-connection", BYTES, AT(ingest_per_connection), 64 * KIB,
     BYTES_MAX, NULL, "BYTES", "bytes of requests held for a connection (default 1G)", false, true},
    {"ingest_total", "ingest-total", BYTES, AT(ingest_total), 64 * KIB, BYTES_MAX, NULL, "BYTES",
     "bytes of requests held for all connections (default 4G)", false, true},
    {"max_seeds", "max-seeds", COUNT, AT(max_seeds), 1, BYTES_MAX, NULL, "N",
     "seeds of a job (default 134217728)", false, true},
    {"max_query_bases", "max-query-bases", COUNT, AT(max_query_bases), 1, 4294967231, NULL, "N",
     "query bases of a job, separators included (default 1073741824)", false, true},
    {"max_hsps", "max-hsps", COUNT, AT(max_hsps), 0, BYTES_MAX, NULL, "N",
     "HSPs that a job may come to hold (default 0: what a quarter of job_memory holds)", false, true},
    {"max_keys", "max-keys", COUNT, AT(max_keys), 1, BYTES_MAX, NULL, "N",
     "keys of a request about a filter (default 134217728)", false, true},
    {"max_filters", "max-filters", COUNT, AT(max_filters), 0, 1000000, NULL, "N",
     "filters in memory (default 1024; 0: none are served)", false, true},
    {"filter_memory", "filter-memory", BYTES, AT(filter_memory), 0, BYTES_MAX, NULL, "BYTES",
     "budget of all filters (default 1G)", false, true},
    {"filter_dir", "filter-dir", TEXT, AT(filter_dir), 0, 0, NULL, "DIR",
     "where tenants save their filters, each in a folder of its name (default: nowhere)", false, false},
    {"filter_disk", "filter-disk", BYTES, AT(filter_disk), 0, BYTES_MAX, NULL, "BYTES",
     "bytes of the filters that a tenant may save (default 10G)", false, true},
    {"hello_timeout_ms", "hello-timeout-ms", COUNT, AT(hello_timeout_ms), 1, DAY_MS, NULL, "MS",
     "for a new connection to say hello (default 10000)", false, true},
    {"frame_timeout_ms", "frame-timeout-ms", COUNT, AT(frame_timeout_ms), 1, DAY_MS, NULL, "MS",
     "for a begun message to be complete or move by 64K (default 30000)", false, true},
    {"write_timeout_ms", "write-timeout-ms", COUNT, AT(write_timeout_ms), 1, DAY_MS, NULL, "MS",
     "for a peer to read something of what waits for it (default 300000)", false, true},
    {"idle_timeout_ms", "idle-timeout-ms", COUNT, AT(idle_timeout_ms), 0, 365 * DAY_MS, NULL, "MS",
     "for a connection that asks for nothing (default 86400000, a day; 0: no limit)", false, true},
    {"drain_timeout_ms", "drain-timeout-ms", COUNT, AT(drain_timeout_ms), 0, DAY_MS, NULL, "MS",
     "for jobs to finish at shutdown, then they are cancelled (default 0: no limit)", false, true},
    {"access_log", "access-log", CHOICE, AT(access_log), 0, 0, yes_names, "no|yes",
     "log who connects and how each request ends (default no)", false, true},
    {"log_level", "log-level", CHOICE, AT(log_level), 0, 0, level_names,
     "debug|info|warning|error",
     "(default info)", true, true},
    {"log_format", "log-format", CHOICE, AT(log_format), 0, 0, format_names, "text|json",
     "one line an event on standard error (default text)", true, true},
};
/* clang-format on */

const size_t hspz_option_count = sizeof(hspz_options) / sizeof(hspz_options[0]);

void
hspz_config_init(struct hspz_config *config)
{
    *config = (struct hspz_config){
        .engine = HSPZ_ENGINE_AUTO,
        .device_timeout_ms = 30000,
        .job_memory = GIB,
        .buffer_memory = 256 * MIB,
        .shm_memory = 256 * MIB,
        .shm_input = 8 * MIB,
        .part_bytes = MIB,
        .parts_per_connection = 4,
        .max_connections = 1024,
        .max_jobs = 64,
        .max_all_jobs = 16384,
        .max_message = GIB,
        .ingest_per_connection = GIB,
        .ingest_total = 4 * GIB,
        .max_seeds = 134217728,
        .max_query_bases = GIB,
        .max_keys = 134217728,
        .max_filters = 1024,
        .filter_memory = GIB,
        .filter_disk = 10 * GIB,
        .hello_timeout_ms = 10000,
        .frame_timeout_ms = 30000,
        .write_timeout_ms = 300000,
        .idle_timeout_ms = DAY_MS,
        .log_level = HSPZ_LOG_INFO,
        .log_format = HSPZ_LOG_TEXT,
    };
}

/* `left`, and `text` beside it from a column on, broken at blanks. */
static void
print_row(FILE *out, const char *left, const char *text)
{
    enum { COLUMN = 25, WIDTH = 80 };
    int at = fprintf(out, "  %s", left);
    if (at >= COLUMN) {
        fputc('\n', out);
        at = 0;
    }
    fprintf(out, "%*s", COLUMN - at, "");
    at = COLUMN;
    while (*text != '\0') {
        const size_t len = strcspn(text, " ");
        if (at > COLUMN && at + 1 + (int)len > WIDTH) {
            fprintf(out, "\n%*s", COLUMN, "");
            at = COLUMN;
        } else if (at > COLUMN) {
            fputc(' ', out);
            at++;
        }
        at += fprintf(out, "%.*s", (int)len, text);
        text += len + (text[len] == ' ');
    }
    fputc('\n', out);
}

void
hspz_config_print_help(FILE *out, bool all)
{
    fprintf(out, "usage: hspzd [OPTION VALUE]...\n"
                 "Keeps reference seed indexes resident and answers discovery requests.\n");
    for (size_t i = 0; i < hspz_option_count; i++) {
        const struct hspz_option *o = &hspz_options[i];
        if (all || o->common) {
            char left[64];
            snprintf(left, sizeof(left), "--%s %s", o->flag, o->value);
            print_row(out, left, o->help);
        }
    }
    print_row(out, "--config FILE", "JSON file of the same options, '_' for '-'; flags win");
    if (all) {
        print_row(out, "--die-with-parent", "end with the process that started this one");
    }
    print_row(out, "--check-config", "check everything, say what the indexes need, and exit");
    print_row(out, "--help all, --version", "all options; the version");
    fprintf(out,
            "Sizes take K, M or G (powers of 1024). SIGTERM: finish the jobs, then exit; a\n"
            "second one cancels them. Exit status: 0 done, 1 failed, 2 usage, 75 device lost.\n");
}
