/* Words of texts in the counting quotient filter: of a genome as Debian's jellyfish counts them, of
 * small texts counted by hand, of texts however their lines are folded. */
#include "engine/alphabet.h"
#include "engine/sequence_file.h"
#include "tests/conformance/filters.h"
#include "tests/support/test.h"

#include <math.h>

/* ---- words ---- */

/* The k-mers of text, each as the smaller of itself and its reverse complement, 2 bits a base. */
static size_t
take_words(const uint8_t *text, size_t len, unsigned k, uint64_t *out)
{
    const uint8_t *codes = hspz_base_codes(true);
    const uint64_t mask = k == 32 ? UINT64_MAX : (UINT64_C(1) << 2 * k) - 1;
    uint64_t word = 0, back = 0;
    size_t valid = 0, n = 0;
    for (size_t i = 0; i < len; i++) {
        const uint64_t code = codes[text[i]];
        valid = code == HSPZ_BASE_INVALID ? 0 : valid + 1;
        word = (word << 2 | (code & 3)) & mask;
        back = back >> 2 | (3 - (code & 3)) << 2 * (k - 1);
        if (valid >= k) {
            out[n++] = word < back ? word : back;
        }
    }
    return n;
}

static uint64_t
word_of(const char *text)
{
    uint64_t words[1] = {0};
    assert_int_equal(take_words((const uint8_t *)text, strlen(text), (unsigned)strlen(text), words),
                     1);
    return words[0];
}

static void
count_words(struct filters_subject *f, const struct filters_engine *engine, const char *text,
            unsigned k, unsigned slot_bits)
{
    uint64_t *words = malloc((strlen(text) + 1) * sizeof(*words));
    assert_non_null(words);
    filters_create(f, engine,
                   &(struct hspz_filter_spec){
                       .kind = HSPZ_FILTER_GQF, .slots = 1 << 12, .slot_bits = slot_bits});
    filters_insert(f, words, NULL, take_words((const uint8_t *)text, strlen(text), k, words));
    free(words);
}

/* Runs `check` on each engine that has counting filters. */
static void
each_engine(void (*check)(const struct filters_engine *))
{
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t n = filters_open(engines);
    for (size_t e = 0; e < n; e++) {
        if (filters_has(&engines[e], HSPZ_FILTER_GQF)) {
            check(&engines[e]);
        }
    }
    filters_close(engines, n);
}

static void
check_twelve_bases(const struct filters_engine *engine)
{
    static const char *const words[] = {"AAA", "AAC", "ACC", "CAA", "CAC", "CCA", "CCC"};
    static const uint64_t want[] = {1, 2, 2, 1, 1, 2, 1};
    struct filters_subject f;
    count_words(&f, engine, "AAACCCAACCAC", 3, 64);
    uint64_t keys[64], got[64], total = 0;
    for (uint64_t w = 0; w < 64; w++) {
        keys[w] = w;
    }
    (void)filters_run(&f, (struct hspz_filter_call){
                              .op = HSPZ_FILTER_COUNT, .keys = keys, .count = 64, .found = got});
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(got[word_of(words[i])], want[i]);
    }
    for (size_t w = 0; w < 64; w++) {
        total += got[w];
    }
    assert_int_equal(total, 10);
    filters_destroy(&f);
}

static void
test_words_of_twelve_bases_are_counted(void **state)
{
    (void)state;
    each_engine(check_twelve_bases);
}

/* Few words, each very often. */
static void
check_many_copies(const struct filters_engine *engine)
{
    enum { BASES = 1000000 };
    char *text = malloc(BASES + 1);
    assert_non_null(text);
    uint64_t random = 2, keys[16], want[16] = {0}, got[16], total = 0;
    for (size_t i = 0; i < BASES; i++) {
        text[i] = "ACGT"[test_random(&random) % 4];
    }
    text[BASES] = '\0';
    for (size_t i = 0; i + 1 < BASES; i++) {
        const char word[] = {text[i], text[i + 1], '\0'};
        want[word_of(word)]++;
    }
    for (unsigned bits = 8; bits <= 64; bits *= 8) {
        struct filters_subject f;
        count_words(&f, engine, text, 2, bits);
        for (uint64_t w = 0; w < 16; w++) {
            keys[w] = w;
        }
        (void)filters_run(&f,
                          (struct hspz_filter_call){
                              .op = HSPZ_FILTER_COUNT, .keys = keys, .count = 16, .found = got});
        assert_memory_equal(got, want, sizeof(want));
        assert_int_equal(filters_stats(&f).total, BASES - 1);
        filters_destroy(&f);
    }
    for (size_t w = 0; w < 16; w++) {
        total += want[w];
    }
    assert_int_equal(total, BASES - 1);
    free(text);
}

static void
test_no_copy_of_a_word_is_lost(void **state)
{
    (void)state;
    each_engine(check_many_copies);
}

