/* Masks: window starts whose k-mer a filter counts more than so often yield no word, on every
 * engine, with filters on the engine's device and on the host. */
#include "tests/conformance/fixture.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include "engine/score.h"

#include <ctype.h>

/* ---- counts, by comparing strings ---- */

struct text {
    char *bases; /* upper case */
    bool canonical;
};

static char
complement_of(char base)
{
    return base == 'A' ? 'T' : base == 'C' ? 'G' : base == 'G' ? 'C' : 'A';
}

static uint64_t
count_in_text(const void *user, const char *kmer)
{
    const struct text *text = user;
    const size_t k = strlen(kmer), len = strlen(text->bases);
    char other[33] = {0};
    uint64_t count = 0;
    for (size_t i = 0; i < k; i++) {
        other[i] = complement_of(kmer[k - 1 - i]);
    }
    for (size_t i = 0; i + k <= len; i++) {
        count += strncmp(text->bases + i, kmer, k) == 0 ||
                 (text->canonical && strncmp(text->bases + i, other, k) == 0);
    }
    return count;
}

/* ---- a filter of the text's k-mers ---- */

struct subject {
    const struct hspz_filter_ops *ops;
    struct hspz_filter *filter;
};

/* `runner` NULL: the host's. */
static bool
make_filter(struct subject *s, const struct runner *runner, const struct hspz_filter_spec *spec)
{
    struct hspz_error err = {0};
    struct hspz_filter_plan plan;
    const bool on_device = runner != NULL && runner->ops->filter_device != NULL;
    *s = (struct subject){.ops = on_device ? runner->ops->filter(spec->kind)
                                           : hspz_cpu_filter(spec->kind)};
    if (s->ops == NULL) {
        return false;
    }
    enum hspz_status status = hspz_filter_plan(spec, 0, &plan, &err);
    if (status == HSPZ_OK) {
        plan.threads = 1;
        plan.device = on_device ? runner->ops->filter_device(runner->engine, 0) : NULL;
        status = s->ops->create(&plan, &s->filter, &err);
    }
    if (status != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return true;
}

static void
fill(struct subject *s, const char *bases)
{
    struct hspz_error err = {0};
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                    .sequence = (const uint8_t *)bases,
                                    .count = strlen(bases),
                                    .sequence_len = strlen(bases)};
    if (hspz_filter_run(s->ops, s->filter, &call, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    assert_false(call.full);
}

/* Asks a filter on the host what the engine's asks its own, and that it is never under the truth.
 */
struct twin {
    struct subject filter;
    struct text text;
    bool counts;
    uint64_t *over; /* k-mers that are there too often */
};

static uint64_t
count_in_twin(const void *user, const char *kmer)
{
    const struct twin *twin = user;
    uint64_t found = 0;
    uint8_t yes = 0;
    struct hspz_filter_call call = {.op = twin->counts ? HSPZ_FILTER_COUNT : HSPZ_FILTER_QUERY,
                                    .sequence = (const uint8_t *)kmer,
                                    .count = 1,
                                    .sequence_len = strlen(kmer),
                                    .yes = &yes,
                                    .found = twin->counts ? &found : NULL};
    assert_int_equal(hspz_filter_run(twin->filter.ops, twin->filter.filter, &call, NULL), HSPZ_OK);
    const uint64_t truth = count_in_text(&twin->text, kmer);
    const uint64_t answer = twin->counts ? found : yes;
    assert_true(answer >= truth || (!twin->counts && answer == (truth > 0)));
    *twin->over += answer > truth && (twin->counts || truth == 0);
    return answer;
}

static bool
has_counts(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_COUNTER;
}

/* What a read set would have: pieces of the query and of its reverse complement, and others. */
static char *
random_text(uint64_t *seed, const char *query)
{
    const size_t len = strlen(query);
    char *text = random_sequence(seed, 700);
    for (int piece = 0; piece < 8 && len > 0; piece++) {
        const size_t from = test_random(seed) % len, at = test_random(seed) % 600;
        for (size_t i = 0; i < 80 && from + i < len && at + i < 700; i++) {
            const char base = query[from + i];
            text[at + i] =
                strchr("ACGT", base) == NULL ? base
                : piece % 2 == 0
                    ? base
                    : complement_of(query[from + (80 < len - from ? 79 : len - from - 1) - i]);
        }
    }
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '&' ? 'N' : *c;
    }
    return text;
}

static void
upper(char *bases)
{
    for (; *bases != '\0'; bases++) {
        *bases = (char)toupper((unsigned char)*bases);
    }
}

static const struct hspz_filter_spec specs[] = {
    {.kind = HSPZ_FILTER_COUNTER, .capacity = 1000},
    {.kind = HSPZ_FILTER_GQF, .slots = 2048, .slot_bits = 8},
    {.kind = HSPZ_FILTER_TCF, .capacity = 1000, .slot_bits = 8},
    {.kind = HSPZ_FILTER_BLOOM, .capacity = 1000, .rate = 0.1},
    {.kind = HSPZ_FILTER_BLOCKED, .capacity = 1000, .rate = 0.1},
    {.kind = HSPZ_FILTER_SQF, .slots = 2048, .slot_bits = 8},
    {.kind = HSPZ_FILTER_RSQF, .slots = 2048, .slot_bits = 8},
};
#define SPECS (sizeof(specs) / sizeof(specs[0]))
#define KMERS 8
static const unsigned ks[KMERS] = {1, 3, 5, 8, 11, 15, 21, 32};

/* One random job, with a filter on the engine's device if it can have one there, or on the host;
 * returns the seeds that the mask took. */
static uint64_t
check_round(struct fixture *f, unsigned round, uint64_t *seed, bool hsps, uint64_t *over)
{
    struct hspz_filter_spec spec = specs[round % SPECS];
    char *ref = random_sequence(seed, 200 + test_random(seed) % 1500);
    char *query = random_sequence(seed, test_random(seed) % 500);
    char *text = random_text(seed, query);
    struct subject subject;
    struct twin twin = {.counts = has_counts(spec.kind), .over = over};
    spec.k = ks[test_random(seed) % KMERS];
    if (spec.kind == HSPZ_FILTER_TCF && spec.k < 8) {
        spec.k = 8; /* it has no room for very many copies of a key */
    }
    spec.canonical = test_random(seed) % 2 == 0;
    spec.seed = round;
    if (make_filter(&subject, round % 3 == 2 ? NULL : &f->runner, &spec)) {
        assert_true(make_filter(&twin.filter, NULL, &spec));
        fill(&subject, text);
        fill(&twin.filter, text);
        upper(text);
        twin.text = (struct text){.bases = text, .canonical = spec.canonical};
        fixture_load(f, ref);
        const struct hspz_seed_mask mask = {.ops = subject.ops,
                                            .filter = subject.filter,
                                            .above = twin.counts ? test_random(seed) % 3 : 0};
        struct model_job job = fixture_job(f, query);
        job.strands = (enum hspz_strands)(1 + round % 3);
        job.transitions = round % 3;
        job.unmask = round % 4 == 0;
        job.begin = round % 5 == 0 ? 30 : 0;
        job.end = round % 7 == 0 ? 300 : UINT64_MAX;
        job.interval = round % 10 == 1 ? 100 : 0;
        job.max_hits = round % 2 == 0 ? HSPZ_MAX_HITS_DEFAULT : 1 + test_random(seed) % 500;
        struct model_result all = model_discover(&job);
        job.mask = &mask;
        job.mask_user = &twin;
        job.mask_count = count_in_twin;
        job.mask_k = spec.k;
        job.mask_above = mask.above;
        struct model_result left = model_discover(&job);
        const struct run_options options = {.part_anchors = 2 + test_random(seed) % 3000,
                                            .park_every = round % 4};
        if (hsps) {
            runner_check_hsps(&f->runner, f->ref, &job,
                              &(struct model_scoring){.xdrop = 910,
                                                      .threshold = 500,
                                                      .entropy = round % 2 == 0,
                                                      .scope = (enum hspz_hsp_scope)(round % 2)},
                              &options);
        } else {
            runner_check(&f->runner, f->ref, &job, &options);
        }
        const uint64_t seeds = all.totals[0].seeds + all.totals[1].seeds;
        const uint64_t kept = left.totals[0].seeds + left.totals[1].seeds;
        assert_true(kept <= seeds);
        model_result_free(&all);
        model_result_free(&left);
        fixture_unload(f);
        subject.ops->destroy(&subject.filter);
        twin.filter.ops->destroy(&twin.filter.filter);
        free(ref);
        free(query);
        free(text);
        return seeds - kept;
    }
    free(ref);
    free(query);
    free(text);
    return 0;
}

static void
check_rounds(bool hsps, unsigned rounds)
{
    static const char *const patterns[] = {"1111", "110111", "1110100110010101111",
                                           "110100000000000000000000000000000000011"};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        uint64_t seed = 101, taken = 0, over = 0;
        for (unsigned round = 0; round < rounds; round++) {
            struct fixture f;
            fixture_open(&f, engines[e], 1 + round % 3, patterns[round / 3 % 4]);
            taken += check_round(&f, round, &seed, hsps, &over);
            fixture_close(&f);
        }
        assert_true(taken > 1000);
        assert_true(over > 0); /* some filters did err, or nothing was seen of that */
    }
}

