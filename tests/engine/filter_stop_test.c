/* Work on a whole filter that is told to end does so, with HSPZ_E_CANCELLED, and leaves what there
 * was: at each of the times that it asks. */
#include "engine/filter.h"
#include "tests/support/test.h"

#include <stdatomic.h>
#include <unistd.h>

static const struct hspz_filter_spec specs[] = {
    {.kind = HSPZ_FILTER_TCF, .slots = 4096},
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 16},
    {.kind = HSPZ_FILTER_RSQF, .slots = 4096, .slot_bits = 16, .parts = 4},
    {.kind = HSPZ_FILTER_BLOOM, .capacity = 4000},
    {.kind = HSPZ_FILTER_BLOCKED, .capacity = 4000, .parts = 2},
    {.kind = HSPZ_FILTER_COUNTER, .capacity = 4000},
};
#define SPECS (sizeof(specs) / sizeof(specs[0]))

enum { KEYS = 1000 };

struct subject {
    const struct hspz_filter_ops *ops;
    struct hspz_filter_plan plan;
    struct hspz_filter *filter;
};

static struct subject
make(const struct hspz_filter_spec *spec, uint64_t first)
{
    struct subject s = {0};
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = (first + i) * UINT64_C(0x9e3779b97f4a7c15);
    }
    assert_int_equal(hspz_filter_plan(spec, 0, &s.plan, NULL), HSPZ_OK);
    s.ops = hspz_filter_ops_of(&s.plan, hspz_cpu_filter(spec->kind));
    assert_int_equal(s.ops->create(&s.plan, &s.filter, NULL), HSPZ_OK);
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = KEYS};
    assert_int_equal(s.ops->run(s.filter, &call, NULL), HSPZ_OK);
    return s;
}

static uint64_t
entries_of(const struct subject *s)
{
    struct hspz_filter_stats stats;
    s->ops->stats(s->filter, &stats);
    return stats.entries;
}

/* Says no so many times, and then yes; threads ask, too. */
static bool
asked(void *user)
{
    atomic_int *left = user;
    return atomic_load(left) <= 0 || atomic_fetch_sub(left, 1) <= 0;
}

/* One kind of work with a stop; everything that it makes is gone afterwards. */
typedef enum hspz_status (*work_fn)(struct subject *s, struct subject *other, const char *path,
                                    const struct hspz_filter_stop *stop, struct hspz_error *err);

static enum hspz_status
do_merge(struct subject *s, struct subject *other, const char *path,
         const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    (void)path;
    bool full = true;
    const enum hspz_status status = s->ops->merge == NULL
                                        ? HSPZ_E_UNSUPPORTED
                                        : s->ops->merge(s->filter, other->filter, stop, &full, err);
    assert_true(status != HSPZ_OK || !full);
    return status;
}

static enum hspz_status
do_write(struct subject *s, struct subject *other, const char *path,
         const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    (void)other;
    const enum hspz_status status = hspz_filter_write(s->ops, s->filter, path, stop, err);
    assert_true((access(path, F_OK) == 0) == (status == HSPZ_OK));
    (void)unlink(path);
    return status;
}

static enum hspz_status
do_read(struct subject *s, struct subject *other, const char *path,
        const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    (void)other;
    struct hspz_filter_plan plan;
    struct hspz_filter_image image = {0};
    struct hspz_filter *again = NULL;
    assert_int_equal(hspz_filter_write(s->ops, s->filter, path, NULL, NULL), HSPZ_OK);
    enum hspz_status status = hspz_filter_read(path, 0, stop, &plan, &image, err);
    if (status == HSPZ_OK) {
        const struct hspz_filter_ops *ops =
            hspz_filter_ops_of(&plan, hspz_cpu_filter(plan.spec.kind));
        status = ops->load(&plan, &image, stop, &again, err);
        ops->destroy(&again);
    }
    hspz_filter_image_fini(&image);
    return status;
}

static void
check_work(work_fn work, int least)
{
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "f");
    for (size_t i = 0; i < SPECS; i++) {
        enum hspz_status status = HSPZ_E_CANCELLED;
        int stops = 0;
        for (; status == HSPZ_E_CANCELLED; stops++) {
            struct subject s = make(&specs[i], 1), other = make(&specs[i], 5000);
            struct hspz_error err = {0};
            atomic_int left = stops;
            const uint64_t before = entries_of(&s);
            status = work(&s, &other, path, &(struct hspz_filter_stop){asked, &left}, &err);
            if (status == HSPZ_E_CANCELLED) {
                assert_int_equal(entries_of(&s), before);
                assert_true(strstr(err.text, "stopped") != NULL);
            }
            s.ops->destroy(&s.filter);
            other.ops->destroy(&other.filter);
        }
        if (status == HSPZ_E_UNSUPPORTED) {
            assert_int_equal(specs[i].kind, HSPZ_FILTER_TCF);
            continue;
        }
        assert_int_equal(status, HSPZ_OK);
        assert_true(stops > least);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

static void
test_a_merge_can_be_stopped(void **state)
{
    (void)state;
    check_work(do_merge, 1);
}

static void
test_a_write_can_be_stopped(void **state)
{
    (void)state;
    check_work(do_write, 3);
}

static void
test_a_read_can_be_stopped(void **state)
{
    (void)state;
    check_work(do_read, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_merge_can_be_stopped),
        cmocka_unit_test(test_a_write_can_be_stopped),
        cmocka_unit_test(test_a_read_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
