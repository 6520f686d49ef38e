/* An hsps or kegalign command: reads the query, asks for its HSPs block by block, writes them.
 *
 * Errors say what is missing; a failure leaves no file of an unfinished block behind. */
#pragma once

#include "client/cli.h"
#include "client/hsp_sink.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_hsps_run {
    struct hspz_cli *cli;
    const char *query; /* file */
    const char *bases; /* file of the index's sequences, to count matches for PAF, or NULL */
    /* File whose sequences, by names and bases, the index must have, or NULL. */
    const char *index_of;
    struct hspz_hsp_target target;
    bool plan_only; /* says what it would do, on standard output */
    bool compat;    /* KegAlign's intervals and chunks */
    uint64_t interval, query_block_size;
    bool balanced;
    const char *target_prefix, *query_prefix; /* of names */
    struct hspz_discover_request request;     /* without bases */
};

/* The exit status. `client` is used, not closed; NULL: connects by itself, to all servers that the
 * options name. */
int hspz_hsps_run(const struct hspz_hsps_run *run, struct hspz_client *client);
