#include "client/hspz.h"

#include "tests/client/tiny_server.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ALL_ANCHORS (TINY_SMALL_ANCHORS + TINY_LARGE_ANCHORS)

struct seen {
    uint64_t anchors, wrong, sequences, indexes;
    uint64_t stop_at; /* parts; 0: never */
    uint64_t parts;
};

static bool
see_part(void *user, const struct hspz_part_view *part)
{
    struct seen *seen = user;
    seen->wrong += part->id.strand != (seen->anchors == 0 ? HSPZ_STRAND_PLUS : HSPZ_STRAND_MINUS);
    seen->wrong += part->columns.runs != NULL;
    for (size_t i = 0; i < part->count; i++) {
        seen->wrong += hspz_anchor_at(part->records, i) != tiny_server_anchor(seen->anchors++);
    }
    return ++seen->parts != seen->stop_at;
}

static bool
see_columns(void *user, const struct hspz_part_view *part)
{
    struct seen *seen = user;
    const struct hspz_columns *const columns = &part->columns;
    size_t at = 0;
    seen->wrong += part->id.strand != (seen->anchors == 0 ? HSPZ_STRAND_PLUS : HSPZ_STRAND_MINUS);
    seen->wrong += part->records != columns->runs || part->count != columns->count ||
                   columns->refs != columns->runs + columns->run_count * HSPZ_RUN_BYTES;
    for (size_t i = 0; i < columns->run_count; i++) {
        const struct hspz_run run = hspz_run_at(columns, i);
        for (uint32_t k = 0; k < run.count; k++, at++) {
            seen->wrong += ((uint64_t)run.query << 32 | hspz_ref_at(columns, at)) !=
                           tiny_server_anchor(seen->anchors++);
        }
    }
    seen->wrong += at != part->count;
    return ++seen->parts != seen->stop_at;
}

static bool
see_index(void *user, const struct hspz_index_info *info)
{
    struct seen *seen = user;
    seen->indexes++;
    seen->wrong += strcmp(info->name, "ref") != 0 || strcmp(info->state, "ready") != 0;
    return true;
}

static bool
see_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct seen *seen = user;
    char name[24];
    snprintf(name, sizeof(name), "s%llu", (unsigned long long)seen->sequences);
    seen->wrong += strcmp(sequence->name, name) != 0 || sequence->offset != 11 * seen->sequences;
    seen->sequences++;
    return true;
}

static struct hspz_discover_request
a_request(void)
{
    struct hspz_discover_request request = HSPZ_DISCOVER_REQUEST_DEFAULT;
    request.index = "ref";
    request.bases = (struct hspz_span){.bytes = (const uint8_t *)"ACGTACGT", .len = 8};
    return request;
}

