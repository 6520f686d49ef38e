#include "engine/index.h"

#include "tests/engine/index_cases.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* pthread_create, made to fail from the n-th call on. */
typedef void *(*thread_fn)(void *);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_fn fn, void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_fn fn, void *arg);
static long threads_left = -1;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_fn fn, void *arg)
{
    if (threads_left == 0) {
        return 11; /* EAGAIN */
    }
    threads_left -= threads_left > 0;
    return __real_pthread_create(thread, attr, fn, arg);
}

struct occurrence {
    uint32_t word, start;
};

static int
compare_occurrences(const void *a, const void *b)
{
    const struct occurrence *x = a;
    const struct occurrence *y = b;
    if (x->word != y->word) {
        return x->word < y->word ? -1 : 1;
    }
    return x->start < y->start ? -1 : x->start > y->start;
}

/* SPEC section 1, letter by letter. The indexed starts are those p with p + span + 1 a multiple of
 * the step; the oracle's rule leaves out p = 0. */
static size_t
brute_occurrences(const uint8_t *bases, size_t len, const struct hspz_index_params *params,
                  struct occurrence *out)
{
    const char *pattern = params->shape.pattern;
    const size_t span = strlen(pattern);
    size_t count = 0;
    for (size_t p = params->all_positions ? 0 : 1; p + span <= len; p++) {
        bool valid = (p + span + 1) % params->step == 0;
        uint32_t word = 0;
        for (size_t i = 0; i < span && valid; i++) {
            const char *letters = params->unmask ? "AaCcGgTt" : "A-C-G-T-";
            const char *place = strchr(letters, bases[p + i]);
            valid = place != NULL && *place != '-';
            if (valid && pattern[i] == '1') {
                word = word * 4 + (uint32_t)(place - letters) / 2;
            }
        }
        if (valid) {
            out[count++] = (struct occurrence){.word = word, .start = (uint32_t)p};
        }
    }
    qsort(out, count, sizeof(*out), compare_occurrences);
    return count;
}

static void
assert_block_is_brute_force(struct hspz_index_block block, const struct hspz_index_params *params)
{
    struct occurrence *wanted = malloc((block.bases_len + 1) * sizeof(*wanted));
    assert_non_null(wanted);
    const size_t count = brute_occurrences(block.bases, block.bases_len, params, wanted);
    assert_int_equal(block.pos_count, count);
    size_t seen = 0;
    for (uint32_t w = 0; w < UINT32_C(1) << (2 * params->shape.weight); w++) {
        while (seen < count && wanted[seen].word == w) {
            if (block.pos[seen] != wanted[seen].start) {
                fail_msg("position %zu is %u, should be %u", seen, block.pos[seen],
                         wanted[seen].start);
            }
            seen++;
        }
        if (block.table[w] != seen) {
            fail_msg("table entry %u is %u, should be %zu", w, block.table[w], seen);
        }
    }
    assert_int_equal(seen, count);
    free(wanted);
}

/* `weight` care places in `span`, the first and last now and then don't-care. */
static void
random_pattern(uint64_t *random, size_t weight, size_t span, char *pattern)
{
    memset(pattern, '0', span);
    pattern[span] = '\0';
    for (size_t placed = 0; placed < weight;) {
        const size_t at = test_random(random) % span;
        placed += pattern[at] == '0';
        pattern[at] = '1';
    }
}

static void
test_index_equals_brute_force(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 2, 3, 7, 16};
    uint64_t random = 20;
    uint64_t positions = 0;
    size_t several_blocks = 0;
    for (unsigned round = 0; round < 400; round++) {
        const size_t weight = round % 50 == 49 ? 9 + round / 50 % 2 : 4 + test_random(&random) % 4;
        const size_t span = weight + test_random(&random) % (65 - weight);
        char pattern[65];
        random_pattern(&random, weight, round % 3 == 0 ? span % 20 + weight : span, pattern);
        const struct hspz_index_params params =
            index_case_params(pattern, 1 + (uint32_t)(test_random(&random) % 7),
                              test_random(&random) % 2 == 0, test_random(&random) % 2 == 0);
        struct hspz_sequences *seqs = index_case_random(&random, 1 + test_random(&random) % 12, 500,
                                                        1 + test_random(&random) % 2000);
        struct hspz_index *index = index_case_build(&seqs, &params, threads[round % 5]);
        const size_t blocks = hspz_index_block_count(index);
        assert_int_equal(blocks, hspz_sequences_block_count(hspz_index_sequences(index)));
        several_blocks += blocks > 1;
        for (size_t b = 0; b < blocks; b++) {
            const struct hspz_index_block block = hspz_index_get_block(index, b);
            assert_ptr_equal(block.bases,
                             hspz_sequences_block(hspz_index_sequences(index), b).bases);
            assert_block_is_brute_force(block, &params);
            positions += block.pos_count;
        }
        hspz_index_release(&index);
        assert_null(index);
    }
    assert_true(several_blocks > 50);
    assert_true(positions > 50000);
}

