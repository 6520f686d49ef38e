#include "client/kegalign_options.h"

#include "client/number.h"
#include "client/target.h"
#include "engine/sequences.h"

#include <string.h>

/* As they are written, before they make sense together. */
struct words {
    const char *num_gpu, *num_threads, *inner, *output, *max_hits, *ambiguous, *scoring;
    bool markend, debug, notransition, nogapped, noentropy;
    int strand, compat;
    uint64_t ydrop, gappedthresh, wga_chunk_size, segment_size, interval, query_block_size;
    struct hspz_scoring_options scores;
};

#define NOT_GIVEN UINT64_MAX

/* What stays together when files are cut, as in align: bases, more where LASTZ looks around. */
#define REACH 10000u
#define REACH_INNER 50000u

/* '_' in the names of options is '-'. */
static void
change_names(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            for (char *c = argv[i]; *c != '\0' && *c != '='; c++) {
                *c = *c == '_' ? '-' : *c;
            }
        }
    }
}

/* -1, or a number: KegAlign's way to say that it is left to the program. */
static enum hspz_status
parse_or_minus_one(const char *option, const char *text, uint64_t most, int64_t *out,
                   struct hspz_error *err)
{
    uint64_t value = 0;
    if (text == NULL || strcmp(text, "-1") == 0) {
        *out = -1;
        return HSPZ_OK;
    }
    const enum hspz_status status = hspz_number_parse(option, text, 0, most, &value, err);
    *out = (int64_t)value;
    return status;
}

static void
note(const struct hspz_cli *cli, const char *option, const char *why)
{
    if (!cli->quiet) {
        fprintf(stderr, "hspz-client: note: %s: %s\n", option, why);
    }
}

static void
note_harmless(const struct hspz_kegalign_options *o, const struct words *w)
{
    const struct hspz_cli *cli = o->run.cli;
    if (w->markend) {
        note(cli, "--markend", "no marker: the exit status says that all is done");
    }
    if (w->output != NULL) {
        note(cli, "--output",
             "not written here: the alignment is what LASTZ makes of the commands");
    }
    if (w->num_gpu != NULL && !o->private_server) {
        note(cli, "--num-gpu", "the server's GPUs are used, as it was started");
    }
    if (w->num_threads != NULL && !o->private_server) {
        note(cli, "--num-threads", "the server's threads are used, as it was started");
    }
    if (w->wga_chunk_size != NOT_GIVEN && w->wga_chunk_size != HSPZ_BATCH_POSITIONS) {
        note(cli, "--wga-chunk-size", "the result does not depend on it");
    }
}

static enum hspz_status
refuse_impossible(const struct hspz_kegalign_options *o, const struct words *w,
                  struct hspz_error *err)
{
    if (o->run.compat && w->wga_chunk_size != NOT_GIVEN &&
        w->wga_chunk_size != HSPZ_BATCH_POSITIONS) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--wga-chunk-size: KegAlign's result depends on it, and only %u can "
                              "be had; with --compat none the result depends on none",
                              HSPZ_BATCH_POSITIONS);
    }
    if (w->segment_size != 0 && (o->run.target.archive != NULL || w->nogapped)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--segment-size cuts files with their LASTZ commands: not with %s",
                              w->nogapped ? "--nogapped" : "--tar");
    }
    if (o->target != NULL && o->run.query != NULL && strcmp(o->target, "-") == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "TARGET is a file or an index, not -");
    }
    return HSPZ_OK;
}

static enum hspz_status
parse_numbers(struct hspz_kegalign_options *o, const struct words *w, struct hspz_error *err)
{
    int64_t threads = -1;
    enum hspz_status status = parse_or_minus_one("--num-gpu", w->num_gpu, 64, &o->gpus, err);
    if (status == HSPZ_OK) {
        status = parse_or_minus_one("--num-threads", w->num_threads, 1024, &threads, err);
    }
    if (status == HSPZ_OK) {
        status = parse_or_minus_one("--inner", w->inner, INT32_MAX, &o->lastz.inner, err);
    }
    if (status == HSPZ_OK && w->max_hits != NULL) {
        status = hspz_max_hits_parse(w->max_hits, &o->run.request.max_hits, err);
    }
    o->threads = threads > 0 ? (uint64_t)threads : 0;
    return status;
}

