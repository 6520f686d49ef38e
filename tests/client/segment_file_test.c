#include "client/segment_file.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <sys/stat.h>

struct fixture {
    struct hspz_names names;
    struct hspz_segment_list list;
    struct hspz_error err;
    char *dir;
};

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    hspz_names_init(&f->names);
    hspz_segment_list_init(&f->list, &f->names);
    f->dir = test_tmpdir_make();
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    hspz_segment_list_fini(&f->list);
    hspz_names_fini(&f->names);
    test_tmpdir_remove(&f->dir);
    free(f);
    return 0;
}

static char *
write_file(const struct fixture *f, const char *name, const char *text)
{
    char *path = test_path(f->dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static enum hspz_status
read_text(struct fixture *f, const char *text)
{
    char *path = write_file(f, "x.segments", text);
    const enum hspz_status status = hspz_segment_file_read(&f->list, path, 3, NULL, NULL, &f->err);
    free(path);
    return status;
}

static void
test_segments_are_read_zero_based_with_their_line(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(read_text(f, "# note\n\nt1\t11\t20\tq|1\t1\t10\t-\t3070\r\n"
                                  "  t#2 1 1 q|1 7 7 +   # no score\nt1 5 6 t1 6 7 + -12"),
                     HSPZ_OK);
    assert_int_equal(f->list.count, 3);
    const struct hspz_segment *s = f->list.segments;
    assert_true(s[0].target_start == 10 && s[0].query_start == 0 && s[0].len == 10);
    assert_true(s[0].minus && s[0].score == 3070 && s[0].line == 3 && s[0].file == 3);
    assert_string_equal(hspz_names_get(&f->names, s[0].query), "q|1");
    assert_string_equal(hspz_names_get(&f->names, s[1].target), "t#2");
    assert_true(!s[1].minus && s[1].score == 0 && s[1].len == 1 && s[1].line == 4);
    assert_true(s[2].score == -12 && s[2].target == s[0].target && s[2].query == s[0].target);
    assert_int_equal(f->names.count, 3);
}

static void
test_bad_lines_are_refused_by_file_line_and_field(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"t 1 10 q 5 15 + 3", "line 2: 10 bases of the target and 11 of the query"},
        {"t 9 2 q 5 15 + 3", "line 2: target end \"2\": it is before the start"},
        {"t 0 2 q 5 15 + 3", "line 2: target start \"0\": a position from 1"},
        {"t 1 2 q -5 6 + 3", "line 2: query start \"-5\": a position from 1"},
        {"t 1 2 q 5 99999999999999999999 + 3", "line 2: query end \"99999999999999999999\""},
        {"t 1 2 q 5 6 * 3", "line 2: strand \"*\": it is + or -"},
        {"t 1 2 q 5 6 + 1.5", "line 2: score \"1.5\": a whole number"},
        {"t 1 2 q 5 6 + 2147483648", "line 2: score \"2147483648\""},
        {"t 1 2 q 5 6", "line 2: 6 fields"},
        {"t", "line 2: 1 field; a segment has 7 or 8"},
        {"t 1 2 q 5 6 + 1 2", "line 2: 9 fields"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "a 1 1 b 1 1 +\n%s\na 1 1 b 1 1 +\n", bad[i].line);
        assert_int_equal(read_text(f, text), HSPZ_E_BAD_FILE);
        assert_non_null(strstr(f->err.text, "x.segments: "));
        if (strstr(f->err.text, bad[i].says) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", f->err.text, bad[i].says);
        }
        assert_int_equal(f->list.count, 0);
    }
}

static void
test_printed_segments_are_kegaligns_bytes(void **state)
{
    struct fixture *f = *state;
    const char *shared = test_shared_dir();
    if (shared == NULL) {
        skip();
    }
    char *path = test_path(shared, "oracle/ecoli/tmp1.block0.r0.minus.segments");
    size_t len = 0, at = 0;
    uint8_t *want = test_read_file(path, &len);
    assert_int_equal(hspz_segment_file_read(&f->list, path, 0, NULL, NULL, &f->err), HSPZ_OK);
    assert_int_equal(f->list.count, 12265);
    for (size_t i = 0; i < f->list.count; i++) {
        char line[512];
        const struct hspz_segment *s = &f->list.segments[i];
        const size_t n = hspz_segment_print(s, hspz_names_get(&f->names, s->target),
                                            hspz_names_get(&f->names, s->query), line, 512);
        assert_true(n <= len - at && memcmp(line, want + at, n) == 0);
        at += n;
    }
    assert_int_equal(at, len);
    free(want);
    free(path);
}

