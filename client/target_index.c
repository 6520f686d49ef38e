#include "client/target_index.h"

#include "client/reading.h"
#include "engine/index.h"
#include "engine/sequence_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define READ_BYTES (1u << 20)

/* Digest of a file's bytes. */
static enum hspz_status
digest_file(const struct hspz_cli *cli, const char *path, XXH64_state_t *state,
            struct hspz_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *buffer = malloc(READ_BYTES);
    enum hspz_status status = HSPZ_OK;
    if (fd < 0) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read", path);
    } else if (buffer == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to read it", path);
    }
    while (status == HSPZ_OK) {
        const ssize_t n = read(fd, buffer, READ_BYTES);
        if (n < 0) {
            status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read", path);
        } else if (n == 0) {
            break;
        } else {
            (void)XXH64_update(state, buffer, (size_t)n);
        }
        if (hspz_cli_stopped(cli)) {
            status = hspz_error_set(err, HSPZ_E_STOPPED, "stopped");
        }
    }
    free(buffer);
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

/* The cache's folder, made if it is not there, from malloc. */
static enum hspz_status
find_cache(const char *given, char **out, struct hspz_error *err)
{
    char *folder = NULL;
    const char *cache = hspz_cli_environment("XDG_CACHE_HOME");
    const char *home = hspz_cli_environment("HOME");
    int made = -1;
    if (given != NULL) {
        made = asprintf(&folder, "%s", given);
    } else if (cache != NULL) {
        (void)mkdir(cache, 0700);
        made = asprintf(&folder, "%s/hspz", cache);
    } else if (home != NULL) {
        made = asprintf(&folder, "%s/.cache", home);
        if (made >= 0) {
            (void)mkdir(folder, 0700);
            free(folder);
            made = asprintf(&folder, "%s/.cache/hspz", home);
        }
    } else {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "no place for the index: neither HOME nor XDG_CACHE_HOME is set; "
                              "name one with --cache");
    }
    if (made < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the index's name");
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        const enum hspz_status status =
            hspz_error_errno(err, HSPZ_E_IO, errno,
                             given != NULL ? "%s: cannot make the folder"
                                           : "%s: cannot make the folder (--cache DIR names "
                                             "another)",
                             folder);
        free(folder);
        return status;
    }
    char *whole = realpath(folder, NULL);
    const int error = errno;
    enum hspz_status status = HSPZ_OK;
    if (whole == NULL) {
        status = hspz_error_errno(err, HSPZ_E_IO, error, "%s: cannot be used", folder);
    }
    free(folder);
    *out = whole;
    return status;
}

enum hspz_status
hspz_target_index_name(const struct hspz_cli *cli, const struct hspz_target_build *build,
                       struct hspz_target_index *out, struct hspz_error *err)
{
    char how[256], *cache = NULL;
    struct hspz_target_index index = {0};
    enum hspz_status status = find_cache(build->cache, &cache, err);
    XXH64_state_t *state = status == HSPZ_OK ? XXH64_createState() : NULL;
    if (status == HSPZ_OK && state == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the index's name");
    }
    if (status == HSPZ_OK) {
        const int len = snprintf(how, sizeof(how), "%s %s %" PRIu64 " %" PRIu64 "\n", HSPZ_VERSION,
                                 build->shape.pattern, build->step, build->block_size);
        (void)XXH64_reset(state, 0);
        (void)XXH64_update(state, how, (size_t)len);
        status = digest_file(cli, build->source, state, err);
    }
    if (status == HSPZ_OK) {
        const uint64_t digest = XXH64_digest(state);
        if (asprintf(&index.name, "kegalign-%016" PRIx64, digest) < 0) {
            index.name = NULL;
        }
        if (index.name == NULL || asprintf(&index.path, "%s/%s.hspz", cache, index.name) < 0) {
            index.path = NULL;
            status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the index's name");
        }
    }
    XXH64_freeState(state);
    free(cache);
    if (status != HSPZ_OK) {
        hspz_target_index_fini(&index);
        return status;
    }
    *out = index;
    return HSPZ_OK;
}

