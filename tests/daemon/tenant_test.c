#include "daemon/tenant.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

/* Settings of a tenant known by one user. */
static struct hspz_tenant_settings
make(const char *name, enum hspz_credential_kind kind, uint32_t id)
{
    struct hspz_tenant_settings s = {.name = strdup(name), .weight = id, .credential_count = 1};
    s.credentials = calloc(1, sizeof(*s.credentials));
    assert_non_null(s.name);
    assert_non_null(s.credentials);
    s.credentials[0] = (struct hspz_credential){.kind = kind, .id = id};
    return s;
}

static struct hspz_tenant *
find(const struct hspz_tenants *tenants, enum hspz_credential_kind kind, uint32_t id)
{
    const struct hspz_credential credential = {.kind = kind, .id = id};
    return hspz_tenants_find(tenants, &credential);
}

static void
test_without_tenants_only_nothing_is_shown_to_be_known(void **state)
{
    (void)state;
    struct hspz_tenants tenants = {0};
    assert_int_equal(hspz_tenants_apply(&tenants, false, NULL, 0), HSPZ_OK);
    const struct hspz_tenant *t = find(&tenants, HSPZ_CREDENTIAL_NONE, 0);
    assert_non_null(t);
    assert_string_equal(t->settings.name, "");
    assert_int_equal(t->settings.weight, 1);
    assert_null(find(&tenants, HSPZ_CREDENTIAL_UID, 0));
    hspz_tenants_fini(&tenants);
}

