#include "client/kegalign_options.h"
#include "client/lastz_files.h"
#include "client/private_server.h"
#include "client/target_index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* kegalign: has TARGET's index ready (the server's, or one built and loaded, or a server of its
 * own), decides which files LASTZ reads, and runs as hsps does. */

struct kegalign {
    struct hspz_kegalign_options options;
    struct hspz_cli cli;
    const struct hspz_command *command;
    bool target_is_file;
    bool target_is_pipe, query_is_pipe; /* can be read only once */
    char *ref, *query, *prefix;         /* for LASTZ */
    struct hspz_target_index index;
    struct hspz_private_server *server;
    struct hspz_client *client;
};

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for names of files");
}

/* folder/name, but the name alone for "." */
static char *
join(const char *folder, const char *name)
{
    char *path = NULL;
    const size_t len = strlen(folder);
    const bool here = strcmp(folder, ".") == 0 || strcmp(folder, "./") == 0;
    if (asprintf(&path, "%s%s%s", here ? "" : folder,
                 here || len == 0 || folder[len - 1] == '/' ? "" : "/", name) < 0) {
        return NULL;
    }
    return path;
}

/* What is wrong about the words that only the files can tell. */
static enum hspz_status
check_usage(const struct kegalign *k, struct hspz_error *err)
{
    const struct hspz_kegalign_options *o = &k->options;
    if (o->private_server && o->run.cli->servers.count > 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "only one of --private and --server");
    }
    if (o->private_server && !k->target_is_file) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "TARGET %.200s is no file: with --private it is one", o->target);
    }
    if (!k->target_is_file && strchr(o->target, '/') != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "TARGET %.200s: there is no such file",
                              o->target);
    }
    if (k->target_is_pipe) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "TARGET %.200s is a pipe: a file is needed, it is read twice",
                              o->target);
    }
    const char *folder = o->run.target.folder;
    if (o->gapped && !o->run.plan_only && folder != NULL &&
        (!hspz_lastz_takes_name(folder) || strpbrk(folder, ",]") != NULL)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%.200s: LASTZ takes , [ ] { and :: in a folder's name for something "
                              "else: use another, or give --nogapped",
                              folder);
    }
    if (o->gapped && !o->run.plan_only && o->data_folder == NULL) {
        if (!k->target_is_file || k->query_is_pipe) {
            return hspz_error_set(
                err, HSPZ_E_BAD_REQUEST,
                "which files shall LASTZ read? Name the folder of ref.2bit and query.2bit as "
                "DATA_FOLDER, or give --nogapped");
        }
        if (o->run.target.archive != NULL &&
            (!hspz_lastz_reads(o->target) || !hspz_lastz_reads(o->run.query))) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "LASTZ reads plain FASTA and 2bit: with --tar name the folder of "
                                  "ref.2bit and query.2bit as DATA_FOLDER");
        }
    }
    return HSPZ_OK;
}

/* One of LASTZ's files: in the data folder, the user's own, or a copy. */
static enum hspz_status
lastz_file(struct kegalign *k, const char *source, const char *prefix, const char *twobit,
           const char *copy, char **out, struct hspz_error *err)
{
    const struct hspz_kegalign_options *o = &k->options;
    const char *folder = o->run.target.folder;
    enum hspz_status status = HSPZ_OK;
    if (o->data_folder != NULL) {
        *out = join(o->data_folder, twobit);
    } else if (folder == NULL || (prefix == NULL && hspz_lastz_reads(source))) {
        *out = strdup(source);
    } else {
        *out = join(folder, copy);
        status = *out != NULL ? hspz_lastz_copy(&k->cli, source, prefix, *out, err) : HSPZ_OK;
    }
    return *out != NULL ? status : no_memory(err);
}

static const char *
given(const char *prefix)
{
    return prefix != NULL && *prefix != '\0' ? prefix : NULL;
}

static enum hspz_status
prepare_lastz(struct kegalign *k, struct hspz_error *err)
{
    struct hspz_kegalign_options *o = &k->options;
    enum hspz_status status =
        lastz_file(k, o->target, given(o->run.target_prefix), "ref.2bit", "ref.fa", &k->ref, err);
    if (status == HSPZ_OK) {
        status = lastz_file(k, o->run.query, given(o->run.query_prefix), "query.2bit", "query.fa",
                            &k->query, err);
    }
    if (status == HSPZ_OK) {
        k->prefix = join(o->run.target.folder != NULL ? o->run.target.folder : ".", "");
        status = k->prefix != NULL ? HSPZ_OK : no_memory(err);
    }
    o->lastz.ref = k->ref;
    o->lastz.query = k->query;
    o->lastz.folder = k->prefix;
    o->run.target.lastz = &o->lastz;
    return status;
}

/* An index of the server is as it is: what was asked for must be that. */
struct wanted {
    const struct hspz_kegalign_options *options;
    struct hspz_error *err;
};

static bool
check_index(void *user, const struct hspz_index_info *info)
{
    const struct wanted *wanted = user;
    const struct hspz_kegalign_options *o = wanted->options;
    if (o->seed != NULL && strcmp(info->shape, o->shape.pattern) != 0) {
        hspz_error_set(wanted->err, HSPZ_E_BAD_REQUEST, "index %s has the seed %s, not %s",
                       info->name, info->shape, o->shape.pattern);
        return false;
    }
    if (o->step != 0 && info->step != o->step) {
        hspz_error_set(wanted->err, HSPZ_E_BAD_REQUEST,
                       "index %s has step %" PRIu64 ", not %" PRIu64, info->name, info->step,
                       o->step);
        return false;
    }
    return true;
}

