/* Quotient filters on a device against those of the CPU, bit for bit: their content depends on the
 * entries alone, and a call's answers on the order of its keys. */
#include "engine/cuda/filter.h"
#include "engine/filter_hash.h"
#include "tests/gpu/card_here.h"
#include "tests/gpu/filter_pair.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>

#define MEMORY (UINT64_C(1) << 30)

static void
check_stats(struct pair *pair)
{
    struct hspz_filter_stats stats[2];
    for (int i = 0; i < 2; i++) {
        pair->ops[i]->stats(pair->filter[i], &stats[i]);
    }
    assert_int_equal(stats[0].entries, stats[1].entries);
    assert_int_equal(stats[0].total, stats[1].total);
    assert_int_equal(stats[0].used, stats[1].used);
    assert_int_equal(stats[0].bytes, stats[1].bytes);
    assert_true(fabs(stats[0].load - stats[1].load) < 1e-12);
    assert_true(fabs(stats[0].rate - stats[1].rate) < 1e-12);
}

/* Whether the filter can do it. */
static bool
can(enum hspz_filter_kind kind, enum hspz_filter_op op)
{
    if (op == HSPZ_FILTER_COUNT || op == HSPZ_FILTER_DECREMENT) {
        return kind == HSPZ_FILTER_GQF;
    }
    return op != HSPZ_FILTER_DELETE || kind != HSPZ_FILTER_RSQF;
}

/* Runs a call on both and compares all they say; the device's number of yes. */
static uint64_t
run_equal(struct pair *pair, const struct hspz_filter_call *call)
{
    struct answers answers[2];
    run_both(pair, call, answers);
    const uint64_t yes = answers[0].call.yes_count;
    assert_int_equal(yes, answers[1].call.yes_count);
    assert_int_equal(answers[0].call.full, answers[1].call.full);
    assert_memory_equal(answers[0].yes, answers[1].yes, (call->count + 7) / 8);
    const bool finds = call->op == HSPZ_FILTER_QUERY || call->op == HSPZ_FILTER_COUNT ||
                       (call->op == HSPZ_FILTER_INSERT_IF_ABSENT && !answers[0].call.full);
    if (finds) {
        assert_memory_equal(answers[0].found, answers[1].found, call->count * sizeof(uint64_t));
    }
    free_answers(answers);
    return yes;
}

/* The key whose hash this is. */
static uint64_t
key_for(const struct pair *pair, uint64_t hash)
{
    return hspz_filter_unmix(hash) ^ hspz_filter_salt(pair->plan.spec.seed);
}

/* ---- mixes ---- */

enum keys { MIXED, FEW, SKEWED, EQUAL, KEYS };

static uint64_t
key_of(enum keys kind, uint64_t i, uint64_t *random)
{
    const uint64_t r = test_random(random);
    switch (kind) {
    case MIXED:
        return i % 16 == 0 ? i % 32 / 16 - 1 : r % 4 == 0 ? r : r % 5000;
    case FEW:
        return r % 40;
    case SKEWED: /* of half as many again each time */
        return (uint64_t)__builtin_ctzll(r | UINT64_C(1) << 40) * 7919;
    default:
        return 99;
    }
}

static uint64_t
count_for(uint64_t *random)
{
    const uint64_t r = test_random(random);
    switch (r % 8) {
    case 0:
        return 0;
    case 1:
        return r >> 8 & 0xffff;
    case 2:
        return r >> (r >> 3) % 61;
    case 3:
        return UINT64_MAX - (r >> 60);
    default:
        return 1 + (r >> 8) % 6;
    }
}

static const struct hspz_filter_spec specs[] = {
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 8},
    {.kind = HSPZ_FILTER_GQF, .slots = 64, .slot_bits = 8, .seed = 5},
    {.kind = HSPZ_FILTER_GQF, .slots = 2048, .slot_bits = 16, .seed = UINT64_MAX},
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 32, .value_bits = 7},
    {.kind = HSPZ_FILTER_GQF, .slots = 1024, .slot_bits = 8, .value_bits = 3},
    {.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 64},
    {.kind = HSPZ_FILTER_GQF, .slots = 512, .slot_bits = 64, .value_bits = 48},
    {.kind = HSPZ_FILTER_SQF, .slots = 4096, .slot_bits = 8},
    {.kind = HSPZ_FILTER_SQF, .slots = 1024, .slot_bits = 16},
    {.kind = HSPZ_FILTER_RSQF, .slots = 4096, .slot_bits = 8},
    {.kind = HSPZ_FILTER_RSQF, .slots = 256, .slot_bits = 32},
};

