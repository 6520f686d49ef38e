/* Writing a file so that its name never holds a part of it.
 *
 * It grows under `<path>.tmp-<pid>-<random>`, is synced, renamed to its name, and the directory is
 * synced. Until the rename, `path` is untouched; on every failure the temporary is removed. A
 * process killed half-way leaves a temporary, which nothing ever opens again.
 *
 * Errors:  HSPZ_E_BAD_REQUEST (`path` is something else than a regular file), HSPZ_E_IO,
 *          HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "protocol/status.h"

#include <stdint.h>

/* Writes it all to fd; 0, or the errno of the failure. */
typedef int (*hspz_file_write_fn)(void *user, int fd);

/* `kind` ("index file") and `bytes` are for messages. */
HSPZ_MUST_USE enum hspz_status hspz_file_write(const char *path, const char *kind, uint64_t bytes,
                                               hspz_file_write_fn fn, void *user,
                                               struct hspz_error *err);

/* 0, or the errno of the failure. */
int hspz_write_all(int fd, const void *data, uint64_t bytes);
