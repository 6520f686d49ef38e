#include "engine/cpu/simulated.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)
#define US_LIMIT UINT64_C(60000000)
#define NUMBER_LIMIT UINT64_C(1000000000000)

/* ---- the text ---- */

struct reader {
    const char *at;
    const char *entry; /* under way, for errors */
    struct hspz_error *err;
};

static enum hspz_status
refuse(const struct reader *r, const char *why)
{
    return hspz_error_set(
        r->err, HSPZ_E_BAD_REQUEST,
        "\"%.*s\": %s ([COUNTx]MICROSECONDS[:fails=PARTS|:hangs=PARTS[:for=MILLISECONDS]])",
        (int)strcspn(r->entry, ","), r->entry, why);
}

static bool
read_number(struct reader *r, uint64_t limit, uint64_t *out)
{
    uint64_t value = 0;
    const char *const begin = r->at;
    while (*r->at >= '0' && *r->at <= '9' && value <= limit) {
        value = value * 10 + (uint64_t)(*r->at++ - '0');
    }
    *out = value;
    return r->at > begin && value <= limit;
}

static bool
read_word(struct reader *r, const char *word)
{
    const size_t len = strlen(word);
    if (strncmp(r->at, word, len) != 0) {
        return false;
    }
    r->at += len;
    return true;
}

static enum hspz_status
read_failure(struct reader *r, struct hspz_simulated *device)
{
    uint64_t ms;
    if (read_word(r, ":fails=")) {
        return read_number(r, NUMBER_LIMIT, &device->fails_after) ? HSPZ_OK
                                                                  : refuse(r, "no number of parts");
    }
    if (!read_word(r, ":hangs=")) {
        return HSPZ_OK;
    }
    if (!read_number(r, NUMBER_LIMIT, &device->hangs_after)) {
        return refuse(r, "no number of parts");
    }
    if (read_word(r, ":for=")) {
        if (!read_number(r, NUMBER_LIMIT, &ms)) {
            return refuse(r, "no number of milliseconds");
        }
        device->hang_ns = ms * 1000000;
    }
    return HSPZ_OK;
}

/* One entry: *count devices that are alike. */
static enum hspz_status
read_entry(struct reader *r, struct hspz_simulated *device, uint64_t *count)
{
    uint64_t us;
    *count = 1;
    *device = (struct hspz_simulated){
        .fails_after = UINT64_MAX, .hangs_after = UINT64_MAX, .hang_ns = UINT64_MAX};
    r->entry = r->at;
    if (!read_number(r, US_LIMIT, &us)) {
        return refuse(r, "no number of at most a minute");
    }
    if (read_word(r, "x")) {
        *count = us;
        if (us == 0 || us > HSPZ_SIMULATED_LIMIT) {
            return refuse(r, "no number of devices from 1 to 1024");
        }
        if (!read_number(r, US_LIMIT, &us)) {
            return refuse(r, "no number of at most a minute");
        }
    }
    device->step_ns = us * 1000;
    const enum hspz_status status = read_failure(r, device);
    if (status == HSPZ_OK && *r->at != ',' && *r->at != '\0') {
        return refuse(r, "something else behind it");
    }
    return status;
}

static enum hspz_status
read_all(struct reader *r, struct hspz_simulated *devices, unsigned *count)
{
    *count = 0;
    for (bool more = true; more;) {
        struct hspz_simulated device;
        uint64_t alike;
        const enum hspz_status status = read_entry(r, &device, &alike);
        if (status != HSPZ_OK) {
            return status;
        }
        if (alike > HSPZ_SIMULATED_LIMIT - *count) {
            return refuse(r, "more than 1024 devices");
        }
        while (alike-- > 0) {
            devices[(*count)++] = device;
        }
        more = *r->at == ',';
        r->at += more;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_simulated_parse(const char *text, struct hspz_simulated **out, unsigned *count,
                     struct hspz_error *err)
{
    struct reader reader = {.at = text, .entry = text, .err = err};
    struct hspz_simulated *devices = calloc(HSPZ_SIMULATED_LIMIT, sizeof(*devices));
    if (devices == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for simulated devices");
    }
    const enum hspz_status status = read_all(&reader, devices, count);
    if (status != HSPZ_OK) {
        free(devices);
        return status;
    }
    *out = devices;
    return HSPZ_OK;
}

/* ---- a step ---- */

static uint64_t
now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void
sleep_until(uint64_t at_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(at_ns / SECOND_NS),
                                .tv_nsec = (long)(at_ns % SECOND_NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
        /* a signal */
    }
}

/* The device is at something else: until when is the same for all steps on it. */
static void
hang(struct hspz_simulated *device)
{
    uint64_t until = 0;
    const uint64_t now = now_ns();
    while (device->hang_ns == UINT64_MAX) {
        sleep_until(now_ns() + 3600 * SECOND_NS);
    }
    if (atomic_compare_exchange_strong(&device->hung_until_ns, &until, now + device->hang_ns)) {
        until = now + device->hang_ns;
    }
    sleep_until(until);
}

enum hspz_status
hspz_simulated_begin(struct hspz_simulated *device, uint64_t *begin_ns, struct hspz_error *err)
{
    const uint64_t parts = atomic_load(&device->parts);
    *begin_ns = now_ns();
    if (parts >= device->fails_after) {
        return hspz_error_set(err, HSPZ_E_DEVICE_ERROR,
                              "a simulated device fails after %" PRIu64 " parts",
                              device->fails_after);
    }
    if (parts >= device->hangs_after) {
        hang(device);
    }
    return HSPZ_OK;
}

void
hspz_simulated_end(struct hspz_simulated *device, uint64_t begin_ns, bool made_part)
{
    atomic_fetch_add(&device->parts, made_part);
    if (device->step_ns > 0) {
        sleep_until(begin_ns + device->step_ns);
    }
}
