#include "client/cli.h"
#include "client/discover_run.h"
#include "client/hit_mask.h"
#include "client/mask_option.h"
#include "client/number.h"
#include "client/servers.h"
#include "client/target.h"

#include <string.h>

/* discover: options. The work is in discover_run.c. */

/* How chunk ends are looked for, when no option says it. */
static enum hspz_status
find_walk(const char *const *walks, int *walk, struct hspz_error *err)
{
    const char *text = hspz_cli_environment("HSPZ_CHUNK_WALK");
    *walk = 0;
    while (text != NULL && walks[*walk] != NULL && strcmp(walks[*walk], text) != 0) {
        (*walk)++;
    }
    return walks[*walk] != NULL
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "HSPZ_CHUNK_WALK \"%.100s\": blocks or full", text);
}

int
hspz_cmd_discover(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    static const char *const strands[] = {"plus", "minus", "both", NULL};
    static const char *const formats[] = {"tsv", "jsonl", "packed", "columns", NULL};
    static const char *const walks[] = {"blocks", "full", NULL};
    static const char *const encodings[] = {"packed", "columnar", NULL};
    static const char *const transports[] = {"auto", "stream", "shm", NULL};
    struct hspz_discover_run run = {
        .cli = cli,
        .request = HSPZ_DISCOVER_REQUEST_DEFAULT,
    };
    int strand = 2;
    int format = 0;
    int walk = -1;
    int encoding = -1;
    int transport = 0;
    int64_t deadline_ms = 0;
    const char *max_hits = NULL;
    const char *word_count = NULL;
    struct hspz_mask_option mask = {0};
    struct hspz_discover_request *request = &run.request;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &run.output},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--format", .target = &format, .choices = formats},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--strand", .target = &strand, .choices = strands},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--chunk-walk", .target = &walk, .choices = walks},
        {.kind = HSPZ_OPTION_CHOICE,
         .name = "--encoding",
         .target = &encoding,
         .choices = encodings},
        {.kind = HSPZ_OPTION_CHOICE,
         .name = "--transport",
         .target = &transport,
         .choices = transports},
        HSPZ_TRANSITIONS_OPTIONS(&request->transitions),
        {.kind = HSPZ_OPTION_OFF, .name = "--no-digest", .target = &request->digest},
        {.kind = HSPZ_OPTION_FLAG, .name = "--unmask", .target = &request->unmask},
        {.kind = HSPZ_OPTION_FLAG, .name = "--hit-stats", .target = &run.hit_stats},
        {.kind = HSPZ_OPTION_TEXT, .name = "--max-hits", .target = &max_hits},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--hit-limit",
         .target = &request->hit_limit,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_TEXT, .name = "--max-word-count", .target = &word_count},
        {.kind = HSPZ_OPTION_TEXT, .name = "--mask-filter", .target = &mask.text},
        {.kind = HSPZ_OPTION_NUMBER32,
         .name = "--masking",
         .target = &run.masking,
         .most = HSPZ_MASKING_LIMIT},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--deadline", .target = &deadline_ms},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--priority",
         .target = &request->priority,
         .most = HSPZ_PRIORITY_LIMIT},
        {.kind = HSPZ_OPTION_TEXT, .name = "--seeds", .target = &run.seeds},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[2] = {NULL, NULL};
    struct hspz_error err = {0};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 2, 1, &status)) {
        return status;
    }
    request->index = operands[0];
    run.query = operands[1];
    request->strands = (enum hspz_strands)(strand + 1);
    request->deadline_ms = (uint64_t)deadline_ms;
    run.format = (enum hspz_format)format;
    request->columns = run.format == HSPZ_FORMAT_COLUMNS;
    request->encoding = encoding < 0
                            ? request->columns ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED
                            : (enum hspz_encoding)encoding;
    request->transport = (enum hspz_transport)transport;
    enum hspz_status good = walk >= 0 ? HSPZ_OK : find_walk(walks, &walk, &err);
    request->walk = (enum hspz_chunk_walk)walk;
    if (good == HSPZ_OK && max_hits != NULL) {
        good = hspz_max_hits_parse(max_hits, &request->max_hits, &err);
    }
    if (good == HSPZ_OK && word_count != NULL) {
        good =
            hspz_word_count_parse(word_count, &request->max_word_count, &request->keep_words, &err);
    }
    if (good == HSPZ_OK) {
        good = hspz_mask_option_apply(&mask, cli, request, &err);
    }
    if (good == HSPZ_OK && (run.query == NULL) == (run.seeds == NULL)) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST,
                              run.seeds == NULL ? "QUERY is missing"
                                                : "it takes QUERY or --seeds, not both");
    }
    if (good == HSPZ_OK && run.hit_stats) {
        good = hspz_servers_check_one(cli, "--hit-stats", &err);
    }
    if (good == HSPZ_OK && run.hit_stats && run.seeds != NULL) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "--hit-stats is for a QUERY");
    }
    if (good == HSPZ_OK && run.masking != 0 && (run.seeds != NULL || run.hit_stats)) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST,
                              "--masking goes by the sequences of QUERY, so not with --seeds, and "
                              "--hit-stats does not know of it");
    }
    if (good == HSPZ_OK && request->columns &&
        (request->encoding != HSPZ_ENCODING_COLUMNAR || run.masking != 0 || run.hit_stats)) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST,
                              "--format columns is what --encoding columnar brings, as it comes; "
                              "--masking and --hit-stats look at each anchor");
    }
    if (good == HSPZ_OK && mask.text != NULL && (run.seeds != NULL || run.hit_stats)) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST,
                              "--mask-filter goes by the k-mers of QUERY, so not with --seeds, and "
                              "--hit-stats does not know of it");
    }
    if (good == HSPZ_OK) {
        good = hspz_target_check(run.query != NULL ? run.query : run.seeds, run.output, &err);
    }
    if (good != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    return hspz_discover_run(&run);
}
