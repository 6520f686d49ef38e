#include "client/progress.h"

#include "client/socket.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define EVERY_MS 200

void
hspz_progress_begin(struct hspz_progress *progress, bool quiet)
{
    *progress = (struct hspz_progress){
        .on = !quiet && isatty(STDERR_FILENO),
        .begun_ms = hspz_clock_ms(),
    };
}

bool
hspz_progress_due(struct hspz_progress *progress)
{
    const int64_t now = progress->on ? hspz_clock_ms() : 0;
    if (!progress->on || now - progress->last_ms < EVERY_MS) {
        return false;
    }
    progress->last_ms = now;
    return true;
}

void
hspz_progress_show(struct hspz_progress *progress, const char *format, ...)
{
    char line[160];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 &&
        strlen(line) >= size.ws_col) {
        line[size.ws_col - 1] = '\0'; /* a line that wraps cannot be rewritten */
    }
    fprintf(stderr, "\r%s\x1b[K", line);
    fflush(stderr);
    progress->shown = true;
}

void
hspz_progress_reading(struct hspz_progress *progress, const char *what, uint64_t done,
                      uint64_t total)
{
    if (total > 0) {
        hspz_progress_show(progress, "%s: %d %%", what,
                           (int)(100.0 * (double)done / (double)total));
    } else {
        hspz_progress_show(progress, "%s: %.1f MB", what, (double)done / 1e6);
    }
}

void
hspz_progress_clear(struct hspz_progress *progress)
{
    if (progress->shown) {
        fputs("\r\x1b[K", stderr);
        fflush(stderr);
        progress->shown = false;
    }
}

double
hspz_progress_seconds(const struct hspz_progress *progress)
{
    return (double)(hspz_clock_ms() - progress->begun_ms) / 1000.0;
}
