/* Filters of the CUDA engine when calls of its runtime, or allocations, fail: each one once. What
 * fails says so and loses nothing that was there, and the same thing done again is right.
 *
 *   soft_cuda_failing_test [KIND|over]     a minute or two for all kinds */
#include "engine/cuda/filter_p.h"
#include "engine/engine.h"
#include "engine/filter_hash.h"
#include "tests/gpu/soft/runtime.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define KEPT 160u /* keys that stay */
#define GONE 32u  /* that are taken away */
#define ALL (KEPT + GONE)
#define SOME 32u /* at the end of KEPT, for calls on device memory */

struct scene {
    struct hspz_filter_spec spec;
    const struct hspz_filter_ops *ops;
    struct hspz_engine *engine;
    struct hspz_filter_plan plan;
    struct hspz_filter *filter, *other;
    struct hspz_filter_image image;
    enum hspz_cuda_filter_way way;
};

static uint64_t keys[ALL + 1];

static enum hspz_status
open_engine(struct scene *s, struct hspz_error *err)
{
    const char *const first[] = {"0"};
    const struct hspz_engine_config config = {
        .cuda = {.devices = first, .device_count = 1, .memory_bytes = 1 << 28}};
    return hspz_cuda_engine.open(&config, &s->engine, err);
}

static enum hspz_status
create(struct scene *s, struct hspz_error *err)
{
    enum hspz_status status = hspz_filter_plan(&s->spec, 0, &s->plan, err);
    s->plan.device = hspz_cuda_engine.filter_device(s->engine, 0);
    if (status == HSPZ_OK) {
        status = s->ops->create(&s->plan, &s->filter, err);
    }
    if (status == HSPZ_OK) {
        s->filter->segment = 10;
    }
    return status;
}

/* `sure`: says yes to each. */
static enum hspz_status
call(struct hspz_filter *filter, const struct scene *s, enum hspz_filter_op op, uint64_t begin,
     uint64_t count, bool sure, struct hspz_error *err)
{
    uint8_t yes[ALL / 8 + 1] = {0};
    uint64_t found[ALL];
    struct hspz_filter_call with = {
        .op = op, .keys = keys + begin, .count = count, .yes = yes, .found = found};
    const enum hspz_status status = s->ops->run(filter, &with, err);
    if (status == HSPZ_OK && sure) {
        assert_int_equal(with.yes_count, count);
        for (uint64_t i = 0; i < count; i++) {
            assert_true(yes[i / 8] >> i % 8 & 1);
        }
    }
    return status;
}

/* The 32-mers behind the N. */
static enum hspz_status
call_sequence(struct scene *s, enum hspz_filter_op op, bool answers, struct hspz_error *err)
{
    static const char bases[] = "GATTACAGATTACANCGCGTTTTAACGCAGCATTACGAGGACATTAGCCATTCCGGATATAC";
    uint8_t yes[sizeof(bases) / 8 + 1];
    uint64_t found[sizeof(bases)];
    struct hspz_filter_call with = {.op = op,
                                    .sequence = (const uint8_t *)bases,
                                    .sequence_len = sizeof(bases) - 1,
                                    .count = sizeof(bases) - 1,
                                    .yes = answers ? yes : NULL,
                                    .found = answers ? found : NULL};
    const enum hspz_status status = s->ops->run(s->filter, &with, err);
    if (status == HSPZ_OK) {
        assert_int_equal(with.yes_count, sizeof(bases) - 1 - 15 - 31);
    }
    return status;
}

static enum hspz_status
insert_sequence(struct scene *s, struct hspz_error *err)
{
    return call_sequence(s, HSPZ_FILTER_INSERT, false, err);
}

static enum hspz_status
query_sequence(struct scene *s, struct hspz_error *err)
{
    return call_sequence(s, HSPZ_FILTER_QUERY, true, err);
}

static enum hspz_status
insert(struct scene *s, struct hspz_error *err)
{
    return call(s->filter, s, HSPZ_FILTER_INSERT, 0, ALL - SOME - GONE, true, err);
}

