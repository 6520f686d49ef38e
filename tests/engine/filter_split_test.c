/* A filter in parts is one filter: it answers as a whole one of as many slots, says the same of its
 * entries, and is saved, merged and grown as one. */
#include "engine/filter_split.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <unistd.h>

struct subject {
    const struct hspz_filter_ops *ops;
    struct hspz_filter_plan plan;
    struct hspz_filter *filter;
};

static struct subject
make(struct hspz_filter_spec spec, unsigned parts)
{
    struct subject s = {0};
    struct hspz_error err = {0};
    spec.parts = parts;
    if (hspz_filter_plan(&spec, 0, &s.plan, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    s.ops = hspz_filter_ops_of(&s.plan, hspz_cpu_filter(spec.kind));
    assert_int_equal(s.ops->create(&s.plan, &s.filter, &err), HSPZ_OK);
    return s;
}

static void
end(struct subject *s)
{
    s->ops->destroy(&s->filter);
    assert_null(s->filter);
}

static const struct hspz_filter_spec quotients[] = {
    {.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 8, .seed = 1},
    {.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 16, .value_bits = 5},
    {.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 64},
    {.kind = HSPZ_FILTER_SQF, .slots = 8192, .slot_bits = 8, .seed = 2},
    {.kind = HSPZ_FILTER_RSQF, .slots = 8192, .slot_bits = 16},
};
#define QUOTIENTS (sizeof(quotients) / sizeof(quotients[0]))
static const struct hspz_filter_spec others[] = {
    {.kind = HSPZ_FILTER_TCF, .slots = 4096},
    {.kind = HSPZ_FILTER_TCF, .slots = 4000, .slot_bits = 32, .value_bits = 9},
    {.kind = HSPZ_FILTER_TCF, .slots = 4096, .slot_bits = 12, .block_slots = 32},
    {.kind = HSPZ_FILTER_BLOOM, .capacity = 4000, .rate = 0.01},
    {.kind = HSPZ_FILTER_BLOCKED, .capacity = 4000, .rate = 0.001, .seed = 4},
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

enum { MOST = 700 };

/* A call of a subject, with all answers. */
struct said {
    struct hspz_filter_call call;
    uint8_t yes[MOST / 8 + 1];
    uint64_t found[MOST];
};

static void
ask(struct subject *s, struct hspz_filter_call call, struct said *out)
{
    memset(out, 0xaa, sizeof(*out));
    out->call = call;
    out->call.yes = out->yes;
    out->call.found = out->found;
    assert_int_equal(hspz_filter_run(s->ops, s->filter, &out->call, NULL), HSPZ_OK);
}

/* All entries, asked for in pieces. */
static struct hspz_filter_entry *
list(const struct subject *s, size_t piece, size_t *out_count)
{
    struct hspz_filter_entry *entries = malloc(20000 * sizeof(*entries));
    size_t n = 0, count = 1;
    for (uint64_t cursor = 0; count > 0; n += count) {
        assert_true(n + piece <= 20000);
        assert_int_equal(s->ops->enumerate(s->filter, &cursor, entries + n, piece, &count, NULL),
                         HSPZ_OK);
    }
    *out_count = n;
    return entries;
}

static void
check_same_entries(const struct subject *a, const struct subject *b, size_t least)
{
    size_t counts[2];
    struct hspz_filter_entry *const one = list(a, 37, &counts[0]);
    struct hspz_filter_entry *const other = list(b, 1000, &counts[1]);
    assert_int_equal(counts[0], counts[1]);
    assert_true(counts[0] >= least);
    assert_memory_equal(one, other, counts[0] * sizeof(*one));
    struct hspz_filter_stats stats[2];
    a->ops->stats(a->filter, &stats[0]);
    b->ops->stats(b->filter, &stats[1]);
    assert_int_equal(stats[0].entries, stats[1].entries);
    assert_int_equal(stats[0].total, stats[1].total);
    assert_int_equal(stats[0].used, stats[1].used);
    assert_true(stats[0].rate > stats[1].rate * 0.999 && stats[0].rate < stats[1].rate * 1.001);
    free(one);
    free(other);
}

/* Keys of a small universe, so that they come again. */
static void
fill(uint64_t keys[MOST], uint64_t numbers[MOST], uint64_t below, uint64_t *random)
{
    for (int i = 0; i < MOST; i++) {
        keys[i] = hspz_filter_mix(test_random(random) % 5000) * (i % 100 != 0) - (i % 200 == 0);
        numbers[i] = test_random(random) % below;
    }
}

static void
test_quotient_filters_answer_as_the_whole(void **state)
{
    (void)state;
    static struct said said[2];
    uint64_t keys[MOST], numbers[MOST], random = 3;
    for (size_t s = 0; s < QUOTIENTS; s++) {
        for (unsigned parts = 2; parts <= HSPZ_FILTER_PARTS_MAX; parts *= 2) {
            struct subject subjects[] = {make(quotients[s], 1), make(quotients[s], parts)};
            assert_int_equal(subjects[1].plan.spec.slots, subjects[0].plan.spec.slots);
            assert_int_equal(subjects[1].plan.remainder_bits, subjects[0].plan.remainder_bits);
            for (int c = 0; c < 60; c++) {
                const bool gqf = quotients[s].kind == HSPZ_FILTER_GQF;
                const enum hspz_filter_op op = (enum hspz_filter_op)(c % HSPZ_FILTER_OPS);
                const bool values =
                    quotients[s].value_bits > 0 && op <= HSPZ_FILTER_INSERT_IF_ABSENT;
                struct hspz_filter_call call = {.op = op, .keys = keys, .count = 1 + (size_t)c * 9};
                if ((op == HSPZ_FILTER_COUNT || op == HSPZ_FILTER_DECREMENT) && !gqf) {
                    continue;
                }
                if (op == HSPZ_FILTER_DELETE && quotients[s].kind == HSPZ_FILTER_RSQF) {
                    continue;
                }
                fill(keys, numbers, values ? 32 : 4, &random);
                call.values = values ? numbers : NULL;
                call.counts =
                    gqf && c % 4 == 0 && (op == HSPZ_FILTER_INSERT || op == HSPZ_FILTER_DECREMENT)
                        ? numbers
                        : NULL;
                for (int i = 0; i < 2; i++) {
                    ask(&subjects[i], call, &said[i]);
                    assert_false(said[i].call.full);
                }
                assert_int_equal(said[0].call.yes_count, said[1].call.yes_count);
                assert_memory_equal(said[0].yes, said[1].yes, sizeof(said[0].yes));
                assert_memory_equal(said[0].found, said[1].found, sizeof(said[0].found));
            }
            check_same_entries(&subjects[0], &subjects[1], 1000);
            end(&subjects[0]);
            end(&subjects[1]);
        }
    }
}

static void
test_other_filters_find_what_went_in_and_little_else(void **state)
{
    (void)state;
    enum { N = 3400, ABSENT = 400000 };
    for (size_t s = 0; s < OTHERS; s++) {
        for (unsigned parts = 2; parts <= 8; parts *= 2) {
            struct subject f = make(others[s], parts);
            uint64_t random = 5, keys[MOST], values[MOST], found = 0;
            struct said said;
            for (int at = 0; at < N; at += MOST / 7) {
                for (int i = 0; i < MOST / 7; i++) {
                    keys[i] = test_random(&random);
                    values[i] = (keys[i] & 511) * (others[s].value_bits > 0);
                }
                ask(&f,
                    (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT,
                                              .keys = keys,
                                              .values = values,
                                              .count = MOST / 7},
                    &said);
                assert_int_equal(said.call.yes_count, MOST / 7);
            }
            random = 5;
            for (int i = 0; i < N; i++) {
                const uint64_t key = test_random(&random);
                ask(&f,
                    (struct hspz_filter_call){.op = HSPZ_FILTER_QUERY, .keys = &key, .count = 1},
                    &said);
                assert_int_equal(said.call.yes_count, 1);
                if (others[s].value_bits > 0) {
                    assert_int_equal(said.found[0], key & 511);
                }
            }
            for (int at = 0; at < ABSENT; at += MOST) {
                for (int i = 0; i < MOST; i++) {
                    keys[i] = test_random(&random);
                }
                ask(&f,
                    (struct hspz_filter_call){.op = HSPZ_FILTER_QUERY, .keys = keys, .count = MOST},
                    &said);
                found += said.call.yes_count;
            }
            struct hspz_filter_stats stats;
            f.ops->stats(f.filter, &stats);
            assert_int_equal(stats.entries,
                             N / (MOST / 7) * (MOST / 7) + (N % (MOST / 7) > 0) * (MOST / 7));
            const double expected = stats.rate * ABSENT;
            assert_true((double)found < 1.2 * expected + 20);
            assert_true(others[s].slot_bits == 32 || (double)found > 0.7 * expected);
            end(&f);
        }
    }
}

/* Parts get more or fewer of the keys; a capacity is of the whole. */
static void
test_a_capacity_is_held(void **state)
{
    (void)state;
    enum { N = 20000 };
    static uint64_t keys[N];
    for (int kind = 0; kind < HSPZ_FILTER_COUNTER; kind++) {
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct subject f = make((struct hspz_filter_spec){.kind = (enum hspz_filter_kind)kind,
                                                              .capacity = N,
                                                              .seed = seed},
                                    16);
            uint64_t random = 7 + seed;
            for (int i = 0; i < N; i++) {
                keys[i] = test_random(&random);
            }
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = N};
            assert_int_equal(f.ops->run(f.filter, &call, NULL), HSPZ_OK);
            assert_int_equal(call.yes_count, N);
            assert_false(call.full);
            end(&f);
        }
    }
}

static void
test_a_full_part_refuses_its_keys_alone(void **state)
{
    (void)state;
    struct subject f =
        make((struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 512, .slot_bits = 16}, 4);
    uint64_t keys[MOST];
    /* 150 of one part, of 128 slots, and then some of another. */
    for (uint64_t i = 0; i < 200; i++) {
        const uint64_t part = i < 150 ? 1 : 3;
        keys[i] = hspz_filter_unmix(part << 62 | i << 40) ^ hspz_filter_salt(0);
    }
    static struct said said;
    ask(&f, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 200}, &said);
    assert_true(said.call.full);
    assert_int_equal(said.call.yes_count, 121 + 50);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(said.yes[i / 8] >> i % 8 & 1, i < 121 || i >= 150);
    }
    end(&f);
}

