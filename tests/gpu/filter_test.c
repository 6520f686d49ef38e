/* Filters on a device against those of the CPU: the same answers to any calls, and the same content
 * where the calls determine it. */
#include "engine/cuda/filter.h"
#include "engine/engine.h"
#include "engine/filter_hash.h"
#include "tests/gpu/card_here.h"
#include "tests/gpu/filter_pair.h"
#include "tests/gpu/filter_user.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static void
must(cudaError_t error)
{
    if (error != cudaSuccess) {
        fail_msg("%s", cudaGetErrorString(error));
    }
}

static void *
to_device(const void *from, size_t bytes)
{
    void *made = NULL;
    must(cudaMalloc(&made, bytes + 1));
    must(cudaMemcpy(made, from, bytes, cudaMemcpyHostToDevice));
    return made;
}

/* An insert or delete of keys on the device, one way; `values` and `yes` may be NULL. */
static struct hspz_cuda_filter_result
run_on_device(struct pair *pair, enum hspz_filter_op op, const uint64_t *keys,
              const uint64_t *values, size_t count, enum hspz_cuda_filter_way way, uint8_t *yes)
{
    struct hspz_error err = {0};
    struct hspz_cuda_filter_result result = {0};
    const size_t yes_bytes = (count + 31) / 32 * 4;
    uint8_t *rubbish = malloc(yes_bytes + 1);
    memset(rubbish, 0xaa, yes_bytes);
    uint64_t *on_device = to_device(keys, count * sizeof(*keys));
    uint64_t *values_on_device = to_device(values != NULL ? values : keys, count * sizeof(*keys));
    struct hspz_cuda_filter_result *results = to_device(&result, sizeof(result));
    uint32_t *bits = to_device(rubbish, yes_bytes);
    const struct hspz_cuda_filter_call call = {.op = op,
                                               .keys = on_device,
                                               .values = values != NULL ? values_on_device : NULL,
                                               .count = count,
                                               .yes = yes != NULL ? bits : NULL,
                                               .result = results,
                                               .way = way};
    cudaStream_t stream;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (hspz_cuda_filter_run(pair->filter[0], &call, stream, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    must(cudaStreamSynchronize(stream));
    must(cudaMemcpy(&result, results, sizeof(result), cudaMemcpyDeviceToHost));
    if (yes != NULL) {
        must(cudaMemcpy(yes, bits, (count + 7) / 8, cudaMemcpyDeviceToHost));
    }
    must(cudaStreamDestroy(stream));
    must(cudaFree(on_device));
    must(cudaFree(values_on_device));
    must(cudaFree(results));
    must(cudaFree(bits));
    free(rubbish);
    return result;
}

/* ---- bloom, blocked ---- */

static void
check_bloom_stats(struct pair *pair)
{
    struct hspz_filter_stats stats[2];
    for (int i = 0; i < 2; i++) {
        pair->ops[i]->stats(pair->filter[i], &stats[i]);
    }
    assert_int_equal(stats[0].entries, stats[1].entries);
    assert_int_equal(stats[0].used, stats[1].used);
    assert_int_equal(stats[0].bytes, stats[1].bytes);
    assert_true(stats[0].used > 0);
    assert_true(fabs(stats[0].load - stats[1].load) < 1e-12);
    assert_true(fabs(stats[0].rate - stats[1].rate) < 1e-9);
}

static void
test_bloom_filters_have_the_bits_of_the_cpu(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    uint64_t random = 11;
    for (unsigned c = 0; c < (quick ? 8u : 80u); c++) {
        const struct hspz_filter_spec spec = {
            .kind = c % 2 == 0 ? HSPZ_FILTER_BLOOM : HSPZ_FILTER_BLOCKED,
            .slots = 64 + test_random(&random) % (quick ? 5000 : 200000),
            .hashes = 1 + c / 2 % 16,
            .seed = test_random(&random)};
        struct pair pair = open_pair(engine, spec);
        const size_t most = quick ? 700 : 9000;
        uint64_t *keys = malloc(most * sizeof(*keys));
        for (unsigned round = 0; round < 6; round++) {
            static const enum hspz_filter_op ops[] = {HSPZ_FILTER_INSERT, HSPZ_FILTER_QUERY,
                                                      HSPZ_FILTER_QUERY};
            const size_t count = round == 4 ? 0 : 1 + test_random(&random) % most;
            for (size_t i = 0; i < count; i++) {
                keys[i] = test_random(&random) % 4 == 0 ? (i % 2) - 1u : test_random(&random);
            }
            struct answers answers[2];
            const struct hspz_filter_call call = {
                .op = ops[round % 3], .keys = keys, .count = count};
            run_both(&pair, &call, answers);
            assert_int_equal(answers[0].call.yes_count, answers[1].call.yes_count);
            assert_memory_equal(answers[0].yes, answers[1].yes, (count + 7) / 8);
            free_answers(answers);
        }
        check_bloom_stats(&pair);
        check_images(&pair);
        free(keys);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_bloom_filters_take_absent_keys_and_merge(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    for (int k = 0; k < 2; k++) {
        const struct hspz_filter_spec spec = {.kind =
                                                  k == 0 ? HSPZ_FILTER_BLOOM : HSPZ_FILTER_BLOCKED,
                                              .capacity = 4000,
                                              .rate = 0.001,
                                              .seed = 3};
        struct pair one = open_pair(engine, spec), other = open_pair(engine, spec);
        uint64_t keys[3000], random = 5;
        for (size_t i = 0; i < 3000; i++) {
            keys[i] = test_random(&random);
        }
        struct answers answers[2];
        /* A key at a time there is nothing to choose. */
        for (size_t i = 0; i < 40; i++) {
            const struct hspz_filter_call call = {
                .op = HSPZ_FILTER_INSERT_IF_ABSENT, .keys = &keys[i / 2], .count = 1};
            run_both(&one, &call, answers);
            assert_int_equal(answers[0].call.yes_count, i % 2 == 0);
            assert_int_equal(answers[1].call.yes_count, i % 2 == 0);
            free_answers(answers);
        }
        const struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = 3000};
        run_both(&other, &call, answers);
        free_answers(answers);
        for (int i = 0; i < 2; i++) {
            bool full = true;
            assert_int_equal(one.ops[i]->merge(one.filter[i], other.filter[i], NULL, &full, NULL),
                             HSPZ_OK);
            assert_false(full);
        }
        check_bloom_stats(&one);
        check_images(&one);
        close_pair(&one);
        close_pair(&other);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_sorted_bloom_inserts_set_the_same_bits(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    uint64_t random = 13;
    for (unsigned c = 0; c < (quick ? 6u : 40u); c++) {
        static const uint64_t slots[] = {1, 3000, 100000, 3000001, UINT64_C(1) << 21, 9000000};
        struct pair pair = open_pair(
            engine,
            (struct hspz_filter_spec){.kind = c % 2 == 0 ? HSPZ_FILTER_BLOOM : HSPZ_FILTER_BLOCKED,
                                      .slots = slots[c / 2 % 6],
                                      .hashes = 1 + (unsigned)(test_random(&random) % 16),
                                      .seed = test_random(&random)});
        const size_t count = 1 + test_random(&random) % (quick ? 2000 : 50000);
        uint64_t *keys = malloc(count * sizeof(*keys));
        uint8_t *yes = malloc(count / 8 + 1);
        for (size_t i = 0; i < count; i++) {
            keys[i] = c % 3 == 0 ? i % 2 - 1 : test_random(&random);
        }
        const struct hspz_cuda_filter_result result =
            run_on_device(&pair, HSPZ_FILTER_INSERT, keys, NULL, count, HSPZ_CUDA_FILTER_BULK,
                          c % 4 < 2 ? yes : NULL);
        assert_int_equal(result.yes, count);
        assert_int_equal(result.refused, 0);
        for (size_t i = 0; i < count && c % 4 < 2; i++) {
            assert_true(bit(yes, i));
        }
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = count};
        assert_int_equal(pair.ops[1]->run(pair.filter[1], &call, NULL), HSPZ_OK);
        check_images(&pair);
        free(keys);
        free(yes);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* ---- tcf ---- */

/* What a tcf knows of a key. */
static uint64_t
fingerprint(const struct hspz_filter_plan *plan, uint64_t key)
{
    const uint64_t hash = hspz_filter_hash(key, hspz_filter_salt(plan->spec.seed));
    const uint32_t tag = hspz_tcf_tag(hash, plan->spec.slot_bits);
    const struct hspz_tcf_windows w =
        hspz_tcf_windows_of(plan->blocks, plan->spec.slot_bits, plan->spec.block_slots);
    const uint32_t block = hspz_tcf_block(hash, w.blocks);
    return hspz_tcf_word(block, hspz_tcf_other(block, tag, w), tag);
}

/* Equal for keys that are equal to the filter. */
static uint64_t
value_for(const struct hspz_filter_plan *plan, uint64_t key)
{
    const unsigned bits = plan->spec.value_bits;
    return hspz_filter_mix(fingerprint(plan, key)) & ((UINT64_C(1) << bits) - 1);
}

static void
check_tcf_content(struct pair *pair, const uint64_t *keys, size_t count)
{
    static const enum hspz_filter_op ops[] = {HSPZ_FILTER_QUERY, HSPZ_FILTER_COUNT};
    for (int o = 0; o < 2; o++) {
        struct answers answers[2];
        run_both(pair, &(struct hspz_filter_call){.op = ops[o], .keys = keys, .count = count},
                 answers);
        assert_memory_equal(answers[0].yes, answers[1].yes, (count + 7) / 8);
        assert_memory_equal(answers[0].found, answers[1].found, count * sizeof(uint64_t));
        free_answers(answers);
    }
    struct hspz_filter_stats stats[2];
    for (int i = 0; i < 2; i++) {
        pair->ops[i]->stats(pair->filter[i], &stats[i]);
    }
    assert_int_equal(stats[0].entries, stats[1].entries);
    assert_true(fabs(stats[0].rate - stats[1].rate) < 1e-12);
}

static int
by_word(const void *a, const void *b)
{
    const struct hspz_filter_entry *x = a, *y = b;
    return x->fingerprint != y->fingerprint ? (x->fingerprint < y->fingerprint ? -1 : 1)
                                            : (x->value > y->value) - (x->value < y->value);
}

static void
check_tcf_entries(struct pair *pair)
{
    struct hspz_filter_entry *entries[2];
    struct hspz_filter_stats stats;
    pair->ops[1]->stats(pair->filter[1], &stats);
    for (int i = 0; i < 2; i++) {
        uint64_t cursor = 0;
        size_t all = 0, got;
        entries[i] = calloc(stats.entries + 1, sizeof(*entries[i]));
        do {
            const size_t room = stats.entries - all + 1;
            assert_int_equal(pair->ops[i]->enumerate(pair->filter[i], &cursor, entries[i] + all,
                                                     room < 37 ? room : 37, &got, NULL),
                             HSPZ_OK);
            all += got;
        } while (got > 0);
        assert_int_equal(all, stats.entries);
        qsort(entries[i], all, sizeof(*entries[i]), by_word);
    }
    for (size_t i = 0; i < stats.entries; i++) {
        assert_int_equal(entries[0][i].fingerprint, entries[1][i].fingerprint);
        assert_int_equal(entries[0][i].value, entries[1][i].value);
        assert_int_equal(entries[0][i].count, 1);
    }
    free(entries[0]);
    free(entries[1]);
}

/* Calls of every kind while the filter fills up to `most` keys and gets emptier again. */
static void
exercise_tcf(struct pair *pair, uint64_t *random, uint64_t most, unsigned rounds)
{
    const size_t pool_size = 2 * most + 8;
    uint64_t *pool = malloc(pool_size * sizeof(*pool));
    uint64_t *keys = malloc((most + 1) * sizeof(*keys));
    uint64_t *values = malloc((most + 1) * sizeof(*values));
    for (size_t i = 0; i < pool_size; i++) {
        pool[i] = i < 2 ? i - 1 : test_random(random);
    }
    for (unsigned round = 0; round < rounds; round++) {
        static const enum hspz_filter_op ops[] = {HSPZ_FILTER_INSERT, HSPZ_FILTER_INSERT_IF_ABSENT,
                                                  HSPZ_FILTER_DELETE};
        struct hspz_filter_stats stats;
        pair->ops[1]->stats(pair->filter[1], &stats);
        const enum hspz_filter_op op = ops[test_random(random) % 3];
        const uint64_t room = op == HSPZ_FILTER_DELETE ? most : most - stats.entries;
        const size_t count = round == 0 ? 0 : test_random(random) % (room + 1);
        for (size_t i = 0; i < count; i++) {
            keys[i] = pool[test_random(random) % pool_size];
            values[i] = value_for(&pair->plan, keys[i]);
        }
        struct answers answers[2];
        const bool deletes = op == HSPZ_FILTER_DELETE;
        run_both(pair,
                 &(struct hspz_filter_call){
                     .op = op, .keys = keys, .count = count, .values = deletes ? NULL : values},
                 answers);
        assert_int_equal(answers[0].call.yes_count, answers[1].call.yes_count);
        assert_false(answers[0].call.full);
        for (size_t i = 0; i < count && op == HSPZ_FILTER_INSERT_IF_ABSENT; i++) {
            assert_int_equal(answers[0].found[i], bit(answers[0].yes, i) ? 0 : values[i]);
        }
        free_answers(answers);
        check_tcf_content(pair, pool, pool_size);
    }
    check_tcf_entries(pair);
    free(pool);
    free(keys);
    free(values);
}

static void
test_tcf_filters_answer_as_the_cpu(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    static const unsigned tags[] = {16, 8, 12, 32}, values[] = {0, 16, 5, 48, 32, 1, 23};
    uint64_t random = 21;
    for (unsigned c = 0; c < (quick ? 12u : 84u); c++) {
        struct pair pair =
            open_pair(engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF,
                                                        .slots = 1 + test_random(&random) %
                                                                         (quick ? 900 : 6000),
                                                        .slot_bits = tags[c % 4],
                                                        .block_slots = 16u << c / 4 % 3,
                                                        .value_bits = values[c % 7],
                                                        .seed = test_random(&random)});
        exercise_tcf(&pair, &random, pair.plan.full_slots, quick ? 6 : 16);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_a_full_tcf_says_what_went_in_and_loses_nothing(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    static const unsigned tags[] = {16, 8, 12, 32};
    uint64_t random = 31;
    for (unsigned c = 0; c < 12; c++) {
        struct pair pair = open_pair(engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF,
                                                                       .slots = 700,
                                                                       .slot_bits = tags[c % 4],
                                                                       .block_slots = 16u << c / 4,
                                                                       .seed = c});
        const size_t count = pair.plan.spec.slots + pair.plan.spare_slots + 300;
        uint64_t *keys = malloc(count * sizeof(*keys)), *in = malloc(count * sizeof(*in));
        uint8_t *yes = malloc(count / 8 + 1);
        for (size_t i = 0; i < count; i++) {
            keys[i] = test_random(&random);
        }
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = count, .yes = yes};
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &call, NULL), HSPZ_OK);
        assert_true(call.full);
        assert_in_range(call.yes_count, pair.plan.full_slots,
                        pair.plan.spec.slots + pair.plan.spare_slots);
        size_t held = 0;
        for (size_t i = 0; i < count; i++) {
            in[held] = keys[i];
            held += bit(yes, i);
        }
        assert_int_equal(held, call.yes_count);
        struct hspz_filter_call query = {.op = HSPZ_FILTER_QUERY, .keys = in, .count = held};
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &query, NULL), HSPZ_OK);
        assert_int_equal(query.yes_count, held);
        /* Taken away again, also those of the backing table; then there is room for as many. */
        query.op = HSPZ_FILTER_DELETE;
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &query, NULL), HSPZ_OK);
        assert_int_equal(query.yes_count, held);
        query.op = HSPZ_FILTER_QUERY;
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &query, NULL), HSPZ_OK);
        assert_int_equal(query.yes_count, 0);
        query.op = HSPZ_FILTER_INSERT;
        query.count = pair.plan.full_slots;
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &query, NULL), HSPZ_OK);
        assert_int_equal(query.yes_count, pair.plan.full_slots);
        free(keys);
        free(in);
        free(yes);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_equal_keys_of_one_call_are_told_apart(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){
                    .kind = HSPZ_FILTER_TCF, .capacity = 4000, .value_bits = 16, .seed = 4});
    enum { COUNT = 640, SAME = 16 };
    uint64_t keys[COUNT], values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = i / SAME;
        values[i] = i;
    }
    /* One of each went in, and the others found its value. */
    struct answers answers[2];
    run_both(
        &pair,
        &(struct hspz_filter_call){
            .op = HSPZ_FILTER_INSERT_IF_ABSENT, .keys = keys, .count = COUNT, .values = values},
        answers);
    assert_int_equal(answers[0].call.yes_count, COUNT / SAME);
    for (size_t i = 0; i < COUNT; i += SAME) {
        size_t first = i;
        while (first < i + SAME && !bit(answers[0].yes, first)) {
            first++;
        }
        assert_in_range(first, i, i + SAME - 1);
        for (size_t j = i; j < i + SAME; j++) {
            assert_int_equal(answers[0].found[j], j == first ? 0 : values[first]);
        }
    }
    free_answers(answers);
    /* One too many of each is there when all are taken away. */
    for (int round = 0; round < 2; round++) {
        run_both(
            &pair,
            &(struct hspz_filter_call){.op = round == 0 ? HSPZ_FILTER_INSERT : HSPZ_FILTER_DELETE,
                                       .keys = keys,
                                       .count = COUNT},
            answers);
        assert_int_equal(answers[0].call.yes_count, answers[1].call.yes_count);
        free_answers(answers);
        run_both(&pair,
                 &(struct hspz_filter_call){.op = HSPZ_FILTER_COUNT, .keys = keys, .count = COUNT},
                 answers);
        assert_memory_equal(answers[0].found, answers[1].found, sizeof(keys));
        assert_int_equal(answers[0].found[0], round == 0 ? SAME + 1 : 1);
        free_answers(answers);
    }
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* Fills a filter in pieces, sorted by window, with some keys taken away between. */
static void
exercise_sorted_tcf(struct pair *pair, const uint64_t *keys, const uint64_t *values, size_t count,
                    uint64_t *random)
{
    for (size_t at = 0; at < count;) {
        const size_t more = 1 + test_random(random) % (count - at);
        struct hspz_cuda_filter_result result = run_on_device(
            pair, HSPZ_FILTER_INSERT, keys + at, values + at, more, HSPZ_CUDA_FILTER_BULK, NULL);
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys + at, .values = values + at, .count = more};
        assert_int_equal(pair->ops[1]->run(pair->filter[1], &call, NULL), HSPZ_OK);
        assert_int_equal(result.yes, more);
        assert_int_equal(result.refused, 0);
        check_tcf_content(pair, keys, count);
        /* Also keys that are not there. */
        call.op = HSPZ_FILTER_DELETE;
        call.values = NULL;
        call.count = count - at < more + 9 ? count - at : more + 9;
        call.keys += call.count / 2;
        call.count -= call.count / 2;
        result = run_on_device(pair, HSPZ_FILTER_DELETE, call.keys, NULL, call.count,
                               HSPZ_CUDA_FILTER_BULK, NULL);
        assert_int_equal(pair->ops[1]->run(pair->filter[1], &call, NULL), HSPZ_OK);
        assert_int_equal(result.yes, call.yes_count);
        assert_int_equal(result.refused, 0);
        check_tcf_content(pair, keys, count);
        at += more;
    }
}

