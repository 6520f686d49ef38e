#include "tests/daemon/fake_engine.h"

#include <stdlib.h>
#include <unistd.h>

static enum hspz_status
lane_open(struct hspz_engine *engine, unsigned device, struct hspz_lane **out,
          struct hspz_error *err)
{
    (void)device;
    if (engine->fail_lane) {
        return hspz_error_set(err, HSPZ_E_DEVICE_ERROR, "no lane");
    }
    struct hspz_lane *lane = malloc(sizeof(*lane));
    if (lane == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    lane->engine = engine;
    engine->lanes++;
    *out = lane;
    return HSPZ_OK;
}

static void
lane_close(struct hspz_lane **lane)
{
    (*lane)->engine->lanes--;
    free(*lane);
    *lane = NULL;
}

static enum hspz_status
lane_check(struct hspz_lane *lane, struct hspz_error *err)
{
    lane->engine->checks++;
    while (lane->engine->hang_check) {
        usleep(1000);
    }
    return lane->engine->fail_check ? hspz_error_set(err, HSPZ_E_DEVICE_ERROR, "unspecified")
                                    : HSPZ_OK;
}

static enum hspz_status
buffer_create(struct hspz_engine *engine, size_t bytes, void **out)
{
    void *buffer = engine->fail_buffer ? NULL : malloc(bytes);
    if (buffer == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    engine->buffers++;
    *out = buffer;
    return HSPZ_OK;
}

static void
buffer_destroy(struct hspz_engine *engine, void **buffer)
{
    engine->buffers--;
    free(*buffer);
    *buffer = NULL;
}

const struct hspz_engine_ops fake_engine = {
    .name = "fake",
    .lane_open = lane_open,
    .lane_close = lane_close,
    .lane_check = lane_check,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
};
