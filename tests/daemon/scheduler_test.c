#include "daemon/scheduler.h"

#include "tests/support/test.h"

#define SOURCES 12
#define SHARES 3
#define UNDER_WAY 64
#define MS UINT64_C(1000000)

/* A device on which turns take their time: the one under way of least order runs, one a lane. */
struct bench {
    struct hspz_scheduler scheduler;
    struct hspz_share shares[SHARES];
    struct hspz_source sources[SOURCES];
    unsigned share_of[SOURCES], priority[SOURCES];
    uint64_t work[SOURCES], done[SOURCES]; /* turns */
    uint64_t turn_ns[SOURCES];
    uint64_t share_ns[SHARES];
    struct {
        struct hspz_turn turn;
        size_t source;
        bool running;
    } turns[UNDER_WAY];
    unsigned count, lanes, deepest, most_parts;
    uint64_t now_ns, wake_ns; /* wake: UINT64_MAX: not asked for */
    bool wait;                /* memory is short */
};

static enum hspz_give
give(void *user, struct hspz_source *source, const struct hspz_turn *turn)
{
    struct bench *b = user;
    const size_t i = (size_t)(source - b->sources);
    hspz_scheduler_pump(&b->scheduler); /* must not recurse */
    if (b->wait) {
        return HSPZ_GIVE_WAIT;
    }
    if (b->work[i] == 0) {
        return HSPZ_GAVE_NONE;
    }
    assert_true(b->count < UNDER_WAY);
    assert_ptr_equal(turn->share, &b->shares[b->share_of[i]]);
    b->work[i]--;
    b->turns[b->count].turn = *turn;
    b->turns[b->count].source = i;
    b->turns[b->count++].running = false;
    b->deepest = b->count > b->deepest ? b->count : b->deepest;
    b->most_parts = turn->parts > b->most_parts ? turn->parts : b->most_parts;
    return HSPZ_GAVE;
}

static uint64_t
read_clock(void *user)
{
    return ((const struct bench *)user)->now_ns;
}

static void
wake(void *user, uint64_t at_ns)
{
    struct bench *b = user;
    b->wake_ns = at_ns < b->wake_ns ? at_ns : b->wake_ns;
}

static void
push(struct bench *b, size_t i)
{
    hspz_scheduler_push(&b->scheduler, &b->sources[i], &b->shares[b->share_of[i]], b->priority[i]);
}

/* Free lanes begin what is there. */
static void
begin(struct bench *b)
{
    unsigned running = 0;
    for (unsigned i = 0; i < b->count; i++) {
        running += b->turns[i].running;
    }
    for (; running < b->lanes && running < b->count; running++) {
        unsigned best = UNDER_WAY;
        for (unsigned i = 0; i < b->count; i++) {
            if (!b->turns[i].running &&
                (best == UNDER_WAY || b->turns[i].turn.order < b->turns[best].turn.order)) {
                best = i;
            }
        }
        b->turns[best].running = true;
    }
}

/* The oldest begun turn ends, the next begins, and the source comes back for more; returns which it
 * is. */
static size_t
finish_one(struct bench *b)
{
    unsigned first = UNDER_WAY;
    begin(b);
    for (unsigned i = b->count; i-- > 0;) {
        first = b->turns[i].running ? i : first;
    }
    assert_in_range(first, 0, UNDER_WAY - 1);
    const struct hspz_turn turn = b->turns[first].turn;
    const size_t source = b->turns[first].source;
    for (unsigned i = first; i + 1 < b->count; i++) {
        b->turns[i] = b->turns[i + 1];
    }
    b->count--;
    begin(b);
    b->done[source]++;
    b->now_ns += b->turn_ns[source] / b->lanes;
    b->share_ns[b->share_of[source]] += b->turn_ns[source];
    hspz_scheduler_done(&b->scheduler, &turn, b->turn_ns[source]);
    if (b->work[source] > 0) {
        push(b, source);
    }
    hspz_scheduler_pump(&b->scheduler);
    return source;
}

