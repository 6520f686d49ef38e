/* Filters and keys that are bad for them: of one block, one tag, one quotient, many copies, more
 * than fit, never inserted. */
#include "engine/filter_hash.h"
#include "tests/conformance/filters.h"
#include "tests/support/test.h"

#include <inttypes.h>

#define MANY 20000

struct bench {
    const struct filters_engine *engine;
    uint64_t keys[MANY], found[MANY];
    uint8_t yes[MANY / 8 + 1];
};

static struct hspz_filter_call
run(struct bench *b, struct filters_subject *f, enum hspz_filter_op op, size_t n)
{
    return filters_run(
        f, (struct hspz_filter_call){
               .op = op, .keys = b->keys, .count = n, .yes = b->yes, .found = b->found});
}

static void
random_keys(struct bench *b, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        b->keys[i] = test_random(&seed);
    }
}

/* Runs `check` on each engine. */
static void
each_engine(void (*check)(struct bench *))
{
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t n = filters_open(engines);
    struct bench *b = malloc(sizeof(*b));
    assert_non_null(b);
    for (size_t e = 0; e < n; e++) {
        b->engine = &engines[e];
        check(b);
    }
    filters_close(engines, n);
    free(b);
}

/* Inserts n keys in calls of `step`. What went in is found, then taken away in turn, and all that
 * is still in is found meanwhile. Returns how many went in. */
static size_t
check_in_and_out(struct bench *b, struct filters_subject *f, size_t n, size_t step)
{
    size_t in = 0;
    bool full = false;
    for (size_t at = 0; at < n; at += step) {
        uint8_t yes[MANY / 8 + 1];
        const size_t count = n - at < step ? n - at : step;
        const struct hspz_filter_call call = filters_run(
            f, (struct hspz_filter_call){
                   .op = HSPZ_FILTER_INSERT, .keys = b->keys + at, .count = count, .yes = yes});
        assert_true(call.full == (call.yes_count < count));
        full |= call.full;
        for (size_t i = 0; i < count; i++) {
            if ((yes[i / 8] >> i % 8 & 1) != 0) {
                b->keys[in++] = b->keys[at + i];
            }
        }
    }
    assert_true(full == (in < n));
    assert_int_equal(filters_query(f, b->keys, in), in);
    const enum hspz_filter_kind kind = f->plan.spec.kind;
    if (kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF) {
        const enum hspz_filter_op out =
            kind == HSPZ_FILTER_TCF ? HSPZ_FILTER_DELETE : HSPZ_FILTER_DECREMENT;
        for (size_t left = in; left > 0; left -= left < step ? left : step) {
            const size_t count = left < step ? left : step;
            const struct hspz_filter_call call =
                filters_run(f, (struct hspz_filter_call){
                                   .op = out, .keys = b->keys + left - count, .count = count});
            assert_int_equal(call.yes_count, count);
            assert_int_equal(filters_query(f, b->keys, left - count), left - count);
        }
        assert_int_equal(filters_stats(f).entries, 0);
        assert_int_equal(filters_query(f, b->keys, in), 0);
    }
    return in;
}

/* ---- tcf ---- */

/* Keys of a first block, whose low halves run on in steps: tags differ as they do, or not at all.
 */
static void
keys_of_block(struct bench *b, const struct filters_subject *f, size_t n, uint64_t block,
              uint64_t low_step)
{
    const uint64_t blocks = f->plan.blocks;
    const uint64_t high =
        (uint64_t)(((unsigned __int128)block << 64) / blocks) + (UINT64_C(1) << 33);
    for (size_t i = 0; i < n; i++) {
        const uint64_t hash = (high & ~(uint64_t)UINT32_MAX) | (uint32_t)(i * low_step);
        b->keys[i] = filters_key(f, hash);
        assert_int_equal(hspz_tcf_block(hash, (uint32_t)blocks), block);
    }
}

