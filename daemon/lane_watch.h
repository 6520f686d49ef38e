/* Whether the engine's lanes still work, also while nobody has work for them: every few seconds
 * each idle one has its device do a little (the engine's lane_check). A device that fails at that,
 * or is not back long after, is lost.
 *
 * Owns:    nothing of the service; its tasks are void once the workers are stopped.
 * Threads: the loop thread only. */
#pragma once

#include "daemon/service.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_lane_watch;

/* For the service's workers; *out stays NULL when the engine has nothing to check. */
HSPZ_MUST_USE enum hspz_status hspz_lane_watch_create(struct hspz_service *service,
                                                      struct hspz_lane_watch **out);
/* When the workers are stopped, and what they posted has fired. */
void hspz_lane_watch_destroy(struct hspz_lane_watch **watch);

/* Once a second, at uv_hrtime `now`. `watch` may be NULL, also below. */
void hspz_lane_watch_tick(struct hspz_lane_watch *watch, uint64_t now);
/* False while a check takes longer than that. */
bool hspz_lane_watch_answers(const struct hspz_lane_watch *watch, uint64_t now, uint64_t limit_ns);
