#include "client/cli.h"
#include "client/hsps_run.h"
#include "client/mask_option.h"
#include "client/number.h"
#include "client/scoring_options.h"
#include "client/target.h"
#include "engine/sequences.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* hsps: options. The work is in hsps_run.c. */

/* Exactly one place to write to, and a format that fits it. */
static enum hspz_status
check_target(struct hspz_hsp_target *target, struct hspz_error *err)
{
    const int given = (target->output != NULL) + (target->folder != NULL) +
                      (target->archive != NULL) + (target->pairs != NULL);
    if (given > 1) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "only one of -o, --out-dir, --tar and --pairs");
    }
    if (given == 0) {
        target->output = "-";
    }
    if (target->output == NULL && target->format != HSPZ_HSP_SEGMENTS) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--out-dir, --tar and --pairs write --format segments");
    }
    return HSPZ_OK;
}

/* Folders that are not there are made. */
static enum hspz_status
make_folders(const struct hspz_hsp_target *target, struct hspz_error *err)
{
    const char *folder = target->folder != NULL ? target->folder : target->pairs;
    if (folder != NULL && mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot make the folder", folder);
    }
    return HSPZ_OK;
}

struct options {
    struct hspz_hsps_run run;
    struct hspz_scoring_options scoring;
    const char *max_hits;
    const char *word_count;
    struct hspz_mask_option mask;
    int strand, format, compat;
    int64_t deadline_ms;
};

static enum hspz_status
settle(struct options *o, const char *const *operands, struct hspz_error *err)
{
    struct hspz_hsps_run *run = &o->run;
    struct hspz_discover_request *request = &run->request;
    static const enum hspz_hsp_format formats[] = {HSPZ_HSP_TSV, HSPZ_HSP_SEGMENTS, HSPZ_HSP_PAF,
                                                   HSPZ_HSP_JSONL, HSPZ_HSP_PACKED};
    const bool in_files =
        run->target.folder != NULL || run->target.archive != NULL || run->target.pairs != NULL;
    request->index = operands[0];
    run->query = operands[1];
    run->target.format = o->format >= 0 ? formats[o->format]
                         : in_files     ? HSPZ_HSP_SEGMENTS
                                        : HSPZ_HSP_TSV;
    run->compat = o->scoring.compat = o->compat == 1;
    request->strands = (enum hspz_strands)(o->strand + 1);
    request->deadline_ms = (uint64_t)o->deadline_ms;
    enum hspz_status status = check_target(&run->target, err);
    if (status == HSPZ_OK && run->bases != NULL && run->target.format != HSPZ_HSP_PAF) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--target is for --format paf");
    }
    if (status == HSPZ_OK && o->max_hits != NULL) {
        status = hspz_max_hits_parse(o->max_hits, &request->max_hits, err);
    }
    if (status == HSPZ_OK && o->word_count != NULL) {
        status = hspz_word_count_parse(o->word_count, &request->max_word_count,
                                       &request->keep_words, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_mask_option_apply(&o->mask, run->cli, request, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_scoring_options_apply(&o->scoring, request, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_target_check(run->query, run->target.output, err);
    }
    return status == HSPZ_OK ? hspz_target_check(run->query, run->target.archive, err) : status;
}

int
hspz_cmd_hsps(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    static const char *const strands[] = {"plus", "minus", "both", NULL};
    static const char *const formats[] = {"tsv", "segments", "paf", "jsonl", "packed", NULL};
    static const char *const compats[] = {"none", "kegalign-0.1", NULL};
    struct options o = {
        .run = {.cli = cli,
                .interval = HSPZ_INTERVAL_DEFAULT,
                .query_block_size = HSPZ_BLOCK_BASES_DEFAULT,
                .request = HSPZ_DISCOVER_REQUEST_DEFAULT},
        .scoring = HSPZ_SCORING_OPTIONS_DEFAULT,
        .strand = 2,
        .format = -1,
    };
    struct hspz_hsp_target *target = &o.run.target;
    struct hspz_discover_request *request = &o.run.request;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &target->output},
        {.kind = HSPZ_OPTION_TEXT, .name = "--out-dir", .target = &target->folder},
        {.kind = HSPZ_OPTION_TEXT, .name = "--tar", .target = &target->archive},
        {.kind = HSPZ_OPTION_TEXT, .name = "--pairs", .target = &target->pairs},
        {.kind = HSPZ_OPTION_TEXT, .name = "--target", .target = &o.run.bases},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--format", .target = &o.format, .choices = formats},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--strand", .target = &o.strand, .choices = strands},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--compat", .target = &o.compat, .choices = compats},
        HSPZ_TRANSITIONS_OPTIONS(&request->transitions),
        {.kind = HSPZ_OPTION_OFF, .name = "--no-digest", .target = &request->digest},
        {.kind = HSPZ_OPTION_FLAG, .name = "--unmask", .target = &request->unmask},
        {.kind = HSPZ_OPTION_FLAG, .name = "--plan", .target = &o.run.plan_only},
        {.kind = HSPZ_OPTION_FLAG, .name = "--balanced", .target = &o.run.balanced},
        {.kind = HSPZ_OPTION_OFF, .name = "--noentropy", .target = &o.scoring.entropy},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ambiguous", .target = &o.scoring.ambiguous},
        {.kind = HSPZ_OPTION_TEXT, .name = "--scoring", .target = &o.scoring.file},
        {.kind = HSPZ_OPTION_TEXT, .name = "--max-hits", .target = &o.max_hits},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--deadline", .target = &o.deadline_ms},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--priority",
         .target = &o.run.request.priority,
         .most = HSPZ_PRIORITY_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--xdrop",
         .target = &o.scoring.xdrop,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hspthresh",
         .target = &o.scoring.threshold,
         .least = 1,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hsp-limit",
         .target = &o.scoring.limit,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hit-limit",
         .target = &request->hit_limit,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_TEXT, .name = "--max-word-count", .target = &o.word_count},
        {.kind = HSPZ_OPTION_TEXT, .name = "--mask-filter", .target = &o.mask.text},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--interval",
         .target = &o.run.interval,
         .least = 1,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--query-block-size",
         .target = &o.run.query_block_size,
         .least = 1,
         .most = HSPZ_BLOCK_BASES_LIMIT},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[2] = {NULL, NULL};
    struct hspz_error err = {0};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 2, 2, &status)) {
        return status;
    }
    enum hspz_status good = settle(&o, operands, &err);
    if (good != HSPZ_OK) {
        return good == HSPZ_E_IO ? hspz_cli_fail(cli, &err) : hspz_cli_usage_error(command, &err);
    }
    good = make_folders(target, &err);
    return good == HSPZ_OK ? hspz_hsps_run(&o.run, NULL) : hspz_cli_fail(cli, &err);
}
