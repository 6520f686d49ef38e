/* The servers that the options name: --server, once or more, of which srv:NAME is looked up in DNS,
 * and again every HSPZ_SRV_SECONDS; or --servers FILE, which is read again when it changes.
 *
 * Owns:    its list.
 * Threads: one.
 * Errors:  of server_list.h; HSPZ_E_NO_SERVER: a file that names none; of srv.h. */
#pragma once

#include "client/cli.h"
#include "client/server_list.h"

struct hspz_servers;
#define HSPZ_SRV_SECONDS 30

/* What the options say is right; nothing is looked at. */
HSPZ_MUST_USE enum hspz_status hspz_servers_check(const struct hspz_cli *cli,
                                                  struct hspz_error *err);
/* Several may be meant: several options, or a file. */
bool hspz_servers_many(const struct hspz_cli *cli);
/* HSPZ_E_BAD_REQUEST then, of `what`: "it" (the command) or one of its options. */
HSPZ_MUST_USE enum hspz_status hspz_servers_check_one(const struct hspz_cli *cli, const char *what,
                                                      struct hspz_error *err);

HSPZ_MUST_USE enum hspz_status hspz_servers_open(const struct hspz_cli *cli,
                                                 struct hspz_servers **out, struct hspz_error *err);
void hspz_servers_close(struct hspz_servers **servers);
/* As they were last; none at first. */
const struct hspz_server_list *hspz_servers_list(const struct hspz_servers *servers);
/* Looks again. *changed: the list is another. After an error the list is what it was; one is told
 * once for each state of the file, and once until DNS names servers again. */
HSPZ_MUST_USE enum hspz_status hspz_servers_refresh(struct hspz_servers *servers, bool *changed,
                                                    struct hspz_error *err);
