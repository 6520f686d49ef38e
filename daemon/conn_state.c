#include "daemon/conn_state.h"

#include "protocol/status.h"

#define TO(state) (1u << (state))

static const struct {
    const char *name;
    unsigned next;
    bool reads, serves;
} states[HSPZ_CONN_STATE_COUNT] = {
    [HSPZ_CONN_GREET] = {"greet", TO(HSPZ_CONN_OPEN) | TO(HSPZ_CONN_LAST) | TO(HSPZ_CONN_CLOSING),
                         true, true},
    [HSPZ_CONN_OPEN] = {"open", TO(HSPZ_CONN_LAST) | TO(HSPZ_CONN_CLOSING), true, true},
    [HSPZ_CONN_LAST] = {"last", TO(HSPZ_CONN_CLOSING), true, false},
    [HSPZ_CONN_CLOSING] = {"closing", TO(HSPZ_CONN_CLOSED), false, false},
    [HSPZ_CONN_CLOSED] = {"closed", 0, false, false},
};

const char *
hspz_conn_state_name(enum hspz_conn_state state)
{
    return states[state].name;
}

bool
hspz_conn_move_allowed(enum hspz_conn_state from, enum hspz_conn_state to)
{
    return (states[from].next & TO(to)) != 0;
}

void
hspz_conn_move(enum hspz_conn_state *state, enum hspz_conn_state to)
{
    HSPZ_REQUIRE(hspz_conn_move_allowed(*state, to));
    *state = to;
}

bool
hspz_conn_state_reads(enum hspz_conn_state state)
{
    return states[state].reads;
}

bool
hspz_conn_state_serves(enum hspz_conn_state state)
{
    return states[state].serves;
}