static enum hspz_status
use_named_index(struct kegalign *k, struct hspz_error *err)
{
    struct hspz_error why = {0};
    struct wanted wanted = {.options = &k->options, .err = &why};
    const enum hspz_status status = hspz_cli_settle(
        &why,
        hspz_client_index_describe(k->client, k->options.target, check_index, NULL, &wanted, err),
        err);
    if (status == HSPZ_E_UNKNOWN_INDEX) {
        const struct hspz_error was = *err;
        hspz_error_set(err, status, "TARGET %.200s is no file, and no index of the server: %.200s",
                       k->options.target, was.text);
    }
    hspz_cli_explain(k->client, err);
    k->options.run.request.index = k->options.target;
    return status;
}

static enum hspz_status
connect_to_server(struct kegalign *k, struct hspz_error *err)
{
    const enum hspz_status status = hspz_cli_connect(&k->cli, &k->client, err);
    if (status == HSPZ_E_NO_SERVER && k->server == NULL) {
        const struct hspz_error was = *err;
        hspz_error_set(err, status,
                       "%.300s\nhspz-client: start one (hspzd --socket PATH &, then --server "
                       "unix:PATH), or give --private to have one for this run alone",
                       was.text);
    }
    return status;
}

/* A damaged index ends a server as it starts: then it gets another. */
static enum hspz_status
start_private(struct kegalign *k, const struct hspz_target_build *build,
              const struct hspz_private_settings *how, struct hspz_error *err)
{
    bool mended = false;
    enum hspz_status status = hspz_private_server_start(&k->cli, how, &k->server, err);
    if (status == HSPZ_E_NO_SERVER) {
        struct hspz_error why = {0};
        const enum hspz_status mending =
            hspz_target_index_mend(&k->cli, build, &k->index, &mended, &why);
        if (mending != HSPZ_OK) {
            *err = why;
            status = mending;
        }
    }
    return mended ? hspz_private_server_start(&k->cli, how, &k->server, err) : status;
}

/* Has the index of a sequence file ready, on a server of its own or another. */
static enum hspz_status
use_file(struct kegalign *k, struct hspz_error *err)
{
    const struct hspz_kegalign_options *o = &k->options;
    const struct hspz_target_build build = {
        .source = o->target,
        .cache = o->cache,
        .shape = o->shape,
        .step = o->step != 0 ? o->step : 1,
        .block_size = o->block_size,
    };
    enum hspz_status status = HSPZ_OK;
    if (!o->private_server) {
        status = connect_to_server(k, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_target_index_name(&k->cli, &build, &k->index, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    k->options.run.request.index = k->index.name;
    if (!o->private_server) {
        return hspz_target_index_load(&k->cli, k->client, &build, &k->index, err);
    }
    const struct hspz_private_settings how = {
        .index = k->index.name,
        .file = k->index.path,
        .threads = o->threads,
        .gpus = o->gpus,
    };
    status = hspz_target_index_build(&k->cli, &build, &k->index, err);
    if (status == HSPZ_OK) {
        status = start_private(k, &build, &how, err);
    }
    if (status == HSPZ_OK) {
        hspz_cli_use_server(&k->cli, hspz_private_server_address(k->server));
        status = connect_to_server(k, err);
    }
    return status;
}

static enum hspz_status
prepare(struct kegalign *k, struct hspz_error *err)
{
    const struct hspz_hsp_target *target = &k->options.run.target;
    enum hspz_status status = HSPZ_OK;
    if (target->folder != NULL && mkdir(target->folder, 0777) != 0 && errno != EEXIST) {
        status =
            hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot make the folder", target->folder);
    }
    if (status == HSPZ_OK && k->target_is_file) {
        status = use_file(k, err);
    } else if (status == HSPZ_OK) {
        status = connect_to_server(k, err);
        status = status == HSPZ_OK ? use_named_index(k, err) : status;
    }
    if (status == HSPZ_OK && k->options.gapped && !k->options.run.plan_only) {
        status = prepare_lastz(k, err);
    }
    return status;
}

int
hspz_cmd_kegalign(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    struct kegalign k = {.command = command};
    struct hspz_kegalign_options *o = &k.options;
    struct hspz_error err = {0};
    struct stat st;
    int status = 0;
    if (!hspz_kegalign_options_parse(o, cli, command, argc, argv, &status)) {
        return status;
    }
    k.cli = *cli;
    o->run.cli = &k.cli;
    if (o->run.target.folder == NULL && o->run.target.archive == NULL) {
        o->run.target.folder = ".";
    }
    k.target_is_file = stat(o->target, &st) == 0 && !S_ISDIR(st.st_mode);
    k.target_is_pipe = k.target_is_file && !S_ISREG(st.st_mode);
    k.query_is_pipe =
        strcmp(o->run.query, "-") == 0 || (stat(o->run.query, &st) == 0 && !S_ISREG(st.st_mode));
    if (check_usage(&k, &err) != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    status = prepare(&k, &err) == HSPZ_OK ? hspz_hsps_run(&o->run, k.client)
                                          : hspz_cli_fail(&k.cli, &err);
    if (o->unload && k.index.loaded && k.client != NULL &&
        hspz_client_index_unload(k.client, k.index.name, &err) != HSPZ_OK) {
        fprintf(stderr, "hspz-client: warning: the index is not unloaded: %s\n", err.text);
    }
    hspz_client_close(&k.client);
    hspz_private_server_stop(&k.server);
    hspz_target_index_fini(&k.index);
    free(k.ref);
    free(k.query);
    free(k.prefix);
    return status;
}