static void
test_masked_starts_equal_the_model(void **state)
{
    (void)state;
    check_rounds(false, test_rounds(140));
}

static void
test_masked_hsps_equal_the_model(void **state)
{
    (void)state;
    check_rounds(true, test_rounds(70));
}

/* The k-mer looked up on the minus strand is the one that begins at the window's start there; if
 * the filter's k-mers are canonical, that is the plus strand's that ends where the window does. */
static void
test_both_strands_by_hand(void **state)
{
    (void)state;
    /* Windows of 4; the minus strand of AACCTTGACG is CGTCAAGGTT. */
    static const char query[] = "AACCTTGACG";
    static const struct {
        const char *kmer;
        bool canonical;
        unsigned plus, minus; /* starts that are masked: a bit each */
    } cases[] = {
        {"CCT", false, 1u << 2, 0},
        {"CCT", true, 1u << 2, 1u << 5}, /* AGG, at 5 of the minus strand */
        {"AGG", false, 0, 1u << 5},
        {"AGG", true, 1u << 2, 1u << 5},
        {"ACG", false, 0, 0}, /* at 7: no window begins there */
        {"CGT", false, 0, 1u << 0},
        {"ACG", true, 0, 1u << 0},
        {"AACCTTG", false, 1u << 0, 0},
        {"CAAGGTT", true, 1u << 0, 1u << 3},
        {"CCTTGACG", false, 1u << 2, 0}, /* as far as the strand goes */
        {"CCTTGACG", true, 1u << 2, 1u << 0},
    };
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            for (int on_host = 0; on_host < 2; on_host++) {
                struct fixture f;
                fixture_open(&f, engines[e], 1, "1111");
                fixture_load(&f, "AACCTTGACGTNCGTCAAGGTT"); /* every window of both strands */
                const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_GQF,
                                                      .slots = 256,
                                                      .slot_bits = 32,
                                                      .k = (unsigned)strlen(cases[i].kmer),
                                                      .canonical = cases[i].canonical};
                struct subject s;
                assert_true(make_filter(&s, on_host ? NULL : &f.runner, &spec));
                fill(&s, cases[i].kmer);
                struct model_job job = fixture_job(&f, query);
                job.transitions = 0;
                struct hspz_job_spec run_spec = runner_spec(&job);
                run_spec.mask = (struct hspz_seed_mask){.ops = s.ops, .filter = s.filter};
                for (int strand = 0; strand < 2; strand++) {
                    run_spec.strands = strand == 0 ? HSPZ_STRANDS_PLUS : HSPZ_STRANDS_MINUS;
                    struct run_result got = runner_run(&f.runner, f.ref, &run_spec,
                                                       &(struct run_options){.part_anchors = 100});
                    assert_int_equal(got.status, HSPZ_OK);
                    unsigned seen = 0;
                    for (size_t a = 0; a < got.count; a++) {
                        seen |= 1u << (HSPZ_ANCHOR_QUERY(got.anchors[a]) - 4);
                    }
                    const unsigned masked = strand == 0 ? cases[i].plus : cases[i].minus;
                    assert_int_equal(seen, 0x7fu & ~masked);
                    run_result_free(&got);
                }
                s.ops->destroy(&s.filter);
                fixture_close(&f);
            }
        }
    }
}

