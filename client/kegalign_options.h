/* The command lines of KegAlign and hspZ: `hspz-client kegalign` and `hspz-client hspz-run`.
 *
 * Names are taken with '_' or '-'. What makes no difference here is accepted with a note on
 * standard error; what would change the result and cannot be had is refused by name. */
#pragma once

#include "client/cli.h"
#include "client/hsps_run.h"
#include "client/scoring_options.h"
#include "engine/shape.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_kegalign_options {
    struct hspz_hsps_run run; /* request without index, target without lastz and ref */
    struct hspz_lastz lastz;
    bool gapped; /* LASTZ commands are wanted */
    const char *target, *data_folder;
    const char *seed; /* NULL: not given */
    struct hspz_shape shape;
    uint64_t step; /* 0: not given */
    uint64_t block_size;
    bool private_server;
    bool unload; /* what this run had loaded */
    const char *cache;
    uint64_t threads; /* 0: not given */
    int64_t gpus;     /* -1: all */
};

/* Borrows from argv, and changes '_' in its option names. False when the command is over, with its
 * exit status in *status. */
bool hspz_kegalign_options_parse(struct hspz_kegalign_options *options, struct hspz_cli *cli,
                                 const struct hspz_command *command, int argc, char **argv,
                                 int *status);
