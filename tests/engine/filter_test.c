/* Approximate filters on the CPU against plain sets, counted keys and published numbers. */
#include "engine/filter.h"
#include "engine/filter_hash.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static struct hspz_filter_plan
plan(struct hspz_filter_spec spec)
{
    struct hspz_filter_plan made;
    struct hspz_error err = {0};
    if (hspz_filter_plan(&spec, 0, &made, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return made;
}

static struct hspz_filter *
create(struct hspz_filter_spec spec)
{
    const struct hspz_filter_plan made = plan(spec);
    struct hspz_filter *filter = NULL;
    assert_int_equal(hspz_cpu_filter(spec.kind)->create(&made, &filter, NULL), HSPZ_OK);
    return filter;
}

static struct hspz_filter_call
run(enum hspz_filter_kind kind, struct hspz_filter *filter, struct hspz_filter_call call)
{
    struct hspz_error err = {0};
    if (hspz_cpu_filter(kind)->run(filter, &call, &err) != HSPZ_OK) {
        fail_msg("%s %s: %s", hspz_filter_kind_name(kind), hspz_filter_op_name(call.op), err.text);
    }
    return call;
}

/* One key; whether its bit is set. */
static bool
one(enum hspz_filter_kind kind, struct hspz_filter *filter, enum hspz_filter_op op, uint64_t key)
{
    uint8_t yes = 0;
    run(kind, filter, (struct hspz_filter_call){.op = op, .keys = &key, .count = 1, .yes = &yes});
    return yes == 1;
}

static uint64_t
count_of(enum hspz_filter_kind kind, struct hspz_filter *filter, uint64_t key)
{
    uint64_t found = UINT64_MAX;
    run(kind, filter,
        (struct hspz_filter_call){
            .op = HSPZ_FILTER_COUNT, .keys = &key, .count = 1, .found = &found});
    return found;
}

static struct hspz_filter_stats
stats_of(enum hspz_filter_kind kind, struct hspz_filter *filter)
{
    struct hspz_filter_stats stats;
    hspz_cpu_filter(kind)->stats(filter, &stats);
    return stats;
}

static void
destroy(enum hspz_filter_kind kind, struct hspz_filter **filter)
{
    hspz_cpu_filter(kind)->destroy(filter);
    assert_null(*filter);
}

/* ---- hash ---- */

static void
test_mix_is_splitmix64_and_a_permutation(void **state)
{
    (void)state;
    /* The first outputs of splitmix64 from state 0, as published with it. */
    static const uint64_t known[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f};
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(hspz_filter_mix((i + 1) * HSPZ_FILTER_GOLDEN), known[i]);
    }
    uint64_t random = 1;
    for (int i = 0; i < 10000; i++) {
        const uint64_t x = test_random(&random) >> i % 64;
        assert_int_equal(hspz_filter_unmix(hspz_filter_mix(x)), x);
        assert_int_equal(hspz_filter_mix(hspz_filter_unmix(x)), x);
    }
}

static void
test_the_other_block_leads_back(void **state)
{
    (void)state;
    uint64_t random = 2;
    for (int i = 0; i < 100000; i++) {
        const uint64_t blocks = 1 + test_random(&random) % (i % 3 == 0   ? 7
                                                            : i % 3 == 1 ? 1u << 20
                                                                         : UINT32_MAX);
        const uint32_t block = (uint32_t)(test_random(&random) % blocks);
        const unsigned bits = (unsigned[]){8, 12, 16, 32}[i % 4];
        const uint32_t tag = hspz_tcf_tag(test_random(&random), bits);
        assert_true(tag >= HSPZ_TCF_TAGS && (uint64_t)tag >> bits == 0);
        const struct hspz_tcf_windows w = hspz_tcf_windows_of(blocks, bits, 16u << i / 4 % 3);
        const uint32_t other = hspz_tcf_other(block, tag, w);
        assert_true(other < blocks);
        assert_int_equal(hspz_tcf_other(other, tag, w), block);
        /* In one window, of those that follow one another from the first block on. */
        const uint32_t last = blocks < 2 * w.size ? 0 : (uint32_t)(blocks / w.size) - 1;
        const uint32_t window = block / w.size < last ? block / w.size : last;
        assert_int_equal(other / w.size < last ? other / w.size : last, window);
        const uint64_t hash = test_random(&random);
        assert_int_equal(hspz_tcf_block(hash, (uint32_t)blocks), hspz_filter_scale(hash, blocks));
    }
    assert_int_equal(hspz_tcf_tag(0, 8), HSPZ_TCF_TAGS);
    assert_int_equal(hspz_tcf_tag(UINT64_MAX, 8), 255);
}

/* ---- plans ---- */

static void
test_nonsense_is_refused_by_number_before_memory_is_taken(void **state)
{
    (void)state;
    static const struct {
        struct hspz_filter_spec spec;
        const char *says;
    } cases[] = {
        {{.kind = HSPZ_FILTER_TCF}, "exactly one"},
        {{.kind = HSPZ_FILTER_TCF, .capacity = 5, .slots = 5}, "exactly one"},
        {{.kind = HSPZ_FILTER_BLOOM, .capacity = 5, .rate = 2}, "rate is 2"},
        {{.kind = HSPZ_FILTER_BLOOM, .capacity = 5, .rate = 1}, "rate is 1"},
        {{.kind = HSPZ_FILTER_BLOOM, .capacity = 5, .rate = -0.1}, "rate is -0.1"},
        {{.kind = HSPZ_FILTER_BLOOM, .capacity = 5, .rate = 1e-300}, "rate is 1e-300"},
        {{.kind = HSPZ_FILTER_GQF, .capacity = 5, .rate = NAN}, "rate is nan"},
        {{.kind = HSPZ_FILTER_TCF, .capacity = UINT64_C(1000000000000000000)},
         "capacity is 1000000000000000000"},
        {{.kind = HSPZ_FILTER_GQF, .capacity = UINT64_MAX}, "capacity is 18446744073709551615"},
        {{.kind = HSPZ_FILTER_GQF, .slots = UINT64_C(1) << 63}, "slots is 9223372036854775808"},
        {{.kind = HSPZ_FILTER_GQF, .slots = UINT64_C(1) << 37}, "2^36"},
        {{.kind = HSPZ_FILTER_GQF, .slots = 64, .slot_bits = 1}, "slot_bits is 1"},
        {{.kind = HSPZ_FILTER_GQF, .slots = 64, .slot_bits = 33}, "slot_bits is 33"},
        {{.kind = HSPZ_FILTER_GQF, .slots = 64, .slot_bits = 8, .value_bits = 8},
         "value_bits is 8"},
        {{.kind = HSPZ_FILTER_GQF, .slots = 64, .value_bits = 49}, "value_bits is 49"},
        {{.kind = HSPZ_FILTER_SQF, .slots = 64, .value_bits = 1}, "value_bits is 1"},
        {{.kind = HSPZ_FILTER_TCF, .slots = 64, .slot_bits = 13}, "slot_bits is 13"},
        {{.kind = HSPZ_FILTER_TCF, .slots = 64, .block_slots = 15}, "block_slots is 15"},
        {{.kind = HSPZ_FILTER_TCF, .slots = 64, .value_bits = 49}, "value_bits is 49"},
        {{.kind = HSPZ_FILTER_TCF, .capacity = 64, .rate = 1e-9}, "rate is 1e-09"},
        {{.kind = HSPZ_FILTER_BLOCKED, .slots = 64, .hashes = 17}, "hashes is 17"},
        {{.kind = HSPZ_FILTER_BLOOM, .capacity = 64, .value_bits = 3}, "value_bits is 3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hspz_filter_plan made;
        struct hspz_error err = {0};
        assert_int_equal(hspz_filter_plan(&cases[i].spec, 0, &made, &err), HSPZ_E_BAD_REQUEST);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("case %zu says: %s", i, err.text);
        }
    }
    struct hspz_filter_plan made;
    struct hspz_error err = {0};
    const struct hspz_filter_spec large = {.kind = HSPZ_FILTER_TCF, .capacity = 1000000};
    assert_int_equal(hspz_filter_plan(&large, 1000000, &made, &err), HSPZ_E_TOO_LARGE);
    assert_true(err.has_limit);
    assert_int_equal(err.limit, 1000000);
}

static void
test_plans_reach_published_rates(void **state)
{
    (void)state;
    /* A Bloom filter of 10 bits a key and 7 hashes: 0.819% (Broder and Mitzenmacher 2004). */
    struct hspz_filter_plan p = plan((struct hspz_filter_spec){
        .kind = HSPZ_FILTER_BLOOM, .slots = 10000000, .hashes = 7, .seed = 1});
    assert_true(fabs(p.expected_rate - 0.0079) < 0.0005); /* at half of its bits: 1 / 128 */
    p = plan(
        (struct hspz_filter_spec){.kind = HSPZ_FILTER_BLOOM, .capacity = 1000000, .rate = 0.01});
    /* n ln p / (ln 2)^2 = 9.585 bits a key. */
    assert_true(fabs((double)p.spec.slots / 1e6 - 9.585) < 0.1);
    assert_int_equal(p.spec.hashes, 7);
    /* McCoy et al.: blocks of 16 tags of 16 bits at load 0.9: 2 x 16 x 0.9 / 2^16 = 0.044%. */
    p = plan((struct hspz_filter_spec){.kind = HSPZ_FILTER_TCF, .slots = 1 << 22});
    assert_true(fabs(p.expected_rate - 4.4e-4) < 0.1e-4);
    assert_true((double)p.bytes * 8 / (0.9 * (1 << 22)) < 18.05);
    /* Theirs: 8-bit remainders at load 0.9: 0.35%. */
    p = plan((struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 1 << 22, .slot_bits = 8});
    assert_true(fabs(p.expected_rate / HSPZ_FILTER_LOAD_QUOTIENT * 0.9 - 3.5e-3) < 0.05e-3);
}

/* ---- counts ---- */

static void
test_the_largest_counts_of_every_remainder_are_kept(void **state)
{
    (void)state;
    struct hspz_filter *f =
        create((struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 8});
    uint64_t keys[256], counts[256], found[256];
    for (uint64_t r = 0; r < 256; r++) {
        /* The hash of a filter of 2^12 quotients: quotient 16 r, remainder r. */
        keys[r] = hspz_filter_unmix(r << 56 | r << 44) ^ hspz_filter_salt(0);
        counts[r] = UINT64_MAX - r % 3;
    }
    run(HSPZ_FILTER_GQF, f,
        (struct hspz_filter_call){
            .op = HSPZ_FILTER_INSERT, .keys = keys, .count = 256, .counts = counts});
    run(HSPZ_FILTER_GQF, f,
        (struct hspz_filter_call){
            .op = HSPZ_FILTER_COUNT, .keys = keys, .count = 256, .found = found});
    assert_memory_equal(found, counts, sizeof(counts));
    destroy(HSPZ_FILTER_GQF, &f);
}

/* ---- sets ---- */

#define KINDS_COUNT 6

static const struct hspz_filter_spec small_specs[] = {
    {.kind = HSPZ_FILTER_TCF, .slots = 4096, .seed = 3},
    {.kind = HSPZ_FILTER_TCF, .slots = 4000, .slot_bits = 8, .block_slots = 32, .value_bits = 5},
    {.kind = HSPZ_FILTER_TCF, .slots = 4000, .slot_bits = 12, .block_slots = 64, .value_bits = 48},
    {.kind = HSPZ_FILTER_TCF, .slots = 64, .slot_bits = 32, .value_bits = 1},
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 8},
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 16, .seed = UINT64_MAX},
    {.kind = HSPZ_FILTER_GQF, .slots = 64, .slot_bits = 64},
    {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 32, .value_bits = 7},
    {.kind = HSPZ_FILTER_SQF, .slots = 4096, .slot_bits = 16},
    {.kind = HSPZ_FILTER_RSQF, .slots = 4096, .slot_bits = 32},
    {.kind = HSPZ_FILTER_BLOOM, .capacity = 4000, .rate = 0.01},
    {.kind = HSPZ_FILTER_BLOCKED, .capacity = 4000, .rate = 0.001},
};
#define SMALL_SPECS (sizeof(small_specs) / sizeof(small_specs[0]))