static void
test_merging_and_growing_are_those_of_the_whole(void **state)
{
    (void)state;
    uint64_t keys[MOST], numbers[MOST], random = 9;
    for (size_t s = 0; s < QUOTIENTS; s++) {
        struct subject a[] = {make(quotients[s], 1), make(quotients[s], 4)};
        struct subject b[] = {make(quotients[s], 1), make(quotients[s], 4)};
        static struct said said;
        fill(keys, numbers, 4, &random);
        for (int i = 0; i < 2; i++) {
            ask(&a[i],
                (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 500},
                &said);
            ask(&b[i],
                (struct hspz_filter_call){
                    .op = HSPZ_FILTER_INSERT, .keys = keys + 300, .count = MOST - 300},
                &said);
            bool full = true;
            assert_int_equal(a[i].ops->merge(a[i].filter, b[i].filter, NULL, &full, NULL), HSPZ_OK);
            assert_false(full);
        }
        check_same_entries(&a[0], &a[1], 500);
        if (quotients[s].slot_bits < 64) {
            for (int i = 0; i < 2; i++) {
                assert_int_equal(a[i].ops->grow(a[i].filter, 0, NULL), HSPZ_OK);
                assert_int_equal(a[i].ops->plan(a[i].filter)->spec.slots, 16384);
            }
            check_same_entries(&a[0], &a[1], 500);
        }
        bool full;
        assert_int_equal(a[1].ops->merge(a[1].filter, b[1].filter, NULL, &full, NULL), HSPZ_OK);
        struct subject other = make(quotients[s], 2);
        assert_int_equal(a[1].ops->merge(a[1].filter, other.filter, NULL, &full, NULL),
                         HSPZ_E_BAD_REQUEST);
        end(&other);
        for (int i = 0; i < 2; i++) {
            end(&a[i]);
            end(&b[i]);
        }
    }
}

