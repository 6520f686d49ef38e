#include "daemon/filters.h"

#include "tests/daemon/fake_engine.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

struct bench {
    uv_loop_t loop;
    struct hspz_config config;
    struct hspz_engine engine;
    struct hspz_tenant a, b;
    struct hspz_service service;
    unsigned changes;
};

static void
on_changed(struct hspz_service *service)
{
    struct bench *b = (struct bench *)(void *)((char *)service - offsetof(struct bench, service));
    b->changes++;
}

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    hspz_config_init(&b->config);
    b->config.max_filters = 3;
    b->config.filter_memory = 1 << 20;
    b->a.settings.name = (char *)(uintptr_t) "a";
    b->b.settings.name = (char *)(uintptr_t) "b";
    b->service.loop = &b->loop;
    b->service.config = &b->config;
    b->service.ops = &fake_engine;
    b->service.engine = &b->engine;
    b->service.changed = on_changed;
    assert_int_equal(hspz_filters_create(&b->service, &b->service.filters), HSPZ_OK);
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;
    hspz_filters_clear(b->service.filters);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(hspz_filters_bytes(b->service.filters), 0);
    assert_int_equal(hspz_filters_count(b->service.filters), 0);
    hspz_filters_destroy(&b->service.filters);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    hspz_config_fini(&b->config);
    free(b);
    return 0;
}

static enum hspz_status
parse(const struct hspz_tenant *tenant, const char *text, struct hspz_filter_ref *ref)
{
    struct hspz_error err = {0};
    const struct hspz_text name = {text, strlen(text)};
    return hspz_filter_ref_parse(tenant, name, ref, &err);
}

static enum hspz_status
reserve(struct bench *b, const struct hspz_tenant *tenant, const char *name, bool shared,
        struct hspz_named_filter **out, struct hspz_error *err)
{
    struct hspz_filter_ref ref;
    assert_int_equal(parse(tenant, name, &ref), HSPZ_OK);
    return hspz_filters_reserve(b->service.filters, &ref, tenant, shared, out, err);
}

/* A filter that is listed, with one use. */
static struct hspz_named_filter *
make(struct bench *b, const struct hspz_tenant *tenant, const char *name, bool shared)
{
    struct hspz_named_filter *f = NULL;
    struct hspz_filter_plan plan;
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_TCF, .capacity = 100};
    assert_int_equal(reserve(b, tenant, name, shared, &f, NULL), HSPZ_OK);
    assert_int_equal(hspz_filter_plan(&spec, 0, &plan, NULL), HSPZ_OK);
    hspz_filters_place(f, &plan);
    assert_int_equal(hspz_filters_charge(f, tenant, plan.bytes, NULL), HSPZ_OK);
    assert_int_equal(f->ops->create(&plan, &f->filter, NULL), HSPZ_OK);
    hspz_filters_list(f);
    return f;
}

static enum hspz_status
acquire(struct bench *b, const struct hspz_tenant *tenant, const char *name,
        enum hspz_filter_access access)
{
    struct hspz_filter_ref ref;
    struct hspz_named_filter *f = NULL;
    struct hspz_error err = {0};
    assert_int_equal(parse(tenant, name, &ref), HSPZ_OK);
    const enum hspz_status status =
        hspz_filters_acquire(b->service.filters, &ref, access, &f, &err);
    hspz_named_filter_release(&f);
    return status;
}

static void
test_names_are_checked(void **state)
{
    const struct bench *b = *state;
    struct hspz_filter_ref ref;
    char shown[HSPZ_FILTER_SHOWN_BYTES];
    static const char *const bad[] = {"",    ".",   "..",    ".x",    "a/",     "/a",
                                      "a//", "a b", "a\x7f", "a/b/c", "a/../b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(&b->a, bad[i], &ref), HSPZ_E_BAD_REQUEST);
    }
    assert_int_equal(parse(&b->a, "x.y_z-1", &ref), HSPZ_OK);
    assert_true(ref.own && strcmp(ref.owner, "a") == 0);
    assert_string_equal(hspz_filter_ref_shown(&ref, shown), "x.y_z-1");
    assert_int_equal(parse(&b->a, "a/x", &ref), HSPZ_OK);
    assert_true(ref.own);
    assert_string_equal(hspz_filter_ref_shown(&ref, shown), "x");
    assert_int_equal(parse(&b->a, "b/x", &ref), HSPZ_OK);
    assert_false(ref.own);
    assert_string_equal(hspz_filter_ref_shown(&ref, shown), "b/x");
    char longest[HSPZ_FILTER_NAME_LIMIT + 2] = {0};
    memset(longest, 'n', HSPZ_FILTER_NAME_LIMIT);
    assert_int_equal(parse(&b->a, longest, &ref), HSPZ_OK);
    longest[HSPZ_FILTER_NAME_LIMIT] = 'n';
    assert_int_equal(parse(&b->a, longest, &ref), HSPZ_E_BAD_REQUEST);
}