static bool
deletes(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_SQF;
}

/* Random inserts and deletes of a small universe, 0 and 2^64 - 1 in it, in calls of all sizes:
 * whatever went in and was not taken away is found. A key is deleted only when it is in. */
static void
check_against_counts(const struct hspz_filter_spec *spec, uint64_t seed)
{
    enum { UNIVERSE = 300, CALLS = 120, MOST = 40 };
    const enum hspz_filter_kind kind = spec->kind;
    struct hspz_filter *f = create(*spec);
    uint64_t keys[UNIVERSE], in[UNIVERSE] = {0}, random = seed;
    for (int k = 0; k < UNIVERSE; k++) {
        keys[k] = k == 0 ? 0 : k == 1 ? UINT64_MAX : test_random(&random);
    }
    for (int c = 0; c < CALLS; c++) {
        uint64_t some[MOST];
        int which[MOST];
        const size_t n = test_random(&random) % MOST;
        const bool insert = !deletes(kind) || test_random(&random) % 3 != 0;
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            const int k = (int)(test_random(&random) % UNIVERSE);
            if (insert || in[k] > 0) {
                in[k] = insert
                            ? (kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF ? in[k] + 1 : 1)
                        : kind == HSPZ_FILTER_TCF ? in[k] - 1
                                                  : 0;
                which[count] = k;
                some[count++] = keys[k];
            }
        }
        uint8_t yes[MOST / 8 + 1];
        const struct hspz_filter_call call =
            run(kind, f,
                (struct hspz_filter_call){.op = insert ? HSPZ_FILTER_INSERT : HSPZ_FILTER_DELETE,
                                          .keys = some,
                                          .count = count,
                                          .yes = yes});
        if (insert && call.full) {
            for (size_t i = 0; i < count; i++) {
                if ((yes[i / 8] >> i % 8 & 1) == 0) {
                    in[which[i]]--;
                }
            }
        } else {
            assert_int_equal(call.yes_count, count);
        }
    }
    uint64_t there = 0;
    for (int k = 0; k < UNIVERSE; k++) {
        there += in[k] > 0;
        if (in[k] > 0) {
            assert_true(one(kind, f, HSPZ_FILTER_QUERY, keys[k]));
        }
        if (kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF) {
            assert_true(count_of(kind, f, keys[k]) >= in[k]);
        }
        if (kind == HSPZ_FILTER_GQF && spec->slot_bits == 64) {
            assert_int_equal(count_of(kind, f, keys[k]), in[k]);
        }
    }
    assert_true(there > 20);
    destroy(kind, &f);
}

