/* The exact counter against sorted arrays. */
#include "engine/cpu/counter.h"
#include "engine/filter.h"
#include "engine/filter_hash.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <inttypes.h>

static const struct hspz_filter_ops *
ops(void)
{
    return hspz_cpu_filter(HSPZ_FILTER_COUNTER);
}

static struct hspz_filter *
create(struct hspz_filter_spec spec, unsigned threads)
{
    struct hspz_filter_plan plan;
    struct hspz_filter *f = NULL;
    spec.kind = HSPZ_FILTER_COUNTER;
    assert_int_equal(hspz_filter_plan(&spec, 0, &plan, NULL), HSPZ_OK);
    plan.threads = threads;
    assert_int_equal(ops()->create(&plan, &f, NULL), HSPZ_OK);
    struct hspz_filter_stats stats;
    ops()->stats(f, &stats);
    assert_true(stats.bytes > 0 && stats.bytes <= plan.bytes);
    return f;
}

static void
run(struct hspz_filter *f, struct hspz_filter_call *call)
{
    struct hspz_error err = {0};
    if (hspz_filter_run(ops(), f, call, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

static uint64_t
count_of(struct hspz_filter *f, uint64_t key)
{
    uint64_t found = 0;
    struct hspz_filter_call call = {
        .op = HSPZ_FILTER_COUNT, .keys = &key, .count = 1, .found = &found};
    run(f, &call);
    assert_int_equal(call.yes_count, found > 0);
    return found;
}

static int
by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Everything there is, as pairs of key and count, as it comes; how many. */
static size_t
enumerate(struct hspz_filter *f, uint64_t (**out)[2])
{
    struct hspz_filter_entry some[777];
    uint64_t cursor = 0;
    size_t all = 0, count = 1;
    *out = NULL;
    while (count > 0) {
        assert_int_equal(ops()->enumerate(f, &cursor, some, 777, &count, NULL), HSPZ_OK);
        *out = realloc(*out, (all + count + 1) * sizeof(**out));
        assert_non_null(*out);
        for (size_t i = 0; i < count; i++, all++) {
            (*out)[all][0] = some[i].fingerprint;
            (*out)[all][1] = some[i].count;
            assert_int_equal(some[i].value, 0);
        }
    }
    return all;
}

/* ---- the mixer ---- */

static void
test_mixing_is_a_permutation_of_so_many_bits(void **state)
{
    (void)state;
    static uint8_t seen[1 << 16];
    const uint64_t salt = hspz_filter_salt(3);
    for (uint64_t key = 0; key < 1 << 16; key++) {
        const uint64_t mixed = hspz_counter_mix(key, salt, 16);
        assert_true(mixed < 1 << 16);
        assert_int_equal(seen[mixed], 0);
        seen[mixed] = 1;
        assert_int_equal(hspz_counter_unmix(mixed, salt, 16), key);
    }
    uint64_t random = 8;
    for (unsigned bits = 16; bits <= 64; bits++) {
        const uint64_t mask = UINT64_MAX >> (64 - bits);
        for (int i = 0; i < 1000; i++) {
            const uint64_t key = test_random(&random) & mask;
            const uint64_t mixed = hspz_counter_mix(key, salt, bits);
            assert_int_equal(mixed & ~mask, 0);
            assert_int_equal(hspz_counter_unmix(mixed, salt, bits), key);
        }
    }
}

/* Keys in a row, as k-mers may be, fall on all shards alike. */
static void
test_shards_get_alike(void **state)
{
    (void)state;
    enum { KEYS = 1 << 18 };
    static const unsigned strides[] = {0, 2, 20};
    for (unsigned bits = 30; bits <= 64; bits += 2) {
        for (size_t s = 0; s < 3 && strides[s] + 18 <= bits; s++) {
            uint32_t counts[HSPZ_COUNTER_SHARDS] = {0};
            for (uint64_t i = 0; i < KEYS; i++) {
                const uint64_t mixed = hspz_counter_mix(i << strides[s], 77, bits);
                counts[mixed >> (bits - HSPZ_COUNTER_SHARD_BITS)]++;
            }
            for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
                if (counts[i] < KEYS / HSPZ_COUNTER_SHARDS / 2 ||
                    counts[i] > KEYS / HSPZ_COUNTER_SHARDS * 2) {
                    fail_msg("%u bits, << %u: shard %u has %u", bits, strides[s], i, counts[i]);
                }
            }
        }
    }
}

/* ---- counts ---- */

/* n keys, of which many are there once and some often. */
static uint64_t *
random_keys(uint64_t *random, size_t n, unsigned k)
{
    const uint64_t mask = k == 0 ? UINT64_MAX : UINT64_MAX >> (64 - 2 * k);
    uint64_t *keys = malloc(n * sizeof(*keys));
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = test_random(random);
        keys[i] = (r % 4 == 0 ? hspz_filter_mix(r >> 8 & 1023) : hspz_filter_mix(r)) & mask;
    }
    return keys;
}

static void
check_counts(struct hspz_filter *f, const uint64_t *keys, size_t n)
{
    uint64_t *sorted = malloc(n * sizeof(*sorted)), (*got)[2];
    memcpy(sorted, keys, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_key);
    const size_t entries = enumerate(f, &got);
    qsort(got, entries, sizeof(*got), by_key);
    size_t at = 0;
    for (size_t i = 0; i < n; at++) {
        size_t same = i;
        while (same < n && sorted[same] == sorted[i]) {
            same++;
        }
        assert_true(at < entries);
        assert_int_equal(got[at][0], sorted[i]);
        assert_int_equal(got[at][1], same - i);
        if (at % 37 == 0) {
            assert_int_equal(count_of(f, sorted[i]), same - i);
        }
        i = same;
    }
    assert_int_equal(at, entries);
    struct hspz_filter_stats stats;
    ops()->stats(f, &stats);
    assert_int_equal(stats.entries, entries);
    assert_int_equal(stats.total, n);
    free(sorted);
    free(got);
}

static void
test_counts_are_exact_for_every_k(void **state)
{
    (void)state;
    static const unsigned ks[] = {0, 1, 2, 3, 4, 5, 8, 9, 11, 13, 15, 21, 31, 32};
    uint64_t random = 4;
    for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i++) {
        const size_t n = i % 5 == 0 ? 60000 : 9001;
        uint64_t *keys = random_keys(&random, n, ks[i]);
        struct hspz_filter *f =
            create((struct hspz_filter_spec){.capacity = 1, .k = ks[i], .seed = i}, 1);
        for (size_t done = 0; done < n;) {
            const size_t count = n - done < 4001 ? n - done : 4001;
            struct hspz_filter_call call = {.keys = keys + done, .count = count};
            run(f, &call);
            assert_int_equal(call.yes_count, count);
            assert_false(call.full);
            done += count;
        }
        check_counts(f, keys, n);
        for (int absent = 0; absent < 1000 && (ks[i] == 0 || ks[i] > 20); absent++) {
            const uint64_t key = test_random(&random) >> (ks[i] == 0 ? 0 : 64 - 2 * ks[i]);
            assert_int_equal(count_of(f, key), 0);
        }
        free(keys);
        ops()->destroy(&f);
    }
}