enum hspz_status
hspz_target_index_build(const struct hspz_cli *cli, const struct hspz_target_build *build,
                        const struct hspz_target_index *index, struct hspz_error *err)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *built = NULL;
    struct hspz_reading shown = {.cli = cli, .doing = "reading"};
    const struct hspz_index_params params = {.shape = build->shape, .step = (uint32_t)build->step};
    if (access(index->path, R_OK) == 0) {
        struct hspz_error why = {0};
        if (hspz_index_file_check(index->path, NULL, &why) != HSPZ_E_BAD_FILE) {
            return HSPZ_OK;
        }
        fprintf(stderr, "hspz-client: %s: built anew\n", why.text);
    }
    hspz_progress_begin(&shown.progress, cli->quiet);
    enum hspz_status status = hspz_sequence_file_read(build->source, build->block_size,
                                                      hspz_reading_show, &shown, &seqs, err);
    if (status == HSPZ_OK) {
        status = hspz_sequences_check_unique(seqs, build->source, err);
    }
    if (status == HSPZ_OK) {
        shown.doing = "building the index";
        status = hspz_index_build(&seqs, &params, 0, 0, hspz_reading_show, &shown, &built, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_index_write(built, index->path, err);
    }
    hspz_progress_clear(&shown.progress);
    if (status == HSPZ_OK && !cli->quiet) {
        fprintf(stderr, "hspz-client: the index of %s is kept as %s\n", build->source, index->path);
    }
    hspz_index_release(&built);
    hspz_sequences_destroy(&seqs);
    return status;
}

enum hspz_status
hspz_target_index_mend(const struct hspz_cli *cli, const struct hspz_target_build *build,
                       const struct hspz_target_index *index, bool *mended, struct hspz_error *err)
{
    struct hspz_index *whole = NULL;
    struct hspz_error why = {0};
    struct hspz_reading shown = {.cli = cli, .doing = "checking the index"};
    *mended = false;
    hspz_progress_begin(&shown.progress, cli->quiet);
    enum hspz_status status =
        hspz_index_read(index->path, NULL, 0, hspz_reading_show, &shown, &whole, &why);
    hspz_progress_clear(&shown.progress);
    hspz_index_release(&whole);
    if (status != HSPZ_E_BAD_FILE) {
        return HSPZ_OK;
    }
    fprintf(stderr, "hspz-client: %s: built anew\n", why.text);
    status = unlink(index->path) == 0
                 ? hspz_target_index_build(cli, build, index, err)
                 : hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot be removed", index->path);
    *mended = status == HSPZ_OK;
    return status;
}

static bool
is_there(struct hspz_client *client, const char *name)
{
    return hspz_client_index_describe(client, name, NULL, NULL, NULL, NULL) == HSPZ_OK;
}

enum hspz_status
hspz_target_index_load(const struct hspz_cli *cli, struct hspz_client *client,
                       const struct hspz_target_build *build, struct hspz_target_index *index,
                       struct hspz_error *err)
{
    bool mended = false;
    if (is_there(client, index->name)) {
        return HSPZ_OK;
    }
    enum hspz_status status = hspz_target_index_build(cli, build, index, err);
    if (status != HSPZ_OK || is_there(client, index->name)) {
        return status;
    }
    status = hspz_client_index_load(client, index->name, index->path, err);
    if (status == HSPZ_E_BAD_FILE) {
        const enum hspz_status mending = hspz_target_index_mend(cli, build, index, &mended, err);
        status = mending != HSPZ_OK ? mending
                 : mended           ? hspz_client_index_load(client, index->name, index->path, err)
                                    : status;
    }
    index->loaded = status == HSPZ_OK;
    if (status == HSPZ_E_FORBIDDEN && err != NULL) {
        const struct hspz_error why = *err;
        hspz_error_set(err, status,
                       "the server does not load %s for you (%.200s); put it into its index "
                       "folder (--cache), or use --private",
                       index->path, why.text);
    } else if (status == HSPZ_OK && !cli->quiet) {
        fprintf(stderr, "hspz-client: the server keeps the index as %s (index unload drops it)\n",
                index->name);
    }
    return status;
}

void
hspz_target_index_fini(struct hspz_target_index *index)
{
    free(index->name);
    free(index->path);
    *index = (struct hspz_target_index){0};
}