/* One line of 60,000 bases or folded at any length, also where buffers of a reader end. */
static void
test_folding_changes_no_count(void **state)
{
    (void)state;
    static const size_t folds[] = {70000, 1, 60, 61, 80};
    /* The header's length moves the end of the record to both sides of 64 KiB. */
    static const int names[] = {1, 5531, 5532, 5533};
    char *dir = test_tmpdir_make(), *path = test_path(dir, "a.fa");
    for (size_t i = 0; i < 8; i++) {
        const size_t fold = folds[i < 5 ? i : 0];
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, ">%0*d", names[i < 5 ? 0 : i - 4], 1);
        for (size_t at = 0; at < 60000; at++) {
            fputs(at % fold == 0 ? "\nA" : "A", file);
        }
        fputs("\n>b\nACGT\n", file);
        assert_int_equal(fclose(file), 0);
        struct hspz_sequences *seqs = NULL;
        assert_int_equal(hspz_sequence_file_read(path, 1000000, NULL, NULL, &seqs, NULL), HSPZ_OK);
        const struct hspz_block block = hspz_sequences_block(seqs, 0);
        uint64_t *words = malloc(block.len * sizeof(*words));
        assert_non_null(words);
        const size_t n = take_words(block.bases, block.len, 21, words);
        assert_int_equal(n, 60000 - 20);
        for (size_t w = 0; w < n; w++) {
            assert_int_equal(words[w], 0);
        }
        free(words);
        hspz_sequences_destroy(&seqs);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

static void
check_counters(const struct filters_engine *engine)
{
    char *text = malloc(70001);
    assert_non_null(text);
    memset(text, 'A', 70000);
    text[70000] = '\0';
    for (unsigned bits = 8; bits <= 64; bits *= 2) {
        struct filters_subject f;
        count_words(&f, engine, text, 21, bits);
        const uint64_t key = 0;
        uint64_t want = 69980, got;
        for (int round = 0; round < 6; round++) {
            (void)filters_run(
                &f, (struct hspz_filter_call){
                        .op = HSPZ_FILTER_COUNT, .keys = &key, .count = 1, .found = &got});
            assert_int_equal(got, want);
            const uint64_t more[] = {69980, UINT32_MAX, UINT64_C(1) << 33, UINT64_MAX / 2,
                                     UINT64_MAX};
            if (round < 5) {
                filters_insert(&f, &key, &more[round], 1);
                want = want + more[round] < want ? UINT64_MAX : want + more[round];
            }
        }
        assert_int_equal(want, UINT64_MAX);
        filters_destroy(&f);
    }
    free(text);
}

/* Past 255, 65,535 and 2^32 counts go on; at 2^64 - 1 they stay. */
static void
test_counters_do_not_wrap(void **state)
{
    (void)state;
    each_engine(check_counters);
}

/* ---- a genome ---- */

/* What jellyfish counts: canonical words with their counts, from its own output. */
static size_t
jellyfish(const char *genome, unsigned k, uint64_t **keys, uint64_t **counts)
{
    char *command = NULL, line[64];
    assert_true(asprintf(&command,
                         "gzip -dc '%s' | jellyfish count -m %u -s 8M -C -o /dev/stdout /dev/fd/0"
                         " | jellyfish dump -c /dev/fd/0",
                         genome, k) > 0);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    size_t n = 0, capacity = 0;
    while (fgets(line, sizeof(line), from) != NULL) {
        char *space = strchr(line, ' ');
        assert_non_null(space);
        if (n == capacity) {
            capacity = capacity == 0 ? 1 << 20 : 2 * capacity;
            *keys = realloc(*keys, capacity * sizeof(**keys));
            *counts = realloc(*counts, capacity * sizeof(**counts));
            assert_true(*keys != NULL && *counts != NULL);
        }
        (*counts)[n] = strtoull(space, NULL, 10);
        *space = '\0';
        (*keys)[n++] = word_of(line);
    }
    if (pclose(from) != 0) {
        fail_msg("failed: %s", command);
    }
    free(command);
    return n;
}

static void
test_words_of_a_genome_are_counted_as_jellyfish_counts_them(void **state)
{
    (void)state;
    enum { K = 21 };
    char *genome = test_genome("ragout/examples/E.Coli/references/MG1655-K12.fasta.gz");
    if (genome == NULL) {
        skip();
    }
    uint64_t *keys = NULL, *counts = NULL;
    const size_t n = jellyfish(genome, K, &keys, &counts);
    assert_true(n > 4500000 && n < 4700000);
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    if (hspz_sequence_file_read(genome, HSPZ_BLOCK_BASES_DEFAULT, NULL, NULL, &seqs, &err) !=
        HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    const struct hspz_block block = hspz_sequences_block(seqs, 0);
    uint64_t *words = malloc(block.len * sizeof(*words));
    assert_non_null(words);
    const size_t word_count = take_words(block.bases, block.len, K, words);
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = filters_open(engines);
    for (size_t e = 0; e < engine_count * 2; e++) {
        if (!filters_has(&engines[e / 2], HSPZ_FILTER_GQF)) {
            continue;
        }
        struct filters_subject f;
        filters_create(&f, &engines[e / 2],
                       &(struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF,
                                                  .capacity = n + n / 20,
                                                  .slot_bits = e % 2 == 0 ? 8 : 64});
        filters_insert(&f, words, NULL, word_count);
        filters_check_counts(&f, keys, counts, n);
        filters_destroy(&f);
    }
    filters_close(engines, engine_count);
    hspz_sequences_destroy(&seqs);
    free(words);
    free(keys);
    free(counts);
    free(genome);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_of_twelve_bases_are_counted),
        cmocka_unit_test(test_no_copy_of_a_word_is_lost),
        cmocka_unit_test(test_folding_changes_no_count),
        cmocka_unit_test(test_counters_do_not_wrap),
        cmocka_unit_test(test_words_of_a_genome_are_counted_as_jellyfish_counts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
