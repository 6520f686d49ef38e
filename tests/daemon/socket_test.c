#include "daemon/socket.h"

#include "tests/support/test.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int
setup(void **state)
{
    *state = test_tmpdir_make();
    return 0;
}

static int
teardown(void **state)
{
    char *dir = *state;
    test_tmpdir_remove(&dir);
    return 0;
}

static void
refused(const char *path, const char *says)
{
    struct hspz_socket s = {.fd = -1, .lock_fd = -1};
    struct hspz_error err = {0};
    assert_int_not_equal(hspz_socket_bind_unix(path, false, &s, &err), HSPZ_OK);
    if (strstr(err.text, says) == NULL || strstr(err.text, path) == NULL) {
        fail_msg("\"%s\" does not say \"%s\" of %s", err.text, says, path);
    }
    assert_int_equal(s.fd, -1);
}

static void
test_socket_is_private_whatever_the_umask(void **state)
{
    char *path = test_path(*state, "s");
    static const mode_t masks[] = {0, 022, 077, 0777};
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        struct hspz_socket s;
        struct hspz_error err;
        struct stat st;
        const mode_t before = umask(masks[i] == 0777 ? 0177 : masks[i]);
        assert_int_equal(hspz_socket_bind_unix(path, false, &s, &err), HSPZ_OK);
        umask(before);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        hspz_socket_fini(&s);
        assert_int_not_equal(stat(path, &st), 0);
    }
    free(path);
}

static void
test_socket_live_is_left_alone_and_dead_is_replaced(void **state)
{
    char *path = test_path(*state, "s");
    struct hspz_socket live;
    struct hspz_error err;
    assert_int_equal(hspz_socket_bind_unix(path, false, &live, &err), HSPZ_OK);
    char says[64];
    snprintf(says, sizeof(says), "is in use by process %ld", (long)getpid());
    refused(path, says);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);

    /* as after kill -9: the path and the lock file stay, nobody listens */
    assert_int_equal(close(live.fd), 0);
    assert_int_equal(close(live.lock_fd), 0);
    free(live.path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(hspz_socket_bind_unix(path, false, &live, &err), HSPZ_OK);

    /* a path that was replaced meanwhile is not ours to remove */
    assert_int_equal(unlink(path), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    hspz_socket_fini(&live);
    assert_int_equal(stat(path, &st), 0);
    free(path);
}

static void
test_socket_of_a_server_without_a_lock_is_left_alone(void **state)
{
    char *path = test_path(*state, "s");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 0), 0);
    refused(path, "is in use by another process");
    refused(path, "is in use by another process"); /* its backlog is full now */
    refused(path, "is in use by another process");
    close(fd);
    free(path);
}

static void
test_socket_never_removes_anything_else(void **state)
{
    char *file_path = test_path(*state, "file"), *link_path = test_path(*state, "link");
    char *nowhere = test_path(*state, "no/such/s"), *deep = NULL;
    FILE *file = fopen(file_path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(symlink("elsewhere", link_path), 0);
    struct stat st;
    refused(file_path, "there is a file at this path");
    refused(link_path, "there is a link at this path");
    refused(*state, "there is a folder at this path");
    refused(nowhere, "No such file or directory");
    assert_int_equal(lstat(file_path, &st), 0);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(asprintf(&deep, "%s/%0200d", (char *)*state, 1) > 0);
    refused(deep, "longer than a socket's may be");
    free(file_path);
    free(link_path);
    free(nowhere);
    free(deep);
}

static void
test_socket_tcp_is_loopback_only_and_says_its_port(void **state)
{
    (void)state;
    struct hspz_socket s, other;
    struct hspz_error err;
    bool at = false;
    assert_int_equal(hspz_socket_bind_tcp("127.0.0.1:0", false, &s, &err), HSPZ_OK);
    assert_int_equal(strncmp(s.address, "tcp:127.0.0.1:", 14), 0);
    assert_string_not_equal(s.address, "tcp:127.0.0.1:0");
    assert_int_equal(hspz_socket_is_at(&s, s.address + 4, &at, &err), HSPZ_OK);
    assert_true(at);
    assert_int_equal(hspz_socket_is_at(&s, "127.0.0.2:1", &at, &err), HSPZ_OK);
    assert_false(at);
    assert_int_equal(hspz_socket_bind_tcp(s.address + 4, false, &other, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, s.address));
    assert_non_null(strstr(err.text, "Address already in use"));
    hspz_socket_fini(&s);
    static const char *const open_to_all[] = {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(hspz_socket_bind_tcp(open_to_all[i], false, &s, &err), HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(err.text, "is no loopback address"));
    }
}

static void
test_socket_adopts_listening_streams_only(void **state)
{
    char *path = test_path(*state, "s");
    struct hspz_socket mine, theirs;
    struct hspz_error err;
    struct stat st;
    assert_int_equal(hspz_socket_bind_unix(path, false, &mine, &err), HSPZ_OK);
    const int copy = dup(mine.fd);
    assert_int_equal(hspz_socket_adopt(copy, false, &theirs, &err), HSPZ_OK);
    assert_string_equal(theirs.address, mine.address);
    assert_true(theirs.inherited && !theirs.tcp);
    hspz_socket_fini(&theirs);
    assert_int_equal(stat(path, &st), 0); /* an inherited path stays */
    hspz_socket_fini(&mine);

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(hspz_socket_adopt(ends[0], false, &theirs, &err), HSPZ_E_IO);
    close(ends[0]);
    close(ends[1]);
    const int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(hspz_socket_adopt(udp, false, &theirs, &err), HSPZ_E_IO);
    close(udp);
    const int idle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(hspz_socket_adopt(idle, false, &theirs, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "is not a listening UNIX or TCP stream socket"));
    close(idle);
    free(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_socket_is_private_whatever_the_umask, setup, teardown),
        cmocka_unit_test_setup_teardown(test_socket_live_is_left_alone_and_dead_is_replaced, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_socket_of_a_server_without_a_lock_is_left_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_socket_never_removes_anything_else, setup, teardown),
        cmocka_unit_test(test_socket_tcp_is_loopback_only_and_says_its_port),
        cmocka_unit_test_setup_teardown(test_socket_adopts_listening_streams_only, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