static void
test_threads_change_nothing(void **state)
{
    (void)state;
    const size_t n = 100000;
    uint64_t random = 6;
    uint64_t *keys = random_keys(&random, n, 31);
    uint64_t(*first)[2] = NULL;
    size_t entries = 0;
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        struct hspz_filter *f = create((struct hspz_filter_spec){.capacity = 1, .k = 31}, threads);
        uint8_t *yes = malloc(n / 8 + 1);
        uint64_t *found = malloc(n * sizeof(*found));
        struct hspz_filter_call call = {.keys = keys, .count = n, .yes = yes};
        run(f, &call);
        assert_int_equal(call.yes_count, n);
        uint64_t(*got)[2];
        const size_t count = enumerate(f, &got);
        if (first == NULL) {
            check_counts(f, keys, n);
            first = got;
            entries = count;
        } else {
            assert_int_equal(count, entries);
            assert_memory_equal(got, first, count * sizeof(*got));
            free(got);
        }
        call.op = HSPZ_FILTER_COUNT;
        call.found = found;
        memset(yes, 0, n / 8 + 1);
        run(f, &call);
        assert_int_equal(call.yes_count, n);
        for (size_t i = 0; i < n; i++) {
            assert_true((yes[i / 8] >> i % 8 & 1) == 1 && found[i] > 0);
        }
        free(yes);
        free(found);
        ops()->destroy(&f);
    }
    free(first);
    free(keys);
}

