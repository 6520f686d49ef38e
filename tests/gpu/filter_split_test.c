/* Filters in parts on devices against those of the CPU: the same answers, and the same content
 * where the calls determine it. On as many devices as there are; on the software card three. */
#include "engine/cuda/filter.h"
#include "engine/filter_split.h"
#include "tests/gpu/card_here.h"
#include "tests/gpu/filter_pair.h"
#include "tests/support/test.h"

#include <stdlib.h>

#define MEMORY (UINT64_C(1) << 30)

static struct hspz_engine *
open_all(void)
{
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    const struct hspz_engine_config config = {.cuda = {.memory_bytes = MEMORY}};
    if (hspz_cuda_engine.open(&config, &engine, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return engine;
}

static const struct hspz_filter_spec specs[] = {
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 8, .parts = 4},
    {.kind = HSPZ_FILTER_GQF,
     .slots = 4096,
     .slot_bits = 16,
     .value_bits = 5,
     .parts = 2,
     .seed = 3},
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 64, .parts = 8},
    {.kind = HSPZ_FILTER_SQF, .slots = 4096, .slot_bits = 8, .parts = 2, .seed = 5},
    {.kind = HSPZ_FILTER_RSQF, .slots = 4096, .slot_bits = 16, .parts = 16},
    {.kind = HSPZ_FILTER_BLOOM, .capacity = 3000, .parts = 4},
    {.kind = HSPZ_FILTER_BLOCKED, .capacity = 3000, .parts = 2, .seed = 9},
    {.kind = HSPZ_FILTER_TCF, .slots = 4096, .slot_bits = 32, .parts = 4},
    {.kind = HSPZ_FILTER_TCF, .slots = 4096, .slot_bits = 32, .value_bits = 7, .parts = 2},
};
#define SPECS (sizeof(specs) / sizeof(specs[0]))

static bool
can(enum hspz_filter_kind kind, enum hspz_filter_op op)
{
    switch (op) {
    case HSPZ_FILTER_COUNT:
        return kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF;
    case HSPZ_FILTER_DELETE:
        return kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_SQF;
    case HSPZ_FILTER_DECREMENT:
        return kind == HSPZ_FILTER_GQF;
    default:
        return true;
    }
}

/* Whose keys of a call are not taken one after the other. */
static bool
all_at_once(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_BLOOM || kind == HSPZ_FILTER_BLOCKED;
}

static void
check_entries(const struct pair *pair)
{
    struct hspz_filter_stats stats[2];
    for (int i = 0; i < 2; i++) {
        pair->ops[i]->stats(pair->filter[i], &stats[i]);
    }
    assert_int_equal(stats[0].entries, stats[1].entries);
    assert_int_equal(stats[0].total, stats[1].total);
    assert_true(stats[0].entries > 0);
    if (pair->plan.quotient_bits == 0) {
        return;
    }
    struct hspz_filter_entry entries[2][301];
    size_t counts[2] = {1, 1}, all = 0;
    uint64_t cursors[2] = {0};
    while (counts[0] > 0) {
        /* Pieces end in the same places whatever they are made of. */
        for (int i = 0; i < 2; i++) {
            size_t got = 1;
            counts[i] = 0;
            while (counts[i] < 301 && got > 0) {
                assert_int_equal(pair->ops[i]->enumerate(pair->filter[i], &cursors[i],
                                                         entries[i] + counts[i], 301 - counts[i],
                                                         &got, NULL),
                                 HSPZ_OK);
                counts[i] += got;
            }
        }
        assert_int_equal(counts[0], counts[1]);
        assert_memory_equal(entries[0], entries[1], counts[0] * sizeof(entries[0][0]));
        all += counts[0];
    }
    assert_int_equal(all, stats[0].entries);
}