static void
test_sorted_tcf_calls_do_as_the_cpu(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    uint64_t random = 17;
    for (unsigned c = 0; c < (quick ? 6u : 36u); c++) {
        static const uint64_t slots[] = {1, 2000, 70000, 1 << 16, 100000};
        static const unsigned tags[] = {16, 8, 32}, values[] = {0, 16, 5, 7};
        struct pair pair =
            open_pair(engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF,
                                                        .slots = slots[c % 5],
                                                        .slot_bits = tags[c % 3],
                                                        .value_bits = values[c % 4],
                                                        .seed = test_random(&random)});
        const size_t count = pair.plan.full_slots;
        uint64_t *keys = malloc(count * sizeof(*keys)), *with = malloc(count * sizeof(*with));
        for (size_t i = 0; i < count; i++) {
            keys[i] = test_random(&random) % (c % 5 == 0 ? 5 * count / 4 : UINT64_MAX);
            with[i] = value_for(&pair.plan, keys[i]);
        }
        exercise_sorted_tcf(&pair, keys, with, count, &random);
        check_tcf_entries(&pair);
        free(keys);
        free(with);
        close_pair(&pair);
    }
    /* Any number of equal keys: what does not fit is refused, and as many are taken away. */
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF, .slots = 5000, .seed = 1});
    enum { SAME = 140000 };
    const size_t same = quick ? 2000 : SAME, most = 32 + pair.plan.spare_slots;
    uint64_t *keys = calloc(SAME, sizeof(*keys));
    for (int round = 0; round < 2; round++) {
        struct hspz_cuda_filter_result result =
            run_on_device(&pair, HSPZ_FILTER_INSERT, keys, NULL, same, HSPZ_CUDA_FILTER_BULK, NULL);
        assert_int_equal(result.yes, most);
        assert_int_equal(result.refused, same - most);
        result =
            run_on_device(&pair, HSPZ_FILTER_DELETE, keys, NULL, same, HSPZ_CUDA_FILTER_BULK, NULL);
        assert_int_equal(result.yes, most);
        assert_int_equal(result.refused, 0);
    }
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

