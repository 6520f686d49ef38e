/* The states of a connection and the moves between them.
 *
 *   greet    accepted, `hello` awaited; reads and writes
 *   open     serves requests; reads and writes
 *   last     an answer that ends the connection is on its way; what is read is thrown away
 *   closing  its handles are being closed, its jobs ended; nothing is read or written
 *   closed   nothing is left; about to be freed */
#pragma once

#include <stdbool.h>

enum hspz_conn_state {
    HSPZ_CONN_GREET,
    HSPZ_CONN_OPEN,
    HSPZ_CONN_LAST,
    HSPZ_CONN_CLOSING,
    HSPZ_CONN_CLOSED,
    HSPZ_CONN_STATE_COUNT,
};

const char *hspz_conn_state_name(enum hspz_conn_state state);
bool hspz_conn_move_allowed(enum hspz_conn_state from, enum hspz_conn_state to);
/* The only writer of a connection's state; a move that is not allowed is a broken promise. */
void hspz_conn_move(enum hspz_conn_state *state, enum hspz_conn_state to);

bool hspz_conn_state_reads(enum hspz_conn_state state);  /* bytes are taken from the socket */
bool hspz_conn_state_serves(enum hspz_conn_state state); /* requests are answered */
