#include "client/number.h"
#include "client/plot_run.h"
#include "client/target.h"

#include <string.h>

/* plot: options. The work is in plot_run.c. */

#define WIDTH_DEFAULT 1200u
#define WIDTH_LEAST 400u
#define HITS_WIDTH_LEAST 800u
#define SIDE_MOST 16000u

static bool
ends_in(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

/* What goes with which input. */
static enum hspz_status
check_input(const struct hspz_plot_run *run, struct hspz_error *err)
{
    if (run->output == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "-o FILE.png or FILE.svg is missing");
    }
    if (run->index == NULL && (run->hits || run->anchors)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--%s is for NAME QUERY, which it asks the "
                              "server about",
                              run->hits ? "hits" : "anchors");
    }
    if (run->index != NULL && run->ref != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--ref is for a file of matches");
    }
    if (run->hits && (run->anchors || run->ref_range != NULL || run->query_range != NULL)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "--hits goes without --anchors, --ref-range and --query-range");
    }
    if (run->hits && run->width < HITS_WIDTH_LEAST) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--hits has two panels: --width %u or more",
                              HITS_WIDTH_LEAST);
    }
    return HSPZ_OK;
}

int
hspz_cmd_plot(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    static const char *const strands[] = {"plus", "minus", "both", NULL};
    static const char *const formats[] = {"png", "svg", NULL};
    struct hspz_plot_run run = {
        .cli = cli, .width = WIDTH_DEFAULT, .request = HSPZ_DISCOVER_REQUEST_DEFAULT};
    struct hspz_discover_request *request = &run.request;
    int strand = 2;
    int format = -1;
    uint64_t threshold = HSPZ_THRESHOLD_DEFAULT;
    const char *query = NULL;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &run.output},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--format", .target = &format, .choices = formats},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--strand", .target = &strand, .choices = strands},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ref-range", .target = &run.ref_range},
        {.kind = HSPZ_OPTION_TEXT, .name = "--query-range", .target = &run.query_range},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ref", .target = &run.ref},
        {.kind = HSPZ_OPTION_TEXT, .name = "--query", .target = &query},
        {.kind = HSPZ_OPTION_ANY_TEXT, .name = "--title", .target = &run.title},
        {.kind = HSPZ_OPTION_FLAG, .name = "--hits", .target = &run.hits},
        {.kind = HSPZ_OPTION_FLAG, .name = "--anchors", .target = &run.anchors},
        HSPZ_TRANSITIONS_OPTIONS(&request->transitions),
        {.kind = HSPZ_OPTION_FLAG, .name = "--unmask", .target = &request->unmask},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hspthresh",
         .target = &threshold,
         .least = 1,
         .most = HSPZ_XDROP_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--max-word-count",
         .target = &request->max_word_count,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--width",
         .target = &run.width,
         .least = WIDTH_LEAST,
         .most = SIDE_MOST},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--height",
         .target = &run.height,
         .least = 300,
         .most = SIDE_MOST},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[2] = {NULL, NULL};
    struct hspz_error err = {0};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 2, 1, &status)) {
        return status;
    }
    request->strands = (enum hspz_strands)(strand + 1);
    request->scoring.threshold = (int32_t)threshold;
    run.input = operands[1] == NULL ? operands[0] : NULL;
    run.index = operands[1] != NULL ? operands[0] : NULL;
    run.query = operands[1] != NULL ? operands[1] : query;
    enum hspz_status good = check_input(&run, &err);
    if (good == HSPZ_OK && operands[1] != NULL && query != NULL) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "--query is for a file of matches");
    }
    if (good == HSPZ_OK) {
        run.kind = format >= 0                   ? (enum hspz_picture)format
                   : ends_in(run.output, ".svg") ? HSPZ_PICTURE_SVG
                                                 : HSPZ_PICTURE_PNG;
        good = hspz_target_check(run.input != NULL ? run.input : run.query, run.output, &err);
    }
    return good == HSPZ_OK ? hspz_plot_run(&run) : hspz_cli_usage_error(command, &err);
}
