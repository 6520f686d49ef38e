#include "client/align_run.h"
#include "client/number.h"
#include "client/scoring_options.h"
#include "client/target.h"

#include "engine/sequences.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* align: options. The work is in align_run.c. */

#define MOST_OPERANDS 4096u
#define MOST_OPTIONS 128u
#define PROCESSES_MOST 4096u
#define REACH_DEFAULT 10000u
#define REACH_INNER 50000u /* interpolation looks 20,000 bases around alignments */

struct options {
    const char *inner, *ydrop, *gappedthresh, *ambiguous;
    bool notrivial, whole;
    uint64_t reach;
    const char *index; /* of the server that is to find HSPs */
    int strand;
    struct hspz_scoring_options scoring;
    struct hspz_hsps_run hsps;
};

/* Options of LASTZ that this command gives itself, or that it has under its own name. */
static const char *const ours[] = {"--segments", "--output",       "--format",  "--strand",
                                   "--markend",  "--ydrop",        "--inner",   "--gappedthresh",
                                   "--scores",   "--ambiguous",    "--version", "--notrivial",
                                   "--help",     "--targetcapsule"};
/* Options that look at all segments of a query at once. */
static const char *const whole[] = {
    "--chain",         "--self",           "--nomirror",   "--masking",   "--queryhspbest",
    "--queryhsplimit", "--maxpairedbases", "--querydepth", "--anyornone", "--exact",
};

static bool
names_one(const char *option, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(names[i]);
        if (strncmp(option, names[i], len) == 0 &&
            (option[len] == '\0' || option[len] == '=' || option[len] == ':')) {
            return true;
        }
    }
    return false;
}

static enum hspz_status
check_extra(const char *option, bool keep_whole, struct hspz_error *err)
{
    if (strncmp(option, "--", 2) != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "\"%.100s\" after --: options of LASTZ begin with --", option);
    }
    if (names_one(option, ours, sizeof(ours) / sizeof(ours[0]))) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%.100s after --: align sets it, by an option of its own if at all",
                              option);
    }
    if (!keep_whole && names_one(option, whole, sizeof(whole) / sizeof(whole[0]))) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%.100s after --: it looks at all segments at once: use --whole with "
                              "it",
                              option);
    }
    return HSPZ_OK;
}

/* The options LASTZ gets, in memory of malloc. */
struct lastz_options {
    char *words[MOST_OPTIONS];
    size_t count;
};

static enum hspz_status
add_option(struct lastz_options *to, const char *name, const char *value, struct hspz_error *err)
{
    char *word = NULL;
    if (to->count == MOST_OPTIONS) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "more than %u options for LASTZ",
                              MOST_OPTIONS);
    }
    if (asprintf(&word, "%s%s", name, value) < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for options");
    }
    to->words[to->count++] = word;
    return HSPZ_OK;
}

static enum hspz_status
add_number(struct lastz_options *to, const char *name, const char *value, struct hspz_error *err)
{
    uint64_t number = 0;
    char word[32];
    if (value == NULL) {
        return HSPZ_OK;
    }
    const enum hspz_status status = hspz_number_parse(name, value, 0, INT32_MAX, &number, err);
    snprintf(word, sizeof(word), "%s=", name);
    return status == HSPZ_OK ? add_option(to, word, value, err) : status;
}

static enum hspz_status
collect_options(const struct options *options, const char *const *extra, size_t extra_count,
                struct lastz_options *to, struct hspz_error *err)
{
    enum hspz_status status = add_number(to, "--ydrop", options->ydrop, err);
    if (status == HSPZ_OK) {
        status = add_number(to, "--gappedthresh", options->gappedthresh, err);
    }
    if (status == HSPZ_OK) {
        status = add_number(to, "--inner", options->inner, err);
    }
    if (status == HSPZ_OK && options->ambiguous != NULL) {
        status = add_option(to, "--ambiguous=", options->ambiguous, err);
    }
    if (status == HSPZ_OK && options->notrivial) {
        status = add_option(to, "--notrivial", "", err);
    }
    for (size_t i = 0; status == HSPZ_OK && i < extra_count; i++) {
        status = check_extra(extra[i], options->whole, err);
        if (status == HSPZ_OK) {
            status = add_option(to, extra[i], "", err);
        }
    }
    return status;
}