/* The last part has no room: the others stay as they are, too. */
static void
test_a_merge_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_GQF, .slots = 512, .slot_bits = 16};
    struct subject a = make(spec, 4), b = make(spec, 4), before = make(spec, 4);
    uint64_t keys[MOST];
    static struct said said;
    for (uint64_t i = 0; i < 200; i++) {
        keys[i] =
            hspz_filter_unmix((i < 50 ? 0 : UINT64_C(3)) << 62 | i << 40) ^ hspz_filter_salt(0);
    }
    const struct hspz_filter_call late = {.op = HSPZ_FILTER_INSERT, .keys = keys + 40, .count = 80};
    ask(&a, late, &said);
    ask(&before, late, &said);
    ask(&b, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 40}, &said);
    ask(&b, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys + 120, .count = 80},
        &said);
    bool full = false;
    assert_int_equal(a.ops->merge(a.filter, b.filter, NULL, &full, NULL), HSPZ_OK);
    assert_true(full);
    check_same_entries(&a, &before, 80);
    end(&a);
    end(&b);
    end(&before);
}

static void
test_nonsense_is_refused(void **state)
{
    (void)state;
    struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_TCF, .slots = 4096};
    struct hspz_filter_plan plan;
    for (unsigned parts = 0; parts < 40; parts++) {
        struct hspz_error err = {0};
        const bool good =
            parts == 0 || parts == 1 || parts == 2 || parts == 4 || parts == 8 || parts == 16;
        spec.parts = parts;
        assert_int_equal(hspz_filter_plan(&spec, 0, &plan, &err),
                         good ? HSPZ_OK : HSPZ_E_BAD_REQUEST);
        assert_true(good || strstr(err.text, "parts is ") != NULL);
    }
    spec = (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 100, .parts = 2};
    assert_int_equal(hspz_filter_plan(&spec, 0, &plan, NULL), HSPZ_E_BAD_REQUEST);
    spec = (struct hspz_filter_spec){
        .kind = HSPZ_FILTER_GQF, .slots = UINT64_C(1) << 36, .slot_bits = 8, .parts = 16};
    assert_int_equal(hspz_filter_plan(&spec, 0, &plan, NULL), HSPZ_OK);
    assert_int_equal(plan.quotient_bits, 36);
}

