/* The service manager: readiness, progress, watchdog, inherited sockets. Without one, or in a build
 * without libsystemd, every call does nothing.
 *
 * Threads: the loop thread only. */
#pragma once

#include <stdint.h>

/* Number of sockets handed over, from *first on; the environment no longer names them. Negative: an
 * errno value. */
int hspz_notify_inherited(int *first);

void hspz_notify_ready(const char *status);
void hspz_notify_status(const char *status);
/* Work goes on: the manager's start or stop limit is at least so far away. */
void hspz_notify_extend(const char *status, uint64_t usec);
void hspz_notify_stopping(const char *status);
/* 0: no watchdog is asked for; else the time within which hspz_notify_alive is due. */
uint64_t hspz_notify_watchdog_usec(void);
void hspz_notify_alive(void);