static void
test_what_went_in_is_found_until_it_is_taken_away(void **state)
{
    (void)state;
    for (size_t s = 0; s < SMALL_SPECS; s++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            check_against_counts(&small_specs[s], seed);
        }
    }
}

static void
test_sentinels_are_ordinary_keys(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0,
                                    1,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    (UINT64_C(1) << 62) - 1,
                                    UINT64_C(6827347471803364)};
    for (size_t s = 0; s < SMALL_SPECS; s++) {
        const enum hspz_filter_kind kind = small_specs[s].kind;
        struct hspz_filter *f = create(small_specs[s]);
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            assert_false(one(kind, f, HSPZ_FILTER_QUERY, keys[k]));
            assert_true(one(kind, f, HSPZ_FILTER_INSERT, keys[k]));
            assert_true(one(kind, f, HSPZ_FILTER_QUERY, keys[k]));
            if (deletes(kind)) {
                assert_true(one(kind, f, HSPZ_FILTER_DELETE, keys[k]));
                assert_false(one(kind, f, HSPZ_FILTER_QUERY, keys[k]));
                assert_false(one(kind, f, HSPZ_FILTER_DELETE, keys[k]));
            }
        }
        destroy(kind, &f);
    }
}

static void
test_kinds_refuse_what_they_cannot_do(void **state)
{
    (void)state;
    static const char *const can[HSPZ_FILTER_KINDS] = {"iaqcd-", "iaqcdm", "iaq---", "iaq---",
                                                       "iaq-d-", "iaq---", "i-qc--"};
    for (int kind = 0; kind < HSPZ_FILTER_KINDS; kind++) {
        struct hspz_filter *f =
            create((struct hspz_filter_spec){.kind = (enum hspz_filter_kind)kind, .slots = 4096});
        for (int op = 0; op < HSPZ_FILTER_OPS; op++) {
            const uint64_t key = 7;
            struct hspz_filter_call call = {
                .op = (enum hspz_filter_op)op, .keys = &key, .count = 1};
            struct hspz_error err = {0};
            const enum hspz_status status =
                hspz_cpu_filter((enum hspz_filter_kind)kind)->run(f, &call, &err);
            assert_int_equal(status, can[kind][op] == '-' ? HSPZ_E_UNSUPPORTED : HSPZ_OK);
        }
        destroy((enum hspz_filter_kind)kind, &f);
    }
    assert_false(hspz_filter_kind_find("cuckoo", 6, &(enum hspz_filter_kind){0}));
}

