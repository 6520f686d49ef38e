/* Filters under long mixes of operations against an exact set: no key that is in is ever missed,
 * counts are never under the truth, and absent keys are found no more often than the filter says.
 *
 * The load goes up and down as a sawtooth, every eighth tooth until the filter is full. Keys come
 * from a universe whose members are numbered, so that the exact set is an array. */
#include "engine/filter_hash.h"
#include "tests/conformance/filters.h"
#include "tests/support/test.h"

#include <inttypes.h>

#define BATCH 8192
#define FRESH (UINT64_C(1) << 63) /* no key of a universe has this bit but the last */

struct mix {
    struct filters_subject f;
    const struct filters_engine *engine;
    enum hspz_filter_kind kind;
    size_t universe;
    uint64_t *keys, *in; /* in: how often a key of the universe is in */
    bool *shared;        /* another key of the universe has its fingerprint */
    uint64_t random, done, found, fresh_asked, fresh_found;
    double fresh_expected;
    bool rising;
    unsigned teeth;
    /* The call being made. */
    uint64_t batch[BATCH], counts[BATCH], got[BATCH];
    uint32_t which[BATCH];
    bool was[BATCH]; /* in before the call */
    uint8_t yes[BATCH / 8];
};

static bool
counts(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF;
}

static bool
deletes(enum hspz_filter_kind kind)
{
    return counts(kind) || kind == HSPZ_FILTER_SQF;
}

static bool
is_bloom(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_BLOOM || kind == HSPZ_FILTER_BLOCKED;
}

static uint64_t
below(struct mix *m, uint64_t limit)
{
    return hspz_filter_scale(test_random(&m->random), limit);
}

static bool
is_yes(const struct mix *m, size_t i)
{
    return (m->yes[i / 8] >> i % 8 & 1) != 0;
}

/* ---- the universe ---- */

struct print {
    uint64_t fingerprint;
    size_t key;
};

static int
compare_prints(const void *a, const void *b)
{
    const struct print *x = a, *y = b;
    return x->fingerprint < y->fingerprint ? -1 : x->fingerprint > y->fingerprint;
}

/* Taking a fingerprint away whole takes it from all keys that share it. */
static void
find_shared(struct mix *m)
{
    struct print *prints = malloc(m->universe * sizeof(*prints));
    assert_non_null(prints);
    const unsigned kept = m->f.plan.quotient_bits + m->f.plan.remainder_bits;
    for (size_t k = 0; k < m->universe; k++) {
        const uint64_t hash = hspz_filter_hash(m->keys[k], hspz_filter_salt(m->f.plan.spec.seed));
        prints[k] = (struct print){kept == 0 ? hash : hash >> (64 - kept), k};
    }
    qsort(prints, m->universe, sizeof(*prints), compare_prints);
    for (size_t i = 1; i < m->universe; i++) {
        if (prints[i].fingerprint == prints[i - 1].fingerprint) {
            m->shared[prints[i].key] = m->shared[prints[i - 1].key] = true;
        }
    }
    free(prints);
}

static void
mix_init(struct mix *m, const struct filters_engine *engine, const struct hspz_filter_spec *spec)
{
    *m = (struct mix){.engine = engine, .kind = spec->kind, .random = spec->seed, .rising = true};
    filters_create(&m->f, engine, spec);
    m->universe = 2 * (spec->slots != 0 ? spec->slots : spec->capacity);
    m->keys = malloc(m->universe * sizeof(*m->keys));
    m->in = calloc(m->universe, sizeof(*m->in));
    m->shared = calloc(m->universe, sizeof(*m->shared));
    assert_true(m->keys != NULL && m->in != NULL && m->shared != NULL);
    /* A half in a row, as identifiers are; 0 among them, and 2^64 - 1. */
    for (size_t k = 0; k < m->universe; k++) {
        m->keys[k] = k % 2 == 0 ? k / 2 : (test_random(&m->random) & ~FRESH) | FRESH >> 1;
    }
    m->keys[m->universe - 1] = UINT64_MAX;
    find_shared(m);
}

static void
mix_fini(struct mix *m)
{
    filters_destroy(&m->f);
    free(m->keys);
    free(m->in);
    free(m->shared);
}

/* ---- one call ---- */

static size_t
batch_size(struct mix *m)
{
    return below(m, 8) == 0 ? 1 + below(m, 64) : BATCH / 4 + below(m, BATCH * 3 / 4);
}

static struct hspz_filter_call
call_of(struct mix *m, enum hspz_filter_op op, size_t count)
{
    memset(m->yes, 0xff, sizeof(m->yes));
    m->done += count;
    return filters_run(&m->f, (struct hspz_filter_call){.op = op,
                                                        .keys = m->batch,
                                                        .counts = m->counts,
                                                        .count = count,
                                                        .yes = m->yes,
                                                        .found = m->got});
}