static void
test_given_counts_add_up_to_the_largest(void **state)
{
    (void)state;
    const uint64_t keys[] = {7, 8, 7, 9, 8, 10};
    const uint64_t counts[] = {1, UINT64_MAX - 1, 5, 0, 3, 1};
    struct hspz_filter *f = create((struct hspz_filter_spec){.slots = 1}, 1);
    struct hspz_filter_call call = {.keys = keys, .counts = counts, .count = 6};
    run(f, &call);
    assert_int_equal(call.yes_count, 6);
    assert_int_equal(count_of(f, 7), 6);
    assert_int_equal(count_of(f, 8), UINT64_MAX);
    assert_int_equal(count_of(f, 9), 0);
    assert_int_equal(count_of(f, 10), 1);
    struct hspz_filter_stats stats;
    ops()->stats(f, &stats);
    assert_int_equal(stats.entries, 3);
    assert_int_equal(stats.total, UINT64_MAX);
    ops()->destroy(&f);
}

static void
test_a_key_of_too_many_bits_is_refused(void **state)
{
    (void)state;
    struct hspz_filter *f = create((struct hspz_filter_spec){.slots = 1, .k = 9}, 1);
    const uint64_t keys[] = {(1 << 18) - 1, 1 << 18};
    struct hspz_filter_call call = {.keys = keys, .count = 2};
    struct hspz_error err = {0};
    assert_int_equal(ops()->run(f, &call, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "key 1 is no 9-mer"));
    assert_int_equal(count_of(f, keys[0]), 0);
    ops()->destroy(&f);
}

/* ---- all at once ---- */

/* Half of the keys in one, all from the middle on in the other. */
static void
two_counters(struct hspz_filter *f[2], const uint64_t *keys, size_t n, unsigned k)
{
    for (int i = 0; i < 2; i++) {
        f[i] = create((struct hspz_filter_spec){.capacity = 1 + 900 * (uint64_t)i, .k = k}, 2);
        struct hspz_filter_call call = {.keys = keys + (size_t)i * (n / 2),
                                        .count = i == 0 ? n / 2 : n - n / 2};
        run(f[i], &call);
    }
}

static void
test_merging_counts_what_both_counted(void **state)
{
    (void)state;
    const size_t n = 50001;
    uint64_t random = 21;
    for (unsigned k = 4; k <= 32; k += 7) {
        uint64_t *keys = random_keys(&random, n, k);
        struct hspz_filter *f[2], *copy = NULL;
        two_counters(f, keys, n, k);
        bool full = true;
        assert_int_equal(ops()->copy(f[0], &copy, NULL), HSPZ_OK);
        assert_int_equal(ops()->merge(f[0], f[1], NULL, &full, NULL), HSPZ_OK);
        assert_false(full);
        check_counts(f[0], keys, n);
        check_counts(f[1], keys + n / 2, n - n / 2);
        check_counts(copy, keys, n / 2);
        /* It goes on counting. */
        struct hspz_filter_call call = {.keys = keys + n / 2, .count = n - n / 2};
        run(copy, &call);
        check_counts(copy, keys, n);
        ops()->destroy(&copy);
        ops()->destroy(&f[0]);
        ops()->destroy(&f[1]);
        free(keys);
    }
}

static void
test_counters_that_differ_are_not_merged(void **state)
{
    (void)state;
    const struct hspz_filter_spec specs[] = {{.slots = 1, .k = 21},
                                             {.slots = 1, .k = 20},
                                             {.slots = 1, .k = 21, .canonical = true},
                                             {.slots = 1, .k = 21, .seed = 3},
                                             {.slots = 1}};
    struct hspz_filter *f = create(specs[0], 1);
    for (size_t i = 1; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct hspz_filter *other = create(specs[i], 1);
        bool full;
        assert_int_equal(ops()->merge(f, other, NULL, &full, NULL), HSPZ_E_BAD_REQUEST);
        ops()->destroy(&other);
    }
    ops()->destroy(&f);
}

