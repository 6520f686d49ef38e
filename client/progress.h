/* A line of progress on standard error: rewritten in place a few times a second, only on a
 * terminal, gone before anything else is printed. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_progress {
    bool on, shown;
    int64_t begun_ms, last_ms;
};

void hspz_progress_begin(struct hspz_progress *progress, bool quiet);
/* True when it is time for another line: so that none is formatted for nothing. */
bool hspz_progress_due(struct hspz_progress *progress);
void hspz_progress_show(struct hspz_progress *progress, const char *format, ...) HSPZ_PRINTF(2, 3);
/* "what: 12 %", or so many MB where the total is unknown (0). */
void hspz_progress_reading(struct hspz_progress *progress, const char *what, uint64_t done,
                           uint64_t total);
void hspz_progress_clear(struct hspz_progress *progress);
double hspz_progress_seconds(const struct hspz_progress *progress);
