/* For programs that are nothing without a card. */
#pragma once

#include "engine/engine.h"
#include "tests/support/test.h"

#include <stdio.h>

/* 0, or what the program is to end with (after a line that says why): skipped, or failed where a
 * card is required. */
static inline int
status_without_card(void)
{
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    if (hspz_cuda_engine.open(&(struct hspz_engine_config){0}, &engine, &err) != HSPZ_OK) {
        printf("%s\n", err.text);
        return test_required("gpu") ? 1 : 77;
    }
    hspz_cuda_engine.close(&engine);
    return 0;
}