static enum hspz_status
read_back(const char *path, struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter_plan plan;
    struct hspz_filter_image image;
    const enum hspz_status status = hspz_filter_read(path, 1 << 21, NULL, &plan, &image, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const enum hspz_status loaded = ops()->load(&plan, &image, NULL, out, err);
    if (loaded == HSPZ_OK) {
        struct hspz_filter_stats stats;
        ops()->stats(*out, &stats);
        assert_true(stats.bytes <= plan.bytes);
        assert_true(ops()->image_bytes(*out) <= plan.bytes);
    }
    hspz_filter_image_fini(&image);
    return loaded;
}

static void
write_bytes(const char *path, const uint8_t *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void
test_files_give_the_counter_again_and_damage_is_refused(void **state)
{
    (void)state;
    static const unsigned ks[] = {0, 5, 21, 32};
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "f");
    uint64_t random = 22;
    for (size_t i = 0; i < 4; i++) {
        const size_t n = i == 2 ? 30000 : 700;
        struct hspz_error err = {0};
        uint64_t *keys = random_keys(&random, n, ks[i]);
        struct hspz_filter *f[2], *again = NULL;
        two_counters(f, keys, n, ks[i]);
        assert_int_equal(hspz_filter_write(ops(), f[0], path, NULL, &err), HSPZ_OK);
        assert_int_equal(read_back(path, &again, &err), HSPZ_OK);
        check_counts(again, keys, n / 2);
        bool full;
        assert_int_equal(ops()->merge(again, f[1], NULL, &full, NULL), HSPZ_OK);
        check_counts(again, keys, n);
        ops()->destroy(&again);
        struct hspz_filter_plan plan;
        assert_int_equal(hspz_filter_read_plan(path, 1000, &plan, &err), HSPZ_E_TOO_LARGE);
        size_t len, damaged = 0;
        uint8_t *bytes = test_read_file(path, &len);
        for (size_t at = 0; at < len; at += 1 + at / 53) {
            bytes[at] ^= 0x10;
            write_bytes(path, bytes, len);
            const enum hspz_status status = read_back(path, &again, &err);
            if (status == HSPZ_OK) { /* between the arrays nothing is kept */
                ops()->destroy(&again);
                assert_int_equal(bytes[at], 0x10);
            } else {
                assert_int_equal(status, HSPZ_E_BAD_FILE);
                assert_non_null(strstr(err.text, "/f is no filter file"));
                damaged++;
            }
            bytes[at] ^= 0x10;
            write_bytes(path, bytes, at);
            assert_int_equal(read_back(path, &again, &err), HSPZ_E_BAD_FILE);
        }
        assert_true(damaged > 100);
        free(bytes);
        free(keys);
        ops()->destroy(&f[0]);
        ops()->destroy(&f[1]);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

/* Content whose checksums are right but which no counter has. */
static void
test_images_that_no_counter_has_are_refused(void **state)
{
    (void)state;
    enum { SINGLES = 3, PAIRS = 2 };
    static const struct {
        int array;
        size_t at;
        uint64_t value;
        const char *why;
    } cases[] = {
        {0, 1, UINT64_C(1) << 42, "too many bits"},
        {0, 2, 10, "there twice"},
        {1, 0, 11, "there twice"},
        {1, 2, 20, "there twice"},
        {1, 3, 0, "never there"},
        {1, 1, 7, "another sum"},
    };
    for (size_t c = 0; c <= sizeof(cases) / sizeof(cases[0]); c++) {
        uint64_t singles[SINGLES] = {10, 11, 12}, pairs[2 * PAIRS] = {20, 5, 21, UINT64_MAX};
        struct hspz_filter_image image = {.arrays = {singles, pairs},
                                          .bytes = {sizeof(singles), sizeof(pairs)},
                                          .entries = 5,
                                          .total = UINT64_MAX};
        struct hspz_filter_plan plan;
        struct hspz_filter *f = NULL;
        struct hspz_error err = {0};
        const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_COUNTER, .slots = 1, .k = 21};
        assert_int_equal(hspz_filter_plan(&spec, 0, &plan, NULL), HSPZ_OK);
        if (c == sizeof(cases) / sizeof(cases[0])) {
            assert_int_equal(ops()->load(&plan, &image, NULL, &f, &err), HSPZ_OK);
            assert_int_equal(count_of(f, 12), 1);
            assert_int_equal(count_of(f, 20), 5);
            ops()->destroy(&f);
            image.entries = 4;
            assert_int_equal(ops()->load(&plan, &image, NULL, &f, &err), HSPZ_E_BAD_FILE);
            image.entries = 5;
            image.bytes[1] -= 8;
            assert_int_equal(ops()->load(&plan, &image, NULL, &f, &err), HSPZ_E_BAD_FILE);
            continue;
        }
        (cases[c].array == 0 ? singles : pairs)[cases[c].at] = cases[c].value;
        if (cases[c].at == 1 && cases[c].array == 1) {
            pairs[3] = 2; /* no sum that stays at the largest */
        }
        assert_int_equal(ops()->load(&plan, &image, NULL, &f, &err), HSPZ_E_BAD_FILE);
        if (strstr(err.text, cases[c].why) == NULL) {
            fail_msg("case %zu: %s", c, err.text);
        }
    }
}

/* ---- memory ---- */

static void
test_what_did_not_fit_is_said_and_the_rest_is_exact(void **state)
{
    (void)state;
    const size_t n = 200000;
    uint64_t random = 10, in = 0;
    uint64_t *keys = malloc(n * sizeof(*keys)), *counts = malloc(n * sizeof(*counts));
    uint8_t *yes = malloc(n / 8 + 1);
    for (size_t i = 0; i < n; i++) {
        keys[i] = test_random(&random); /* each once */
        counts[i] = 1 + (i % 2 == 0);
    }
    struct hspz_filter *f = create((struct hspz_filter_spec){.slots = 1}, 3);
    struct hspz_filter_call call = {
        .keys = keys, .counts = counts, .count = n, .yes = yes, .memory_bytes = 1500000};
    run(f, &call);
    assert_true(call.full);
    for (size_t i = 0; i < n; i++) {
        const bool said = (yes[i / 8] >> i % 8 & 1) != 0;
        assert_int_equal(count_of(f, keys[i]), said ? counts[i] : 0);
        in += said;
    }
    assert_int_equal(call.yes_count, in);
    assert_true(in > 50000 && in < n);
    struct hspz_filter_stats stats;
    ops()->stats(f, &stats);
    assert_true(stats.bytes <= 1500000 && stats.bytes > 1000000);
    assert_int_equal(stats.entries, in);
    free(keys);
    free(counts);
    free(yes);
    ops()->destroy(&f);
}

/* Bytes for each of n keys that are there `times` times. */
static double
bytes_per_key(unsigned k, size_t n, uint64_t times)
{
    uint64_t random = k;
    uint64_t *keys = malloc(n * sizeof(*keys)), *counts = malloc(n * sizeof(*counts));
    for (size_t i = 0; i < n; i++) {
        keys[i] = test_random(&random) >> (64 - 2 * k);
        counts[i] = times;
    }
    struct hspz_filter *f = create((struct hspz_filter_spec){.slots = 1, .k = k}, 2);
    struct hspz_filter_stats before, after;
    ops()->stats(f, &before);
    const uint64_t most = before.bytes + ops()->room(f, n);
    struct hspz_filter_call call = {
        .keys = keys, .counts = counts, .count = n, .memory_bytes = most};
    run(f, &call);
    assert_false(call.full);
    ops()->stats(f, &after);
    assert_true(after.bytes <= most);
    assert_true(after.entries > n - n / 100);
    free(keys);
    free(counts);
    ops()->destroy(&f);
    return (double)after.bytes / (double)after.entries;
}

static void
test_single_keys_need_far_less_than_pairs(void **state)
{
    (void)state;
    static const struct {
        unsigned k;
        double times;
    } cases[] = {{21, 4}, {31, 2.5}};
    for (size_t i = 0; i < 2; i++) {
        const double single = bytes_per_key(cases[i].k, 150000, 1);
        const double plain = bytes_per_key(cases[i].k, 150000, 2);
        if (cases[i].times * single > plain) {
            fail_msg("%u-mers that came once need %g bytes, others %g", cases[i].k, single, plain);
        }
        assert_true(plain > 16);
    }
}

static void
test_every_allocation_may_fail(void **state)
{
    (void)state;
    const size_t n = 5000;
    uint64_t random = 12;
    uint64_t *keys = random_keys(&random, n, 0);
    struct hspz_filter_plan plan;
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_COUNTER, .slots = 1};
    assert_int_equal(hspz_filter_plan(&spec, 0, &plan, NULL), HSPZ_OK);
    bool done = false;
    unsigned refused = 0;
    for (long nth = 1; !done; nth += nth < 6 ? 1 : 97) {
        struct hspz_filter *f = NULL;
        failing_malloc_arm(nth);
        enum hspz_status status = ops()->create(&plan, &f, NULL);
        struct hspz_filter_call call = {.keys = keys, .count = n};
        if (status == HSPZ_OK) {
            status = ops()->run(f, &call, NULL);
        }
        done = !failing_malloc_disarm();
        refused += status == HSPZ_E_OUT_OF_MEMORY;
        assert_true(status == HSPZ_OK || (!done && status == HSPZ_E_OUT_OF_MEMORY));
        if (status == HSPZ_OK && !call.full) {
            check_counts(f, keys, n);
        }
        ops()->destroy(&f);
    }
    assert_true(refused > 3);
    free(keys);
}

static void
test_every_allocation_of_a_merge_or_file_may_fail(void **state)
{
    (void)state;
    const size_t n = 3000;
    uint64_t random = 23;
    uint64_t *keys = random_keys(&random, n, 21);
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "f");
    bool done = false;
    unsigned refused = 0;
    struct hspz_filter *f[2];
    two_counters(f, keys, n, 21);
    for (long nth = 1; !done; nth += nth < 20 ? 1 : 61) {
        struct hspz_filter *copy = NULL, *again = NULL;
        bool full = false, merged = false;
        failing_malloc_arm(nth);
        enum hspz_status status = ops()->copy(f[0], &copy, NULL);
        if (status == HSPZ_OK) {
            status = ops()->merge(copy, f[1], NULL, &full, NULL);
            merged = status == HSPZ_OK;
        }
        if (status == HSPZ_OK) {
            status = hspz_filter_write(ops(), copy, path, NULL, NULL);
        }
        if (status == HSPZ_OK) {
            status = read_back(path, &again, NULL);
        }
        done = !failing_malloc_disarm();
        refused += status != HSPZ_OK;
        assert_true(status == HSPZ_OK || (!done && status == HSPZ_E_OUT_OF_MEMORY));
        if (copy != NULL) {
            check_counts(copy, keys, merged ? n : n / 2);
        }
        if (status == HSPZ_OK) {
            check_counts(again, keys, n);
        }
        ops()->destroy(&copy);
        ops()->destroy(&again);
    }
    assert_true(refused > 10);
    ops()->destroy(&f[0]);
    ops()->destroy(&f[1]);
    free(keys);
    free(path);
    test_tmpdir_remove(&dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixing_is_a_permutation_of_so_many_bits),
        cmocka_unit_test(test_shards_get_alike),
        cmocka_unit_test(test_counts_are_exact_for_every_k),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_given_counts_add_up_to_the_largest),
        cmocka_unit_test(test_a_key_of_too_many_bits_is_refused),
        cmocka_unit_test(test_what_did_not_fit_is_said_and_the_rest_is_exact),
        cmocka_unit_test(test_single_keys_need_far_less_than_pairs),
        cmocka_unit_test(test_merging_counts_what_both_counted),
        cmocka_unit_test(test_counters_that_differ_are_not_merged),
        cmocka_unit_test(test_files_give_the_counter_again_and_damage_is_refused),
        cmocka_unit_test(test_images_that_no_counter_has_are_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_merge_or_file_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