/* ---- files, memory ---- */

static enum hspz_status
read_back(const char *path, struct subject *out)
{
    struct hspz_filter_image image;
    enum hspz_status status = hspz_filter_read(path, 1 << 20, NULL, &out->plan, &image, NULL);
    if (status == HSPZ_OK) {
        out->ops = hspz_filter_ops_of(&out->plan, hspz_cpu_filter(out->plan.spec.kind));
        status = out->ops->load(&out->plan, &image, NULL, &out->filter, NULL);
        hspz_filter_image_fini(&image);
    }
    return status;
}

static struct subject
filled(struct hspz_filter_spec spec, unsigned parts)
{
    uint64_t keys[60], random = 12;
    struct subject f = make(spec, parts);
    static struct said said;
    for (int i = 0; i < 60; i++) {
        keys[i] = test_random(&random);
    }
    ask(&f, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 60}, &said);
    return f;
}

static void
test_files_give_it_again_and_damage_is_refused(void **state)
{
    (void)state;
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "f");
    for (size_t s = 0; s < QUOTIENTS + OTHERS; s++) {
        struct hspz_filter_spec spec = s < QUOTIENTS ? quotients[s] : others[s - QUOTIENTS];
        spec.slots = spec.slots != 0 ? 256 : 0;
        spec.capacity = spec.capacity != 0 ? 60 : 0;
        struct subject f = filled(spec, 4), again = {0}, none = {0};
        assert_int_equal(hspz_filter_write(f.ops, f.filter, path, NULL, NULL), HSPZ_OK);
        assert_int_equal(read_back(path, &again), HSPZ_OK);
        struct hspz_filter_image images[2];
        assert_int_equal(f.ops->save(f.filter, NULL, &images[0], NULL), HSPZ_OK);
        assert_int_equal(again.ops->save(again.filter, NULL, &images[1], NULL), HSPZ_OK);
        assert_int_equal(images[0].entries, images[1].entries);
        assert_true(images[0].entries >= 58);
        for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
            assert_int_equal(images[0].bytes[i], images[1].bytes[i]);
            assert_memory_equal(images[0].arrays[i], images[1].arrays[i], images[0].bytes[i]);
        }
        /* Numbers of a part that are not those of its content. */
        images[1].entries++;
        ((uint64_t *)(void *)((char *)images[1].arrays[0] + images[1].bytes[0]))[-2]++;
        const enum hspz_status status =
            again.ops->load(&again.plan, &images[1], NULL, &none.filter, NULL);
        assert_int_equal(status, spec.kind == HSPZ_FILTER_TCF ? HSPZ_E_BAD_FILE : HSPZ_OK);
        again.ops->destroy(&none.filter);
        images[1].bytes[0] -= 8;
        assert_int_equal(again.ops->load(&again.plan, &images[1], NULL, &none.filter, NULL),
                         HSPZ_E_BAD_FILE);
        hspz_filter_image_fini(&images[0]);
        hspz_filter_image_fini(&images[1]);
        size_t len;
        uint8_t *bytes = test_read_file(path, &len);
        for (size_t at = 0; at < len; at += 1 + at / 31) {
            FILE *file = fopen(path, "wb");
            assert_int_equal(fwrite(bytes, 1, at, file), at);
            assert_int_equal(fclose(file), 0);
            assert_int_equal(read_back(path, &none), HSPZ_E_BAD_FILE);
        }
        free(bytes);
        end(&f);
        end(&again);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

