#include "engine/word_limit.h"

#include "protocol/types.h"
#include "tests/support/test.h"

#define WORDS 256u

struct fixture {
    uint32_t sizes[WORDS], table[WORDS];
    uint64_t positions;
};

static void
fill(struct fixture *f, uint64_t *random, uint32_t most)
{
    uint32_t sum = 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        f->sizes[w] = test_random(random) % 3 == 0 ? 0 : (uint32_t)(test_random(random) % most);
        sum += f->sizes[w];
        f->table[w] = sum;
    }
    f->positions = sum;
}

static uint64_t
kept_by(const struct fixture *f, uint64_t limit)
{
    uint64_t kept = 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        kept += f->sizes[w] <= limit ? f->sizes[w] : 0;
    }
    return kept;
}

/* By what it says: the limit keeps enough, and the next lower size would not. */
static void
test_the_limit_is_the_least_that_keeps_the_share(void **state)
{
    (void)state;
    static const uint32_t most[] = {2, 10, 1000, 70000, 5000000};
    uint64_t random = 3, large = 0, small = 0;
    for (unsigned round = 0; round < 500; round++) {
        struct fixture f;
        fill(&f, &random, most[round % 5]);
        const uint64_t keep =
            round % 7 == 0 ? HSPZ_KEEP_ALL : 1 + test_random(&random) % HSPZ_KEEP_ALL;
        uint32_t limit = 0;
        assert_int_equal(hspz_word_limit_of(f.table, WORDS, keep, &limit), HSPZ_OK);
        assert_true(limit > 0);
        assert_true(kept_by(&f, limit) * HSPZ_KEEP_ALL >= f.positions * keep);
        assert_true(kept_by(&f, limit - 1) * HSPZ_KEEP_ALL < f.positions * keep);
        large += limit >= 65536;
        small += limit < 65536;
    }
    assert_true(large > 50 && small > 50);
}

static void
test_no_positions_need_no_word(void **state)
{
    (void)state;
    const struct fixture f = {.positions = 0};
    uint32_t limit = 9;
    assert_int_equal(hspz_word_limit_of(f.table, WORDS, 500000, &limit), HSPZ_OK);
    assert_int_equal(limit, 0);
}

/* What the index keeps of the last answer does not answer another question. */
static void
test_an_index_answers_each_share(void **state)
{
    (void)state;
    const char *const pattern = "1111";
    struct hspz_index_params params = {.step = 1};
    assert_int_equal(hspz_shape_parse(pattern, 4, &params.shape, NULL), HSPZ_OK);
    uint64_t random = 8;
    struct fixture f;
    fill(&f, &random, 40);
    uint32_t *pos = calloc(f.positions, sizeof(*pos));
    assert_non_null(pos);
    for (uint32_t w = 0, at = 0; w < WORDS; w++) {
        for (uint32_t i = 0; i < f.sizes[w]; i++) {
            pos[at++] = i + 1;
        }
    }
    struct hspz_index *index = NULL;
    assert_int_equal(hspz_index_from_tables(&params, NULL, (uint32_t)f.positions + 10, f.table, pos,
                                            (uint32_t)f.positions, &index, NULL),
                     HSPZ_OK);
    free(pos);
    for (unsigned i = 0; i < 60; i++) {
        const uint64_t keep = 1 + i / 2 % 9 * 111111;
        uint32_t want = 0;
        uint64_t got = 0;
        assert_int_equal(hspz_word_limit_of(f.table, WORDS, keep, &want), HSPZ_OK);
        assert_int_equal(hspz_word_limit(index, 0, UINT64_MAX, keep, &got, NULL), HSPZ_OK);
        assert_int_equal(got, want);
        assert_int_equal(hspz_word_limit(index, 0, 3, keep, &got, NULL), HSPZ_OK);
        assert_int_equal(got, want < 3 ? want : 3);
    }
    uint64_t all = 0;
    assert_int_equal(hspz_word_limit(index, 0, 17, HSPZ_KEEP_ALL, &all, NULL), HSPZ_OK);
    assert_int_equal(all, 17);
    hspz_index_release(&index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_limit_is_the_least_that_keeps_the_share),
        cmocka_unit_test(test_no_positions_need_no_word),
        cmocka_unit_test(test_an_index_answers_each_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
