#include "engine/cut.h"

#include "tests/support/test.h"

#define CHUNKS_LIMIT 128

/* SPEC C.3, word for word, over plain counts: chunk ends as last seeds; returns how many chunks. */
static int
brute_force(const uint64_t *counts, int n, uint64_t cap, struct hspz_chunk *chunks)
{
    uint64_t P[256], H = 0, start_hit = 0;
    int made = 0, first = 0;
    for (int i = 0; i < n; i++) {
        P[i] = H += counts[i];
    }
    while (H - start_hit > cap) {
        int b = 0;
        while (P[b] < start_hit + cap) {
            b++;
        }
        int last = b - 1;
        if (last < first || P[last] == start_hit) {
            last = b;
        }
        chunks[made++] =
            (struct hspz_chunk){(uint64_t)first, (uint64_t)last + 1, start_hit, P[last]};
        start_hit = P[last];
        first = last + 1;
    }
    if (H > start_hit) {
        chunks[made++] = (struct hspz_chunk){(uint64_t)first, (uint64_t)n, start_hit, H};
    }
    return made;
}

static void
check_cuts(const uint64_t *counts, int n, uint64_t cap)
{
    uint32_t sums[1024];
    uint64_t total = 0;
    for (int i = 0; i < n; i++) {
        total += counts[i];
        sums[i] = (uint32_t)total;
    }
    struct hspz_chunk want[CHUNKS_LIMIT];
    const int made = brute_force(counts, n, cap, want);
    assert_true((total > 0) == (made > 0));
    static const hspz_cut_find_fn walks[] = {hspz_prefix_find_blocks, hspz_prefix_find_full};
    for (size_t w = 0; w < 2; w++) {
        struct hspz_prefix prefix = {.sums = sums, .count = (uint64_t)n};
        struct hspz_chunk chunk = {0};
        for (int c = 0; c < made; c++) {
            if (hspz_cut_next((uint64_t)n, total, cap, walks[w], &prefix, &chunk) !=
                    HSPZ_CUT_CHUNK ||
                memcmp(&chunk, &want[c], sizeof(chunk)) != 0) {
                fail_msg("walk %zu cap %lu chunk %d", w, (unsigned long)cap, c);
            }
        }
        assert_int_equal(hspz_cut_next((uint64_t)n, total, cap, walks[w], &prefix, &chunk),
                         HSPZ_CUT_NONE);
    }
}

static void
test_cut_equals_brute_force_for_every_small_vector(void **state)
{
    (void)state;
    uint64_t counts[5] = {0};
    for (int code = 0; code < 13 * 13 * 13 * 13 * 13; code++) {
        for (int i = 0, rest = code; i < 5; i++, rest /= 13) {
            counts[i] = (uint64_t)(rest % 13);
        }
        for (uint64_t cap = 1; cap <= 14; cap++) {
            check_cuts(counts, 5, cap);
        }
    }
}

static void
test_cut_equals_brute_force_across_scan_blocks(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {255, 256};
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        uint64_t counts[256];
        const int n = (int)lengths[round % 2];
        for (int i = 0; i < n; i++) {
            const uint64_t r = test_random(&seed);
            counts[i] = r % 3 != 0 ? 0 : r % 97 == 0 ? 5000 : (r >> 8) % 7;
        }
        check_cuts(counts, n, 200 + test_random(&seed) % 5000);
    }
}

/* The walks must agree where a boundary is the first or last count of a scan block. */
static void
test_walks_agree_on_every_target(void **state)
{
    (void)state;
    uint32_t sums[1024];
    for (uint64_t n = 1; n <= 1024; n = n < 600 ? n + 51 : n + 106) {
        uint64_t seed = n, total = 0;
        for (uint64_t i = 0; i < n; i++) {
            total += test_random(&seed) % 4;
            sums[i] = (uint32_t)total;
        }
        struct hspz_prefix prefix = {.sums = sums, .count = n};
        for (uint64_t hits = 1; hits <= total; hits++) {
            uint64_t b[2], before[2], at[2];
            assert_true(hspz_prefix_find_blocks(&prefix, hits, &b[0], &before[0], &at[0]));
            assert_true(hspz_prefix_find_full(&prefix, hits, &b[1], &before[1], &at[1]));
            assert_int_equal(b[0], b[1]);
            assert_int_equal(before[0], before[1]);
            assert_int_equal(at[0], at[1]);
            assert_true(before[0] < hits && hits <= at[0]);
        }
    }
}

static void
test_cut_reaches_the_32_bit_limit(void **state)
{
    (void)state;
    const uint64_t counts[] = {UINT64_C(1) << 31, (UINT64_C(1) << 31) - 6, 5};
    check_cuts(counts, 3, UINT32_MAX);
    check_cuts(counts, 3, UINT32_MAX - 1);
    check_cuts(counts, 3, UINT64_C(1) << 31);
    check_cuts(counts, 3, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_equals_brute_force_for_every_small_vector),
        cmocka_unit_test(test_cut_equals_brute_force_across_scan_blocks),
        cmocka_unit_test(test_walks_agree_on_every_target),
        cmocka_unit_test(test_cut_reaches_the_32_bit_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