/* What the words mean together. */
static enum hspz_status
settle(struct hspz_kegalign_options *o, struct words *w, struct hspz_error *err)
{
    struct hspz_hsps_run *run = &o->run;
    run->compat = w->compat == 0;
    run->cli->verbose = run->cli->verbose || w->debug;
    run->interval = w->interval;
    run->query_block_size = w->query_block_size != NOT_GIVEN ? w->query_block_size : o->block_size;
    run->request.strands = (enum hspz_strands)(w->strand + 1);
    run->request.transitions = w->notransition ? 0 : 1;
    o->gapped = !w->nogapped;
    o->lastz.ydrop = w->ydrop;
    o->lastz.gappedthresh = w->gappedthresh != NOT_GIVEN ? w->gappedthresh : w->scores.threshold;
    o->lastz.ambiguous = w->ambiguous;
    o->lastz.scoring = w->scoring;
    w->scores.entropy = !w->noentropy;
    w->scores.compat = run->compat;
    w->scores.ambiguous = w->ambiguous;
    w->scores.file = w->scoring;
    enum hspz_status status = parse_numbers(o, w, err);
    run->target.segment_size = w->segment_size;
    run->target.reach = o->lastz.inner >= 0 ? REACH_INNER : REACH;
    if (status == HSPZ_OK) {
        status = refuse_impossible(o, w, err);
    }
    if (status == HSPZ_OK) {
        const char *seed = o->seed != NULL ? o->seed : "12of19";
        status = hspz_shape_parse(seed, strlen(seed), &o->shape, err);
        if (status != HSPZ_OK && err != NULL) {
            const struct hspz_error why = *err;
            hspz_error_set(err, status, "--seed \"%.80s\": %.300s", seed, why.text);
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_scoring_options_apply(&w->scores, &run->request, err);
    }
    if (status == HSPZ_OK && run->target.folder != NULL && run->target.archive != NULL) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST, "only one of --out-dir and --tar");
    }
    return status == HSPZ_OK ? hspz_target_check(run->query, run->target.archive, err) : status;
}

#define TEXT(n, t)                                                                                 \
    {                                                                                              \
        .kind = HSPZ_OPTION_TEXT, .name = (n), .target = (t)                                       \
    }
#define FLAG(n, t)                                                                                 \
    {                                                                                              \
        .kind = HSPZ_OPTION_FLAG, .name = (n), .target = (t)                                       \
    }
#define NUMBER(n, t, a, b)                                                                         \
    {                                                                                              \
        .kind = HSPZ_OPTION_NUMBER, .name = (n), .target = (t), .least = (a), .most = (b)          \
    }
#define CHOICE(n, t, c)                                                                            \
    {                                                                                              \
        .kind = HSPZ_OPTION_CHOICE, .name = (n), .target = (t), .choices = (c)                     \
    }

