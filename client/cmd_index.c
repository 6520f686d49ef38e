#include "client/cli.h"
#include "client/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* index load, unload, list, describe: calls to the server. */

/* Connects, calls, and says what failed. */
typedef enum hspz_status (*call_fn)(struct hspz_client *client, const char *const *operands,
                                    void *user, struct hspz_error *err);

static int
run_call(struct hspz_cli *cli, call_fn call, const char *const *operands, void *user)
{
    struct hspz_error err = {0};
    struct hspz_client *client = NULL;
    enum hspz_status status = hspz_cli_connect(cli, &client, &err);
    if (status == HSPZ_OK) {
        status = call(client, operands, user, &err);
        if (status != HSPZ_OK) {
            hspz_cli_explain(client, &err);
        }
    }
    hspz_client_close(&client);
    return status == HSPZ_OK ? hspz_cli_finish_stdout() : hspz_cli_fail(cli, &err);
}

static enum hspz_status
load(struct hspz_client *client, const char *const *operands, void *user, struct hspz_error *err)
{
    (void)user;
    return hspz_client_index_load(client, operands[0], operands[1], err);
}

static enum hspz_status
unload(struct hspz_client *client, const char *const *operands, void *user, struct hspz_error *err)
{
    (void)user;
    return hspz_client_index_unload(client, operands[0], err);
}

/* How list and describe print. */
struct shape {
    bool json, sequences;
    bool begun;         /* rows were printed */
    bool out_of_memory; /* and the call was stopped for it */
};

/* `, "key": "text"`; false when there is no memory. */
static bool
print_json_text(struct shape *shape, const char *key, const char *text)
{
    const size_t len = strlen(text);
    char *escaped = malloc(HSPZ_JSON_GROWTH * len + 1);
    if (escaped == NULL) {
        shape->out_of_memory = true;
        return false;
    }
    const size_t escaped_len = hspz_json_escape(escaped, text, len);
    printf("\"%s\": \"", key);
    fwrite(escaped, 1, escaped_len, stdout);
    printf("\", ");
    free(escaped);
    return true;
}

static bool
print_json_row(struct shape *shape, const struct hspz_index_info *info)
{
    printf(shape->begun ? ", {" : "{");
    shape->begun = true;
    return print_json_text(shape, "index", info->name) &&
           print_json_text(shape, "state", info->state) &&
           print_json_text(shape, "file", info->file) &&
           printf("\"bytes\": %" PRIu64 ", \"pinned\": %s}", info->bytes,
                  info->pinned ? "true" : "false") >= 0;
}

static bool
print_row(void *user, const struct hspz_index_info *info)
{
    struct shape *shape = user;
    if (shape->json) {
        return print_json_row(shape, info);
    }
    return printf("%s\t%s\t%" PRIu64 "\t%s\n", info->name, info->state, info->bytes, info->file) >=
           0;
}

static enum hspz_status
finish(const struct shape *shape, enum hspz_status status, struct hspz_error *err)
{
    return shape->out_of_memory ? hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "out of memory")
                                : status;
}

static enum hspz_status
list(struct hspz_client *client, const char *const *operands, void *user, struct hspz_error *err)
{
    (void)operands;
    struct shape *shape = user;
    printf(shape->json ? "[" : "#name\tstate\tbytes\tfile\n");
    const enum hspz_status status = hspz_client_index_list(client, print_row, shape, err);
    if (shape->json && status == HSPZ_OK) {
        printf("]\n");
    }
    return finish(shape, status, err);
}

