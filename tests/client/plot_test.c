#include "client/plot_grid.h"
#include "client/plot_labels.h"
#include "client/plot_read.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <math.h>

static void
add(struct hspz_plot_axis *axis, const char *name, uint64_t len)
{
    uint32_t number;
    struct hspz_error err;
    assert_int_equal(hspz_plot_axis_add(axis, name, strlen(name), len, &number, &err), HSPZ_OK);
}

static struct hspz_plot_axis
make_axis(uint64_t a, uint64_t b)
{
    struct hspz_plot_axis axis;
    struct hspz_error err;
    hspz_plot_axis_init(&axis);
    add(&axis, "one", a);
    add(&axis, "two:3-4", b);
    assert_int_equal(hspz_plot_axis_settle(&axis, &err), HSPZ_OK);
    return axis;
}

static void
test_range_is_part_of_one_sequence(void **state)
{
    (void)state;
    struct hspz_plot_axis axis = make_axis(100, 50);
    struct hspz_error err;
    static const struct {
        const char *range;
        uint64_t begin, end;
    } good[] = {
        {"one", 0, 100},           {"one:7-9", 7, 9},     {"two:3-4", 100, 150},
        {"two:3-4:3-4", 103, 104}, {"one:0-100", 0, 100},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(hspz_plot_axis_show(&axis, "--x", good[i].range, &err), HSPZ_OK);
        assert_int_equal(axis.begin, good[i].begin);
        assert_int_equal(axis.end, good[i].end);
    }
    static const char *const bad[] = {"",
                                      "two",
                                      "one:",
                                      "one:3",
                                      "one:9-7",
                                      "one:7-7",
                                      "one:0-101",
                                      "one:-5",
                                      "two:3-4:x",
                                      "one:1-2k",
                                      "one:00000000000000000000000000-9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(hspz_plot_axis_show(&axis, "--x", bad[i], &err), HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(err.text, "--x"));
    }
    hspz_plot_axis_fini(&axis);
}

/* Whether the line goes through the cell, by many points along it. */
static bool
goes_through(const double x[2], const double y[2], size_t columns, size_t rows, size_t column,
             size_t row, double slack)
{
    for (unsigned i = 0; i <= 4000; i++) {
        const double part = i / 4000.0;
        const double c = (x[0] + part * (x[1] - x[0])) * (double)columns;
        const double r = (y[0] + part * (y[1] - y[0])) * (double)rows;
        if (c >= (double)column - slack && c <= (double)(column + 1) + slack &&
            r >= (double)row - slack && r <= (double)(row + 1) + slack) {
            return true;
        }
    }
    return false;
}

static void
test_cells_of_a_line_are_those_it_goes_through(void **state)
{
    (void)state;
    struct hspz_plot_axis axis = make_axis(1000, 1000);
    struct hspz_error err;
    uint64_t random = 3;
    axis.begin = 300; /* what is outside is cut off */
    axis.end = 1700;
    for (unsigned round = 0; round < 60; round++) {
        struct hspz_plot_grid grid;
        assert_int_equal(hspz_plot_grid_init(&grid, &axis, &axis, 20, 14, &err), HSPZ_OK);
        struct hspz_plot_match match = {.ref_begin = test_random(&random) % 1900,
                                        .query_begin = test_random(&random) % 1900,
                                        .strand =
                                            round % 2 == 0 ? HSPZ_STRAND_PLUS : HSPZ_STRAND_MINUS};
        match.ref_end = match.ref_begin + 1 + test_random(&random) % (2000 - match.ref_begin);
        match.query_end = match.query_begin + 1 + test_random(&random) % (2000 - match.query_begin);
        hspz_plot_grid_add(&grid, &match);
        const double x[2] = {((double)match.ref_begin - 300) / 1400,
                             ((double)match.ref_end - 300) / 1400};
        double y[2] = {((double)match.query_begin - 300) / 1400,
                       ((double)match.query_end - 300) / 1400};
        if (round % 2 == 1) {
            const double top = y[1];
            y[1] = y[0];
            y[0] = top;
        }
        size_t marked = 0;
        for (size_t row = 0; row < 14; row++) {
            for (size_t column = 0; column < 20; column++) {
                assert_int_equal(grid.cells[round % 2 == 0][row * 20 + column], 0);
                const uint32_t count = grid.cells[round % 2][row * 20 + column];
                assert_in_range(count, 0, 1);
                marked += count;
                assert_true(count == 0 || goes_through(x, y, 20, 14, column, row, 0.02));
            }
        }
        /* Along its longer side it has one in each column or row. */
        const struct hspz_plot_lines *lines = &grid.lines[round % 2];
        assert_int_equal(lines->count, marked > 0);
        if (marked > 0) {
            const struct hspz_plot_line *l = &lines->items[0];
            const double wide =
                fabs(floor(fmin(l->x[1] * 20, 19.99)) - floor(fmin(l->x[0] * 20, 19.99)));
            const double high =
                fabs(floor(fmin(l->y[1] * 14, 13.99)) - floor(fmin(l->y[0] * 14, 13.99)));
            assert_int_equal(marked, 1 + (size_t)fmax(wide, high));
        }
        hspz_plot_grid_fini(&grid);
    }
    hspz_plot_axis_fini(&axis);
}