static void
test_index_is_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 2, 3, 7, 16, 0, 100000};
    const struct hspz_index_params params = index_case_params("11101001100101", 1, true, false);
    char digest[17] = "";
    struct hspz_index *first = NULL;
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
        uint64_t random = 7;
        struct hspz_sequences *seqs = index_case_random(&random, 40, 20000, 150000);
        struct hspz_index *index = index_case_build(&seqs, &params, threads[t]);
        assert_true(hspz_index_block_count(index) > 1);
        if (first == NULL) {
            strcpy(digest, hspz_index_digest(index));
            first = hspz_index_acquire(index);
        }
        assert_string_equal(hspz_index_digest(index), digest);
        for (size_t b = 0; b < hspz_index_block_count(first); b++) {
            const struct hspz_index_block x = hspz_index_get_block(first, b);
            const struct hspz_index_block y = hspz_index_get_block(index, b);
            assert_int_equal(x.pos_count, y.pos_count);
            assert_true(x.pos_count > 10000);
            assert_memory_equal(x.pos, y.pos, x.pos_count * sizeof(uint32_t));
            assert_memory_equal(x.table, y.table, sizeof(uint32_t) << 16);
        }
        hspz_index_release(&index);
    }
    hspz_index_release(&first);
}

static void
test_index_of_one_letter_is_one_bucket(void **state)
{
    (void)state;
    enum { LEN = 70000 };
    uint8_t *bases = malloc(LEN);
    assert_non_null(bases);
    memset(bases, 'A', LEN);
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        const struct hspz_index_params params = index_case_params("11101001", 1, false, true);
        struct hspz_sequences *seqs = NULL;
        assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
        index_case_add(seqs, "a", bases, LEN);
        struct hspz_index *index = index_case_build(&seqs, &params, threads);
        const struct hspz_index_block block = hspz_index_get_block(index, 0);
        assert_int_equal(block.pos_count, LEN - 8 + 1);
        for (uint32_t w = 0; w < 1024; w++) {
            assert_int_equal(block.table[w], block.pos_count);
        }
        for (uint32_t i = 0; i < block.pos_count; i++) {
            assert_int_equal(block.pos[i], i);
        }
        hspz_index_release(&index);
    }
    free(bases);
}

static void
test_index_without_any_word_is_an_index(void **state)
{
    (void)state;
    const struct hspz_index_params params = index_case_params("12of19", 1, false, false);
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    index_case_add(seqs, "short", (const uint8_t *)"ACGTACGTAC", 10);
    index_case_add(seqs, "empty", (const uint8_t *)"", 0);
    index_case_add(seqs, "short2", (const uint8_t *)"ACGTACGTACGTACGTAC", 18);
    struct hspz_index *index = index_case_build(&seqs, &params, 3);
    const struct hspz_index_block block = hspz_index_get_block(index, 0);
    assert_int_equal(block.bases_len, 30);
    assert_int_equal(block.pos_count, 0);
    assert_non_null(block.pos);
    assert_int_equal(block.table[(1 << 24) - 1], 0);
    hspz_index_release(&index);
}

