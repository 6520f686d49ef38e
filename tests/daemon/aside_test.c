#include "daemon/aside.h"

#include "tests/support/test.h"

#include <stdatomic.h>

#define PIECES 40u

struct bench;

struct item {
    struct hspz_aside_piece piece;
    struct bench *bench;
    unsigned runs_left; /* queued again so often */
    bool refuse;        /* begin says no */
    unsigned ran;
    unsigned turn; /* which of those with tenants it was, when it began */
};

struct bench {
    uv_loop_t loop;
    struct hspz_aside aside;
    struct hspz_tenant tenants[4];
    struct item items[PIECES];
    unsigned order[400], ended; /* tenants of the pieces that ended */
    atomic_uint running, most;
    unsigned turns;   /* given so far */
    atomic_uint past; /* turns that are over */
    unsigned company; /* the first waits until so many run at a time */
    atomic_uint of_tenant[4];
    atomic_bool twice; /* two of one tenant at a time */
};

static int
setup(void **state)
{
    static const char *const names[4] = {"a", "b", "c", ""};
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    hspz_aside_init(&b->aside, &b->loop);
    for (unsigned i = 0; i < 4; i++) {
        b->tenants[i].settings.name = (char *)(uintptr_t)names[i];
    }
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;
    assert_true(hspz_aside_idle(&b->aside));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(b->tenants[i].asides, 0);
    }
    assert_int_equal(uv_loop_close(&b->loop), 0);
    free(b);
    return 0;
}

static unsigned
tenant_of(const struct item *item)
{
    return (unsigned)(item->piece.tenant - item->bench->tenants);
}

static bool
begin(struct hspz_aside_piece *piece)
{
    struct item *item = piece->owner;
    item->turn = item->refuse ? 0 : item->bench->turns++;
    return !item->refuse;
}

static void
run(struct hspz_aside_piece *piece)
{
    struct item *item = piece->owner;
    struct bench *b = item->bench;
    const unsigned now = atomic_fetch_add(&b->running, 1) + 1;
    unsigned most = atomic_load(&b->most);
    while (now > most && !atomic_compare_exchange_weak(&b->most, &most, now)) {
    }
    if (piece->tenant != NULL && atomic_fetch_add(&b->of_tenant[tenant_of(item)], 1) > 0) {
        atomic_store(&b->twice, true);
    }
    /* However slow a thread is, who began first ends first, and not before there was company. */
    do {
        uv_sleep(2);
    } while (atomic_load(&b->most) < b->company ||
             (piece->begin != NULL && atomic_load(&b->past) != item->turn));
    atomic_fetch_add(&b->past, piece->begin != NULL);
    if (piece->tenant != NULL) {
        atomic_fetch_sub(&b->of_tenant[tenant_of(item)], 1);
    }
    atomic_fetch_sub(&b->running, 1);
}

static void
done(struct hspz_aside_piece *piece)
{
    struct item *item = piece->owner;
    struct bench *b = item->bench;
    item->ran++;
    b->order[b->ended++] = piece->tenant != NULL ? tenant_of(item) : 9;
    if (item->runs_left > 0) {
        item->runs_left--;
        hspz_aside_queue(&b->aside, piece);
    }
}

static struct item *
add(struct bench *b, unsigned i, int tenant, unsigned again)
{
    struct item *item = &b->items[i];
    item->bench = b;
    item->runs_left = again;
    item->piece = (struct hspz_aside_piece){.owner = item,
                                            .tenant = tenant < 0 ? NULL : &b->tenants[tenant],
                                            .begin = tenant < 0 ? NULL : begin,
                                            .run = run,
                                            .done = done};
    hspz_aside_queue(&b->aside, &item->piece);
    if (item->piece.in_line) {
        hspz_aside_queue(&b->aside, &item->piece); /* has no second place */
    }
    return item;
}

static void
test_tenants_take_turns_one_piece_at_a_time(void **state)
{
    struct bench *b = *state;
    b->company = HSPZ_ASIDE_PIECES;
    /* One has much to do, and came first. */
    for (unsigned i = 0; i < 20; i++) {
        add(b, i, 0, 0);
    }
    add(b, 20, 1, 4);
    add(b, 21, 2, 4);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(b->ended, 30);
    assert_int_equal(b->most, HSPZ_ASIDE_PIECES);
    assert_false(b->twice);
    /* The two others were done with their five pieces while the first had about as many. */
    unsigned first = 0, others = 0;
    for (unsigned i = 0; others < 10; i++) {
        first += b->order[i] == 0;
        others += b->order[i] != 0;
    }
    assert_in_range(first, 3, 8);
}

static void
test_without_names_all_places_are_for_one(void **state)
{
    struct bench *b = *state;
    b->company = HSPZ_ASIDE_PIECES;
    for (unsigned i = 0; i < 10; i++) {
        add(b, i, 3, 1);
    }
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(b->ended, 20);
    assert_int_equal(b->most, HSPZ_ASIDE_PIECES);
    assert_true(b->twice);
}

static void
test_pieces_can_leave_the_line_or_not_begin(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < 6; i++) {
        add(b, i, 0, 0);
    }
    b->items[3].refuse = true;
    hspz_aside_remove(&b->aside, &b->items[5].piece); /* the last */
    hspz_aside_remove(&b->aside, &b->items[2].piece);
    hspz_aside_remove(&b->aside, &b->items[2].piece);
    add(b, 6, 0, 0);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    static const unsigned want[7] = {1, 1, 0, 0, 1, 0, 1};
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(b->items[i].ran, want[i]);
    }
    b->items[3].refuse = false;
    hspz_aside_queue(&b->aside, &b->items[3].piece);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(b->items[3].ran, 1);
}

static void
test_work_for_nobody_waits_for_nobody(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < 4; i++) {
        add(b, i, (int)i % 2, 3);
    }
    add(b, 4, -1, 0);
    assert_false(hspz_aside_idle(&b->aside));
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(b->ended, 17);
    unsigned at = 0;
    while (b->order[at] != 9) {
        at++;
    }
    assert_in_range(at, 0, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tenants_take_turns_one_piece_at_a_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_without_names_all_places_are_for_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_can_leave_the_line_or_not_begin, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_work_for_nobody_waits_for_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