static enum hspz_status
insert_if_absent(struct scene *s, struct hspz_error *err)
{
    return call(s->filter, s, HSPZ_FILTER_INSERT_IF_ABSENT, KEPT, GONE, false, err);
}

static enum hspz_status
query(struct scene *s, struct hspz_error *err)
{
    return call(s->filter, s, HSPZ_FILTER_QUERY, 0, ALL - SOME - GONE, true, err);
}

static enum hspz_status
count(struct scene *s, struct hspz_error *err)
{
    return call(s->filter, s, HSPZ_FILTER_COUNT, 0, ALL - SOME - GONE, true, err);
}

static enum hspz_status delete (struct scene *s, struct hspz_error *err) {
    return call(s->filter, s, HSPZ_FILTER_DELETE, KEPT, GONE / 2, false, err);
}

static enum hspz_status
decrement(struct scene *s, struct hspz_error *err)
{
    return call(s->filter, s, HSPZ_FILTER_DECREMENT, KEPT + GONE / 2, GONE / 2, false, err);
}

static enum hspz_status
stats(struct scene *s, struct hspz_error *err)
{
    (void)err;
    struct hspz_filter_stats of;
    s->ops->stats(s->filter, &of);
    return of.entries > 0 ? HSPZ_OK : HSPZ_E_DEVICE_ERROR;
}

static enum hspz_status
save(struct scene *s, struct hspz_error *err)
{
    return s->ops->save(s->filter, NULL, &s->image, err);
}

static enum hspz_status
load(struct scene *s, struct hspz_error *err)
{
    return s->ops->load(&s->plan, &s->image, NULL, &s->other, err);
}

static enum hspz_status
query_loaded(struct scene *s, struct hspz_error *err)
{
    return call(s->other, s, HSPZ_FILTER_QUERY, 0, ALL - SOME - GONE, true, err);
}

static enum hspz_status
copy(struct scene *s, struct hspz_error *err)
{
    s->ops->destroy(&s->other);
    return s->ops->copy(s->filter, &s->other, err);
}

static enum hspz_status
merge(struct scene *s, struct hspz_error *err)
{
    bool full = true;
    if (s->ops->merge == NULL) {
        return HSPZ_E_UNSUPPORTED;
    }
    const enum hspz_status status = s->ops->merge(s->filter, s->other, NULL, &full, err);
    assert_true(status != HSPZ_OK || !full);
    return status;
}

static enum hspz_status
enumerate(struct scene *s, struct hspz_error *err)
{
    struct hspz_filter_entry entries[64];
    uint64_t cursor = 0, all = 0;
    size_t got = 1;
    if (s->ops->enumerate == NULL) {
        return HSPZ_E_UNSUPPORTED;
    }
    while (got > 0) {
        const enum hspz_status status =
            s->ops->enumerate(s->filter, &cursor, entries, 64, &got, err);
        if (status != HSPZ_OK) {
            return status;
        }
        all += got;
    }
    assert_true(all >= KEPT / 2);
    return HSPZ_OK;
}

static enum hspz_status
grow(struct scene *s, struct hspz_error *err)
{
    return s->ops->grow == NULL ? HSPZ_E_UNSUPPORTED : s->ops->grow(s->filter, 1 << 28, err);
}

/* On device memory, key by key or sorted. */
static enum hspz_status
run_there(struct scene *s, enum hspz_cuda_filter_way way, uint64_t begin, struct hspz_error *err)
{
    struct {
        uint64_t keys[SOME / 2];
        struct hspz_cuda_filter_result result;
    } at = {.result = {0, 0}}, *there = NULL;
    memcpy(at.keys, keys + begin, sizeof(at.keys));
    cudaError_t error = cudaMalloc((void **)&there, sizeof(at));
    error =
        error != cudaSuccess ? error : cudaMemcpy(there, &at, sizeof(at), cudaMemcpyHostToDevice);
    enum hspz_status status = error == cudaSuccess ? HSPZ_OK : HSPZ_E_DEVICE_ERROR;
    if (status == HSPZ_OK) {
        const struct hspz_cuda_filter_call with = {.op = HSPZ_FILTER_INSERT,
                                                   .keys = there->keys,
                                                   .count = SOME / 2,
                                                   .result = &there->result,
                                                   .way = way};
        status = hspz_cuda_filter_run(s->filter, &with, NULL, err);
    }
    if (status == HSPZ_OK) {
        assert_int_equal(there->result.yes, SOME / 2);
    }
    (void)cudaFree(there);
    return status;
}