static void
check_blocks_and_tags(struct bench *b)
{
    static const struct hspz_filter_spec specs[] = {
        {.kind = HSPZ_FILTER_TCF, .slots = 1 << 14, .seed = 1},
        {.kind = HSPZ_FILTER_TCF, .slots = 10000, .slot_bits = 8, .block_slots = 32},
        {.kind = HSPZ_FILTER_TCF, .slots = 10000, .slot_bits = 12, .block_slots = 64},
        {.kind = HSPZ_FILTER_TCF, .slots = 5000, .slot_bits = 32, .value_bits = 3},
    };
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        if (!filters_has(b->engine, HSPZ_FILTER_TCF)) {
            continue;
        }
        for (size_t step = 1; step <= 1000; step *= 10) {
            struct filters_subject f;
            filters_create(&f, b->engine, &specs[s]);
            const uint64_t pair = 2 * f.plan.spec.block_slots;
            /* One block and tag (the lowest bits choose no tag but of 32 bits): one pair of blocks,
             * then the backing table, whose every word is the same. */
            const bool one_tag = specs[s].slot_bits != 32;
            const size_t many = pair + f.plan.spare_slots + 100;
            keys_of_block(b, &f, many, f.plan.blocks / 2, one_tag ? 1 : 0);
            const size_t in = check_in_and_out(b, &f, many, step);
            assert_int_equal(in, many - 100);
            /* One block, all tags: the other blocks differ, and hold far more. */
            keys_of_block(b, &f, 1000, f.plan.blocks - 1, UINT32_MAX / 1000);
            assert_int_equal(check_in_and_out(b, &f, 1000, step), 1000);
            filters_destroy(&f);
        }
    }
}

static void
test_keys_of_one_block_or_tag_are_kept_or_refused(void **state)
{
    (void)state;
    each_engine(check_blocks_and_tags);
}

/* ---- quotient filters, Bloom filters ---- */

static void
check_quotients(struct bench *b)
{
    static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_GQF, HSPZ_FILTER_SQF,
                                                  HSPZ_FILTER_RSQF};
    for (size_t k = 0; k < 3; k++) {
        if (!filters_has(b->engine, kinds[k])) {
            continue;
        }
        for (size_t step = 30; step <= 3000; step *= 10) {
            const struct hspz_filter_spec spec = {
                .kind = kinds[k], .slots = 1 << 13, .slot_bits = 32};
            struct filters_subject f;
            filters_create(&f, b->engine, &spec);
            /* All of one quotient, the first, one amid, the last; the last has only the spare slots
             * to run on into. */
            for (uint64_t q = 0; q < spec.slots; q += (spec.slots - 1) / 2 + (q == 0 ? 0 : 1)) {
                const size_t n = q + 2 < spec.slots ? 1000 : f.plan.spare_slots;
                for (size_t i = 0; i < n; i++) {
                    b->keys[i] = filters_key(&f, q << (64 - f.plan.quotient_bits) | i << 19);
                }
                assert_int_equal(check_in_and_out(b, &f, n, step), n);
                if (kinds[k] != HSPZ_FILTER_GQF) {
                    filters_destroy(&f);
                    filters_create(&f, b->engine, &spec);
                }
            }
            /* More of the last than fit: refused, nothing lost. */
            for (size_t i = 0; i < 4000; i++) {
                b->keys[i] = filters_key(&f, UINT64_MAX - (i << 19));
            }
            const size_t in = check_in_and_out(b, &f, 4000, step);
            assert_true(in >= f.plan.spare_slots && in < 4000);
            filters_destroy(&f);
        }
    }
}

static void
test_keys_of_one_quotient_are_kept_or_refused(void **state)
{
    (void)state;
    each_engine(check_quotients);
}

/* Bits are set again and again, as keys come twice and share them: none is ever cleared. */
static void
check_bits(struct bench *b)
{
    for (int k = 0; k < 2; k++) {
        const struct hspz_filter_spec spec = {
            .kind = k == 0 ? HSPZ_FILTER_BLOOM : HSPZ_FILTER_BLOCKED, .slots = 1 << 12};
        if (!filters_has(b->engine, spec.kind)) {
            continue;
        }
        struct filters_subject f;
        filters_create(&f, b->engine, &spec);
        uint64_t used = 0;
        for (uint64_t round = 0; round < 5; round++) {
            random_keys(b, MANY, round / 2);
            for (size_t i = 0; i < MANY / 2 && round == 0; i++) {
                b->keys[i] = filters_key(&f, i); /* all of block 0 */
            }
            assert_int_equal(run(b, &f, HSPZ_FILTER_INSERT, MANY).yes_count, MANY);
            assert_int_equal(run(b, &f, HSPZ_FILTER_QUERY, MANY).yes_count, MANY);
            assert_true(filters_stats(&f).used >= used);
            used = filters_stats(&f).used;
        }
        assert_true(used > 4000);
        filters_destroy(&f);
    }
}

