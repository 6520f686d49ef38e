/* Opening the CUDA engine, with a card and without. */
#include "engine/engine.h"
#include "tests/support/test.h"

/* Either it opens and names a device, or one line says why not. */
static void
test_open_answers_in_one_line(void **state)
{
    (void)state;
    const struct hspz_engine_ops *ops = hspz_engine_find("cuda");
    assert_non_null(ops);
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    const enum hspz_status status = ops->open(&(struct hspz_engine_config){0}, &engine, &err);
    if (status == HSPZ_OK) {
        struct hspz_device_info info;
        assert_true(ops->device_count(engine) >= 1);
        ops->device_info(engine, 0, &info);
        assert_true(strlen(info.name) > 0);
        assert_true(info.memory_bytes > 0);
        struct hspz_lane *lane = NULL;
        assert_int_equal(ops->lane_open(engine, 0, &lane, &err), HSPZ_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ops->lane_check(lane, &err), HSPZ_OK);
        }
        ops->lane_close(&lane);
        ops->close(&engine);
    } else {
        assert_false(test_required("gpu"));
        assert_int_equal(status, HSPZ_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, "cuda: "));
    }
    assert_null(engine);
}

static void
test_unknown_devices_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"99", "-1", "x", "", "GPU-", "GPU-zz", "0x0"};
    const struct hspz_engine_ops *ops = hspz_engine_find("cuda");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct hspz_engine *engine = NULL;
        struct hspz_error err = {0};
        const struct hspz_engine_config config = {
            .cuda = {.devices = &names[i], .device_count = 1}};
        assert_int_equal(ops->open(&config, &engine, &err), HSPZ_E_UNSUPPORTED);
        assert_null(engine);
        assert_true(strlen(err.text) > 0);
    }
}

static void
test_more_memory_than_a_card_has_is_refused_with_the_numbers(void **state)
{
    (void)state;
    const struct hspz_engine_ops *ops = hspz_engine_find("cuda");
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    const struct hspz_engine_config config = {.cuda = {.memory_bytes = UINT64_C(1) << 50}};
    const enum hspz_status status = ops->open(&config, &engine, &err);
    if (status == HSPZ_E_UNSUPPORTED) {
        assert_false(test_required("gpu"));
        skip();
    }
    assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
    assert_null(engine);
    assert_non_null(strstr(err.text, "1125899906842624 bytes"));
    assert_non_null(strstr(err.text, "are free"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_answers_in_one_line),
        cmocka_unit_test(test_unknown_devices_are_refused_by_name),
        cmocka_unit_test(test_more_memory_than_a_card_has_is_refused_with_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