static enum hspz_status
insert_points(struct scene *s, struct hspz_error *err)
{
    return run_there(s, HSPZ_CUDA_FILTER_POINT, KEPT - SOME, err);
}

static enum hspz_status
insert_sorted(struct scene *s, struct hspz_error *err)
{
    return run_there(s, HSPZ_CUDA_FILTER_BULK, KEPT - SOME / 2, err);
}

/* Keys of neighbouring quotients of 2^13, remainders of 8 bits, in a longer run than points go
 * into; and one more so often that what is too much of it takes another slot there. */
#define NEIGHBOURS 3700u
#define NEAR (NEIGHBOURS + 300u)

static enum hspz_status
run_neighbours(struct scene *s, enum hspz_filter_op op, struct hspz_error *err)
{
    static uint64_t near[NEAR];
    for (uint64_t i = 0; i < NEAR; i++) {
        const uint64_t n = i < NEIGHBOURS ? i : NEIGHBOURS;
        const uint64_t hash = (77 + n % 32) << 51 | (n / 32) << 43;
        near[i] = hspz_filter_unmix(hash) ^ hspz_filter_salt(s->spec.seed);
    }
    struct hspz_filter_call with = {.op = op, .keys = near, .count = NEAR};
    s->filter->segment = NEAR / 2;
    const enum hspz_status status = s->ops->run(s->filter, &with, err);
    if (status == HSPZ_OK) {
        assert_int_equal(with.yes_count, NEAR);
    }
    return status;
}

static enum hspz_status
insert_neighbours(struct scene *s, struct hspz_error *err)
{
    return run_neighbours(s, HSPZ_FILTER_INSERT, err);
}

static enum hspz_status
query_neighbours(struct scene *s, struct hspz_error *err)
{
    return run_neighbours(s, HSPZ_FILTER_QUERY, err);
}

static enum hspz_status
query_all(struct scene *s, struct hspz_error *err)
{
    return call(s->filter, s, HSPZ_FILTER_QUERY, 0, KEPT, true, err);
}

static enum hspz_status
view(struct scene *s, struct hspz_error *err)
{
    struct hspz_cuda_bloom bloom;
    struct hspz_cuda_tcf tcf;
    struct hspz_cuda_quotient_point point;
    switch (s->spec.kind) {
    case HSPZ_FILTER_TCF:
        return hspz_cuda_filter_tcf_view(s->filter, &tcf, err);
    case HSPZ_FILTER_BLOOM:
    case HSPZ_FILTER_BLOCKED:
        return hspz_cuda_filter_bloom_view(s->filter, &bloom, err);
    case HSPZ_FILTER_COUNTER:
        return HSPZ_E_UNSUPPORTED;
    default:
        return hspz_cuda_filter_quotient_view(s->filter, NULL, &point, err);
    }
}

static enum hspz_status
clear(struct scene *s, struct hspz_error *err)
{
    return hspz_cuda_filter_clear(s->filter, NULL, err);
}

typedef enum hspz_status (*step_fn)(struct scene *, struct hspz_error *);

static const step_fn all_steps[] = {
    open_engine,  create, view,   insert_sequence, query_sequence, insert,        insert_if_absent,
    query,        count,  delete, decrement,       stats,          save,          load,
    query_loaded, copy,   merge,  enumerate,       grow,           insert_points, insert_sorted,
    query_all,    clear};
#define STEPS (sizeof(all_steps) / sizeof(all_steps[0]))

static const step_fn over_steps[] = {open_engine, create, insert_neighbours, query_neighbours};
#define OVER_STEPS (sizeof(over_steps) / sizeof(over_steps[0]))

