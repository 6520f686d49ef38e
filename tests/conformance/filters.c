#include "tests/conformance/filters.h"

#include "engine/filter_hash.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>

#define PIECE 65536

#define OPERATIONS_DEFAULT UINT64_C(6000000)

size_t
filters_open(struct filters_engine engines[RUNNER_ENGINES_MAX])
{
    const struct hspz_engine_ops *ops[RUNNER_ENGINES_MAX];
    const size_t count = runner_engines(ops);
    const struct hspz_engine_config config = {.threads = 1, .cuda = runner_cuda_tuning()};
    struct hspz_error err = {0};
    for (size_t i = 0; i < count; i++) {
        engines[i] = (struct filters_engine){.ops = ops[i]};
        if (ops[i]->open(&config, &engines[i].engine, &err) != HSPZ_OK) {
            fail_msg("%s", err.text);
        }
    }
    return count;
}

void
filters_close(struct filters_engine engines[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        engines[i].ops->close(&engines[i].engine);
    }
}

bool
filters_has(const struct filters_engine *engine, enum hspz_filter_kind kind)
{
    return engine->ops->filter != NULL && engine->ops->filter(kind) != NULL;
}

uint64_t
filters_operations(void)
{
    const char *text = getenv("HSPZ_FILTER_OPERATIONS");
    if (text == NULL) {
        return OPERATIONS_DEFAULT;
    }
    char *end;
    const uint64_t operations = strtoull(text, &end, 10);
    assert_true(*end == '\0' && operations > 0);
    return operations;
}

void
filters_create(struct filters_subject *f, const struct filters_engine *engine,
               const struct hspz_filter_spec *spec)
{
    struct hspz_error err = {0};
    f->ops = engine->ops->filter(spec->kind);
    f->filter = NULL;
    enum hspz_status status = hspz_filter_plan(spec, 0, &f->plan, &err);
    if (status == HSPZ_OK) {
        if (engine->ops->filter_device != NULL) {
            f->plan.device = engine->ops->filter_device(engine->engine, 0);
        }
        status = f->ops->create(&f->plan, &f->filter, &err);
    }
    if (status != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

void
filters_destroy(struct filters_subject *f)
{
    f->ops->destroy(&f->filter);
    assert_null(f->filter);
}

struct hspz_filter_call
filters_run(struct filters_subject *f, struct hspz_filter_call call)
{
    struct hspz_error err = {0};
    if (f->ops->run(f->filter, &call, &err) != HSPZ_OK) {
        fail_msg("%s %s: %s", hspz_filter_kind_name(f->plan.spec.kind),
                 hspz_filter_op_name(call.op), err.text);
    }
    return call;
}

struct hspz_filter_stats
filters_stats(const struct filters_subject *f)
{
    struct hspz_filter_stats stats;
    f->ops->stats(f->filter, &stats);
    return stats;
}

uint64_t
filters_query(struct filters_subject *f, const uint64_t *keys, size_t count)
{
    return filters_run(
               f, (struct hspz_filter_call){.op = HSPZ_FILTER_QUERY, .keys = keys, .count = count})
        .yes_count;
}

uint64_t
filters_key(const struct filters_subject *f, uint64_t hash)
{
    return hspz_filter_unmix(hash) ^ hspz_filter_salt(f->plan.spec.seed);
}

double
filters_most(double expected)
{
    return 1.2 * expected + 5 * sqrt(expected) + 3;
}

/* ---- counts ---- */

void
filters_insert(struct filters_subject *f, const uint64_t *keys, const uint64_t *counts, size_t n)
{
    const size_t most = n / 8 + 1;
    for (size_t at = 0; at < n; at += most) {
        const size_t count = n - at < most ? n - at : most;
        const struct hspz_filter_call call =
            filters_run(f, (struct hspz_filter_call){.op = HSPZ_FILTER_INSERT,
                                                     .keys = keys + at,
                                                     .counts = counts == NULL ? NULL : counts + at,
                                                     .count = count});
        assert_int_equal(call.yes_count, count);
    }
}

void
filters_check_counts(struct filters_subject *f, const uint64_t *keys, const uint64_t *want,
                     size_t n)
{
    static uint64_t got[PIECE];
    uint64_t over = 0, total = 0;
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t count = n - at < PIECE ? n - at : PIECE;
        (void)filters_run(
            f, (struct hspz_filter_call){
                   .op = HSPZ_FILTER_COUNT, .keys = keys + at, .count = count, .found = got});
        for (size_t i = 0; i < count; i++) {
            assert_true(got[i] >= want[at + i]);
            over += got[i] > want[at + i];
            total += want[at + i];
        }
    }
    const struct hspz_filter_stats stats = filters_stats(f);
    const unsigned kept = f->plan.quotient_bits + f->plan.remainder_bits;
    const double expected = kept == 64 ? 0 : (double)n * stats.rate;
    assert_int_equal(stats.total, total);
    assert_true(n > 0 && stats.entries <= n && (kept < 64 || (stats.entries == n && over == 0)));
    assert_true((double)over <= filters_most(expected));
    print_message("%u bits of a slot: %zu keys, %" PRIu64 " in all, %" PRIu64
                  " counts over the truth, %.0f expected\n",
                  f->plan.spec.slot_bits, n, total, over, expected);
}
