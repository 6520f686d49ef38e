#include "client/segments.h"

#include "client/file_plan.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define HSPS 100000u

struct setup {
    char *dir;
    struct hspz_places refs, queries;
    struct hspz_hsp *hsps;
    size_t count;
};

static int
set_up(void **state)
{
    struct setup *s = calloc(1, sizeof(*s));
    s->dir = test_tmpdir_make();
    hspz_places_init(&s->refs, false);
    hspz_places_init(&s->queries, false);
    assert_int_equal(hspz_places_add(&s->refs, "chr1", 4, 1000000, 0, 0), HSPZ_OK);
    assert_int_equal(hspz_places_add(&s->queries, "q", 1, 1000000, 0, 0), HSPZ_OK);
    s->count = HSPS;
    s->hsps = calloc(HSPS, sizeof(*s->hsps));
    uint64_t random = 9;
    for (size_t i = 0; i < HSPS; i++) {
        s->hsps[i] = (struct hspz_hsp){
            .ref_start = (uint32_t)(test_random(&random) % 900000),
            .query_start = (uint32_t)i * 9,
            .length = (uint32_t)(1 + test_random(&random) % 1000),
            .score = (int32_t)(test_random(&random) % 100000),
        };
    }
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct setup *s = *state;
    test_tmpdir_remove(&s->dir);
    hspz_places_fini(&s->refs);
    hspz_places_fini(&s->queries);
    free(s->hsps);
    free(s);
    return 0;
}

static struct hspz_hsp_rows
rows_of(const struct setup *s, enum hspz_strand strand)
{
    return (struct hspz_hsp_rows){
        .refs = &s->refs, .queries = &s->queries, .query_len = 1000000, .strand = strand};
}

/* What KegAlign's printer makes of them, by printf. */
static char *
expected(const struct setup *s, enum hspz_strand strand)
{
    char *text = calloc(HSPS, 64), *at = text;
    const bool minus = strand == HSPZ_STRAND_MINUS;
    for (size_t i = 0; i < HSPS; i++) {
        const struct hspz_hsp *h = &s->hsps[minus ? HSPS - 1 - i : i];
        at += sprintf(at, "chr1\t%u\t%u\tq\t%u\t%u\t%c\t%d\n", h->ref_start + 1,
                      h->ref_start + h->length, h->query_start + 1, h->query_start + h->length,
                      minus ? '-' : '+', h->score);
    }
    return text;
}

/* A plus and a minus file, given in pieces of `piece`, and the names. */
static enum hspz_status
write_all(const struct setup *s, struct hspz_segments *segments, size_t piece,
          struct hspz_error *err)
{
    enum hspz_status status = hspz_segments_text(segments, "ref_block0.name", "chr1\n", 5, err);
    struct hspz_segments_file *files[2] = {NULL, NULL}, *empty = NULL;
    const struct hspz_hsp_rows rows[2] = {rows_of(s, HSPZ_STRAND_PLUS),
                                          rows_of(s, HSPZ_STRAND_MINUS)};
    for (int strand = 0; strand < 2 && status == HSPZ_OK; strand++) {
        char name[HSPZ_SEGMENTS_NAME_BYTES];
        hspz_file_plan_segments_name(name, 1, 0, 0, (enum hspz_strand)strand);
        status = hspz_segments_file(segments, name, &files[strand], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_segments_file(segments, "tmp2.block0.r0.plus.segments", &empty, err);
    }
    for (size_t i = 0; i < s->count && status == HSPZ_OK; i += piece) {
        const size_t count = s->count - i < piece ? s->count - i : piece;
        status = hspz_segments_add(segments, files[0], &rows[0], s->hsps + i, count, false, err);
        if (status == HSPZ_OK) {
            status = hspz_segments_add(segments, files[1], &rows[1], s->hsps + s->count - i - count,
                                       count, true, err);
        }
    }
    return status;
}

static size_t
count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    size_t count = 0;
    for (const struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d)) {
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    }
    closedir(d);
    return count;
}

static void
check_file(const char *dir, const char *name, const char *want)
{
    char *path = test_path(dir, name);
    size_t len;
    uint8_t *got = test_read_file(path, &len);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(got, want, len);
    free(got);
    free(path);
}

