/* What somebody used, and how long it took: of a tenant, an index or a device.
 *
 * Threads: the loop thread only. */
#pragma once

#include "engine/engine.h"
#include "protocol/status.h"
#include "protocol/writer.h"

#include <stdint.h>

/* Every request is counted once when it comes and once when it ends, so received = ok + refused +
 * cancelled + failed + in flight at any moment. */
struct hspz_outcomes {
    uint64_t received, ok, refused, cancelled, failed;
};

void hspz_outcomes_end(struct hspz_outcomes *outcomes, enum hspz_status status);
uint64_t hspz_outcomes_in_flight(const struct hspz_outcomes *outcomes);
/* The six pairs of a map. */
void hspz_outcomes_encode(struct hspz_writer *w, const struct hspz_outcomes *outcomes);

/* Jobs by the time from arrival to end: bucket i has those of at most hspz_latency_ms[i] and more
 * than the one before; the last has the rest. */
#define HSPZ_LATENCY_BUCKETS 16u
extern const uint64_t hspz_latency_ms[HSPZ_LATENCY_BUCKETS - 1];

struct hspz_latency {
    uint64_t counts[HSPZ_LATENCY_BUCKETS];
    uint64_t sum_ns;
};

void hspz_latency_add(struct hspz_latency *latency, uint64_t ns);

struct hspz_usage {
    struct hspz_outcomes jobs;
    uint64_t seeds, hits, records; /* of jobs that ended; records: what was sent for them */
    uint64_t keys;                 /* of requests about filters that ended */
    uint64_t bytes_in, bytes_out;  /* of requests, and of records */
    uint64_t device_ns;            /* time on lanes */
    struct hspz_latency latency, queued;

    /* Now, as of the last look (hspz_stats_look). */
    uint64_t running, waiting, oldest_waiting_ns; /* arrival; 0: none waits */
};

/* A job that ended, as it counts for its tenant, its index and its device. */
struct hspz_used {
    enum hspz_status status;
    uint64_t seeds, hits, records, keys, bytes_in, bytes_out;
    uint64_t latency_ns, queued_ns; /* queued: to the first step, or the end */
};

void hspz_usage_add(struct hspz_usage *usage, const struct hspz_used *used);

#define HSPZ_USAGE_PAIRS 17u
/* HSPZ_USAGE_PAIRS pairs of a map. */
void hspz_usage_encode(struct hspz_writer *w, const struct hspz_usage *usage, uint64_t now_ns);

/* How often something ends, to guess when it will again. */
struct hspz_pace {
    uint64_t last_ns, interval_ns; /* 0: nothing has ended yet */
};

void hspz_pace_tick(struct hspz_pace *pace, uint64_t now_ns);
/* Milliseconds until one more may have ended, 20 to 60,000. */
uint64_t hspz_pace_guess_ms(const struct hspz_pace *pace, uint64_t now_ns);