#define MOST 3000u

/* One call of a random kind. */
static void
random_call(struct pair *pair, uint64_t *keys, uint64_t *values, uint64_t *counts, uint64_t *random)
{
    static const enum hspz_filter_op ops[] = {
        HSPZ_FILTER_INSERT, HSPZ_FILTER_INSERT, HSPZ_FILTER_INSERT_IF_ABSENT, HSPZ_FILTER_QUERY,
        HSPZ_FILTER_COUNT,  HSPZ_FILTER_DELETE, HSPZ_FILTER_DECREMENT,
    };
    const struct hspz_filter_spec *spec = &pair->plan.spec;
    const uint64_t r = test_random(random);
    const enum hspz_filter_op op = ops[r % 7];
    if (!can(spec->kind, op)) {
        return;
    }
    const uint64_t most = spec->slots / 2 < MOST ? spec->slots / 2 : MOST;
    const size_t count = (r >> 8) % 5 == 0 ? (r >> 16) % 3 : (r >> 16) % most;
    const enum keys kind = (enum keys)((r >> 40) % KEYS);
    for (size_t i = 0; i < count; i++) {
        keys[i] = key_of(kind, i, random);
        values[i] = test_random(random) & ((UINT64_C(1) << spec->value_bits) - 1);
        values[i] = (r >> 50) % 2 == 0 ? values[i] : values[i] & 1;
        counts[i] = count_for(random);
    }
    const struct hspz_filter_call call = {.op = op,
                                          .keys = keys,
                                          .count = count,
                                          .values = (r >> 51) % 4 != 0 ? values : NULL,
                                          .counts = (r >> 53) % 3 == 0 ? counts : NULL};
    run_equal(pair, &call);
}

static void
test_any_calls_have_the_answers_and_bits_of_the_cpu(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t *keys = malloc(3 * MOST * sizeof(*keys)), random = 21;
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct pair pair = open_pair(engine, specs[s]);
        for (unsigned round = 0; round < (quick ? 8u : 60u); round++) {
            random_call(&pair, keys, keys + MOST, keys + 2 * (size_t)MOST, &random);
            check_images(&pair);
            check_stats(&pair);
        }
        close_pair(&pair);
    }
    free(keys);
    hspz_cuda_engine.close(&engine);
}

