/* An hspzd of one's own: started at a private path with one index, stopped after.
 *
 * Owns:    the process and a folder under $TMPDIR or /tmp with its socket and log. The process ends
 *          with ours, however that ends.
 * Errors:  HSPZ_E_NO_SERVER: it could not be started or ended, with what its log says;
 *          HSPZ_E_IO, HSPZ_E_OUT_OF_MEMORY, HSPZ_E_STOPPED. */
#pragma once

#include "client/cli.h"
#include "protocol/status.h"

#include <stdint.h>

struct hspz_private_server;

struct hspz_private_settings {
    const char *index; /* name, and */
    const char *file;
    uint64_t threads; /* 0: hspzd's default */
    int64_t gpus;     /* the first so many; -1: all */
};

/* Returns when it is ready. */
HSPZ_MUST_USE enum hspz_status hspz_private_server_start(const struct hspz_cli *cli,
                                                         const struct hspz_private_settings *how,
                                                         struct hspz_private_server **out,
                                                         struct hspz_error *err);
/* For --server. */
const char *hspz_private_server_address(const struct hspz_private_server *server);
void hspz_private_server_stop(struct hspz_private_server **server);