static void
test_digest_depends_on_content_alone(void **state)
{
    (void)state;
    char digests[6][17];
    for (unsigned i = 0; i < 6; i++) {
        const struct hspz_index_params params =
            index_case_params(i == 1 ? "11011" : "11101", i == 2 ? 2 : 1, i == 3, false);
        struct hspz_sequences *seqs = NULL;
        assert_int_equal(hspz_sequences_create(i == 5 ? 77 : 0, &seqs), HSPZ_OK);
        index_case_add(seqs, i == 4 ? "y" : "x", (const uint8_t *)"ACGTTGCATTAGACCA", 16);
        struct hspz_index *index = index_case_build(&seqs, &params, 1);
        strcpy(digests[i], hspz_index_digest(index));
        assert_int_equal(strspn(digests[i], "0123456789abcdef"), 16);
        assert_string_equal(hspz_index_version(index), HSPZ_VERSION);
        assert_int_equal(hspz_index_bytes(index),
                         1024 + 4 * hspz_index_get_block(index, 0).pos_count + 16 + 1);
        hspz_index_release(&index);
    }
    for (unsigned i = 0; i < 6; i++) {
        for (unsigned j = 0; j < i; j++) {
            const bool same = strcmp(digests[i], digests[j]) == 0;
            assert_int_equal(same, i == 5 && j == 0);
        }
    }
}

static void
test_need_is_exact_beyond_32_bits(void **state)
{
    (void)state;
    static const struct {
        uint64_t len, oracle, all; /* positions, worked out by hand */
    } walls[] = {
        {UINT64_C(2147483647), UINT64_C(2147483628), UINT64_C(2147483629)},
        {UINT64_C(2147483648), UINT64_C(2147483629), UINT64_C(2147483630)},
        {UINT64_C(2147483658), UINT64_C(2147483639), UINT64_C(2147483640)},
        {UINT64_C(4294967295), UINT64_C(4294967276), UINT64_C(4294967277)},
        {UINT64_C(4294967296), UINT64_C(4294967277), UINT64_C(4294967278)},
    };
    struct hspz_index_params params = index_case_params("12of19", 1, false, false);
    struct hspz_index_need need;
    for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++) {
        params.all_positions = false;
        hspz_index_need(&params, &walls[i].len, 1, 1, &need);
        assert_true(need.position_bytes == 4 * walls[i].oracle);
        assert_true(need.table_bytes == UINT64_C(67108864));
        assert_true(need.sequence_bytes == walls[i].len);
        assert_true(need.total_bytes ==
                    need.position_bytes + need.table_bytes + need.sequence_bytes + need.work_bytes);
        params.all_positions = true;
        hspz_index_need(&params, &walls[i].len, 1, 1, &need);
        assert_true(need.position_bytes == 4 * walls[i].all);
    }
    params = index_case_params("111111111111111", 3, false, false);
    const uint64_t lens[] = {100, 0, 14, UINT64_MAX, UINT64_MAX};
    hspz_index_need(&params, lens, 3, 2, &need);
    assert_true(need.table_bytes == 3 * UINT64_C(4294967296));
    assert_true(need.position_bytes == 4 * 28); /* 2, 5, ... 83 */
    hspz_index_need(&params, lens, 5, 2, &need);
    assert_true(need.total_bytes == UINT64_MAX);
}

static void
test_budget_refuses_before_allocating(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *table;
        bool fits;
    } weights[] = {
        {"12of19", "67108864", true},
        {"14of22", "1073741824", true},
        {"111111111111111", "4294967296", false},
    };
    const uint64_t budget = UINT64_C(2) << 30;
    for (unsigned i = 0; i < 3; i++) {
        const struct hspz_index_params params =
            index_case_params(weights[i].pattern, 1, false, false);
        const uint64_t len = 1000000;
        struct hspz_index_need need;
        hspz_index_need(&params, &len, 1, 2, &need);
        assert_int_equal(need.total_bytes <= budget, weights[i].fits);
        char table[24];
        snprintf(table, sizeof(table), "%llu", (unsigned long long)need.table_bytes);
        assert_string_equal(table, weights[i].table);
    }

    uint64_t random = 3;
    const struct hspz_index_params params = index_case_params("111111111111111", 1, false, false);
    struct hspz_sequences *seqs = index_case_random(&random, 5, 100, 0);
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    failing_malloc_arm(3); /* the sizes of the blocks are the only allocation */
    assert_int_equal(hspz_index_build(&seqs, &params, 2, budget, NULL, NULL, &index, &err),
                     HSPZ_E_TOO_LARGE);
    assert_false(failing_malloc_disarm());
    assert_non_null(strstr(err.text, "table 4294967296"));
    assert_non_null(strstr(err.text, "2147483648"));
    assert_true(err.has_limit && err.limit == budget);
    assert_null(index);
    assert_non_null(seqs);
    hspz_sequences_destroy(&seqs);
}

