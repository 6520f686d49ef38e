#include "client/seed_file.h"

#include "engine/shown_path.h"
#include "protocol/types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 65536u

static enum hspz_status
read_all(FILE *file, const char *path, uint8_t **bytes, size_t *len, struct hspz_error *err)
{
    size_t capacity = FIRST_BYTES;
    *bytes = malloc(capacity);
    *len = 0;
    while (*bytes != NULL) {
        const size_t n = fread(*bytes + *len, 1, capacity - *len, file);
        *len += n;
        if (ferror(file)) {
            return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read it", path);
        }
        if (feof(file)) {
            return HSPZ_OK;
        }
        if (*len == capacity) {
            capacity *= 2;
            uint8_t *grown = realloc(*bytes, capacity);
            if (grown == NULL) {
                break;
            }
            *bytes = grown;
        }
    }
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory for its seeds", path);
}

enum hspz_status
hspz_seed_file_read(const char *path, uint8_t **bytes, size_t *len, struct hspz_error *err)
{
    const bool standard = strcmp(path, "-") == 0;
    const struct hspz_shown_path shown = hspz_shown_path_make(path);
    FILE *file = standard ? stdin : fopen(path, "rbe");
    if (file == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot open it", shown.text);
    }
    uint8_t *seeds = NULL;
    size_t seeds_len = 0;
    enum hspz_status status = read_all(file, shown.text, &seeds, &seeds_len, err);
    if (status == HSPZ_OK && seeds_len == 0) {
        status = hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: holds no seed: it is empty", shown.text);
    } else if (status == HSPZ_OK && seeds_len % HSPZ_SEED_BYTES != 0) {
        status = hspz_error_set(err, HSPZ_E_BAD_FILE,
                                "%s: %zu bytes are not whole seeds of 8 bytes each", shown.text,
                                seeds_len);
    }
    if (!standard) {
        fclose(file);
    }
    if (status == HSPZ_OK) {
        *bytes = seeds;
        *len = seeds_len;
        seeds = NULL;
    }
    free(seeds);
    return status;
}
