/* The daemon: owns the loop and everything on it, from start to drain to end.
 *
 *   start   bind addresses, open the engine, accept; load the configured indexes off the loop
 *   ready   when all of them are loaded; one that cannot be loaded ends the daemon
 *   drain   SIGTERM, SIGINT, an operator's `drain`, or nobody there: no more connections or jobs;
 *           those under way finish
 *   failed  a device is lost: its jobs have ended, those on others have LOST_MS to finish; the
 *           result is then HSPZ_E_DEVICE_ERROR, within 5 s, whatever still hangs
 *   reload  SIGHUP while ready: the configuration is read again (daemon/reload.h)
 *   stop    everything drained, a second signal, or the drain's time over: jobs left are cancelled,
 *           connections closed; the loop then ends by itself
 *
 * Threads: one at a time, the loop thread. */
#pragma once

#include "daemon/config.h"
#include "daemon/log.h"
#include "protocol/status.h"

/* Runs to the end. What fails has been logged. After HSPZ_E_DEVICE_ERROR threads may still be at
 * work: the process is to end without ado. */
HSPZ_MUST_USE enum hspz_status hspz_daemon_run(struct hspz_config *config, struct hspz_log *log,
                                               bool *abandoned);
