/* Settings of the daemon: defaults, then the file, then flags; later ones win, and the lists
 * (`listen`, `indexes`) add up.
 *
 * File:    one JSON object. Unknown and repeated keys are refused by name; numbers are plain whole
 *          numbers (sizes in bytes, times in milliseconds); sizes may be texts as flags take them.
 * Flags:   every key but `tenants`, with '-' for '_', as `--key VALUE` or `--key=VALUE`. Sizes may
 * end in K, M or G (1024, 1024^2, 1024^3), as in 512M. Units:   as the member's name says.
 * Environment: XDG_RUNTIME_DIR, for the default socket path; read here and nowhere else. Errors:
 * HSPZ_E_BAD_REQUEST (usage: a flag), HSPZ_E_BAD_FILE (the file: line, key and value),
 *          HSPZ_E_IO, HSPZ_E_OUT_OF_MEMORY. On failure *config needs only hspz_config_fini. */
#pragma once

#include "daemon/log.h"
#include "daemon/tenant.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum hspz_engine_choice { HSPZ_ENGINE_AUTO, HSPZ_ENGINE_CPU, HSPZ_ENGINE_CUDA };

/* An index on several devices: on each of them, on one of them, or its blocks one after another. */
enum hspz_placement { HSPZ_PLACE_REPLICATE, HSPZ_PLACE_SPLIT, HSPZ_PLACE_BLOCKS };

/* Devices, by their places among those of the engine, that hold certain indexes, and how. */
struct hspz_config_group {
    unsigned placement; /* enum hspz_placement */
    unsigned line;      /* of the file, where it begins */
    unsigned *devices;
    size_t device_count;
    char **indexes; /* names */
    size_t index_count;
};

struct hspz_config_index {
    char *name;
    char *path;
};

struct hspz_config {
    char *config_path; /* NULL: no file */
    int argc;          /* what it was loaded from; borrowed */
    char **argv;
    bool check_only, help, help_all, version;
    bool die_with_parent;
    pid_t parent; /* when the process began */

    char *socket_path; /* "" : none; after hspz_config_finish never NULL */
    bool socket_is_default;
    char **listen; /* HOST:PORT */
    size_t listen_count;

    char *socket_mode;  /* octal; NULL: 0600, with tenants 0660 or 0666 */
    char *socket_group; /* name or number; NULL: as the process */
    char *tls_certificate, *tls_key, *tls_client_ca; /* PEM files; NULL: TCP is plain */
    unsigned insecure;                               /* 1: plain TCP beyond loopback, too */

    bool has_tenants; /* the file has the key */
    struct hspz_tenant_settings *tenants;
    size_t tenant_count;

    unsigned engine; /* enum hspz_engine_choice */
    uint64_t threads;
    char **devices; /* ordinals or UUIDs; none: all visible */
    size_t device_count;
    uint64_t device_timeout_ms; /* for a step, where there are several devices; 0: none */
    char *simulate_devices;     /* of the cpu engine (engine/cpu/simulated.h); NULL: none */
    uint64_t lanes;             /* of each device; 0: as the engine likes it */
    unsigned placement;         /* enum hspz_placement */
    struct hspz_config_group *groups;
    size_t group_count;
    uint64_t device_memory; /* bytes on each device; 0: most of what is free */
    struct hspz_config_index *indexes;
    size_t index_count;
    char *index_dir, *data_dir; /* NULL: only absolute paths */

    uint64_t idle_unload_s; /* 0: never */
    uint64_t idle_exit_s;   /* 0: never */
    char *address_file;     /* NULL: none */
    char *metrics;          /* HOST:PORT of the HTTP listener; NULL or "": none */
    uint64_t memory;        /* bytes of all indexes; 0: no budget */
    uint64_t job_memory;    /* bytes of scratch of all jobs */
    uint64_t buffer_memory; /* bytes of part buffers beyond the first of each connection */
    uint64_t shm_memory;    /* bytes that may be shared with clients; 0: none is */
    uint64_t shm_input;     /* of that, what a connection may send its requests' payloads by */
    uint64_t part_bytes;
    uint64_t parts_per_connection;

    uint64_t max_connections;
    uint64_t max_jobs;                            /* waiting, of a connection */
    uint64_t max_all_jobs;                        /* waiting or running, of the daemon */
    uint64_t max_message;                         /* bytes */
    uint64_t ingest_per_connection, ingest_total; /* bytes of requests held */
    uint64_t max_seeds, max_query_bases;          /* of a job */
    uint64_t max_hsps;                            /* of a job; hspz_config_max_hsps */
    uint64_t max_keys;                            /* of a request about a filter */

    uint64_t max_filters;
    uint64_t filter_memory; /* bytes of all filters */
    char *filter_dir;       /* where tenants save theirs; NULL: nowhere */
    uint64_t filter_disk;   /* bytes that a tenant may save */

    uint64_t hello_timeout_ms, frame_timeout_ms, write_timeout_ms;
    uint64_t idle_timeout_ms;  /* 0: none */
    uint64_t drain_timeout_ms; /* 0: none */

    bool walk_full; /* HSPZ_CHUNK_WALK */

    unsigned access_log; /* 1: a line for each request */
    unsigned log_level;  /* enum hspz_log_level */
    unsigned log_format; /* enum hspz_log_format */
};

void hspz_config_init(struct hspz_config *config); /* the defaults */
void hspz_config_fini(struct hspz_config *config);

/* Flags and the file they name, checked together. With `help` or `version` among the flags nothing
 * else is looked at. */
HSPZ_MUST_USE enum hspz_status hspz_config_load(struct hspz_config *config, int argc, char **argv,
                                                struct hspz_error *err);

/* The group that names the index; NULL: none, and it is on all devices by `placement`. */
const struct hspz_config_group *hspz_config_group_of(const struct hspz_config *config,
                                                     const char *index);
bool hspz_config_groups_same(const struct hspz_config *a, const struct hspz_config *b);
/* HSPZ_E_BAD_REQUEST when a group has a device that is not among so many. */
HSPZ_MUST_USE enum hspz_status hspz_config_groups_check(const struct hspz_config *config,
                                                        unsigned devices, struct hspz_error *err);

/* Most HSPs that a job may hold, as set or by job_memory. */
uint64_t hspz_config_max_hsps(const struct hspz_config *config);

void hspz_config_print_help(FILE *out, bool all);

/* Whether TCP is TLS. */
bool hspz_config_serves_tls(const struct hspz_config *config);
/* Whether a TCP listener may have an address that is not loopback. */
bool hspz_config_serves_network(const struct hspz_config *config);
/* Permissions of the UNIX socket. */
unsigned hspz_config_socket_mode(const struct hspz_config *config);

/* Splits HOST:PORT, an IPv6 address in brackets. */
#define HSPZ_LISTEN_HOST_BYTES 256
HSPZ_MUST_USE enum hspz_status hspz_listen_parse(const char *text,
                                                 char host[HSPZ_LISTEN_HOST_BYTES], uint16_t *port,
                                                 struct hspz_error *err);

/* Whether `name` may name an index: 1 to HSPZ_NAME_BYTES_LIMIT bytes, no control byte, '/' or '='.
 */
bool hspz_index_name_allowed(const char *name, size_t len);
