#include "client/hsp_files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Each '#' of the pattern is a number. */
static bool
matches(const char *name, const char *pattern)
{
    static const char digits[] = "0123456789";
    for (; *pattern != '\0'; pattern++) {
        const size_t len = *pattern == '#' ? strspn(name, digits) : *name == *pattern;
        if (len == 0) {
            return false;
        }
        name += len;
    }
    return *name == '\0';
}

static bool
is_ours(const char *name)
{
    static const char *const patterns[] = {
        "tmp#.block#.r#.plus.segments",
        "tmp#.block#.r#.minus.segments",
        "tmp#.block#.r#.plus.split#.segments",
        "tmp#.block#.r#.minus.split#.segments",
        "ref_block#.name",
        "query_block#.name",
    };
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (matches(name, patterns[i])) {
            return true;
        }
    }
    return false;
}

enum hspz_status
hspz_hsp_files_remove_old(const char *folder, size_t *count, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    DIR *dir = opendir(folder);
    *count = 0;
    errno = dir != NULL ? 0 : errno;
    for (const struct dirent *entry;
         dir != NULL && status == HSPZ_OK && (entry = readdir(dir)) != NULL; errno = 0) {
        if (!is_ours(entry->d_name)) {
            continue;
        }
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0) {
            ++*count;
        } else if (errno != ENOENT) {
            status = hspz_error_errno(err, HSPZ_E_IO, errno,
                                      "%s/%s: cannot remove this file of an earlier run", folder,
                                      entry->d_name);
        }
    }
    if (status == HSPZ_OK && errno != 0) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot list it", folder);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return status;
}
