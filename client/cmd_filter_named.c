#include "client/cmd_filter.h"
#include "client/filter_warn.h"
#include "client/json.h"

#include <inttypes.h>
#include <string.h>

/* filter create, merge, save, load, drop, list, stats: calls that move no keys. */

/* ---- printing ---- */

static void
print_number(const char *name, uint64_t value)
{
    if (value != 0) {
        printf("%-15s%" PRIu64 "\n", name, value);
    }
}

static void
print_text(const struct hspz_filter_state *f)
{
    printf("filter         %s\n", f->name);
    printf("kind           %s\n", f->kind);
    printf("shared         %s\n", f->shared ? "yes" : "no");
    print_number("capacity", f->capacity);
    print_number("slots", f->slots);
    print_number("slot bits", f->slot_bits);
    print_number("block slots", f->block_slots);
    print_number("hashes", f->hashes);
    print_number("value bits", f->value_bits);
    printf("seed           %" PRIu64 "\n", f->seed);
    if (f->k != 0) {
        printf("k              %" PRIu64 "%s\n", f->k, f->canonical ? ", canonical" : "");
    }
    if (f->parts > 1) {
        print_number("parts", f->parts);
    }
    print_number("full from", f->full_slots);
    printf("memory         %" PRIu64 " bytes\n", f->bytes);
    printf("planned rate   %.4g\n", f->expected_rate);
    printf("entries        %" PRIu64 "\n", f->entries);
    printf("total          %" PRIu64 "\n", f->total);
    printf("used           %" PRIu64 " (load %.4f)\n", f->used, f->load);
    printf("rate now       %.4g\n", f->rate);
}

static void
print_json(const struct hspz_filter_state *f, bool whole)
{
    char name[HSPZ_JSON_GROWTH * HSPZ_FILTER_NAME_BYTES];
    char kind[HSPZ_JSON_GROWTH * sizeof(f->kind)];
    const size_t name_len = hspz_json_escape(name, f->name, strlen(f->name));
    const size_t kind_len = hspz_json_escape(kind, f->kind, strlen(f->kind));
    printf("{\"filter\": \"%.*s\", \"kind\": \"%.*s\", \"shared\": %s, \"bytes\": %" PRIu64,
           (int)name_len, name, (int)kind_len, kind, f->shared ? "true" : "false", f->bytes);
    if (whole) {
        printf(", \"capacity\": %" PRIu64 ", \"slots\": %" PRIu64 ", \"slot_bits\": %" PRIu64
               ", \"block_slots\": %" PRIu64 ", \"hashes\": %" PRIu64 ", \"value_bits\": %" PRIu64
               ", \"seed\": %" PRIu64 ", \"k\": %" PRIu64 ", \"canonical\": %s, \"parts\": %" PRIu64
               ", \"full_slots\": %" PRIu64,
               f->capacity, f->slots, f->slot_bits, f->block_slots, f->hashes, f->value_bits,
               f->seed, f->k, f->canonical ? "true" : "false", f->parts, f->full_slots);
        printf(", \"expected_rate\": %.15g, \"entries\": %" PRIu64 ", \"total\": %" PRIu64
               ", \"used\": %" PRIu64 ", \"load\": %.15g, \"rate\": %.15g",
               f->expected_rate, f->entries, f->total, f->used, f->load, f->rate);
    }
    printf("}");
}

/* ---- calls that move no keys ---- */

struct plain {
    const char *name, *from;
    bool shared, saved, json, first;
    struct hspz_filter_request create;
};

typedef enum hspz_status (*plain_fn)(struct hspz_client *client, struct plain *plain,
                                     struct hspz_error *err);

static int
run_plain(struct hspz_cli *cli, plain_fn call, struct plain *plain)
{
    struct hspz_error err = {0};
    struct hspz_client *client = NULL;
    enum hspz_status status = hspz_cli_connect(cli, &client, &err);
    if (status == HSPZ_OK) {
        status = call(client, plain, &err);
    }
    hspz_client_close(&client);
    return status == HSPZ_OK ? hspz_cli_finish_stdout() : hspz_cli_fail(cli, &err);
}

static void
show(const struct plain *plain, const struct hspz_filter_state *state)
{
    if (plain->json) {
        print_json(state, true);
        printf("\n");
    } else {
        print_text(state);
    }
}

static enum hspz_status
call_create(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    struct hspz_filter_state state;
    const enum hspz_status status = hspz_client_filter_create(client, &plain->create, &state, err);
    if (status == HSPZ_OK) {
        show(plain, &state);
    }
    return status;
}

static enum hspz_status
call_stats(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    struct hspz_filter_state state;
    const enum hspz_status status = hspz_client_filter_stats(client, plain->name, &state, err);
    if (status == HSPZ_OK) {
        show(plain, &state);
        hspz_filter_warn(&state);
    }
    return status;
}

static enum hspz_status
call_merge(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    struct hspz_filter_state state;
    const enum hspz_status status =
        hspz_client_filter_merge(client, plain->name, plain->from, &state, err);
    if (status == HSPZ_OK && state.full) {
        return hspz_error_set(
            err, HSPZ_E_TOO_LARGE,
            "filter %s is full: what %s has does not fit, and nothing was changed", plain->name,
            plain->from);
    }
    return status;
}