/* ---- rates ---- */

/* Absent keys that are said to be present, of a filter filled to its capacity. */
static void
check_rate(struct hspz_filter_spec spec, uint64_t absent)
{
    const enum hspz_filter_kind kind = spec.kind;
    struct hspz_filter *f = create(spec);
    const struct hspz_filter_plan *p = hspz_cpu_filter(kind)->plan(f);
    const uint64_t n = spec.capacity;
    uint64_t *keys = malloc((n > absent ? n : absent) * sizeof(*keys));
    /* In a row, as k-mers and identifiers are. */
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = i;
    }
    struct hspz_filter_call call =
        run(kind, f, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = n});
    assert_int_equal(call.yes_count, n);
    call =
        run(kind, f, (struct hspz_filter_call){.op = HSPZ_FILTER_QUERY, .keys = keys, .count = n});
    assert_int_equal(call.yes_count, n);
    for (uint64_t i = 0; i < absent; i++) {
        keys[i] = (UINT64_C(1) << 40) + 3 * i;
    }
    call = run(kind, f,
               (struct hspz_filter_call){.op = HSPZ_FILTER_QUERY, .keys = keys, .count = absent});
    free(keys);
    const double rate = (double)call.yes_count / (double)absent;
    const double noise = 4 * sqrt(p->expected_rate / (double)absent);
    if (rate > 1.2 * p->expected_rate + noise || rate < p->expected_rate / 1.2 - noise) {
        fail_msg("%s of %g: %g instead of %g", hspz_filter_kind_name(kind), spec.rate, rate,
                 p->expected_rate);
    }
    assert_true(spec.rate == 0 || p->expected_rate <= spec.rate * 1.001);
    const double now = stats_of(kind, f).rate;
    const double spread = n < 20000 ? 2 : 1.2; /* of a few blocks, some are fuller than others */
    if (now > spread * p->expected_rate || now < p->expected_rate / spread) {
        fail_msg("%s of %" PRIu64 ": says %g instead of %g", hspz_filter_kind_name(kind), n, now,
                 p->expected_rate);
    }
    destroy(kind, &f);
}

static void
test_measured_rates_are_the_expected_ones(void **state)
{
    (void)state;
    static const double rates[] = {0.05, 0.01, 0.001};
    for (int kind = 0; kind < HSPZ_FILTER_COUNTER; kind++) {
        for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
            for (uint64_t n = 1000; n <= 150000; n = n * 5 + 7) {
                check_rate((struct hspz_filter_spec){.kind = (enum hspz_filter_kind)kind,
                                                     .capacity = n,
                                                     .rate = rates[r],
                                                     .seed = n},
                           300000);
            }
        }
    }
    for (unsigned k = 1; k <= 16; k++) {
        check_rate((struct hspz_filter_spec){.kind = HSPZ_FILTER_BLOCKED,
                                             .capacity = 50000,
                                             .rate = 0.03 + 0.3 / k,
                                             .hashes = k},
                   300000);
    }
}

/* ---- full ---- */

/* Fills a filter far past its end: what is said to be in is found, and it holds its load. */
static void
test_a_full_filter_says_what_went_in(void **state)
{
    (void)state;
    enum { MANY = 6000 };
    static uint64_t keys[MANY];
    static uint8_t yes[MANY / 8];
    uint64_t random = 9;
    for (int i = 0; i < MANY; i++) {
        keys[i] = test_random(&random);
    }
    for (size_t s = 0; s < SMALL_SPECS; s++) {
        const enum hspz_filter_kind kind = small_specs[s].kind;
        if (kind == HSPZ_FILTER_BLOOM || kind == HSPZ_FILTER_BLOCKED) {
            continue;
        }
        for (int in_one = 0; in_one < 2; in_one++) {
            struct hspz_filter *f = create(small_specs[s]);
            const struct hspz_filter_plan *p = hspz_cpu_filter(kind)->plan(f);
            uint64_t in = 0;
            const size_t step = in_one ? MANY : 500;
            memset(yes, 0, sizeof(yes));
            bool full = false;
            for (size_t i = 0; i < MANY; i += step) {
                uint8_t bits[MANY / 8 + 1];
                const struct hspz_filter_call call = run(
                    kind, f,
                    (struct hspz_filter_call){
                        .op = HSPZ_FILTER_INSERT, .keys = keys + i, .count = step, .yes = bits});
                in += call.yes_count;
                full |= call.full;
                for (size_t k = 0; k < step; k++) {
                    if (bits[k / 8] >> k % 8 & 1) {
                        yes[(i + k) / 8] |= (uint8_t)(1u << (i + k) % 8);
                        assert_true(one(kind, f, HSPZ_FILTER_QUERY, keys[i + k]));
                    }
                }
            }
            assert_true(full);
            assert_true(in >= p->full_slots);
            if (kind == HSPZ_FILTER_TCF) {
                assert_true(in <= p->spec.slots + p->spare_slots);
                assert_int_equal(stats_of(kind, f).entries, in);
            }
            uint64_t found = 0;
            for (int i = 0; i < MANY; i++) {
                found += one(kind, f, HSPZ_FILTER_QUERY, keys[i]);
                assert_true((yes[i / 8] >> i % 8 & 1) == 0 ||
                            one(kind, f, HSPZ_FILTER_QUERY, keys[i]));
            }
            assert_true(found >= in);
            destroy(kind, &f);
        }
    }
}

