/* What `stats` says, as Prometheus text.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/service.h"

#include <stddef.h>

/* The whole page, from malloc; HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_metrics_render(struct hspz_service *service, char **text,
                                                   size_t *len);
