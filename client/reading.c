#include "client/reading.h"

bool
hspz_reading_show(void *user, uint64_t done, uint64_t total)
{
    struct hspz_reading *reading = user;
    if (hspz_progress_due(&reading->progress)) {
        hspz_progress_reading(&reading->progress, reading->doing, done, total);
    }
    return !hspz_cli_stopped(reading->cli);
}