/* ---- tcf ---- */

/* Keys of one tag whose blocks are a pair. */
static size_t
find_siblings(const struct hspz_filter_plan *p, uint64_t *keys, size_t most, bool same_first)
{
    const uint64_t salt = hspz_filter_salt(p->spec.seed);
    const struct hspz_tcf_windows w =
        hspz_tcf_windows_of(p->blocks, p->spec.slot_bits, p->spec.block_slots);
    size_t n = 0;
    uint32_t tag = 0, block = 0;
    for (uint64_t key = 0; n < most && key < UINT64_C(20000000); key++) {
        const uint64_t hash = hspz_filter_hash(key, salt);
        const uint32_t t = hspz_tcf_tag(hash, p->spec.slot_bits);
        const uint32_t b = hspz_tcf_block(hash, w.blocks);
        if (n == 0) {
            tag = t;
            block = b;
        }
        if (t == tag && (b == block || (!same_first && b == hspz_tcf_other(block, t, w)))) {
            keys[n++] = key;
        }
    }
    return n;
}

static void
test_deleting_a_key_never_takes_its_siblings_only_tag(void **state)
{
    (void)state;
    enum { MOST = 60 };
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_TCF, .slots = 256, .slot_bits = 8};
    const struct hspz_filter_plan p = plan(spec);
    uint64_t keys[MOST];
    for (int same_first = 0; same_first < 2; same_first++) {
        assert_int_equal(find_siblings(&p, keys, MOST, same_first), MOST);
        struct hspz_filter *f = create(spec);
        /* More than two blocks hold: the rest is in the backing table. */
        for (int i = 0; i < 40; i++) {
            assert_true(one(spec.kind, f, HSPZ_FILTER_INSERT, keys[i]));
            assert_int_equal(count_of(spec.kind, f, keys[MOST - 1]), i + 1);
        }
        for (int i = 39; i >= 0; i--) {
            for (int k = 0; k <= i; k++) {
                assert_true(one(spec.kind, f, HSPZ_FILTER_QUERY, keys[k]));
            }
            assert_true(one(spec.kind, f, HSPZ_FILTER_DELETE, keys[i]));
            assert_int_equal(count_of(spec.kind, f, keys[0]), i);
        }
        assert_false(one(spec.kind, f, HSPZ_FILTER_DELETE, keys[0]));
        assert_int_equal(stats_of(spec.kind, f).entries, 0);
        destroy(spec.kind, &f);
    }
}

static void
test_a_hundred_rounds_to_nine_tenths_are_as_the_first(void **state)
{
    (void)state;
    enum { N = 3600 };
    static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_TCF, HSPZ_FILTER_GQF,
                                                  HSPZ_FILTER_SQF};
    static uint64_t keys[N];
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const struct hspz_filter_spec spec = {.kind = kinds[k], .slots = 4096, .slot_bits = 16};
        struct hspz_filter *f = create(spec);
        uint64_t random = 4;
        for (int round = 0; round < 100; round++) {
            const size_t n = (size_t)(0.9 * 4000) - (size_t)(round % 7);
            for (size_t i = 0; i < n; i++) {
                keys[i] = test_random(&random);
            }
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = n};
            assert_int_equal(run(spec.kind, f, call).yes_count, n);
            call.op = HSPZ_FILTER_QUERY;
            assert_int_equal(run(spec.kind, f, call).yes_count, n);
            call.op = HSPZ_FILTER_DELETE;
            const uint64_t gone = run(spec.kind, f, call).yes_count;
            /* Keys that share a fingerprint are one in a set. */
            assert_true(spec.kind == HSPZ_FILTER_TCF ? gone == n : gone >= n - 2);
            assert_int_equal(stats_of(spec.kind, f).entries, 0);
        }
        destroy(spec.kind, &f);
    }
}

static void
test_values_come_back_with_their_keys(void **state)
{
    (void)state;
    enum { N = 2000 };
    static uint64_t keys[N], values[N], found[N];
    static const unsigned bits[] = {1, 7, 24, 48};
    uint64_t random = 5;
    for (size_t b = 0; b < sizeof(bits) / sizeof(bits[0]); b++) {
        const struct hspz_filter_spec specs[] = {
            {.kind = HSPZ_FILTER_TCF, .slots = 4096, .slot_bits = 32, .value_bits = bits[b]},
            {.kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 64, .value_bits = bits[b]},
        };
        for (size_t s = 0; s < 2; s++) {
            const enum hspz_filter_kind kind = specs[s].kind;
            if (kind == HSPZ_FILTER_GQF && bits[b] > 24) {
                continue; /* what is left of a slot is too short to be exact */
            }
            struct hspz_filter *f = create(specs[s]);
            for (int i = 0; i < N; i++) {
                keys[i] = test_random(&random);
                values[i] = test_random(&random) >> (64 - bits[b]);
            }
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT_IF_ABSENT,
                                            .keys = keys,
                                            .values = values,
                                            .count = N,
                                            .found = found};
            assert_int_equal(run(kind, f, call).yes_count, N);
            for (int i = 0; i < N; i++) {
                assert_int_equal(found[i], 0);
            }
            assert_int_equal(run(kind, f, call).yes_count, 0);
            assert_memory_equal(found, values, sizeof(values));
            memset(found, 0, sizeof(found));
            call.op = HSPZ_FILTER_QUERY;
            assert_int_equal(run(kind, f, call).yes_count, N);
            assert_memory_equal(found, values, sizeof(values));
            values[7] = UINT64_C(1) << bits[b];
            call.op = HSPZ_FILTER_INSERT;
            struct hspz_error err = {0};
            assert_int_equal(hspz_cpu_filter(kind)->run(f, &call, &err), HSPZ_E_BAD_REQUEST);
            assert_non_null(strstr(err.text, "value 7 is"));
            destroy(kind, &f);
        }
    }
}