static struct hspz_cuda_tcf
view_of(struct pair *pair)
{
    struct hspz_cuda_tcf tcf;
    struct hspz_error err = {0};
    if (hspz_cuda_filter_tcf_view(pair->filter[0], &tcf, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return tcf;
}

static void
test_one_kernel_may_do_everything_at_once(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    uint64_t random = 41;
    for (unsigned c = 0; c < 6; c++) {
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF, .slots = 4096, .seed = c});
        /* Up to nine tenths all the time, should nothing be taken away first. */
        enum { THIRD = 1200, SHARED = 70 };
        uint64_t keys[3 * THIRD], shared[SHARED];
        for (size_t i = 0; i < 3 * THIRD; i++) {
            keys[i] = test_random(&random);
        }
        for (size_t i = 0; i < SHARED; i++) {
            shared[i] = test_random(&random);
        }
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 2 * THIRD};
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &call, NULL), HSPZ_OK);
        const struct hspz_cuda_tcf tcf = view_of(&pair);
        unsigned long long wrong[4] = {0}, *wrong_on_device = to_device(wrong, sizeof(wrong));
        uint64_t *keys_on_device = to_device(keys, sizeof(keys));
        uint64_t *shared_on_device = to_device(shared, sizeof(shared));
        must(user_launch_mixed(&tcf, keys_on_device, THIRD, shared_on_device, SHARED,
                               wrong_on_device, NULL));
        must(cudaMemcpy(wrong, wrong_on_device, sizeof(wrong), cudaMemcpyDeviceToHost));
        assert_int_equal(wrong[0], 0);
        assert_int_equal(wrong[1], 0);
        assert_int_equal(wrong[2], 0);
        /* But for those that share a fingerprint with another. */
        assert_in_range(wrong[3], SHARED - 2, SHARED);
        call.op = HSPZ_FILTER_QUERY;
        call.count = THIRD;
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &call, NULL), HSPZ_OK);
        assert_int_equal(call.yes_count, THIRD);
        call.keys = keys + 2 * THIRD;
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &call, NULL), HSPZ_OK);
        assert_int_equal(call.yes_count, THIRD);
        call.keys = keys + THIRD;
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &call, NULL), HSPZ_OK);
        assert_in_range(call.yes_count, 0, 8);
        must(cudaFree(wrong_on_device));
        must(cudaFree(keys_on_device));
        must(cudaFree(shared_on_device));
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* A call by groups; how many are answered yes. */
static unsigned
run_groups(struct pair *pair, enum user_group_op op, unsigned lanes, const uint64_t *keys,
           uint32_t count, uint64_t *values)
{
    const struct hspz_cuda_tcf tcf = view_of(pair);
    uint8_t *yes = calloc(count, 1);
    uint64_t *keys_on_device = to_device(keys, count * sizeof(*keys));
    uint64_t *values_on_device = to_device(values, count * sizeof(*values));
    uint8_t *yes_on_device = to_device(yes, count);
    unsigned all = 0;
    must(user_launch_group(&tcf, op, lanes, keys_on_device, count, values_on_device, yes_on_device,
                           NULL));
    must(cudaMemcpy(yes, yes_on_device, count, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(values, values_on_device, count * sizeof(*values), cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(yes[i], 0, 1);
        all += yes[i];
    }
    must(cudaFree(keys_on_device));
    must(cudaFree(values_on_device));
    must(cudaFree(yes_on_device));
    free(yes);
    return all;
}

static void
test_groups_of_threads_do_as_single_ones(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    static const unsigned lanes[] = {1, 4, 8, 32};
    static const unsigned shapes[][2] = {{16, 16}, {16, 32}, {8, 64}, {32, 16}};
    uint64_t random = 43;
    for (unsigned c = 0; c < 16; c++) {
        struct pair pair =
            open_pair(engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF,
                                                        .slots = 2000,
                                                        .slot_bits = shapes[c / 4][0],
                                                        .block_slots = shapes[c / 4][1],
                                                        .value_bits = 24,
                                                        .seed = test_random(&random)});
        const uint32_t count = (uint32_t)pair.plan.full_slots, half = count / 2;
        uint64_t *keys = malloc(count * sizeof(*keys)), *values = malloc(count * sizeof(*values));
        for (uint32_t i = 0; i < count; i++) {
            keys[i] = test_random(&random);
            values[i] = value_for(&pair.plan, keys[i]);
        }
        assert_int_equal(run_groups(&pair, USER_INSERT, lanes[c % 4], keys, count, values), count);
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = count, .values = values};
        assert_int_equal(pair.ops[1]->run(pair.filter[1], &call, NULL), HSPZ_OK);
        memset(values, 0xaa, count * sizeof(*values));
        assert_int_equal(run_groups(&pair, USER_FIND, lanes[c % 4], keys, count, values), count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(values[i], value_for(&pair.plan, keys[i]));
        }
        assert_int_equal(run_groups(&pair, USER_ERASE, lanes[c % 4], keys, half, values), half);
        call = (struct hspz_filter_call){.op = HSPZ_FILTER_DELETE, .keys = keys, .count = half};
        assert_int_equal(pair.ops[1]->run(pair.filter[1], &call, NULL), HSPZ_OK);
        /* What is left answers as the CPU's to both. */
        struct answers answers[2];
        run_both(&pair,
                 &(struct hspz_filter_call){.op = HSPZ_FILTER_COUNT, .keys = keys, .count = count},
                 answers);
        assert_memory_equal(answers[0].found, answers[1].found, count * sizeof(uint64_t));
        assert_int_equal(run_groups(&pair, USER_FIND, lanes[c % 4], keys, count, values),
                         answers[1].call.yes_count);
        free_answers(answers);
        free(keys);
        free(values);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* ---- all kinds ---- */

static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_TCF, HSPZ_FILTER_BLOOM,
                                              HSPZ_FILTER_BLOCKED};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void
test_files_are_of_both_engines(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    char *dir = test_tmpdir_make(), *path = test_path(dir, "filter");
    for (size_t k = 0; k < KINDS; k++) {
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = kinds[k], .capacity = 5000, .seed = 9});
        uint64_t keys[4000], random = 6;
        for (size_t i = 0; i < 4000; i++) {
            keys[i] = test_random(&random);
        }
        struct answers answers[2];
        run_both(&pair,
                 &(struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 4000},
                 answers);
        free_answers(answers);
        /* Each writes, the other one reads and finds what is there. */
        for (int i = 0; i < 2; i++) {
            struct hspz_filter_plan plan;
            struct hspz_filter_image image;
            struct hspz_filter *loaded = NULL;
            struct hspz_error err = {0};
            assert_int_equal(hspz_filter_write(pair.ops[i], pair.filter[i], path, NULL, &err),
                             HSPZ_OK);
            assert_int_equal(hspz_filter_read(path, 0, NULL, &plan, &image, &err), HSPZ_OK);
            plan.device = pair.plan.device;
            if (pair.ops[1 - i]->load(&plan, &image, NULL, &loaded, &err) != HSPZ_OK) {
                fail_msg("%s", err.text);
            }
            struct hspz_filter_call call = {.op = HSPZ_FILTER_QUERY, .keys = keys, .count = 4000};
            assert_int_equal(pair.ops[1 - i]->run(loaded, &call, &err), HSPZ_OK);
            assert_int_equal(call.yes_count, 4000);
            struct hspz_filter_stats stats;
            pair.ops[1 - i]->stats(loaded, &stats);
            assert_int_equal(stats.entries, 4000);
            /* An array that is shorter than the plan says is refused. */
            struct hspz_filter *none = NULL;
            image.bytes[0]--;
            assert_int_equal(pair.ops[1 - i]->load(&plan, &image, NULL, &none, &err),
                             HSPZ_E_BAD_FILE);
            assert_null(none);
            image.bytes[0]++;
            pair.ops[1 - i]->destroy(&loaded);
            hspz_filter_image_fini(&image);
        }
        close_pair(&pair);
    }
    free(path);
    test_tmpdir_remove(&dir);
    hspz_cuda_engine.close(&engine);
}