static void
test_bits_that_are_set_stay_set(void **state)
{
    (void)state;
    each_engine(check_bits);
}

/* ---- more than fits ---- */

static void
check_loads(struct bench *b)
{
    static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_TCF, HSPZ_FILTER_GQF, HSPZ_FILTER_SQF,
                                                  HSPZ_FILTER_RSQF};
    static const unsigned percents[] = {50, 80, 90, 95, 100, 105, 130};
    for (size_t k = 0; k < 4; k++) {
        if (!filters_has(b->engine, kinds[k])) {
            continue;
        }
        for (int step = 0; step < 3; step++) {
            const struct hspz_filter_spec spec = {
                .kind = kinds[k], .capacity = 7000, .slot_bits = 16, .seed = k};
            for (size_t p = 0; p < sizeof(percents) / sizeof(percents[0]); p++) {
                struct filters_subject f;
                filters_create(&f, b->engine, &spec);
                const size_t n = f.plan.full_slots * percents[p] / 100;
                random_keys(b, n, p);
                const size_t in = check_in_and_out(b, &f, n,
                                                   step == 0   ? 97
                                                   : step == 1 ? 1000
                                                               : MANY);
                assert_true(percents[p] <= 100 ? in == n : in >= f.plan.full_slots);
                assert_true(percents[p] <= 100 || in <= f.plan.spec.slots + f.plan.spare_slots);
                filters_destroy(&f);
            }
        }
    }
}

static void
test_every_load_keeps_what_it_took(void **state)
{
    (void)state;
    each_engine(check_loads);
}

static void
check_small(struct bench *b)
{
    for (int kind = 0; kind <= HSPZ_FILTER_GQF; kind++) {
        if (!filters_has(b->engine, (enum hspz_filter_kind)kind)) {
            continue;
        }
        for (size_t step = 1; step <= 400; step *= 400) {
            const struct hspz_filter_spec spec = {.kind = (enum hspz_filter_kind)kind,
                                                  .slots = 128};
            struct filters_subject f;
            filters_create(&f, b->engine, &spec);
            random_keys(b, 400, 17);
            const size_t in = check_in_and_out(b, &f, 400, step);
            assert_true(in >= f.plan.full_slots && in < 400);
            filters_destroy(&f);
        }
    }
}

static void
test_128_slots_refuse_what_they_cannot_hold(void **state)
{
    (void)state;
    each_engine(check_small);
}

/* ---- deletes ---- */

/* What was never inserted: as many are said to be there as the rate allows, each may cost one. */
static void
check_strangers(struct bench *b)
{
    static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_TCF, HSPZ_FILTER_GQF,
                                                  HSPZ_FILTER_SQF};
    static uint64_t members[MANY / 2];
    for (size_t k = 0; k < 3; k++) {
        if (!filters_has(b->engine, kinds[k])) {
            continue;
        }
        const struct hspz_filter_spec spec = {
            .kind = kinds[k], .capacity = MANY / 2, .slot_bits = 8, .seed = 5};
        struct filters_subject f;
        filters_create(&f, b->engine, &spec);
        random_keys(b, MANY / 2, 1);
        memcpy(members, b->keys, sizeof(members));
        assert_int_equal(run(b, &f, HSPZ_FILTER_INSERT, MANY / 2).yes_count, MANY / 2);
        const uint64_t entries = filters_stats(&f).entries;
        random_keys(b, MANY, 2);
        const uint64_t gone = run(b, &f, HSPZ_FILTER_DELETE, MANY).yes_count;
        const uint64_t left = filters_query(&f, members, MANY / 2);
        assert_true((double)gone <= filters_most(MANY * f.plan.expected_rate));
        assert_true(gone > 0 && left <= MANY / 2 && MANY / 2 - left <= 2 * gone + 2);
        assert_int_equal(filters_stats(&f).entries, entries - gone);
        filters_destroy(&f);
    }
}

