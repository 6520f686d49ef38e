#include "client/file_plan.h"

#include "engine/sequences.h"
#include "tests/support/test.h"

#include <inttypes.h>

/* Blocks as the reader of sequences makes them. */
static void
check_against_reader(const uint64_t *lens, size_t count, uint64_t block_size)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_file_plan plan;
    assert_int_equal(hspz_sequences_create(block_size, &seqs), HSPZ_OK);
    for (size_t i = 0; i < count; i++) {
        char *bases = calloc(1, lens[i] + 1);
        size_t bad;
        memset(bases, 'A', lens[i]);
        assert_int_equal(hspz_sequences_begin(seqs, "x", 1, 1, NULL), HSPZ_OK);
        assert_int_equal(hspz_sequences_append(seqs, (uint8_t *)bases, lens[i], &bad, NULL),
                         HSPZ_OK);
        assert_int_equal(hspz_sequences_end(seqs, NULL), HSPZ_OK);
        free(bases);
    }
    assert_int_equal(hspz_file_plan_queries(&plan, lens, count, block_size, false, NULL), HSPZ_OK);
    assert_int_equal(plan.block_count, hspz_sequences_block_count(seqs));
    uint64_t start = 0;
    for (size_t b = 0; b < plan.block_count; b++) {
        const struct hspz_block want = hspz_sequences_block(seqs, b);
        assert_int_equal(plan.blocks[b].bases, want.len);
        assert_int_equal(plan.blocks[b].start, start);
        assert_int_equal(plan.blocks[b].first, want.first_sequence);
        assert_int_equal(plan.blocks[b].count, want.sequence_count);
        start += want.len;
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(plan.order[i], i);
        assert_int_equal(plan.offsets[i], hspz_sequences_get(seqs, i)->offset);
    }
    hspz_file_plan_fini(&plan);
    hspz_sequences_destroy(&seqs);
}

static void
test_blocks_are_the_readers(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (unsigned n = 0; n < 300; n++) {
        uint64_t lens[12];
        const size_t count = 1 + test_random(&random) % 12;
        for (size_t i = 0; i < count; i++) {
            lens[i] = test_random(&random) % 30;
        }
        check_against_reader(lens, count, 1 + test_random(&random) % 60);
    }
}

static void
test_balanced_blocks_hold_each_sequence_once_and_come_out_alike(void **state)
{
    (void)state;
    const uint64_t lens[] = {100, 90, 80, 10, 20, 30, 70, 5, 0, 60};
    struct hspz_file_plan plan, plain;
    assert_int_equal(hspz_file_plan_queries(&plain, lens, 10, 150, false, NULL), HSPZ_OK);
    assert_int_equal(hspz_file_plan_queries(&plan, lens, 10, 150, true, NULL), HSPZ_OK);
    assert_int_equal(plan.block_count, plain.block_count);
    assert_true(plan.block_count > 1);
    bool seen[10] = {false};
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t b = 0; b < plan.block_count; b++) {
        uint64_t bases = 0;
        for (size_t i = 0; i < plan.blocks[b].count; i++) {
            const size_t at = plan.blocks[b].first + i;
            assert_false(seen[plan.order[at]]);
            seen[plan.order[at]] = true;
            assert_true(i == 0 || plan.order[at] > plan.order[at - 1]);
            bases += i > 0;
            assert_int_equal(plan.offsets[at], bases);
            bases += lens[plan.order[at]];
        }
        assert_int_equal(plan.blocks[b].bases, bases);
        least = bases < least ? bases : least;
        most = bases > most ? bases : most;
    }
    assert_true(most - least <= 20);
    hspz_file_plan_fini(&plain);
    hspz_file_plan_fini(&plan);
}

static void
test_intervals_hold_each_position_once_on_either_strand(void **state)
{
    (void)state;
    for (uint32_t span = 3; span < 6; span++) {
        for (uint64_t bases = 0; bases < 60; bases++) {
            for (uint64_t size = 1; size < 25; size++) {
                const uint64_t count = hspz_file_plan_intervals(bases, span, size);
                /* The rule as it is written down. */
                uint64_t n = 0;
                for (uint64_t a = 0; bases > span && a < bases - span; a += size) {
                    n++;
                    uint64_t begin, end;
                    const uint64_t last = bases - span;
                    const uint64_t b = last < a + size ? last : a + size;
                    hspz_file_plan_interval(bases, span, size, n, &begin, &end);
                    assert_int_equal(begin, a);
                    assert_int_equal(end, b);
                    for (uint64_t q = a; q < b; q++) {
                        assert_int_equal(
                            hspz_file_plan_interval_of(bases, span, size, HSPZ_STRAND_PLUS, q), n);
                    }
                    for (uint64_t q = last - b; q < last - a; q++) {
                        assert_int_equal(
                            hspz_file_plan_interval_of(bases, span, size, HSPZ_STRAND_MINUS, q), n);
                    }
                }
                assert_int_equal(count, bases == span ? 1 : n);
                for (uint64_t q = bases >= span ? bases - span : 0; count > 0 && q < bases; q++) {
                    assert_int_equal(
                        hspz_file_plan_interval_of(bases, span, size, HSPZ_STRAND_PLUS, q), count);
                    assert_int_equal(
                        hspz_file_plan_interval_of(bases, span, size, HSPZ_STRAND_MINUS, q), 1);
                }
            }
        }
    }
}