/* ---- gqf ---- */

static void
test_counts_are_exact_where_fingerprints_are(void **state)
{
    (void)state;
    enum { N = 400 };
    uint64_t keys[N], counts[N], want[N] = {0}, random = 6;
    const struct hspz_filter_spec spec = {
        .kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 64, .seed = 8};
    struct hspz_filter *f = create(spec);
    for (int i = 0; i < N; i++) {
        keys[i] = test_random(&random);
    }
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < N; i++) {
            counts[i] = round == 0 && i < 4
                            ? (uint64_t[]){UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, 0}[i]
                            : test_random(&random) >> test_random(&random) % 64 >> 6;
            const bool take = round % 3 == 2;
            want[i] = take ? (want[i] > counts[i] ? want[i] - counts[i] : 0)
                           : (want[i] + counts[i] < want[i] ? UINT64_MAX : want[i] + counts[i]);
        }
        run(spec.kind, f,
            (struct hspz_filter_call){.op = round % 3 == 2 ? HSPZ_FILTER_DECREMENT
                                                           : HSPZ_FILTER_INSERT,
                                      .keys = keys,
                                      .counts = counts,
                                      .count = N});
        for (int i = 0; i < N; i++) {
            assert_int_equal(count_of(spec.kind, f, keys[i]), want[i]);
        }
    }
    destroy(spec.kind, &f);
}

/* Every count up to a few digits, of every symbol of eight bits, among its neighbours. */
static void
test_counters_are_told_from_their_neighbours(void **state)
{
    (void)state;
    const struct hspz_filter_spec spec = {
        .kind = HSPZ_FILTER_GQF, .slots = 1 << 13, .slot_bits = 8};
    const struct hspz_filter_plan p = plan(spec);
    static const uint64_t counts[] = {1,   2,   3,     4,     5,     255,      256,        257,
                                      258, 259, 65000, 65535, 65799, 16777216, 4294967296, 1};
    struct hspz_filter *f = create(spec);
    uint64_t keys[256], times[256];
    for (uint64_t x = 0; x < 256; x++) {
        /* The key whose fingerprint is quotient 77, remainder x. */
        const uint64_t fingerprint = UINT64_C(77) << p.remainder_bits | x;
        keys[x] = hspz_filter_unmix(fingerprint << (64 - p.quotient_bits - p.remainder_bits)) ^
                  hspz_filter_salt(spec.seed);
    }
    for (uint64_t shift = 0; shift < 16; shift++) {
        for (uint64_t x = 0; x < 256; x++) {
            times[x] = counts[(x + shift) % 16];
        }
        run(spec.kind, f,
            (struct hspz_filter_call){
                .op = HSPZ_FILTER_INSERT, .keys = keys, .counts = times, .count = 256});
        for (uint64_t x = 0; x < 256; x++) {
            assert_int_equal(count_of(spec.kind, f, keys[x]), times[x]);
        }
        run(spec.kind, f,
            (struct hspz_filter_call){.op = HSPZ_FILTER_DELETE, .keys = keys, .count = 256});
        assert_int_equal(stats_of(spec.kind, f).used, 0);
    }
    destroy(spec.kind, &f);
}

static int
compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* With all 64 bits kept, the keys themselves come back. */
static void
test_enumerating_gives_every_entry_once(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint64_t keys[N], got[N];
    uint64_t random = 10;
    for (size_t piece = 1; piece < 100; piece = piece * 3 + 1) {
        const struct hspz_filter_spec spec = {
            .kind = HSPZ_FILTER_GQF, .slots = 4096, .slot_bits = 64, .seed = 99};
        struct hspz_filter *f = create(spec);
        for (int i = 0; i < N; i++) {
            keys[i] = test_random(&random);
        }
        run(spec.kind, f,
            (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = N});
        size_t n = 0, count = 1;
        uint64_t last = 0;
        for (uint64_t cursor = 0; count > 0;) {
            struct hspz_filter_entry entries[100];
            assert_int_equal(
                hspz_cpu_filter(spec.kind)->enumerate(f, &cursor, entries, piece, &count, NULL),
                HSPZ_OK);
            assert_true(count <= piece && n + count <= N);
            for (size_t i = 0; i < count; i++) {
                assert_true(n == 0 || entries[i].fingerprint > last);
                last = entries[i].fingerprint;
                assert_int_equal(entries[i].count, 1);
                got[n++] = hspz_filter_unmix(last) ^ hspz_filter_salt(spec.seed);
            }
        }
        assert_int_equal(n, N);
        qsort(keys, N, sizeof(*keys), compare_u64);
        qsort(got, N, sizeof(*got), compare_u64);
        assert_memory_equal(keys, got, sizeof(keys));
        destroy(spec.kind, &f);
    }
}

