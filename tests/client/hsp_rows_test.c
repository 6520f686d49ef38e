#include "client/hsp_rows.h"

#include "tests/support/test.h"

#include <inttypes.h>

/* Blocks in full, so that a place in them is looked up by looking. */
struct side {
    struct hspz_places places;
    char *text;   /* the block; separators stand as '&' */
    uint64_t len; /* of the block */
};

static void
side_init(struct side *side, const char *const *names, const size_t *lens, size_t count, bool json)
{
    hspz_places_init(&side->places, json);
    side->text = calloc(1, 4096);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            side->text[side->len++] = '&';
        }
        assert_int_equal(
            hspz_places_add(&side->places, names[i], strlen(names[i]), lens[i], 0, side->len),
            HSPZ_OK);
        memset(side->text + side->len, 'x', lens[i]);
        side->len += lens[i];
    }
}

static void
side_fini(struct side *side)
{
    hspz_places_fini(&side->places);
    free(side->text);
}

/* Number of the sequence and place in it, walking; false when [begin, begin + len) leaves it. */
static bool
walk(const struct side *side, size_t begin, size_t len, size_t *sequence, size_t *offset)
{
    *sequence = *offset = 0;
    if (begin + len > side->len) {
        return false;
    }
    for (size_t i = 0; i < begin; i++) {
        *offset = side->text[i] == '&' ? 0 : *offset + 1;
        *sequence += side->text[i] == '&';
    }
    return memchr(side->text + begin, '&', len) == NULL;
}

static enum hspz_status
put_one(const struct hspz_hsp_rows *rows, const struct hspz_hsp *hsp, char *line)
{
    size_t len = 0;
    struct hspz_error err = {0};
    const enum hspz_status status = hspz_hsp_rows_put(rows, hsp, 1, line, &len, &err);
    line[len] = '\0';
    if (status != HSPZ_OK) {
        assert_int_equal(status, HSPZ_E_BAD_PEER);
        assert_non_null(strstr(err.text, "not inside one sequence"));
    }
    return status;
}

static const char *const ref_names[] = {"t1", "", "t3"};
static const char *const query_names[] = {"q1", "q 2\t", "\xff\"q"};
static const size_t ref_lens[] = {30, 0, 25};
static const size_t query_lens[] = {17, 40, 9};

static void
test_segments_equal_looking_it_up(void **state)
{
    (void)state;
    struct side ref = {0}, query = {0};
    side_init(&ref, ref_names, ref_lens, 3, false);
    side_init(&query, query_names, query_lens, 3, false);
    uint64_t random = 1;
    size_t good_ones = 0;
    char line[1024], want[1024];
    for (unsigned n = 0; n < 20000; n++) {
        const struct hspz_hsp hsp = {
            .ref_start = (uint32_t)(test_random(&random) % (ref.len + 2)),
            .query_start = (uint32_t)(test_random(&random) % (query.len + 2)),
            .length = (uint32_t)(1 + test_random(&random) % 12),
            .score = (int32_t)(test_random(&random) % 5000) - 100,
        };
        struct hspz_hsp_rows rows = {
            .refs = &ref.places,
            .queries = &query.places,
            .query_len = query.len,
            .strand = (enum hspz_strand)(n % 2),
        };
        const bool minus = rows.strand == HSPZ_STRAND_MINUS;
        const size_t plus_begin =
            minus ? query.len - hsp.query_start - hsp.length : hsp.query_start;
        size_t rs, ro, qs, qo;
        const bool good = hsp.query_start + hsp.length <= query.len &&
                          walk(&ref, hsp.ref_start, hsp.length, &rs, &ro) &&
                          walk(&query, plus_begin, hsp.length, &qs, &qo);
        assert_int_equal(put_one(&rows, &hsp, line) == HSPZ_OK, good);
        if (!good) {
            continue;
        }
        good_ones++;
        const size_t first = minus ? query_lens[qs] - qo - hsp.length : qo;
        snprintf(want, sizeof(want), "%s\t%zu\t%zu\t%s\t%zu\t%zu\t%c\t%d\n", ref_names[rs], ro + 1,
                 ro + hsp.length, query_names[qs], first + 1, first + hsp.length, minus ? '-' : '+',
                 hsp.score);
        assert_string_equal(line, want);
        rows.format = HSPZ_HSP_TSV;
        assert_int_equal(put_one(&rows, &hsp, line), HSPZ_OK);
        snprintf(want, sizeof(want), "%s\t%zu\t%zu\t%s\t%zu\t%zu\t%c\t%d\n", ref_names[rs], ro,
                 ro + hsp.length, query_names[qs], qo, qo + hsp.length, minus ? '-' : '+',
                 hsp.score);
        assert_string_equal(line, want);
        rows.format = HSPZ_HSP_PAF;
        assert_int_equal(put_one(&rows, &hsp, line), HSPZ_OK);
        snprintf(want, sizeof(want),
                 "%s\t%zu\t%zu\t%zu\t%c\t%s\t%zu\t%zu\t%zu\t%u\t%u\t255\tAS:i:%d\tcg:Z:%uM\n",
                 query_names[qs], query_lens[qs], qo, qo + hsp.length, minus ? '-' : '+',
                 ref_names[rs], ref_lens[rs], ro, ro + hsp.length, hsp.length, hsp.length,
                 hsp.score, hsp.length);
        assert_string_equal(line, want);
    }
    assert_true(good_ones > 1000);
    side_fini(&ref);
    side_fini(&query);
}

static void
test_json_lines_hold_odd_names(void **state)
{
    (void)state;
    struct side ref = {0}, query = {0};
    side_init(&ref, ref_names, ref_lens, 3, true);
    side_init(&query, query_names, query_lens, 3, true);
    const struct hspz_hsp_rows rows = {
        .format = HSPZ_HSP_JSONL,
        .refs = &ref.places,
        .queries = &query.places,
        .query_len = query.len,
        .strand = HSPZ_STRAND_MINUS,
    };
    char line[1024];
    const struct hspz_hsp hsp = {
        .ref_start = 32, .query_start = 2, .length = 7, .score = INT32_MIN};
    assert_int_equal(put_one(&rows, &hsp, line), HSPZ_OK);
    assert_string_equal(line, "{\"ref\":\"t3\",\"ref_start\":0,\"ref_end\":7,\"query\":"
                              "\"\\u00ff\\\"q\",\"query_start\":0,\"query_end\":7,\"strand\":\"-\","
                              "\"score\":-2147483648}\n");
    side_fini(&ref);
    side_fini(&query);
}

static void
test_an_empty_hsp_and_one_past_all_numbers_are_refused(void **state)
{
    (void)state;
    struct side ref = {0}, query = {0};
    side_init(&ref, ref_names, ref_lens, 3, false);
    side_init(&query, query_names, query_lens, 3, false);
    const struct hspz_hsp_rows rows = {
        .refs = &ref.places, .queries = &query.places, .query_len = query.len};
    char line[1024];
    const struct hspz_hsp bad[] = {
        {.length = 0},
        {.length = UINT32_MAX},
        {.ref_start = UINT32_MAX, .length = 1},
        {.query_start = UINT32_MAX, .length = UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(put_one(&rows, &bad[i], line), HSPZ_E_BAD_PEER);
    }
    side_fini(&ref);
    side_fini(&query);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_equal_looking_it_up),
        cmocka_unit_test(test_json_lines_hold_odd_names),
        cmocka_unit_test(test_an_empty_hsp_and_one_past_all_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
