/* The configuration file: what is refused is said with a line that the text has, and what is taken
 * is whole: every tenant has a name of its own and something to be recognised by. */
#include "daemon/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_taken(const struct hspz_config *config)
{
    HSPZ_REQUIRE(config->has_tenants == (config->tenant_count > 0));
    for (size_t i = 0; i < config->tenant_count; i++) {
        const struct hspz_tenant_settings *t = &config->tenants[i];
        HSPZ_REQUIRE(t->name != NULL && *t->name != '\0' && t->credential_count > 0);
        HSPZ_REQUIRE(t->weight >= 1 && t->weight <= HSPZ_TENANT_WEIGHT_LIMIT);
        for (size_t k = 0; k < i; k++) {
            HSPZ_REQUIRE(strcmp(config->tenants[k].name, t->name) != 0);
        }
    }
    HSPZ_REQUIRE(hspz_config_socket_mode(config) <= 0777);
}

/* "FILE: line N: ..." */
static void
check_refused(const struct hspz_error *err, const char *path, const uint8_t *data, size_t size)
{
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    const size_t len = strlen(path);
    HSPZ_REQUIRE(err->text[0] != '\0');
    if (err->status == HSPZ_E_BAD_FILE) {
        HSPZ_REQUIRE(strncmp(err->text, path, len) == 0 &&
                     strncmp(err->text + len, ": line ", 7) == 0);
        const unsigned long line = strtoul(err->text + len + 7, NULL, 10);
        HSPZ_REQUIRE(line >= 1 && line <= lines);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    const int fd = memfd_create("config", MFD_CLOEXEC);
    HSPZ_REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    char *argv[] = {(char[]){"hspzd"}, (char[]){"--config"}, path, NULL};
    struct hspz_config config;
    struct hspz_error err = {0};
    hspz_config_init(&config);
    if (hspz_config_load(&config, 3, argv, &err) == HSPZ_OK) {
        check_taken(&config);
    } else {
        check_refused(&err, path, data, size);
    }
    hspz_config_fini(&config);
    close(fd);
    return 0;
}
