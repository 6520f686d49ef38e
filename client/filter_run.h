/* filter insert, query, count, delete, decrement: keys of a file go to the server in batches, and
 * what it says of each is written; filter enumerate: entries come and are written. */
#pragma once

#include "client/cli.h"

enum hspz_key_format { HSPZ_KEY_FORMAT_TSV, HSPZ_KEY_FORMAT_RAW, HSPZ_KEY_FORMAT_NONE };

struct hspz_key_run {
    struct hspz_cli *cli;
    const char *filter;
    const char *input; /* "-": standard input */
    const char *output;
    enum hspz_keys_operation operation;
    bool raw;            /* the input */
    bool values, counts; /* columns behind the key; values of a query: to be written */
    enum hspz_key_format format;
    bool hex;       /* keys and fingerprints in text */
    bool json;      /* the summary */
    uint64_t batch; /* keys of a call */
    uint64_t deadline_ms, priority;
};

/* The exit status; failed too when the filter is full. */
int hspz_key_run_do(const struct hspz_key_run *run);
int hspz_filter_enumerate_run(const struct hspz_key_run *run);
