#include "client/children.h"

#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void
start(struct hspz_children *children, const char *script, int to, size_t tag)
{
    const char *const words[] = {"sh", "-c", script, NULL};
    struct hspz_error err = {0};
    assert_int_equal(hspz_children_start(children, words, "/", to, tag, &err), HSPZ_OK);
}

static struct hspz_child_end
wait_one(struct hspz_children *children)
{
    struct hspz_child_end end;
    bool ended = false;
    while (!ended) {
        assert_int_equal(hspz_children_wait(children, 1000, &ended, &end, NULL), HSPZ_OK);
    }
    return end;
}

static void
test_output_folder_status_and_words_are_the_childs(void **state)
{
    (void)state;
    struct hspz_children *children = NULL;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(hspz_children_create(2, -1, &children, NULL), HSPZ_OK);
    start(children, "pwd; read x || echo empty; echo oops >&2; exit 7", fileno(file), 5);
    const struct hspz_child_end end = wait_one(children);
    assert_int_equal(end.tag, 5);
    assert_true(WIFEXITED(end.wait_status) && WEXITSTATUS(end.wait_status) == 7);
    assert_string_equal(end.said, "oops\n");
    assert_true(end.said_all);
    char text[32] = "";
    rewind(file);
    assert_int_equal(fread(text, 1, sizeof(text), file), 8);
    assert_memory_equal(text, "/\nempty\n", 8);
    assert_int_equal(hspz_children_running(children), 0);
    fclose(file);
    hspz_children_destroy(&children);
}

static void
test_our_descriptors_are_not_handed_on(void **state)
{
    (void)state;
    struct hspz_children *children = NULL;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fcntl(fileno(file), F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(hspz_children_create(1, -1, &children, NULL), HSPZ_OK);
    const int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char script[80];
    snprintf(script, sizeof(script), "for f in %d %d; do readlink /proc/$$/fd/$f; done; true", kept,
             fileno(file));
    start(children, script, fileno(file), 0);
    (void)wait_one(children);
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), 0);
    close(kept);
    fclose(file);
    hspz_children_destroy(&children);
}

static void
test_ends_and_cut_alignments_are_kept_of_much_that_is_said(void **state)
{
    (void)state;
    struct hspz_children *children = NULL;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(hspz_children_create(1, -1, &children, NULL), HSPZ_OK);
    start(children,
          "i=0; while [ $i -lt 300 ]; do echo 'truncating alignment ending at (1,2)'; "
          "echo 'not truncating alignment'; i=$((i+1)); done >&2; echo last >&2; kill -9 $$",
          null, 0);
    const struct hspz_child_end end = wait_one(children);
    assert_true(WIFSIGNALED(end.wait_status) && WTERMSIG(end.wait_status) == SIGKILL);
    assert_int_equal(end.cut_alignments, 300);
    assert_false(end.said_all);
    assert_non_null(strstr(end.said, "\nlast\n"));
    close(null);
    hspz_children_destroy(&children);
}

static void
test_a_file_that_cannot_be_written_ends_its_child(void **state)
{
    (void)state;
    struct hspz_children *children = NULL;
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(hspz_children_create(1, -1, &children, NULL), HSPZ_OK);
    start(children, "echo x; sleep 1000", full, 0);
    const struct hspz_child_end end = wait_one(children);
    assert_int_equal(end.write_error, ENOSPC);
    assert_true(WIFSIGNALED(end.wait_status));
    close(full);
    hspz_children_destroy(&children);
}

static void
test_a_program_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct hspz_children *children = NULL;
    struct hspz_error err = {0};
    const char *const words[] = {"no-such-program-here", NULL};
    assert_int_equal(hspz_children_create(1, -1, &children, NULL), HSPZ_OK);
    assert_int_equal(hspz_children_start(children, words, "/", 1, 0, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "no-such-program-here: No such file"));
    assert_int_equal(hspz_children_running(children), 0);
    hspz_children_destroy(&children);
}

static void
test_stopping_leaves_no_process_behind(void **state)
{
    (void)state;
    struct hspz_children *children = NULL;
    struct hspz_child_end end;
    bool ended = false;
    int stop[2], alive[2];
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
    assert_int_equal(hspz_children_create(3, stop[0], &children, NULL), HSPZ_OK);
    char script[200];
    snprintf(script, sizeof(script), "exec 9>/proc/%d/fd/%d; trap '' TERM; sleep 1000; sleep 1000",
             (int)getpid(), alive[1]);
    start(children, script, 1, 0);
    start(children, script, 1, 1);
    assert_int_equal(hspz_children_wait(children, 300, &ended, &end, NULL), HSPZ_OK);
    assert_false(ended);
    assert_int_equal(write(stop[1], "x", 1), 1);
    assert_int_equal(hspz_children_wait(children, 10000, &ended, &end, NULL), HSPZ_E_STOPPED);
    hspz_children_destroy(&children);
    /* What they started is gone too: nobody holds the pipe. */
    char byte;
    close(alive[1]);
    assert_int_equal(read(alive[0], &byte, 1), 0);
    close(alive[0]);
    close(stop[0]);
    close(stop[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_folder_status_and_words_are_the_childs),
        cmocka_unit_test(test_our_descriptors_are_not_handed_on),
        cmocka_unit_test(test_ends_and_cut_alignments_are_kept_of_much_that_is_said),
        cmocka_unit_test(test_a_file_that_cannot_be_written_ends_its_child),
        cmocka_unit_test(test_a_program_that_is_not_there_is_named),
        cmocka_unit_test(test_stopping_leaves_no_process_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