static void
test_build_refuses_what_makes_no_index(void **state)
{
    (void)state;
    struct hspz_index_params params = index_case_params("11101", 0, false, false);
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = NULL;
    struct hspz_error err;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(hspz_index_build(&seqs, &params, 1, 0, NULL, NULL, &index, &err),
                     HSPZ_E_BAD_REQUEST);
    params.step = 1;
    assert_int_equal(hspz_index_build(&seqs, &params, 1, 0, NULL, NULL, &index, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "at least one sequence"));
    hspz_sequences_destroy(&seqs);
}

struct progress_log {
    unsigned calls, stop_at;
    uint64_t last, total;
    pthread_t thread;
};

static bool
log_progress(void *user, uint64_t done, uint64_t total)
{
    struct progress_log *log = user;
    assert_true(pthread_equal(log->thread, pthread_self()));
    assert_true(done >= log->last && done <= total);
    log->last = done;
    log->total = total;
    return ++log->calls != log->stop_at;
}

static void
test_progress_is_told_and_can_stop(void **state)
{
    (void)state;
    const struct hspz_index_params params = index_case_params("1110101", 1, false, false);
    for (unsigned stop_at = 0; stop_at <= 4; stop_at++) {
        uint64_t random = 4;
        struct hspz_sequences *seqs = index_case_random(&random, 10, 20000, 40000);
        const size_t blocks = hspz_sequences_block_count(seqs);
        assert_true(blocks >= 2);
        struct progress_log log = {.stop_at = stop_at, .thread = pthread_self()};
        struct hspz_index *index = NULL;
        struct hspz_error err;
        const enum hspz_status status =
            hspz_index_build(&seqs, &params, 3, 0, log_progress, &log, &index, &err);
        if (stop_at == 0) {
            assert_int_equal(status, HSPZ_OK);
            assert_true(log.calls >= 2 * blocks);
            assert_true(log.last > log.total / 2);
        } else {
            assert_int_equal(status, HSPZ_E_STOPPED);
            assert_int_equal(log.calls, stop_at);
            assert_null(index);
            assert_non_null(seqs);
            assert_true(hspz_sequences_count(seqs) == 10);
        }
        hspz_index_release(&index);
        hspz_sequences_destroy(&seqs);
    }
}

