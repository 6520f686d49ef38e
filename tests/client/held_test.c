#include "client/held.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define PARTS 40u
#define MEMORY 4096u

/* Part i of a list: some anchors, or for every third a run and its places. */
static struct hspz_part_view
make_part(unsigned list, unsigned i, uint8_t bytes[1024], size_t *len)
{
    struct hspz_part_view view = {.id = {.batch = i, .chunk = list}, .records = bytes};
    view.count = 1 + (i * 7 + list) % 90;
    *len = view.count * HSPZ_ANCHOR_BYTES;
    if (i % 3 == 0) {
        view.columns.run_count = 1;
        view.columns.count = view.count;
        *len = HSPZ_RUN_BYTES + view.count * HSPZ_COLUMN_REF_BYTES;
    }
    for (size_t at = 0; at < *len; at++) {
        bytes[at] = (uint8_t)(at * 31 + i * 17 + list);
    }
    return view;
}

static void
check_part(struct hspz_held *held, const struct hspz_held_part *part, unsigned list, unsigned i)
{
    uint8_t bytes[1024], buffer[1024];
    size_t len = 0;
    const struct hspz_part_view want = make_part(list, i, bytes, &len);
    struct hspz_part_view got;
    assert_int_equal(part->len, len);
    assert_int_equal(hspz_held_get(held, part, buffer, &got, NULL), HSPZ_OK);
    assert_int_equal(got.id.batch, i);
    assert_int_equal(got.id.chunk, list);
    assert_int_equal(got.count, want.count);
    assert_memory_equal(got.records, bytes, len);
    if (want.columns.run_count > 0) {
        assert_ptr_equal(got.columns.runs, got.records);
        assert_ptr_equal(got.columns.refs, got.records + HSPZ_RUN_BYTES);
    }
}

/* Two lists side by side, more than the memory has room for; each twice, so that the file is used
 * again. */
static enum hspz_status
fill_and_empty(struct hspz_held *held, unsigned *in_file, struct hspz_error *err)
{
    struct hspz_held_list lists[2] = {{0}};
    enum hspz_status status = HSPZ_OK;
    for (unsigned round = 0; round < 2 && status == HSPZ_OK; round++) {
        uint64_t bytes = 0;
        for (unsigned i = 0; i < 2 * PARTS && status == HSPZ_OK; i++) {
            uint8_t room[1024];
            size_t len = 0;
            const struct hspz_part_view view = make_part(i % 2, i / 2, room, &len);
            status = hspz_held_add(held, &lists[i % 2], &view, len, err);
            bytes += status == HSPZ_OK ? len : 0;
        }
        assert_int_equal(hspz_held_bytes(held), bytes);
        assert_int_equal(lists[0].bytes + lists[1].bytes, bytes);
        for (unsigned i = 0; i < PARTS && status == HSPZ_OK; i++) {
            *in_file += lists[0].first->bytes == NULL;
            check_part(held, lists[0].first, 0, i);
            hspz_held_drop_first(held, &lists[0]);
        }
        hspz_held_drop(held, &lists[0]);
        hspz_held_drop(held, &lists[1]);
        assert_int_equal(hspz_held_bytes(held), 0);
    }
    return status;
}

static void
test_what_waits_is_there_again_from_memory_and_from_the_file(void **state)
{
    (void)state;
    char *folder = test_tmpdir_make();
    struct hspz_held *held = NULL;
    unsigned in_file = 0;
    assert_int_equal(hspz_held_create(folder, MEMORY, &held, NULL), HSPZ_OK);
    assert_int_equal(fill_and_empty(held, &in_file, NULL), HSPZ_OK);
    assert_true(in_file > 2 && in_file < 2 * PARTS - 2);
    hspz_held_destroy(&held);
    assert_null(held);
    test_tmpdir_remove(&folder);
}

static void
test_a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct hspz_held *held = NULL;
    struct hspz_error err = {0};
    unsigned in_file = 0;
    assert_int_equal(hspz_held_create("/nowhere/at/all", MEMORY, &held, NULL), HSPZ_OK);
    assert_int_equal(fill_and_empty(held, &in_file, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    hspz_held_destroy(&held);
}

static void
test_each_allocation_may_fail(void **state)
{
    (void)state;
    char *folder = test_tmpdir_make();
    bool failed = true;
    long n = 0;
    while (failed) {
        struct hspz_held *held = NULL;
        struct hspz_error err = {0};
        unsigned in_file = 0;
        failing_malloc_arm(++n);
        enum hspz_status status = hspz_held_create(folder, MEMORY, &held, &err);
        if (status == HSPZ_OK) {
            status = fill_and_empty(held, &in_file, &err);
        }
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_held_destroy(&held);
    }
    assert_true(n > (long)PARTS);
    test_tmpdir_remove(&folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_waits_is_there_again_from_memory_and_from_the_file),
        cmocka_unit_test(test_a_folder_that_is_not_there_is_named),
        cmocka_unit_test(test_each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