static void
test_parts_answer_as_those_of_the_cpu(void **state)
{
    (void)state;
    enum { MOST = 900 };
    struct hspz_engine *engine = open_all();
    uint64_t random = 21;
    for (size_t s = 0; s < SPECS; s++) {
        struct pair pair = open_pair(engine, specs[s]);
        uint64_t keys[MOST], numbers[MOST];
        const bool once = all_at_once(specs[s].kind);
        for (int c = 0; c < 24; c++) {
            const enum hspz_filter_op op = (enum hspz_filter_op)(c % HSPZ_FILTER_OPS);
            const size_t count = c == 7 ? 0 : 1 + test_random(&random) % (c % 4 == 0 ? MOST : 40);
            if (!can(specs[s].kind, op)) {
                continue;
            }
            for (size_t i = 0; i < count; i++) {
                const uint64_t n = once ? (uint64_t)c / 3 * 1000 + i : test_random(&random) % 2000;
                keys[i] = i == 3 ? UINT64_MAX : hspz_filter_mix(n);
                numbers[i] = keys[i] % 32;
            }
            const bool values = specs[s].value_bits > 0 && op <= HSPZ_FILTER_INSERT_IF_ABSENT;
            const bool counts = specs[s].kind == HSPZ_FILTER_GQF && c % 4 == 0 &&
                                (op == HSPZ_FILTER_INSERT || op == HSPZ_FILTER_DECREMENT);
            const struct hspz_filter_call call = {.op = op,
                                                  .keys = keys,
                                                  .count = count,
                                                  .values = values ? numbers : NULL,
                                                  .counts = counts ? numbers : NULL};
            struct answers answers[2];
            run_both(&pair, &call, answers);
            assert_int_equal(answers[0].call.yes_count, answers[1].call.yes_count);
            assert_int_equal(answers[0].call.full, answers[1].call.full);
            assert_memory_equal(answers[0].yes, answers[1].yes, (count + 7) / 8);
            if (op == HSPZ_FILTER_COUNT || (values && op == HSPZ_FILTER_INSERT_IF_ABSENT)) {
                assert_memory_equal(answers[0].found, answers[1].found, count * sizeof(uint64_t));
            }
            free_answers(answers);
        }
        check_entries(&pair);
        if (specs[s].kind != HSPZ_FILTER_TCF) {
            check_images(&pair);
        }
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* Saved by one and loaded by the other, copied, merged, grown. */
static void
test_parts_are_kept_as_one_filter(void **state)
{
    (void)state;
    enum { N = 600 };
    struct hspz_engine *engine = open_all();
    for (size_t s = 0; s < SPECS; s++) {
        struct pair a = open_pair(engine, specs[s]), b = open_pair(engine, specs[s]);
        uint64_t keys[2 * N], random = 4;
        struct answers answers[2];
        for (int i = 0; i < 2 * N; i++) {
            keys[i] = test_random(&random);
        }
        const struct hspz_filter_call first = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = N};
        const struct hspz_filter_call second = {
            .op = HSPZ_FILTER_INSERT, .keys = keys + N, .count = N};
        run_both(&a, &first, answers);
        free_answers(answers);
        run_both(&b, &second, answers);
        free_answers(answers);
        size_t in = N;
        if (a.ops[0]->merge(a.filter[0], b.filter[0], NULL, &(bool){false}, NULL) == HSPZ_OK) {
            bool full = true;
            assert_int_equal(a.ops[1]->merge(a.filter[1], b.filter[1], NULL, &full, NULL), HSPZ_OK);
            assert_false(full);
            in = 2 * N;
        } else {
            assert_int_equal(specs[s].kind, HSPZ_FILTER_TCF);
        }
        for (int i = 0; i < 2 && a.plan.quotient_bits > 0 && specs[s].slot_bits < 64; i++) {
            assert_int_equal(a.ops[i]->grow(a.filter[i], 0, NULL), HSPZ_OK);
        }
        check_entries(&a);
        for (int i = 0; i < 2; i++) {
            struct hspz_filter_plan plan = *a.ops[i]->plan(a.filter[i]);
            struct hspz_filter_image image;
            struct hspz_filter *other = NULL;
            const struct hspz_filter_ops *ops = hspz_filter_ops_of(
                &plan, i == 0 ? hspz_cpu_filter(plan.spec.kind) : hspz_cuda_filter(plan.spec.kind));
            assert_int_equal(a.ops[i]->save(a.filter[i], NULL, &image, NULL), HSPZ_OK);
            assert_int_equal(ops->load(&plan, &image, NULL, &other, NULL), HSPZ_OK);
            hspz_filter_image_fini(&image);
            struct hspz_filter_call query = {.op = HSPZ_FILTER_QUERY, .keys = keys, .count = in};
            assert_int_equal(ops->run(other, &query, NULL), HSPZ_OK);
            assert_int_equal(query.yes_count, in);
            ops->destroy(&other);
        }
        close_pair(&a);
        close_pair(&b);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_keys_in_device_memory_are_shared_out(void **state)
{
    (void)state;
    enum { N = 3000 };
    struct hspz_engine *engine = open_all();
    for (size_t s = 0; s < SPECS; s++) {
        struct pair pair = open_pair(engine, specs[s]);
        struct hspz_filter *const *parts = hspz_filter_split_parts(pair.filter[0]);
        static uint64_t keys[N];
        uint64_t random = 6;
        uint8_t *memory = NULL;
        struct hspz_cuda_filter_result result = {1, 2};
        for (int i = 0; i < N; i++) {
            keys[i] = test_random(&random);
        }
        const size_t yes_at = sizeof(keys) + sizeof(result), bytes = yes_at + N / 8 + 4;
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        assert_int_equal(cudaMalloc((void **)&memory, bytes), cudaSuccess);
        cudaMemcpy(memory, keys, sizeof(keys), cudaMemcpyHostToDevice);
        cudaMemcpy(memory + sizeof(keys), &result, sizeof(result), cudaMemcpyHostToDevice);
        struct hspz_cuda_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                             .keys = (const uint64_t *)(void *)memory,
                                             .count = 2000,
                                             .result = (void *)(memory + sizeof(keys))};
        assert_int_equal(hspz_cuda_filter_run_split(parts, specs[s].parts, &call, NULL, NULL),
                         HSPZ_OK);
        call.op = HSPZ_FILTER_QUERY;
        call.count = N;
        call.yes = (uint32_t *)(void *)(memory + yes_at);
        assert_int_equal(hspz_cuda_filter_run_split(parts, specs[s].parts, &call, NULL, NULL),
                         HSPZ_OK);
        uint8_t yes[N / 8];
        unsigned found = 0;
        cudaMemcpy(yes, memory + yes_at, sizeof(yes), cudaMemcpyDeviceToHost);
        cudaMemcpy(&result, memory + sizeof(keys), sizeof(result), cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < N; i++) {
            assert_true(i >= 2000 || bit(yes, i));
            found += bit(yes, i);
        }
        assert_int_equal(result.yes, 1 + 2000 + found);
        assert_int_equal(result.refused, 2);
        assert_true(found < 2200);
        cudaFree(memory);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

int
main(void)
{
    setenv("SOFT_CARD_DEVICES", "3", 0);
    const int without = status_without_card();
    if (without != 0) {
        return without;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_answer_as_those_of_the_cpu),
        cmocka_unit_test(test_parts_are_kept_as_one_filter),
        cmocka_unit_test(test_keys_in_device_memory_are_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