static void
init(struct bench *b, unsigned lanes, const uint64_t weights[SHARES])
{
    *b = (struct bench){.lanes = lanes};
    b->wake_ns = UINT64_MAX;
    hspz_scheduler_init(&b->scheduler, lanes, give, read_clock, wake, b);
    for (size_t i = 0; i < SHARES; i++) {
        hspz_share_init(&b->shares[i], weights != NULL ? weights[i] : 1);
    }
    for (size_t i = 0; i < SOURCES; i++) {
        b->turn_ns[i] = MS;
    }
}

static void
start(struct bench *b, size_t i, unsigned share, uint64_t turns)
{
    b->share_of[i] = share;
    b->work[i] = turns;
    push(b, i);
    push(b, i); /* stands in line once */
}

static void
end(struct bench *b)
{
    for (size_t i = 0; i < SOURCES; i++) {
        hspz_scheduler_remove(&b->scheduler, &b->sources[i]);
        b->work[i] = 0;
    }
    while (b->count > 0) {
        finish_one(b);
    }
    for (size_t i = 0; i < SHARES; i++) {
        hspz_share_fini(&b->shares[i]);
    }
    assert_ptr_equal(b->scheduler.busy.next, &b->scheduler.busy);
}

static void
test_sources_of_a_share_take_turns(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 3; lanes++) {
        struct bench b;
        init(&b, lanes, NULL);
        for (size_t i = 0; i < SOURCES; i++) {
            start(&b, i, 0, i == 0 ? 1000000 : 1000); /* one giant job */
        }
        hspz_scheduler_pump(&b.scheduler);
        for (int n = 0; n < 6000; n++) {
            finish_one(&b);
        }
        for (size_t i = 1; i < SOURCES; i++) {
            assert_in_range(b.done[i], b.done[0] - 2 * lanes, b.done[0] + 2 * lanes);
        }
        assert_int_equal(b.deepest, 2 * lanes);
        assert_int_equal(b.most_parts, HSPZ_TURN_PARTS);
        end(&b);
    }
}

static void
test_a_newcomer_waits_one_round(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, NULL);
    for (size_t i = 0; i < 3; i++) {
        start(&b, i, 0, 100000);
    }
    hspz_scheduler_pump(&b.scheduler);
    for (int n = 0; n < 1000; n++) {
        finish_one(&b);
    }
    start(&b, 7, 0, 1);
    hspz_scheduler_pump(&b.scheduler);
    unsigned before = 0;
    while (finish_one(&b) != 7) {
        before++;
    }
    assert_in_range(before, 0, 5);
    end(&b);
}

static void
test_a_lone_source_gets_long_turns(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, NULL);
    start(&b, 0, 0, 400);
    hspz_scheduler_pump(&b.scheduler);
    while (b.count > 0) {
        assert_int_equal(b.turns[0].turn.parts, HSPZ_TURN_PARTS_ALONE);
        finish_one(&b);
    }
    assert_int_equal(b.done[0], 400);
    end(&b);
}

static void
test_who_waits_keeps_the_place(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, NULL);
    for (size_t i = 0; i < 3; i++) {
        start(&b, i, 0, 1);
    }
    b.wait = true;
    hspz_scheduler_pump(&b.scheduler);
    hspz_scheduler_pump(&b.scheduler);
    assert_int_equal(b.count, 0);
    hspz_scheduler_remove(&b.scheduler, &b.sources[1]);
    hspz_scheduler_remove(&b.scheduler, &b.sources[1]);
    b.wait = false;
    hspz_scheduler_pump(&b.scheduler);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.turns[0].source, 0);
    assert_int_equal(b.turns[1].source, 2);
    end(&b);
}