static void
test_folders_give_their_segment_files_in_order_of_numbers(void **state)
{
    struct fixture *f = *state;
    struct hspz_segment_paths paths = {0};
    assert_int_equal(hspz_segment_paths_add(&paths, f->dir, &f->err), HSPZ_E_BAD_FILE);
    assert_non_null(strstr(f->err.text, "no .segments"));
    free(write_file(f, "query_block0.name", "q\n"));
    assert_int_equal(hspz_segment_paths_add(&paths, f->dir, &f->err), HSPZ_OK);
    assert_int_equal(paths.count, 0);
    assert_int_equal(hspz_segment_paths_read(&paths, &f->list, NULL, NULL, &f->err), HSPZ_OK);
    static const char *const names[] = {"tmp10.b.segments", "tmp2.b.segments", "tmp1.b.segments.gz",
                                        "notes.txt", ".segments"};
    for (size_t i = 0; i < 5; i++) {
        free(write_file(f, names[i], i == 4 ? "broken\n" : "a 1 1 b 1 1 +\n"));
    }
    assert_int_equal(hspz_segment_paths_add(&paths, f->dir, &f->err), HSPZ_OK);
    assert_int_equal(paths.count, 3);
    assert_non_null(strstr(paths.paths[0], "tmp1.b"));
    assert_non_null(strstr(paths.paths[1], "tmp2.b"));
    assert_non_null(strstr(paths.paths[2], "tmp10.b"));
    assert_int_equal(hspz_segment_paths_read(&paths, &f->list, NULL, NULL, &f->err), HSPZ_OK);
    assert_int_equal(f->list.count, 3);
    hspz_segment_paths_fini(&paths);
}

static void
test_failed_allocations_leave_the_list_as_it_was(void **state)
{
    struct fixture *f = *state;
    char text[4096];
    size_t len = 0;
    for (int i = 0; i < 40; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "name%d 1 1 other%d 1 1 +\n", i, i);
    }
    free(write_file(f, "x.segments", text));
    char *path = test_path(f->dir, "x.segments");
    int failures = 0;
    for (long n = 1;; n++) {
        struct hspz_names names;
        struct hspz_segment_list list;
        struct hspz_segment_paths paths = {0};
        hspz_names_init(&names);
        hspz_segment_list_init(&list, &names);
        failing_malloc_arm(n);
        enum hspz_status status = hspz_segment_paths_add(&paths, path, &f->err);
        if (status == HSPZ_OK) {
            status = hspz_segment_paths_read(&paths, &list, NULL, NULL, &f->err);
        }
        const bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_int_equal(list.count, failed ? 0 : 40);
        failures += failed;
        hspz_segment_paths_fini(&paths);
        hspz_segment_list_fini(&list);
        hspz_names_fini(&names);
        if (!failed) {
            break;
        }
    }
    assert_true(failures > 5);
    free(path);
}

static void
test_names_are_found_by_all_their_bytes(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            char name[16];
            uint32_t number = 0;
            const size_t len = (size_t)snprintf(name, sizeof(name), "n%u", i);
            assert_int_equal(hspz_names_add(&f->names, name, len, &number), HSPZ_OK);
            assert_int_equal(number, i);
        }
    }
    uint32_t number = 0;
    assert_int_equal(f->names.count, 5000);
    assert_false(hspz_names_find(&f->names, "n5000", 5, &number));
    assert_true(hspz_names_find(&f->names, "n12", 2, &number) && number == 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_segments_are_read_zero_based_with_their_line, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bad_lines_are_refused_by_file_line_and_field, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_printed_segments_are_kegaligns_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folders_give_their_segment_files_in_order_of_numbers,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_allocations_leave_the_list_as_it_was, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_names_are_found_by_all_their_bytes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