static enum hspz_status
call_save(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    return hspz_client_filter_save(client, plain->name, NULL, err);
}

static enum hspz_status
call_load(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    return hspz_client_filter_load(client, plain->name, plain->shared, NULL, err);
}

static enum hspz_status
call_drop(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    return hspz_client_filter_drop(client, plain->name, plain->saved, NULL, err);
}

static bool
print_row(void *user, const struct hspz_filter_state *f)
{
    struct plain *plain = user;
    if (plain->json) {
        printf("%s", plain->first ? "" : ", ");
        print_json(f, false);
        plain->first = false;
        return ferror(stdout) == 0;
    }
    return printf("%s\t%s\t%s\t%" PRIu64 "\n", f->name, f->kind, f->shared ? "yes" : "no",
                  f->bytes) >= 0;
}

static enum hspz_status
call_list(struct hspz_client *client, struct plain *plain, struct hspz_error *err)
{
    plain->first = true;
    printf(plain->json ? "[" : "#filter\tkind\tshared\tbytes\n");
    const enum hspz_status status = hspz_client_filter_list(client, print_row, plain, err);
    if (status == HSPZ_OK && plain->json) {
        printf("]\n");
    }
    return status;
}

int
hspz_cmd_filter_create(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                       char **argv)
{
    static const char *const kinds[] = {"tcf", "gqf",  "bloom",   "blocked",
                                        "sqf", "rsqf", "counter", NULL};
    struct plain plain = {.name = NULL};
    struct hspz_filter_request *r = &plain.create;
    int kind = -1;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_CHOICE, .name = "--kind", .target = &kind, .choices = kinds},
#define NUMBER(text, member, highest)                                                              \
    {.kind = HSPZ_OPTION_NUMBER, .name = text, .target = &r->member, .least = 1, .most = highest}
        NUMBER("--capacity", capacity, UINT64_MAX),
        NUMBER("--slots", slots, UINT64_MAX),
        NUMBER("--slot-bits", slot_bits, 64),
        NUMBER("--block-slots", block_slots, 64),
        NUMBER("--hashes", hashes, 16),
        NUMBER("--value-bits", value_bits, 48),
        NUMBER("--k", k, 32),
        NUMBER("--parts", parts, 16),
#undef NUMBER
        {.kind = HSPZ_OPTION_NUMBER, .name = "--seed", .target = &r->seed, .most = UINT64_MAX},
        {.kind = HSPZ_OPTION_FRACTION, .name = "--rate", .target = &r->rate},
        {.kind = HSPZ_OPTION_FLAG, .name = "--canonical", .target = &r->canonical},
        {.kind = HSPZ_OPTION_FLAG, .name = "--shared", .target = &r->shared},
        {.kind = HSPZ_OPTION_FLAG, .name = "--json", .target = &plain.json},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, &r->name, 1, 1, &status)) {
        return status;
    }
    struct hspz_error err = {0};
    enum hspz_status good = HSPZ_OK;
    if (kind < 0) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST,
                              "--kind is missing: tcf, gqf, bloom, blocked, sqf, rsqf or counter");
    } else if ((r->capacity == 0) == (r->slots == 0)) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "it takes one of --capacity and --slots");
    }
    if (good == HSPZ_OK && r->slots != 0 && strcmp(kinds[kind], "counter") == 0) {
        good = hspz_error_set(&err, HSPZ_E_BAD_REQUEST,
                              "--slots is not for a counter, which grows: --capacity N is what it "
                              "begins with");
    }
    if (good != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    r->kind = kinds[kind];
    return run_plain(cli, call_create, &plain);
}

int
hspz_cmd_filter_named(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                      char **argv)
{
    static const struct {
        const char *name;
        plain_fn call;
        size_t operands;
        const char *flag; /* that it takes */
    } calls[] = {
        {"filter merge", call_merge, 2, NULL},     {"filter save", call_save, 1, NULL},
        {"filter load", call_load, 1, "--shared"}, {"filter drop", call_drop, 1, "--saved"},
        {"filter list", call_list, 0, "--json"},   {"filter stats", call_stats, 1, "--json"},
    };
    size_t c = 0;
    while (strcmp(calls[c].name, command->name) != 0) {
        c++;
    }
    struct plain plain = {.name = NULL};
    bool flag = false;
    const struct hspz_option own[] = {
        {.kind = calls[c].flag != NULL ? HSPZ_OPTION_FLAG : HSPZ_OPTION_END,
         .name = calls[c].flag,
         .target = &flag},
        {.kind = HSPZ_OPTION_END},
    };
    const char *operands[2] = {NULL, NULL};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, operands, calls[c].operands,
                        calls[c].operands, &status)) {
        return status;
    }
    plain.name = operands[0];
    plain.from = operands[1];
    plain.shared = plain.saved = plain.json = flag;
    return run_plain(cli, calls[c].call, &plain);
}