/* Share 1 to share 0, in percent, once `turns` have ended. */
static unsigned
percent(struct bench *b, unsigned turns)
{
    hspz_scheduler_pump(&b->scheduler);
    for (unsigned n = 0; n < turns; n++) {
        finish_one(b);
    }
    assert_true(b->share_ns[0] > 0);
    return (unsigned)(b->share_ns[1] * 100 / b->share_ns[0]);
}

static void
test_shares_get_time_by_weight_whatever_their_turns_take(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 4; lanes++) {
        /* Connections of each: the light one has more, and longer turns. */
        for (size_t mine = lanes; mine <= 4; mine++) {
            struct bench b;
            init(&b, lanes, (const uint64_t[]){1, 3, 1});
            for (size_t i = 0; i < mine + 6; i++) {
                start(&b, i, i < 6 ? 0 : 1, 1000000);
                b.turn_ns[i] = i < 6 ? 5 * MS : MS / 3 * (1 + i % 3);
            }
            assert_in_range(percent(&b, 20000), 285, 315);
            end(&b);
        }
    }
}

static void
test_one_connection_a_share_gets_its_weight_too(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, (const uint64_t[]){1, 3, 1});
    start(&b, 0, 0, 1000000);
    start(&b, 1, 1, 1000000);
    assert_in_range(percent(&b, 4000), 290, 310);
    end(&b);
}

static void
test_a_changed_weight_counts_from_then_on(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, (const uint64_t[]){1, 1, 1});
    for (size_t i = 0; i < 8; i++) {
        start(&b, i, i % 2, 1000000);
    }
    assert_in_range(percent(&b, 1000), 97, 103);
    b.shares[1].weight = 5;
    b.share_ns[0] = b.share_ns[1] = 0;
    assert_in_range(percent(&b, 3000), 480, 520);
    end(&b);
}

static void
test_a_share_that_comes_back_goes_ahead_of_turns_not_begun(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, (const uint64_t[]){100, 1, 1});
    for (size_t i = 0; i < 8; i++) {
        start(&b, i, 0, 1000000);
    }
    hspz_scheduler_pump(&b.scheduler);
    for (int n = 0; n < 1000; n++) {
        finish_one(&b);
    }
    b.turn_ns[8] = MS / 50;
    for (int n = 0; n < 100; n++) {
        finish_one(&b);
        start(&b, 8, 1, 1);
        hspz_scheduler_pump(&b.scheduler);
        /* The running one ends, then comes this. */
        assert_int_not_equal(finish_one(&b), 8);
        assert_int_equal(finish_one(&b), 8);
        /* And that has to last for it, at a hundredth of the other's weight. */
        for (int k = 0; k < 4; k++) {
            finish_one(&b);
        }
    }
    assert_int_equal(b.done[8], 100);
    end(&b);
}

static void
test_time_away_gives_no_claim(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, NULL);
    for (size_t i = 0; i < 4; i++) {
        start(&b, i, 0, 1000000);
    }
    hspz_scheduler_pump(&b.scheduler);
    for (int n = 0; n < 10000; n++) {
        finish_one(&b);
    }
    b.share_ns[0] = 0;
    for (size_t i = 4; i < 8; i++) {
        start(&b, i, 1, 1000000);
    }
    assert_in_range(percent(&b, 200), 90, 110);
    end(&b);
}

static void
test_who_could_not_use_its_share_keeps_a_small_claim(void **state)
{
    (void)state;
    struct bench b;
    /* One connection on four lanes gets one of them, of the three that are due to it. */
    init(&b, 4, (const uint64_t[]){1, 3, 1});
    for (size_t i = 0; i < 6; i++) {
        start(&b, i, i == 0 ? 1 : 0, 1000000);
    }
    assert_in_range(percent(&b, 10000), 25, 40);
    /* Then it has as many as it likes: the other is starved for no longer than the claim. */
    for (size_t i = 6; i < 12; i++) {
        start(&b, i, 1, 1000000);
    }
    b.share_ns[0] = b.share_ns[1] = 0;
    assert_in_range(percent(&b, 1000), 285, 400);
    end(&b);
}