static void
test_files_appear_whole_and_in_order(void **state)
{
    const struct setup *s = *state;
    char *plus = expected(s, HSPZ_STRAND_PLUS), *minus = expected(s, HSPZ_STRAND_MINUS);
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        struct hspz_segments *segments = NULL;
        struct hspz_error err = {0};
        const struct hspz_segments_target target = {.folder = s->dir, .threads = threads};
        assert_int_equal(hspz_segments_open(&target, &segments, &err), HSPZ_OK);
        assert_int_equal(write_all(s, segments, 7001 * threads, &err), HSPZ_OK);
        if (threads == 1) {
            assert_int_equal(count_entries(s->dir), 1); /* the folder beside */
        }
        assert_int_equal(hspz_segments_commit(segments, &err), HSPZ_OK);
        assert_int_equal(hspz_segments_finish(segments, &err), HSPZ_OK);
        hspz_segments_close(&segments);
        assert_int_equal(count_entries(s->dir), 3); /* the empty one is not written */
        check_file(s->dir, "tmp1.block0.r0.plus.segments", plus);
        check_file(s->dir, "tmp1.block0.r0.minus.segments", minus);
        check_file(s->dir, "ref_block0.name", "chr1\n");
    }
    free(plus);
    free(minus);
}

static void
make_archive(const struct setup *s, const char *path, unsigned threads, size_t piece)
{
    struct hspz_segments *segments = NULL;
    const struct hspz_segments_target target = {.archive = path, .threads = threads};
    assert_int_equal(hspz_segments_open(&target, &segments, NULL), HSPZ_OK);
    assert_int_equal(write_all(s, segments, piece, NULL), HSPZ_OK);
    assert_int_equal(hspz_segments_commit(segments, NULL), HSPZ_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(hspz_segments_finish(segments, NULL), HSPZ_OK);
    hspz_segments_close(&segments);
}

static void
test_an_archive_is_the_same_however_it_is_made_and_tar_reads_it(void **state)
{
    const struct setup *s = *state;
    char *a = test_path(s->dir, "a.tar.gz"), *b = test_path(s->dir, "b.tar.gz");
    make_archive(s, a, 1, 999);
    make_archive(s, b, 4, 50000);
    size_t a_len, b_len;
    uint8_t *a_bytes = test_read_file(a, &a_len), *b_bytes = test_read_file(b, &b_len);
    assert_int_equal(a_len, b_len);
    assert_memory_equal(a_bytes, b_bytes, a_len);
    char command[1024];
    snprintf(command, sizeof(command),
             "cd '%s' && mkdir x && tar -C x -xzf a.tar.gz 2>x.err && test ! -s x.err && "
             "TZ=UTC tar -tvzf a.tar.gz --numeric-owner --full-time >list",
             s->dir);
    assert_int_equal(system(command), 0);
    char *plus = expected(s, HSPZ_STRAND_PLUS), *minus = expected(s, HSPZ_STRAND_MINUS);
    char *x = test_path(s->dir, "x");
    check_file(x, "tmp1.block0.r0.plus.segments", plus);
    check_file(x, "tmp1.block0.r0.minus.segments", minus);
    check_file(x, "ref_block0.name", "chr1\n");
    char *list = test_path(s->dir, "list"), *line;
    size_t list_len;
    char *text = (char *)test_read_file(list, &list_len), *rest = text;
    unsigned lines = 0;
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        assert_non_null(strstr(line, "-rw-r--r-- 0/0 "));
        assert_non_null(strstr(line, " 2000-01-01 00:00:00 "));
        lines++;
    }
    assert_int_equal(lines, 3);
    free(text);
    free(list);
    free(x);
    free(plus);
    free(minus);
    free(a_bytes);
    free(b_bytes);
    free(a);
    free(b);
}

