/* The work folder of an alignment: what LASTZ reads, and the pieces it has finished. A file has a
 * digest of what it was made from in its name and appears under it only when whole, so whatever is
 * there is good, also after a crash.
 *
 * Holds a lock while open: two runs never share a folder.
 * Errors: HSPZ_E_IO naming the file; HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_ALIGN_NAME_BYTES 64u

struct hspz_align_folder {
    char *path;
    int fd, lock;
};

/* Creates the folder if need be, and removes what an earlier run left unfinished. */
HSPZ_MUST_USE enum hspz_status
hspz_align_folder_open(const char *path, struct hspz_align_folder *out, struct hspz_error *err);
/* Gives the lock back; the files stay. */
void hspz_align_folder_close(struct hspz_align_folder *folder);
/* Removes the files that begin as ours do, and the folder if nothing else is in it. */
void hspz_align_folder_remove(struct hspz_align_folder *folder);

bool hspz_align_folder_has(const struct hspz_align_folder *folder, const char *name);
/* The path of a file, for messages; at most `room` bytes. */
const char *hspz_align_folder_path(const struct hspz_align_folder *folder, const char *name,
                                   char *to, size_t room);

/* A file that is being made: written to fd, then put under `name` once it has reached the disk, or
 * dropped. */
struct hspz_align_file {
    int fd; /* -1: none */
    char name[HSPZ_ALIGN_NAME_BYTES], part[HSPZ_ALIGN_NAME_BYTES + 16];
};

HSPZ_MUST_USE enum hspz_status hspz_align_file_create(struct hspz_align_folder *folder,
                                                      const char *name, struct hspz_align_file *out,
                                                      struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_align_file_finish(struct hspz_align_folder *folder,
                                                      struct hspz_align_file *file,
                                                      struct hspz_error *err);
void hspz_align_file_drop(struct hspz_align_folder *folder, struct hspz_align_file *file);

/* A small file, all at once; nothing is done when it is there. */
HSPZ_MUST_USE enum hspz_status hspz_align_file_put(struct hspz_align_folder *folder,
                                                   const char *name, const void *bytes, size_t len,
                                                   struct hspz_error *err);