static bool
parse_words(struct hspz_kegalign_options *o, struct words *w, struct hspz_cli *cli,
            const struct hspz_command *command, int argc, char **argv, int *status)
{
    static const char *const strands[] = {"plus", "minus", "both", NULL};
    static const char *const compats[] = {"kegalign-0.1", "none", NULL};
    struct hspz_hsp_target *target = &o->run.target;
    const struct hspz_option own[] = {
        CHOICE("--strand", &w->strand, strands),
        TEXT("--scoring", &w->scoring),
        TEXT("--ambiguous", &w->ambiguous),
        TEXT("--seed", &o->seed),
        NUMBER("--step", &o->step, 1, UINT32_MAX),
        FLAG("--notransition", &w->notransition),
        NUMBER("--xdrop", &w->scores.xdrop, 0, HSPZ_XDROP_LIMIT),
        NUMBER("--hspthresh", &w->scores.threshold, 1, HSPZ_XDROP_LIMIT),
        FLAG("--noentropy", &w->noentropy),
        FLAG("--nogapped", &w->nogapped),
        NUMBER("--ydrop", &w->ydrop, 0, INT32_MAX),
        NUMBER("--gappedthresh", &w->gappedthresh, 0, INT32_MAX),
        FLAG("--notrivial", &o->lastz.notrivial),
        TEXT("--inner", &w->inner),
        TEXT("--format", &o->lastz.format),
        TEXT("--output", &w->output),
        {.kind = HSPZ_OPTION_ANY_TEXT, .name = "--target-prefix", .target = &o->run.target_prefix},
        {.kind = HSPZ_OPTION_ANY_TEXT, .name = "--query-prefix", .target = &o->run.query_prefix},
        FLAG("--markend", &w->markend),
        NUMBER("--wga-chunk-size", &w->wga_chunk_size, 1, UINT32_MAX),
        NUMBER("--lastz-interval-size", &w->interval, 1, UINT32_MAX),
        NUMBER("--seq-block-size", &o->block_size, 1, HSPZ_BLOCK_BASES_LIMIT),
        NUMBER("--segment-size", &w->segment_size, 0, UINT32_MAX),
        TEXT("--num-gpu", &w->num_gpu),
        TEXT("--num-threads", &w->num_threads),
        FLAG("--debug", &w->debug),
        /* Ours: */
        TEXT("--data-folder", &o->data_folder),
        TEXT("--out-dir", &target->folder),
        TEXT("--tar", &target->archive),
        CHOICE("--compat", &w->compat, compats),
        TEXT("--max-hits", &w->max_hits),
        NUMBER("--query-block-size", &w->query_block_size, 1, HSPZ_BLOCK_BASES_LIMIT),
        FLAG("--balanced", &o->run.balanced),
        FLAG("--plan", &o->run.plan_only),
        FLAG("--private", &o->private_server),
        FLAG("--unload", &o->unload),
        TEXT("--cache", &o->cache),
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[3] = {NULL, NULL, NULL};
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 3, 2, status)) {
        return false;
    }
    o->target = operands[0];
    o->run.query = operands[1];
    o->data_folder = operands[2] != NULL ? operands[2] : o->data_folder;
    return true;
}

bool
hspz_kegalign_options_parse(struct hspz_kegalign_options *options, struct hspz_cli *cli,
                            const struct hspz_command *command, int argc, char **argv, int *status)
{
    struct hspz_error err = {0};
    struct words w = {
        .strand = 2,
        .ydrop = 9430,
        .gappedthresh = NOT_GIVEN,
        .wga_chunk_size = NOT_GIVEN,
        .interval = HSPZ_INTERVAL_DEFAULT,
        .query_block_size = NOT_GIVEN,
        .scores = HSPZ_SCORING_OPTIONS_DEFAULT,
    };
    *options = (struct hspz_kegalign_options){
        .run = {.cli = cli,
                .target = {.format = HSPZ_HSP_SEGMENTS},
                .request = HSPZ_DISCOVER_REQUEST_DEFAULT},
        .lastz = HSPZ_LASTZ_DEFAULT,
        .block_size = HSPZ_BLOCK_BASES_DEFAULT,
    };
    change_names(argc, argv);
    if (!parse_words(options, &w, cli, command, argc, argv, status)) {
        return false;
    }
    const enum hspz_status good = settle(options, &w, &err);
    if (good != HSPZ_OK) {
        *status =
            good == HSPZ_E_IO ? hspz_cli_fail(cli, &err) : hspz_cli_usage_error(command, &err);
        return false;
    }
    note_harmless(options, &w);
    return true;
}