static bool
print_json_description(struct shape *shape, const struct hspz_index_info *info)
{
    printf("{");
    const bool whole = print_json_text(shape, "index", info->name) &&
                       print_json_text(shape, "state", info->state) &&
                       print_json_text(shape, "file", info->file) &&
                       print_json_text(shape, "digest", info->digest) &&
                       print_json_text(shape, "sequence_digest", info->sequence_digest) &&
                       print_json_text(shape, "shape", info->shape) &&
                       print_json_text(shape, "version", info->version);
    printf("\"span\": %" PRIu64 ", \"step\": %" PRIu64 ", \"unmask\": %s, \"all_positions\": %s, ",
           info->span, info->step, info->unmask ? "true" : "false",
           info->all_positions ? "true" : "false");
    printf("\"sequence_count\": %" PRIu64 ", \"bases\": %" PRIu64 ", \"block_count\": %" PRIu64
           ", \"words\": %" PRIu64 ", \"bytes\": %" PRIu64,
           info->sequences, info->bases, info->blocks, info->words, info->bytes);
    printf(shape->sequences ? ", \"sequences\": [" : "");
    return whole;
}

static bool
print_description(void *user, const struct hspz_index_info *info)
{
    struct shape *shape = user;
    if (shape->json) {
        return print_json_description(shape, info);
    }
    printf("name           %s\n", info->name);
    printf("state          %s\n", info->state);
    printf("file           %s\n", info->file);
    printf("digest         %s\n", info->digest);
    printf("of its bases   %s\n", info->sequence_digest);
    printf("seed           %s (span %" PRIu64 ")\n", info->shape, info->span);
    printf("step           %" PRIu64 "\n", info->step);
    printf("unmask         %s\n", info->unmask ? "yes" : "no");
    printf("all positions  %s\n", info->all_positions ? "yes" : "no");
    printf("sequences      %" PRIu64 "\n", info->sequences);
    printf("bases          %" PRIu64 " in %" PRIu64 " block%s\n", info->bases, info->blocks,
           info->blocks == 1 ? "" : "s");
    printf("words          %" PRIu64 "\n", info->words);
    printf("memory         %" PRIu64 " bytes\n", info->bytes);
    return printf("built by       hspz %s\n", info->version) >= 0;
}

static bool
print_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct shape *shape = user;
    const bool first = !shape->begun;
    shape->begun = true;
    if (shape->json) {
        printf(first ? "{" : ", {");
        return print_json_text(shape, "name", sequence->name) &&
               printf("\"bases\": %" PRIu64 ", \"block\": %" PRIu64 ", \"offset\": %" PRIu64 "}",
                      sequence->len, sequence->block, sequence->offset) >= 0;
    }
    if (first) {
        printf("\n#sequence\tbases\tblock\toffset\n");
    }
    return printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", sequence->name, sequence->len,
                  sequence->block, sequence->offset) >= 0;
}

static enum hspz_status
describe(struct hspz_client *client, const char *const *operands, void *user,
         struct hspz_error *err)
{
    struct shape *shape = user;
    const enum hspz_status status =
        hspz_client_index_describe(client, operands[0], print_description,
                                   shape->sequences ? print_sequence : NULL, shape, err);
    if (shape->json && status == HSPZ_OK) {
        printf(shape->sequences ? "]}\n" : "}\n");
    }
    return finish(shape, status, err);
}

static const struct hspz_option no_options[] = {{.kind = HSPZ_OPTION_END}};

int
hspz_cmd_index_load(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    const char *operands[2];
    int status = 0;
    if (!hspz_cli_parse(cli, command, no_options, argc, argv, operands, 2, 2, &status)) {
        return status;
    }
    return run_call(cli, load, operands, NULL);
}

int
hspz_cmd_index_unload(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                      char **argv)
{
    const char *operands[1];
    int status = 0;
    if (!hspz_cli_parse(cli, command, no_options, argc, argv, operands, 1, 1, &status)) {
        return status;
    }
    return run_call(cli, unload, operands, NULL);
}

int
hspz_cmd_index_list(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    struct shape shape = {0};
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--json", .target = &shape.json},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, NULL, 0, 0, &status)) {
        return status;
    }
    return run_call(cli, list, NULL, &shape);
}

int
hspz_cmd_index_describe(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                        char **argv)
{
    struct shape shape = {0};
    const char *operands[1];
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--sequences", .target = &shape.sequences},
        {.kind = HSPZ_OPTION_FLAG, .name = "--json", .target = &shape.json},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 1, 1, &status)) {
        return status;
    }
    return run_call(cli, describe, operands, &shape);
}
