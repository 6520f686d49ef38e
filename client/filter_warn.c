#include "client/filter_warn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Chance alone does not come to this. */
#define TIMES_PLANNED 1.5

void
hspz_filter_warn(const struct hspz_filter_state *state)
{
    const bool endless = strcmp(state->kind, "bloom") == 0 || strcmp(state->kind, "blocked") == 0;
    if (endless && state->rate > TIMES_PLANNED * state->expected_rate) {
        fprintf(stderr,
                "warning: filter %s has %" PRIu64
                " keys, more than it was made for: its rate of false positives is %.3g, "
                "planned was %.3g\n",
                state->name, state->entries, state->rate, state->expected_rate);
    }
}