static void
test_a_credential_finds_its_tenant_and_no_other(void **state)
{
    (void)state;
    struct hspz_tenants tenants = {0};
    struct hspz_tenant_settings settings[] = {make("a", HSPZ_CREDENTIAL_UID, 5),
                                              make("b", HSPZ_CREDENTIAL_GID, 5),
                                              make("c", HSPZ_CREDENTIAL_TOKEN, 0)};
    memset(settings[2].credentials[0].sha256, 7, HSPZ_SHA256_BYTES);
    assert_int_equal(hspz_tenants_apply(&tenants, true, settings, 3), HSPZ_OK);
    assert_string_equal(find(&tenants, HSPZ_CREDENTIAL_UID, 5)->settings.name, "a");
    assert_string_equal(find(&tenants, HSPZ_CREDENTIAL_GID, 5)->settings.name, "b");
    assert_null(find(&tenants, HSPZ_CREDENTIAL_UID, 6));
    assert_null(find(&tenants, HSPZ_CREDENTIAL_NONE, 0));
    struct hspz_credential token = {.kind = HSPZ_CREDENTIAL_TOKEN};
    assert_null(hspz_tenants_find(&tenants, &token));
    memset(token.sha256, 7, HSPZ_SHA256_BYTES);
    assert_string_equal(hspz_tenants_find(&tenants, &token)->settings.name, "c");
    for (unsigned bit = 0; bit < HSPZ_SHA256_BYTES * 8; bit++) {
        struct hspz_credential other = token;
        other.sha256[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_null(hspz_tenants_find(&tenants, &other));
    }
    token.kind = HSPZ_CREDENTIAL_CERTIFICATE;
    assert_null(hspz_tenants_find(&tenants, &token));
    hspz_tenants_fini(&tenants);
}

static void
test_the_overflow_ids_match_nobody(void **state)
{
    (void)state;
    struct hspz_tenants tenants = {0};
    struct hspz_tenant_settings settings[] = {make("a", HSPZ_CREDENTIAL_UID, hspz_overflow_uid()),
                                              make("b", HSPZ_CREDENTIAL_GID, hspz_overflow_gid())};
    assert_int_equal(hspz_tenants_apply(&tenants, true, settings, 2), HSPZ_OK);
    assert_null(find(&tenants, HSPZ_CREDENTIAL_UID, hspz_overflow_uid()));
    assert_null(find(&tenants, HSPZ_CREDENTIAL_GID, hspz_overflow_gid()));
    hspz_tenants_fini(&tenants);
}

static void
test_a_tenant_keeps_its_place_over_a_reload_and_goes_with_its_last_use(void **state)
{
    (void)state;
    struct hspz_tenants tenants = {0};
    struct hspz_tenant_settings first[] = {make("a", HSPZ_CREDENTIAL_UID, 1),
                                           make("b", HSPZ_CREDENTIAL_UID, 2)};
    assert_int_equal(hspz_tenants_apply(&tenants, true, first, 2), HSPZ_OK);
    struct hspz_tenant *a = find(&tenants, HSPZ_CREDENTIAL_UID, 1);
    struct hspz_tenant *b = find(&tenants, HSPZ_CREDENTIAL_UID, 2);
    hspz_tenant_hold(a);
    hspz_tenant_hold(b);

    struct hspz_tenant_settings second[] = {make("c", HSPZ_CREDENTIAL_UID, 1),
                                            make("b", HSPZ_CREDENTIAL_UID, 3)};
    second[1].device_share = 25;
    assert_int_equal(hspz_tenants_apply(&tenants, true, second, 2), HSPZ_OK);
    assert_null(find(&tenants, HSPZ_CREDENTIAL_UID, 2));
    assert_ptr_equal(find(&tenants, HSPZ_CREDENTIAL_UID, 3), b);
    assert_int_equal(b->settings.weight, 3);
    assert_int_equal(b->share.weight, 3);
    assert_int_equal(b->share.cap_percent, 25);
    assert_string_equal(find(&tenants, HSPZ_CREDENTIAL_UID, 1)->settings.name, "c");
    assert_true(a->gone);

    struct hspz_tenant_settings third[] = {make("a", HSPZ_CREDENTIAL_UID, 9)};
    assert_int_equal(hspz_tenants_apply(&tenants, true, third, 1), HSPZ_OK);
    assert_ptr_equal(find(&tenants, HSPZ_CREDENTIAL_UID, 9), a);
    assert_false(a->gone);
    assert_true(b->gone);
    hspz_tenant_release(&tenants, &b);
    assert_null(b);
    hspz_tenant_release(&tenants, &a);
    assert_null(a);
    assert_non_null(tenants.first);
    assert_null(tenants.first->next);
    hspz_tenants_fini(&tenants);
}

static void
test_a_reload_without_memory_changes_nothing(void **state)
{
    (void)state;
    struct hspz_tenants tenants = {0};
    struct hspz_tenant_settings first[] = {make("a", HSPZ_CREDENTIAL_UID, 1)};
    assert_int_equal(hspz_tenants_apply(&tenants, true, first, 1), HSPZ_OK);
    struct hspz_tenant_settings second[] = {make("b", HSPZ_CREDENTIAL_UID, 2),
                                            make("c", HSPZ_CREDENTIAL_UID, 3)};
    for (long n = 1; n <= 2; n++) {
        failing_malloc_arm(n);
        assert_int_equal(hspz_tenants_apply(&tenants, true, second, 2), HSPZ_E_OUT_OF_MEMORY);
        assert_true(failing_malloc_disarm());
        assert_non_null(find(&tenants, HSPZ_CREDENTIAL_UID, 1));
        assert_null(find(&tenants, HSPZ_CREDENTIAL_UID, 2));
    }
    assert_int_equal(hspz_tenants_apply(&tenants, true, second, 2), HSPZ_OK);
    assert_null(find(&tenants, HSPZ_CREDENTIAL_UID, 1));
    hspz_tenants_fini(&tenants);
}

static void
test_none_uses_up_what_another_has_to_begin_with(void **state)
{
    (void)state;
    struct hspz_tenants tenants = {0};
    struct hspz_tenant_settings settings[] = {make("a", HSPZ_CREDENTIAL_UID, 1),
                                              make("b", HSPZ_CREDENTIAL_UID, 2)};
    assert_int_equal(hspz_tenants_apply(&tenants, true, settings, 2), HSPZ_OK);
    struct hspz_tenant *a = find(&tenants, HSPZ_CREDENTIAL_UID, 1);
    struct hspz_tenant *b = find(&tenants, HSPZ_CREDENTIAL_UID, 2);
    assert_int_equal(hspz_tenants_most(&tenants, 80), 70);
    assert_true(hspz_tenant_has_room(&tenants, a, HSPZ_HELD_JOBS, 70, 80));
    assert_false(hspz_tenant_has_room(&tenants, a, HSPZ_HELD_JOBS, 71, 80));
    a->jobs = 70;
    assert_false(hspz_tenant_has_room(&tenants, a, HSPZ_HELD_JOBS, 1, 80));
    assert_true(hspz_tenant_has_room(&tenants, b, HSPZ_HELD_JOBS, 10, 80));
    assert_false(hspz_tenant_has_room(&tenants, b, HSPZ_HELD_JOBS, 11, 80));
    /* What it has of its part is not kept twice; over its part it has what is left. */
    b->jobs = 4;
    assert_false(hspz_tenant_has_room(&tenants, a, HSPZ_HELD_JOBS, 1, 80));
    a->jobs = 50;
    assert_true(hspz_tenant_has_room(&tenants, b, HSPZ_HELD_JOBS, 26, 80) &&
                !hspz_tenant_has_room(&tenants, b, HSPZ_HELD_JOBS, 27, 80));
    /* Each thing is counted by itself, and a limit on few is not split. */
    assert_true(hspz_tenant_has_room(&tenants, a, HSPZ_HELD_INGEST, 70, 80));
    assert_true(hspz_tenant_has_room(&tenants, a, HSPZ_HELD_CONNECTIONS, 7, 7));
    /* One that is in no configuration any more has no part. */
    a->jobs = 0;
    b->jobs = 71;
    a->gone = true;
    assert_int_equal(hspz_tenants_most(&tenants, 80), 80);
    assert_true(hspz_tenant_has_room(&tenants, b, HSPZ_HELD_JOBS, 9, 80));
    b->jobs = 0;
    hspz_tenants_fini(&tenants);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_tenants_only_nothing_is_shown_to_be_known),
        cmocka_unit_test(test_a_credential_finds_its_tenant_and_no_other),
        cmocka_unit_test(test_the_overflow_ids_match_nobody),
        cmocka_unit_test(test_a_tenant_keeps_its_place_over_a_reload_and_goes_with_its_last_use),
        cmocka_unit_test(test_a_reload_without_memory_changes_nothing),
        cmocka_unit_test(test_none_uses_up_what_another_has_to_begin_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
