/* What the measuring programs share. */
#pragma once

#include "protocol/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double
now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Ends the program when a call failed. */
static inline void
must(enum hspz_status status, const struct hspz_error *err)
{
    if (status != HSPZ_OK) {
        fprintf(stderr, "%s: %s\n", hspz_status_name(status), err->text);
        exit(1);
    }
}