static void
test_merging_and_growing_keep_every_count(void **state)
{
    (void)state;
    enum { N = 900 };
    uint64_t keys[2 * N], counts[2 * N], random = 11;
    static const struct hspz_filter_spec specs[] = {
        {.kind = HSPZ_FILTER_GQF, .slots = 2048, .slot_bits = 64},
        {.kind = HSPZ_FILTER_SQF, .slots = 2048, .slot_bits = 32},
        {.kind = HSPZ_FILTER_RSQF, .slots = 2048, .slot_bits = 32},
        {.kind = HSPZ_FILTER_BLOOM, .capacity = 3000, .rate = 1e-6},
        {.kind = HSPZ_FILTER_BLOCKED, .capacity = 3000, .rate = 1e-6},
    };
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        const enum hspz_filter_kind kind = specs[s].kind;
        const struct hspz_filter_ops *ops = hspz_cpu_filter(kind);
        struct hspz_filter *a = create(specs[s]), *b = create(specs[s]);
        for (int i = 0; i < 2 * N; i++) {
            keys[i] = test_random(&random);
            counts[i] = 1 + test_random(&random) % 2;
        }
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys, .counts = counts, .count = N + 100};
        run(kind, a, call);
        call.keys += N - 100;
        call.counts += N - 100;
        run(kind, b, call);
        bool full = false;
        if (ops->grow != NULL) {
            assert_int_equal(ops->merge(a, b, NULL, &full, NULL), HSPZ_OK);
            if (kind == HSPZ_FILTER_GQF) { /* counts of 2 take two slots: more than there are */
                assert_true(full);
            }
            assert_int_equal(ops->grow(a, 0, NULL), HSPZ_OK);
            assert_int_equal(ops->plan(a)->spec.slots, 4096);
        }
        assert_int_equal(ops->merge(a, b, NULL, &full, NULL), HSPZ_OK);
        assert_false(full);
        for (int i = 0; i < 2 * N; i++) {
            assert_true(one(kind, a, HSPZ_FILTER_QUERY, keys[i]));
            if (kind == HSPZ_FILTER_GQF) {
                const bool both = i >= N - 100 && i < N + 100;
                assert_int_equal(count_of(kind, a, keys[i]), counts[i] * (both ? 2 : 1));
            }
        }
        assert_false(one(kind, a, HSPZ_FILTER_QUERY, 12345));
        struct hspz_filter_spec other = specs[s];
        other.seed = 1;
        struct hspz_filter *c = create(other);
        assert_int_equal(ops->merge(a, c, NULL, &full, NULL), HSPZ_E_BAD_REQUEST);
        destroy(kind, &a);
        destroy(kind, &b);
        destroy(kind, &c);
    }
}

/* ---- files ---- */

static struct hspz_filter *
filled(const struct hspz_filter_spec *spec, uint64_t keys[], size_t n)
{
    uint64_t random = 12;
    struct hspz_filter *f = create(*spec);
    for (size_t i = 0; i < n; i++) {
        keys[i] = test_random(&random) >> (i % 2 == 0 ? 0 : 58);
    }
    run(spec->kind, f,
        (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT, .keys = keys, .count = n});
    return f;
}