static void
test_copies_are_equal_and_apart(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    for (size_t k = 0; k < KINDS; k++) {
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = kinds[k], .capacity = 3000, .seed = 9});
        uint64_t keys[2000], random = 8;
        for (size_t i = 0; i < 2000; i++) {
            keys[i] = test_random(&random);
        }
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 1000};
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &call, NULL), HSPZ_OK);
        struct hspz_filter *copy = NULL;
        assert_int_equal(pair.ops[0]->copy(pair.filter[0], &copy, NULL), HSPZ_OK);
        call.keys = keys + 1000;
        assert_int_equal(pair.ops[0]->run(copy, &call, NULL), HSPZ_OK);
        struct hspz_filter_call query = {.op = HSPZ_FILTER_QUERY, .keys = keys, .count = 2000};
        assert_int_equal(pair.ops[0]->run(copy, &query, NULL), HSPZ_OK);
        assert_int_equal(query.yes_count, 2000);
        assert_int_equal(pair.ops[0]->run(pair.filter[0], &query, NULL), HSPZ_OK);
        assert_in_range(query.yes_count, 1000, 1100);
        pair.ops[0]->destroy(&copy);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_memory_over_the_budget_is_refused_and_given_back(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(UINT64_C(3) << 20);
    for (size_t k = 0; k < KINDS; k++) {
        struct hspz_filter_plan plan;
        const struct hspz_filter_ops *ops = hspz_cuda_filter(kinds[k]);
        const struct hspz_filter_spec large = {.kind = kinds[k], .capacity = 100000000};
        struct hspz_error err = {0};
        struct hspz_filter *filter = NULL;
        assert_int_equal(hspz_filter_plan(&large, 0, &plan, &err), HSPZ_OK);
        plan.device = hspz_cuda_engine.filter_device(engine, 0);
        assert_int_equal(ops->create(&plan, &filter, &err), HSPZ_E_OUT_OF_MEMORY);
        assert_null(filter);
        assert_non_null(strstr(err.text, "of a budget of 3145728 are in use"));
        const struct hspz_filter_spec small = {.kind = kinds[k], .capacity = 100000};
        assert_int_equal(hspz_filter_plan(&small, 0, &plan, &err), HSPZ_OK);
        plan.device = hspz_cuda_engine.filter_device(engine, 0);
        for (int i = 0; i < 40; i++) {
            assert_int_equal(ops->create(&plan, &filter, &err), HSPZ_OK);
            ops->destroy(&filter);
        }
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
        cmocka_unit_test_prestate(test_bloom_filters_have_the_bits_of_the_cpu, &quick),
        cmocka_unit_test_prestate(test_sorted_bloom_inserts_set_the_same_bits, &quick),
        cmocka_unit_test(test_bloom_filters_take_absent_keys_and_merge),
        cmocka_unit_test_prestate(test_tcf_filters_answer_as_the_cpu, &quick),
        cmocka_unit_test(test_a_full_tcf_says_what_went_in_and_loses_nothing),
        cmocka_unit_test_prestate(test_sorted_tcf_calls_do_as_the_cpu, &quick),
        cmocka_unit_test(test_equal_keys_of_one_call_are_told_apart),
        cmocka_unit_test(test_one_kernel_may_do_everything_at_once),
        cmocka_unit_test(test_groups_of_threads_do_as_single_ones),
        cmocka_unit_test(test_files_are_of_both_engines),
        cmocka_unit_test(test_copies_are_equal_and_apart),
        cmocka_unit_test(test_memory_over_the_budget_is_refused_and_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
