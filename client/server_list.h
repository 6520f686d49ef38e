/* Addresses of servers, and the text file that may name them: one address to a line, as --server
 * takes it; `#` begins a comment; blanks and empty lines mean nothing. A server that stands there
 * twice gets two connections.
 *
 * Owns:    its addresses.
 * Errors:  HSPZ_E_BAD_REQUEST, naming the file, the line and what is wrong with it;
 *          HSPZ_E_TOO_LARGE, more than HSPZ_SERVERS_MOST; HSPZ_E_OUT_OF_MEMORY; HSPZ_E_IO. */
#pragma once

#include "client/hspz.h"

#include <stddef.h>
#include <stdint.h>

#define HSPZ_SERVERS_MOST 1024u
#define HSPZ_SERVER_FILE_BYTES (1u << 20)

struct hspz_named_server {
    struct hspz_address address;
    unsigned rank; /* used only while all of lower rank fail */
};

struct hspz_server_list {
    struct hspz_named_server *items;
    size_t count, room;
};

void hspz_server_list_fini(struct hspz_server_list *list); /* leaves an empty one */
HSPZ_MUST_USE enum hspz_status hspz_server_list_add(struct hspz_server_list *list,
                                                    const struct hspz_named_server *server,
                                                    struct hspz_error *err);
/* Adds what a file of this content names; `name` is for errors. */
HSPZ_MUST_USE enum hspz_status hspz_server_list_parse(struct hspz_server_list *list,
                                                      const char *name, const uint8_t *bytes,
                                                      size_t len, struct hspz_error *err);
/* The same of the file itself, of at most HSPZ_SERVER_FILE_BYTES. */
HSPZ_MUST_USE enum hspz_status hspz_server_list_read(struct hspz_server_list *list,
                                                     const char *path, struct hspz_error *err);