static void
test_priority_goes_first_within_a_share_only(void **state)
{
    (void)state;
    struct bench b;
    init(&b, 1, NULL);
    for (size_t i = 0; i < 9; i++) {
        b.priority[i] = i < 3 ? 9 : i < 6 ? 4 : 0;
        start(&b, i, i == 8 ? 1 : 0, 100);
    }
    hspz_scheduler_pump(&b.scheduler);
    unsigned last = 9;
    uint64_t others = 0;
    while (b.count > 0) {
        const size_t i = finish_one(&b);
        if (i == 8) {
            continue;
        }
        others++;
        /* A turn given ahead apart, no lower one runs while a higher one has work. */
        assert_true(b.priority[i] <= last);
        last = b.priority[i];
        if (others == 90) {
            /* The other share's lowest was not held up by this one's highest. */
            assert_in_range(b.done[8], 85, 95);
        }
    }
    end(&b);
}

/* Sleeps when there is nothing but a cap to wait for. */
static void
run_for(struct bench *b, uint64_t ns)
{
    const uint64_t end_ns = b->now_ns + ns;
    while (b->now_ns < end_ns) {
        hspz_scheduler_pump(&b->scheduler);
        if (b->count > 0) {
            finish_one(b);
        } else {
            assert_true(b->wake_ns != UINT64_MAX && b->wake_ns > b->now_ns);
            b->now_ns = b->wake_ns;
            b->wake_ns = UINT64_MAX;
        }
    }
}

static void
test_a_capped_share_gets_no_more_though_nobody_else_wants_it(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 3; lanes++) {
        struct bench b;
        init(&b, lanes, (const uint64_t[]){1, 1000, 1});
        b.shares[1].cap_percent = 20;
        for (size_t i = 0; i < 6; i++) {
            start(&b, i, 1, 1000000);
        }
        run_for(&b, 10000 * MS);
        assert_in_range(b.share_ns[1], 1900 * MS * lanes, 2100 * MS * lanes);
        /* Beside another it gets the same, however great its weight; the other gets the rest. */
        for (size_t i = 6; i < 12; i++) {
            start(&b, i, 0, 1000000);
        }
        b.share_ns[1] = 0;
        run_for(&b, 10000 * MS);
        assert_in_range(b.share_ns[1], 1900 * MS * lanes, 2100 * MS * lanes);
        assert_in_range(b.share_ns[0], 7800 * MS * lanes, 8200 * MS * lanes);
        /* Without a cap its weight is what counts, and it has saved nothing up. */
        b.shares[1].cap_percent = 0;
        b.shares[1].weight = 3;
        b.share_ns[0] = b.share_ns[1] = 0;
        run_for(&b, 10000 * MS);
        assert_in_range(b.share_ns[1] * 100 / b.share_ns[0], 280, 320);
        end(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources_of_a_share_take_turns),
        cmocka_unit_test(test_a_newcomer_waits_one_round),
        cmocka_unit_test(test_a_lone_source_gets_long_turns),
        cmocka_unit_test(test_who_waits_keeps_the_place),
        cmocka_unit_test(test_shares_get_time_by_weight_whatever_their_turns_take),
        cmocka_unit_test(test_one_connection_a_share_gets_its_weight_too),
        cmocka_unit_test(test_a_changed_weight_counts_from_then_on),
        cmocka_unit_test(test_a_share_that_comes_back_goes_ahead_of_turns_not_begun),
        cmocka_unit_test(test_time_away_gives_no_claim),
        cmocka_unit_test(test_who_could_not_use_its_share_keeps_a_small_claim),
        cmocka_unit_test(test_a_capped_share_gets_no_more_though_nobody_else_wants_it),
        cmocka_unit_test(test_priority_goes_first_within_a_share_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
