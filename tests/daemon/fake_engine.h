/* An op table for tests: lanes and buffers that count themselves, and nothing else. */
#pragma once

#include "engine/engine.h"

#include <stdatomic.h>
#include <stdbool.h>

struct hspz_engine {
    int lanes, buffers, adopted; /* open now */
    bool fail_lane, fail_buffer;
    atomic_int checks; /* of lanes, so far */
    atomic_bool fail_check, hang_check;
};

struct hspz_lane {
    struct hspz_engine *engine;
};

extern const struct hspz_engine_ops fake_engine;
