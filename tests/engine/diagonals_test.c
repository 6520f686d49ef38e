/* What the CPU engine does to extend less: the gate, and what is remembered of diagonals. */
#include "engine/cpu/diagonals.h"

#include "engine/score.h"
#include "tests/engine/scene.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

static void
make_gate(struct hspz_gate *gate, const struct scene *s)
{
    hspz_gate_init(gate, &(struct hspz_gate_spec){.ref = s->plain_ref,
                                                  .query = s->plain_query,
                                                  .ref_unmask = s->unmask[0],
                                                  .query_unmask = s->unmask[1],
                                                  .scoring = &s->scoring});
}

static void
test_what_the_gate_rejects_does_not_pass(void **state)
{
    (void)state;
    static struct scene s;
    static struct hspz_gate gate;
    uint64_t random = 21;
    size_t rejected = 0;
    size_t passed = 0;
    for (int round = 0; round < 1500; round++) {
        scene_draw(&random, &s);
        make_gate(&gate, &s);
        for (size_t i = 0; i < s.count; i++) {
            struct hspz_hsp h;
            uint64_t work = 0;
            const uint32_t r = HSPZ_ANCHOR_REF(s.anchors[i]);
            const uint32_t q = HSPZ_ANCHOR_QUERY(s.anchors[i]);
            const bool reject = hspz_gate_rejects(&gate, r, q, &work);
            const bool pass =
                hspz_extend_anchor(&s.plain_ref, r, &s.plain_query, q, &s.scoring, &h);
            if (reject && pass) {
                fail_msg("round %d: %u %u passes and is rejected", round, r, q);
            }
            rejected += reject;
            passed += pass;
        }
    }
    assert_true(rejected > 100000 && passed > 100000);
}

/* Random sequence with a matching window of 19 in the middle: nearly all go. */
static void
test_the_gate_rejects_chance_hits(void **state)
{
    (void)state;
    static struct scene s;
    static struct hspz_gate gate;
    uint64_t random = 22;
    for (int minus = 0; minus < 2; minus++) {
        size_t rejected = 0;
        for (int round = 0; round < 1000; round++) {
            uint64_t work = 0;
            s.ref_len = s.query_len = 400;
            for (uint32_t i = 0; i < 400; i++) {
                s.ref[i] = (uint8_t) "ACGT"[test_random(&random) % 4];
                s.query[i] =
                    i >= 200 && i < 219 ? s.ref[i] : (uint8_t) "acgt"[test_random(&random) % 4];
            }
            hspz_scoring_init(&s.scoring);
            s.plain_ref =
                (struct hspz_extend_seq){s.ref, hspz_base_classes(false, false), 400, false};
            s.plain_query =
                (struct hspz_extend_seq){s.query, hspz_base_classes(true, minus), 400, minus};
            s.unmask[1] = true;
            make_gate(&gate, &s);
            /* Read backwards it is a chance hit without a window. */
            rejected += hspz_gate_rejects(&gate, 219, 219, &work);
            assert_true(work >= 16 && work % 8 == 0);
        }
        assert_true(rejected > 950);
    }
}

static void
test_large_scores_have_no_gate(void **state)
{
    (void)state;
    static struct scene s;
    static struct hspz_gate gate;
    uint64_t random = 23;
    uint64_t work = 0;
    do {
        scene_draw(&random, &s);
    } while (s.ref_len < 100 || s.query_len < 100);
    hspz_scoring_init(&s.scoring);
    s.scoring.threshold = HSPZ_XDROP_LIMIT;
    for (int32_t score = 8191; score <= 8192; score++) {
        s.scoring.scores[3 * HSPZ_CLASSES + 1] = score;
        make_gate(&gate, &s);
        assert_int_equal(gate.open, score == 8191);
        s.scoring.scores[3 * HSPZ_CLASSES + 1] = -score;
        make_gate(&gate, &s);
        assert_int_equal(gate.open, score == 8191);
    }
    assert_false(hspz_gate_rejects(&gate, 50, 50, &work));
    assert_int_equal(work, 0);
}

/* Calls of random length over a scene: each has to give the HSPs of its anchors, each once. */
static void
check_calls(uint64_t *random, const struct scene *s, const struct hspz_gate *gate, size_t *found)
{
    static struct hspz_hsp got[SCENE_ANCHORS], want[SCENE_ANCHORS];
    struct hspz_diagonals *d = NULL;
    struct hspz_diagonals_spec spec = {
        .ref = s->plain_ref, .query = s->plain_query, .scoring = &s->scoring, .gate = gate};
    assert_int_equal(hspz_diagonals_create(HSPZ_DIAGONALS, &d), HSPZ_OK);
    for (size_t at = 0; at < s->count;) {
        const size_t end = at + 1 + test_random(random) % (s->count - at);
        size_t count = 0;
        uint64_t work = 0;
        spec.call++;
        for (size_t i = at; i < end; i++) {
            count += hspz_diagonals_extend(d, &spec, HSPZ_ANCHOR_REF(s->anchors[i]),
                                           HSPZ_ANCHOR_QUERY(s->anchors[i]), &got[count], &work);
        }
        assert_true(work >= end - at);
        count = scene_sort(got, count);
        assert_int_equal(count, scene_extend(s, at, end, want));
        assert_memory_equal(got, want, count * sizeof(*got));
        *found += count;
        at = end;
    }
    hspz_diagonals_destroy(&d);
}

