/* Indexes built on a device against hspz_index_build: tables, positions and digest are equal
 * whatever the input, the parameters and the memory. */
#include "engine/engine.h"
#include "tests/engine/index_cases.h"
#include "tests/gpu/card_here.h"
#include "tests/support/test.h"

#define ECOLI "/usr/share/doc/ragout/examples/E.Coli/references/MG1655-K12.fasta.gz"

static struct hspz_engine *
open_engine(uint64_t memory_bytes)
{
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    const char *const first[] = {"0"};
    const struct hspz_engine_config config = {
        .cuda = {.devices = first, .device_count = 1, .memory_bytes = memory_bytes}};
    if (hspz_cuda_engine.open(&config, &engine, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return engine;
}

static bool
count_calls(void *user, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    ++*(unsigned *)user;
    return true;
}

/* Takes *seqs; *calls: of progress, two a piece. */
static struct hspz_index *
build_on(struct hspz_engine *engine, struct hspz_sequences **seqs,
         const struct hspz_index_params *params, unsigned *calls)
{
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    *calls = 0;
    if (hspz_cuda_engine.build(engine, seqs, params, 0, count_calls, calls, &index, &err) !=
        HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    assert_null(*seqs);
    return index;
}

/* Ends both; returns the number of positions. */
static uint64_t
check_equal(struct hspz_index *got, struct hspz_index *want)
{
    const struct hspz_shape *shape = &hspz_index_get_params(want)->shape;
    const size_t words = hspz_shape_words(shape);
    uint64_t positions = 0;
    assert_int_equal(hspz_index_block_count(got), hspz_index_block_count(want));
    for (size_t b = 0; b < hspz_index_block_count(want); b++) {
        const struct hspz_index_block g = hspz_index_get_block(got, b);
        const struct hspz_index_block w = hspz_index_get_block(want, b);
        assert_int_equal(g.bases_len, w.bases_len);
        assert_int_equal(g.pos_count, w.pos_count);
        if (memcmp(g.table, w.table, words * sizeof(uint32_t)) != 0 ||
            memcmp(g.pos, w.pos, w.pos_count * sizeof(uint32_t)) != 0) {
            fail_msg("block %zu of %s, step %u, differs", b, shape->pattern,
                     hspz_index_get_params(want)->step);
        }
        positions += w.pos_count;
    }
    assert_string_equal(hspz_index_digest(got), hspz_index_digest(want));
    assert_int_equal(hspz_index_bytes(got), hspz_index_bytes(want));
    hspz_index_release(&got);
    hspz_index_release(&want);
    return positions;
}

static struct hspz_index_params
random_params(uint64_t *random, uint32_t weight_min, uint32_t weights)
{
    static const uint32_t steps[] = {1, 1, 1, 2, 3, 7, 20, 1023, 1025, 4000000000u};
    const uint32_t weight = weight_min + (uint32_t)(test_random(random) % weights);
    const uint32_t span = weight + (uint32_t)(test_random(random) % (65 - weight));
    char pattern[65] = {0};
    memset(pattern, '0', span);
    for (uint32_t left = weight; left > 0;) {
        char *at = &pattern[test_random(random) % span];
        left -= *at == '0';
        *at = '1';
    }
    return index_case_params(pattern, steps[test_random(random) % 10], test_random(random) & 1,
                             test_random(random) & 1);
}

static void
test_random_blocks_are_equal(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(UINT64_C(1) << 30);
    uint64_t random = 7, positions = 0, blocks = 0;
    const unsigned cases = quick ? 12 : 400;
    for (unsigned i = 0; i < cases; i++) {
        const struct hspz_index_params params = random_params(&random, 4, quick ? 5 : 7);
        const size_t count = 1 + test_random(&random) % 12;
        const size_t most = 50 + test_random(&random) % 9000;
        const uint64_t block_size = 20 + test_random(&random) % (2 * count * most);
        uint64_t again = random;
        struct hspz_sequences *ours = index_case_random(&random, count, most, block_size);
        struct hspz_sequences *theirs = index_case_random(&again, count, most, block_size);
        unsigned calls;
        struct hspz_index *got = build_on(engine, &ours, &params, &calls);
        blocks += hspz_index_block_count(got);
        positions += check_equal(got, index_case_build(&theirs, &params, 1));
    }
    assert_true(blocks > cases);
    assert_true(positions > (quick ? 10000 : 500000));
    hspz_cuda_engine.close(&engine);
}

/* `len` bases of `unit`, again and again. */
static struct hspz_sequences *
repeats(const char *unit, size_t len)
{
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    uint8_t *bases = malloc(len + 1);
    assert_non_null(bases);
    for (size_t i = 0; i < len; i++) {
        bases[i] = (uint8_t)unit[i % strlen(unit)];
    }
    index_case_add(seqs, "r", bases, len);
    free(bases);
    return seqs;
}

static struct hspz_sequences *
long_sequence(size_t len)
{
    struct hspz_sequences *seqs = NULL;
    uint64_t random = 3;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    uint8_t *bases = malloc(len);
    assert_non_null(bases);
    for (size_t i = 0; i < len; i++) {
        const uint64_t r = test_random(&random);
        bases[i] = (uint8_t) "ACGT"[r & 3];
        if (i >= 700 && (r >> 8 & 3) != 0 && i / 5000 % 3 == 1) {
            bases[i] = bases[i - 700];
        } else if (i / 3000 % 7 == 2) {
            bases[i] = 'T';
        } else if ((r >> 16) % 200 == 0) {
            bases[i] = 'n';
        }
    }
    index_case_add(seqs, "l", bases, len);
    free(bases);
    return seqs;
}

/* Few words and many of each, no word at all, sequences as long as a window. */
static void
test_extremes_are_equal(void **state)
{
    const bool quick = *(const bool *)*state;
    static const char *const units[] = {"A", "AC", "ACGTT", "N", "acgt", "AAAAAAAAAAAAAAAAAAAAN"};
    static const size_t lens[] = {0, 18, 19, 20, 38, 1042, 1043, 70000};
    /* The second budget makes pieces of the longest. */
    const uint64_t budgets[] = {UINT64_C(1) << 30, UINT64_C(1700) << 10};
    uint64_t positions = 0;
    for (size_t e = 0; e < 2; e++) {
        struct hspz_engine *engine = open_engine(budgets[e]);
        for (size_t u = 0; u < 6; u++) {
            for (size_t l = quick ? 5 : 0; l < 8; l++) {
                for (unsigned flags = 0; flags < 4; flags++) {
                    const struct hspz_index_params params = index_case_params(
                        "1100010000010000011", 1 + (u + l) % 2, flags & 1, flags & 2);
                    struct hspz_sequences *ours = repeats(units[u], lens[l]);
                    struct hspz_sequences *theirs = repeats(units[u], lens[l]);
                    unsigned calls;
                    struct hspz_index *got = build_on(engine, &ours, &params, &calls);
                    assert_true(e == 0 ? calls <= 2 : l < 7 || params.step > 1 || calls > 2);
                    positions += check_equal(got, index_case_build(&theirs, &params, 1));
                }
            }
        }
        hspz_cuda_engine.close(&engine);
    }
    assert_true(positions > 100000);
}

/* From all at once down to the smallest pieces, and then not at all. */
static void
test_any_budget_gives_the_same(void **state)
{
    const bool quick = *(const bool *)*state;
    const size_t len = quick ? 60000 : 1500000;
    const uint32_t steps[] = {1, 3};
    unsigned most_calls = 0, least_calls = 1000000;
    for (size_t s = 0; s < (quick ? 1 : 2); s++) {
        const struct hspz_index_params params =
            index_case_params("1101001000100011", steps[s], true, s == 1);
        struct hspz_sequences *seqs = long_sequence(len);
        struct hspz_index *want = index_case_build(&seqs, &params, 2);
        bool refused = false;
        for (uint64_t budget = UINT64_C(256) << 20; !refused; budget = budget * 3 / 4) {
            struct hspz_engine *engine = open_engine(budget);
            struct hspz_index *index = NULL;
            struct hspz_error err = {0};
            unsigned calls = 0;
            seqs = long_sequence(len);
            const enum hspz_status status = hspz_cuda_engine.build(
                engine, &seqs, &params, 0, count_calls, &calls, &index, &err);
            if (status == HSPZ_OK) {
                most_calls = calls > most_calls ? calls : most_calls;
                least_calls = calls < least_calls ? calls : least_calls;
                (void)check_equal(index, hspz_index_acquire(want));
            } else {
                assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
                assert_non_null(strstr(err.text, "of a budget of"));
                assert_non_null(seqs);
                assert_null(index);
                /* Table and positions alone would have taken half of it. */
                assert_true(budget < 4 * sizeof(uint32_t) * (256 * 1024 + len / steps[s]));
                hspz_sequences_destroy(&seqs);
                refused = true;
            }
            hspz_cuda_engine.close(&engine);
        }
        hspz_index_release(&want);
    }
    assert_int_equal(least_calls, 2);
    assert_true(most_calls > (quick ? 4 : 16));
}

/* The last call that may go on. */
struct patience {
    unsigned left;
};

static bool
lose_patience(void *user, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    struct patience *patience = user;
    return patience->left-- > 0;
}

/* Stopped anywhere, a build leaves the sequences and gives all device memory back. */
static void
test_builds_stop_and_give_memory_back(void **state)
{
    (void)state;
    const struct hspz_index_params params = index_case_params("1101001000100011", 1, true, false);
    struct hspz_engine *engine = open_engine(UINT64_C(5) << 20);
    struct hspz_sequences *seqs = long_sequence(400000);
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    enum hspz_status status = HSPZ_E_STOPPED;
    unsigned stops = 0;
    for (; status == HSPZ_E_STOPPED; stops++) {
        struct patience patience = {stops};
        assert_non_null(seqs);
        assert_null(index);
        status = hspz_cuda_engine.build(engine, &seqs, &params, 0, lose_patience, &patience, &index,
                                        &err);
    }
    assert_int_equal(status, HSPZ_OK);
    assert_true(stops > 5);
    seqs = long_sequence(400000);
    (void)check_equal(index, index_case_build(&seqs, &params, 2));
    hspz_cuda_engine.close(&engine);
}

static void
test_bad_requests_are_those_of_the_cpu(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(0);
    struct hspz_index_params params = index_case_params("110100011", 1, false, false);
    struct hspz_sequences *seqs = long_sequence(5000);
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    assert_int_equal(
        hspz_cuda_engine.build(engine, &seqs, &params, 20000, NULL, NULL, &index, &err),
        HSPZ_E_TOO_LARGE);
    assert_int_equal(err.limit, 20000);
    params.step = 0;
    assert_int_equal(hspz_cuda_engine.build(engine, &seqs, &params, 0, NULL, NULL, &index, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(seqs);
    hspz_sequences_destroy(&seqs);
    assert_null(index);
    hspz_cuda_engine.close(&engine);
}

/* The largest tables, on a card of 8 GB. */
static void
test_large_tables_are_equal(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "1111011101101011111", "1110101100110010101111",
        "1101000000000100000011000000000010000000100000001100000010000011"};
    for (size_t i = 0; i < 3; i++) {
        struct hspz_engine *engine = open_engine(UINT64_C(8) << 30);
        const struct hspz_index_params params = index_case_params(patterns[i], 1, true, false);
        struct hspz_sequences *ours = long_sequence(2000000), *theirs = long_sequence(2000000);
        unsigned calls;
        struct hspz_index *got = build_on(engine, &ours, &params, &calls);
        assert_true(check_equal(got, index_case_build(&theirs, &params, 0)) > 1000000);
        hspz_cuda_engine.close(&engine);
    }
}

static void
check_genome(const char *path)
{
    static const char *const patterns[] = {"1110100110010101111", "11101011001"};
    struct hspz_engine *engine = open_engine(0);
    for (unsigned i = 0; i < 8; i++) {
        const struct hspz_index_params params =
            index_case_params(patterns[i & 1], i < 4 ? 1 : 20, i & 2, i == 3);
        struct hspz_sequences *ours = index_case_fasta(path), *theirs = index_case_fasta(path);
        assert_non_null(ours);
        unsigned calls;
        struct hspz_index *got = build_on(engine, &ours, &params, &calls);
        const uint64_t positions = check_equal(got, index_case_build(&theirs, &params, 0));
        assert_true(positions > 1000);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_apple_is_equal(void **state)
{
    (void)state;
    const char *shared = test_shared_dir();
    if (shared == NULL) {
        assert_false(test_required("shared"));
        skip();
    }
    char *path = test_path(shared, "data/apple.fasta.gz");
    check_genome(path);
    free(path);
}

static void
test_e_coli_is_equal(void **state)
{
    (void)state;
    FILE *file = fopen(ECOLI, "rb");
    if (file == NULL) {
        skip();
    }
    fclose(file);
    check_genome(ECOLI);
}

int
main(int argc, char **argv)
{
    const int without = status_without_card();
    if (without != 0) {
        return without;
    }
    bool quick = argc == 2 && strcmp(argv[1], "quick") == 0;
    const struct CMUnitTest quick_tests[] = {
        cmocka_unit_test_prestate(test_random_blocks_are_equal, &quick),
        cmocka_unit_test_prestate(test_extremes_are_equal, &quick),
        cmocka_unit_test_prestate(test_any_budget_gives_the_same, &quick),
    };
    if (quick) {
        return cmocka_run_group_tests(quick_tests, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_random_blocks_are_equal, &quick),
        cmocka_unit_test_prestate(test_extremes_are_equal, &quick),
        cmocka_unit_test_prestate(test_any_budget_gives_the_same, &quick),
        cmocka_unit_test(test_builds_stop_and_give_memory_back),
        cmocka_unit_test(test_bad_requests_are_those_of_the_cpu),
        cmocka_unit_test(test_large_tables_are_equal),
        cmocka_unit_test(test_apple_is_equal),
        cmocka_unit_test(test_e_coli_is_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
