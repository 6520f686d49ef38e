#include "daemon/log.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

/* 2026-01-02T03:04:05.678Z */
#define WHEN UINT64_C(1767323045678)

static const char *
line_of(enum hspz_log_format format, const char *message, const struct hspz_log_field *fields,
        size_t count)
{
    static char line[HSPZ_LOG_LINE_BYTES + 1];
    const size_t len =
        hspz_log_format_line(format, HSPZ_LOG_INFO, WHEN, message, fields, count, line);
    assert_true(len <= HSPZ_LOG_LINE_BYTES);
    line[len] = '\0';
    assert_ptr_equal(strchr(line, '\n'), line + len - 1);
    return line;
}

static void
test_log_text_line_is_as_documented(void **state)
{
    (void)state;
    const struct hspz_log_field fields[] = {hspz_kv_uint("job", 7), hspz_kv("index", "ecoli"),
                                            hspz_kv("why", ""), hspz_kv("peer", "a b\"c\\\n\x7f"),
                                            hspz_kv("eq", "a=b")};
    assert_string_equal(line_of(HSPZ_LOG_TEXT, "job done", fields, 5),
                        "2026-01-02T03:04:05.678Z info job done job=7 index=ecoli why=\"\" "
                        "peer=\"a b\\\"c\\\\\\u000a\\u007f\" eq=\"a=b\"\n");
}

static void
test_log_json_line_is_json_whatever_a_peer_sends(void **state)
{
    (void)state;
    char bytes[256];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)i;
    }
    const struct hspz_log_field fields[] = {hspz_kv_span("name", bytes, sizeof(bytes)),
                                            hspz_kv("utf8", "gen\xc3\xb6m"),
                                            hspz_kv_uint("big", UINT64_C(9007199254740993))};
    json_error_t why;
    json_t *root = json_loads(line_of(HSPZ_LOG_JSON, "hello", fields, 3), JSON_ALLOW_NUL, &why);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "message")), "hello");
    assert_string_equal(json_string_value(json_object_get(root, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(root, "utf8")), "gen\xc3\xb6m");
    assert_int_equal(json_integer_value(json_object_get(root, "big")), 9007199254740993);
    /* bytes below 128 as they are, those above as characters of that number */
    assert_int_equal(json_string_length(json_object_get(root, "name")), 128 + 2 * 128);
    json_decref(root);
}

static void
test_log_long_values_are_cut_and_stay_valid(void **state)
{
    (void)state;
    char big[3 * HSPZ_LOG_LINE_BYTES];
    for (size_t fill = 0; fill < 40; fill++) {
        /* escapes of six bytes at every alignment to the cut */
        memset(big, 'x', fill);
        memset(big + fill, '\x01', sizeof(big) - fill);
        const struct hspz_log_field fields[] = {hspz_kv_span("big", big, sizeof(big)),
                                                hspz_kv_uint("next", 1)};
        json_error_t why;
        json_t *root = json_loads(line_of(HSPZ_LOG_JSON, "m", fields, 2), 0, &why);
        assert_non_null(root);
        const char *value = json_string_value(json_object_get(root, "big"));
        assert_non_null(value);
        assert_string_equal(value + strlen(value) - 3, "...");
        json_decref(root);
        line_of(HSPZ_LOG_TEXT, "m", fields, 2);
        memset(big, 'x', sizeof(big));
        line_of(HSPZ_LOG_TEXT, "m", fields, 2);
    }
}

static void
test_log_survives_a_sink_that_fails(void **state)
{
    (void)state;
    int ends[2];
    assert_ptr_not_equal(signal(SIGPIPE, SIG_IGN), SIG_ERR);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(close(ends[0]), 0);
    struct hspz_log log = {.fd = ends[1], .level = HSPZ_LOG_INFO};
    HSPZ_LOG(&log, HSPZ_LOG_INFO, "lost");
    HSPZ_LOG(&log, HSPZ_LOG_DEBUG, "below the level");
    assert_int_equal(log.lost, 1);
    assert_int_equal(close(ends[1]), 0);

    log.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(log.fd >= 0);
    HSPZ_LOG(&log, HSPZ_LOG_INFO, "lost", hspz_kv_uint("n", 2));
    assert_int_equal(log.lost, 2);
    assert_int_equal(close(log.fd), 0);

    /* a pipe that nobody reads: lines are lost, nothing hangs; then they are accounted for */
    assert_int_equal(pipe(ends), 0);
    log = (struct hspz_log){.fd = ends[1], .level = HSPZ_LOG_INFO};
    for (int i = 0; i < 4000; i++) {
        HSPZ_LOG(&log, HSPZ_LOG_INFO, "a line of some length to fill the pipe with");
    }
    assert_true(log.lost > 0);
    static char drain[1 << 20];
    assert_true(read(ends[0], drain, sizeof(drain)) > 0);
    HSPZ_LOG(&log, HSPZ_LOG_INFO, "again");
    assert_int_equal(log.lost, 0);
    const ssize_t n = read(ends[0], drain, sizeof(drain) - 1);
    assert_true(n > 0);
    drain[n] = '\0';
    assert_non_null(strstr(drain, "warning log lines were lost lines="));
    assert_non_null(strstr(drain, "info again\n"));
    close(ends[0]);
    close(ends[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_text_line_is_as_documented),
        cmocka_unit_test(test_log_json_line_is_json_whatever_a_peer_sends),
        cmocka_unit_test(test_log_long_values_are_cut_and_stay_valid),
        cmocka_unit_test(test_log_survives_a_sink_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