static void
test_reference_blocks_start_behind_each_other(void **state)
{
    (void)state;
    struct hspz_places refs;
    struct hspz_file_plan plan;
    hspz_places_init(&refs, false);
    assert_int_equal(hspz_places_add(&refs, "a", 1, 10, 0, 0), HSPZ_OK);
    assert_int_equal(hspz_places_add(&refs, "b", 1, 20, 0, 11), HSPZ_OK);
    assert_int_equal(hspz_places_add(&refs, "c", 1, 7, 1, 0), HSPZ_OK);
    assert_int_equal(hspz_places_add(&refs, "d", 1, 0, 2, 0), HSPZ_OK);
    assert_int_equal(hspz_file_plan_refs(&plan, &refs, NULL), HSPZ_OK);
    assert_int_equal(plan.block_count, 3);
    assert_int_equal(plan.blocks[0].bases, 31);
    assert_int_equal(plan.blocks[1].start, 31);
    assert_int_equal(plan.blocks[1].first, 2);
    assert_int_equal(plan.blocks[2].start, 38);
    char name[HSPZ_SEGMENTS_NAME_BYTES];
    hspz_file_plan_segments_name(name, 12, 3, plan.blocks[2].start, HSPZ_STRAND_MINUS);
    assert_string_equal(name, "tmp12.block3.r38.minus.segments");
    hspz_file_plan_fini(&plan);
    hspz_places_fini(&refs);
}

static void
test_the_plan_prints_each_file_once(void **state)
{
    (void)state;
    struct hspz_places refs;
    struct hspz_file_plan ref_plan, query_plan;
    hspz_places_init(&refs, false);
    assert_int_equal(hspz_places_add(&refs, "a", 1, 100, 0, 0), HSPZ_OK);
    const uint64_t lens[] = {50, 25};
    assert_int_equal(hspz_file_plan_refs(&ref_plan, &refs, NULL), HSPZ_OK);
    assert_int_equal(hspz_file_plan_queries(&query_plan, lens, 2, 40, false, NULL), HSPZ_OK);
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    const struct hspz_file_plan_settings settings = {
        .span = 10, .interval = 30, .strands = HSPZ_STRANDS_BOTH};
    hspz_file_plan_print(&ref_plan, &query_plan, &settings, to);
    fclose(to);
    assert_string_equal(text,
                        "# 2 jobs, one for each query block, with 75 bytes of query sent; 1 "
                        "reference block\n"
                        "#job\tref_block\tref_bases\tquery_block\tquery_bytes\tinterval\tstrand\t"
                        "begin\tend\tfile\n"
                        "0\t0\t100\t0\t50\t1\t+\t0\t30\ttmp1.block0.r0.plus.segments\n"
                        "0\t0\t100\t0\t50\t1\t-\t10\t40\ttmp1.block0.r0.minus.segments\n"
                        "0\t0\t100\t0\t50\t2\t+\t30\t40\ttmp2.block0.r0.plus.segments\n"
                        "0\t0\t100\t0\t50\t2\t-\t0\t10\ttmp2.block0.r0.minus.segments\n"
                        "1\t0\t100\t1\t25\t1\t+\t0\t15\ttmp1.block1.r0.plus.segments\n"
                        "1\t0\t100\t1\t25\t1\t-\t0\t15\ttmp1.block1.r0.minus.segments\n");
    free(text);
    hspz_file_plan_fini(&ref_plan);
    hspz_file_plan_fini(&query_plan);
    hspz_places_fini(&refs);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_the_readers),
        cmocka_unit_test(test_balanced_blocks_hold_each_sequence_once_and_come_out_alike),
        cmocka_unit_test(test_intervals_hold_each_position_once_on_either_strand),
        cmocka_unit_test(test_reference_blocks_start_behind_each_other),
        cmocka_unit_test(test_the_plan_prints_each_file_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