/* ---- long queries ---- */

#define TABLE_K 10u

static unsigned
table_index(const char *kmer)
{
    unsigned index = 0;
    for (unsigned i = 0; i < TABLE_K; i++) {
        index = index * 4 + (unsigned)(strchr("ACGT", kmer[i]) - "ACGT");
    }
    return index;
}

static uint64_t
count_in_table(const void *user, const char *kmer)
{
    char other[TABLE_K + 1] = {0};
    for (unsigned i = 0; i < TABLE_K; i++) {
        other[i] = complement_of(kmer[TABLE_K - 1 - i]);
    }
    const unsigned a = table_index(kmer), b = table_index(other);
    return ((const uint32_t *)user)[a < b ? a : b];
}

/* Several batches, their masks made in many pieces, parts and chunks, and parked in between. */
static void
test_masks_of_a_long_query_in_batches(void **state)
{
    (void)state;
    uint64_t seed = 9;
    char *ref = random_sequence(&seed, 2000);
    char *query = random_sequence(&seed, 530000);
    char *text = random_sequence(&seed, 40000);
    uint32_t *table = calloc(1u << 2 * TABLE_K, sizeof(*table));
    assert_non_null(table);
    upper(text);
    for (size_t i = 0; i + TABLE_K <= strlen(text); i++) {
        char kmer[TABLE_K + 1] = {0};
        memcpy(kmer, text + i, TABLE_K);
        if (strspn(kmer, "ACGT") == TABLE_K) {
            char other[TABLE_K + 1] = {0};
            for (unsigned b = 0; b < TABLE_K; b++) {
                other[b] = complement_of(kmer[TABLE_K - 1 - b]);
            }
            const unsigned a = table_index(kmer), b = table_index(other);
            table[a < b ? a : b]++;
        }
    }
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        for (int kind = 0; kind < 2; kind++) {
            struct fixture f;
            struct subject s;
            fixture_open(&f, engines[e], 2, "111010011010111");
            const struct hspz_filter_spec spec = {.kind = kind == 0 ? HSPZ_FILTER_GQF
                                                                    : HSPZ_FILTER_COUNTER,
                                                  .slots = 1u << 16,
                                                  .slot_bits = kind == 0 ? 64 : 0,
                                                  .k = TABLE_K,
                                                  .canonical = true};
            struct hspz_filter_spec planned = spec;
            if (kind == 1) {
                planned.slots = 0;
                planned.capacity = 1000;
            }
            assert_true(make_filter(&s, kind == 0 ? &f.runner : NULL, &planned));
            fill(&s, text);
            fixture_load(&f, ref);
            const struct hspz_seed_mask mask = {.ops = s.ops, .filter = s.filter, .above = 0};
            struct model_job job = fixture_job(&f, query);
            job.mask = &mask;
            job.mask_count = count_in_table;
            job.mask_user = table;
            job.mask_k = TABLE_K;
            job.max_hits = 5000;
            runner_check(&f.runner, f.ref, &job,
                         &(struct run_options){.part_anchors = 3000, .park_every = 5});
            s.ops->destroy(&s.filter);
            fixture_close(&f);
        }
    }
    free(ref);
    free(query);
    free(text);
    free(table);
}

