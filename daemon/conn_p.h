/* Between conn.c and conn_io.c. */
#pragma once

#include "daemon/conn.h"

/* Makes reading match what the connection can take. */
void hspz_conn_gate(struct hspz_conn *conn);
/* conn_send.c: `send` is told its end later, or (negative result) never. */
int hspz_conn_send(struct hspz_conn *conn, struct hspz_send *send);
/* What can be sent now of what waits for TLS. May close the connection. */
void hspz_conn_flush(struct hspz_conn *conn);
/* Shuts the write side once everything is sent. May close the connection. */
void hspz_conn_finish(struct hspz_conn *conn);
/* The handle is closed: tells what waited that it never will be sent. */
void hspz_conn_drop_sends(struct hspz_conn *conn);

/* Ends everything that a connection serves: partial input, jobs, loads it waits for. */
void hspz_conn_stop_serving(struct hspz_conn *conn);
