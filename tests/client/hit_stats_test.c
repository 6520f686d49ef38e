#include "client/hit_stats.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <inttypes.h>

/* Seeds with their hits, counted plainly. */
struct scene {
    uint64_t *hits;
    size_t count;
};

static int
ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static struct scene
make_scene(uint64_t *random)
{
    struct scene scene = {.count = 1 + test_random(random) % 400};
    scene.hits = calloc(scene.count, sizeof(*scene.hits));
    for (size_t i = 0; i < scene.count; i++) {
        switch (test_random(random) % 4) {
        case 0:
            scene.hits[i] = test_random(random) % 6;
            break;
        case 1:
            scene.hits[i] = test_random(random) % 600;
            break;
        case 2:
            scene.hits[i] = HSPZ_HITS_DENSE - 3 + test_random(random) % 6;
            break;
        default:
            break;
        }
    }
    return scene;
}

/* The least value that `percent` of the seeds do not exceed, by trying each. */
static uint64_t
plain_percentile(const uint64_t *sorted, size_t count, unsigned percent)
{
    for (size_t i = 0; i < count; i++) {
        if ((i + 1) * 100 >= (uint64_t)count * percent) {
            return sorted[i];
        }
    }
    return 0;
}

static void
check_summary(struct hspz_hit_stats *stats, const uint64_t *sorted, size_t count, bool with_hits)
{
    struct hspz_hit_summary summary;
    hspz_hit_stats_summary(stats, with_hits, &summary);
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        all += sorted[i];
    }
    assert_true(count == 0 ? summary.mean == 0 : summary.mean == (double)all / (double)count);
    assert_int_equal(summary.median, plain_percentile(sorted, count, 50));
    assert_int_equal(summary.p95, plain_percentile(sorted, count, 95));
    assert_int_equal(summary.p99, plain_percentile(sorted, count, 99));
    assert_int_equal(summary.most, count == 0 ? 0 : sorted[count - 1]);
}

static void
check_distribution(struct hspz_hit_stats *stats, const uint64_t *sorted, size_t count)
{
    uint64_t at = 0, hits = 0, seeds = 0;
    size_t left = count;
    while (hspz_hit_stats_next(stats, &at, &hits, &seeds)) {
        assert_true(seeds > 0);
        for (uint64_t i = 0; i < seeds; i++) {
            assert_true(left > 0);
            assert_int_equal(sorted[--left], hits);
        }
        assert_true(left == 0 || sorted[left - 1] < hits);
    }
    assert_int_equal(left, 0);
}

static void
test_counts_are_those_of_plain_counting(void **state)
{
    (void)state;
    static const uint64_t least[] = {0, 1, 2, 5, 33, 257, UINT64_MAX};
    uint64_t random = 9;
    for (unsigned round = 0; round < 60; round++) {
        struct scene scene = make_scene(&random);
        struct hspz_hit_stats stats;
        struct hspz_error err = {0};
        assert_int_equal(hspz_hit_stats_init(&stats, &err), HSPZ_OK);
        const size_t half = scene.count / 2;
        assert_int_equal(hspz_hit_stats_add(&stats, scene.hits, half, &err), HSPZ_OK);
        assert_int_equal(hspz_hit_stats_add(&stats, scene.hits + half, scene.count - half, &err),
                         HSPZ_OK);
        struct hspz_hit_class classes[HSPZ_HIT_CLASSES];
        hspz_hit_stats_classes(&stats, classes);
        for (size_t c = 0; c < HSPZ_HIT_CLASSES; c++) {
            uint64_t seeds = 0, hits = 0;
            for (size_t i = 0; i < scene.count; i++) {
                const bool in = scene.hits[i] >= least[c] && scene.hits[i] < least[c + 1];
                seeds += in;
                hits += in ? scene.hits[i] : 0;
            }
            assert_int_equal(classes[c].seeds, seeds);
            assert_int_equal(classes[c].hits, hits);
        }
        qsort(scene.hits, scene.count, sizeof(*scene.hits), ascending);
        size_t zeros = 0;
        while (zeros < scene.count && scene.hits[zeros] == 0) {
            zeros++;
        }
        check_summary(&stats, scene.hits, scene.count, false);
        check_summary(&stats, scene.hits + zeros, scene.count - zeros, true);
        check_distribution(&stats, scene.hits, scene.count);
        hspz_hit_stats_fini(&stats);
        free(scene.hits);
    }
}