static void
test_chance_is_background_and_a_diagonal_shows(void **state)
{
    (void)state;
    struct hspz_plot_axis axis = make_axis(1000, 1000);
    struct hspz_plot_grid grid;
    struct hspz_error err;
    uint64_t random = 1;
    assert_int_equal(hspz_plot_grid_init(&grid, &axis, &axis, 40, 40, &err), HSPZ_OK);
    for (unsigned i = 0; i < 100000; i++) {
        const uint64_t x = test_random(&random) % 1999, y = test_random(&random) % 1999;
        hspz_plot_grid_add(&grid, &(struct hspz_plot_match){x, x + 1, y, y + 1, HSPZ_STRAND_PLUS});
        const uint64_t z = i % 1999;
        hspz_plot_grid_add(&grid, &(struct hspz_plot_match){z, z + 1, z, z + 1, HSPZ_STRAND_PLUS});
        hspz_plot_grid_add(&grid, &(struct hspz_plot_match){y, y + 1, x, x + 1, HSPZ_STRAND_MINUS});
    }
    assert_false(hspz_plot_grid_has_lines(&grid));
    float *opacity[2] = {malloc(1600 * sizeof(float)), malloc(1600 * sizeof(float))};
    uint32_t background = 0, most = 0;
    assert_int_equal(hspz_plot_grid_shade(&grid, opacity, &background, &most, &err), HSPZ_OK);
    size_t chance = 0;
    for (size_t i = 0; i < 1600; i++) {
        assert_true(i % 41 == 0 ? opacity[0][i] > 0.5 : opacity[0][i] < 0.5);
        chance += i % 41 != 0 && opacity[0][i] > 0;
        chance += opacity[1][i] > 0;
    }
    assert_in_range(chance, 0, 16); /* of 3160 */
    free(opacity[0]);
    free(opacity[1]);
    hspz_plot_grid_fini(&grid);
    hspz_plot_axis_fini(&axis);
}

static void
test_names_keep_apart_and_long_sequences_come_first(void **state)
{
    (void)state;
    struct hspz_plot_axis axis;
    struct hspz_plot_names names;
    struct hspz_error err;
    uint64_t random = 2;
    hspz_plot_axis_init(&axis);
    for (unsigned i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%u", i);
        add(&axis, name, i == 150 ? 100000 : 1 + test_random(&random) % 3000);
    }
    assert_int_equal(hspz_plot_axis_settle(&axis, &err), HSPZ_OK);
    assert_int_equal(hspz_plot_names_pick(&axis, 500, 16, &names, &err), HSPZ_OK);
    assert_in_range(names.count, 10, 32);
    assert_int_equal(names.items[0].number, 150);
    for (size_t i = 0; i < names.count; i++) {
        assert_true(i == 0 || names.items[i].wide <= names.items[i - 1].wide);
        for (size_t k = 0; k < i; k++) {
            assert_true(fabs(names.items[i].at - names.items[k].at) >= 16);
        }
    }
    hspz_plot_names_fini(&names);
    hspz_plot_axis_fini(&axis);
    char text[HSPZ_PLOT_NAME_BYTES];
    hspz_plot_name_short("0123456789abcdefghijklmnopqrstuvwxyz", 24, text);
    assert_string_equal(text, "0123456789ab\xe2\x80\xa6pqrstuvwxyz");
    hspz_plot_name_short("0123456789a\xc3\xa4"
                         "bcdefghijklmno\xc3\xa4"
                         "0123456789",
                         24, text);
    assert_string_equal(text, "0123456789a\xe2\x80\xa6"
                              "0123456789");
}

