/* Progress of what is read or built from files, and the end of it when a signal came.
 *
 * Threads: one. */
#pragma once

#include "client/cli.h"
#include "client/progress.h"

struct hspz_reading {
    const struct hspz_cli *cli;
    struct hspz_progress progress; /* begun by the owner */
    const char *doing;
};

/* A hspz_progress_fn; `user` is a struct hspz_reading. False when it has to stop. */
bool hspz_reading_show(void *user, uint64_t done, uint64_t total);
