#include "client/cmd_kmers.h"
#include "client/kmers_run.h"
#include "client/target.h"

#include <string.h>

/* kmers count, query, screen, dump, histogram: options. The work is in kmers_*.c. */

#define BATCH_DEFAULT (UINT64_C(1) << 22)
#define BATCH_MOST (UINT64_C(1) << 27)
#define COUNTER_CAPACITY 65536u

#define JOB_OPTIONS(run, deadline_ms)                                                              \
    {.kind = HSPZ_OPTION_NUMBER,                                                                   \
     .name = "--batch",                                                                            \
     .target = &(run)->batch,                                                                      \
     .least = 1,                                                                                   \
     .most = BATCH_MOST},                                                                          \
        {.kind = HSPZ_OPTION_SECONDS, .name = "--deadline", .target = (deadline_ms)},              \
    {                                                                                              \
        .kind = HSPZ_OPTION_NUMBER, .name = "--priority", .target = &(run)->priority,              \
        .most = HSPZ_PRIORITY_LIMIT                                                                \
    }

static enum hspz_status
check_count(struct hspz_kmers_count *c, bool stranded, bool kind_given, struct hspz_error *err)
{
    struct hspz_filter_request *r = &c->create;
    const bool counter = strcmp(r->kind, "counter") == 0;
    unsigned standard = 0;
    for (size_t i = 0; i < c->file_count; i++) {
        standard += strcmp(c->files[i], "-") == 0;
    }
    if (standard > 1) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "standard input can be read once");
    }
    if (c->add &&
        (stranded || kind_given || r->capacity != 0 || r->rate != 0 || r->seed != 0 || r->shared)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "with --add the filter is what it is: no --stranded, --kind, "
                              "--capacity, --rate, --seed, --shared");
    }
    if (!c->add && r->k == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--k is missing");
    }
    if (counter && r->rate != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a counter is exact: it takes no --rate");
    }
    if (!c->add && !counter && r->capacity == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "--kind %s needs --capacity", r->kind);
    }
    r->capacity = counter && r->capacity == 0 ? COUNTER_CAPACITY : r->capacity;
    r->canonical = !stranded;
    return HSPZ_OK;
}

int
hspz_cmd_kmers_count(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                     char **argv)
{
    static const char *const kinds[] = {"counter", "gqf", "tcf",  "bloom",
                                        "blocked", "sqf", "rsqf", NULL};
    struct hspz_kmers_count c = {.run = {.cli = cli, .output = "-", .batch = BATCH_DEFAULT}};
    struct hspz_filter_request *r = &c.create;
    int kind = -1;
    bool stranded = false;
    int64_t deadline_ms = 0;
    c.run.priority = HSPZ_PRIORITY_DEFAULT;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--k",
         .letter = "-k",
         .target = &r->k,
         .least = 1,
         .most = 32},
        {.kind = HSPZ_OPTION_FLAG, .name = "--stranded", .target = &stranded},
        {.kind = HSPZ_OPTION_CHOICE, .name = "--kind", .target = &kind, .choices = kinds},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--capacity",
         .target = &r->capacity,
         .least = 1,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_FRACTION, .name = "--rate", .target = &r->rate},
        {.kind = HSPZ_OPTION_NUMBER, .name = "--seed", .target = &r->seed, .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_FLAG, .name = "--shared", .target = &r->shared},
        {.kind = HSPZ_OPTION_FLAG, .name = "--add", .target = &c.add},
        {.kind = HSPZ_OPTION_FLAG, .name = "--json", .target = &c.json},
        JOB_OPTIONS(&c.run, &deadline_ms),
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[1 + HSPZ_KMERS_FILES_MOST] = {NULL};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 1 + HSPZ_KMERS_FILES_MOST, 2,
                        &status)) {
        return status;
    }
    c.run.filter = r->name = operands[0];
    c.files = operands + 1;
    while (c.file_count < HSPZ_KMERS_FILES_MOST && c.files[c.file_count] != NULL) {
        c.file_count++;
    }
    c.run.deadline_ms = (uint64_t)deadline_ms;
    r->kind = kinds[kind < 0 ? 0 : kind];
    struct hspz_error err = {0};
    if (check_count(&c, stranded, kind >= 0, &err) != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    return hspz_kmers_count_run(&c);
}

int
hspz_cmd_kmers_ask(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    struct hspz_kmers_ask ask = {
        .run = {.cli = cli, .output = "-", .batch = BATCH_DEFAULT},
        .screen = strcmp(command->name, "kmers screen") == 0,
    };
    int64_t deadline_ms = 0;
    ask.run.priority = HSPZ_PRIORITY_DEFAULT;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &ask.run.output},
        JOB_OPTIONS(&ask.run, &deadline_ms),
        {.kind = ask.screen ? HSPZ_OPTION_NUMBER : HSPZ_OPTION_END,
         .name = "--least",
         .target = &ask.least,
         .least = 1,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[2] = {NULL, NULL};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 2, 2, &status)) {
        return status;
    }
    ask.run.filter = operands[0];
    ask.file = operands[1];
    ask.run.deadline_ms = (uint64_t)deadline_ms;
    struct hspz_error err = {0};
    if (hspz_target_check(ask.file, ask.run.output, &err) != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    return hspz_kmers_ask_run(&ask);
}

int
hspz_cmd_kmers_list(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    static const char *const formats[] = {"tsv", "raw", NULL};
    struct hspz_kmers_list list = {
        .run = {.cli = cli, .output = "-"},
        .histogram = strcmp(command->name, "kmers histogram") == 0,
    };
    int64_t deadline_ms = 0;
    int format = 0;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &list.run.output},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--deadline", .target = &deadline_ms},
        {.kind = list.histogram ? HSPZ_OPTION_END : HSPZ_OPTION_CHOICE,
         .name = "--format",
         .target = &format,
         .choices = formats},
        {.kind = list.histogram ? HSPZ_OPTION_END : HSPZ_OPTION_NUMBER,
         .name = "--least",
         .target = &list.least,
         .least = 1,
         .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[1] = {NULL};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 1, 1, &status)) {
        return status;
    }
    list.run.filter = operands[0];
    list.run.deadline_ms = (uint64_t)deadline_ms;
    list.raw = format == 1;
    return hspz_kmers_list_run(&list);
}
