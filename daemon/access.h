/* Who a connection's peer is, and what it may ask for.
 *
 * A peer is identified once, by its `hello`; at a reload what it was recognised by is looked up
 * again, and a connection whose peer would not be let in as the same tenant any more is answered
 * `unauthorized` from then on, while jobs under way go on.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/conn.h"
#include "protocol/message.h"
#include "protocol/status.h"

#include <stdbool.h>

/* Whether a role may call a method at all, for its own things. */
bool hspz_role_may(enum hspz_role role, enum hspz_method method);

/* Without tenants, a UNIX peer that is neither root nor our own user is refused at once. */
HSPZ_MUST_USE enum hspz_status hspz_access_accept(struct hspz_conn *conn, struct hspz_error *err);
/* Sets the connection's tenant; HSPZ_E_UNAUTHORIZED. */
HSPZ_MUST_USE enum hspz_status hspz_access_hello(struct hspz_conn *conn, struct hspz_text token,
                                                 struct hspz_error *err);
/* Once identified: HSPZ_E_FORBIDDEN for a role that may not, HSPZ_E_UNAUTHORIZED after a reload. */
HSPZ_MUST_USE enum hspz_status hspz_access_check(const struct hspz_conn *conn,
                                                 enum hspz_method method, struct hspz_error *err);
enum hspz_role hspz_access_role(const struct hspz_conn *conn);
/* Looks every peer up again. */
void hspz_access_reload(struct hspz_service *service);