static void
insert(struct mix *m, bool if_absent)
{
    const size_t n = batch_size(m);
    for (size_t i = 0; i < n; i++) {
        m->which[i] = (uint32_t)below(m, m->universe);
        m->batch[i] = m->keys[m->which[i]];
        m->was[i] = m->in[m->which[i]] > 0;
        m->counts[i] = below(m, 16) == 0 ? test_random(&m->random) >> (8 + below(m, 56)) : 1;
    }
    const struct hspz_filter_call call =
        call_of(m, if_absent ? HSPZ_FILTER_INSERT_IF_ABSENT : HSPZ_FILTER_INSERT, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t *in = &m->in[m->which[i]];
        if (is_yes(m, i)) {
            /* Absent, it says: a false negative if it is in. Of equal keys of a call a Bloom filter
             * on a device may take each. */
            assert_true(!if_absent || !m->was[i]);
            assert_true(!if_absent || *in == 0 || is_bloom(m->kind));
            *in += m->kind == HSPZ_FILTER_GQF && !if_absent ? m->counts[i] : 1;
            *in = counts(m->kind) ? *in : 1;
        } else {
            assert_true(if_absent || call.full);
        }
    }
}

/* A number of the universe that is in; false when a few tries gave none. */
static bool
pick(struct mix *m, uint32_t *which)
{
    for (int tries = 0; tries < 16; tries++) {
        *which = (uint32_t)below(m, m->universe);
        if (m->in[*which] > 0) {
            return true;
        }
    }
    return false;
}

/* Only what is in is taken away, and all of it is there to be taken. */
static void
take(struct mix *m, bool decrement)
{
    const size_t most = batch_size(m);
    size_t n = 0;
    for (size_t tries = 0; tries < most; tries++) {
        uint32_t which;
        if (!pick(m, &which) || (m->shared[which] && m->kind != HSPZ_FILTER_TCF && !decrement)) {
            continue;
        }
        m->batch[n] = m->keys[which];
        m->counts[n] = below(m, 2) == 0 ? m->in[which] : 1 + below(m, m->in[which]);
        m->in[which] -= decrement ? m->counts[n] : m->kind == HSPZ_FILTER_TCF ? 1 : m->in[which];
        n++;
    }
    const struct hspz_filter_call call =
        call_of(m, decrement ? HSPZ_FILTER_DECREMENT : HSPZ_FILTER_DELETE, n);
    assert_int_equal(call.yes_count, n);
}

static void
check_found(struct mix *m, enum hspz_filter_op op, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t in = m->in[m->which[i]];
        if (in > 0 && !is_yes(m, i)) {
            fail_msg("%s %s: key %" PRIu64 ", in %" PRIu64 " times, was not found after %" PRIu64
                     " operations",
                     m->engine->ops->name, hspz_filter_kind_name(m->kind), m->batch[i], in,
                     m->done);
        }
        m->found += in > 0;
        if (op == HSPZ_FILTER_COUNT) {
            assert_true(m->got[i] >= in);
            assert_true(m->kind != HSPZ_FILTER_GQF || m->shared[m->which[i]] || in == 0 ||
                        m->got[i] == in);
        }
    }
}

static void
query(struct mix *m, enum hspz_filter_op op)
{
    const size_t n = batch_size(m);
    for (size_t i = 0; i < n; i++) {
        m->which[i] = (uint32_t)below(m, m->universe);
        m->batch[i] = m->keys[m->which[i]];
    }
    (void)call_of(m, op, n);
    check_found(m, op, n);
}

static void
query_fresh(struct mix *m)
{
    const size_t n = batch_size(m);
    for (size_t i = 0; i < n; i++) {
        m->batch[i] = FRESH | m->fresh_asked++;
    }
    m->fresh_expected += (double)n * filters_stats(&m->f).rate;
    m->fresh_found += call_of(m, HSPZ_FILTER_QUERY, n).yes_count;
}

/* Every key of the universe. */
static void
query_all(struct mix *m)
{
    for (size_t at = 0; at < m->universe; at += BATCH) {
        const size_t n = m->universe - at < BATCH ? m->universe - at : BATCH;
        for (size_t i = 0; i < n; i++) {
            m->which[i] = (uint32_t)(at + i);
            m->batch[i] = m->keys[at + i];
        }
        const enum hspz_filter_op op = counts(m->kind) ? HSPZ_FILTER_COUNT : HSPZ_FILTER_QUERY;
        (void)call_of(m, op, n);
        check_found(m, op, n);
    }
}

