/* Counters since the start, of the daemon, its tenants, its indexes and its devices.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/usage.h"
#include "protocol/message.h"
#include "protocol/writer.h"

#include <stdint.h>

/* Of memory shared with clients. */
struct hspz_shm_stats {
    uint64_t opened, refused;  /* rings; who was refused goes on by the stream */
    uint64_t parts, bytes_out; /* lent to clients */
    uint64_t bytes_in;         /* of requests, copied from inputs */
    uint64_t waits, waited_ns; /* jobs that could go on but for the client, who had all parts */
};

struct hspz_stats {
    struct hspz_outcomes requests; /* of every method, and messages that are none */
    struct hspz_outcomes jobs;     /* of jobs alone, also in `requests` */
    uint64_t connections_accepted; /* served */
    uint64_t connections_refused;  /* over the limit, or not allowed in */
    uint64_t notifications_ignored;
    uint64_t accept_errors;
    uint64_t timeouts; /* connections closed for silence */
    uint64_t parts, anchors, hsps, bytes_in, bytes_out;
    uint64_t seeds, hits;      /* of finished jobs */
    uint64_t keys;             /* of finished requests about filters */
    uint64_t answers, entries; /* sent: of keys; of filters */
    uint64_t parks;            /* times a job gave its scratch memory back */
    struct hspz_shm_stats shm;
};

struct hspz_conn;
struct hspz_service;

/* Counts what each tenant, index and device has running and waiting now. */
void hspz_stats_look(struct hspz_service *service);
/* The result map of `stats`, as the connection's peer may see it: of tenants only its own, and of
 * the daemon nothing else, when tenants have names and it is no operator. */
void hspz_stats_encode(struct hspz_writer *w, const struct hspz_conn *conn,
                       const struct hspz_list_params *page);
/* The result map of `health`. */
void hspz_health_encode(struct hspz_writer *w, const struct hspz_service *service);
