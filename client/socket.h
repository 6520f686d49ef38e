/* Sockets as a client needs them: connect within a time, wait for bytes, stop when told to.
 *
 * Units:  times are milliseconds of hspz_clock_ms, which never goes back.
 * Errors: HSPZ_E_NO_SERVER (nothing listens there; worth another try), HSPZ_E_FORBIDDEN (no
 *         permission), HSPZ_E_IO, HSPZ_E_STOPPED (stop_fd is readable). */
#pragma once

#include "client/hspz.h"

int64_t hspz_clock_ms(void);

/* Waits for `events` (of poll) on fd, or only for time when fd is -1. HSPZ_OK with *got 0 when the
 * time is over. stop_fd 0 is none. */
HSPZ_MUST_USE enum hspz_status hspz_socket_wait(int fd, short events, int stop_fd,
                                                int64_t timeout_ms, short *got);

/* A connected socket that does not block. */
HSPZ_MUST_USE enum hspz_status hspz_socket_connect(const struct hspz_address *address,
                                                   int64_t timeout_ms, int stop_fd, int *out,
                                                   struct hspz_error *err);
