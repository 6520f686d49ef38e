/* Servers that DNS names for a service: SRV records (RFC 2782), asked for through the C library.
 *
 * Order:   by priority, then weight from high to low, host and port. A server's rank is its
 *          priority's place among those there are.
 * Errors:  HSPZ_E_NO_SERVER: no such records, no answer, or the service is said not to be there;
 *          HSPZ_E_BAD_REQUEST: an answer that is none, or a name that cannot be one;
 *          those of server_list.h. */
#pragma once

#include "client/server_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name to ask for: NAME of srv:NAME or tls-srv:NAME (*tls), with _hspz._tcp. before it where it
 * names no service. HSPZ_E_UNSUPPORTED, *name untouched: the text is no such name. */
#define HSPZ_SRV_NAME_BYTES 280
HSPZ_MUST_USE enum hspz_status hspz_srv_name(const char *text, char name[HSPZ_SRV_NAME_BYTES],
                                             bool *tls, struct hspz_error *err);
/* Adds those that DNS names now. Blocks for some seconds where DNS does not answer. */
HSPZ_MUST_USE enum hspz_status
hspz_srv_look_up(const char *name, bool tls, struct hspz_server_list *list, struct hspz_error *err);
/* Adds those of an answer. */
HSPZ_MUST_USE enum hspz_status hspz_srv_parse(const char *name, const uint8_t *answer, size_t len,
                                              bool tls, struct hspz_server_list *list,
                                              struct hspz_error *err);
