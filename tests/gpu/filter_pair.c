#include "tests/gpu/filter_pair.h"

#include "tests/support/test.h"

struct hspz_engine *
open_engine(uint64_t memory_bytes)
{
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    const char *const first[] = {"0"};
    const struct hspz_engine_config config = {
        .cuda = {.devices = first, .device_count = 1, .memory_bytes = memory_bytes}};
    if (hspz_cuda_engine.open(&config, &engine, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return engine;
}

struct pair
open_pair(struct hspz_engine *engine, struct hspz_filter_spec spec)
{
    const struct hspz_filter_ops *const ops[] = {hspz_cuda_filter(spec.kind),
                                                 hspz_cpu_filter(spec.kind)};
    const unsigned devices = hspz_cuda_engine.device_count(engine);
    struct pair pair = {0};
    struct hspz_error err = {0};
    if (hspz_filter_plan(&spec, 0, &pair.plan, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    pair.plan.device = hspz_cuda_engine.filter_device(engine, 0);
    for (unsigned p = 0; p < HSPZ_FILTER_PARTS_MAX; p++) {
        pair.plan.part_devices[p] = hspz_cuda_engine.filter_device(engine, p % devices);
    }
    for (int i = 0; i < 2; i++) {
        pair.ops[i] = hspz_filter_ops_of(&pair.plan, ops[i]);
        if (pair.ops[i]->create(&pair.plan, &pair.filter[i], &err) != HSPZ_OK) {
            fail_msg("%s", err.text);
        }
    }
    return pair;
}

void
close_pair(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        pair->ops[i]->destroy(&pair->filter[i]);
        assert_null(pair->filter[i]);
    }
}

void
run_both(struct pair *pair, const struct hspz_filter_call *call, struct answers out[2])
{
    for (int i = 0; i < 2; i++) {
        struct hspz_error err = {0};
        out[i].call = *call;
        out[i].yes = malloc(call->count / 8 + 1);
        out[i].found = malloc(call->count * sizeof(uint64_t) + 1);
        memset(out[i].yes, 0xaa, call->count / 8 + 1);
        memset(out[i].found, 0xaa, call->count * sizeof(uint64_t) + 1);
        out[i].call.yes = out[i].yes;
        out[i].call.found = out[i].found;
        if (pair->ops[i]->run(pair->filter[i], &out[i].call, &err) != HSPZ_OK) {
            fail_msg("%s %s: %s", hspz_filter_kind_name(pair->plan.spec.kind),
                     hspz_filter_op_name(call->op), err.text);
        }
        uint64_t yes = 0;
        for (size_t k = 0; k < call->count; k++) {
            yes += bit(out[i].yes, k);
        }
        assert_int_equal(yes, out[i].call.yes_count);
    }
}

void
free_answers(struct answers answers[2])
{
    for (int i = 0; i < 2; i++) {
        free(answers[i].yes);
        free(answers[i].found);
    }
}

void
check_images(struct pair *pair)
{
    struct hspz_filter_image image[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pair->ops[i]->save(pair->filter[i], NULL, &image[i], NULL), HSPZ_OK);
    }
    assert_int_equal(image[0].entries, image[1].entries);
    assert_int_equal(image[0].total, image[1].total);
    for (int a = 0; a < HSPZ_FILTER_ARRAYS; a++) {
        assert_int_equal(image[0].bytes[a], image[1].bytes[a]);
        if (image[0].bytes[a] > 0) {
            assert_memory_equal(image[0].arrays[a], image[1].arrays[a], image[0].bytes[a]);
        }
    }
    hspz_filter_image_fini(&image[0]);
    hspz_filter_image_fini(&image[1]);
}
