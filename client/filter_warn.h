/* A filter that was given more than it was made for. */
#pragma once

#include "client/hspz.h"

/* One line on standard error where a bloom or blocked filter, which nothing fills, finds what is
 * not there far more often than planned. */
void hspz_filter_warn(const struct hspz_filter_state *state);