static void
test_what_is_remembered_changes_nothing(void **state)
{
    (void)state;
    static struct scene s;
    static struct hspz_gate gate;
    uint64_t random = 24;
    size_t found = 0;
    for (int round = 0; round < 3000; round++) {
        scene_draw(&random, &s);
        make_gate(&gate, &s);
        check_calls(&random, &s, NULL, &found);
        check_calls(&random, &s, &gate, &found);
    }
    assert_true(found > 20000);
}

/* Copies of a query on diagonals that share an entry: what one remembers is not another's, not even
 * where all but the highest bits of the diagonals agree. */
static void
test_diagonals_that_share_an_entry_are_told_apart(void **state)
{
    (void)state;
    enum { QUERY = 600 };
    static const uint32_t apart[] = {0, HSPZ_DIAGONALS, 256 * HSPZ_DIAGONALS};
    const uint32_t ref_len = 257 * HSPZ_DIAGONALS;
    uint8_t *ref = malloc(ref_len);
    uint8_t query[QUERY];
    struct hspz_hsp before[QUERY];
    uint64_t random = 26;
    struct hspz_scoring scoring;
    struct hspz_diagonals *d = NULL;
    size_t count = 0;
    int step = 0;
    assert_non_null(ref);
    hspz_scoring_init(&scoring);
    for (uint32_t i = 0; i < ref_len; i++) {
        ref[i] = (uint8_t) "ACGT"[test_random(&random) % 4];
    }
    for (uint32_t i = 0; i < QUERY; i++) {
        query[i] = (uint8_t) "ACGT"[test_random(&random) % 4];
    }
    for (int copy = 0; copy < 3; copy++) {
        /* Each lacks another part, so that their HSPs differ. */
        memcpy(ref + 1000 + apart[copy] + copy * 50, query + copy * 50, QUERY - 100);
    }
    const struct hspz_diagonals_spec spec = {
        .ref = {ref, hspz_base_classes(false, false), ref_len, false},
        .query = {query, hspz_base_classes(false, false), QUERY, false},
        .scoring = &scoring,
        .call = 1};
    assert_int_equal(hspz_diagonals_create(HSPZ_DIAGONALS, &d), HSPZ_OK);
    for (uint32_t q = 150; q < 450; q += 1 + (uint32_t)(test_random(&random) % 3)) {
        const uint32_t r = 1000 + q + apart[(const int[]){0, 2, 0, 1, 2, 1}[step++ % 6]];
        struct hspz_hsp got = {0};
        struct hspz_hsp want;
        uint64_t work = 0;
        const bool given = hspz_diagonals_extend(d, &spec, r, q, &got, &work);
        assert_true(hspz_extend_anchor(&spec.ref, r, &spec.query, q, &scoring, &want));
        assert_true(!given || memcmp(&got, &want, sizeof(want)) == 0);
        if (given) {
            before[count] = got;
        }
        /* What is not given was given before. */
        bool there = false;
        for (size_t i = 0; i < count + given; i++) {
            there = there || memcmp(&before[i], &want, sizeof(want)) == 0;
        }
        assert_true(there);
        count += given;
    }
    assert_true(count > 60);
    hspz_diagonals_destroy(&d);
    free(ref);
}

/* A pair that differs every 30 bases: 2,000 anchors of its diagonal are one HSP, and looking at it
 * again for each would take 2,000 bases each time. */
static void
test_anchors_of_one_hsp_cost_little(void **state)
{
    (void)state;
    static struct scene s;
    uint64_t random = 25;
    struct hspz_diagonals *d = NULL;
    uint64_t work = 0;
    size_t count = 0;
    s.ref_len = s.query_len = SCENE_BASES;
    for (uint32_t i = 0; i < SCENE_BASES; i++) {
        s.ref[i] = (uint8_t) "ACGT"[test_random(&random) % 4];
        s.query[i] = i % 30 == 7 ? 'N' : s.ref[i];
    }
    hspz_scoring_init(&s.scoring);
    assert_int_equal(hspz_scoring_ambiguous(&s.scoring, "n,0,120", NULL), HSPZ_OK);
    const struct hspz_diagonals_spec spec = {
        .ref = {s.ref, hspz_base_classes(false, false), SCENE_BASES, false},
        .query = {s.query, hspz_base_classes(false, false), SCENE_BASES, false},
        .scoring = &s.scoring,
        .call = 1};
    assert_int_equal(hspz_diagonals_create(HSPZ_DIAGONALS, &d), HSPZ_OK);
    for (uint32_t q = 19; q <= SCENE_BASES; q++) {
        struct hspz_hsp h;
        count += hspz_diagonals_extend(d, &spec, q, q, &h, &work);
    }
    assert_int_equal(count, 1);
    assert_true(work < 10 * SCENE_BASES);
    hspz_diagonals_destroy(&d);
}

