#include "daemon/notify.h"

int
hspz_notify_inherited(int *first)
{
    *first = 3;
    return 0;
}

void
hspz_notify_ready(const char *status)
{
    (void)status;
}

void
hspz_notify_status(const char *status)
{
    (void)status;
}

void
hspz_notify_extend(const char *status, uint64_t usec)
{
    (void)status;
    (void)usec;
}

void
hspz_notify_stopping(const char *status)
{
    (void)status;
}

uint64_t
hspz_notify_watchdog_usec(void)
{
    return 0;
}

void
hspz_notify_alive(void)
{
}