static void
test_who_may_do_what(void **state)
{
    struct bench *b = *state;
    struct hspz_named_filter *open = make(b, &b->a, "open", true);
    struct hspz_named_filter *closed = make(b, &b->a, "closed", false);
    static const enum hspz_status own[] = {0, 0, 0, 0};
    static const enum hspz_status of_open[] = {0, HSPZ_E_FORBIDDEN, HSPZ_E_FORBIDDEN, 0};
    static const enum hspz_status of_closed[] = {HSPZ_E_UNKNOWN_FILTER, HSPZ_E_UNKNOWN_FILTER,
                                                 HSPZ_E_UNKNOWN_FILTER, 0};
    for (unsigned i = HSPZ_FILTER_READS; i <= HSPZ_FILTER_DROPS_ANY; i++) {
        const enum hspz_filter_access access = (enum hspz_filter_access)i;
        assert_int_equal(acquire(b, &b->a, "open", access), own[i]);
        assert_int_equal(acquire(b, &b->a, "closed", access), own[i]);
        assert_int_equal(acquire(b, &b->b, "a/open", access), of_open[i]);
        assert_int_equal(acquire(b, &b->b, "a/closed", access), of_closed[i]);
        assert_int_equal(acquire(b, &b->b, "open", access), HSPZ_E_UNKNOWN_FILTER);
        assert_int_equal(acquire(b, &b->a, "none", access), HSPZ_E_UNKNOWN_FILTER);
    }
    hspz_named_filter_release(&open);
    hspz_named_filter_release(&closed);
}

