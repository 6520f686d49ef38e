#include "client/cutter.h"

#include "protocol/limits.h"
#include "tests/support/test.h"

#define SPAN 19u

static struct hspz_discover_request
request_of(const uint8_t *bases, size_t len, enum hspz_strands strands)
{
    struct hspz_discover_request request = HSPZ_DISCOVER_REQUEST_DEFAULT;
    request.bases = (struct hspz_span){bases, len};
    request.strands = strands;
    return request;
}

/* The windows of a strand's units join up from the first to the last, in whole batches; a unit has
 * their bases. */
static void
check_batches(size_t len, enum hspz_strands strands, uint64_t want)
{
    uint8_t *bases = malloc(len);
    assert_non_null(bases);
    const struct hspz_discover_request request = request_of(bases, len, strands);
    const uint64_t windows = len - SPAN + 1;
    struct hspz_cutter cutter;
    struct hspz_unit_cut unit;
    hspz_cutter_init(&cutter, &request, SPAN);
    for (unsigned strand = 1; strand <= 2; strand++) {
        for (uint64_t at = 0; (strands & strand) != 0 && at < windows; at += unit.positions) {
            assert_true(hspz_cutter_next(&cutter, want, &unit));
            assert_int_equal(unit.strands, strand);
            assert_int_equal(unit.query_shift, at);
            assert_int_equal(unit.batch_shift, at / HSPZ_BATCH_POSITIONS);
            assert_int_equal(unit.bases.len, unit.positions + SPAN - 1);
            const size_t from = strand == 1 ? at : len - at - unit.bases.len;
            assert_ptr_equal(unit.bases.bytes, bases + from);
            const bool whole = unit.positions % HSPZ_BATCH_POSITIONS == 0;
            assert_true(unit.positions > 0 && (whole || at + unit.positions == windows));
            assert_true(unit.positions <= want || unit.positions <= HSPZ_BATCH_POSITIONS);
        }
    }
    assert_false(hspz_cutter_next(&cutter, want, &unit));
    assert_false(hspz_cutter_next(&cutter, want, &unit));
    free(bases);
}

static void
test_anchors_are_cut_at_batches(void **state)
{
    (void)state;
    const size_t batch = HSPZ_BATCH_POSITIONS;
    const size_t lens[] = {SPAN, SPAN + 1, batch, batch + SPAN - 1, batch + SPAN, 7 * batch + 5};
    const uint64_t wants[] = {1, batch, 2 * batch - 1, 3 * batch, UINT64_C(1) << 40};
    for (size_t l = 0; l < sizeof(lens) / sizeof(*lens); l++) {
        for (size_t w = 0; w < sizeof(wants) / sizeof(*wants); w++) {
            check_batches(lens[l], HSPZ_STRANDS_BOTH, wants[w]);
            check_batches(lens[l], HSPZ_STRANDS_PLUS, wants[w]);
            check_batches(lens[l], HSPZ_STRANDS_MINUS, wants[w]);
        }
    }
}

/* Every base that is no separator is in one unit of each strand, in the strand's order; units end
 * where sequences do. */
static void
check_sequences(const char *text, uint64_t want)
{
    const size_t len = strlen(text);
    struct hspz_discover_request request =
        request_of((const uint8_t *)text, len, HSPZ_STRANDS_BOTH);
    request.records = HSPZ_RECORDS_HSPS;
    struct hspz_cutter cutter;
    struct hspz_unit_cut unit;
    hspz_cutter_init(&cutter, &request, 3);
    size_t at = 0;
    enum hspz_strands strand = HSPZ_STRANDS_PLUS;
    while (hspz_cutter_next(&cutter, want, &unit)) {
        if (unit.strands != strand) {
            assert_true(at >= len);
            at = 0;
            strand = HSPZ_STRANDS_MINUS;
        }
        assert_int_equal(unit.strands, strand);
        assert_int_equal(unit.query_shift, at);
        const size_t end = at + unit.bases.len;
        const size_t from = strand == HSPZ_STRANDS_PLUS ? at : len - end;
        assert_ptr_equal(unit.bases.bytes, text + from);
        assert_true(end == len || text[strand == HSPZ_STRANDS_PLUS ? end : len - 1 - end] == '&');
        assert_true(unit.bases.len >= want || end == len);
        at = end + 1;
    }
    assert_int_equal(strand, HSPZ_STRANDS_MINUS);
    assert_true(at >= len);
}

static void
test_hsps_are_cut_between_sequences(void **state)
{
    (void)state;
    const char *const texts[] = {"ACGT",   "ACGT&AC&GGGGGGG&T", "&ACGT&&AC&", "&&&&",
                                 "A&&&&C", "AAAAAAAA&C"};
    for (size_t t = 0; t < sizeof(texts) / sizeof(*texts); t++) {
        for (uint64_t want = 1; want < 20; want++) {
            check_sequences(texts[t], want);
        }
    }
}

static void
test_what_depends_on_all_of_it_is_one_unit(void **state)
{
    (void)state;
    static const uint8_t bases[600000];
    for (unsigned kind = 0; kind < 6; kind++) {
        struct hspz_discover_request request = request_of(bases, sizeof(bases), HSPZ_STRANDS_BOTH);
        request.interval = kind == 0 ? 1000 : 0;
        request.begin = kind == 1 ? 7 : 0;
        request.end = kind == 2 ? 500000 : UINT64_MAX;
        request.records = kind == 3 ? HSPZ_RECORDS_HSPS : HSPZ_RECORDS_ANCHORS;
        request.scoring.scope = HSPZ_SCOPE_CHUNK;
        request.bases.len = kind == 4 ? SPAN - 1 : sizeof(bases);
        if (kind == 5) {
            request.given_seeds = true;
            request.seeds = request.bases;
            request.bases = (struct hspz_span){0};
        }
        struct hspz_cutter cutter;
        struct hspz_unit_cut unit;
        hspz_cutter_init(&cutter, &request, SPAN);
        assert_true(hspz_cutter_next(&cutter, 1, &unit));
        assert_ptr_equal(unit.bases.bytes, bases);
        assert_int_equal(unit.bases.len, kind == 4 ? SPAN - 1 : sizeof(bases));
        assert_int_equal(unit.strands, HSPZ_STRANDS_BOTH);
        assert_int_equal(unit.query_shift + unit.batch_shift, 0);
        assert_false(hspz_cutter_next(&cutter, 1, &unit));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anchors_are_cut_at_batches),
        cmocka_unit_test(test_hsps_are_cut_between_sequences),
        cmocka_unit_test(test_what_depends_on_all_of_it_is_one_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