/* Batches that are small against the filter go into its slots in place. */
static void
test_small_batches_have_the_bits_of_the_cpu(void **state)
{
    const bool quick = *(const bool *)*state;
    static const struct hspz_filter_spec filled[] = {
        {.kind = HSPZ_FILTER_GQF, .slots = 16384, .slot_bits = 8},
        {.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 16, .value_bits = 5, .seed = 3},
        {.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 32},
        {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 64},
        {.kind = HSPZ_FILTER_RSQF, .slots = 16384, .slot_bits = 8},
        {.kind = HSPZ_FILTER_SQF, .slots = 8192, .slot_bits = 16},
    };
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t keys[1024], values[1024], counts[1024], random = 31;
    for (size_t s = 0; s < sizeof(filled) / sizeof(filled[0]); s++) {
        struct pair pair = open_pair(engine, filled[s]);
        const size_t count = filled[s].slots / 16;
        for (unsigned round = 0; round < (quick ? 8u : 40u); round++) {
            for (size_t i = 0; i < count; i++) {
                /* Of a fifth of the quotients in every third round: clusters and refusals. */
                const uint64_t r = test_random(&random);
                const uint64_t hash = round % 3 == 2 ? r >> 3 | r << 61 >> 61 << 40 : r;
                keys[i] = round % 4 == 1 ? r % 500 : key_for(&pair, hash);
                values[i] = r >> 20 & ((UINT64_C(1) << filled[s].value_bits) - 1);
                counts[i] = count_for(&random) >> (round % 2 == 0 ? 50 : 0);
            }
            const struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                                  .keys = keys,
                                                  .count = count,
                                                  .values = values,
                                                  .counts = round % 5 == 3 ? counts : NULL};
            run_equal(&pair, &call);
            check_images(&pair);
            check_stats(&pair);
        }
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* A thread a key, on device memory, with counts or without. */
static void
insert_points(struct pair *pair, const uint64_t *keys, const uint64_t *counts, uint64_t count)
{
    uint64_t *memory = NULL;
    struct hspz_cuda_filter_result result = {0, 0};
    assert_int_equal(cudaMalloc((void **)&memory, (2 * count + 2) * sizeof(*memory)), cudaSuccess);
    cudaMemcpy(memory, keys, count * sizeof(*keys), cudaMemcpyHostToDevice);
    cudaMemcpy(memory + count, counts != NULL ? counts : keys, count * sizeof(*keys),
               cudaMemcpyHostToDevice);
    cudaMemcpy(memory + 2 * count, &result, sizeof(result), cudaMemcpyHostToDevice);
    const struct hspz_cuda_filter_call call = {
        .op = HSPZ_FILTER_INSERT,
        .keys = memory,
        .count = count,
        .counts = counts != NULL ? memory + count : NULL,
        .result = (struct hspz_cuda_filter_result *)(memory + 2 * count),
        .way = HSPZ_CUDA_FILTER_POINT};
    assert_int_equal(hspz_cuda_filter_run(pair->filter[0], &call, NULL, NULL), HSPZ_OK);
    cudaMemcpy(&result, memory + 2 * count, sizeof(result), cudaMemcpyDeviceToHost);
    assert_int_equal(result.yes, count);
    assert_int_equal(result.refused, 0);
    cudaFree(memory);
    struct hspz_filter_call same = {
        .op = HSPZ_FILTER_INSERT, .keys = keys, .count = count, .counts = counts};
    assert_int_equal(pair->ops[1]->run(pair->filter[1], &same, NULL), HSPZ_OK);
}

static void
test_inserts_of_a_thread_a_key_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_GQF, HSPZ_FILTER_SQF};
    uint64_t keys[4000], counts[4000], random = 41;
    for (unsigned c = 0; c < 8; c++) {
        struct pair pair =
            open_pair(engine, (struct hspz_filter_spec){
                                  .kind = kinds[c % 2], .slots = 16384, .slot_bits = 8u << c / 2});
        for (unsigned round = 0; round < 4; round++) {
            for (size_t i = 0; i < 4000; i++) {
                keys[i] = test_random(&random) >> (i % 4 == 0 ? 58 : 0);
                counts[i] = test_random(&random) % 4;
            }
            insert_points(&pair, keys, round == 1 ? counts : NULL, 3600);
            check_images(&pair);
            check_stats(&pair);
        }
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* ---- limits ---- */

static void
test_a_full_filter_takes_the_keys_that_the_cpu_takes(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t keys[3000], values[3000], counts[3000], random = 3;
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct hspz_filter_spec spec = specs[s];
        spec.slots = spec.slots > 2048 ? 2048 : spec.slots;
        struct pair pair = open_pair(engine, spec);
        for (size_t i = 0; i < 3000; i++) {
            keys[i] = test_random(&random) >> (i % 3 == 0 ? 54 : 0);
            values[i] = test_random(&random) & ((UINT64_C(1) << spec.value_bits) - 1);
            counts[i] = 1 + test_random(&random) % 300;
        }
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = 3000, .values = values};
        assert_in_range(run_equal(&pair, &call), 1, 2999);
        check_images(&pair);
        call.op = HSPZ_FILTER_INSERT_IF_ABSENT;
        call.keys = keys + 100;
        call.count = 2900;
        run_equal(&pair, &call);
        check_images(&pair);
        call.op = HSPZ_FILTER_INSERT;
        call.counts = counts;
        run_equal(&pair, &call);
        call.op = HSPZ_FILTER_QUERY;
        run_equal(&pair, &call);
        if (can(spec.kind, HSPZ_FILTER_DELETE)) {
            call.op = HSPZ_FILTER_DELETE;
            assert_true(run_equal(&pair, &call) > 0);
        }
        check_images(&pair);
        check_stats(&pair);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_runs_of_one_quotient_reach_over_many_blocks(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    /* So many that offsets do not hold where the runs behind begin. */
    const size_t count = quick ? 3000 : 90000;
    struct pair pair = open_pair(
        engine,
        (struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 1 << 17, .slot_bits = 32});
    uint64_t *keys = malloc(count * sizeof(*keys)), random = 4;
    for (size_t i = 0; i < count; i++) {
        /* Most of quotient 1000, others of those behind. */
        const uint64_t quotient = i % 40 != 0 ? 1000 : 1000 + test_random(&random) % 20000;
        keys[i] = key_for(&pair, quotient << 47 | (uint64_t)i << 20);
    }
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = count};
    run_equal(&pair, &call);
    check_images(&pair);
    /* A look-up reads the whole run. */
    const size_t some = 300;
    call.op = HSPZ_FILTER_COUNT;
    call.count = some;
    call.keys = keys + count - some;
    assert_int_equal(run_equal(&pair, &call), some);
    call.op = HSPZ_FILTER_DELETE;
    run_equal(&pair, &call);
    check_images(&pair);
    call.op = HSPZ_FILTER_QUERY;
    call.keys -= some / 2;
    assert_int_equal(run_equal(&pair, &call), some / 2);
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

static void
test_one_key_that_is_almost_all_of_a_call(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    const size_t count = quick ? 20000 : 100000;
    uint64_t *keys = malloc(count * sizeof(*keys));
    for (size_t i = 0; i < count; i++) {
        keys[i] = i % 100 == 0 ? i : 7;
    }
    struct pair pair =
        open_pair(engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 8192});
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = count};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_equal(&pair, &call), count);
        check_images(&pair);
    }
    call.op = HSPZ_FILTER_DECREMENT;
    assert_int_equal(run_equal(&pair, &call), count);
    check_images(&pair);
    check_stats(&pair);
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* ---- content ---- */