/* All steps, while call or allocation `at` fails; what fails is done again. `usual`: what each step
 * comes to when nothing fails (at 0). */
static void
run_steps(const struct hspz_filter_spec *spec, const step_fn *steps, size_t count,
          enum hspz_status usual[STEPS], long at, bool *failed)
{
    struct scene s = {.spec = *spec, .ops = hspz_cuda_filter(spec->kind)};
    *failed = false;
    for (size_t i = 0; i < count; i++) {
        struct hspz_error err = {0};
        enum hspz_status status = steps[i](&s, &err);
        if (at == 0) {
            assert_true(status == HSPZ_OK || status == HSPZ_E_UNSUPPORTED);
            usual[i] = status;
        }
        if (status != usual[i]) {
            assert_false(*failed);
            *failed = true;
            assert_true(status == HSPZ_E_OUT_OF_MEMORY || status == HSPZ_E_DEVICE_ERROR ||
                        (i == 0 && status == HSPZ_E_UNSUPPORTED));
            if (err.text[0] == '\0' && steps[i] != stats && steps[i] != insert_points &&
                steps[i] != insert_sorted) {
                fail_msg("%s, step %zu, failure %ld: no word", hspz_filter_kind_name(spec->kind), i,
                         at);
            }
            status = steps[i](&s, &err);
        }
        if (status != usual[i]) {
            fail_msg("%s, step %zu, failure %ld: %s", hspz_filter_kind_name(spec->kind), i, at,
                     err.text);
        }
    }
    s.ops->destroy(&s.filter);
    s.ops->destroy(&s.other);
    hspz_filter_image_fini(&s.image);
    hspz_cuda_engine.close(&s.engine);
    assert_int_equal(soft_live(), 0);
}

static void
fail_each(struct hspz_filter_spec spec, const step_fn *steps, size_t count)
{
    enum hspz_status usual[STEPS];
    bool failed;
    spec.k = 32; /* as which any key will do */
    long calls = 0, allocations = 0, said = 0;
    run_steps(&spec, steps, count, usual, 0, &failed);
    for (bool more = true; more;) {
        soft_fail_arm(++calls);
        run_steps(&spec, steps, count, usual, calls, &failed);
        more = soft_fail_disarm();
        said += failed;
    }
    for (bool more = true; more;) {
        failing_malloc_arm(++allocations);
        run_steps(&spec, steps, count, usual, allocations, &failed);
        more = failing_malloc_disarm();
        said += failed;
    }
    printf("%s: %ld calls and %ld allocations failed, %ld errors\n",
           hspz_filter_kind_name(spec.kind), calls - 1, allocations - 1, said);
    fflush(stdout);
    assert_true(calls > 50 && allocations > 10 && said > 50);
}

static void
test_a_call_that_fails_loses_nothing(void **state)
{
    const char *only = *state;
    static const struct hspz_filter_spec specs[] = {
        {.kind = HSPZ_FILTER_TCF, .slots = 512},
        {.kind = HSPZ_FILTER_TCF, .slots = 512, .value_bits = 16},
        {.kind = HSPZ_FILTER_GQF, .slots = 512},
        {.kind = HSPZ_FILTER_BLOOM, .slots = 5000, .hashes = 5},
        {.kind = HSPZ_FILTER_BLOCKED, .slots = 5120, .hashes = 5},
        {.kind = HSPZ_FILTER_SQF, .slots = 512},
        {.kind = HSPZ_FILTER_RSQF, .slots = 512},
        {.kind = HSPZ_FILTER_COUNTER, .slots = 1}};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        if (only == NULL || strcmp(only, hspz_filter_kind_name(specs[i].kind)) == 0) {
            fail_each(specs[i], all_steps, STEPS);
        }
    }
}

/* A quotient has no room for all keys of an insert, and the slots none for them by themselves. */
static void
test_what_goes_over_is_not_lost(void **state)
{
    const char *only = *state;
    if (only == NULL || strcmp(only, "gqf") == 0 || strcmp(only, "over") == 0) {
        fail_each((struct hspz_filter_spec){.kind = HSPZ_FILTER_GQF, .slots = 8192, .slot_bits = 8},
                  over_steps, OVER_STEPS);
    }
}

