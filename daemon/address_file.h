/* The file of addresses: where the daemon listens, as clients take it (`unix:PATH`,
 * `tcp:HOST:PORT`, `tls:HOST:PORT`), one a line. It appears whole under its name, and goes with the
 * daemon, unless another has taken its place.
 *
 * Threads: the loop thread.
 * Errors:  HSPZ_E_IO, HSPZ_E_OUT_OF_MEMORY, naming the file. */
#pragma once

#include "daemon/listener.h"
#include "protocol/status.h"

#include <sys/stat.h>

struct hspz_address_file {
    const char *path; /* borrowed; NULL: none was written */
    dev_t dev;
    ino_t ino;
};

HSPZ_MUST_USE enum hspz_status hspz_address_file_write(struct hspz_address_file *file,
                                                       const char *path,
                                                       const struct hspz_listeners *listeners,
                                                       bool tls, struct hspz_error *err);
void hspz_address_file_remove(struct hspz_address_file *file);
