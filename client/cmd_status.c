#include "client/call.h"
#include "client/cli.h"
#include "client/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* stats and health: what the server answers, as text for people or as JSON; and drain. */

#define DRAIN_WAIT_MS 1000u

/* "key: value" lines; what is inside a map or an array stands under it, indented. */
static enum hspz_status
print_node(const struct hspz_node *node, int indent)
{
    const enum hspz_node_type type = hspz_node_type(node);
    const size_t count = hspz_node_count(node);
    for (size_t i = 0; i < count; i++) {
        const bool map = type == HSPZ_NODE_MAP;
        const struct hspz_node *value = map ? hspz_node_value_at(node, i) : hspz_node_at(node, i);
        struct hspz_span key = {.bytes = (const uint8_t *)"-", .len = 1};
        if (map) {
            (void)hspz_node_str(hspz_node_key_at(node, i), &key);
        }
        printf("%*s%.*s%s", indent, "", (int)key.len, (const char *)key.bytes, map ? ":" : "");
        if (hspz_node_count(value) > 0) {
            printf("\n");
            const enum hspz_status status = print_node(value, indent + 2);
            if (status != HSPZ_OK) {
                return status;
            }
            continue;
        }
        struct hspz_span text;
        char *json = NULL;
        if (hspz_node_str(value, &text)) {
            printf(" %.*s\n", (int)text.len, (const char *)text.bytes);
            continue;
        }
        const enum hspz_status status = hspz_json_of_node(value, &json);
        if (status != HSPZ_OK) {
            return status;
        }
        printf(" %s\n", json);
        free(json);
    }
    return HSPZ_OK;
}

static enum hspz_status
print_answer(const struct hspz_node *result, bool json, struct hspz_error *err)
{
    char *text = NULL;
    const enum hspz_status status = json ? hspz_json_of_node(result, &text) : print_node(result, 0);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "no memory for an answer");
    }
    if (json) {
        puts(text);
    }
    free(text);
    return HSPZ_OK;
}

/* Asks, prints; *ready is whether the answer's state, if it has one, is "ready". */
static enum hspz_status
ask_and_print(struct hspz_cli *cli, enum hspz_method method, bool json, bool *ready,
              struct hspz_error *err)
{
    struct hspz_client *client = NULL;
    struct hspz_reply reply = {0};
    enum hspz_status status = hspz_cli_connect(cli, &client, err);
    if (status == HSPZ_OK) {
        status = hspz_client_ask(client, method, &reply, err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_node *state = hspz_node_get(reply.result, "state");
        *ready = state == NULL || hspz_node_str_is(state, "ready");
        status = print_answer(reply.result, json, err);
    }
    hspz_reply_fini(&reply);
    hspz_client_close(&client);
    return status;
}

static int
run(struct hspz_cli *cli, const struct hspz_command *command, enum hspz_method method, int argc,
    char **argv)
{
    bool json = false;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--json", .target = &json},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, NULL, 0, 0, &status)) {
        return status;
    }
    struct hspz_error err = {0};
    bool ready = false;
    if (ask_and_print(cli, method, json, &ready, &err) != HSPZ_OK) {
        return hspz_cli_fail(cli, &err);
    }
    status = hspz_cli_finish_stdout();
    return method == HSPZ_METHOD_HEALTH && !ready ? HSPZ_EXIT_FAILED : status;
}

int
hspz_cmd_stats(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    return run(cli, command, HSPZ_METHOD_STATS, argc, argv);
}

int
hspz_cmd_health(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    return run(cli, command, HSPZ_METHOD_HEALTH, argc, argv);
}

/* Its end tells us by the answer to the last question, by another state or by closing: whichever
 * comes first. */
static enum hspz_status
ended_before(enum hspz_status status, struct hspz_error *err)
{
    return status == HSPZ_E_SHUTTING_DOWN || status == HSPZ_E_INCOMPLETE
               ? hspz_error_set(err, status, "the server ended before it was drained")
               : status;
}

/* Says how far it is, and follows it until it is done. */
static enum hspz_status
drain(struct hspz_cli *cli, bool once, struct hspz_error *err)
{
    struct hspz_client *client = NULL;
    struct hspz_drain last = {0}, now = {0};
    enum hspz_status status = hspz_cli_connect(cli, &client, err);
    for (bool first = true; status == HSPZ_OK; first = false) {
        status = hspz_client_drain(client, once ? 0 : DRAIN_WAIT_MS, &now, err);
        if (status != HSPZ_OK) {
            status = first ? status : ended_before(status, err);
            break;
        }
        const bool done = strcmp(now.state, "draining") != 0;
        if (done && strcmp(now.state, "drained") != 0) {
            status = hspz_error_set(err, HSPZ_E_SHUTTING_DOWN, "the server is %s", now.state);
            status = first ? status : ended_before(status, err);
        } else if (done) {
            printf("%s\n", now.state);
        } else if (first || now.jobs != last.jobs || now.connections != last.connections) {
            printf("%s: %" PRIu64 " jobs, %" PRIu64 " loads, %" PRIu64 " connections\n", now.state,
                   now.jobs, now.loading, now.connections);
            (void)fflush(stdout);
        }
        if (done || once) {
            break;
        }
        last = now;
    }
    hspz_client_close(&client);
    return status;
}

int
hspz_cmd_drain(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    bool once = false;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_FLAG, .name = "--no-wait", .target = &once},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, NULL, 0, 0, &status)) {
        return status;
    }
    struct hspz_error err = {0};
    return drain(cli, once, &err) == HSPZ_OK ? hspz_cli_finish_stdout() : hspz_cli_fail(cli, &err);
}