/* Every call once; the first status that is not HSPZ_OK. */
static enum hspz_status
use_everything(const struct hspz_address *address, struct seen *seen, struct hspz_error *err)
{
    struct hspz_client *client = NULL;
    struct hspz_discover_summary summary = {0};
    struct hspz_health health = {0};
    char *stats = NULL;
    char *more = NULL;
    const struct hspz_discover_request request = a_request();
    const struct hspz_client_options options = {.wait_ms = 1000, .token = "t"};
    enum hspz_status status = hspz_client_open(address, &options, &client, err);
    if (status == HSPZ_OK) {
        status = hspz_client_index_list(client, see_index, seen, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_index_describe(client, "ref", see_index, see_sequence, seen, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_discover(client, &request, see_part, seen, &summary, err);
    }
    if (status == HSPZ_OK) {
        assert_int_equal(summary.anchors, ALL_ANCHORS);
        status = hspz_client_health(client, &health, err);
    }
    if (status == HSPZ_OK) {
        assert_string_equal(health.state, "ready");
        status = hspz_client_stats_json(client, &stats, err);
    }
    if (status == HSPZ_OK) {
        assert_non_null(strstr(stats, "\"number\": 5"));
        status = hspz_client_health_json(client, &more, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_index_load(client, "ref", "f", err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_build_request build = {.name = "ref", .source = "s", .file = "f"};
        status = hspz_client_index_build(client, &build, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_index_unload(client, "ref", err);
    }
    free(stats);
    free(more);
    hspz_client_close(&client);
    assert_null(client);
    return status;
}

/* ---- filters ---- */

struct seen_keys {
    const uint64_t *keys;
    uint64_t count, wrong, entries, filters;
    bool bitmap, array;
    uint64_t stop_at; /* keys; 0: never */
};

static bool
see_answers(void *user, uint64_t first, size_t count, const uint8_t *bitmap, const uint8_t *array)
{
    struct seen_keys *seen = user;
    seen->wrong +=
        first != seen->count || (bitmap != NULL) != seen->bitmap || (array != NULL) != seen->array;
    for (size_t i = 0; i < count; i++) {
        seen->wrong += bitmap != NULL && (bitmap[i / 8] >> i % 8 & 1) != (first + i + 1) % 2;
        seen->wrong += array != NULL && hspz_anchor_at(array, i) != seen->keys[first + i];
    }
    seen->count += count;
    return seen->stop_at == 0 || seen->count < seen->stop_at;
}

static bool
see_entries(void *user, const uint8_t *entries, size_t count)
{
    struct seen_keys *seen = user;
    for (size_t i = 0; i < 3 * count; i++) {
        seen->wrong += hspz_anchor_at(entries, i) != 3 * seen->entries + i + 1;
    }
    seen->entries += count;
    return true;
}

static bool
see_filter(void *user, const struct hspz_filter_state *filter)
{
    struct seen_keys *seen = user;
    seen->filters++;
    seen->wrong += strcmp(filter->name, "lab/f") != 0 || strcmp(filter->kind, "gqf") != 0 ||
                   !filter->shared || filter->bytes != 9;
    return true;
}

static enum hspz_status
use_state_calls(struct hspz_client *client, struct seen_keys *seen, struct hspz_error *err)
{
    const struct hspz_filter_request create = {.name = "f", .kind = "gqf", .slots = 64};
    struct hspz_filter_state states[6] = {{.bytes = 0}};
    enum hspz_status status = hspz_client_filter_create(client, &create, &states[0], err);
    if (status == HSPZ_OK) {
        status = hspz_client_filter_stats(client, "f", &states[1], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_filter_save(client, "f", &states[2], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_filter_load(client, "f", true, &states[3], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_filter_drop(client, "f", true, &states[4], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_filter_merge(client, "f", "lab/f", &states[5], err);
    }
    for (int i = 0; i < 6 && status == HSPZ_OK; i++) {
        seen->wrong += strcmp(states[i].name, "f") != 0 || states[i].slots != 64 ||
                       states[i].seed != UINT64_MAX || states[i].full != (i == 5);
    }
    return status != HSPZ_OK ? status : hspz_client_filter_list(client, see_filter, seen, err);
}

/* Each way to call about keys; some calls have more keys than an inline bin holds. */
static enum hspz_status
use_keys(struct hspz_client *client, struct seen_keys *seen, struct hspz_error *err)
{
    uint64_t keys[TINY_KEYS_MOST];
    for (uint64_t i = 0; i < TINY_KEYS_MOST; i++) {
        keys[i] = tiny_server_anchor(i);
    }
    enum hspz_status status = HSPZ_OK;
    for (unsigned i = 0; i < 24 && status == HSPZ_OK; i++) {
        const enum hspz_keys_operation operation = (enum hspz_keys_operation)(i % 6);
        struct hspz_keys_request request = HSPZ_KEYS_REQUEST_DEFAULT;
        struct hspz_keys_summary summary = {0};
        request.filter = "f";
        request.operation = operation;
        request.keys = (struct hspz_span){(const uint8_t *)keys, i < 12 ? 72 : 8 * 1999};
        request.bitmap = i / 6 % 2 == 0;
        request.array = operation == HSPZ_KEYS_COUNT || operation == HSPZ_KEYS_QUERY;
        if (operation == HSPZ_KEYS_INSERT) {
            request.values = request.keys;
        }
        if (operation == HSPZ_KEYS_INSERT || operation == HSPZ_KEYS_DECREMENT) {
            request.counts = request.keys;
        }
        const uint64_t count = request.keys.len / 8;
        seen->keys = keys;
        seen->bitmap = request.bitmap;
        seen->array = request.array;
        seen->count = 0;
        status = hspz_client_filter_keys(client, &request, see_answers, seen, &summary, err);
        if (status == HSPZ_OK) {
            seen->wrong += summary.keys != count || summary.yes != (count + 1) / 2 ||
                           seen->count != (request.bitmap || request.array ? count : 0);
        }
    }
    struct hspz_keys_summary summary = {0};
    if (status == HSPZ_OK) {
        status = hspz_client_filter_enumerate(client, "f", 0, see_entries, seen, &summary, err);
    }
    return status;
}

static enum hspz_status
use_filters(const struct hspz_address *address, struct seen_keys *seen, struct hspz_error *err)
{
    struct hspz_client *client = NULL;
    enum hspz_status status = hspz_client_open(address, NULL, &client, err);
    if (status == HSPZ_OK) {
        status = use_state_calls(client, seen, err);
    }
    if (status == HSPZ_OK) {
        status = use_keys(client, seen, err);
    }
    hspz_client_close(&client);
    return status;
}

static unsigned
open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void
test_client_gets_all_of_everything(void **state)
{
    const struct tiny_server *server = *state;
    struct seen seen = {0};
    struct hspz_error err = {0};
    assert_int_equal(use_everything(&server->address, &seen, &err), HSPZ_OK);
    assert_int_equal(seen.anchors, ALL_ANCHORS);
    assert_int_equal(seen.sequences, TINY_SEQUENCES);
    assert_int_equal(seen.indexes, 2);
    assert_int_equal(seen.wrong, 0);
}

static void
test_client_survives_each_failed_allocation(void **state)
{
    const struct tiny_server *server = *state;
    const unsigned descriptors = open_descriptors();
    long n = 1;
    long harmless = 0;
    for (;; n++) {
        struct seen seen = {0};
        struct hspz_error err = {0};
        failing_malloc_arm(n);
        const enum hspz_status status = use_everything(&server->address, &seen, &err);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, HSPZ_OK);
            break;
        }
        /* Giving unused memory back may fail without harm. */
        if (status == HSPZ_OK) {
            assert_int_equal(seen.anchors, ALL_ANCHORS);
            harmless++;
        } else {
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            assert_int_equal(err.status, status);
        }
        assert_int_equal(seen.wrong, 0);
    }
    assert_true(n > 20 && harmless < n / 2);
    assert_int_equal(open_descriptors(), descriptors);
}

static void
test_filter_calls_give_all_and_survive_each_failed_allocation(void **state)
{
    const struct tiny_server *server = *state;
    const unsigned descriptors = open_descriptors();
    long n = 0;
    for (bool failed = true; failed; n++) {
        struct seen_keys seen = {.keys = NULL};
        struct hspz_error err = {0};
        failing_malloc_arm(n + 1);
        const enum hspz_status status = use_filters(&server->address, &seen, &err);
        failed = failing_malloc_disarm();
        assert_int_equal(seen.wrong, 0);
        assert_true(status == HSPZ_OK || (failed && status == HSPZ_E_OUT_OF_MEMORY));
        if (status == HSPZ_OK) {
            assert_int_equal(seen.entries, 4);
            assert_int_equal(seen.filters, 1);
        }
    }
    assert_true(n > 50);
    assert_int_equal(open_descriptors(), descriptors);
}

static void
test_filter_calls_refuse_what_is_no_array_of_keys_and_can_be_stopped(void **state)
{
    const struct tiny_server *server = *state;
    struct hspz_client *client = NULL;
    struct hspz_error err = {0};
    uint64_t keys[100] = {0};
    assert_int_equal(hspz_client_open(&server->address, NULL, &client, &err), HSPZ_OK);
    struct hspz_keys_request request = HSPZ_KEYS_REQUEST_DEFAULT;
    request.filter = "f";
    request.keys = (struct hspz_span){(const uint8_t *)keys, 9};
    assert_int_equal(hspz_client_filter_keys(client, &request, NULL, NULL, NULL, &err),
                     HSPZ_E_BAD_REQUEST);
    request.keys.len = sizeof(keys);
    request.values = (struct hspz_span){(const uint8_t *)keys, 8};
    assert_int_equal(hspz_client_filter_keys(client, &request, NULL, NULL, NULL, &err),
                     HSPZ_E_BAD_REQUEST);
    request.values = (struct hspz_span){0};
    request.bitmap = true;
    struct seen_keys seen = {.keys = keys, .bitmap = true, .stop_at = 1};
    assert_int_equal(hspz_client_filter_keys(client, &request, see_answers, &seen, NULL, &err),
                     HSPZ_E_STOPPED);
    /* The connection is still good. */
    assert_int_equal(hspz_client_filter_keys(client, &request, NULL, NULL, NULL, &err), HSPZ_OK);
    hspz_client_close(&client);
}

static void
test_client_takes_thousands_of_jobs_and_connections(void **state)
{
    const struct tiny_server *server = *state;
    const unsigned descriptors = open_descriptors();
    const struct hspz_discover_request request = a_request();
    struct hspz_client *client = NULL;
    struct hspz_discover_summary summary;
    assert_int_equal(hspz_client_open(&server->address, NULL, &client, NULL), HSPZ_OK);
    for (unsigned i = 0; i < 5000; i++) {
        struct seen seen = {0};
        assert_int_equal(hspz_client_discover(client, &request, see_part, &seen, &summary, NULL),
                         HSPZ_OK);
        assert_int_equal(seen.anchors, ALL_ANCHORS);
        assert_int_equal(seen.wrong, 0);
    }
    hspz_client_close(&client);
    for (unsigned i = 0; i < 5000; i++) {
        assert_int_equal(hspz_client_open(&server->address, NULL, &client, NULL), HSPZ_OK);
        hspz_client_close(&client);
    }
    assert_int_equal(open_descriptors(), descriptors);
}

static void
test_client_goes_on_after_a_stopped_job(void **state)
{
    const struct tiny_server *server = *state;
    const struct hspz_discover_request request = a_request();
    struct hspz_client *client = NULL;
    struct hspz_discover_summary summary;
    assert_int_equal(hspz_client_open(&server->address, NULL, &client, NULL), HSPZ_OK);
    for (unsigned i = 0; i < 200; i++) {
        struct seen seen = {.stop_at = 1 + i % 2};
        assert_int_equal(hspz_client_discover(client, &request, see_part, &seen, &summary, NULL),
                         HSPZ_E_STOPPED);
        assert_int_equal(seen.parts, seen.stop_at);
        seen = (struct seen){0};
        assert_int_equal(hspz_client_discover(client, &request, see_part, &seen, &summary, NULL),
                         HSPZ_OK);
        assert_int_equal(seen.anchors, ALL_ANCHORS);
    }
    hspz_client_close(&client);
}

static void
test_client_stops_when_its_descriptor_says_so(void **state)
{
    const struct tiny_server *server = *state;
    const int stop = eventfd(0, EFD_CLOEXEC);
    struct hspz_address nowhere = server->address;
    strcat(nowhere.host, "x");
    const struct hspz_client_options options = {.stop_fd = stop, .wait_ms = -1};
    struct hspz_client *client = NULL;
    struct hspz_health health;
    assert_int_equal(hspz_client_open(&server->address, &options, &client, NULL), HSPZ_OK);
    assert_int_equal(hspz_client_health(client, &health, NULL), HSPZ_OK);
    assert_int_equal(eventfd_write(stop, 1), 0);
    struct hspz_client *other = NULL;
    assert_int_equal(hspz_client_open(&nowhere, &options, &other, NULL), HSPZ_E_STOPPED);
    assert_null(other);
    assert_int_equal(hspz_client_health(client, &health, NULL), HSPZ_E_STOPPED);
    assert_int_equal(hspz_client_health(client, &health, NULL), HSPZ_E_NO_SERVER);
    hspz_client_close(&client);
    close(stop);
}

static bool
take_time(void *user, const struct hspz_part_view *part)
{
    struct seen *seen = user;
    if (seen->parts == 0) {
        usleep(1300 * 1000);
    }
    return see_part(user, part);
}

/* The time a callback takes is not the server's silence. */
static void
test_client_does_not_blame_the_server_for_a_slow_callback(void **state)
{
    const struct tiny_server *server = *state;
    const struct hspz_client_options options = {.silence_timeout_ms = 1700};
    struct hspz_discover_request request = a_request();
    struct hspz_client *client = NULL;
    struct hspz_discover_summary summary;
    struct hspz_error err = {0};
    struct seen seen = {0};
    request.index = "slow";
    assert_int_equal(hspz_client_open(&server->address, &options, &client, NULL), HSPZ_OK);
    const enum hspz_status status =
        hspz_client_discover(client, &request, take_time, &seen, &summary, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, HSPZ_OK);
    assert_int_equal(seen.anchors, ALL_ANCHORS);
    hspz_client_close(&client);
}

static bool
see_hsps(void *user, const struct hspz_part_view *part)
{
    struct seen *seen = user;
    seen->wrong += part->id.strand != (seen->anchors == 0 ? HSPZ_STRAND_PLUS : HSPZ_STRAND_MINUS);
    for (size_t i = 0; i < part->count; i++) {
        const struct hspz_hsp hsp = hspz_hsp_at(part->records, i);
        const uint64_t starts = tiny_server_anchor(2 * seen->anchors);
        const uint64_t rest = tiny_server_anchor(2 * seen->anchors + 1);
        seen->wrong += hsp.ref_start != (uint32_t)starts || hsp.query_start != starts >> 32 ||
                       hsp.length != (uint32_t)rest || (uint32_t)hsp.score != rest >> 32;
        seen->anchors++;
    }
    return ++seen->parts != seen->stop_at;
}

static void
test_client_takes_hsps_of_either_scope_and_intervals(void **state)
{
    const struct tiny_server *server = *state;
    struct hspz_client *client = NULL;
    assert_int_equal(hspz_client_open(&server->address, NULL, &client, NULL), HSPZ_OK);
    for (unsigned variant = 0; variant < 4; variant++) {
        struct hspz_discover_request request = a_request();
        struct hspz_discover_summary summary = {0};
        struct hspz_error err = {0};
        struct seen seen = {.stop_at = 1};
        request.records = HSPZ_RECORDS_HSPS;
        request.scoring.scope = variant & 1 ? HSPZ_SCOPE_CHUNK : HSPZ_SCOPE_JOB;
        request.interval = variant & 2 ? 10 : 0;
        assert_int_equal(hspz_client_discover(client, &request, see_hsps, &seen, &summary, NULL),
                         HSPZ_E_STOPPED);
        seen = (struct seen){0};
        const enum hspz_status status =
            hspz_client_discover(client, &request, see_hsps, &seen, &summary, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(status, HSPZ_OK);
        assert_int_equal(seen.anchors, ALL_ANCHORS);
        assert_int_equal(seen.wrong, 0);
        assert_true(summary.hsps == ALL_ANCHORS && summary.anchors == 0 &&
                    summary.totals[1].hsps == TINY_LARGE_ANCHORS);
    }
    hspz_client_close(&client);
}

/* Packed, or as they came, with each allocation failing in turn; the digest is that of the packed
 * anchors. */
static void
check_columns(const struct hspz_address *address, bool columns, bool digest, unsigned failures)
{
    struct hspz_client *client = NULL;
    assert_int_equal(hspz_client_open(address, NULL, &client, NULL), HSPZ_OK);
    struct hspz_discover_request request = a_request();
    struct hspz_discover_summary packed = {0}, summary = {0};
    struct seen seen = {0};
    request.digest = digest;
    assert_int_equal(hspz_client_discover(client, &request, see_part, &seen, &packed, NULL),
                     HSPZ_OK);
    request.encoding = HSPZ_ENCODING_COLUMNAR;
    request.columns = columns;
    bool failed = true;
    unsigned refused = 0;
    for (long n = 1; failed; n++) {
        seen = (struct seen){0};
        failing_malloc_arm(n);
        const enum hspz_status status = hspz_client_discover(
            client, &request, columns ? see_columns : see_part, &seen, &summary, NULL);
        failed = failing_malloc_disarm();
        assert_int_equal(seen.wrong, 0);
        if (status != HSPZ_OK) {
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            refused++;
            hspz_client_close(&client);
            assert_int_equal(hspz_client_open(address, NULL, &client, NULL), HSPZ_OK);
            continue;
        }
        assert_int_equal(seen.anchors, ALL_ANCHORS);
        assert_string_equal(summary.digest, packed.digest);
        assert_int_equal(strlen(summary.digest), digest ? 16 : 0);
    }
    assert_true(refused > failures);
    hspz_client_close(&client);
}

static void
test_client_takes_columns_as_packed_anchors_or_as_they_are(void **state)
{
    const struct tiny_server *server = *state;
    check_columns(&server->address, false, true, 5);
    check_columns(&server->address, true, true, 4);
    check_columns(&server->address, true, false, 3);
}

static void
test_client_stops_and_asks_for_columns(void **state)
{
    const struct tiny_server *server = *state;
    struct hspz_client *client = NULL;
    struct hspz_discovery *discovery = NULL;
    struct hspz_discover_summary summary = {0};
    struct hspz_discover_request request = a_request();
    struct hspz_error err = {0};
    struct seen seen = {.stop_at = 1};
    assert_int_equal(hspz_client_open(&server->address, NULL, &client, NULL), HSPZ_OK);
    request.columns = true;
    assert_int_equal(hspz_client_discover(client, &request, see_columns, &seen, &summary, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "columnar encoding only"));
    request.encoding = HSPZ_ENCODING_COLUMNAR;
    assert_int_equal(hspz_client_discover(client, &request, see_columns, &seen, &summary, NULL),
                     HSPZ_E_STOPPED);
    seen = (struct seen){0};
    assert_int_equal(hspz_client_discover_begin(client, &request, &discovery, NULL), HSPZ_OK);
    for (;;) {
        struct hspz_part_view part;
        assert_int_equal(hspz_client_discover_next(discovery, &part, NULL), HSPZ_OK);
        if (part.records == NULL) {
            assert_true(part.count == 0 && part.columns.runs == NULL);
            break;
        }
        assert_true(see_columns(&seen, &part));
    }
    hspz_client_discover_end(&discovery, &summary);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.anchors, ALL_ANCHORS);
    assert_int_equal(summary.anchors, ALL_ANCHORS);
    hspz_client_close(&client);
}

static void
test_hsps_are_read_byte_by_byte(void **state)
{
    (void)state;
    static const uint8_t bytes[33] = {0,    1,    2,    3,    4,    5,    6,    7, 8, 9,    10,
                                      11,   12,   0xfe, 0xff, 0xff, 0xff, 0x80, 0, 0, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 1,    0,    0,    0,    0, 0, 0,    0x80};
    const struct hspz_hsp first = hspz_hsp_at(bytes + 1, 0);
    const struct hspz_hsp second = hspz_hsp_at(bytes + 1, 1);
    assert_true(first.ref_start == 0x04030201 && first.query_start == 0x08070605 &&
                first.length == 0x0c0b0a09 && first.score == -2);
    assert_true(second.ref_start == 0xff000080 && second.query_start == 0xffffffff &&
                second.length == 1 && second.score == INT32_MIN);
}

static int
start(void **state)
{
    static struct tiny_server server;
    tiny_server_start(&server);
    *state = &server;
    return 0;
}

static int
stop(void **state)
{
    tiny_server_stop(*state);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_gets_all_of_everything),
        cmocka_unit_test(test_client_survives_each_failed_allocation),
        cmocka_unit_test(test_filter_calls_give_all_and_survive_each_failed_allocation),
        cmocka_unit_test(test_filter_calls_refuse_what_is_no_array_of_keys_and_can_be_stopped),
        cmocka_unit_test(test_client_takes_thousands_of_jobs_and_connections),
        cmocka_unit_test(test_client_goes_on_after_a_stopped_job),
        cmocka_unit_test(test_client_stops_when_its_descriptor_says_so),
        cmocka_unit_test(test_client_does_not_blame_the_server_for_a_slow_callback),
        cmocka_unit_test(test_client_takes_hsps_of_either_scope_and_intervals),
        cmocka_unit_test(test_client_takes_columns_as_packed_anchors_or_as_they_are),
        cmocka_unit_test(test_client_stops_and_asks_for_columns),
        cmocka_unit_test(test_hsps_are_read_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
