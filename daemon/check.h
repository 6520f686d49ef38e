/* What a configuration asks for, looked at before anything is bound or opened for good.
 *
 * Threads: one at a time. */
#pragma once

#include "daemon/config.h"
#include "protocol/status.h"

#include <stdbool.h>

/* Folders that are configured are folders. HSPZ_E_IO names them. */
HSPZ_MUST_USE enum hspz_status hspz_check_folders(const struct hspz_config *config,
                                                  struct hspz_error *err);
/* For --check-config: everything a start would refuse, and what the indexes need; to standard
 * output, what is wrong to standard error. Addresses in use are not wrong: they may be those of the
 * daemon that is to be replaced. */
bool hspz_check_config(const struct hspz_config *config);