static void
test_without_commit_nothing_stays(void **state)
{
    const struct setup *s = *state;
    char *archive = test_path(s->dir, "a.tar.gz");
    const struct hspz_segments_target targets[] = {{.folder = s->dir}, {.archive = archive}};
    for (size_t i = 0; i < 2; i++) {
        struct hspz_segments *segments = NULL;
        assert_int_equal(hspz_segments_open(&targets[i], &segments, NULL), HSPZ_OK);
        assert_int_equal(write_all(s, segments, HSPS, NULL), HSPZ_OK);
        hspz_segments_close(&segments);
        assert_int_equal(count_entries(s->dir), 0);
    }
    free(archive);
}

static void
test_a_bad_hsp_and_a_missing_folder_are_named(void **state)
{
    const struct setup *s = *state;
    struct hspz_segments *segments = NULL;
    struct hspz_segments_file *file = NULL;
    struct hspz_error err = {0};
    const struct hspz_segments_target nowhere = {.folder = "/nonexistent/folder"};
    assert_int_equal(hspz_segments_open(&nowhere, &segments, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "/nonexistent/folder"));
    const struct hspz_segments_target target = {.folder = s->dir};
    assert_int_equal(hspz_segments_open(&target, &segments, NULL), HSPZ_OK);
    assert_int_equal(hspz_segments_file(segments, "f", &file, NULL), HSPZ_OK);
    const struct hspz_hsp bad = {.ref_start = 999999, .query_start = 5, .length = 2, .score = 1};
    const struct hspz_hsp_rows rows = rows_of(s, HSPZ_STRAND_PLUS);
    assert_int_equal(hspz_segments_add(segments, file, &rows, &bad, 1, false, NULL), HSPZ_OK);
    assert_int_equal(hspz_segments_commit(segments, &err), HSPZ_E_BAD_PEER);
    assert_non_null(strstr(err.text, "reference 999999, query 5, length 2"));
    hspz_segments_close(&segments);
    assert_int_equal(count_entries(s->dir), 0);
}

static void
test_a_full_disk_is_named(void **state)
{
    const struct setup *s = *state;
    struct hspz_output *output = NULL;
    struct hspz_segments *segments = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_output_open("/dev/full", &output, NULL), HSPZ_OK);
    const struct hspz_segments_target target = {.output = output};
    assert_int_equal(hspz_segments_open(&target, &segments, NULL), HSPZ_OK);
    enum hspz_status status = write_all(s, segments, HSPS, &err);
    if (status == HSPZ_OK) {
        status = hspz_segments_commit(segments, &err);
    }
    assert_int_equal(status, HSPZ_E_IO);
    assert_non_null(strstr(err.text, "/dev/full: cannot write: No space left"));
    hspz_segments_close(&segments);
    hspz_output_close(&output);
}

static void
test_each_allocation_may_fail(void **state)
{
    struct setup *s = *state;
    s->count = 33000; /* two slices */
    char *archive = test_path(s->dir, "a.tar.gz");
    const struct hspz_segments_target targets[] = {{.folder = s->dir, .threads = 2},
                                                   {.archive = archive, .threads = 2}};
    for (size_t i = 0; i < 2; i++) {
        bool failed = true;
        for (long n = 1; failed; n++) {
            struct hspz_segments *segments = NULL;
            struct hspz_error err = {0};
            failing_malloc_arm(n);
            enum hspz_status status = hspz_segments_open(&targets[i], &segments, &err);
            if (status == HSPZ_OK) {
                status = write_all(s, segments, 10000, &err);
            }
            if (status == HSPZ_OK) {
                status = hspz_segments_commit(segments, &err);
            }
            if (status == HSPZ_OK) {
                status = hspz_segments_finish(segments, &err);
            }
            hspz_segments_close(&segments);
            failed = failing_malloc_disarm();
            assert_true(status == HSPZ_OK || status == HSPZ_E_OUT_OF_MEMORY || status == HSPZ_E_IO);
            assert_true(failed || status == HSPZ_OK);
            if (status != HSPZ_OK) {
                assert_string_not_equal(err.text, "");
                assert_int_equal(access(archive, F_OK), -1);
            }
        }
    }
    free(archive);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_appear_whole_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_archive_is_the_same_however_it_is_made_and_tar_reads_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_commit_nothing_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_bad_hsp_and_a_missing_folder_are_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_disk_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_allocation_may_fail, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