/* A program named by a path: LASTZ runs in another folder. */
static enum hspz_status
resolve_program(const char *given, char **out, struct hspz_error *err)
{
    *out = strchr(given, '/') != NULL ? realpath(given, NULL) : strdup(given);
    if (*out == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "--lastz %.200s", given);
    }
    return HSPZ_OK;
}

static enum hspz_status
check_targets(const struct hspz_align_request *request, struct hspz_error *err)
{
    enum hspz_status status = hspz_target_check(request->target, request->output, err);
    if (status == HSPZ_OK) {
        status = hspz_target_check(request->query, request->output, err);
    }
    for (size_t i = 0; status == HSPZ_OK && i < request->segment_count; i++) {
        status = hspz_target_check(request->segments[i], request->output, err);
    }
    return status;
}

/* Segments are given, or a server is to find them: what belongs to the one is no use to the other.
 */
static enum hspz_status
settle_source(struct hspz_align_request *request, struct options *o, struct hspz_error *err)
{
    const struct hspz_scoring_options plain = HSPZ_SCORING_OPTIONS_DEFAULT;
    struct hspz_discover_request *find = &o->hsps.request;
    if (o->index == NULL) {
        const bool asked = o->strand != 2 || o->scoring.xdrop != plain.xdrop ||
                           o->scoring.threshold != plain.threshold || !o->scoring.entropy ||
                           find->transitions != 1 || find->unmask;
        return request->segment_count == 0
                   ? hspz_error_set(err, HSPZ_E_BAD_REQUEST, "SEGMENTS is missing, or --index")
               : asked ? hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                        "--strand, --xdrop, --hspthresh, --noentropy, --unmask, "
                                        "--transitions and --no-transitions are for --index: "
                                        "SEGMENTS are made already")
                       : HSPZ_OK;
    }
    if (request->segment_count > 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "only one of SEGMENTS and --index");
    }
    if (strcmp(request->target, "-") == 0 || strcmp(request->query, "-") == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "with --index %s is read twice: a file is needed",
                              strcmp(request->target, "-") == 0 ? "TARGET" : "QUERY");
    }
    find->index = o->index;
    find->strands = (enum hspz_strands)(o->strand + 1);
    o->scoring.ambiguous = o->ambiguous;
    o->scoring.file = request->scores;
    o->hsps.cli = request->cli;
    o->hsps.query = request->query;
    o->hsps.index_of = request->target;
    request->discovery = &o->hsps;
    return hspz_scoring_options_apply(&o->scoring, find, err);
}

static int
run_with(struct hspz_align_request *request, struct options *options,
         const struct hspz_command *command, const char *const *extra, size_t extra_count)
{
    struct hspz_error err = {0};
    struct lastz_options lastz = {.count = 0};
    char *program = NULL;
    enum hspz_status status = check_targets(request, &err);
    if (status == HSPZ_OK) {
        status = settle_source(request, options, &err);
    }
    if (status == HSPZ_OK) {
        status = collect_options(options, extra, extra_count, &lastz, &err);
    }
    request->options = (const char *const *)lastz.words;
    request->option_count = lastz.count;
    request->cut.reach = options->whole           ? 0
                         : options->reach != 0    ? options->reach
                         : options->inner != NULL ? REACH_INNER
                                                  : REACH_DEFAULT;
    int code = status == HSPZ_OK              ? HSPZ_EXIT_DONE
               : status == HSPZ_E_BAD_REQUEST ? hspz_cli_usage_error(command, &err)
                                              : hspz_cli_fail(request->cli, &err);
    if (status == HSPZ_OK && resolve_program(request->lastz, &program, &err) != HSPZ_OK) {
        code = hspz_cli_fail(request->cli, &err);
    } else if (status == HSPZ_OK) {
        request->lastz = program;
        code = hspz_align_run(request);
    }
    free(program);
    for (size_t i = 0; i < lastz.count; i++) {
        free(lastz.words[i]);
    }
    return code;
}