static void
test_build_survives_every_failing_allocation(void **state)
{
    (void)state;
    const struct hspz_index_params params = index_case_params("1110101", 1, false, false);
    bool reached = true;
    long n = 0;
    while (reached) {
        uint64_t random = 4;
        struct hspz_sequences *seqs = index_case_random(&random, 6, 300, 400);
        struct hspz_index *index = NULL;
        failing_malloc_arm(++n);
        const enum hspz_status status =
            hspz_index_build(&seqs, &params, 1, 0, NULL, NULL, &index, NULL);
        reached = failing_malloc_disarm();
        assert_int_equal(status, reached ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_true((index == NULL) == reached);
        assert_true((seqs == NULL) != reached);
        hspz_index_release(&index);
        hspz_sequences_destroy(&seqs);
    }
    assert_true(n > 5);
}

static void
test_build_manages_without_threads(void **state)
{
    (void)state;
    const struct hspz_index_params params = index_case_params("1110101", 2, false, false);
    char digest[17] = "";
    for (long allowed = 0; allowed < 12; allowed++) {
        uint64_t random = 4;
        struct hspz_sequences *seqs = index_case_random(&random, 6, 3000, 4000);
        threads_left = allowed;
        struct hspz_index *index = index_case_build(&seqs, &params, 4);
        threads_left = -1;
        assert_block_is_brute_force(hspz_index_get_block(index, 0), &params);
        if (allowed == 0) {
            strcpy(digest, hspz_index_digest(index));
        }
        assert_string_equal(hspz_index_digest(index), digest);
        hspz_index_release(&index);
    }
}

static void
test_given_tables_are_checked_and_copied(void **state)
{
    (void)state;
    const struct hspz_index_params params = index_case_params("1111", 1, false, true);
    const uint8_t bases[] = "ACGTACGT&&TTTT&";
    const uint32_t len = sizeof(bases) - 1;
    uint32_t table[256] = {0};
    uint32_t pos[] = {0, 4, 1, 10};
    for (unsigned w = 0; w < 256; w++) { /* ACGT = 27, CGTA = 108, TTTT = 255 */
        table[w] = w < 27 ? 0 : w < 108 ? 2 : w < 255 ? 3 : 4;
    }
    struct hspz_index *index = NULL;
    struct hspz_error err;
    assert_int_equal(hspz_index_from_tables(&params, bases, len, table, pos, 4, &index, &err),
                     HSPZ_OK);
    const struct hspz_index_block block = hspz_index_get_block(index, 0);
    assert_int_equal(block.pos_count, 4);
    assert_memory_equal(block.pos, pos, sizeof(pos));
    assert_memory_equal(block.table, table, sizeof(table));
    assert_int_equal(block.bases_len, len);
    assert_memory_equal(block.bases, bases, len);
    assert_int_equal(hspz_sequences_count(hspz_index_sequences(index)), 4);
    hspz_index_release(&index);

    assert_int_equal(hspz_index_from_tables(&params, NULL, len, table, pos, 4, &index, &err),
                     HSPZ_OK);
    assert_null(hspz_index_get_block(index, 0).bases);
    assert_int_equal(hspz_index_get_block(index, 0).bases_len, len);
    hspz_index_release(&index);
    assert_int_equal(
        hspz_index_from_tables(&params, bases, 0, (uint32_t[256]){0}, NULL, 0, &index, &err),
        HSPZ_OK);
    hspz_index_release(&index);

    static const struct {
        unsigned entry, table;
        unsigned place, pos;
        uint32_t count;
        const char *reason;
    } bad[] = {
        {30, 5, 0, 0, 4, "table entry 30"},
        {30, 1, 0, 0, 4, "table entry 30"},
        {255, 3, 0, 0, 4, "ends at 3"},
        {255, 4, 0, 0, 3, "table entry 255"},
        {255, 4, 1, 0, 4, "ascend"},
        {255, 4, 3, 12, 4, "position 12"},
        {255, 4, 3, 4294967295u, 4, "position 4294967295"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const uint32_t old_table = table[bad[i].entry];
        const uint32_t old_pos = pos[bad[i].place];
        table[bad[i].entry] = bad[i].table;
        pos[bad[i].place] = bad[i].pos;
        assert_int_equal(
            hspz_index_from_tables(&params, bases, len, table, pos, bad[i].count, &index, &err),
            HSPZ_E_BAD_FILE);
        assert_null(index);
        if (strstr(err.text, bad[i].reason) == NULL) {
            fail_msg("%s: no '%s'", err.text, bad[i].reason);
        }
        table[bad[i].entry] = old_table;
        pos[bad[i].place] = old_pos;
    }

    bool reached = true;
    for (long n = 1; reached; n++) {
        failing_malloc_arm(n);
        const enum hspz_status status =
            hspz_index_from_tables(&params, bases, len, table, pos, 4, &index, NULL);
        reached = failing_malloc_disarm();
        assert_int_equal(status, reached ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_index_release(&index);
    }
}

/* SHA-256 by coreutils, as the 64 hex digits. */
static void
sha256(const char *tmpdir, const void *data, size_t bytes, char digest[65])
{
    char *result = test_path(tmpdir, "sum");
    char *command = NULL;
    assert_true(asprintf(&command, "sha256sum > '%s'", result) > 0);
    FILE *pipe = popen(command, "w");
    assert_non_null(pipe);
    assert_int_equal(fwrite(data, 1, bytes, pipe), bytes);
    assert_int_equal(pclose(pipe), 0);
    size_t len;
    uint8_t *text = test_read_file(result, &len);
    assert_true(len > 64);
    memcpy(digest, text, 64);
    digest[64] = '\0';
    free(text);
    free(command);
    free(result);
}

/* The data's hash stands in the set's SHA256SUMS under `name`; where the file itself is kept, its
 * bytes are the same too. */
static void
assert_oracle_file(const char *set_dir, const char *tmpdir, const char *name, const void *data,
                   size_t bytes)
{
    size_t sums_len;
    char *sums_path = test_path(set_dir, "SHA256SUMS");
    uint8_t *sums = test_read_file(sums_path, &sums_len);
    const char *row = strstr((const char *)sums, name);
    assert_non_null(row);
    assert_true(row >= (const char *)sums + 66);
    char digest[65];
    sha256(tmpdir, data, bytes, digest);
    if (memcmp(row - 66, digest, 64) != 0) {
        fail_msg("%s/%s: the hash is %s", set_dir, name, digest);
    }
    char *path = test_path(set_dir, name);
    if (access(path, F_OK) == 0) {
        size_t len;
        uint8_t *wanted = test_read_file(path, &len);
        assert_int_equal(len, bytes);
        assert_memory_equal(wanted, data, len);
        free(wanted);
    }
    free(path);
    free(sums);
    free(sums_path);
}

static void
test_index_equals_oracle(void **state)
{
    (void)state;
    static const struct {
        const char *set, *fasta, *pattern;
        uint32_t step;
    } sets[] = {
        {"mini8", "data/mini_t.fa", "1110100110101", 1},
        {"mini8t", "data/mini_t.fa", "1110100110101", 1},
        {"mini12", "data/mini_t.fa", "12of19", 1},
        {"mini12step3", "data/mini_t.fa", "12of19", 3},
        {"mini14", "data/mini_t.fa", "14of22", 1},
        {"apple", "data/apple.fasta.gz", "12of19", 1},
        {"ecoli", "ragout/examples/E.Coli/references/MG1655-K12.fasta.gz", "12of19", 1},
    };
    const char *shared = test_shared_dir();
    if (shared == NULL) {
        skip();
    }
    char *tmpdir = test_tmpdir_make();
    char *oracle = test_path(shared, "oracle");
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        char *fasta = strncmp(sets[i].fasta, "data/", 5) == 0 ? test_path(shared, sets[i].fasta)
                                                              : test_genome(sets[i].fasta);
        if (fasta == NULL) {
            print_message("%s is absent: not compared\n", sets[i].fasta);
            continue;
        }
        struct hspz_sequences *seqs = index_case_fasta(fasta);
        assert_non_null(seqs);
        const struct hspz_index_params params =
            index_case_params(sets[i].pattern, sets[i].step, false, false);
        struct hspz_index *index = index_case_build(&seqs, &params, 1 + (unsigned)i % 3);
        const struct hspz_index_block block = hspz_index_get_block(index, 0);
        char *set_dir = test_path(oracle, sets[i].set);
        assert_oracle_file(set_dir, tmpdir, "dump/pos_table.u32", block.pos,
                           block.pos_count * sizeof(uint32_t));
        assert_oracle_file(set_dir, tmpdir, "dump/index_table.u32", block.table,
                           sizeof(uint32_t) << (2 * params.shape.weight));
        hspz_index_release(&index);
        free(set_dir);
        free(fasta);
    }
    free(oracle);
    test_tmpdir_remove(&tmpdir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_equals_brute_force),
        cmocka_unit_test(test_index_is_the_same_for_any_number_of_threads),
        cmocka_unit_test(test_index_of_one_letter_is_one_bucket),
        cmocka_unit_test(test_index_without_any_word_is_an_index),
        cmocka_unit_test(test_digest_depends_on_content_alone),
        cmocka_unit_test(test_need_is_exact_beyond_32_bits),
        cmocka_unit_test(test_budget_refuses_before_allocating),
        cmocka_unit_test(test_build_refuses_what_makes_no_index),
        cmocka_unit_test(test_progress_is_told_and_can_stop),
        cmocka_unit_test(test_build_survives_every_failing_allocation),
        cmocka_unit_test(test_build_manages_without_threads),
        cmocka_unit_test(test_given_tables_are_checked_and_copied),
        cmocka_unit_test(test_index_equals_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