static void
test_ticks_are_round_and_apart(void **state)
{
    (void)state;
    struct hspz_plot_axis axis = make_axis(4639675, 100);
    struct hspz_plot_tick tick;
    uint64_t at = 0, last = 0;
    char all[256] = "";
    while (hspz_plot_tick_next(&axis, 0, 1000, 85, &at, &tick)) {
        assert_true(at == 1 || (double)(tick.base - last) * 1000 / 4639775 >= 85);
        last = tick.base;
        strcat(strcat(all, tick.text), ",");
    }
    assert_string_equal(all, "0.0,0.5 Mb,1.0 Mb,1.5 Mb,2.0 Mb,2.5 Mb,3.0 Mb,3.5 Mb,4.0 Mb,4.5 Mb,");
    at = 0;
    assert_false(hspz_plot_tick_next(&axis, 1, 1000, 85, &at, &tick));
    hspz_plot_axis_fini(&axis);
}

static const char mixed[] =
    "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand\tscore\n"
    "r\t5\t10\tq\t20\t25\t-\t99\n"
    "q\t40\t3\t8\t+\tr\t70\t1\t6\t5\t5\t0\tcg:Z:5=\n";

static void
test_no_memory_while_reading_is_said(void **state)
{
    (void)state;
    bool failed = true;
    for (long fail = 1; failed; fail++) {
        struct hspz_plot_axis ref, query;
        struct hspz_plot_reader reader = {0};
        struct hspz_error err = {0};
        hspz_plot_axis_init(&ref);
        hspz_plot_axis_init(&query);
        failing_malloc_arm(fail);
        enum hspz_status status = hspz_plot_reader_init(&reader, &ref, &query, &err);
        if (status == HSPZ_OK) {
            hspz_plot_reader_begin(&reader, "x");
            status =
                hspz_plot_reader_feed(&reader, (const uint8_t *)mixed, sizeof(mixed) - 1, &err);
        }
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        if (!failed) {
            assert_int_equal(reader.count, 2);
            assert_int_equal(ref.lens[0], 70);
            assert_int_equal(query.lens[0], 40);
        }
        hspz_plot_reader_fini(&reader);
        hspz_plot_axis_fini(&ref);
        hspz_plot_axis_fini(&query);
    }
}

static void
test_no_memory_for_a_picture_is_said(void **state)
{
    (void)state;
    bool failed = true;
    for (long fail = 1; failed; fail++) {
        struct hspz_plot_axis axis;
        struct hspz_plot_grid grid = {0};
        struct hspz_plot_names names = {0};
        struct hspz_error err = {0};
        float opacity[2][100];
        float *const both[2] = {opacity[0], opacity[1]};
        uint32_t number, background, most;
        hspz_plot_axis_init(&axis);
        failing_malloc_arm(fail);
        enum hspz_status status = hspz_plot_axis_add(&axis, "one", 3, 1000, &number, &err);
        status = status == HSPZ_OK ? hspz_plot_axis_settle(&axis, &err) : status;
        status =
            status == HSPZ_OK ? hspz_plot_grid_init(&grid, &axis, &axis, 10, 10, &err) : status;
        status = status == HSPZ_OK
                     ? hspz_plot_grid_shade(&grid, (float **)both, &background, &most, &err)
                     : status;
        status = status == HSPZ_OK ? hspz_plot_names_pick(&axis, 100, 10, &names, &err) : status;
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_int_equal(err.text[0] != '\0', failed);
        assert_true(failed || fail > 9);
        hspz_plot_names_fini(&names);
        hspz_plot_grid_fini(&grid);
        hspz_plot_axis_fini(&axis);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_is_part_of_one_sequence),
        cmocka_unit_test(test_cells_of_a_line_are_those_it_goes_through),
        cmocka_unit_test(test_chance_is_background_and_a_diagonal_shows),
        cmocka_unit_test(test_names_keep_apart_and_long_sequences_come_first),
        cmocka_unit_test(test_ticks_are_round_and_apart),
        cmocka_unit_test(test_no_memory_while_reading_is_said),
        cmocka_unit_test(test_no_memory_for_a_picture_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