static void
test_every_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t s = 0; s < QUOTIENTS; s++) {
        struct hspz_filter_spec spec = quotients[s];
        spec.slots = 256;
        struct subject f = filled(spec, 4), other = filled(spec, 4);
        uint64_t keys[20] = {0};
        bool done = false;
        for (int nth = 1; !done && nth < 400; nth++) {
            struct hspz_filter *made = NULL, *loaded = NULL;
            struct hspz_filter_image image = {0};
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 20};
            bool full;
            failing_malloc_arm(nth);
            enum hspz_status status = f.ops->copy(f.filter, &made, NULL);
            if (status == HSPZ_OK) {
                status = f.ops->run(made, &call, NULL);
            }
            if (status == HSPZ_OK) {
                status = f.ops->merge(made, other.filter, NULL, &full, NULL);
            }
            if (status == HSPZ_OK && spec.slot_bits < 64) {
                status = f.ops->grow(made, 0, NULL);
            }
            if (status == HSPZ_OK) {
                status = f.ops->save(made, NULL, &image, NULL);
            }
            if (status == HSPZ_OK) {
                status = f.ops->load(f.ops->plan(made), &image, NULL, &loaded, NULL);
            }
            done = status == HSPZ_OK;
            (void)failing_malloc_disarm();
            assert_true(done || status == HSPZ_E_OUT_OF_MEMORY);
            hspz_filter_image_fini(&image);
            f.ops->destroy(&made);
            f.ops->destroy(&loaded);
        }
        assert_true(done);
        end(&f);
        end(&other);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quotient_filters_answer_as_the_whole),
        cmocka_unit_test(test_other_filters_find_what_went_in_and_little_else),
        cmocka_unit_test(test_a_capacity_is_held),
        cmocka_unit_test(test_a_full_part_refuses_its_keys_alone),
        cmocka_unit_test(test_merging_and_growing_are_those_of_the_whole),
        cmocka_unit_test(test_a_merge_that_does_not_fit_changes_nothing),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_files_give_it_again_and_damage_is_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
