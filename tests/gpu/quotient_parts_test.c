/* Inserts and deletes of a quotient filter whose keys are dealt to its parts, against the CPU's,
 * bit for bit: parts that are empty, crowded or full, runs that reach into the next part, keys that
 * come again. Keys are in device memory, and nothing but sums is asked for. */
#include "engine/cuda/filter.h"
#include "engine/filter_hash.h"
#include "tests/gpu/card_here.h"
#include "tests/gpu/filter_pair.h"
#include "tests/support/test.h"

#define MEMORY (UINT64_C(1) << 30)

/* The same on both. */
static void
change(struct pair *pair, struct hspz_filter_call call)
{
    uint64_t *memory = NULL;
    struct hspz_cuda_filter_result result = {0, 0};
    const size_t bytes = call.count * sizeof(*memory);
    assert_int_equal(cudaMalloc((void **)&memory, 2 * bytes + sizeof(result)), cudaSuccess);
    struct hspz_cuda_filter_result *const sums = (void *)(memory + 2 * call.count);
    cudaMemcpy(memory, call.keys, bytes, cudaMemcpyHostToDevice);
    if (call.values != NULL) {
        cudaMemcpy(memory + call.count, call.values, bytes, cudaMemcpyHostToDevice);
    }
    cudaMemcpy(sums, &result, sizeof(result), cudaMemcpyHostToDevice);
    const struct hspz_cuda_filter_call same = {.op = call.op,
                                               .keys = memory,
                                               .count = call.count,
                                               .values =
                                                   call.values != NULL ? memory + call.count : NULL,
                                               .result = sums};
    assert_int_equal(hspz_cuda_filter_run(pair->filter[0], &same, NULL, NULL), HSPZ_OK);
    cudaMemcpy(&result, sums, sizeof(result), cudaMemcpyDeviceToHost);
    cudaFree(memory);
    assert_int_equal(pair->ops[1]->run(pair->filter[1], &call, NULL), HSPZ_OK);
    assert_int_equal(result.yes, call.yes_count);
    assert_int_equal(result.refused > 0, call.full);
    check_images(pair);
}

/* The key whose hash this is. */
static uint64_t
key_for(const struct pair *pair, uint64_t hash)
{
    return hspz_filter_unmix(hash) ^ hspz_filter_salt(pair->plan.spec.seed);
}

static const struct hspz_filter_spec specs[] = {
    {.kind = HSPZ_FILTER_GQF, .slots = 32768, .slot_bits = 8},
    {.kind = HSPZ_FILTER_GQF, .slots = 16384, .slot_bits = 16, .value_bits = 5, .seed = 3},
    {.kind = HSPZ_FILTER_GQF, .slots = 128, .slot_bits = 8},
    {.kind = HSPZ_FILTER_SQF, .slots = 16384, .slot_bits = 8, .seed = 7},
    {.kind = HSPZ_FILTER_RSQF, .slots = 16384, .slot_bits = 16},
};
#define SPECS (sizeof(specs) / sizeof(specs[0]))

static void
test_halves_come_and_go(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    for (size_t s = 0; s < SPECS; s++) {
        struct pair pair = open_pair(engine, specs[s]);
        const size_t half = specs[s].slots * 45 / 100;
        uint64_t *keys = malloc(4 * half * sizeof(*keys)), random = 51 + s;
        uint64_t *const values = keys + 2 * half;
        for (size_t i = 0; i < 2 * half; i++) {
            const uint64_t r = test_random(&random);
            keys[i] = i % 8 == 0 ? r % 300 : r;
            values[i] = r >> 30 & ((UINT64_C(1) << specs[s].value_bits) - 1);
        }
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = half, .values = values};
        change(&pair, call);
        call.keys += half;
        call.values += half;
        change(&pair, call);
        if (specs[s].kind != HSPZ_FILTER_RSQF) {
            call.op = HSPZ_FILTER_DELETE;
            call.keys -= half / 2;
            call.values = NULL;
            change(&pair, call); /* some keys are there, some twice */
            change(&pair, call); /* none is */
            call.keys = keys;
            call.count = 2 * half;
            change(&pair, call);
            call.op = HSPZ_FILTER_INSERT;
        }
        call.keys = keys;
        call.count = half;
        change(&pair, call);
        free(keys);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_more_than_fits_is_refused_as_on_the_cpu(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    for (size_t s = 0; s < SPECS; s++) {
        struct pair pair = open_pair(engine, specs[s]);
        const size_t count = specs[s].slots * 3 / 2;
        uint64_t *keys = malloc(count * sizeof(*keys)), random = 61 + s;
        for (size_t i = 0; i < count; i++) {
            keys[i] = test_random(&random);
        }
        const struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = count};
        change(&pair, call);
        change(&pair, call);
        free(keys);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* Quotients 4000 .. of 32768, whose runs reach over the end of the first part, and those behind. */
static void
test_many_keys_of_neighbouring_quotients(void **state)
{
    (void)state;
    enum { COUNT = 6000 };
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine,
        (struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 1 << 15, .slot_bits = 16});
    static const unsigned wide[] = {1, 3, 100, 20000};
    uint64_t keys[COUNT], random = 71;
    for (size_t w = 0; w < sizeof(wide) / sizeof(wide[0]); w++) {
        for (size_t i = 0; i < COUNT; i++) {
            const uint64_t r = test_random(&random), quotient = 4000 + (r >> 40) % wide[w];
            keys[i] = key_for(&pair, quotient << 49 | (r & 0xffff) << 33);
        }
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = COUNT};
        change(&pair, call);
        if (w % 2 == 1) {
            call.op = HSPZ_FILTER_DELETE;
            call.count = COUNT * 2 / 3;
            change(&pair, call);
        }
    }
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* Each key a hundred times; one key more often than a part has room for; and so often that a sample
 * shows it. */
static void
test_keys_that_come_again(void **state)
{
    const bool quick = *(const bool *)*state;
    const size_t counts[] = {40000, 60000, (size_t)1 << (quick ? 16 : 23)};
    struct hspz_engine *engine = open_engine(MEMORY);
    for (size_t c = 0; c < 3; c++) {
        struct pair pair = open_pair(engine, specs[0]);
        uint64_t *keys = malloc(counts[c] * sizeof(*keys)), random = 81;
        for (size_t i = 0; i < counts[c]; i++) {
            const uint64_t r = test_random(&random);
            keys[i] = c == 0 ? r % 400 : r % 4 == 0 ? r % 2000 : 5;
        }
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = counts[c]};
        change(&pair, call);
        call.count = 30000;
        change(&pair, call);
        call.op = HSPZ_FILTER_DELETE;
        call.count = 20;
        change(&pair, call);
        call.count = 30000;
        change(&pair, call);
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
        cmocka_unit_test(test_halves_come_and_go),
        cmocka_unit_test(test_more_than_fits_is_refused_as_on_the_cpu),
        cmocka_unit_test(test_many_keys_of_neighbouring_quotients),
        cmocka_unit_test_prestate(test_keys_that_come_again, &quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