/* Lanes, one by one and turn by turn. */
static void
test_lane_use_is_that_of_lanes_taken_one_by_one(void **state)
{
    (void)state;
    uint64_t random = 4;
    for (unsigned round = 0; round < 40; round++) {
        uint32_t hits[100];
        const size_t count = 1 + test_random(&random) % 100;
        const uint32_t most = round % 2 == 0 ? 8 : 90;
        uint64_t all = 0, thread_slots = 0, warp_slots = 0;
        for (size_t i = 0; i < count; i++) {
            hits[i] = (uint32_t)(test_random(&random) % most);
            all += hits[i];
        }
        for (size_t warp = 0; warp * 32 < count; warp++) {
            for (uint32_t turn = 0;; turn++) {
                bool busy = false;
                for (size_t lane = 0; lane < 32 && warp * 32 + lane < count; lane++) {
                    busy = busy || hits[warp * 32 + lane] > turn;
                }
                if (!busy) {
                    break;
                }
                thread_slots += 32;
            }
        }
        for (size_t i = 0; i < count; i++) {
            for (uint32_t done = 0; done < hits[i]; done += 32) {
                warp_slots += 32;
            }
        }
        struct hspz_hit_stats stats;
        struct hspz_error err = {0};
        assert_int_equal(hspz_hit_stats_init(&stats, &err), HSPZ_OK);
        hspz_hit_stats_launch(&stats, hits, count);
        assert_int_equal(stats.expanded, all);
        assert_int_equal(stats.thread_slots, thread_slots);
        assert_int_equal(stats.warp_slots, warp_slots);
        assert_int_equal(stats.adaptive_slots,
                         (double)all / (double)count < 16 ? thread_slots : warp_slots);
        hspz_hit_stats_fini(&stats);
    }
}

static void
test_nothing_counted_is_all_zeros(void **state)
{
    (void)state;
    struct hspz_hit_stats stats;
    struct hspz_error err = {0};
    assert_int_equal(hspz_hit_stats_init(&stats, &err), HSPZ_OK);
    check_summary(&stats, NULL, 0, false);
    check_distribution(&stats, NULL, 0);
    char text[4096] = "";
    FILE *to = fmemopen(text, sizeof(text), "w");
    hspz_hit_stats_print(&stats, true, to);
    fclose(to);
    assert_null(strstr(text, "nan"));
    assert_non_null(strstr(text, "\"distribution\":[]}"));
    hspz_hit_stats_fini(&stats);
}

static void
test_no_memory_is_said(void **state)
{
    (void)state;
    const uint64_t hits[] = {3, HSPZ_HITS_DENSE, 7};
    for (unsigned fail = 1; fail <= 2; fail++) {
        struct hspz_hit_stats stats;
        struct hspz_error err = {0};
        failing_malloc_arm(fail);
        enum hspz_status status = hspz_hit_stats_init(&stats, &err);
        if (status == HSPZ_OK) {
            status = hspz_hit_stats_add(&stats, hits, 3, &err);
        }
        failing_malloc_disarm();
        assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
        hspz_hit_stats_fini(&stats);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_those_of_plain_counting),
        cmocka_unit_test(test_lane_use_is_that_of_lanes_taken_one_by_one),
        cmocka_unit_test(test_nothing_counted_is_all_zeros),
        cmocka_unit_test(test_no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
