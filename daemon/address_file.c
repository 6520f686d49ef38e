#include "daemon/address_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
write_lines(FILE *out, const struct hspz_listeners *listeners, bool tls)
{
    bool good = true;
    for (size_t i = 0; i < hspz_listeners_count(listeners); i++) {
        const char *address = hspz_listeners_address(listeners, i);
        const bool secret = tls && strncmp(address, "tcp:", 4) == 0;
        good = fprintf(out, "%s%s\n", secret ? "tls:" : "", secret ? address + 4 : address) > 0 &&
               good;
    }
    return fflush(out) == 0 && good;
}

enum hspz_status
hspz_address_file_write(struct hspz_address_file *file, const char *path,
                        const struct hspz_listeners *listeners, bool tls, struct hspz_error *err)
{
    char *fresh = NULL;
    FILE *out = NULL;
    struct stat st;
    enum hspz_status status = HSPZ_OK;
    if (asprintf(&fresh, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory", path);
    }
    out = fopen(fresh, "wxe");
    if (out == NULL) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot write the addresses", fresh);
        goto out;
    }
    if (!write_lines(out, listeners, tls) || fstat(fileno(out), &st) != 0 ||
        rename(fresh, path) != 0) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot write the addresses", path);
        (void)unlink(fresh);
        goto out;
    }
    *file = (struct hspz_address_file){.path = path, .dev = st.st_dev, .ino = st.st_ino};
out:
    if (out != NULL) {
        (void)fclose(out);
    }
    free(fresh);
    return status;
}

void
hspz_address_file_remove(struct hspz_address_file *file)
{
    struct stat st;
    if (file->path != NULL && lstat(file->path, &st) == 0 && st.st_dev == file->dev &&
        st.st_ino == file->ino) {
        (void)unlink(file->path);
    }
    *file = (struct hspz_address_file){0};
}
