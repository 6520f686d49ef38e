#include "client/hit_mask.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define SPAN 5u
#define BASES 90u
#define BLOCKS 2u
#define HITS 40u
#define STRANDS 30u

/* Draws hits strand by strand and masks them by the rule's words; the mask under test must keep the
 * same ones. HSPZ_E_OUT_OF_MEMORY where that is what it says. */
static enum hspz_status
compare(uint64_t seed, uint32_t most, uint64_t *dropped)
{
    unsigned counts[BLOCKS][BASES] = {{0}};
    bool masked[BLOCKS][BASES] = {{false}};
    struct hspz_hit_mask mask;
    hspz_hit_mask_init(&mask, most, SPAN);
    enum hspz_status status = HSPZ_OK;
    for (unsigned b = BLOCKS; b-- > 0 && status == HSPZ_OK;) {
        status = hspz_hit_mask_grow(&mask, b, 10, NULL);
        if (status == HSPZ_OK) {
            status = hspz_hit_mask_grow(&mask, b, BASES, NULL);
        }
    }
    for (unsigned strand = 0; strand < STRANDS && status == HSPZ_OK; strand++) {
        uint64_t hits[HITS], want[HITS];
        const uint32_t block = strand / 2 % BLOCKS;
        size_t count = 0;
        for (unsigned i = 0; i < HITS; i++) {
            const uint64_t begin = test_random(&seed) % (BASES - SPAN + 1);
            hits[i] = (begin + SPAN) | (uint64_t)i << 32;
            bool dead = false;
            for (unsigned at = 0; at < SPAN; at++) {
                dead = dead || masked[block][begin + at];
            }
            *dropped += dead;
            if (!dead) {
                want[count++] = hits[i];
                for (unsigned at = 0; at < SPAN; at++) {
                    counts[block][begin + at]++;
                }
            }
        }
        const uint8_t *kept = NULL;
        size_t kept_count = 0;
        status =
            hspz_hit_mask_take(&mask, block, (const uint8_t *)hits, HITS, &kept, &kept_count, NULL);
        if (status == HSPZ_OK) {
            assert_int_equal(kept_count, count);
            if (count > 0) {
                assert_memory_equal(kept, want, count * sizeof(*want));
            }
            hspz_hit_mask_end_strand(&mask);
            for (unsigned at = 0; at < BASES; at++) {
                masked[block][at] = counts[block][at] >= most;
            }
        }
    }
    hspz_hit_mask_fini(&mask);
    return status;
}

static void
test_hits_on_masked_bases_are_left_out(void **state)
{
    (void)state;
    uint64_t dropped = 0;
    for (uint64_t seed = 1; seed < 50; seed++) {
        assert_int_equal(compare(seed, (uint32_t)(1 + seed % 40), &dropped), HSPZ_OK);
    }
    assert_true(dropped > 1000);
}

static void
test_anchors_outside_the_reference_are_refused(void **state)
{
    (void)state;
    struct hspz_hit_mask mask;
    hspz_hit_mask_init(&mask, 3, SPAN);
    assert_int_equal(hspz_hit_mask_grow(&mask, 0, BASES, NULL), HSPZ_OK);
    static const uint64_t bad[] = {0, SPAN - 1, BASES + 1, UINT32_MAX};
    const uint8_t *kept;
    size_t count;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(
            hspz_hit_mask_take(&mask, 0, (const uint8_t *)&bad[i], 1, &kept, &count, NULL),
            HSPZ_E_BAD_PEER);
    }
    const uint64_t good = BASES;
    assert_int_equal(hspz_hit_mask_take(&mask, 1, (const uint8_t *)&good, 1, &kept, &count, NULL),
                     HSPZ_E_BAD_PEER);
    assert_int_equal(hspz_hit_mask_take(&mask, 0, (const uint8_t *)&good, 1, &kept, &count, NULL),
                     HSPZ_OK);
    assert_int_equal(count, 1);
    hspz_hit_mask_fini(&mask);
}

static void
test_any_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t dropped = 0;
    unsigned failures = 0;
    for (long nth = 1;; nth++) {
        failing_malloc_arm(nth);
        const enum hspz_status status = compare(3, 2, &dropped);
        const bool failed = failing_malloc_disarm();
        if (!failed) {
            assert_int_equal(status, HSPZ_OK);
            break;
        }
        assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
        failures++;
    }
    assert_true(failures >= 7);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_on_masked_bases_are_left_out),
        cmocka_unit_test(test_anchors_outside_the_reference_are_refused),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
