#include "daemon/usage.h"

#define NS_PER_MS UINT64_C(1000000)
#define GUESS_LEAST_MS 20u
#define GUESS_MOST_MS 60000u
#define GUESS_UNKNOWN_MS 1000u

void
hspz_outcomes_end(struct hspz_outcomes *outcomes, enum hspz_status status)
{
    switch (status) {
    case HSPZ_OK:
        outcomes->ok++;
        break;
    case HSPZ_E_CANCELLED:
        outcomes->cancelled++;
        break;
    case HSPZ_E_DEADLINE_EXCEEDED:
    case HSPZ_E_OUT_OF_MEMORY:
    case HSPZ_E_DEVICE_ERROR:
    case HSPZ_E_INTERNAL:
    case HSPZ_E_IO:
    case HSPZ_E_BAD_FILE:
        outcomes->failed++;
        break;
    default:
        outcomes->refused++;
        break;
    }
}

uint64_t
hspz_outcomes_in_flight(const struct hspz_outcomes *o)
{
    return o->received - o->ok - o->refused - o->cancelled - o->failed;
}

void
hspz_outcomes_encode(struct hspz_writer *w, const struct hspz_outcomes *o)
{
    hspz_write_key_uint(w, "received", o->received);
    hspz_write_key_uint(w, "ok", o->ok);
    hspz_write_key_uint(w, "refused", o->refused);
    hspz_write_key_uint(w, "cancelled", o->cancelled);
    hspz_write_key_uint(w, "failed", o->failed);
    hspz_write_key_uint(w, "in_flight", hspz_outcomes_in_flight(o));
}

const uint64_t hspz_latency_ms[HSPZ_LATENCY_BUCKETS - 1] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 120000};

void
hspz_latency_add(struct hspz_latency *latency, uint64_t ns)
{
    unsigned i = 0;
    while (i < HSPZ_LATENCY_BUCKETS - 1 && ns > hspz_latency_ms[i] * NS_PER_MS) {
        i++;
    }
    latency->counts[i]++;
    latency->sum_ns += ns;
}

void
hspz_usage_add(struct hspz_usage *usage, const struct hspz_used *used)
{
    hspz_outcomes_end(&usage->jobs, used->status);
    usage->seeds += used->seeds;
    usage->hits += used->hits;
    usage->records += used->records;
    usage->keys += used->keys;
    usage->bytes_in += used->bytes_in;
    usage->bytes_out += used->bytes_out;
    hspz_latency_add(&usage->latency, used->latency_ns);
    hspz_latency_add(&usage->queued, used->queued_ns);
}

static void
encode_latency(struct hspz_writer *w, const char *key, const struct hspz_latency *latency)
{
    hspz_write_str(w, key);
    hspz_write_array(w, HSPZ_LATENCY_BUCKETS);
    for (unsigned i = 0; i < HSPZ_LATENCY_BUCKETS; i++) {
        hspz_write_uint(w, latency->counts[i]);
    }
}

void
hspz_usage_encode(struct hspz_writer *w, const struct hspz_usage *u, uint64_t now_ns)
{
    hspz_outcomes_encode(w, &u->jobs);
    hspz_write_key_uint(w, "running", u->running);
    hspz_write_key_uint(w, "waiting", u->waiting);
    hspz_write_key_uint(w, "oldest_waiting_ms",
                        u->oldest_waiting_ns != 0 ? (now_ns - u->oldest_waiting_ns) / NS_PER_MS
                                                  : 0);
    hspz_write_key_uint(w, "seeds", u->seeds);
    hspz_write_key_uint(w, "hits", u->hits);
    hspz_write_key_uint(w, "records", u->records);
    hspz_write_key_uint(w, "keys", u->keys);
    hspz_write_key_uint(w, "bytes_in", u->bytes_in);
    hspz_write_key_uint(w, "bytes_out", u->bytes_out);
    hspz_write_key_uint(w, "device_ns", u->device_ns);
    encode_latency(w, "latency", &u->latency);
}

void
hspz_pace_tick(struct hspz_pace *pace, uint64_t now_ns)
{
    const uint64_t interval = pace->last_ns != 0 ? now_ns - pace->last_ns : 0;
    pace->interval_ns = pace->interval_ns != 0 ? (3 * pace->interval_ns + interval) / 4 : interval;
    pace->last_ns = now_ns;
}

uint64_t
hspz_pace_guess_ms(const struct hspz_pace *pace, uint64_t now_ns)
{
    const uint64_t since = pace->last_ns != 0 ? now_ns - pace->last_ns : 0;
    const uint64_t ns = pace->interval_ns > since ? pace->interval_ns : since;
    const uint64_t ms = pace->last_ns != 0 ? ns / NS_PER_MS : GUESS_UNKNOWN_MS;
    return ms < GUESS_LEAST_MS ? GUESS_LEAST_MS : ms > GUESS_MOST_MS ? GUESS_MOST_MS : ms;
}
