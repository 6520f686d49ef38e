#include "client/align_pieces.h"
#include "client/children.h"

#include "engine/shown_path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCORES_MOST 1048576u

static enum hspz_status
ask(const struct hspz_align_lastz *lastz, int stop_fd, int to, struct hspz_error *err)
{
    const char *const words[] = {lastz->program, "--version", NULL};
    struct hspz_children *children = NULL;
    struct hspz_child_end end;
    bool ended = false;
    enum hspz_status status = hspz_children_create(1, stop_fd, &children, err);
    if (status == HSPZ_OK) {
        status = hspz_children_start(children, words, ".", to, 0, err);
    }
    while (status == HSPZ_OK && !ended) {
        status = hspz_children_wait(children, -1, &ended, &end, err);
    }
    hspz_children_destroy(&children);
    return status;
}

enum hspz_status
hspz_align_lastz_find(struct hspz_align_lastz *lastz, int stop_fd, struct hspz_error *err)
{
    static const char name[] = "lastz (version ";
    struct hspz_error why = {0};
    const int fd = memfd_create("lastz-version", MFD_CLOEXEC);
    if (fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "no room for lastz's version");
    }
    enum hspz_status status = ask(lastz, stop_fd, fd, &why);
    const ssize_t len =
        status == HSPZ_OK ? pread(fd, lastz->build, sizeof(lastz->build) - 1, 0) : 0;
    close(fd);
    if (status == HSPZ_E_STOPPED || status == HSPZ_E_OUT_OF_MEMORY) {
        return hspz_error_set(err, status, "%s", why.text);
    }
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status,
                              "%.300s; LASTZ is needed (Debian: apt-get install lastz), or name it "
                              "with --lastz PATH",
                              why.text);
    }
    /* LASTZ itself exits with 1 here: what it prints decides. */
    lastz->build[len > 0 ? len : 0] = '\0';
    if (strncmp(lastz->build, name, strlen(name)) != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%.200s is no LASTZ: it does not say so with --version",
                              lastz->program);
    }
    const char *version = lastz->build + strlen(name);
    snprintf(lastz->version, sizeof(lastz->version), "%.*s", (int)strcspn(version, " )\n"),
             version);
    return HSPZ_OK;
}

enum hspz_status
hspz_align_scores_copy(const char *path, struct hspz_align_folder *folder,
                       struct hspz_align_lastz *lastz, struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(path != NULL ? path : "");
    if (path == NULL) {
        return HSPZ_OK;
    }
    char *bytes = malloc(SCORES_MOST);
    FILE *file = fopen(path, "rbe");
    enum hspz_status status = HSPZ_OK;
    if (bytes == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory", shown.text);
    } else if (file == NULL) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot open it", shown.text);
    } else {
        errno = 0;
        const size_t len = fread(bytes, 1, SCORES_MOST, file);
        if (ferror(file) || len == SCORES_MOST) {
            status = hspz_error_errno(err, HSPZ_E_IO, ferror(file) ? errno : EFBIG,
                                      "%s: cannot read it", shown.text);
        } else {
            snprintf(lastz->scores, sizeof(lastz->scores), "hspz-scores-%016" PRIx64,
                     (uint64_t)XXH3_64bits(bytes, len));
            status = hspz_align_file_put(folder, lastz->scores, bytes, len, err);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    free(bytes);
    return status;
}
