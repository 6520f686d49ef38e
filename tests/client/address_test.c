#include "client/hspz.h"

#include "tests/support/test.h"

static void
check_good(const char *text, bool tcp, const char *host, const char *port, const char *printed)
{
    struct hspz_address address;
    struct hspz_error err;
    char again[HSPZ_ADDRESS_TEXT_BYTES];
    assert_int_equal(hspz_address_parse(text, &address, &err), HSPZ_OK);
    assert_int_equal(address.tcp, tcp);
    assert_int_equal(address.tls, strncmp(text, "tls:", 4) == 0);
    assert_string_equal(address.host, host);
    assert_string_equal(address.port, port);
    hspz_address_print(&address, again);
    assert_string_equal(again, printed);
}

static void
test_address_forms_are_told_apart(void **state)
{
    (void)state;
    check_good("unix:/run/x.sock", false, "/run/x.sock", "", "unix:/run/x.sock");
    check_good("unix:rel/a:b", false, "rel/a:b", "", "unix:rel/a:b");
    check_good("tcp:node7:7878", true, "node7", "7878", "tcp:node7:7878");
    check_good("tls:node7:7878", true, "node7", "7878", "tls:node7:7878");
    check_good("tls:[::1]:65535", true, "::1", "65535", "tls:[::1]:65535");
    check_good("tcp:127.0.0.1:1", true, "127.0.0.1", "1", "tcp:127.0.0.1:1");
    check_good("tcp:[::1]:65535", true, "::1", "65535", "tcp:[::1]:65535");
    check_good("tcp:[fe80::1%eth0]:80", true, "fe80::1%eth0", "80", "tcp:[fe80::1%eth0]:80");
}

static void
test_address_errors_name_the_text(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "x",
        "unix:",
        "unix",
        "UNIX:/x",
        "tcp:",
        "tcp:host",
        "tcp:host:",
        "tcp::80",
        "tcp:h:0",
        "tcp:h:65536",
        "tcp:h:1x",
        "tcp:h:+1",
        "tcp:h: 1",
        "tcp:::1:80",
        "tcp:[::1]80",
        "tcp:[::1",
        "tcp:[]:80",
        "tcp:[::1]:",
        "tls:[[1]:44",
        "udp:h:80",
        "http://h:80",
        "tcp:h:80:90",
        "tcp:h:-1",
        "tcp:h:100000",
        "/run/x",
        " unix:/x",
        "tls:h",
        "TLS:h:1",
        "tls:h:0",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hspz_address address = {.host = "untouched"};
        struct hspz_error err;
        assert_int_equal(hspz_address_parse(bad[i], &address, &err), HSPZ_E_BAD_REQUEST);
        char quoted[64];
        snprintf(quoted, sizeof(quoted), "\"%s\"", bad[i]);
        assert_non_null(strstr(err.text, quoted));
        assert_string_equal(address.host, "untouched");
    }
}

static void
test_address_lengths_are_bounded(void **state)
{
    (void)state;
    struct hspz_address address;
    char text[400] = "unix:";
    memset(text + 5, 'x', 107);
    text[5 + 107] = '\0';
    assert_int_equal(hspz_address_parse(text, &address, NULL), HSPZ_OK);
    assert_int_equal(strlen(address.host), 107);
    text[5 + 107] = 'x';
    text[5 + 108] = '\0';
    assert_int_equal(hspz_address_parse(text, &address, NULL), HSPZ_E_BAD_REQUEST);
    for (size_t len = 254; len < 258; len++) {
        memcpy(text, "tcp:", 4);
        memset(text + 4, 'h', len);
        memcpy(text + 4 + len, ":80", 4);
        assert_int_equal(hspz_address_parse(text, &address, NULL),
                         len < 256 ? HSPZ_OK : HSPZ_E_BAD_REQUEST);
    }
    char again[HSPZ_ADDRESS_TEXT_BYTES];
    hspz_address_print(&address, again);
    assert_int_equal(strlen(again), 4 + 255 + 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_forms_are_told_apart),
        cmocka_unit_test(test_address_errors_name_the_text),
        cmocka_unit_test(test_address_lengths_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