static void
test_entries_are_listed_merged_and_grown_as_on_the_cpu(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t keys[1500], values[1500], random = 6;
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct hspz_filter_spec spec = specs[s];
        struct pair one = open_pair(engine, spec), other = open_pair(engine, spec);
        const size_t count = spec.slots / 4 < 1500 ? spec.slots / 4 : 1500;
        for (int p = 0; p < 2; p++) {
            for (size_t i = 0; i < count; i++) {
                keys[i] = test_random(&random) % (i % 2 == 0 ? UINT64_MAX : 50);
                values[i] = test_random(&random) & ((UINT64_C(1) << spec.value_bits) - 1);
            }
            const struct hspz_filter_call call = {
                .op = HSPZ_FILTER_INSERT, .keys = keys, .count = count, .values = values};
            run_equal(p == 0 ? &one : &other, &call);
        }
        for (int i = 0; i < 2; i++) {
            bool full = true;
            assert_int_equal(one.ops[i]->merge(one.filter[i], other.filter[i], NULL, &full, NULL),
                             HSPZ_OK);
            assert_false(full);
        }
        check_images(&one);
        check_stats(&one);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(one.ops[i]->grow(one.filter[i], 0, NULL), HSPZ_OK);
        }
        check_images(&one);
        check_stats(&one);
        const struct hspz_filter_call call = {
            .op = HSPZ_FILTER_QUERY, .keys = keys, .count = count};
        assert_int_equal(run_equal(&one, &call), count);
        /* A few at a time, and then all. */
        for (size_t capacity = 7; capacity < 10000; capacity *= 1000) {
            uint64_t cursors[2] = {0, 0};
            struct hspz_filter_entry *entries[2];
            size_t counts[2] = {0, 0}, all = 0;
            for (int i = 0; i < 2; i++) {
                entries[i] = malloc(capacity * sizeof(*entries[i]));
            }
            do {
                for (int i = 0; i < 2; i++) {
                    assert_int_equal(one.ops[i]->enumerate(one.filter[i], &cursors[i], entries[i],
                                                           capacity, &counts[i], NULL),
                                     HSPZ_OK);
                }
                assert_int_equal(counts[0], counts[1]);
                assert_memory_equal(entries[0], entries[1], counts[0] * sizeof(*entries[0]));
                all += counts[0];
            } while (counts[0] > 0);
            assert_true(all > 0);
            free(entries[0]);
            free(entries[1]);
        }
        close_pair(&one);
        close_pair(&other);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_content_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_GQF, .slots = 1024};
    struct pair one = open_pair(engine, spec), other = open_pair(engine, spec);
    uint64_t keys[1400], random = 9;
    for (size_t i = 0; i < 1400; i++) {
        keys[i] = test_random(&random);
    }
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 700};
    run_equal(&one, &call);
    call.keys = keys + 700;
    run_equal(&other, &call);
    for (int i = 0; i < 2; i++) {
        bool full = false;
        assert_int_equal(one.ops[i]->merge(one.filter[i], other.filter[i], NULL, &full, NULL),
                         HSPZ_OK);
        assert_true(full);
    }
    check_images(&one);
    check_stats(&one);
    call.op = HSPZ_FILTER_QUERY;
    call.keys = keys;
    assert_int_equal(run_equal(&one, &call), 700);
    close_pair(&one);
    close_pair(&other);
    hspz_cuda_engine.close(&engine);
}