/* ---- refusals ---- */

static void
refuse(struct fixture *f, const struct hspz_job_spec *spec, enum hspz_status status,
       const char *text)
{
    struct run_result got =
        runner_run(&f->runner, f->ref, spec, &(struct run_options){.part_anchors = 100});
    assert_int_equal(got.status, status);
    if (strstr(got.err.text, text) == NULL) {
        fail_msg("%s", got.err.text);
    }
    run_result_free(&got);
}

static void
test_masks_that_are_none_are_refused(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {1};
    const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX];
    const size_t engine_count = runner_engines(engines);
    for (size_t e = 0; e < engine_count; e++) {
        struct fixture f;
        struct subject plain, bloom;
        fixture_open(&f, engines[e], 1, "1111");
        fixture_load(&f, "ACGTACGTACGT");
        make_filter(&plain, NULL, &(struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 64});
        make_filter(&bloom, NULL,
                    &(struct hspz_filter_spec){.kind = HSPZ_FILTER_BLOOM, .capacity = 100, .k = 5});
        struct model_job job = fixture_job(&f, "ACGTACGT");
        struct hspz_job_spec spec = runner_spec(&job);
        spec.mask = (struct hspz_seed_mask){.ops = plain.ops, .filter = plain.filter};
        refuse(&f, &spec, HSPZ_E_BAD_REQUEST, "this one has no k");
        spec.mask = (struct hspz_seed_mask){.ops = bloom.ops, .filter = bloom.filter, .above = 1};
        refuse(&f, &spec, HSPZ_E_UNSUPPORTED, "a bloom filter has no counts");
        spec.mask.above = 0;
        spec.given_seeds = true;
        spec.seeds = (const uint8_t *)seeds;
        spec.seed_count = 1;
        refuse(&f, &spec, HSPZ_E_BAD_REQUEST, "not given seeds");
        plain.ops->destroy(&plain.filter);
        bloom.ops->destroy(&bloom.filter);
        fixture_close(&f);
    }
}