/* ---- the sawtooth ---- */

static void
empty(struct mix *m)
{
    const struct hspz_filter_spec spec = m->f.plan.spec;
    struct hspz_filter_spec again = spec;
    again.capacity = 0;
    filters_destroy(&m->f);
    filters_create(&m->f, m->engine, &again);
    memset(m->in, 0, m->universe * sizeof(*m->in));
}

static void
turn(struct mix *m)
{
    const struct hspz_filter_stats stats = filters_stats(&m->f);
    const double top = is_bloom(m->kind) ? 0.5 : m->teeth % 8 == 7 ? 0.99 : 0.9;
    if (m->rising && stats.load >= top * (m->kind == HSPZ_FILTER_TCF ? 1 : 0.95)) {
        query_all(m);
        m->rising = false;
        m->teeth++;
    }
    if (!m->rising && !deletes(m->kind)) {
        empty(m);
        m->rising = true;
    } else if (!m->rising && stats.load <= 0.1) {
        query_all(m);
        m->rising = true;
    }
}

static void
step(struct mix *m)
{
    const uint64_t dice = below(m, 16);
    if (dice < 3) {
        query(m, counts(m->kind) && dice == 0 ? HSPZ_FILTER_COUNT : HSPZ_FILTER_QUERY);
    } else if (dice < 5) {
        query_fresh(m);
    } else if (m->rising ? dice < 14 : dice < 7) {
        insert(m, dice % 4 == 2);
    } else if (deletes(m->kind)) {
        take(m, m->kind == HSPZ_FILTER_GQF && dice % 2 == 0);
    }
    turn(m);
}

static void
check_mix(const struct filters_engine *engine, const struct hspz_filter_spec *spec,
          uint64_t operations)
{
    struct mix *m = malloc(sizeof(*m));
    assert_non_null(m);
    mix_init(m, engine, spec);
    while (m->done < operations || m->teeth < 2) {
        step(m);
    }
    query_all(m);
    assert_true(m->found > operations / 20 && m->teeth > 0);
    if ((double)m->fresh_found > filters_most(m->fresh_expected) ||
        (double)m->fresh_found * 1.5 < m->fresh_expected - 100) {
        fail_msg("%s: %" PRIu64 " of %" PRIu64 " absent keys found, %g expected",
                 hspz_filter_kind_name(m->kind), m->fresh_found, m->fresh_asked, m->fresh_expected);
    }
    print_message("%s %s, %" PRIu64 " slots of %u bits: %" PRIu64 " operations, %u teeth, %" PRIu64
                  " of %" PRIu64 " absent keys found, %.0f expected\n",
                  engine->ops->name, hspz_filter_kind_name(m->kind), m->f.plan.spec.slots,
                  m->f.plan.spec.slot_bits, m->done, m->teeth, m->fresh_found, m->fresh_asked,
                  m->fresh_expected);
    mix_fini(m);
    free(m);
}

static void
test_mixed_operations_never_lose_a_key(void **state)
{
    (void)state;
    static const struct hspz_filter_spec specs[] = {
        {.kind = HSPZ_FILTER_TCF, .slots = 1 << 14, .seed = 1},
        {.kind = HSPZ_FILTER_TCF, .slots = 20000, .slot_bits = 8, .seed = 2},
        {.kind = HSPZ_FILTER_TCF, .slots = 20000, .slot_bits = 12, .block_slots = 32, .seed = 3},
        {.kind = HSPZ_FILTER_TCF, .slots = 1 << 16, .slot_bits = 32, .value_bits = 9, .seed = 4},
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 14, .slot_bits = 8, .seed = 5},
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 14, .slot_bits = 16, .seed = 6},
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 13, .slot_bits = 64, .seed = 7},
        {.kind = HSPZ_FILTER_SQF, .slots = 1 << 14, .slot_bits = 8, .seed = 8},
        {.kind = HSPZ_FILTER_RSQF, .slots = 1 << 14, .slot_bits = 8, .seed = 9},
        {.kind = HSPZ_FILTER_BLOOM, .capacity = 20000, .rate = 0.01, .seed = 10},
        {.kind = HSPZ_FILTER_BLOCKED, .capacity = 20000, .rate = 0.01, .seed = 11},
    };
    const size_t cases = sizeof(specs) / sizeof(specs[0]);
    struct filters_engine engines[RUNNER_ENGINES_MAX];
    const size_t n = filters_open(engines);
    for (size_t i = 0; i < n * cases; i++) {
        if (filters_has(&engines[i / cases], specs[i % cases].kind)) {
            check_mix(&engines[i / cases], &specs[i % cases], filters_operations() / cases);
        }
    }
    filters_close(engines, n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_operations_never_lose_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
