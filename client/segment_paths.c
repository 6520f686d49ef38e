#include "client/segment_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void
hspz_segment_paths_fini(struct hspz_segment_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->paths[i]);
    }
    free(paths->paths);
    *paths = (struct hspz_segment_paths){0};
}

/* Takes `path`, which may be NULL for want of memory. */
static enum hspz_status
take(struct hspz_segment_paths *paths, char *path)
{
    if (path != NULL && paths->count == paths->capacity) {
        const size_t want = 2 * paths->capacity + 8;
        char **grown = realloc(paths->paths, want * sizeof(*grown));
        if (grown != NULL) {
            paths->paths = grown;
            paths->capacity = want;
        }
    }
    if (path == NULL || paths->count == paths->capacity) {
        free(path);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    paths->paths[paths->count++] = path;
    return HSPZ_OK;
}

static bool
ends_in(const char *name, const char *end)
{
    const size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static int
compare_paths(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    const int order = strverscmp(*x, *y);
    return order != 0 ? order : strcmp(*x, *y);
}

/* What a run writes into its folder in any case: without segments it found no HSPs. */
static const char first_block[] = "query_block0.name";

static enum hspz_status
add_folder(struct hspz_segment_paths *paths, DIR *dir, const char *path, struct hspz_error *err)
{
    const size_t before = paths->count;
    bool of_run = false;
    enum hspz_status status = HSPZ_OK;
    errno = 0;
    for (struct dirent *entry; status == HSPZ_OK && (entry = readdir(dir)) != NULL;) {
        if (ends_in(entry->d_name, ".segments") || ends_in(entry->d_name, ".segments.gz")) {
            char *whole = NULL;
            status =
                take(paths, asprintf(&whole, "%s/%s", path, entry->d_name) >= 0 ? whole : NULL);
        }
        of_run = of_run || strcmp(entry->d_name, first_block) == 0;
        errno = 0;
    }
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "%.200s: no memory for its names", path);
    }
    if (errno != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot list it", path);
    }
    if (paths->count == before && !of_run) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%.200s: this folder has no .segments or .segments.gz file", path);
    }
    if (paths->count > before) {
        qsort(paths->paths + before, paths->count - before, sizeof(*paths->paths), compare_paths);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_segment_paths_add(struct hspz_segment_paths *paths, const char *path, struct hspz_error *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return take(paths, strdup(path)) == HSPZ_OK
                   ? HSPZ_OK
                   : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%.200s: no memory", path);
    }
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot list it", path);
    }
    const enum hspz_status status = add_folder(paths, dir, path, err);
    closedir(dir);
    return status;
}

enum hspz_status
hspz_segment_paths_read(const struct hspz_segment_paths *paths, struct hspz_segment_list *list,
                        hspz_progress_fn progress, void *user, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; status == HSPZ_OK && i < paths->count; i++) {
        status = hspz_segment_file_read(list, paths->paths[i], (uint32_t)i, progress, user, err);
    }
    return status;
}