/* ---- faults ---- */

static void
test_no_memory_for_a_mask_ends_the_job(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct fixture f;
    struct subject s;
    fixture_open(&f, &hspz_cpu_engine, 2, "110111");
    char *ref = random_sequence(&seed, 900);
    char *query = random_sequence(&seed, 30000);
    fixture_load(&f, ref);
    make_filter(&s, NULL,
                &(struct hspz_filter_spec){
                    .kind = HSPZ_FILTER_GQF, .slots = 65536, .k = 7, .canonical = true});
    fill(&s, ref);
    struct model_job job = fixture_job(&f, query);
    struct hspz_job_spec spec = runner_spec(&job);
    uint64_t all, want, got;
    assert_int_equal(runner_run_bare(&f.runner, f.ref, &spec, &all), HSPZ_OK);
    spec.mask = (struct hspz_seed_mask){.ops = s.ops, .filter = s.filter, .above = 1};
    assert_int_equal(runner_run_bare(&f.runner, f.ref, &spec, &want), HSPZ_OK);
    assert_true(want > 0 && want < all);
    bool failed = true;
    long n = 1;
    for (; failed; n++) {
        failing_malloc_arm(n);
        const enum hspz_status status = runner_run_bare(&f.runner, f.ref, &spec, &got);
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
    }
    assert_true(n > 20);
    assert_int_equal(got, want);
    s.ops->destroy(&s.filter);
    free(ref);
    free(query);
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masked_starts_equal_the_model),
        cmocka_unit_test(test_masked_hsps_equal_the_model),
        cmocka_unit_test(test_both_strands_by_hand),
        cmocka_unit_test(test_masks_of_a_long_query_in_batches),
        cmocka_unit_test(test_masks_that_are_none_are_refused),
        cmocka_unit_test(test_no_memory_for_a_mask_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
