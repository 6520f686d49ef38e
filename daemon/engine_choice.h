/* Which engine the configuration gets, and opening it.
 *
 * Threads: one at a time.
 * Errors:  HSPZ_E_UNSUPPORTED (built without it, no device, no such device) and those of the
 *          engine's open. */
#pragma once

#include "daemon/config.h"
#include "daemon/log.h"
#include "engine/engine.h"
#include "protocol/status.h"

/* `log` is told why `auto` took the cpu engine, and of each device; NULL: nobody is. */
HSPZ_MUST_USE enum hspz_status hspz_engine_choose(const struct hspz_config *config,
                                                  struct hspz_log *log,
                                                  const struct hspz_engine_ops **ops,
                                                  struct hspz_engine **engine,
                                                  struct hspz_error *err);
/* Lanes of each device, with the engine's own number for 0. */
unsigned hspz_engine_lanes(const struct hspz_config *config, const struct hspz_engine_ops *ops);
