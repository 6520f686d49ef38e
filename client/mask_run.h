/* A mask command: aligns a genome with itself without gaps and masks what HSPs lie on.
 *
 * The server has the genome's index, or one is built and served for the run alone. */
#pragma once

#include "client/cli.h"
#include "client/self_cover.h"
#include "engine/shape.h"

struct hspz_mask_run {
    struct hspz_cli *cli;
    const char *genome; /* file */
    const char *index;  /* of the server; NULL: one of its own */
    const char *cache;  /* of such indexes; NULL: as kegalign's */
    struct hspz_shape shape;
    uint64_t step, threads; /* of those too; threads 0: hspzd's default */
    const char *output;     /* BED */
    const char *fasta;      /* the genome with masked bases in lower case; NULL: not wanted */
    uint32_t least;         /* HSPs on a base to mask it, or */
    uint64_t kmers;         /* mask k-mers that come so often, without a server; 0: by HSPs */
    uint64_t k;
    double neighbors;
    uint64_t interval;
    bool markend;
    struct hspz_discover_request request; /* without index and bases */
};

/* The exit status. */
int hspz_mask_run(const struct hspz_mask_run *run);