static enum hspz_status
read_back(const char *path, struct hspz_filter **out)
{
    struct hspz_filter_plan p;
    struct hspz_filter_image image;
    struct hspz_error err = {0};
    enum hspz_status status = hspz_filter_read(path, 1 << 20, NULL, &p, &image, &err);
    if (status == HSPZ_OK) {
        status = hspz_cpu_filter(p.spec.kind)->load(&p, &image, NULL, out, &err);
        hspz_filter_image_fini(&image);
    }
    return status;
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
test_files_give_the_filter_again_and_damage_is_refused(void **state)
{
    (void)state;
    enum { N = 50 };
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "f");
    for (size_t s = 0; s < SMALL_SPECS; s++) {
        struct hspz_filter_spec spec = small_specs[s];
        spec.slots = s % 2 == 0 ? 64 : 0;
        spec.capacity = s % 2 == 0 ? 0 : 55;
        spec.k = (unsigned)s * 2;
        spec.canonical = s > 1;
        const struct hspz_filter_ops *ops = hspz_cpu_filter(spec.kind);
        uint64_t keys[N];
        struct hspz_filter *f = filled(&spec, keys, N), *again = NULL, *copy = NULL;
        if (ops->grow != NULL && spec.slot_bits < 64) {
            const double rate = stats_of(spec.kind, f).rate;
            assert_int_equal(ops->grow(f, 0, NULL), HSPZ_OK);
            /* Fingerprints are as long as before, and there may be more of them. */
            assert_true(stats_of(spec.kind, f).rate == rate);
            assert_true(ops->plan(f)->expected_rate > rate);
        }
        assert_int_equal(hspz_filter_write(ops, f, path, NULL, NULL), HSPZ_OK);
        assert_int_equal(read_back(path, &again), HSPZ_OK);
        assert_int_equal(ops->copy(f, &copy, NULL), HSPZ_OK);
        struct hspz_filter *twins[] = {again, copy};
        for (int t = 0; t < 2; t++) {
            uint64_t random = 13;
            for (int i = 0; i < 2000; i++) {
                const uint64_t key = i < N ? keys[i] : test_random(&random);
                assert_int_equal(one(spec.kind, f, HSPZ_FILTER_QUERY, key),
                                 one(spec.kind, twins[t], HSPZ_FILTER_QUERY, key));
            }
            const struct hspz_filter_stats a = stats_of(spec.kind, f),
                                           b = stats_of(spec.kind, twins[t]);
            assert_memory_equal(&a, &b, sizeof(a));
            assert_true(ops->plan(twins[t])->expected_rate == ops->plan(f)->expected_rate);
            assert_int_equal(ops->plan(twins[t])->spec.k, spec.k);
            assert_int_equal(ops->plan(twins[t])->spec.canonical, spec.canonical);
        }
        destroy(spec.kind, &copy);
        destroy(spec.kind, &again);
        /* Any byte changed, any end cut off. */
        size_t len;
        uint8_t *bytes = test_read_file(path, &len);
        for (size_t at = 0; at < len; at += 1 + at / 97) {
            bytes[at] ^= 0x10;
            write_bytes(path, bytes, len);
            const enum hspz_status status = read_back(path, &again);
            if (status == HSPZ_OK) { /* between the arrays nothing is kept */
                destroy(spec.kind, &again);
                assert_int_equal(bytes[at], 0x10);
            } else {
                assert_int_equal(status, HSPZ_E_BAD_FILE);
            }
            bytes[at] ^= 0x10;
            write_bytes(path, bytes, at);
            assert_int_equal(read_back(path, &again), HSPZ_E_BAD_FILE);
        }
        free(bytes);
        destroy(spec.kind, &f);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

/* Content whose checksums are right but which no filter can have: refused, or harmless. */
static void
test_images_that_no_filter_has_send_nothing_astray(void **state)
{
    (void)state;
    uint64_t random = 14, refused = 0;
    for (int round = 0; round < 4000; round++) {
        struct hspz_filter_spec spec = small_specs[round % (int)SMALL_SPECS];
        spec.slots = 64;
        spec.capacity = 0;
        const struct hspz_filter_ops *ops = hspz_cpu_filter(spec.kind);
        uint64_t keys[40];
        struct hspz_filter *f = filled(&spec, keys, 40), *again = NULL;
        struct hspz_filter_image image;
        assert_int_equal(ops->save(f, NULL, &image, NULL), HSPZ_OK);
        for (int n = 0; n < 1 + round % 3; n++) {
            const int a = (int)(test_random(&random) % HSPZ_FILTER_ARRAYS);
            if (image.bytes[a] > 0) {
                ((uint8_t *)image.arrays[a])[test_random(&random) % image.bytes[a]] ^=
                    (uint8_t)(1u << test_random(&random) % 8);
            }
        }
        if (ops->load(ops->plan(f), &image, NULL, &again, NULL) == HSPZ_OK) {
            for (int i = 0; i < 40; i++) {
                (void)one(spec.kind, again, HSPZ_FILTER_QUERY, keys[i]);
                (void)one(spec.kind, again, HSPZ_FILTER_INSERT, keys[i] + 1);
            }
            destroy(spec.kind, &again);
        } else {
            refused++;
        }
        hspz_filter_image_fini(&image);
        destroy(spec.kind, &f);
    }
    assert_true(refused > 1000);
}

/* ---- memory ---- */

static void
test_every_allocation_may_fail(void **state)
{
    (void)state;
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "f");
    for (size_t s = 0; s < SMALL_SPECS; s++) {
        struct hspz_filter_spec spec = small_specs[s];
        spec.slots = 64;
        spec.capacity = 0;
        const struct hspz_filter_ops *ops = hspz_cpu_filter(spec.kind);
        const struct hspz_filter_plan p = plan(spec);
        uint64_t keys[20] = {0};
        bool done = false;
        for (int nth = 1; !done && nth < 200; nth++) {
            struct hspz_filter *f = NULL, *copy = NULL, *again = NULL;
            bool full;
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = 20};
            failing_malloc_arm(nth);
            enum hspz_status status = ops->create(&p, &f, NULL);
            if (status == HSPZ_OK) {
                status = ops->run(f, &call, NULL);
            }
            if (status == HSPZ_OK) {
                status = ops->copy(f, &copy, NULL);
            }
            if (status == HSPZ_OK && ops->merge != NULL) {
                status = ops->merge(f, copy, NULL, &full, NULL);
            }
            if (status == HSPZ_OK && ops->grow != NULL && spec.slot_bits < 64) {
                status = ops->grow(f, 0, NULL);
            }
            if (status == HSPZ_OK) {
                status = hspz_filter_write(ops, f, path, NULL, NULL);
            }
            if (status == HSPZ_OK) {
                status = read_back(path, &again);
            }
            done = status == HSPZ_OK;
            (void)failing_malloc_disarm();
            assert_true(done || status == HSPZ_E_OUT_OF_MEMORY || status == HSPZ_E_IO);
            ops->destroy(&f);
            ops->destroy(&copy);
            ops->destroy(&again);
        }
        assert_true(done);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_counts_of_every_remainder_are_kept),
        cmocka_unit_test(test_mix_is_splitmix64_and_a_permutation),
        cmocka_unit_test(test_the_other_block_leads_back),
        cmocka_unit_test(test_nonsense_is_refused_by_number_before_memory_is_taken),
        cmocka_unit_test(test_plans_reach_published_rates),
        cmocka_unit_test(test_what_went_in_is_found_until_it_is_taken_away),
        cmocka_unit_test(test_sentinels_are_ordinary_keys),
        cmocka_unit_test(test_kinds_refuse_what_they_cannot_do),
        cmocka_unit_test(test_measured_rates_are_the_expected_ones),
        cmocka_unit_test(test_a_full_filter_says_what_went_in),
        cmocka_unit_test(test_deleting_a_key_never_takes_its_siblings_only_tag),
        cmocka_unit_test(test_a_hundred_rounds_to_nine_tenths_are_as_the_first),
        cmocka_unit_test(test_values_come_back_with_their_keys),
        cmocka_unit_test(test_counts_are_exact_where_fingerprints_are),
        cmocka_unit_test(test_counters_are_told_from_their_neighbours),
        cmocka_unit_test(test_enumerating_gives_every_entry_once),
        cmocka_unit_test(test_merging_and_growing_keep_every_count),
        cmocka_unit_test(test_files_give_the_filter_again_and_damage_is_refused),
        cmocka_unit_test(test_images_that_no_filter_has_send_nothing_astray),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
