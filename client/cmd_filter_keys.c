#include "client/cmd_filter.h"
#include "client/filter_run.h"
#include "client/target.h"

#include <string.h>

/* filter insert, query, count, delete, decrement, enumerate: options. The work is in filter_run.c.
 */

#define BATCH_DEFAULT (UINT64_C(1) << 20)
#define BATCH_MOST (UINT64_C(1) << 27)

static const char *const formats[] = {"tsv", "raw", "none", NULL};

/* What the commands differ in. */
static const struct variant {
    const char *name;
    enum hspz_keys_operation operation;
    bool if_absent, values, counts; /* options that it has */
    enum hspz_key_format format;    /* where none is asked for */
} variants[] = {
    {"filter insert", HSPZ_KEYS_INSERT, true, true, true, HSPZ_KEY_FORMAT_NONE},
    {"filter query", HSPZ_KEYS_QUERY, false, true, false, HSPZ_KEY_FORMAT_TSV},
    {"filter count", HSPZ_KEYS_COUNT, false, false, false, HSPZ_KEY_FORMAT_TSV},
    {"filter delete", HSPZ_KEYS_DELETE, false, false, false, HSPZ_KEY_FORMAT_NONE},
    {"filter decrement", HSPZ_KEYS_DECREMENT, false, false, true, HSPZ_KEY_FORMAT_NONE},
};

static const struct variant *
find_variant(const char *name)
{
    const struct variant *variant = variants;
    while (strcmp(variant->name, name) != 0) {
        variant++;
    }
    return variant;
}

/* An option that only some have. Others never come to it: the first of a name counts. */
static struct hspz_option
flag(bool has, const char *name, bool *target)
{
    return (struct hspz_option){
        .kind = HSPZ_OPTION_FLAG, .name = has ? name : "--raw", .target = target};
}

static enum hspz_status
check(const struct hspz_key_run *run, bool if_absent, struct hspz_error *err)
{
    if (run->json && run->format != HSPZ_KEY_FORMAT_NONE) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "it takes --json or --format, not both");
    }
    if (if_absent && run->counts) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "it takes --if-absent or --counts, not both");
    }
    if (run->format == HSPZ_KEY_FORMAT_NONE && strcmp(run->output, "-") != 0) {
        return hspz_error_set(
            err, HSPZ_E_BAD_REQUEST,
            "-o %.200s: nothing is written of each key without --format tsv or raw", run->output);
    }
    return hspz_target_check(run->input, run->output, err);
}

int
hspz_cmd_filter_keys(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                     char **argv)
{
    const struct variant *variant = find_variant(command->name);
    struct hspz_key_run run = {
        .cli = cli, .output = "-", .batch = BATCH_DEFAULT, .priority = HSPZ_PRIORITY_DEFAULT};
    bool if_absent = false;
    int format = -1;
    int64_t deadline_ms = 0;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--raw", .target = &run.raw},
        {.kind = HSPZ_OPTION_FLAG, .name = "--hex", .target = &run.hex},
        {.kind = HSPZ_OPTION_FLAG, .name = "--json", .target = &run.json},
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &run.output},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--format", .target = &format, .choices = formats},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--batch",
         .target = &run.batch,
         .least = 1,
         .most = BATCH_MOST},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--deadline", .target = &deadline_ms},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--priority",
         .target = &run.priority,
         .most = HSPZ_PRIORITY_LIMIT},
        flag(variant->if_absent, "--if-absent", &if_absent),
        flag(variant->values, "--values", &run.values),
        flag(variant->counts, "--counts", &run.counts),
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[2] = {NULL, "-"};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 2, 1, &status)) {
        return status;
    }
    run.filter = operands[0];
    run.input = operands[1];
    run.operation = if_absent ? HSPZ_KEYS_INSERT_IF_ABSENT : variant->operation;
    run.deadline_ms = (uint64_t)deadline_ms;
    run.format = format >= 0 ? (enum hspz_key_format)format
                 : run.json  ? HSPZ_KEY_FORMAT_NONE
                             : variant->format;
    struct hspz_error err = {0};
    if (check(&run, if_absent, &err) != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    return hspz_key_run_do(&run);
}

int
hspz_cmd_filter_enumerate(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                          char **argv)
{
    static const char *const written[] = {"tsv", "raw", NULL};
    struct hspz_key_run run = {.cli = cli, .output = "-"};
    int format = 0;
    int64_t deadline_ms = 0;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--hex", .target = &run.hex},
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &run.output},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--format", .target = &format, .choices = written},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--deadline", .target = &deadline_ms},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, &run.filter, 1, 1, &status)) {
        return status;
    }
    run.format = (enum hspz_key_format)format;
    run.deadline_ms = (uint64_t)deadline_ms;
    return hspz_filter_enumerate_run(&run);
}