static void
test_images_are_of_both_engines_and_checked(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct pair pair = open_pair(engine, specs[s]);
        const size_t count = specs[s].slots / 2;
        uint64_t *keys = malloc(count * sizeof(*keys)), random = 10 + s;
        for (size_t i = 0; i < count; i++) {
            keys[i] = test_random(&random) % (i % 2 == 0 ? UINT64_MAX : 100);
        }
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = count};
        run_equal(&pair, &call);
        struct hspz_filter_image image;
        assert_int_equal(pair.ops[1]->save(pair.filter[1], NULL, &image, NULL), HSPZ_OK);
        pair.ops[0]->destroy(&pair.filter[0]);
        assert_int_equal(pair.ops[0]->load(&pair.plan, &image, NULL, &pair.filter[0], NULL),
                         HSPZ_OK);
        check_images(&pair);
        check_stats(&pair);
        call.op = HSPZ_FILTER_QUERY;
        assert_int_equal(run_equal(&pair, &call), count);
        call.op = HSPZ_FILTER_INSERT;
        call.count = count / 2;
        run_equal(&pair, &call);
        check_images(&pair);
        struct hspz_filter *none = NULL;
        ((uint8_t *)image.arrays[2])[count / 16] ^= 4;
        assert_int_equal(pair.ops[0]->load(&pair.plan, &image, NULL, &none, NULL), HSPZ_E_BAD_FILE);
        assert_null(none);
        hspz_filter_image_fini(&image);
        free(keys);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

int
main(int argc, char **argv)
{
    const int without = status_without_card();
    if (without != 0) {
        return without;
    }
    bool quick = argc == 2 && strcmp(argv[1], "quick") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_any_calls_have_the_answers_and_bits_of_the_cpu, &quick),
        cmocka_unit_test_prestate(test_small_batches_have_the_bits_of_the_cpu, &quick),
        cmocka_unit_test(test_inserts_of_a_thread_a_key_have_the_bits_of_the_cpu),
        cmocka_unit_test(test_a_full_filter_takes_the_keys_that_the_cpu_takes),
        cmocka_unit_test_prestate(test_runs_of_one_quotient_reach_over_many_blocks, &quick),
        cmocka_unit_test_prestate(test_one_key_that_is_almost_all_of_a_call, &quick),
        cmocka_unit_test(test_entries_are_listed_merged_and_grown_as_on_the_cpu),
        cmocka_unit_test(test_content_that_does_not_fit_changes_nothing),
        cmocka_unit_test(test_images_are_of_both_engines_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