static void
test_numbers_and_bytes_are_counted(void **state)
{
    struct bench *b = *state;
    struct hspz_error err = {0};
    struct hspz_named_filter *f = make(b, &b->a, "x", false), *g = NULL;
    uint64_t count, bytes;
    hspz_filters_of(b->service.filters, "a", &count, &bytes);
    assert_true(count == 1 && bytes > 0 && bytes == hspz_filters_bytes(b->service.filters));
    assert_int_equal(reserve(b, &b->a, "x", false, &g, &err), HSPZ_E_BAD_REQUEST);
    b->a.settings.max_filters = 1;
    assert_int_equal(reserve(b, &b->a, "y", false, &g, &err), HSPZ_E_QUOTA_EXCEEDED);
    assert_true(err.has_limit && err.limit == 1);
    /* One that is coming counts, is seen by nobody, and its name is taken. */
    assert_int_equal(reserve(b, &b->b, "x", true, &g, &err), HSPZ_OK);
    assert_int_equal(acquire(b, &b->b, "x", HSPZ_FILTER_READS), HSPZ_E_UNKNOWN_FILTER);
    struct hspz_named_filter *h = NULL, *none = NULL;
    assert_int_equal(reserve(b, &b->b, "x", true, &none, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(reserve(b, &b->b, "z", true, &h, &err), HSPZ_OK);
    assert_int_equal(reserve(b, &b->b, "w", true, &none, &err), HSPZ_E_QUOTA_EXCEEDED);
    assert_int_equal(err.limit, 3);
    assert_int_equal(hspz_filters_charge(h, &b->b, (1 << 20) + 1, &err), HSPZ_E_TOO_LARGE);
    assert_int_equal(hspz_filters_charge(h, &b->b, 1 << 20, &err), HSPZ_E_QUOTA_EXCEEDED);
    assert_int_equal(hspz_filters_charge(h, &b->b, 1 << 19, &err), HSPZ_OK);
    assert_int_equal(hspz_filters_borrow(b->service.filters, 1 << 19, &err), HSPZ_E_QUOTA_EXCEEDED);
    assert_int_equal(hspz_filters_borrow(b->service.filters, 1 << 18, &err), HSPZ_OK);
    hspz_filters_return(b->service.filters, 1 << 18);
    assert_int_equal(hspz_filters_bytes(b->service.filters), bytes + (1 << 19));
    /* In use, a dropped one keeps its memory, and its name is free. */
    hspz_filters_unlist(f);
    assert_int_equal(hspz_filters_bytes(b->service.filters), bytes + (1 << 19));
    assert_int_equal(acquire(b, &b->a, "x", HSPZ_FILTER_READS), HSPZ_E_UNKNOWN_FILTER);
    hspz_named_filter_release(&f);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(hspz_filters_bytes(b->service.filters), 1 << 19);
    hspz_filters_unlist(g);
    hspz_named_filter_release(&g);
    hspz_named_filter_release(&h);
    assert_true(b->changes > 0);
}

static void
test_the_lock_goes_round(void **state)
{
    struct bench *b = *state;
    struct hspz_named_filter *f = make(b, &b->a, "x", false);
    struct hspz_filter_wait r[3] = {0}, w[2] = {0};
    for (int i = 0; i < 2; i++) {
        assert_true(hspz_named_filter_may_lock(f, &r[i], false));
        hspz_named_filter_lock(f, &r[i], false);
    }
    /* A writer waits for them, and those who come after it wait too. */
    assert_false(hspz_named_filter_may_lock(f, &w[0], true));
    assert_false(hspz_named_filter_may_lock(f, &r[2], false));
    assert_false(hspz_named_filter_may_lock(f, &w[1], true));
    hspz_named_filter_unlock(f, false);
    assert_false(hspz_named_filter_may_lock(f, &w[0], true));
    hspz_named_filter_unlock(f, false);
    /* In turn, whoever asks first. */
    assert_false(hspz_named_filter_may_lock(f, &w[1], true));
    assert_false(hspz_named_filter_may_lock(f, &r[2], false));
    assert_true(hspz_named_filter_may_lock(f, &w[0], true));
    const uint64_t version = f->version;
    hspz_named_filter_lock(f, &w[0], true);
    assert_int_equal(f->version, version + 1);
    assert_false(hspz_named_filter_may_lock(f, &r[2], false));
    assert_false(hspz_named_filter_may_lock(f, &r[0], false)); /* again: behind the others */
    hspz_named_filter_unlock(f, true);
    assert_false(hspz_named_filter_may_lock(f, &r[0], false));
    assert_true(hspz_named_filter_may_lock(f, &r[2], false));
    hspz_named_filter_lock(f, &r[2], false);
    assert_false(hspz_named_filter_may_lock(f, &r[0], false)); /* a writer is before it */
    hspz_named_filter_unwait(f, &w[1]);
    assert_true(hspz_named_filter_may_lock(f, &r[0], false));
    hspz_named_filter_lock(f, &r[0], false);
    hspz_named_filter_unwait(f, &w[1]);
    hspz_named_filter_unlock(f, false);
    hspz_named_filter_unlock(f, false);
    assert_null(f->first);
    hspz_named_filter_release(&f);
}

static void
test_lists_show_what_a_tenant_may_see(void **state)
{
    struct bench *b = *state;
    struct hspz_named_filter *f = make(b, &b->a, "x", false), *g = make(b, &b->a, "y", true);
    const struct {
        const struct hspz_tenant *tenant;
        bool all;
        unsigned count;
    } rows[] = {{&b->a, false, 2}, {&b->b, false, 1}, {&b->b, true, 2}};
    for (size_t i = 0; i < 3; i++) {
        struct hspz_writer w;
        struct hspz_doc *doc = NULL;
        struct hspz_message message;
        struct hspz_filter_list_result *r = malloc(sizeof(*r));
        bool answerable;
        assert_non_null(r);
        hspz_writer_init(&w);
        const struct hspz_list_params page = {.count = HSPZ_PAGE_FILTERS_LIMIT};
        assert_int_equal(hspz_filters_list_encode(&w, 7, b->service.filters, rows[i].tenant,
                                                  rows[i].all, &page, NULL),
                         HSPZ_OK);
        assert_int_equal(hspz_doc_parse(w.bytes, w.len, &doc, NULL), HSPZ_OK);
        assert_int_equal(hspz_message_decode(doc, &message, &answerable, NULL), HSPZ_OK);
        assert_int_equal(hspz_filter_list_result_decode(message.result, r, NULL), HSPZ_OK);
        assert_true(r->count == rows[i].count && r->filter_count == rows[i].count);
        assert_true(r->entries[0].shared && r->entries[0].kind.len == 3);
        assert_int_equal(r->entries[0].filter.len, rows[i].tenant == &b->a ? 1 : 3);
        hspz_doc_destroy(&doc);
        hspz_writer_fini(&w);
        free(r);
        struct hspz_error err;
        for (long n = 1; n <= 2; n++) {
            hspz_writer_init(&w);
            failing_malloc_arm(n);
            const enum hspz_status status = hspz_filters_list_encode(
                &w, 7, b->service.filters, rows[i].tenant, rows[i].all, &page, &err);
            assert_true(failing_malloc_disarm());
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            hspz_writer_fini(&w);
        }
    }
    hspz_named_filter_release(&f);
    hspz_named_filter_release(&g);
}

int
main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_names_are_checked),
        CASE(test_who_may_do_what),
        CASE(test_numbers_and_bytes_are_counted),
        CASE(test_the_lock_goes_round),
        CASE(test_lists_show_what_a_tenant_may_see),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
