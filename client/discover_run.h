/* A discover command: reads the query, asks for its anchors piece by piece, writes them. */
#pragma once

#include "client/cli.h"
#include "client/rows.h"

struct hspz_discover_run {
    struct hspz_cli *cli;
    const char *query;  /* file, or NULL with */
    const char *seeds;  /* file */
    const char *output; /* NULL: standard output */
    bool hit_stats;     /* prints the table of hits per seed, and anchors only to a given output */
    enum hspz_format format;
    uint32_t masking;                     /* client/hit_mask.h, of a query; 0: none */
    struct hspz_discover_request request; /* without seeds and bases */
};

/* The exit status. */
int hspz_discover_run(const struct hspz_discover_run *run);