/* A short word again and again, with changes: every place of the query comes to 40,000 diagonals,
 * one after the other. A call is the hits of one place. */
enum { REPEAT_REF = 120000, REPEAT_QUERY = 320, REPEAT_STEP = 8 };

struct repeat {
    uint8_t ref[REPEAT_REF], query[REPEAT_QUERY];
    struct hspz_scoring scoring;
    struct hspz_diagonals_spec spec;
    struct hspz_diagonals *d;
    size_t found;
};

static void
draw_repeat(struct repeat *t, uint32_t limit)
{
    uint64_t random = 27;
    *t = (struct repeat){0};
    for (uint32_t i = 0; i < REPEAT_REF; i++) {
        t->ref[i] = (uint8_t)(test_random(&random) % 500 == 0 ? 'N' : "AAC"[i % 3]);
    }
    for (uint32_t i = 0; i < REPEAT_QUERY; i++) {
        t->query[i] = (uint8_t)(test_random(&random) % 100 == 0 ? 'G' : "ACA"[i % 3]);
    }
    hspz_scoring_init(&t->scoring);
    t->spec = (struct hspz_diagonals_spec){
        .ref = {t->ref, hspz_base_classes(false, false), REPEAT_REF},
        .query = {t->query, hspz_base_classes(false, false), REPEAT_QUERY},
        .scoring = &t->scoring};
    assert_int_equal(hspz_diagonals_create(limit, &t->d), HSPZ_OK);
}

/* Returns the bases looked at. */
static uint64_t
extend_place(struct repeat *t, uint32_t q)
{
    static struct hspz_hsp got[REPEAT_REF / 3], want[REPEAT_REF / 3];
    const struct hspz_diagonals_spec *spec = &t->spec;
    size_t count = 0;
    size_t wanted = 0;
    uint64_t work = 0;
    t->spec.call++;
    for (uint32_t r = REPEAT_REF - 9 + (q + 1) % 3; r >= 19; r -= 3) { /* where words agree */
        count += hspz_diagonals_extend(t->d, spec, r, q, &got[count], &work);
        wanted += hspz_extend_anchor(&spec->ref, r, &spec->query, q, &t->scoring, &want[wanted]);
    }
    count = scene_sort(got, count);
    assert_int_equal(count, scene_sort(want, wanted));
    assert_memory_equal(got, want, count * sizeof(*got));
    t->found += count;
    return work;
}

static void
test_repeats_are_not_extended_again_and_again(void **state)
{
    (void)state;
    static struct repeat t;
    draw_repeat(&t, 4 * HSPZ_DIAGONALS);
    uint64_t least = UINT64_MAX;
    for (uint32_t q = 19; q <= REPEAT_QUERY; q += REPEAT_STEP) {
        const uint64_t most = hspz_diagonals_most_bytes(t.d);
        hspz_diagonals_grow(t.d);
        assert_true(hspz_diagonals_bytes(t.d) <= most);
        const uint64_t work = extend_place(&t, q);
        least = work < least ? work : least;
    }
    assert_true(t.found > 100000);
    assert_true(hspz_diagonals_bytes(t.d) > 2 * (hspz_diagonals_least_bytes() - 100));
    /* Each again would be some hundred bases. */
    assert_true(least < UINT64_C(40) * REPEAT_REF / 3);
    hspz_diagonals_destroy(&t.d);
}

static void
test_what_may_not_grow_or_has_no_memory_for_it_goes_on(void **state)
{
    (void)state;
    static struct repeat t;
    for (int no_memory = 0; no_memory < 2; no_memory++) {
        draw_repeat(&t, no_memory ? 2 * HSPZ_DIAGONALS : HSPZ_DIAGONALS);
        for (uint32_t q = 19; q <= 19 + 6 * REPEAT_STEP; q += REPEAT_STEP) {
            const bool grows = hspz_diagonals_most_bytes(t.d) > hspz_diagonals_bytes(t.d);
            assert_true(!grows || no_memory);
            failing_malloc_arm(1);
            hspz_diagonals_grow(t.d);
            assert_int_equal(failing_malloc_disarm(), grows);
            assert_int_equal(hspz_diagonals_bytes(t.d), hspz_diagonals_least_bytes());
            extend_place(&t, q);
        }
        assert_true(t.found > 10000);
        hspz_diagonals_destroy(&t.d);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_gate_rejects_does_not_pass),
        cmocka_unit_test(test_the_gate_rejects_chance_hits),
        cmocka_unit_test(test_large_scores_have_no_gate),
        cmocka_unit_test(test_what_is_remembered_changes_nothing),
        cmocka_unit_test(test_diagonals_that_share_an_entry_are_told_apart),
        cmocka_unit_test(test_anchors_of_one_hsp_cost_little),
        cmocka_unit_test(test_repeats_are_not_extended_again_and_again),
        cmocka_unit_test(test_what_may_not_grow_or_has_no_memory_for_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