static void
test_deletes_of_strangers_cost_no_more_than_the_rate(void **state)
{
    (void)state;
    each_engine(check_strangers);
}

/* Some stay while others are taken away and put back. */
static void
check_neighbours(struct bench *b)
{
    static uint64_t kept[8000];
    for (int kind = 0; kind <= HSPZ_FILTER_GQF; kind++) {
        if (!filters_has(b->engine, (enum hspz_filter_kind)kind)) {
            continue;
        }
        const struct hspz_filter_spec spec = {
            .kind = (enum hspz_filter_kind)kind, .slots = 1 << 14, .slot_bits = 16, .seed = 3};
        struct filters_subject f;
        filters_create(&f, b->engine, &spec);
        random_keys(b, 8000, 1);
        memcpy(kept, b->keys, sizeof(kept));
        assert_int_equal(run(b, &f, HSPZ_FILTER_INSERT, 8000).yes_count, 8000);
        for (uint64_t round = 0; round < 20; round++) {
            random_keys(b, 5100, 2 + round % 3);
            assert_int_equal(run(b, &f, HSPZ_FILTER_INSERT, 5100).yes_count, 5100);
            assert_int_equal(filters_query(&f, kept, 8000), 8000);
            assert_int_equal(
                run(b, &f, kind == HSPZ_FILTER_GQF ? HSPZ_FILTER_DECREMENT : HSPZ_FILTER_DELETE,
                    5100)
                    .yes_count,
                5100);
            assert_int_equal(filters_query(&f, kept, 8000), 8000);
        }
        assert_int_equal(filters_stats(&f).total, 8000);
        filters_destroy(&f);
    }
}

static void
test_keys_that_stay_outlive_those_that_go(void **state)
{
    (void)state;
    each_engine(check_neighbours);
}

/* ---- copies ---- */

static void
check_copies(struct bench *b)
{
    for (int kind = 0; kind <= HSPZ_FILTER_GQF; kind++) {
        if (!filters_has(b->engine, (enum hspz_filter_kind)kind)) {
            continue;
        }
        for (size_t step = 100; step <= 10000; step *= 100) {
            const struct hspz_filter_spec spec = {.kind = (enum hspz_filter_kind)kind,
                                                  .slots = 1 << 12};
            struct filters_subject f;
            filters_create(&f, b->engine, &spec);
            const uint64_t key = 42;
            uint64_t in = 0;
            for (size_t i = 0; i < 10000; i++) {
                b->keys[i] = key;
            }
            for (size_t at = 0; at < 10000; at += step) {
                in += run(b, &f, HSPZ_FILTER_INSERT, step).yes_count;
            }
            (void)run(b, &f, HSPZ_FILTER_COUNT, 1);
            assert_int_equal(b->found[0], in);
            if (kind == HSPZ_FILTER_GQF) {
                assert_int_equal(in, 10000);
                assert_true(filters_stats(&f).used <= 8);
            } else { /* a pair of blocks and the backing table */
                assert_int_equal(in, 2 * f.plan.spec.block_slots + f.plan.spare_slots);
            }
            random_keys(b, 1000, 6);
            assert_int_equal(run(b, &f, HSPZ_FILTER_INSERT, 1000).yes_count, 1000);
            assert_int_equal(filters_query(&f, b->keys, 1000), 1000);
            filters_destroy(&f);
        }
    }
}

static void
test_many_copies_of_one_key_leave_room_for_others(void **state)
{
    (void)state;
    each_engine(check_copies);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_one_block_or_tag_are_kept_or_refused),
        cmocka_unit_test(test_keys_of_one_quotient_are_kept_or_refused),
        cmocka_unit_test(test_bits_that_are_set_stay_set),
        cmocka_unit_test(test_every_load_keeps_what_it_took),
        cmocka_unit_test(test_128_slots_refuse_what_they_cannot_hold),
        cmocka_unit_test(test_deletes_of_strangers_cost_no_more_than_the_rate),
        cmocka_unit_test(test_keys_that_stay_outlive_those_that_go),
        cmocka_unit_test(test_many_copies_of_one_key_leave_room_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