int
hspz_cmd_align(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    static const char *const formats[] = {"maf", "axt", "paf", NULL};
    struct hspz_align_request request = {.cli = cli, .output = "-", .lastz = "lastz"};
    static const char *const strands[] = {"plus", "minus", "both", NULL};
    struct options options = {
        .ydrop = "9430",
        .gappedthresh = "3000",
        .strand = 2,
        .scoring = HSPZ_SCORING_OPTIONS_DEFAULT,
        .hsps = {.interval = HSPZ_INTERVAL_DEFAULT,
                 .query_block_size = HSPZ_BLOCK_BASES_DEFAULT,
                 .request = HSPZ_DISCOVER_REQUEST_DEFAULT},
    };
    struct hspz_discover_request *find = &options.hsps.request;
    int format = 0;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &request.output},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--format", .target = &format, .choices = formats},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--processes",
         .target = &request.processes,
         .least = 1,
         .most = PROCESSES_MOST},
        {.kind = HSPZ_OPTION_TEXT, .name = "--lastz", .target = &request.lastz},
        {.kind = HSPZ_OPTION_TEXT, .name = "--work", .target = &request.work},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ydrop", .target = &options.ydrop},
        {.kind = HSPZ_OPTION_TEXT, .name = "--gappedthresh", .target = &options.gappedthresh},
        {.kind = HSPZ_OPTION_TEXT, .name = "--inner", .target = &options.inner},
        {.kind = HSPZ_OPTION_TEXT, .name = "--scoring", .target = &request.scores},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ambiguous", .target = &options.ambiguous},
        {.kind = HSPZ_OPTION_TEXT, .name = "--index", .target = &options.index},
        {.kind = HSPZ_OPTION_CHOICE,
         .name = "--strand",
         .target = &options.strand,
         .choices = strands},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--xdrop",
         .target = &options.scoring.xdrop,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hspthresh",
         .target = &options.scoring.threshold,
         .least = 1,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_OFF, .name = "--noentropy", .target = &options.scoring.entropy},
        HSPZ_TRANSITIONS_OPTIONS(&find->transitions),
        {.kind = HSPZ_OPTION_FLAG, .name = "--unmask", .target = &find->unmask},
        {.kind = HSPZ_OPTION_FLAG, .name = "--notrivial", .target = &options.notrivial},
        {.kind = HSPZ_OPTION_FLAG, .name = "--whole", .target = &options.whole},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--reach",
         .target = &options.reach,
         .least = 100,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--piece-cost",
         .target = &request.cut.piece_cost,
         .least = 1,
         .most = UINT64_MAX / 4},
        {.kind = HSPZ_OPTION_END},
    };
    int before = 1; /* what follows -- is for LASTZ */
    while (before < argc && strcmp(argv[before], "--") != 0) {
        before++;
    }
    const char **operands = calloc(MOST_OPERANDS, sizeof(*operands));
    struct hspz_error err = {0};
    int status = 0;
    if (operands == NULL) {
        hspz_error_set(&err, HSPZ_E_OUT_OF_MEMORY, "no memory for arguments");
        return hspz_cli_fail(cli, &err);
    }
    if (hspz_cli_parse(cli, command, own, before, argv, operands, MOST_OPERANDS, 2, &status)) {
        while (request.segment_count + 2 < MOST_OPERANDS &&
               operands[request.segment_count + 2] != NULL) {
            request.segment_count++;
        }
        request.target = operands[0];
        request.query = operands[1];
        request.segments = operands + 2;
        request.format = (enum hspz_align_format)format;
        const size_t extra = before < argc ? (size_t)(argc - before - 1) : 0;
        status = run_with(&request, &options, command,
                          (const char *const *)argv + (before < argc ? before + 1 : argc), extra);
    }
    free(operands);
    return status;
}
