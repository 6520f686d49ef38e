#include "client/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum hspz_status
hspz_target_check(const char *input, const char *output, struct hspz_error *err)
{
    struct stat in, out;
    if (input == NULL || output == NULL || strcmp(output, "-") == 0) {
        return HSPZ_OK;
    }
    const bool known =
        (strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &in) : stat(input, &in)) == 0 &&
        stat(output, &out) == 0;
    if (!known || !S_ISREG(in.st_mode) || in.st_dev != out.st_dev || in.st_ino != out.st_ino) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "-o %.200s: it is the input itself, which would be replaced", output);
}

/* Whether a file can be created in the folder of `path`. */
static enum hspz_status
check_folder(const char *path, struct hspz_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash + 1 - path));
    if (folder == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%.200s: no memory to write it", path);
    }
    const int error = faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
    free(folder);
    return error == 0
               ? HSPZ_OK
               : hspz_error_errno(err, HSPZ_E_IO, error, "%.200s: cannot write beside it", path);
}

enum hspz_status
hspz_target_resolve(const char *output, char **out, struct hspz_error *err)
{
    struct stat st;
    if (stat(output, &st) == 0 && !S_ISREG(st.st_mode)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%.200s exists and is no regular file: not replaced", output);
    }
    char *resolved = realpath(output, NULL);
    if (resolved == NULL) {
        resolved = strdup(output);
    }
    if (resolved == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%.200s: no memory to write it", output);
    }
    const enum hspz_status status = check_folder(resolved, err);
    if (status != HSPZ_OK) {
        free(resolved);
        return status;
    }
    *out = resolved;
    return HSPZ_OK;
}
