#include "daemon/notify.h"

#include <inttypes.h>
#include <systemd/sd-daemon.h>

/* A notice that does not get through changes nothing here: the results are not looked at. */

int
hspz_notify_inherited(int *first)
{
    *first = SD_LISTEN_FDS_START;
    return sd_listen_fds(1);
}

void
hspz_notify_ready(const char *status)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void
hspz_notify_status(const char *status)
{
    (void)sd_notifyf(0, "STATUS=%s", status);
}

void
hspz_notify_extend(const char *status, uint64_t usec)
{
    (void)sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRIu64 "\nSTATUS=%s", usec, status);
}

void
hspz_notify_stopping(const char *status)
{
    (void)sd_notifyf(0, "STOPPING=1\nSTATUS=%s", status);
}

uint64_t
hspz_notify_watchdog_usec(void)
{
    uint64_t usec = 0;
    return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}

void
hspz_notify_alive(void)
{
    (void)sd_notify(0, "WATCHDOG=1");
}
