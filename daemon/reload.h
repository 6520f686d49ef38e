/* A new configuration for a daemon at work.
 *
 * What may change: limits, time-outs, `memory`, `idle_unload_s`, the log, `tenants` (though not
 * whether there are any), the contents of the TLS files, and `indexes` (new ones are loaded, those
 * named no more are unloaded when their jobs have ended). Anything else is named
 * in the log and stays as it was. An index stays until that of another file of its name is
 * ready, for which the memory must do for both, and for good when that cannot be loaded. A
 * configuration with a mistake changes nothing.
 *
 * Threads: the loop thread. */
#pragma once

#include "daemon/config.h"
#include "daemon/service.h"

/* Reads flags and file again, and applies them to `config`, which is the service's. */
void hspz_reload(struct hspz_service *service, struct hspz_config *config);
