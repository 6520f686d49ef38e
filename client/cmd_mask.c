#include "client/cli.h"
#include "client/mask_run.h"
#include "client/scoring_options.h"
#include "client/target.h"

#include <string.h>

/* mask: options. The work is in mask_run.c. */

#define INTERVAL_DEFAULT 10000000u /* SegAlign's */
#define K_DEFAULT 21u
#define NEIGHBORS_DEFAULT 0.2 /* too */

static enum hspz_status
settle(struct hspz_mask_run *run, const struct hspz_scoring_options *scoring, const char *seed,
       struct hspz_error *err)
{
    if (!(run->neighbors > 0 && run->neighbors <= 1)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--neighbor_proportion: it is above 0 and up to 1");
    }
    if (run->index != NULL && (seed != NULL || run->step != 1 || run->cache != NULL)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--seed, --step and --cache are for an index of its own, not with "
                              "--index");
    }
    if (run->kmers != 0 && (run->index != NULL || run->least != 1)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--kmers masks by words alone: --index and --M have no place");
    }
    if (run->kmers == 0 && run->k != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--k is of --kmers N");
    }
    run->k = run->k != 0 ? run->k : K_DEFAULT;
    if (run->fasta != NULL && strcmp(run->fasta, run->output) == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--fasta %.200s: the BED goes there: -o names another place for it",
                              run->fasta);
    }
    if (run->index == NULL && run->cli->servers.count > 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--server needs --index: which one is it?");
    }
    const char *const pattern = seed != NULL ? seed : "12of19";
    enum hspz_status status = hspz_shape_parse(pattern, strlen(pattern), &run->shape, err);
    if (status == HSPZ_OK) {
        status = hspz_scoring_options_apply(scoring, &run->request, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_target_check(run->genome, run->output, err);
    }
    return status == HSPZ_OK && run->fasta != NULL ? hspz_target_check(run->genome, run->fasta, err)
                                                   : status;
}

int
hspz_cmd_mask(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    static const char *const strands[] = {"plus", "minus", "both", NULL};
    struct hspz_mask_run run = {
        .cli = cli,
        .output = "-",
        .step = 1,
        .least = 1,
        .neighbors = NEIGHBORS_DEFAULT,
        .interval = INTERVAL_DEFAULT,
        .request = HSPZ_DISCOVER_REQUEST_DEFAULT,
    };
    struct hspz_scoring_options scoring = HSPZ_SCORING_OPTIONS_DEFAULT;
    int strand = 2;
    const char *seed = NULL;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &run.output},
        {.kind = HSPZ_OPTION_TEXT, .name = "--fasta", .target = &run.fasta},
        {.kind = HSPZ_OPTION_TEXT, .name = "--index", .target = &run.index},
        {.kind = HSPZ_OPTION_TEXT, .name = "--cache", .target = &run.cache},
        {.kind = HSPZ_OPTION_TEXT, .name = "--seed", .target = &seed},
        {.kind = HSPZ_OPTION_TEXT, .name = "--scoring", .target = &scoring.file},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ambiguous", .target = &scoring.ambiguous},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--strand", .target = &strand, .choices = strands},
        {.kind = HSPZ_OPTION_FLAG, .name = "--markend", .target = &run.markend},
        {.kind = HSPZ_OPTION_OFF, .name = "--noentropy", .target = &scoring.entropy},
        {.kind = HSPZ_OPTION_FRACTION, .name = "--neighbor_proportion", .target = &run.neighbors},
        {.kind = HSPZ_OPTION_ZERO, .name = "--notransition", .target = &run.request.transitions},
        HSPZ_TRANSITIONS_OPTIONS(&run.request.transitions),
        {.kind = HSPZ_OPTION_NUMBER32,
         .name = "--M",
         .target = &run.least,
         .least = 1,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--interval",
         .target = &run.interval,
         .least = 1,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--step",
         .target = &run.step,
         .least = 1,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--kmers",
         .target = &run.kmers,
         .least = 1,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_NUMBER, .name = "--k", .target = &run.k, .least = 1, .most = 32},
        {.kind = HSPZ_OPTION_NUMBER, .name = "--threads", .target = &run.threads, .most = 4096},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--xdrop",
         .target = &scoring.xdrop,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hspthresh",
         .target = &scoring.threshold,
         .least = 1,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[1] = {NULL};
    struct hspz_error err = {0};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 1, 1, &status)) {
        return status;
    }
    run.genome = operands[0];
    run.request.strands = (enum hspz_strands)(strand + 1);
    if (settle(&run, &scoring, seed, &err) != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    return hspz_mask_run(&run);
}