/* ---- a counter that grows ---- */

#define GROWN_FROM 14300u /* keys that the first front has room for */
#define GROWN_TO 15000u

static uint64_t many[GROWN_TO];

static enum hspz_status
insert_many(struct scene *s, uint64_t begin, uint64_t end, struct hspz_error *err)
{
    struct hspz_filter_call with = {
        .op = HSPZ_FILTER_INSERT, .keys = many + begin, .count = end - begin};
    const enum hspz_status status = s->ops->run(s->filter, &with, err);
    assert_true(status != HSPZ_OK || with.yes_count == end - begin);
    return status;
}

/* The first keys once; each of the others so often, or once more where one call had failed. */
static void
check_many(struct scene *s, uint64_t others, bool failed)
{
    static uint64_t found[GROWN_TO];
    struct hspz_filter_stats stats;
    uint64_t total = 0;
    struct hspz_filter_call with = {
        .op = HSPZ_FILTER_COUNT, .keys = many, .count = GROWN_TO, .found = found};
    assert_int_equal(s->ops->run(s->filter, &with, NULL), HSPZ_OK);
    s->ops->stats(s->filter, &stats);
    for (uint64_t i = 0; i < GROWN_TO; i++) {
        const uint64_t least = i < GROWN_FROM ? 1 : others;
        assert_true(found[i] == least || (i >= GROWN_FROM && failed && found[i] == least + 1));
        total += found[i];
    }
    assert_int_equal(with.yes_count, stats.entries);
    assert_int_equal(stats.total, total);
}

/* Call `at` of an insert for which the front grows; 0: none. */
static bool
grow_counter(long at)
{
    struct scene s = {.spec = {.kind = HSPZ_FILTER_COUNTER, .slots = 1, .k = 32},
                      .ops = hspz_cuda_filter(HSPZ_FILTER_COUNTER)};
    assert_int_equal(open_engine(&s, NULL), HSPZ_OK);
    assert_int_equal(create(&s, NULL), HSPZ_OK);
    assert_int_equal(insert_many(&s, 0, GROWN_FROM, NULL), HSPZ_OK);
    const uint64_t slots = hspz_counter_shape_slots(&s.filter->counter.shape);
    struct hspz_error err = {0};
    soft_fail_arm(at);
    const enum hspz_status status = insert_many(&s, GROWN_FROM, GROWN_TO, &err);
    const bool fired = soft_fail_disarm();
    assert_true(status == HSPZ_OK || (fired && err.text[0] != '\0'));
    check_many(&s, status == HSPZ_OK, status != HSPZ_OK);
    assert_int_equal(insert_many(&s, GROWN_FROM, GROWN_TO, NULL), HSPZ_OK);
    check_many(&s, 1 + (status == HSPZ_OK), status != HSPZ_OK);
    assert_true(fired || hspz_counter_shape_slots(&s.filter->counter.shape) > slots);
    s.ops->destroy(&s.filter);
    hspz_cuda_engine.close(&s.engine);
    assert_int_equal(soft_live(), 0);
    return fired;
}

static void
test_a_counter_whose_growth_fails_loses_nothing(void **state)
{
    const char *only = *state;
    long calls = 0;
    if (only != NULL && strcmp(only, "counter") != 0) {
        return;
    }
    for (uint64_t i = 0; i < GROWN_TO; i++) {
        many[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    }
    while (grow_counter(++calls)) {
    }
    assert_true(calls > 20);
}

int
main(int argc, char **argv)
{
    for (uint64_t i = 0; i < ALL; i++) {
        keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_a_call_that_fails_loses_nothing, argc > 1 ? argv[1] : NULL),
        cmocka_unit_test_prestate(test_what_goes_over_is_not_lost, argc > 1 ? argv[1] : NULL),
        cmocka_unit_test_prestate(test_a_counter_whose_growth_fails_loses_nothing,
                                  argc > 1 ? argv[1] : NULL)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
