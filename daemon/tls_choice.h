/* The configured TLS context.
 *
 * Threads: the loop thread, or before there is a loop. Errors: those of daemon/tls.h. */
#pragma once

#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/tls.h"
#include "protocol/status.h"

/* *out becomes NULL where TCP is plain. `log` may be NULL: says until when the certificate is
 * valid, and warns of one that is not. */
HSPZ_MUST_USE enum hspz_status hspz_tls_configure(const struct hspz_config *config,
                                                  struct hspz_log *log,
                                                  struct hspz_tls_context **out,
                                                  struct hspz_error *err);
