#include "client/cli.h"

#include <inttypes.h>

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

static bool
print_row(void *user, const struct hspz_index_info *info)
{
    (void)user;
    return printf("%s\t%s\t%" PRIu64 "\t%s\n", info->name, info->state, info->bytes, info->file) >=
           0;
}

static enum hspz_status
list(struct hspz_client *client, const char *const *operands, void *user, struct hspz_error *err)
{
    (void)operands;
    printf("#name\tstate\tbytes\tfile\n");
    return hspz_client_index_list(client, print_row, user, err);
}

static bool
print_description(void *user, const struct hspz_index_info *info)
{
    (void)user;
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
    bool *begun = user;
    if (!*begun) {
        printf("\n#sequence\tbases\tblock\toffset\n");
        *begun = true;
    }
    return printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", sequence->name, sequence->len,
                  sequence->block, sequence->offset) >= 0;
}

static enum hspz_status
describe(struct hspz_client *client, const char *const *operands, void *user,
         struct hspz_error *err)
{
    const bool *sequences = user;
    bool begun = false;
    return hspz_client_index_describe(client, operands[0], print_description,
                                      *sequences ? print_sequence : NULL, &begun, err);
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
    int status = 0;
    if (!hspz_cli_parse(cli, command, no_options, argc, argv, NULL, 0, 0, &status)) {
        return status;
    }
    return run_call(cli, list, NULL, NULL);
}

int
hspz_cmd_index_describe(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                        char **argv)
{
    bool sequences = false;
    const char *operands[1];
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--sequences", .target = &sequences},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, 1, 1, &status)) {
        return status;
    }
    return run_call(cli, describe, operands, &sequences);
}
