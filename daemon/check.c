#include "daemon/check.h"

#include "daemon/engine_choice.h"
#include "daemon/socket.h"
#include "daemon/tls_choice.h"
#include "engine/index.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum hspz_status
check_folder(const char *option, const char *path, struct hspz_error *err)
{
    struct stat st;
    if (path == NULL) {
        return HSPZ_OK;
    }
    if (stat(path, &st) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: %s", option, path);
    }
    return S_ISDIR(st.st_mode)
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_IO, "%s: %s is no folder", option, path);
}

enum hspz_status
hspz_check_folders(const struct hspz_config *config, struct hspz_error *err)
{
    enum hspz_status status = check_folder("index_dir", config->index_dir, err);
    if (status == HSPZ_OK) {
        status = check_folder("data_dir", config->data_dir, err);
    }
    return status == HSPZ_OK ? check_folder("filter_dir", config->filter_dir, err) : status;
}

static bool
report(enum hspz_status status, const struct hspz_error *err)
{
    if (status != HSPZ_OK) {
        fprintf(stderr, "hspzd: %s\n", err->text);
    }
    return status == HSPZ_OK;
}

/* The folder that a file is to be made in. */
static enum hspz_status
check_folder_of(const char *option, const char *path, struct hspz_error *err)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    char folder[PATH_MAX];
    if (slash == NULL || slash == path) {
        return HSPZ_OK; /* of the current folder, or of the root */
    }
    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    return check_folder(option, folder, err);
}

static bool
check_addresses(const struct hspz_config *config)
{
    struct hspz_error err = {0};
    bool good = true;
    if (*config->socket_path != '\0') {
        const bool make = config->socket_is_default && geteuid() == 0;
        good = report(
            hspz_socket_check_unix(config->socket_path, make, config->socket_is_default, &err),
            &err);
    } else if (config->listen_count == 0) {
        fprintf(stderr, "hspzd: there is nothing to listen on (socket and listen are empty)\n");
        good = false;
    }
    for (size_t i = 0; i < config->listen_count; i++) {
        const bool network = hspz_config_serves_network(config);
        good = report(hspz_socket_check_tcp(config->listen[i], network, &err), &err) && good;
    }
    if (config->metrics != NULL && *config->metrics != '\0') {
        good = report(hspz_socket_check_tcp(config->metrics, config->insecure != 0, &err), &err) &&
               good;
    }
    const unsigned mode = hspz_config_socket_mode(config);
    if (*config->socket_path != '\0' && !config->has_tenants && (mode & 077) != 0) {
        fprintf(stderr,
                "hspzd: warning: socket_mode %04o: without tenants only user %u and root are let "
                "in\n",
                mode, (unsigned)geteuid());
    }
    if (config->socket_group != NULL && *config->socket_group != '\0') {
        good = report(hspz_socket_check_group(config->socket_group, &err), &err) && good;
    }
    good = report(check_folder_of("address_file", config->address_file, &err), &err) && good;
    struct hspz_tls_context *tls = NULL;
    good = report(hspz_tls_configure(config, NULL, &tls, &err), &err) && good;
    hspz_tls_context_destroy(&tls);
    return good;
}

/* An engine that has to be there is opened for a moment. */
static bool
check_engine(const struct hspz_config *config)
{
    if (config->engine == HSPZ_ENGINE_AUTO ||
        (config->engine == HSPZ_ENGINE_CPU && config->group_count == 0)) {
        return true;
    }
    const struct hspz_engine_ops *ops = NULL;
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    bool good = report(hspz_engine_choose(config, NULL, &ops, &engine, &err), &err);
    if (good) {
        good = report(hspz_config_groups_check(config, ops->device_count(engine), &err), &err);
    }
    if (engine != NULL) {
        ops->close(&engine);
    }
    return good;
}

/* What each index needs, and all of them, against the budget. */
static bool
check_indexes(const struct hspz_config *config)
{
    uint64_t sum = 0;
    bool good = true;
    for (size_t i = 0; i < config->index_count; i++) {
        const struct hspz_config_index *index = &config->indexes[i];
        struct hspz_index_need need;
        struct hspz_error err;
        if (hspz_index_file_need(index->path, &need, &err) != HSPZ_OK) {
            fprintf(stderr, "hspzd: index %s: %s\n", index->name, err.text);
            good = false;
            continue;
        }
        sum += need.total_bytes;
        printf("index %s: %" PRIu64 " bytes (table %" PRIu64 ", positions %" PRIu64
               ", sequence %" PRIu64 ", work %" PRIu64 ")\n",
               index->name, need.total_bytes, need.table_bytes, need.position_bytes,
               need.sequence_bytes, need.work_bytes);
    }
    if (config->memory > 0) {
        printf("indexes: %" PRIu64 " of %" PRIu64 " bytes\n", sum, config->memory);
    } else {
        printf("indexes: %" PRIu64 " bytes, no budget\n", sum);
    }
    if (config->memory > 0 && sum > config->memory) {
        fprintf(stderr,
                "hspzd: the indexes need %" PRIu64 " bytes, the budget (memory) is %" PRIu64 "\n",
                sum, config->memory);
        good = false;
    }
    return good;
}

bool
hspz_check_config(const struct hspz_config *config)
{
    struct hspz_error err = {0};
    const bool folders = report(hspz_check_folders(config, &err), &err);
    const bool addresses = check_addresses(config);
    const bool engine = check_engine(config);
    const bool indexes = check_indexes(config);
    return folders && addresses && engine && indexes;
}
